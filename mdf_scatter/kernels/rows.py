"""Rows moved and reduced, each step by NumPy or, where it is large, by a compiled loop in several threads.

What the reductions mean is put together here, from steps that do one thing; the two ways of a step give
the same bits.
"""

from __future__ import annotations

from functools import cache
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt

from mdf_scatter.dtypes import BFLOAT16
from mdf_scatter.kernels import vectorized
from mdf_scatter.kernels.memory import empty
from mdf_scatter.kernels.threads import in_parts, num_threads, parts_for

Array = npt.NDArray[Any]
Rows = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool]

LARGE = 1 << 16
"""Elements from which on a compiled loop is worth loading: NumPy moves as many in less than 1 ms."""

LINE = 64
"""Bytes of a cache line."""

PIECES = 4
"""Parts for each thread, where more parts cost no more."""

NARROW_ROW = LINE
"""Bytes of a row below which to tell whose it is costs as much as to reduce it."""

THREADS_OF_NARROW_ROWS = 4
"""Threads from which on narrow rows are divided: two only just make up for each looking at all updates."""

STREAMED = 1 << 25
"""Bytes from which on a copy goes past the cache, if there are loops already: it would not stay there."""

CACHE = 1 << 22
"""Bytes of a result up to which narrow rows are not divided: there an update costs less than a look."""


def scatter_rows(out: Array, rows: Rows, updates: Array, reduction: str, include_self: bool) -> None:
    """Reduce `updates` (N, S) into the rows of `out` (R, S); see `mdf_scatter.kernels.scatter_rows`."""
    if reduction == "none":
        _assign(out, rows, updates)
    elif out.dtype in (np.float16, BFLOAT16):
        _reduce_through_float32(out, rows, updates, reduction, include_self)
    elif reduction == "mean":
        scatter_rows(out, rows, updates, "add", include_self)
        touched, place = places(rows, len(out))
        counts = np.bincount(place) + include_self
        out[touched] = vectorized.divided(out[touched], counts[:, np.newaxis])
    elif include_self:
        _reduce(out, rows, updates, reduction)
    else:
        is_first = is_last(rows[::-1].copy(), len(out))[::-1]
        _assign(out, rows[is_first], updates[is_first])
        _reduce(out, rows[~is_first], updates[~is_first], reduction)


def gather_rows(data: Array, rows: Rows) -> Array:
    """Return `data[rows]`, rows of (R, S), as a new array (N, S)."""
    size = len(rows) * data.shape[1]
    loops = compiled_for(size, data, rows)
    if loops is None or not is_movable(data.dtype):
        return data.take(rows, axis=0)
    copies = empty((len(rows), data.shape[1]), data.dtype)
    source, target, loop = bits(data), bits(copies), loops.gather_rows
    if source.shape[1] == 1:
        source, target, loop = source.reshape(-1), target.reshape(-1), loops.gather_elements
    source, rows = frozen(source), frozen(rows)
    in_parts(
        lambda start, stop: loop(source, rows, target, start, stop),
        len(rows),
        parts_for(copies.nbytes, PIECES),
    )
    return copies


def copy(out: Array, data: Array) -> None:
    """Copy `data` into `out`, of the same shape and dtype."""
    parts = parts_for(out.nbytes, each=PIECES)
    is_whole = out.flags.c_contiguous and data.flags.c_contiguous and not out.dtype.hasobject
    is_small = parts == 1 and out.nbytes < STREAMED
    if is_small or not is_whole or np.may_share_memory(out, data):
        np.copyto(out, data)
        return
    target, source = out.reshape(-1).view(np.uint8), data.reshape(-1).view(np.uint8)
    head = -_address(target) % LINE
    loops = compiled() if out.nbytes >= STREAMED and compiled.cache_info().currsize else None
    if loops is None or (_address(source) + head) % 8:
        in_parts(lambda start, stop: np.copyto(target[start:stop], source[start:stop]), len(target), parts)
        return
    count = (len(target) - head) // LINE
    tail = head + count * LINE
    lines, copies = frozen(source[head:tail].view(np.uint64)), target[head:tail].view(np.uint64)
    in_parts(lambda first, last: loops.copy_lines(copies, lines, first, last), count, parts)
    for rest in (slice(None, head), slice(tail, None)):
        target[rest] = source[rest]


def copied(data: Array) -> Array:
    """Return a copy of `data`, C-contiguous."""
    result = empty(data.shape, data.dtype)
    copy(result, data)
    return result


def number_rows(indices: Array, sizes: tuple[int, ...]) -> Rows | None:
    """Return the row that each index (..., k) names, if all are in range and there are many.

    Args:
        indices: int64 or int32.
        sizes: The k sizes of the indexed axes.

    Returns:
        (N,), which may be `indices` itself, seen as (N,); None where NumPy is to do it.
    """
    loops = compiled_for(indices.size, indices)
    if loops is None or not indices.flags.c_contiguous or indices.dtype not in (np.int64, np.int32):
        return None
    tuples = frozen(indices.reshape(-1, len(sizes)))
    if len(sizes) == 1 and indices.dtype == np.int64:
        is_inside, has_negative = inspect(loops, indices, sizes[0])
        if not is_inside or not has_negative:
            return indices.reshape(-1) if is_inside else None
    rows = np.empty(len(tuples), np.int64)
    limits = np.array(sizes, np.int64)
    fits = in_parts(
        lambda start, stop: loops.number_rows(tuples, limits, rows, start, stop),
        len(rows),
        parts_for(indices.nbytes),
    )
    return rows if all(fits) else None


def inspect(loops: ModuleType, indices: Array, size: int) -> tuple[bool, bool]:
    """Tell of indices, C-contiguous, whether all are in -size..size-1, and whether one is negative."""
    flat = frozen(indices.reshape(-1))
    found = in_parts(
        lambda start, stop: loops.inspect(flat, size, start, stop), len(flat), parts_for(flat.nbytes)
    )
    return all(inside for inside, _ in found), any(negative for _, negative in found)


def places(rows: Rows, height: int) -> tuple[Rows, Rows]:
    """Return the rows of `height` that updates go to, in some order, and each update's place there."""
    loops = compiled_for(len(rows), rows)
    if loops is None:
        return vectorized.places(rows, height)
    touched, place = np.empty_like(rows), np.empty_like(rows)
    count = loops.number_touched(frozen(rows), np.zeros(height, np.uint32), touched, place)
    return touched[:count].copy(), place


def is_last(rows: Rows, height: int) -> Flags:
    """Tell of each update whether it is the last one to its row."""
    numbers = np.arange(len(rows))[:, np.newaxis]
    last = np.empty((height, 1), np.int64)  # never filled: what is not touched costs no memory
    _assign(last, rows, numbers)
    return np.equal(gather_rows(last, rows), numbers)[:, 0]


def compiled_for(size: int, *arrays: Array) -> ModuleType | None:
    """Return the compiled loops where so many elements of these arrays are for them, else None."""
    if size < LARGE or not all(array.flags.c_contiguous and array.flags.aligned for array in arrays):
        return None
    return compiled()


@cache
def compiled() -> ModuleType | None:
    """Return the compiled loops, loaded when first needed; None where there is no numba that compiles."""
    try:
        from mdf_scatter.kernels import compiled as loops
    except ImportError:  # no numba, or none for this Python or NumPy
        return None
    return loops if loops.COMPILES else None


def frozen(array: Array) -> Array:
    """Return a read-only view, so that a loop is compiled once for read-only arrays and others."""
    view = array.view()
    view.flags.writeable = False
    return view


def is_movable(dtype: np.dtype[Any]) -> bool:
    """Tell whether elements can be moved as what `bits` returns."""
    return dtype.itemsize in (1, 2, 4, 8, 16) and not dtype.hasobject


def bits(array: Array) -> Array:
    """Return rows (R, S) as unsigned integers: what is only moved needs no loop for each dtype."""
    return array.view(f"u{min(array.itemsize, 8)}")


def plain(array: Array) -> Array:
    """Return truth values as 0 and 1, whose larger is their OR, and all else as it is."""
    return array.view(np.uint8) if array.dtype == np.bool else array


def reduction_of(reduction: str, dtype: np.dtype[Any]) -> str:
    """Return the reduction of what `plain` returns that is this one of what it was given."""
    return {"add": "max", "mul": "min"}.get(reduction, reduction) if dtype == np.bool else reduction


def _address(array: Array) -> int:
    address: int = array.__array_interface__["data"][0]
    return address


def _assign(out: Array, rows: Rows, updates: Array) -> None:
    loops = compiled_for(updates.size, out, rows, updates)
    if loops is None or not is_movable(out.dtype):
        vectorized.assign(out, rows, updates)
    else:
        _run(loops, bits(out), rows, bits(updates), "none")


def _reduce(out: Array, rows: Rows, updates: Array, reduction: str) -> None:
    loops = compiled_for(updates.size, out, rows, updates)
    if loops is None or out.dtype.hasobject:
        vectorized.reduce(out, rows, updates, reduction)
    else:
        _run(loops, plain(out), rows, plain(updates), reduction_of(reduction, out.dtype))


def _run(loops: ModuleType, out: Array, rows: Rows, updates: Array, reduction: str) -> None:
    code = loops.CODES[reduction]
    rows, updates = frozen(rows), frozen(updates)
    height, width = out.shape
    parts = parts_for(updates.nbytes)
    if width * out.itemsize < NARROW_ROW and (num_threads() < THREADS_OF_NARROW_ROWS or out.nbytes < CACHE):
        parts = 1
    if width > 1:
        in_parts(lambda first, last: loops.reduce_rows(out, rows, updates, code, first, last), height, parts)
        return
    elements, terms = out.reshape(-1), updates.reshape(-1)
    if parts == 1:
        loops.reduce_elements(elements, rows, terms, code)
        return
    in_parts(
        lambda first, last: loops.reduce_own_elements(elements, rows, terms, code, first, last), height, parts
    )


def _reduce_through_float32(
    out: Array, rows: Rows, updates: Array, reduction: str, include_self: bool
) -> None:
    touched, place = places(rows, len(out))
    wide = gather_rows(out, touched).astype(np.float32)
    with np.errstate(all="ignore"):
        scatter_rows(wide, place, updates.astype(np.float32), reduction, include_self)
        _assign(out, touched, wide.astype(out.dtype))
