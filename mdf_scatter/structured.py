"""Values that are no tensors: lists for sequences, None for an empty optional, dicts for maps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import onnx

from mdf_scatter.errors import InputError
from mdf_scatter.onnx_types import type_proto_of, type_text_of

ReadTensor = Callable[[str, Any, onnx.TypeProto], Any]
"""Returns a tensor that stands inside another value: where it stands, what is given, its type."""


def structured_type(text: str | None) -> onnx.TypeProto | None:
    """Return the type that a port's text names, where it is no tensor's; None else.

    >>> structured_type("sequence(float32[N])").WhichOneof("value"), structured_type("float32")
    ('sequence_type', None)
    """
    if not text or "(" not in text:
        return None
    proto = type_proto_of(text)
    return None if proto is None or proto.HasField("tensor_type") else proto


def read_structured(where: str, value: Any, proto: onnx.TypeProto, read_tensor: ReadTensor) -> Any:
    """Return what is given for a value of a type, its tensors as arrays.

    Raises:
        InputError: It is of another form.
    """
    match proto.WhichOneof("value"):
        case "optional_type":
            if value is None:
                return None
            return read_structured(where, value, proto.optional_type.elem_type, read_tensor)
        case "sequence_type":
            if not isinstance(value, (list, tuple)):
                raise InputError(
                    f"{where} is {type(value).__name__}; expected a list, for {type_text_of(proto)}"
                )
            inner = proto.sequence_type.elem_type
            return [
                read_structured(f"{where}[{at}]", item, inner, read_tensor) for at, item in enumerate(value)
            ]
        case "map_type":
            if not isinstance(value, dict):
                raise InputError(
                    f"{where} is {type(value).__name__}; expected a dict, for {type_text_of(proto)}"
                )
            return value
        case "tensor_type":
            return read_tensor(where, value, proto)
    return value
