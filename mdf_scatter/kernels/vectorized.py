"""The steps of the rows kernels in NumPy: for every dtype and size, and on every machine."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Rows = npt.NDArray[np.int64]

UFUNCS = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}

BLOCK = 1 << 16
"""Elements handled at once: their destinations, 8 bytes each, then stay in the cache."""

WIDE_ROW = 1024
"""From this many elements on, a Python step for each row costs less than an index for each element."""

MOVABLE_ROW = 1 << 16
"""Bytes up to which a row is faster moved as one item than as its elements."""


def touched_rows(rows: Rows, height: int) -> Rows:
    """Return the rows of `height` that updates go to, in ascending order."""
    is_touched = np.zeros(height, np.bool)
    is_touched[rows] = True
    return np.flatnonzero(is_touched)


def places(rows: Rows, height: int) -> tuple[Rows, Rows]:
    """Return the rows of `height` that updates go to, in ascending order, and each update's place there."""
    touched = touched_rows(rows, height)
    place = np.empty(height, np.int64)  # never filled: what is not touched costs no memory
    place[touched] = np.arange(len(touched))
    return touched, place[rows]


def divided(sums: Array, counts: npt.NDArray[np.int64]) -> Array:
    """Return `sums` divided by `counts`, which are greater than 0 and broadcast; integers round down."""
    with np.errstate(all="ignore"):
        if sums.dtype.kind in "iu":
            # The sum has wrapped around; a count of 128 in int8 may not.
            wide = np.uint64 if sums.dtype.kind == "u" else np.int64
            return np.floor_divide(sums.astype(wide), counts.astype(wide)).astype(sums.dtype)
        if sums.dtype.kind == "c":
            # By parts, because a complex quotient makes NaN of infinity and a real divisor.
            result = np.empty_like(sums)
            result.real, result.imag = divided(sums.real, counts), divided(sums.imag, counts)
            return result
        quotient: Array = np.divide(sums, counts.astype(sums.dtype))
        return quotient


def assign(out: Array, rows: Rows, updates: Array) -> None:
    """Put `updates` (N, S) into rows of `out` (R, S), in order."""
    # NumPy walks a one-dimensional, contiguous index front to back, so the last of several updates
    # to a row stays. Its manual promises no order for indices in general; a test holds this one.
    width = out.shape[1] * out.itemsize
    if out.dtype.hasobject or width > MOVABLE_ROW:
        out[rows] = updates
    else:
        out.view(f"V{width}")[:, 0][rows] = updates.view(f"V{width}")[:, 0]


def reduce(out: Array, rows: Rows, updates: Array, reduction: str) -> None:
    """Reduce `updates` (N, S) by "add", "mul", "max" or "min" into rows of `out` (R, S), in order."""
    with np.errstate(all="ignore"):
        if out.dtype == np.bool:
            _reduce_bool(out, rows, updates, reduction)
        elif out.dtype.kind == "f" and reduction in ("max", "min"):
            _reduce_extremum(out, rows, updates, reduction)
        else:
            _reduce(out, rows, updates, UFUNCS[reduction])


def _reduce(out: Array, rows: Rows, updates: Array, ufunc: np.ufunc) -> None:
    count, width = updates.shape
    # NumPy's complex product of whole arrays may fuse multiply and add, and so round differently.
    if width >= WIDE_ROW and out.dtype.kind != "c":
        for row, update in zip(rows.tolist(), updates, strict=True):
            ufunc(out[row], update, out=out[row])
        return
    elements, terms = out.reshape(-1), updates.reshape(-1)
    if width == 1:
        ufunc.at(elements, rows, terms)
        return
    columns = np.arange(width)
    step = max(1, BLOCK // width)
    for start in range(0, count, step):
        stop = min(start + step, count)
        places = (rows[start:stop, np.newaxis] * width + columns).reshape(-1)
        ufunc.at(elements, places, terms[start * width : stop * width])


def _reduce_bool(out: Array, rows: Rows, updates: Array, reduction: str) -> None:
    deciding = reduction in ("add", "max")  # one True makes an OR true, one False an AND false
    number, column = np.nonzero(updates == deciding)
    out[rows[number], column] = deciding


def _reduce_extremum(out: Array, rows: Rows, updates: Array, reduction: str) -> None:
    """Reduce by max or min, where +0 is greater than -0 though they compare equal."""
    is_zero = updates == 0
    if not is_zero.any():
        _reduce(out, rows, updates, UFUNCS[reduction])
        return
    number, column = np.nonzero(is_zero)
    row = rows[number]
    before = out[row, column]
    negative = reduction == "min"
    wins = (np.signbit(updates[number, column]) == negative) | (
        (before == 0) & (np.signbit(before) == negative)
    )
    _reduce(out, rows, updates, UFUNCS[reduction])
    row, column = row[wins], column[wins]
    at_zero = out[row, column] == 0
    out[row[at_zero], column[at_zero]] = -0.0 if negative else 0.0
