"""Rows moved and reduced, each step by NumPy or, where it is large, by a compiled loop in several threads.

What the reductions mean is put together here, from steps that do one thing; the two ways of a step give
the same bits.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from mdf_scatter.dtypes import BFLOAT16, HALVES
from mdf_scatter.kernels import buckets, vectorized
from mdf_scatter.kernels.codes import AHEAD, CODES, LINE
from mdf_scatter.kernels.large import (
    bits,
    flat,
    is_large,
    is_movable,
    is_zeros,
    lead_of,
    plain,
    reduction_of,
    run_in_parts,
    zeros,
)
from mdf_scatter.kernels.machine import run
from mdf_scatter.kernels.memory import LEAST, empty, is_kept, room, scratch
from mdf_scatter.kernels.threads import PIECES, in_parts, parts_for

DENSE = 16
"""Elements to an update up to which all of them are widened, and not those alone that an update meets."""

WIDE = 512
"""Bytes of a row from which on a thread passes over those of others without waiting for them."""

Array = npt.NDArray[Any]
Rows = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool]

STREAMED = 1 << 25
"""Bytes from which on a result goes past the cache: it would not stay there."""


def scatter_rows(
    out: Array,
    data: Array | None,
    rows: Rows,
    updates: Array,
    reduction: str,
    include_self: bool = True,
) -> None:
    """Reduce `updates` into the rows of `data`, in order, and write the result to `out`.

    Args:
        out: The result, (R, S), C-contiguous and aligned, any operator dtype in native byte order; strings
            are objects.
        data: (R, S), dtype of `out`, sharing no memory with it, or `zeros`; None where `out` holds it
            already.
        rows: The row each update goes to, (N,), in 0..R-1.
        updates: (N, S), C-contiguous or, under "none", `zeros`; dtype of `out`, sharing no memory with it.
        reduction: One of `WIDE_REDUCTIONS`; "mean" for numbers only.
        include_self: Whether what is in a row before takes part; if not, the first update to the row
            is what the others are reduced with. "none" has no use for it.
    """
    if not updates.size:
        if data is not None:
            copy(out, data)
        return
    if reduction == "none" or (reduction != "mean" and include_self):
        _scatter(out, data, rows, updates, reduction)
        return
    if data is not None:
        copy(out, data)
    if out.dtype in HALVES:
        _through_float32(out, rows, updates, reduction, include_self)
    elif reduction == "mean":
        scatter_rows(out, None, rows, updates, "add", include_self)
        touched, place = places(rows, len(out))
        counts = np.bincount(place) + include_self
        out[touched] = vectorized.divided(out[touched], counts[:, np.newaxis])
    else:
        is_first = is_last(rows[::-1].copy(), len(out))[::-1]
        _scatter(out, None, rows[is_first], updates[is_first], "none")
        _scatter(out, None, rows[~is_first], updates[~is_first], reduction)


def added_rows(height: int, rows: Rows, updates: Array) -> Array:
    """Return zeros (R, S), a new array, to which `updates` (N, S) are added, in order."""
    shape = height, updates.shape[1]
    if not is_kept(math.prod(shape) * updates.itemsize):
        sums = np.zeros(shape, updates.dtype)  # never filled: what is not touched costs no memory
        scatter_rows(sums, None, rows, updates, "add")
        return sums
    sums = empty(shape, updates.dtype)
    scatter_rows(sums, zeros(shape, updates.dtype), rows, updates, "add")
    return sums


def gather_rows(data: Array, rows: Rows) -> Array:
    """Return `data[rows]`, rows of (R, S), as a new array (N, S)."""
    width = data.shape[1]
    if not is_movable(data.dtype) or not is_large(len(rows) * width, data, rows):
        return data.take(rows, axis=0)
    copies = empty((len(rows), width), data.dtype)
    source, target = bits(data.reshape(-1)), bits(copies.reshape(-1))

    parts = parts_for(max(copies.nbytes, len(rows) * LINE), PIECES)  # the memory moves whole lines
    if width == 1:
        run_in_parts("elements.gather_elements", lambda: (source, rows, target), len(rows), parts)
    elif copies.nbytes >= STREAMED and width * data.itemsize >= LINE:
        lead = lead_of(target)
        run_in_parts("rows.stream_rows", lambda: (source, rows, target, width, lead), len(rows), parts)
    else:
        run_in_parts("rows.gather_rows", lambda: (source, rows, target, width), len(rows), parts)
    return copies


def reduce_found_rows(out: Array, rows: Rows, table: Array, sources: Rows, reduction: str) -> None:
    """Reduce rows of a table, where they are found, into rows of `out`, in place and in order.

    Args:
        out: (R, S), which with the three below `suits_found_rows`.
        rows: The row each update goes to, (N,), in 0..R-1.
        table: (T, S), sharing no memory with `out`.
        sources: The row of `table` that each update is, (N,), in 0..T-1.
        reduction: One of `REDUCTIONS`.
    """
    height, width = out.shape
    code = CODES[reduction_of(reduction, out.dtype)]
    seen = bits if reduction == "none" else plain
    tables = seen(out).reshape(-1), rows, seen(table).reshape(-1), sources

    def arguments() -> tuple[Array | int, ...]:
        return (*tables, *room((AHEAD, np.uint32)), width, code)

    row = width * out.itemsize
    parts = parts_for(len(rows) * row) if row >= LINE else 1
    run_in_parts("rows.reduce_found_rows", arguments, height, parts)


def suits_found_rows(out: Array, rows: Rows, table: Array, sources: Rows, reduction: str) -> bool:
    """Tell whether rows are better reduced where they are found than gathered first.

    Halves are reduced in float32, and what is far from each other is sorted first.
    """
    if not is_movable(out.dtype) or (out.dtype in HALVES and reduction != "none"):
        return False
    is_near = out.shape[1] * out.itemsize >= LINE or out.nbytes < buckets.BEYOND
    return is_near and is_large(len(rows) * out.shape[1], out, rows, table, sources)


def copy(out: Array, data: Array) -> None:
    """Copy `data` into `out`, of the same shape and dtype."""
    parts = parts_for(out.nbytes, each=PIECES)
    is_whole = out.flags.c_contiguous and data.flags.c_contiguous and not out.dtype.hasobject
    is_small = parts == 1 and out.nbytes < STREAMED
    if is_small or not is_whole or np.may_share_memory(out, data):
        np.copyto(out, data)
        return
    target, source = out.reshape(-1), data.reshape(-1)
    if out.nbytes < STREAMED or not is_movable(out.dtype) or not is_large(out.size, out, data):
        in_parts(lambda first, last: np.copyto(target[first:last], source[first:last]), len(target), parts)
        return
    target, source = bits(target), bits(source)
    lead = lead_of(target)
    run_in_parts("elements.copy", lambda: (target, source, lead), len(target), parts)


def copied(data: Array) -> Array:
    """Return a copy of `data`, C-contiguous."""
    if data.nbytes < LEAST:
        return data.copy()
    result = empty(data.shape, data.dtype)
    copy(result, data)
    return result


def touched_rows(rows: Rows, height: int) -> Rows:
    """Return the rows of `height` that updates go to, in ascending order."""
    return _marked(rows, height)[0] if is_large(len(rows), rows) else vectorized.touched_rows(rows, height)


def places(rows: Rows, height: int) -> tuple[Rows, Rows]:
    """Return the rows of `height` that updates go to, in ascending order, and each update's place there."""
    if not is_large(len(rows), rows):
        return vectorized.places(rows, height)
    touched, words, ranks = _marked(rows, height)
    place = empty(rows.shape, rows.dtype)
    parts = parts_for(rows.nbytes)
    run_in_parts("touched.find_marked", lambda: (rows, words, ranks, place), len(rows), parts)
    return touched, place


def _marked(rows: Rows, height: int) -> tuple[Rows, Array, Array]:
    count = -(-height // 64)
    words, ranks = scratch((count, np.uint64), (count, np.uint32))
    touched = empty((run("touched.mark", rows, words, ranks),), rows.dtype)
    run("touched.list_marked", words, touched)
    return touched, words, ranks


def is_last(rows: Rows, height: int) -> Flags:
    """Tell of each update whether it is the last one to its row."""
    numbers = np.arange(len(rows))[:, np.newaxis]
    last = empty((height, 1), np.dtype(np.int64))
    _scatter(last, None, rows, numbers, "none")
    return np.equal(gather_rows(last, rows), numbers)[:, 0]


def _scatter(out: Array, data: Array | None, rows: Rows, updates: Array, reduction: str) -> None:
    """Reduce `updates` into rows of `data`, which `out` holds already if it is None."""
    is_moved = reduction == "none"
    is_half = out.dtype in HALVES and not is_moved
    if out.shape[1] * out.itemsize < LINE:
        updates = np.ascontiguousarray(updates)
    if is_half and out.shape[1] > 1 and is_large(updates.size, out, rows, updates):
        _reduce_halves(out, data, rows, updates, reduction)
        return
    if buckets.suits(out, rows, updates, reduction, out.shape[1]):
        frame = buckets.rows_of(len(out), len(rows), out.shape[1])
        buckets.scatter(out, data, rows, updates, reduction, frame)
        return
    is_dense = out.size <= DENSE * updates.size
    if is_half and out.shape[1] == 1 and is_dense and is_large(updates.size, out, rows, updates):
        _reduce_half_elements(out, data, rows, updates, reduction)
        return
    if data is not None:
        _start(out, data)
    tables = (out, rows) if is_zeros(updates) else (out, rows, updates)
    if is_half:
        _through_float32(out, rows, updates, reduction, include_self=True)
    elif is_large(updates.size, *tables) and is_movable(out.dtype):
        _push(out, rows, updates, reduction)
    elif is_moved:
        vectorized.assign(out, rows, np.ascontiguousarray(updates))
    else:
        vectorized.reduce(out, rows, updates, reduction)


def _start(out: Array, data: Array) -> None:
    """Copy `data`, or fill `out` with zeros."""
    if not is_zeros(data):
        copy(out, data)
        return
    target = out.reshape(-1)
    in_parts(lambda first, last: target[first:last].fill(0), len(target), parts_for(out.nbytes, PIECES))


def _reduce_halves(out: Array, data: Array | None, rows: Rows, updates: Array, reduction: str) -> None:
    """Write each row of float16 or bfloat16 once: what its updates make of that of `data`, in float32.

    What `out` holds, if `data` is None, is changed in place.
    """
    height, width = out.shape
    starts, order = scratch((height + 2, np.uint32), (len(rows), np.uint32))
    run("rows.group_updates", rows, starts, order)
    tables = [bits(flat(table)) for table in (out, out if data is None else data, updates)]
    nothing = np.zeros(width, np.uint16)
    kind = int(data is None), int(out.dtype == BFLOAT16)
    settings = (width, *kind, CODES[reduction], lead_of(tables[0]))

    def arguments() -> tuple[Array | int, ...]:
        return (*tables, starts, order, *room((width, np.float32), (width, np.uint16)), nothing, *settings)

    run_in_parts("rows.reduce_half_rows", arguments, height, parts_for(out.nbytes, PIECES))


def _reduce_half_elements(out: Array, data: Array | None, rows: Rows, updates: Array, reduction: str) -> None:
    """Reduce elements of float16 or bfloat16, which are within the cache, in float32."""
    tables = [bits(flat(table)) for table in (out, out if data is None else data, updates)]
    (wide,) = room((out.size, np.float32))
    run("halves.reduce_elements", *tables, rows, wide, int(out.dtype == BFLOAT16), CODES[reduction])


def _push(out: Array, rows: Rows, updates: Array, reduction: str) -> None:
    """Reduce `updates` into rows of `out`, in place."""
    height, width = out.shape
    code = CODES[reduction_of(reduction, out.dtype)]
    seen = bits if reduction == "none" else plain
    out, updates = seen(out), seen(updates)
    if width == 1:
        run("elements.reduce_elements", out.reshape(-1), rows, updates.reshape(-1), code)
        return
    step = width
    if is_zeros(updates):
        updates, step = updates[:1].copy(), 0
    tables = out.reshape(-1), rows, updates.reshape(-1)
    # To tell whose a narrow row is, in each thread, takes as long as to reduce it.
    nbytes = len(rows) * width * out.itemsize
    parts = parts_for(nbytes, PIECES) if width * out.itemsize >= LINE else 1
    firsts, others = _firsts(rows, height) if parts > 1 else (np.arange(len(rows), dtype=np.uint32), None)
    # No two of the first to their rows meet, and so each thread takes a piece of them as they come.
    if reduction == "none" and out.nbytes >= STREAMED:
        lead = lead_of(out)
        run_in_parts("rows.put_rows", lambda: (*tables, firsts, width, step, lead), len(firsts), parts)
    else:
        run_in_parts("rows.reduce_rows", lambda: (*tables, firsts, width, step, code), len(firsts), parts)
    if others is not None:

        def arguments() -> tuple[Array | int, ...]:
            return (*tables, others, *room((AHEAD, np.uint32)), width, step, code)

        # The memory reads ahead of shorter rows, also those that are another thread's.
        parts = parts_for(len(others) * width * out.itemsize) if width * out.itemsize >= WIDE else 1
        run_in_parts("rows.reduce_own_rows", arguments, height, parts)


def _firsts(rows: Rows, height: int) -> tuple[Array, Array]:
    """Return which updates are the first to their rows, and which are not, both in order."""
    marks, firsts, others = scratch((height, np.uint8), (len(rows), np.uint32), (len(rows), np.uint32))
    count = run("rows.list_firsts", rows, marks, firsts, others)
    return firsts[:count], others[: len(rows) - count]


def _through_float32(out: Array, rows: Rows, updates: Array, reduction: str, include_self: bool) -> None:
    touched, place = places(rows, len(out))
    wide = gather_rows(out, touched).astype(np.float32)
    with np.errstate(all="ignore"):
        scatter_rows(wide, None, place, updates.astype(np.float32), reduction, include_self)
        _scatter(out, None, touched, wide.astype(out.dtype), "none")
