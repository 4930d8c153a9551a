"""Element types and shapes that ports declare: of names that exist, and at one along an edge."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeGuard

import numpy as np
from modeci_mdf.mdf import Graph, InputPort, OutputPort

from mdf_scatter.checking.finding import Finding, error, place, warning
from mdf_scatter.checking.lists import no_tensor, text_in, uneven
from mdf_scatter.checking.scope import Scope
from mdf_scatter.dtypes import HALVES, NARROW, STANDARD, dtype_of, is_string, name_of, type_name
from mdf_scatter.errors import did_you_mean
from mdf_scatter.wiring import declared_shape

Shape = tuple[int | None, ...]
"""Sizes of the axes; None is a size that is not known before the model runs."""

LOOSE = frozenset(
    {
        "float",
        "int",
        "str",
        "number",
        "complex",
        "none",
        "any",
        "tensor",
        "array",
        "ndarray",
        "list",
        "tuple",
        "dict",
    }
)
"""What MDF files write for a type, in any case, that says nothing of the dtype."""


def dtype_declared(port: InputPort | OutputPort) -> np.dtype[Any] | None:
    """Return the dtype that a port declares; None where it declares none or a loose one."""
    try:
        return dtype_of(port.type) if isinstance(port.type, str) else None
    except (TypeError, ValueError):
        # `U` and a width that no array can have.
        return None


def shape_declared(port: InputPort | OutputPort) -> Shape | None:
    """Return the shape that a port declares, None where it declares none."""
    sizes = declared_shape(port)
    if sizes is None:
        return None
    return tuple(size if _is_size(size) else None for size in sizes)


def _is_size(size: Any) -> TypeGuard[int]:
    return isinstance(size, int) and not isinstance(size, bool) and 0 <= size < 2**63


def shape_text(shape: Shape) -> str:
    """Write a shape as Python does, with `?` for a size that is not known.

    >>> shape_text((8, None)), shape_text((2,))
    ('(8, ?)', '(2,)')
    """
    sizes = ["?" if size is None else str(size) for size in shape]
    return f"({', '.join(sizes)}{',' * (len(sizes) == 1)})"


def may_be_equal(left: Shape, right: Shape) -> bool:
    """Tell whether two shapes can be the same, sizes that are not known being equal to any."""
    return len(left) == len(right) and all(
        a is None or b is None or a == b for a, b in zip(left, right, strict=True)
    )


def as_array(value: Any) -> np.ndarray[Any, Any] | None:
    """Return a value in a file as an array; None where it is nothing that makes one."""
    if value is None or isinstance(value, (str, dict, set)):
        return None
    try:
        array = np.asarray(value)
    except (ValueError, TypeError, OverflowError):
        return None
    if array.dtype.kind in "SmM":
        return None
    is_text = array.dtype.kind == "O" and all(isinstance(item, str) for item in array.flat)
    return array if array.dtype.kind != "O" or is_text else None


def check_values(scope: Scope) -> Iterator[Finding]:
    """Find types that are no types, default values that are not of a port's type and shape, uneven lists."""
    for port in (*scope.node.input_ports, *scope.node.output_ports):
        if isinstance(port.type, str) and dtype_declared(port) is None and port.type.lower() not in LOOSE:
            yield warning(
                scope.where(port.id),
                f"type {port.type!r} is not known; expected an element type such as 'float32' or 'int64'"
                f"{did_you_mean(port.type, [*STANDARD, *NARROW])}",
            )
    for port in scope.node.input_ports:
        yield from _check_default(scope, port)
    for parameter in scope.node.parameters:
        yield from _check_even(scope.where(parameter.id), "value", parameter.value)
        yield from _check_even(
            scope.where(parameter.id), "default_initial_value", parameter.default_initial_value
        )
    for function in scope.node.functions:
        yield from _check_even(scope.where(function.id), "value", function.value)


def check_edge_types(graph: Graph, by_id: Mapping[str, Scope]) -> Iterator[Finding]:
    """Find edges between ports of different dtype or shape."""
    outputs = {(name, port.id): port for name, scope in by_id.items() for port in scope.node.output_ports}
    for edge in graph.edges:
        sender = outputs.get((edge.sender, edge.sender_port))
        receiver = by_id[edge.receiver].ports.get(edge.receiver_port) if edge.receiver in by_id else None
        if sender is None or receiver is None or edge.parameters:
            continue
        where = place(graph.id, edge.id)
        ends = f"{edge.sender}.{edge.sender_port}", f"{edge.receiver}.{edge.receiver_port}"
        left, right = dtype_declared(sender), dtype_declared(receiver)
        if left is not None and right is not None and not _is_same(left, right):
            yield error(
                where,
                f"{ends[0]} has dtype {type_name(left)} and {ends[1]} has {type_name(right)};"
                " expected the same dtype",
            )
        sent, taken = shape_declared(sender), shape_declared(receiver)
        if sent is not None and taken is not None and not may_be_equal(sent, taken):
            yield error(
                where,
                f"{ends[0]} has shape {shape_text(sent)} and {ends[1]} has {shape_text(taken)};"
                " expected the same shape",
            )


def _is_same(left: np.dtype[Any], right: np.dtype[Any]) -> bool:
    return left == right or (is_string(left) and is_string(right))


def _check_even(where: str, name: str, value: Any) -> Iterator[Finding]:
    if isinstance(value, list) and (problem := uneven(value)) is not None:
        yield error(where, f"{name} {problem}; expected a tensor")


def _check_default(scope: Scope, port: InputPort) -> Iterator[Finding]:
    where = scope.where(port.id)
    dtype, shape = dtype_declared(port), shape_declared(port)
    array = as_array(port.default_value)
    if array is None:
        # A port without a dtype may carry what is no tensor through MDF's engine.
        if dtype is not None and (problem := no_tensor(port.default_value)) is not None:
            yield error(where, f"default_value {problem}; expected a tensor of {name_of(dtype)}")
        return
    # MDF's engine broadcasts a number wherever it meets an array.
    if array.ndim and shape is not None and not may_be_equal(array.shape, shape):
        yield error(
            where,
            f"default_value has shape {shape_text(array.shape)}; expected {shape_text(shape)}, the port's",
        )
    if dtype is None or not array.size:
        return
    if is_string(array.dtype) and not is_string(dtype):
        yield error(
            where, f"default_value {text_in(port.default_value)}; expected {name_of(dtype)}, the port's"
        )
    elif is_string(dtype) and not is_string(array.dtype):
        yield error(
            where, f"default_value has dtype {name_of(array.dtype)}; expected {name_of(dtype)}, the port's"
        )
    elif array.dtype.kind == "c" and dtype.kind != "c":
        yield error(where, f"default_value has complex numbers; expected {name_of(dtype)}, the port's type")
    elif array.dtype.kind in "fc" and dtype.kind in "iub":
        yield error(
            where, f"default_value has fractions or exponents; expected {name_of(dtype)}, the port's type"
        )
    elif array.dtype.kind in "iu" and dtype.kind in "iu":
        limits = np.iinfo(dtype) if dtype.num < 24 and dtype.isbuiltin == 1 else None
        if limits is not None and (array.min() < limits.min or array.max() > limits.max):
            yield error(
                where, f"default_value does not fit {name_of(dtype)}: expected {limits.min}..{limits.max}"
            )
    elif array.dtype.kind in "iuf" and (dtype == np.float32 or dtype in HALVES):
        with np.errstate(over="ignore"):
            is_lost = np.isfinite(array) & np.isinf(array.astype(dtype))
        if is_lost.any():
            yield error(
                where, f"default_value does not fit {name_of(dtype)}: {array[is_lost][0]} becomes inf"
            )
