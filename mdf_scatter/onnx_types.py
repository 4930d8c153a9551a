"""ONNX's types as texts: `float32[N, ?]`, `sequence(float32[N])`, `map(int64, float32)`."""

from __future__ import annotations

import json
import re
from typing import Any

import onnx
import onnx_ir as ir

from mdf_scatter.dtypes import dtype_of, name_of

_TOKEN = re.compile(r'\s*("(?:[^"\\]|\\.)*"|[^\s()\[\],"]+|[()\[\],])')
_PLAIN_SIZE = re.compile(r'[^\s()\[\],"?]+')
_UNKNOWN = "undefined"

Size = int | str | None


def element_name(code: int) -> str | None:
    """Return the name of an element type by its number in ONNX; None where it is undefined."""
    dtype = ir.DataType(code)
    if dtype == ir.DataType.UNDEFINED:
        return None
    return "string" if dtype == ir.DataType.STRING else name_of(dtype.numpy())


def element_code(name: str) -> int | None:
    """Return the number that ONNX has for an element type; None where it has none of that name."""
    if name == _UNKNOWN:
        return 0
    dtype = dtype_of(name)
    if dtype is None:
        return None
    try:
        return int(ir.DataType.from_numpy(dtype))
    except TypeError:
        return None


def sizes_of(tensor: Any) -> list[Size] | None:
    """Return the sizes in a tensor type; None where not even the rank is known."""
    if not tensor.HasField("shape"):
        return None
    return [
        dim.dim_value if dim.HasField("dim_value") else dim.dim_param if dim.dim_param else None
        for dim in tensor.shape.dim
    ]


def type_text_of(proto: onnx.TypeProto) -> str:
    """Write a type as a text; `type_proto_of` reads it back.

    >>> tensor = onnx.helper.make_tensor_type_proto(1, ["N", None])
    >>> type_text_of(onnx.helper.make_sequence_type_proto(tensor))
    'sequence(float32[N, ?])'
    """
    match proto.WhichOneof("value"):
        case "tensor_type":
            return _tensor_text(proto.tensor_type)
        case "sparse_tensor_type":
            return f"sparse_tensor({_tensor_text(proto.sparse_tensor_type)})"
        case "sequence_type":
            return f"sequence({type_text_of(proto.sequence_type.elem_type)})"
        case "optional_type":
            return f"optional({type_text_of(proto.optional_type.elem_type)})"
        case "map_type":
            key = element_name(proto.map_type.key_type) or _UNKNOWN
            return f"map({key}, {type_text_of(proto.map_type.value_type)})"
    return "opaque" if proto.WhichOneof("value") else _UNKNOWN


def _tensor_text(tensor: Any) -> str:
    name = element_name(tensor.elem_type) or _UNKNOWN
    sizes = sizes_of(tensor)
    if sizes is None:
        return name
    return f"{name}[{', '.join(_size_text(size) for size in sizes)}]"


def _size_text(size: Size) -> str:
    if size is None:
        return "?"
    if isinstance(size, str) and (not _PLAIN_SIZE.fullmatch(size) or size.lstrip("-").isdecimal()):
        return json.dumps(size, ensure_ascii=False)
    return str(size)


def type_proto_of(text: str) -> onnx.TypeProto | None:
    """Read a type's text; None where it is not one.

    >>> type_proto_of("map(int64, float32)").map_type.key_type, type_proto_of("int")
    (7, None)
    """
    tokens: list[str] = []
    position = 0
    stripped = text.rstrip()
    while position < len(stripped):
        match = _TOKEN.match(stripped, position)
        if match is None:
            return None
        tokens.append(match[1])
        position = match.end()
    proto = onnx.TypeProto()
    try:
        rest = _read(tokens, proto)
    except (ValueError, IndexError):
        return None
    return None if rest else proto


def _read(tokens: list[str], proto: onnx.TypeProto) -> list[str]:
    """Read a type from the front of `tokens` and return the tokens that are left."""
    name, rest = tokens[0], tokens[1:]
    if rest[:1] == ["("]:
        inner = rest[1:]
        match name:
            case "sequence":
                left = _read(inner, proto.sequence_type.elem_type)
            case "optional":
                left = _read(inner, proto.optional_type.elem_type)
            case "map":
                proto.map_type.key_type = _code(inner[0])
                if inner[1] != ",":
                    raise ValueError(name)
                left = _read(inner[2:], proto.map_type.value_type)
            case "sparse_tensor":
                left = _read_tensor(inner, proto.sparse_tensor_type)
            case _:
                raise ValueError(name)
        if left[0] != ")":
            raise ValueError(name)
        return left[1:]
    return _read_tensor(tokens, proto.tensor_type)


def _read_tensor(tokens: list[str], tensor: Any) -> list[str]:
    tensor.elem_type = _code(tokens[0])
    rest = tokens[1:]
    if rest[:1] != ["["]:
        return rest
    tensor.shape.SetInParent()
    rest = rest[1:]
    while rest[0] != "]":
        dim = tensor.shape.dim.add()
        if rest[0].startswith('"'):
            dim.dim_param = json.loads(rest[0])
        elif rest[0].lstrip("-").isdecimal():
            dim.dim_value = int(rest[0])
        elif rest[0] != "?":
            dim.dim_param = rest[0]
        rest = rest[1:]
        if rest[0] == ",":
            rest = rest[1:]
    return rest[1:]


def _code(name: str) -> int:
    code = element_code(name)
    if code is None:
        raise ValueError(name)
    return code
