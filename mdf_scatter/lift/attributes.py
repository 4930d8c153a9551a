"""ONNX's attributes as parameters: readable values, and what a value cannot tell in the metadata."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
from modeci_mdf.mdf import Parameter

from mdf_scatter import expressions
from mdf_scatter.attributes import kind_of
from mdf_scatter.errors import FormatError
from mdf_scatter.onnx_types import type_text_of
from mdf_scatter.tensors import array_of_proto, text_of

GraphId = Callable[[onnx.GraphProto, str], str]
"""Takes a subgraph to be lifted and the name of its attribute, and gives the id that its graph will have."""


def parameter(
    attribute: onnx.AttributeProto,
    name: str,
    declared: ir.AttributeType | None,
    *,
    where: str,
    names: Collection[str],
    graph_id: GraphId,
) -> Parameter:
    """Return an attribute as a parameter.

    Args:
        attribute: The attribute.
        name: Id of the parameter.
        declared: The kind that the operator's schema declares; None where there is no schema.
        where: Names the node and operator, for messages.
        names: What texts may not be mistaken for: the names of the node's parts.
        graph_id: See `GraphId`.

    Raises:
        FormatError: The attribute has no kind, or its tensor's data is not there.
    """
    kind = ir.AttributeType(attribute.type)
    if attribute.ref_attr_name:
        value: Any = {"attribute": attribute.ref_attr_name}
        settled = declared
    else:
        value = _value(attribute, kind, where, names, graph_id)
        settled = declared or kind_of(value)
    kept: dict[str, Any] = {} if kind == settled else {"kind": kind.name.lower()}
    if attribute.doc_string:
        kept["doc_string"] = attribute.doc_string
    if kind is ir.AttributeType.SPARSE_TENSOR and attribute.sparse_tensor.values.name:
        kept["tensor"] = {"name": attribute.sparse_tensor.values.name}
    if kind is ir.AttributeType.TENSOR and not attribute.ref_attr_name:
        tensor = {
            key: getattr(attribute.t, key) for key in ("name", "doc_string") if getattr(attribute.t, key)
        }
        if tensor:
            kept["tensor"] = tensor
    return Parameter(id=name, value=value, metadata={"onnx": kept} if kept else None)


def sparse_value(tensor: onnx.SparseTensorProto, where: str) -> dict[str, Any]:
    """Return a sparse tensor as a mapping of its values, their indices, and its sizes."""
    return {
        "values": array_of_proto(tensor.values, where),
        "indices": array_of_proto(tensor.indices, where),
        "dims": list(tensor.dims),
    }


def _value(
    attribute: onnx.AttributeProto,
    kind: ir.AttributeType,
    where: str,
    names: Collection[str],
    graph_id: GraphId,
) -> Any:
    tensor_where = f"{where}: attribute {attribute.name!r}"
    match kind:
        case ir.AttributeType.INT:
            return attribute.i
        case ir.AttributeType.INTS:
            return list(attribute.ints)
        case ir.AttributeType.FLOAT:
            return _float(attribute.f)
        case ir.AttributeType.FLOATS:
            return [_float(value) for value in attribute.floats]
        case ir.AttributeType.STRING:
            text = text_of(attribute.s)
            # A text that reads as a literal, or as a name, is quoted so that it stays the text it is.
            plain = text not in names and expressions.literal(text) is None
            return text if plain else repr(text)
        case ir.AttributeType.STRINGS:
            return [text_of(value) for value in attribute.strings]
        case ir.AttributeType.TENSOR:
            return array_of_proto(attribute.t, tensor_where)
        case ir.AttributeType.TENSORS:
            return [array_of_proto(tensor, tensor_where) for tensor in attribute.tensors]
        case ir.AttributeType.SPARSE_TENSOR:
            return sparse_value(attribute.sparse_tensor, tensor_where)
        case ir.AttributeType.SPARSE_TENSORS:
            return [sparse_value(tensor, tensor_where) for tensor in attribute.sparse_tensors]
        case ir.AttributeType.TYPE_PROTO:
            return type_text_of(attribute.tp)
        case ir.AttributeType.TYPE_PROTOS:
            return [type_text_of(proto) for proto in attribute.type_protos]
        case ir.AttributeType.GRAPH:
            return {"graph": graph_id(attribute.g, attribute.name)}
        case ir.AttributeType.GRAPHS:
            return [
                {"graph": graph_id(graph, f"{attribute.name}.{position}")}
                for position, graph in enumerate(attribute.graphs)
            ]
    raise FormatError(f"{where}: attribute {attribute.name!r} has no kind")


def _float(value: float) -> float:
    # ONNX keeps float attributes in 32 bits: 0.1 is meant, not 0.10000000149011612.
    return float(str(np.float32(value)))
