"""Values that operators go wrong on, for every dtype, and how results are compared."""

from __future__ import annotations

import ml_dtypes
import numpy as np

from mdf_scatter.dtypes import NARROW, STANDARD, dtype_of

FIXED, VARIABLE = "U3", "StringDType"
DTYPES = (*STANDARD, FIXED, VARIABLE)
ALL_DTYPES = (*DTYPES, *NARROW)

_FLOATS = (0.0, -0.0, 1.0, -1.0, 1.1, -2.7, 3e-3, 1e4, np.inf, -np.inf, np.nan)
_TEXTS = ("", "a", "b", "ab", "Z", "é", "\uffff", "\U0001f600")


def samples(dtype: str) -> np.ndarray:
    """Return about ten values of a dtype: its limits, zeros of both signs, NaN, what rounds."""
    numpy_dtype = dtype_of(dtype)
    if numpy_dtype.kind in "OTU":
        return np.array(_TEXTS, numpy_dtype)
    if dtype == "bool":
        return np.array([False, True])
    if numpy_dtype.kind in "iu" or dtype.startswith(("int", "uint")):
        limits = ml_dtypes.iinfo(numpy_dtype)
        return np.array([0, 1, limits.min, limits.max, limits.max // 2], numpy_dtype)
    if dtype in NARROW:
        return np.arange(16, dtype=np.uint8).view(numpy_dtype)
    if numpy_dtype.kind == "c":
        parts = [complex(real, imag) for real in _FLOATS[:8] for imag in _FLOATS[:6]]
        return np.array(parts, numpy_dtype)
    limits = ml_dtypes.finfo(numpy_dtype)
    edges = [limits.max, -limits.max, limits.tiny, limits.smallest_subnormal]
    return np.array([*_FLOATS, *(float(edge) for edge in edges)]).astype(numpy_dtype)


def reductions_of(dtype: str) -> tuple[str, ...]:
    """Return the reductions that a dtype has."""
    if dtype in NARROW:
        return ("none",)
    if dtype in ("string", FIXED, VARIABLE):
        return ("none", "add", "max", "min")
    return ("none", "add", "mul") if dtype.startswith("complex") else ("none", "add", "mul", "max", "min")


def same(result: np.ndarray, expected: np.ndarray, *, computed: bool = False) -> bool:
    """Tell whether two arrays are the same in shape, dtype and every bit; strings, in every character.

    Where values were `computed`, one NaN is as good as another: which operand's sign and payload a sum
    of two NaNs keeps depends on how a compiler orders the operands.
    """
    if expected.dtype.kind in "OTU":
        return result.shape == expected.shape and result.tolist() == expected.tolist()
    if (result.shape, result.dtype) != (expected.shape, expected.dtype):
        return False
    if computed:
        result, expected = _with_one_nan(result), _with_one_nan(expected)
    return result.tobytes() == expected.tobytes()


def _with_one_nan(values: np.ndarray) -> np.ndarray:
    parts = np.ascontiguousarray(values)
    parts = parts.reshape(-1).view(parts.real.dtype) if parts.dtype.kind == "c" else parts
    is_nan = parts != parts
    return np.where(is_nan, np.array(np.nan).astype(parts.dtype), parts) if is_nan.any() else parts
