"""NumPy's functions in expressions that reduce axes: sums, extremes, their places, moments and norms."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import onnx_ir as ir

from mdf_scatter.errors import UnsupportedError
from mdf_scatter.lower.arithmetic import Arithmetic, dtype_of, numpy_dtype, rank_of, sample, shape_of
from mdf_scatter.lower.builder import Operand
from mdf_scatter.lower.forms import is_nan, square

Axis = int | Sequence[int] | None

_BOOL, _INT64 = np.dtype(np.bool_), np.dtype(np.int64)
_FLOAT16, _FLOAT32 = np.dtype(np.float16), np.dtype(np.float32)
_OPERATORS: dict[str, tuple[Callable[..., Any], str]] = {
    "sum": (np.sum, "ReduceSum"),
    "mean": (np.mean, "ReduceMean"),
    "prod": (np.prod, "ReduceProd"),
    "max": (np.max, "ReduceMax"),
    "min": (np.min, "ReduceMin"),
}


def reduced(
    name: str, a: Arithmetic, operand: Operand, axis: Axis = None, *, keepdims: bool = False
) -> ir.Value:
    """Return one of NumPy's reductions.

    Args:
        name: The reduction.
        a: Writes the operators.
        operand: What is reduced.
        axis: A number, several, or None for all.
        keepdims: Whether reduced axes stay, with size 1.
    """
    function, op_type = _OPERATORS[name]
    dtype = function(sample(operand)).dtype
    axes = axes_of(a, operand, axis)
    # Halves are summed up in single precision.
    work = _FLOAT32 if dtype == _FLOAT16 else dtype
    value = a.cast(operand, np.dtype(np.int32) if work == _BOOL else work)
    found = reduced_along(a, op_type, value, axes, keepdims)
    if work.kind == "f" and name in ("max", "min"):
        # onnxruntime passes over NaN.
        some = decided("any", a, is_nan(a, [value]), axis, keepdims=keepdims)
        found = a.op("Where", some, a.constant(np.nan, work), found)
    return a.cast(found, dtype)


def decided(
    name: str, a: Arithmetic, operand: Operand, axis: Axis = None, *, keepdims: bool = False
) -> ir.Value:
    """Return `numpy.any` or `numpy.all`: of what is not zero."""
    value = a.value(operand)
    axes = axes_of(a, value, axis)
    if numpy_dtype(value) != _BOOL:
        value = a.op("Not", a.op("Equal", value, a.constant(0, numpy_dtype(value))))
    counted = value if name == "any" else a.op("Not", value)
    # A sum, not an extreme, of which an empty array has none.
    count = reduced_along(a, "ReduceSum", a.cast(counted, _INT64), axes, keepdims)
    some = a.op("Greater", count, a.constant(0, _INT64))
    return some if name == "any" else a.op("Not", some)


def variance(
    a: Arithmetic, operand: Operand, axis: Axis = None, *, ddof: float = 0, keepdims: bool = False
) -> ir.Value:
    """Return `numpy.var`: the mean square of the distances from the mean."""
    dtype = np.var(sample(operand)).dtype
    value = a.cast(operand, _FLOAT32 if dtype == _FLOAT16 else dtype)
    axes = axes_of(a, value, axis)
    distance = a.op("Sub", value, reduced_along(a, "ReduceMean", value, axes, True))
    squares = square(a, [distance])
    if ddof == 0:
        return a.cast(reduced_along(a, "ReduceMean", squares, axes, keepdims), dtype)
    shape = shape_of(value) or ()
    sizes = [shape[place] for place in (range(len(shape)) if axes is None else axes)]
    if not all(isinstance(size, int) for size in sizes):
        raise UnsupportedError(f"{a.name}: the size of what has a ddof is not known; give its port a shape")
    count = max(np.prod([size for size in sizes if isinstance(size, int)]) - ddof, 0)
    total = reduced_along(a, "ReduceSum", squares, axes, keepdims)
    return a.cast(a.op("Div", total, a.constant(count, numpy_dtype(value))), dtype)


def deviation(
    a: Arithmetic, operand: Operand, axis: Axis = None, *, ddof: float = 0, keepdims: bool = False
) -> ir.Value:
    """Return `numpy.std`."""
    return a.op("Sqrt", variance(a, operand, axis, ddof=ddof, keepdims=keepdims))


def norm(
    a: Arithmetic,
    operand: Operand,
    ord: Any = None,  # noqa: A002  (NumPy's name)
    axis: Axis = None,
    *,
    keepdims: bool = False,
) -> ir.Value:
    """Return `numpy.linalg.norm`: the root of the sum of squares, or the sum of absolute values."""
    is_vector = isinstance(axis, int) or (axis is None and rank_of(a, operand) == 1)
    if ord is not None and (ord not in (1, 2) or not is_vector):
        raise UnsupportedError(
            f"{a.name}: numpy.linalg.norm of order {ord!r} over axis {axis} has no form in ONNX here;"
            " expected order 1 or 2 of vectors"
        )
    dtype = dtype_of(operand) if dtype_of(operand).kind == "f" else np.dtype(np.float64)
    value = a.cast(operand, _FLOAT32 if dtype == _FLOAT16 else dtype)
    axes = axes_of(a, value, axis)
    if ord == 1:
        return a.cast(reduced_along(a, "ReduceSum", a.op("Abs", value), axes, keepdims), dtype)
    total = reduced_along(a, "ReduceSum", square(a, [value]), axes, keepdims)
    return a.cast(a.op("Sqrt", total), dtype)


def place_of_extreme(
    name: str, a: Arithmetic, operand: Operand, axis: int | None = None, *, keepdims: bool = False
) -> ir.Value:
    """Return `numpy.argmax` or `numpy.argmin`: the first of several, and the first NaN before all else."""
    op_type = {"argmax": "ArgMax", "argmin": "ArgMin"}[name]
    value = a.value(operand)
    dtype, rank = numpy_dtype(value), rank_of(a, value)
    axes_of(a, value, axis)
    if axis is None:
        value = a.op("Reshape", value, a.constant([-1], _INT64))
    if dtype.kind in "biu":
        value = a.cast(value, np.dtype(np.int32 if dtype.itemsize < 4 else np.int64))
    keep = {"axis": axis or 0, "keepdims": int(bool(keepdims) and axis is not None)}
    found = a.op(op_type, value, **keep)
    if dtype.kind == "f":
        flags = a.cast(is_nan(a, [value]), np.dtype(np.int32))
        some = a.cast(reduced_along(a, "ReduceMax", flags, [axis or 0], bool(keep["keepdims"])), _BOOL)
        found = a.op("Where", some, a.op("ArgMax", flags, **keep), found)
    return a.op("Reshape", found, a.constant([1] * rank, _INT64)) if keepdims and axis is None else found


def axes_of(a: Arithmetic, operand: Operand, axis: Axis) -> list[int] | None:
    """Return the axes that an argument names; None for all.

    Raises:
        UnsupportedError: There is no such axis.
    """
    axes = None if axis is None else [axis] if isinstance(axis, int) else list(axis)
    rank = rank_of(a, operand)
    if any(not -rank <= place < rank for place in axes or ()):
        raise UnsupportedError(f"{a.name}: axis {axis} is out of bounds for rank {rank}")
    return axes


def reduced_along(
    a: Arithmetic, op_type: str, value: ir.Value, axes: Sequence[int] | None, keepdims: bool
) -> ir.Value:
    """Add an operator that reduces axes, for any integer dtype and operator set."""
    dtype = numpy_dtype(value)
    if dtype.kind in "iu" and dtype.itemsize < 4 and op_type not in ("ReduceMax", "ReduceMin"):
        wide = a.cast(value, np.dtype(np.int32))
        return a.cast(reduced_along(a, op_type, wide, axes, keepdims), dtype)
    if axes is not None and not axes:
        # No axes at all are none to NumPy, and all to ONNX.
        return value
    # From these operator sets on, the axes are an input.
    since = 13 if op_type == "ReduceSum" else 18
    keep = int(bool(keepdims))
    if axes is None or a.builder.opset_imports[""] < since:
        attributes = {} if axes is None else {"axes": list(axes)}
        return a.op(op_type, value, keepdims=keep, **attributes)
    return a.op(op_type, value, a.constant(axes, _INT64), keepdims=keep)


REDUCTIONS: dict[str, Callable[..., Operand]] = {
    **{name: partial(reduced, name) for name in _OPERATORS},
    "any": partial(decided, "any"),
    "all": partial(decided, "all"),
    "argmax": partial(place_of_extreme, "argmax"),
    "argmin": partial(place_of_extreme, "argmin"),
    "norm": norm,
    "std": deviation,
    "var": variance,
}
"""Functions of one array, by what they are: see `vocabulary.FUNCTIONS`."""
