"""Functions of whole arrays in expressions: sums, extremes, shapes, and Python's own conversions."""

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
    elementwise,
    is_weak,
    kind_of,
    numpy_dtype,
    rank_of,
    sample,
    scale,
    select,
    shape_of,
)
from mdf_scatter.lower.builder import Literal, Operand
from mdf_scatter.lower.forms import is_nan, truncated

_BOOL, _INT64, _FLOAT64 = np.dtype(np.bool_), np.dtype(np.int64), np.dtype(np.float64)
_REDUCTIONS: dict[str, tuple[Callable[..., Any], str]] = {
    "sum": (np.sum, "ReduceSum"),
    "mean": (np.mean, "ReduceMean"),
    "prod": (np.prod, "ReduceProd"),
    "max": (np.max, "ReduceMax"),
    "min": (np.min, "ReduceMin"),
}
REDUCTIONS = frozenset(_REDUCTIONS)
"""NumPy's reductions, by name."""


def reduced(a: Arithmetic, name: str, operand: Operand, axis: Any, keepdims: bool) -> Operand:
    """Return one of NumPy's reductions.

    Args:
        a: Writes the operators.
        name: The reduction.
        operand: What is reduced.
        axis: A number, several, or None for all.
        keepdims: Whether reduced axes stay, with size 1.
    """
    function, op_type = _REDUCTIONS[name]
    if isinstance(operand, Literal):
        return a.folded(lambda value: function(value, axis=axis, keepdims=keepdims), [operand])
    dtype = function(sample(operand)).dtype
    axes = None if axis is None else list(axis) if isinstance(axis, tuple) else [axis]
    rank = rank_of(a, operand)
    if any(not -rank <= place < rank for place in axes or ()):
        raise UnsupportedError(f"{a.name}: axis {axis} is out of bounds for rank {rank}")
    # Halves are summed up in single precision.
    work = np.dtype(np.float32) if dtype == np.float16 else dtype
    value = a.cast(operand, np.dtype(np.int32) if work == _BOOL else work)
    found = _reduce(a, op_type, value, axes, keepdims)
    if work.kind == "f" and name in ("max", "min"):
        # onnxruntime passes over NaN.
        flags = a.cast(is_nan(a, [value]), np.dtype(np.int32))
        some = a.cast(_reduce(a, "ReduceMax", flags, axes, keepdims), _BOOL)
        found = a.op("Where", some, a.constant(np.nan, work), found)
    return a.cast(found, dtype)


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
    return _reduce(a, "ReduceProd" if product else "ReduceSum", a.cast(operand, dtype), [0], False)


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
            _reduce(a, f"Reduce{name.title()}", a.cast(value, np.dtype(np.int32)), [0], False), dtype
        )
    if dtype.kind != "f":
        return _reduce(a, f"Reduce{name.title()}", value, [0], False)
    # NaN beats nothing, and nothing beats a NaN that comes first.
    worst = a.constant(-np.inf if name == "max" else np.inf, dtype)
    numbers = a.op("Where", is_nan(a, [value]), worst, value)
    first = a.op("Gather", value, a.constant(0, _INT64), axis=0)
    found = _reduce(a, f"Reduce{name.title()}", numbers, [0], False)
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
    """Return what `int`, `float`, `round`, `math.floor`, `math.ceil` or `math.trunc` gives."""
    plain: dict[str, Callable[..., Any]] = {
        "int": int,
        "float": float,
        "round": round,
        "floor": math.floor,
        "ceil": math.ceil,
        "trunc": math.trunc,
    }
    if isinstance(operand, Literal):
        return a.folded(plain[name], [operand])
    value = _scalar(a, operand, f"the argument of {name}()")
    if name == "float":
        return a.weak(a.cast(value, _FLOAT64), float)
    if numpy_dtype(value).kind == "f" and name != "int":
        rounding = {"round": "Round", "floor": "Floor", "ceil": "Ceil"}
        value = a.op(rounding[name], value) if name in rounding else truncated(a, [value])
    return a.weak(a.cast(value, _INT64), int)


def rounded(a: Arithmetic, operand: Operand, digits: int) -> Operand:
    """Return `numpy.round`: half to even."""
    if isinstance(operand, Literal):
        return a.folded(lambda value: np.round(value, digits), [operand])
    dtype = np.round(sample(operand)).dtype
    value = a.cast(operand, dtype)
    if dtype.kind in "iu" and digits >= 0:
        return a.op("Identity", value)
    if dtype.kind in "iu":
        raise UnsupportedError(f"{a.name}: rounding integers to tens has no form in ONNX")
    if digits == 0:
        return a.op("Round", value)
    factor = a.constant(10.0 ** abs(digits), dtype)
    there, back = ("Mul", "Div") if digits > 0 else ("Div", "Mul")
    return a.op(back, a.op("Round", a.op(there, value, factor)), factor)


def clipped(a: Arithmetic, value: Operand, low: Operand, high: Operand) -> Operand:
    """Return `numpy.clip`."""
    if all(isinstance(operand, Literal) for operand in (value, low, high)):
        return a.folded(np.clip, [value, low, high])
    dtype = np.clip(sample(value), sample(low), sample(high)).dtype
    raised = elementwise(a, "Max", a.cast(value, dtype), a.cast(low, dtype))
    return elementwise(a, "Min", raised, a.cast(high, dtype))


def transposed(a: Arithmetic, operand: Operand, axes: Sequence[int] | None) -> Operand:
    """Return `numpy.transpose`."""
    if isinstance(operand, Literal):
        return a.folded(lambda value: np.transpose(value, axes), [operand])
    value = a.value(operand)
    rank = rank_of(a, value)
    if rank < 2:
        return value
    perm = [place % rank for place in axes] if axes is not None else list(range(rank))[::-1]
    return a.op("Transpose", value, perm=perm)


def dot(a: Arithmetic, left: Operand, right: Operand) -> Operand:
    """Return `numpy.dot`."""
    if isinstance(left, Literal) and isinstance(right, Literal):
        return a.folded(np.dot, [left, right])
    if 0 in (rank_of(a, left), rank_of(a, right)):
        return strong(a, scale(a, left, right))
    if rank_of(a, right) > 2:
        raise UnsupportedError(f"{a.name}: numpy.dot with an array of rank above 2 has no form in ONNX")
    return a.python(operator.matmul, np.matmul, "MatMul", left, right)


def like(a: Arithmetic, operand: Operand, number: int) -> Operand:
    """Return `numpy.zeros_like` or `numpy.ones_like`."""
    if isinstance(operand, Literal):
        return a.folded(lambda value: np.full_like(value, number), [operand])
    value = a.value(operand)
    return a.op("Expand", a.constant(number, numpy_dtype(value)), a.op("Shape", value))


def stacked(a: Arithmetic, parts: Sequence[Operand]) -> Operand:
    """Return the array that NumPy makes of a list of values of one shape."""
    if all(isinstance(part, Literal) for part in parts):
        literal = a.folded(lambda *values: np.array(values), parts)
        return Literal(literal.value, listed=True)
    try:
        dtype = np.array([np.reshape(sample(part), ()) for part in parts]).dtype
    except (TypeError, ValueError) as error:
        raise UnsupportedError(f"{a.name}: {error}") from error
    shapes = [shape_of(part) for part in parts]
    if None in shapes or any(shape != shapes[0] for shape in shapes):
        raise UnsupportedError(f"{a.name}: a list of values of different or unknown shapes")
    rank = len(shapes[0] or ())
    if rank == 0:
        one = a.constant([1], _INT64)
        return a.op("Concat", *(a.op("Reshape", a.cast(part, dtype), one) for part in parts), axis=0)
    return a.op("Concat", *(_with_axis(a, a.cast(part, dtype)) for part in parts), axis=0)


def strong(a: Arithmetic, operand: Operand) -> Operand:
    """Return an operand as NumPy's functions give it: no longer a Python number."""
    if not is_weak(operand):
        return operand
    if isinstance(operand, Literal):
        return Literal(np.asarray(operand.value)[()])
    return a.op("Identity", operand)


def _with_axis(a: Arithmetic, value: ir.Value) -> ir.Value:
    shape = a.op("Concat", a.constant([1], _INT64), a.op("Shape", value), axis=0)
    row = a.op("Reshape", value, shape)
    if value.shape is not None:
        row.shape = ir.Shape([1, *value.shape])
    return row


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


def _reduce(a: Arithmetic, op_type: str, value: ir.Value, axes: list[int] | None, keepdims: bool) -> ir.Value:
    dtype = numpy_dtype(value)
    if dtype.kind in "iu" and dtype.itemsize < 4 and op_type not in ("ReduceMax", "ReduceMin"):
        wide = a.cast(value, np.dtype(np.int32))
        return a.cast(_reduce(a, op_type, wide, axes, keepdims), dtype)
    # From these operator sets on, the axes are an input.
    since = 13 if op_type == "ReduceSum" else 18
    keep = int(keepdims)
    if axes is None or a.builder.opset_imports[""] < since:
        attributes = {} if axes is None else {"axes": axes}
        return a.op(op_type, value, keepdims=keep, **attributes)
    return a.op(op_type, value, a.constant(axes, _INT64), keepdims=keep)
