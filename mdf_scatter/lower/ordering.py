"""NumPy's functions in expressions that go through elements in order: sorts, medians, running sums."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx_ir as ir

from mdf_scatter.errors import UnsupportedError
from mdf_scatter.lower.arithmetic import Arithmetic, numpy_dtype, rank_of, sample, shape_of
from mdf_scatter.lower.builder import Operand
from mdf_scatter.lower.forms import is_nan
from mdf_scatter.lower.reductions import axes_of, reduced
from mdf_scatter.lower.shaping import raveled

_INT64, _FLOAT32 = np.dtype(np.int64), np.dtype(np.float32)


def sorted_places(a: Arithmetic, operand: Operand, axis: int | None = -1) -> ir.Value:
    """Return `numpy.argsort`; equal elements keep their order, and NaN comes last."""
    value, axis = _along(a, operand, axis)
    dtype = numpy_dtype(value)
    if dtype == np.uint64:
        raise UnsupportedError(f"{a.name}: sorting uint64 has no form in ONNX; convert it to int64")
    if dtype.kind != "f":
        return _ascending(a, a.cast(value, _INT64), axis)
    # onnxruntime compares with NaN; so it sorts numbers, and then NaN behind them.
    flags = is_nan(a, [value])
    if dtype == np.float16:
        value, dtype = a.cast(value, _FLOAT32), _FLOAT32
    numbers = a.op("Where", flags, a.constant(np.inf, dtype), value)
    places = _ascending(a, numbers, axis)
    last = _ascending(a, a.op("GatherElements", a.cast(flags, _INT64), places, axis=axis), axis)
    return a.op("GatherElements", places, last, axis=axis)


def ordered(a: Arithmetic, operand: Operand, axis: int | None = -1) -> ir.Value:
    """Return `numpy.sort`."""
    value, axis = _along(a, operand, axis)
    return a.op("GatherElements", value, sorted_places(a, value, axis), axis=axis)


def median(a: Arithmetic, operand: Operand, axis: int | None = None, *, keepdims: bool = False) -> ir.Value:
    """Return `numpy.median`: the mean of the one or two elements in the middle; NaN where one is NaN."""
    if axis is not None and not isinstance(axis, int):
        raise UnsupportedError(f"{a.name}: numpy.median over axes {axis}; expected one axis, or none for all")
    rank = rank_of(a, operand)
    value, place = _along(a, operand, axis)
    size = (shape_of(value) or ())[place]
    if not isinstance(size, int) or size == 0:
        raise UnsupportedError(f"{a.name}: numpy.median of an unknown size, or of 0; give its port a shape")
    in_order = ordered(a, value, place)
    bounds = ([(size - 1) // 2], [size // 2 + 1], [place])
    middle = a.op("Slice", in_order, *(a.constant(bound, _INT64) for bound in bounds))
    found = reduced("mean", a, middle, place, keepdims=keepdims)
    dtype = numpy_dtype(found)
    if dtype.kind == "f":
        last = a.op("Gather", in_order, a.constant([size - 1] if keepdims else size - 1, _INT64), axis=place)
        found = a.op("Where", is_nan(a, [last]), a.constant(np.nan, dtype), found)
    return a.op("Reshape", found, a.constant([1] * rank, _INT64)) if keepdims and axis is None else found


def running_sum(a: Arithmetic, operand: Operand, axis: int | None = None) -> ir.Value:
    """Return `numpy.cumsum`."""
    dtype = np.cumsum(sample(operand)).dtype
    value, axis = _along(a, operand, axis)
    # Wraps to the same: only the low bits count.
    work = _INT64 if dtype.kind in "iu" else dtype
    return a.cast(a.op("CumSum", a.cast(value, work), a.constant(axis, _INT64)), dtype)


def _along(a: Arithmetic, operand: Operand, axis: int | None) -> tuple[ir.Value, int]:
    """Return an array and one of its axes; for None all of its elements in a row."""
    axes_of(a, operand, axis)
    return (raveled(a, operand), 0) if axis is None else (a.value(operand), axis % rank_of(a, operand))


def _ascending(a: Arithmetic, value: ir.Value, axis: int) -> ir.Value:
    """Return the places of elements in ascending order; the first of equal ones comes first."""
    size = a.op("Gather", a.op("Shape", value), a.constant([axis], _INT64), axis=0)
    attributes = {"axis": axis, "largest": 0, "sorted": 1}
    return a.builder.op("TopK", [value, size], attributes, name=a.name, outputs=2)[1]


ORDERING: dict[str, Callable[..., Operand]] = {
    "argsort": sorted_places,
    "cumsum": running_sum,
    "median": median,
    "sort": ordered,
}
"""Functions of one array, by what they are: see `vocabulary.FUNCTIONS`."""
