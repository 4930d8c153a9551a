"""Elements moved and reduced by one index each, along one axis: by compiled loops, where it is large."""

from __future__ import annotations

import math
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt

from mdf_scatter.dtypes import BFLOAT16
from mdf_scatter.kernels.memory import empty
from mdf_scatter.kernels.rows import (
    PIECES,
    bits,
    compiled_for,
    frozen,
    inspect,
    is_movable,
    plain,
    reduction_of,
)
from mdf_scatter.kernels.threads import in_parts, parts_for

Array = npt.NDArray[Any]
Positions = npt.NDArray[np.int64]
Range = tuple[int, int]

WIDEST = 8
"""Bytes of the widest elements that a loop moves as one number."""

NARROWEST = 4
"""Bytes of the narrowest elements that are taken out of a table: of less, too few are in a cache line."""

TABLE = 1 << 22
"""Bytes from which on a table is beyond the cache, so that to go to random places there is slow."""

COLUMN = 1 << 21
"""Bytes up to which a column of it is within."""


def offsets(indices: tuple[int, ...], shape: tuple[int, ...], axis: int) -> tuple[Positions, int, Positions]:
    """Return where elements are in a flat tensor, but for their index.

    An element of the indices, seen as (B, L, A), is at `before[b] + index * step + after[a]`.

    Args:
        indices: Shape of the indices.
        shape: Shape of the indexed tensor.
        axis: The axis that is indexed.

    Returns:
        before, (B,), step, and after, (A,).
    """
    steps = [math.prod(shape[other + 1 :]) for other in range(len(shape))]
    before = _sums(indices[:axis], steps[:axis])
    return before, steps[axis], _sums(indices[axis + 1 :], steps[axis + 1 :])


def loops_for(dtype: np.dtype[Any], indices: Array, size: int, reduction: str = "none") -> ModuleType | None:
    """Return the compiled loops for the functions below, or None where it is not for them.

    Args:
        dtype: What is moved, or reduced.
        indices: int[i0..ir-1]; not, if one of them is outside of -size..size-1.
        size: Size of the axis that is indexed.
        reduction: One of `REDUCTIONS`.
    """
    loops = compiled_for(indices.size, indices)
    is_half = reduction != "none" and dtype in (np.float16, BFLOAT16)
    if loops is None or is_half or not is_movable(dtype) or dtype.itemsize > WIDEST:
        return None
    is_known = indices.dtype in (np.int64, np.int32)
    return loops if is_known and inspect(loops, indices, size)[0] else None


def scatter_along(
    loops: ModuleType, out: Array, indices: Array, updates: Array, axis: int, reduction: str
) -> None:
    """Reduce `updates` into elements of `out`, in place and in order.

    Args:
        loops: From `loops_for`, as below.
        out: T[d0..dr-1], C-contiguous.
        indices: int[i0..ir-1].
        updates: T[i0..ir-1], C-contiguous.
        axis: The axis that is indexed.
        reduction: One of `REDUCTIONS`.
    """
    moved = bits if reduction == "none" else plain
    code = loops.CODES[reduction_of(reduction, out.dtype)]
    blocks, before, step, after = _blocks(indices.shape, out.shape, axis)
    where, terms = frozen(indices.reshape(blocks)), frozen(moved(updates).reshape(blocks))
    elements, size = moved(out).reshape(-1), out.shape[axis]
    columns = _columns_for(out, indices.shape, axis)

    if columns is not None:
        tables, many = elements.reshape(blocks[0], size, blocks[2]), columns.blocks_of(blocks[2])
        in_parts(
            lambda first, last: columns.reduce_columns(tables, where, terms, code, many, first, last),
            blocks[0] * many,
            parts_for(updates.nbytes),
        )
        return

    def reduce(outers: Range, inners: Range) -> None:
        loops.reduce_along(elements, where, terms, code, size, step, before, after, outers, inners)

    _divided(reduce, blocks, updates.nbytes)


def gather_along(loops: ModuleType, data: Array, indices: Array, axis: int) -> Array:
    """Return elements of `data`, C-contiguous, by indices along an axis, as a new array."""
    blocks, before, step, after = _blocks(indices.shape, data.shape, axis)
    where, source, size = frozen(indices.reshape(blocks)), frozen(bits(data).reshape(-1)), data.shape[axis]
    result = empty(indices.shape, data.dtype)
    copies = bits(result).reshape(blocks)
    columns = _columns_for(data, indices.shape, axis)

    if columns is not None:
        tables, many = source.reshape(blocks[0], size, blocks[2]), columns.blocks_of(blocks[2])
        in_parts(
            lambda first, last: columns.gather_columns(tables, where, copies, many, first, last),
            blocks[0] * many,
            parts_for(result.nbytes),
        )
        return result

    def gather(outers: Range, inners: Range) -> None:
        loops.gather_along(source, where, copies, size, step, before, after, outers, inners)

    _divided(gather, blocks, result.nbytes)
    return result


def number_elements(loops: ModuleType, indices: Array, shape: tuple[int, ...], axis: int) -> Positions:
    """Return the position in a flat tensor of each element that indices along an axis name."""
    blocks, before, step, after = _blocks(indices.shape, shape, axis)
    where = frozen(indices.reshape(blocks))
    result = np.empty(indices.shape, np.int64)
    positions = result.reshape(blocks)

    def number(outers: Range, inners: Range) -> None:
        loops.number_along(where, positions, shape[axis], step, before, after, outers, inners)

    _divided(number, blocks, result.nbytes)
    return result


def _blocks(
    indices: tuple[int, ...], shape: tuple[int, ...], axis: int
) -> tuple[tuple[int, int, int], Positions, int, Positions]:
    """Return how the loops see indices, (B, L, A), and the offsets of their elements.

    Along the last axis, where A would be 1, indices are (B, 1, L), as the loops are made for long rows.
    """
    before, step, after = offsets(indices, shape, axis)
    if len(after) > 1:
        return (len(before), indices[axis], len(after)), before, step, after
    return (len(before), 1, indices[axis]), before, step, np.zeros(indices[axis], np.int64)


def _columns_for(data: Array, indices: tuple[int, ...], axis: int) -> ModuleType | None:
    """Return the loops that go column by column, or None where others are faster.

    They read all of `data`, and so take indices about as many, into a table beyond the cache.
    """
    height, width = data.shape[axis], math.prod(data.shape[axis + 1 :])
    is_whole = indices[:axis] + indices[axis + 1 :] == data.shape[:axis] + data.shape[axis + 1 :]
    is_beyond = height * width * data.itemsize >= TABLE and height * data.itemsize <= COLUMN
    if not (is_whole and is_beyond and 2 * indices[axis] >= height and data.itemsize >= NARROWEST):
        return None
    from mdf_scatter.kernels import columns  # with numba, which is here already

    return columns if width >= columns.COLUMNS else None


def _divided(task: Callable[[Range, Range], None], blocks: tuple[int, int, int], nbytes: int) -> None:
    """Divide outer or inner places among threads: of those, no two share an element, if L is more than 1."""
    outers, length, inners = blocks
    parts = parts_for(nbytes)
    if parts > 1 and outers >= parts:
        many = parts_for(nbytes, PIECES)
        in_parts(lambda start, stop: task((start, stop), (0, inners)), outers, min(many, outers))
    elif parts > 1 and length > 1 and inners >= parts:
        in_parts(lambda start, stop: task((0, outers), (start, stop)), inners, parts)
    else:
        task((0, outers), (0, inners))


def _sums(sizes: tuple[int, ...], steps: list[int]) -> Positions:
    """Return the offset of each element of a block of these sizes, in row-major order."""
    total = np.zeros(1, np.int64)
    for size, step in zip(sizes, steps, strict=True):
        total = (total[:, np.newaxis] + np.arange(size) * step).reshape(-1)
    return total
