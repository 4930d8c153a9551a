"""NumPy's functions in expressions that choose, bound or round elements, and are no ufuncs."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from mdf_scatter.errors import UnsupportedError
from mdf_scatter.lower.arithmetic import Arithmetic, elementwise, numpy_dtype, sample, select
from mdf_scatter.lower.builder import Operand
from mdf_scatter.lower.forms import is_nan


def rounded(a: Arithmetic, operand: Operand, decimals: int = 0) -> Operand:
    """Return `numpy.round`: half to even."""
    dtype = np.round(sample(operand), decimals).dtype
    value = a.cast(operand, dtype)
    if dtype.kind in "iu" and decimals >= 0:
        return a.op("Identity", value)
    if dtype.kind in "iu":
        raise UnsupportedError(f"{a.name}: rounding integers to tens has no form in ONNX")
    if decimals == 0:
        return a.op("Round", value)
    factor = a.constant(10.0 ** abs(decimals), dtype)
    there, back = ("Mul", "Div") if decimals > 0 else ("Div", "Mul")
    return a.op(back, a.op("Round", a.op(there, value, factor)), factor)


def clipped(
    a: Arithmetic, value: Operand, low: Operand | None = None, high: Operand | None = None
) -> Operand:
    """Return `numpy.clip`; a bound that is None is none."""
    bounds = [bound for bound in (low, high) if bound is not None]
    dtype = np.clip(sample(value), *(None if b is None else sample(b) for b in (low, high))).dtype
    found = a.cast(value, dtype)
    for bound in bounds:
        found = elementwise(a, "Max" if bound is low else "Min", found, a.cast(bound, dtype))
    return found


def without_nan(
    a: Arithmetic,
    operand: Operand,
    *,
    nan: float = 0.0,
    posinf: float | None = None,
    neginf: float | None = None,
) -> Operand:
    """Return `numpy.nan_to_num`: infinities become the largest numbers."""
    value = a.value(operand)
    dtype = numpy_dtype(value)
    if dtype.kind != "f":
        return a.op("Identity", value)
    found = a.op("Where", is_nan(a, [value]), a.constant(nan, dtype), value)
    limits = np.finfo(dtype)
    for infinity, given, most in ((np.inf, posinf, limits.max), (-np.inf, neginf, limits.min)):
        is_there = a.op("Equal", value, a.constant(infinity, dtype))
        found = a.op("Where", is_there, a.constant(most if given is None else given, dtype), found)
    return found


LIMITS: dict[str, Callable[..., Operand]] = {
    "clip": clipped,
    "ndarray.clip": clipped,
    "nan_to_num": without_nan,
    "round": rounded,
    "where": select,
}
"""Functions of arrays, by what they are: see `vocabulary.FUNCTIONS`."""
