"""What ports say of the types of values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import onnx
import onnx_ir as ir
from google.protobuf.json_format import ParseDict  # type: ignore[import-untyped]
from modeci_mdf.mdf import InputPort, OutputPort

from mdf_scatter.dtypes import dtype_of
from mdf_scatter.lower.protos import note, value_proto
from mdf_scatter.onnx_types import type_proto_of
from mdf_scatter.wiring import declared_shape, onnx_metadata


def type_of(port: InputPort | OutputPort) -> onnx.TypeProto | None:
    """Return the type that a port declares beyond a tensor's dtype; None where it declares no such."""
    kept = onnx_metadata(port).get("type")
    if isinstance(kept, Mapping):
        proto: onnx.TypeProto = ParseDict(kept, onnx.TypeProto())
        return proto
    if not port.type or "(" not in port.type:
        return None
    return type_proto_of(port.type)


def is_declared(port: OutputPort) -> bool:
    """Tell whether a port says all that there is to say of its value's type."""
    if type_of(port) is not None:
        return True
    return bool(port.type and dtype_of(port.type)) and declared_shape(port) is not None


def declared_type(port: InputPort | OutputPort) -> onnx.TypeProto:
    """Return what a port says of its value's type, an empty message where it says nothing."""
    proto = type_of(port)
    if proto is None:
        value = ir.Value(name=port.id)
        describe(value, port)
        proto = value_proto(value).type if value.type is not None else onnx.TypeProto()
    return proto


def typed_value(name: str, port: InputPort | OutputPort) -> ir.Value | None:
    """Return a value of the type, other than a tensor's, that a port declares; None without one."""
    proto = type_of(port)
    if proto is None:
        return None
    value = ir.val(name)
    _give(value, proto)
    return value


def describe(value: ir.Value, port: InputPort | OutputPort) -> None:
    """Give a value the type that its port declares, where inference could not tell."""
    proto = type_of(port)
    if proto is not None:
        if value.type is None:
            _give(value, proto)
        return
    dtype = dtype_of(port.type) if port.type else None
    if value.type is None and dtype is not None:
        value.type = ir.TensorType(ir.DataType.from_numpy(dtype))
    shape = declared_shape(port)
    if value.shape is None and shape is not None:
        value.shape = ir.Shape(shape)


def document(value: ir.Value, port: InputPort | OutputPort) -> None:
    """Give a value the documentation that its port keeps of ONNX."""
    kept = onnx_metadata(port)
    if "doc_string" in kept:
        value.doc_string = str(kept["doc_string"])
    for key, text in (kept.get("metadata_props") or {}).items():
        value.metadata_props[str(key)] = str(text)


def _give(value: ir.Value, proto: onnx.TypeProto) -> None:
    try:
        value.type = ir.serde.deserialize_type_proto_for_type(proto)
        value.shape = ir.serde.deserialize_type_proto_for_shape(proto)
    except (NotImplementedError, ir.serde.SerdeError):
        # The typed form has no maps; the message stands beside the value.
        value.type, value.shape = None, None
        note(value, type=proto)
    if _has_denotations(proto):
        note(value, type=proto)


def _has_denotations(proto: onnx.TypeProto) -> bool:
    dims: Any = proto.tensor_type.shape.dim
    return bool(proto.denotation or any(dim.denotation for dim in dims))
