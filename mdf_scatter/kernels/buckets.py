"""Elements, or short rows, reduced at random places of what is beyond the cache: see `compiled.buckets`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from mdf_scatter.dtypes import BFLOAT16, HALVES
from mdf_scatter.kernels.codes import CODES, LINE, OUTSIDE
from mdf_scatter.kernels.indices import inspect
from mdf_scatter.kernels.large import (
    bits,
    flat,
    is_large,
    is_movable,
    lead_of,
    plain,
    reduction_of,
    run_in_parts,
)
from mdf_scatter.kernels.memory import SCRATCH, room, scratch
from mdf_scatter.kernels.threads import PIECES, parts_for

Array = npt.NDArray[Any]
Positions = npt.NDArray[np.int64]

BEYOND, BEYOND_HALVES = 1 << 22, 1 << 19
"""Bytes of a result from which on it is beyond the cache; of halves, as room for float32 is beside it."""

SHIFT = 16
"""Elements of a bucket, as a power of two: their places in it take 2 bytes."""

BLOCK = 1 << 19
"""Bytes of a bucket at most, which are to fit the cache of a core."""

CHUNK = 1 << 16
"""Updates that are sorted at once, in the cache of a core."""

BATCH = SCRATCH - SCRATCH // 8
"""Bytes of updates, and their places, that are sorted before they are reduced."""

FEW, MANY = 16, 4096
"""Updates to a bucket at least, as it costs a look at each chunk; and buckets at most."""


@dataclass(frozen=True)
class Frame:
    """Which element an index along an axis means, in a flat array.

    Indices are seen as (B, length, width); that of [b, l, a] is at `before[b] + index * step + after[a]`.

    Attributes:
        size: Size of the axis.
        step: Elements from one index to the next.
        before: (B,).
        after: (width,), or (0,) where all are 0.
        length: Indices along the axis.
        width: Indices beside each other.
        span: Elements of a row, where it is rows that are indexed and counted.
    """

    size: int
    step: int
    before: Positions
    after: Positions
    length: int
    width: int
    span: int = 1


def rows_of(size: int, count: int, span: int) -> Frame:
    """Return the frame of `count` indices of rows of `span` elements, of which there are `size`."""
    return Frame(size, 1, np.zeros(1, np.int64), np.empty(0, np.int64), 1, count, span)


def suits(
    out: Array, indices: Array, updates: Array, reduction: str, span: int = 1, spread: int | None = None
) -> bool:
    """Tell whether a call is for buckets: whether updates are short, many, and go far.

    Args:
        out: As for `scatter`, as the two below.
        indices: One for each `span` updates.
        updates: Of any shape.
        reduction: As for `scatter`.
        span: Elements of a row.
        spread: Elements among which those are that indices near each other name; None for all there are.
    """
    if span * out.itemsize >= LINE or (span > 1 and out.dtype in HALVES):
        return False
    buckets = _count(out, span)
    nbytes = out.nbytes if spread is None else spread * out.itemsize
    least = BEYOND_HALVES if out.dtype in HALVES and reduction != "none" else BEYOND
    is_beyond = nbytes >= least and buckets <= MANY and updates.size >= FEW * buckets * span
    is_known = is_movable(out.dtype) and indices.dtype in (np.int64, np.int32)
    return is_beyond and is_known and is_large(updates.size, out, indices, updates)


def scatter(
    out: Array, data: Array | None, indices: Array, updates: Array, reduction: str, frame: Frame
) -> bool:
    """Reduce `updates` into elements of `data`, and write the result to `out`, if all indices are in range.

    Args:
        out: T[...], C-contiguous.
        data: T[...], of as many elements, C-contiguous or `zeros`; None where `out` holds it already.
        indices: int64[...] or int32[...].
        updates: T[...], a row for each index.
        reduction: One of `REDUCTIONS`.
        frame: What indices mean.

    Returns:
        Whether each index is in -size..size-1; if not, nothing has been written.
    """
    seen = bits if reduction == "none" or out.dtype in HALVES else plain
    target, source, terms = seen(out.reshape(-1)), None, seen(updates.reshape(-1))
    if data is not None:
        source = seen(flat(data))
    batch = max(1, BATCH // ((2 + out.itemsize * frame.span) * CHUNK)) * CHUNK
    if out.dtype in HALVES and reduction != "none":
        batch = max(1, indices.size)  # each batch would round
    where = indices.reshape(-1)
    if batch < len(where) and inspect(indices, frame.size) & OUTSIDE:
        return False
    for begin in range(0, len(where), batch):
        end = min(begin + batch, len(where))
        pieces = _sorted(where[begin:end], terms[begin * frame.span : end * frame.span], begin, out, frame)
        if pieces is None:
            return False
        _reduce(target, source, pieces, reduction, out.dtype, frame.span)
        source = None
    return True


def _count(out: Array, span: int) -> int:
    return -(-(out.size // span) >> _shift(out, span))


def _shift(out: Array, span: int) -> int:
    return min(SHIFT, (BLOCK // (span * out.itemsize)).bit_length() - 1)


def _sorted(
    indices: Array, updates: Array, begin: int, out: Array, frame: Frame
) -> tuple[Array, Array, Array] | None:
    """Return places in their buckets, updates, and where in a chunk those of each bucket begin.

    None, if an index is out of range.
    """
    count, span, chunks = len(indices), frame.span, -(-len(indices) // CHUNK)
    buckets = _count(out, span)
    where, terms, numbers = scratch(
        (count, np.uint16), (count * span, updates.dtype), ((buckets + 1) * chunks, np.uint32)
    )
    starts, moved = numbers.reshape(buckets + 1, chunks), bits(updates)

    def arguments() -> tuple[Array | int, ...]:
        ends, numbered = room((buckets, np.uint32), (CHUNK, np.uint32))
        named = (frame.size, frame.step, frame.before, frame.after, frame.length, frame.width)
        sorted_ = (span, _shift(out, span), CHUNK, where, bits(terms), starts, ends, numbered)
        return (indices, moved, begin, *named, *sorted_)

    parts = min(chunks, parts_for(updates.nbytes + indices.nbytes, PIECES))
    outside = run_in_parts("buckets.sort_updates", arguments, chunks, parts)
    return None if outside else (where, terms, starts)


def _reduce(
    out: Array,
    data: Array | None,
    pieces: tuple[Array, Array, Array],
    reduction: str,
    dtype: np.dtype[Any],
    span: int,
) -> None:
    buckets, shift, lead = len(pieces[2]) - 1, _shift(out, span), lead_of(out)
    code = CODES[reduction_of(reduction, dtype)]
    height = min(len(out), span << shift)
    parts = min(buckets, parts_for(out.nbytes, PIECES))
    if dtype in HALVES and reduction != "none":

        def halves() -> tuple[Array | int, ...]:
            wide, narrow = room((height, np.float32), (height, out.dtype))
            source, is_bfloat = out if data is None else data, int(dtype == BFLOAT16)
            return (out, source, *pieces, wide, narrow, is_bfloat, code, shift, CHUNK, lead)

        run_in_parts("buckets.reduce_half_buckets", halves, buckets, parts)
        return
    settings = (span, code, shift, CHUNK)
    if data is None and len(pieces[0]) * LINE > out.nbytes:
        data = out  # most lines are met: they come and go faster in order
    if data is None:
        run_in_parts("buckets.reduce_buckets", lambda: (out, *pieces, *settings), buckets, parts)
        return

    def arguments() -> tuple[Array | int, ...]:
        return (out, data, *pieces, *room((height, out.dtype)), *settings, lead)

    run_in_parts("buckets.rebuild_buckets", arguments, buckets, parts)
