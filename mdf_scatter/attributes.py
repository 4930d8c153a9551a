"""Python values of parameters as ONNX attributes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnx_ir as ir

from mdf_scatter.errors import UnsupportedError
from mdf_scatter.onnx_types import type_proto_of
from mdf_scatter.tensors import array_of_proto, bytes_of, ir_tensor

Kind = ir.AttributeType

_ELEMENTS = {
    Kind.INT: Kind.INTS,
    Kind.FLOAT: Kind.FLOATS,
    Kind.STRING: Kind.STRINGS,
    Kind.TENSOR: Kind.TENSORS,
    Kind.SPARSE_TENSOR: Kind.SPARSE_TENSORS,
    Kind.GRAPH: Kind.GRAPHS,
}


def kind_of(value: Any) -> Kind | None:
    """Return the kind of attribute that a Python value is by itself; None where it could be several, or none.

    >>> kind_of(1).name, kind_of([0.5]).name, kind_of({"graph": "body"}).name, kind_of([])
    ('INT', 'FLOATS', 'GRAPH', None)
    """
    if isinstance(value, list):
        kinds = {kind_of(item) for item in value}
        inner = kinds.pop() if len(kinds) == 1 else None
        return None if inner is None else _ELEMENTS.get(inner)
    if isinstance(value, dict):
        return Kind.GRAPH if is_graph(value) else Kind.SPARSE_TENSOR if is_sparse(value) else None
    if isinstance(value, np.ndarray):
        return Kind.TENSOR
    if isinstance(value, (bool, int, np.integer)):
        return Kind.INT
    if isinstance(value, (float, np.floating)):
        return Kind.FLOAT
    return Kind.STRING if isinstance(value, str) else None


def is_graph(value: Any) -> bool:
    """Tell whether a value names a graph of the model: `{graph: body}`."""
    return isinstance(value, dict) and list(value) == ["graph"] and isinstance(value["graph"], str)


def is_reference(value: Any) -> bool:
    """Tell whether a value stands for an attribute of the function it is in: `{attribute: alpha}`."""
    return isinstance(value, dict) and list(value) == ["attribute"] and isinstance(value["attribute"], str)


def is_sparse(value: Any) -> bool:
    """Tell whether a value is a sparse tensor: `{values: ..., indices: ..., dims: ...}`."""
    return isinstance(value, dict) and set(value) == {"values", "indices", "dims"}


def graphs_in(value: Any) -> list[str]:
    """Return the ids of the graphs that a parameter's value names."""
    values = value if isinstance(value, list) else [value]
    return [item["graph"] for item in values if is_graph(item)]


def attribute(
    name: str,
    value: Any,
    kind: Kind,
    *,
    subgraph: Callable[[str], ir.Graph] | None = None,
    kept: Mapping[str, Any] | None = None,
) -> ir.Attr | onnx.AttributeProto:
    """Return a Python value as an ONNX attribute of a kind.

    Args:
        name: Name of the attribute.
        value: The value.
        kind: Its kind.
        subgraph: Gives the graph that an id stands for.
        kept: What the parameter's metadata keeps of ONNX.

    Returns:
        The attribute, as ONNX's own message where the typed form has nothing for it.

    Raises:
        UnsupportedError: The value is none of that kind.
    """
    kept = kept or {}
    doc = kept.get("doc_string")
    if is_reference(value):
        return ir.Attr(name, kind, None, ref_attr_name=value["attribute"], doc_string=doc)
    if kind in (Kind.GRAPH, Kind.GRAPHS):
        return ir.Attr(name, kind, _graphs(name, value, kind, subgraph), doc_string=doc)
    try:
        if kind in _OWN_FORM or (kind in (Kind.STRING, Kind.STRINGS) and not _is_utf8(value)):
            proto = onnx.AttributeProto(name=name, type=kind.name, doc_string=doc)
            _OWN_FORM.get(kind, _fill_bytes)(proto, value)
            if kind is Kind.SPARSE_TENSOR:
                proto.sparse_tensor.values.name = kept.get("tensor", {}).get("name", "")
            return proto
        return ir.Attr(name, kind, _PLAIN[kind](value, kept), doc_string=doc)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise UnsupportedError(
            f"attribute {name!r} of kind {kind.name} cannot be written from {type(value).__name__}"
        ) from error


def sparse_proto(value: Mapping[str, Any], name: str | None = None) -> onnx.SparseTensorProto:
    """Return a mapping of values, indices and dims as ONNX's sparse tensor."""
    proto = onnx.SparseTensorProto(dims=value["dims"])
    proto.values.CopyFrom(ir.to_proto(ir_tensor(np.asarray(value["values"]), name)))
    proto.indices.CopyFrom(ir.to_proto(ir_tensor(np.asarray(value["indices"], np.int64))))
    return proto


def sparse_array(proto: onnx.SparseTensorProto) -> npt.NDArray[Any]:
    """Return the dense array that a sparse tensor stands for."""
    values, indices = array_of_proto(proto.values, "values"), array_of_proto(proto.indices, "indices")
    dense = np.zeros(tuple(proto.dims), values.dtype)
    places = tuple(indices.T) if indices.ndim == 2 else np.unravel_index(indices, dense.shape)
    dense[places] = values
    return dense


def _graphs(name: str, value: Any, kind: Kind, subgraph: Callable[[str], ir.Graph] | None) -> Any:
    values = value if isinstance(value, list) else [value]
    if subgraph is None or not all(map(is_graph, values)):
        raise UnsupportedError(f"attribute {name!r} is {value!r}; expected a graph, as in {{graph: body}}")
    graphs = [subgraph(item["graph"]) for item in values]
    return graphs[0] if kind is Kind.GRAPH else graphs


def _items(value: Any) -> list[Any]:
    return list(np.atleast_1d(np.asarray(value)).tolist())


def _text(value: Any) -> str:
    return str(value)


def _tensor(value: Any, kept: Mapping[str, Any]) -> ir.TensorProtocol:
    said = kept.get("tensor", {})
    tensor = ir_tensor(np.asarray(value), said.get("name"))
    if "doc_string" in said:
        tensor.doc_string = said["doc_string"]
    return tensor


_PLAIN: dict[Kind, Callable[[Any, Mapping[str, Any]], Any]] = {
    Kind.INT: lambda value, _: int(value),
    Kind.FLOAT: lambda value, _: float(value),
    Kind.STRING: lambda value, _: _text(value),
    Kind.INTS: lambda value, _: [int(item) for item in _items(value)],
    Kind.FLOATS: lambda value, _: [float(item) for item in _items(value)],
    Kind.STRINGS: lambda value, _: [_text(item) for item in _texts(value)],
    Kind.TENSOR: _tensor,
    Kind.TENSORS: lambda value, _: [ir_tensor(np.asarray(item)) for item in value],
}


def _texts(value: Any) -> list[Any]:
    return [value] if isinstance(value, str) else list(value)


def _is_utf8(value: Any) -> bool:
    try:
        "".join(map(_text, _texts(value))).encode()
    except UnicodeEncodeError:
        return False
    return True


def _fill_bytes(proto: onnx.AttributeProto, value: Any) -> None:
    if proto.type == onnx.AttributeProto.STRING:
        proto.s = bytes_of(_text(value))
    else:
        proto.strings.extend(bytes_of(_text(item)) for item in _texts(value))


def _fill_type(proto: onnx.AttributeProto, value: Any) -> None:
    kind = type_proto_of(value)
    if kind is None:
        raise ValueError(value)
    proto.tp.CopyFrom(kind)


def _fill_types(proto: onnx.AttributeProto, value: Any) -> None:
    for text in value:
        kind = type_proto_of(text)
        if kind is None:
            raise ValueError(text)
        proto.type_protos.add().CopyFrom(kind)


_OWN_FORM: dict[Kind, Callable[[onnx.AttributeProto, Any], None]] = {
    Kind.SPARSE_TENSOR: lambda proto, value: proto.sparse_tensor.CopyFrom(sparse_proto(value)),
    Kind.SPARSE_TENSORS: lambda proto, value: proto.sparse_tensors.extend(map(sparse_proto, value)),
    Kind.TYPE_PROTO: _fill_type,
    Kind.TYPE_PROTOS: _fill_types,
}
"""Kinds that the typed form has nothing for, or nothing for all of."""
