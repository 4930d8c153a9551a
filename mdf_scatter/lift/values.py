"""ONNX's values, types, attributes and names as what an MDF node can hold."""

from __future__ import annotations

import keyword
import re
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnx_ir as ir
from modeci_mdf.mdf import InputPort, OutputPort

from mdf_scatter.dtypes import name_of
from mdf_scatter.errors import FormatError, UnsupportedError
from mdf_scatter.ops import OPS
from mdf_scatter.tensors import array_of
from mdf_scatter.wiring import onnx_metadata


def arguments(node: ir.Node, imports: dict[str, int]) -> list[tuple[Any, list[ir.Value]]]:
    """Pair each formal input of a node's operator with the values given for it."""
    version = imports.get(node.domain, 1)
    if not onnx.defs.has(node.op_type, max_inclusive_version=version, domain=node.domain):
        raise UnsupportedError(
            f"{node.op_type} {node.name!r}: operator of domain {node.domain!r}, opset {version}, "
            "is not known and cannot be held in an MDF graph yet"
        )
    schema = onnx.defs.get_schema(node.op_type, max_inclusive_version=version, domain=node.domain)
    left = list(node.inputs)
    pairs: list[tuple[Any, list[ir.Value]]] = []
    for formal in schema.inputs:
        variadic = formal.option == onnx.defs.OpSchema.FormalParameterOption.Variadic
        taken, left = (left, []) if variadic else (left[:1], left[1:])
        pairs.append((formal, [value for value in taken if value is not None]))
    if left:
        raise FormatError(
            f"{node.op_type} {node.name!r} has {len(node.inputs)} inputs; "
            f"expected at most {len(schema.inputs)}"
        )
    return pairs


def function_of(node: ir.Node) -> str:
    """Return the name that a node's operator has as an MDF function."""
    if node.domain in ("", "ai.onnx"):
        return node.op_type if node.op_type in OPS else f"onnx::{node.op_type}"
    return f"{node.domain}::{node.op_type}"


def attribute_value(node: ir.Node, attribute: ir.Attr) -> Any:
    """Return an attribute as the Python value of a parameter.

    Raises:
        UnsupportedError: It is of a kind that no parameter holds yet.
    """
    match attribute.type:
        case ir.AttributeType.TENSOR:
            return array_of(attribute.as_tensor())
        case ir.AttributeType.FLOAT:
            return _float(attribute.value)
        case ir.AttributeType.FLOATS:
            return [_float(value) for value in attribute.value]
        case ir.AttributeType.INT | ir.AttributeType.STRING:
            return attribute.value
        case ir.AttributeType.INTS | ir.AttributeType.STRINGS:
            return list(attribute.value)
    raise UnsupportedError(
        f"{node.op_type} {node.name!r}: attribute {attribute.name!r} is a {attribute.type.name.lower()}, "
        "which cannot be held in an MDF graph yet"
    )


def _float(value: float) -> float:
    # ONNX keeps float attributes in 32 bits: 0.1 is meant, not 0.10000000149011612.
    return float(str(np.float32(value)))


def constant_of(value: ir.Value) -> npt.NDArray[Any]:
    """Return an initializer's array.

    Raises:
        FormatError: It has none.
    """
    if value.const_value is None:
        raise FormatError(f"initializer {value.name!r} has no value")
    return array_of(value.const_value)


def declared(value: ir.Value) -> dict[str, Any]:
    """Return what a port says of a value: MDF's type and shape, and ONNX's shape where MDF has none."""
    if value.type is not None and not isinstance(value.type, ir.TensorType):
        raise UnsupportedError(f"value {value.name!r} is a {value.type}; only tensors can be held in MDF yet")
    said: dict[str, Any] = {}
    if value.dtype is not None:
        dtype = value.dtype
        said["type"] = "string" if dtype == ir.DataType.STRING else name_of(dtype.numpy())
    if value.shape is not None:
        sizes = [size if isinstance(size, int) else size.value for size in value.shape]
        if sizes and all(isinstance(size, int) for size in sizes):
            said["shape"] = tuple(sizes)
        else:
            said["metadata"] = {"onnx": {"shape": sizes}}
    return said


def keep_name(port: InputPort | OutputPort, value: ir.Value, name: str) -> None:
    """Note a value's ONNX name in its port, unless lowering will give it that name by itself."""
    if value.name != name:
        kept = {"name": value.name} | onnx_metadata(port)
        port.metadata = {"onnx": kept}


def set_default(port: InputPort, value: ir.Value) -> None:
    """Give a port the initializer that ONNX has for its graph input."""
    if value.const_value is not None:
        port.default_value = array_of(value.const_value)


def safe_id(name: str, taken: set[str]) -> str:
    """Return an id that MDF's expressions can name: a Python identifier that is not taken."""
    base = re.sub(r"\W", "_", name, flags=re.ASCII) or "_"
    if base[0].isdigit() or keyword.iskeyword(base):
        base = f"_{base}"
    safe, count = base, 0
    while safe in taken:
        count += 1
        safe = f"{base}_{count}"
    return safe
