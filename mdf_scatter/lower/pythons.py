"""What Python's own functions give in expressions: sums, extremes, choices, lengths and conversions."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from functools import reduce as fold
from typing import Any

import numpy as np
import onnx_ir as ir

from mdf_scatter.errors import UnsupportedError
from mdf_scatter.lower.arithmetic import (
    Arithmetic,
    dtype_of,
    is_weak,
    kind_of,
    numpy_dtype,
    rank_of,
    sample,
    select,
    shape_of,
)
from mdf_scatter.lower.builder import Literal, Operand
from mdf_scatter.lower.forms import is_nan, truncated
from mdf_scatter.lower.reductions import decided, reduced_along

_BOOL, _INT64, _FLOAT64 = np.dtype(np.bool_), np.dtype(np.int64), np.dtype(np.float64)


def python_sum(a: Arithmetic, operand: Operand | Sequence[Operand], *, product: bool = False) -> Operand:
    """Return what Python's `sum` (or `math.prod`) gives: it adds up along the first axis."""
    plain = math.prod if product else sum
    if isinstance(operand, Literal):
        return a.folded(plain, [operand])
    if not isinstance(operand, ir.Value):
        start: Operand = Literal(1 if product else 0)
        ufunc, op_type = (np.multiply, "Mul") if product else (np.add, "Add")
        plain_step = operator.mul if product else operator.add
        return fold(lambda total, part: a.python(plain_step, ufunc, op_type, total, part), operand, start)
    _iterable(a, "prod" if product else "sum", operand)
    dtype = (sample(operand) * 1).dtype if product else (sample(operand) + 0).dtype
    return reduced_along(a, "ReduceProd" if product else "ReduceSum", a.cast(operand, dtype), [0], False)


def python_extreme(a: Arithmetic, name: str, operands: Sequence[Operand]) -> Operand:
    """Return what Python's `max` or `min` gives: the first value that no later one beats."""
    plain, ufunc, op_type = {
        "max": (operator.gt, np.greater, "Greater"),
        "min": (operator.lt, np.less, "Less"),
    }[name]
    if all(isinstance(operand, Literal) for operand in operands):
        return a.folded(max if name == "max" else min, operands)
    if len(operands) > 1:
        best = operands[0]
        for other in operands[1:]:
            best = chosen(a, a.python(plain, ufunc, op_type, other, best), other, best)
        return best
    (operand,) = operands
    value = a.value(operand)
    _iterable(a, name, value)
    if rank_of(a, value) != 1:
        raise UnsupportedError(
            f"{a.name}: {name}() compares the rows of an array of rank {rank_of(a, value)}"
        )
    dtype = numpy_dtype(value)
    if dtype == _BOOL:
        return a.cast(
            reduced_along(a, f"Reduce{name.title()}", a.cast(value, np.dtype(np.int32)), [0], False), dtype
        )
    if dtype.kind != "f":
        return reduced_along(a, f"Reduce{name.title()}", value, [0], False)
    # NaN beats nothing, and nothing beats a NaN that comes first.
    worst = a.constant(-np.inf if name == "max" else np.inf, dtype)
    numbers = a.op("Where", is_nan(a, [value]), worst, value)
    first = a.op("Gather", value, a.constant(0, _INT64), axis=0)
    found = reduced_along(a, f"Reduce{name.title()}", numbers, [0], False)
    return a.op("Where", is_nan(a, [first]), first, found)


def chosen(a: Arithmetic, test: Operand, left: Operand, right: Operand) -> Operand:
    """Return what `left if test else right` gives.

    Two Python numbers give one again. A Python number beside an array takes its dtype and shape.

    Raises:
        UnsupportedError: Which shape the result has would depend on the values.
    """
    if isinstance(test, Literal):
        return left if truth_of(a, test) else right
    shapes = [shape_of(side) for side in (left, right) if not is_weak(side)]
    if len(shapes) == 2 and (None in shapes or shapes[0] != shapes[1]):
        raise UnsupportedError(f"{a.name}: a choice between arrays of different or unknown shapes")
    condition = truth(a, test)
    if not (is_weak(left) and is_weak(right)):
        return select(a, condition, left, right)
    kind = type(kind_of(left)(1) + kind_of(right)(1)) if kind_of(left) != kind_of(right) else kind_of(left)
    dtype = dtype_of(Literal(kind(1)))
    return a.weak(a.op("Where", condition, a.cast(left, dtype), a.cast(right, dtype)), kind)


def truth_of(a: Arithmetic, operand: Literal) -> bool:
    """Return the truth of a constant."""
    return bool(a.folded(bool, [operand]).value)


def truth(a: Arithmetic, operand: Operand) -> ir.Value:
    """Return what `bool(x)` gives, as a scalar.

    Raises:
        UnsupportedError: It is not certain that there is exactly one element.
    """
    return a.cast(_scalar(a, operand, "a condition"), _BOOL)


def length(a: Arithmetic, operand: Operand | Sequence[Operand]) -> Operand:
    """Return what `len` gives."""
    if isinstance(operand, Literal):
        return a.folded(len, [operand])
    if not isinstance(operand, ir.Value):
        return Literal(len(operand))
    _iterable(a, "len", operand)
    size = (shape_of(operand) or (None,))[0]
    if isinstance(size, int):
        return Literal(size)
    shape = a.op("Shape", operand)
    return a.weak(a.op("Gather", shape, a.constant(0, _INT64), axis=0), int)


def converted(a: Arithmetic, name: str, operand: Operand) -> Operand:
    """Return what `int`, `float`, `bool`, `round`, `math.floor`, `math.ceil` or `math.trunc` gives."""
    plain: dict[str, Callable[..., Any]] = {
        "int": int,
        "float": float,
        "bool": bool,
        "round": round,
        "floor": math.floor,
        "ceil": math.ceil,
        "trunc": math.trunc,
    }
    if isinstance(operand, Literal):
        return a.folded(plain[name], [operand])
    value = _scalar(a, operand, f"the argument of {name}()")
    if name == "bool":
        return a.weak(a.cast(value, _BOOL), bool)
    if name == "float":
        return a.weak(a.cast(value, _FLOAT64), float)
    if numpy_dtype(value).kind == "f" and name != "int":
        rounding = {"round": "Round", "floor": "Floor", "ceil": "Ceil"}
        value = a.op(rounding[name], value) if name in rounding else truncated(a, [value])
    return a.weak(a.cast(value, _INT64), int)


def _scalar(a: Arithmetic, operand: Operand, what: str) -> ir.Value:
    value = a.value(operand)
    shape = shape_of(value)
    if shape is None or any(size != 1 for size in shape):
        known = "unknown shape" if shape is None else f"shape {shape}"
        raise UnsupportedError(f"{a.name}: {what} has {known}; expected one element")
    return a.op("Reshape", value, a.constant([], _INT64)) if shape else value


def _iterable(a: Arithmetic, name: str, operand: Operand) -> None:
    if rank_of(a, operand) == 0:
        raise UnsupportedError(f"{a.name}: {name}() of a single number; expected several values")


def python_decided(a: Arithmetic, name: str, operand: Operand) -> Operand:
    """Return what Python's `any` or `all` gives."""
    if isinstance(operand, Literal):
        return a.folded(any if name == "any" else all, [operand])
    if rank_of(a, operand) != 1:
        raise UnsupportedError(
            f"{a.name}: {name}() of an array of rank {rank_of(a, operand)}; write numpy.{name}"
        )
    return a.weak(decided(name, a, operand), bool)


def taken_out(a: Arithmetic, operand: Operand) -> Operand:
    """Return what the method `item` gives: a Python number of the only element."""
    if isinstance(operand, Literal):
        return a.folded(lambda value: value.item(), [operand])
    kind = type(np.ones((), dtype_of(operand)).item())
    dtype = {bool: _BOOL, int: _INT64}.get(kind, _FLOAT64)
    return a.weak(a.cast(_scalar(a, operand, "what item() is called of"), dtype), kind)
