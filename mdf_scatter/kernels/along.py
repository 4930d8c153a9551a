"""Elements moved and reduced by one index each, along one axis: by compiled loops, where it is large."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from mdf_scatter.kernels.buckets import Frame
from mdf_scatter.kernels.codes import AHEAD, CODES, COLUMNS, NEGATIVE
from mdf_scatter.kernels.indices import inspect
from mdf_scatter.kernels.large import bits, is_large, is_movable, plain, reduction_of, run_in_parts
from mdf_scatter.kernels.memory import empty, room
from mdf_scatter.kernels.rows import copy
from mdf_scatter.kernels.threads import PIECES, parts_for

Array = npt.NDArray[Any]
Positions = npt.NDArray[np.int64]

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


def frame_of(indices: tuple[int, ...], shape: tuple[int, ...], axis: int) -> Frame:
    """Return what indices along an axis mean, in a flat tensor; see `offsets`."""
    before, step, after = offsets(indices, shape, axis)
    after = after if len(after) > 1 else after[:0]
    return Frame(shape[axis], step, before, after, indices[axis], len(after) or 1)


def suits(dtype: np.dtype[Any], indices: Array, size: int) -> bool:
    """Tell whether the functions below are for a call.

    Args:
        dtype: What is moved, or reduced.
        indices: int[i0..ir-1]; not, if one of them is outside of -size..size-1.
        size: Size of the axis that is indexed.
    """
    return is_movable(dtype) and _are_many(indices) and _are_inside(indices, size)


def scatter_along(
    out: Array, data: Array | None, indices: Array, updates: Array, axis: int, reduction: str
) -> None:
    """Reduce `updates` into elements of `data`, in order, and write the result to `out`.

    Args:
        out: T[d0..dr-1], C-contiguous; T is no half, but for "none".
        data: T[d0..dr-1], C-contiguous; None where `out` holds it already.
        indices: int[i0..ir-1], which `suits` has seen.
        updates: T[i0..ir-1], C-contiguous.
        axis: The axis that is indexed.
        reduction: One of `REDUCTIONS`.
    """
    size = out.shape[axis]
    if data is not None:
        copy(out, data)
    seen = bits if reduction == "none" else plain
    code = CODES[reduction_of(reduction, out.dtype)]
    blocks, before, step, after = _blocks(indices.shape, out.shape, axis)
    where, terms, elements = indices.reshape(blocks), seen(updates).reshape(blocks), seen(out).reshape(-1)

    def arguments(by_outer: int) -> tuple[Array | int, ...]:
        (places,) = room((AHEAD, np.int64))
        return (elements, where, terms, places, code, size, step, before, after, by_outer)

    _divided("along.reduce_along", arguments, blocks, updates.nbytes)


def gather_along(data: Array, indices: Array, axis: int) -> Array | None:
    """Return elements of `data` by indices along an axis, if all are in range and there are many.

    Returns:
        A new array; None where NumPy is to do it.
    """
    if not is_movable(data.dtype) or not _are_many(indices):
        return None
    data = np.ascontiguousarray(data)
    if not is_large(indices.size, data):
        return None
    if math.prod(data.shape[axis + 1 :]) == 1:
        return _gather_within(data, indices, axis)
    if not _are_inside(indices, data.shape[axis]):
        return None
    blocks, before, step, after = _blocks(indices.shape, data.shape, axis)
    where, source, size = indices.reshape(blocks), bits(data).reshape(-1), data.shape[axis]
    result = empty(indices.shape, data.dtype)
    copies = bits(result).reshape(blocks)

    if _is_by_columns(data, indices.shape, axis):
        tables, many = source.reshape(blocks[0], size, blocks[2]), -(-blocks[2] // COLUMNS)

        def columns() -> tuple[Array | int, ...]:
            own = room((COLUMNS * size, source.dtype), (COLUMNS * blocks[1], source.dtype))
            return (tables, where, copies, *(part.reshape(COLUMNS, -1) for part in own), many)

        run_in_parts("columns.gather_columns", columns, blocks[0] * many, parts_for(result.nbytes))
        return result

    def arguments(by_outer: int) -> tuple[Array | int, ...]:
        (places,) = room((AHEAD, np.int64))
        return (source, where, copies, places, size, step, before, after, by_outer)

    _divided("along.gather_along", arguments, blocks, result.nbytes)
    return result


def _gather_within(data: Array, indices: Array, axis: int) -> Array | None:
    """Do as `gather_along`, with its last axis, or one with nothing beside it."""
    result = empty(indices.shape, data.dtype)
    source, where, copies = bits(data).reshape(-1), indices.reshape(-1), bits(result).reshape(-1)
    is_whole = indices.shape[:axis] == data.shape[:axis]
    before = np.empty(0, np.int64) if is_whole else offsets(indices.shape, data.shape, axis)[0]
    settings = data.shape[axis], before, indices.shape[axis]
    parts = parts_for(indices.nbytes, PIECES)
    arguments = (source, where, copies, *settings)
    outside = run_in_parts("along.gather_within", lambda: arguments, len(where), parts)
    return None if outside else result


def number_elements(indices: Array, shape: tuple[int, ...], axis: int) -> Positions:
    """Return the position in a flat tensor of each element that indices along an axis name."""
    blocks, before, step, after = _blocks(indices.shape, shape, axis)
    where = indices.reshape(blocks)
    result = empty(indices.shape, np.dtype(np.int64))
    positions = result.reshape(blocks)

    def arguments(by_outer: int) -> tuple[Array | int, ...]:
        return (where, positions, shape[axis], step, before, after, by_outer)

    _divided("along.number_along", arguments, blocks, result.nbytes)
    return result


def _are_many(indices: Array) -> bool:
    return indices.dtype in (np.int64, np.int32) and is_large(indices.size, indices)


def _are_inside(indices: Array, size: int) -> bool:
    return inspect(indices, size) in (0, NEGATIVE)


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


def _is_by_columns(data: Array, indices: tuple[int, ...], axis: int) -> bool:
    """Tell whether to gather column by column is faster.

    It reads all of `data`, and so takes indices about as many, into a table beyond the cache.
    """
    height, width = data.shape[axis], math.prod(data.shape[axis + 1 :])
    is_whole = indices[:axis] + indices[axis + 1 :] == data.shape[:axis] + data.shape[axis + 1 :]
    is_beyond = height * width * data.itemsize >= TABLE and height * data.itemsize <= COLUMN
    is_fit = NARROWEST <= data.itemsize <= WIDEST and width >= COLUMNS
    return is_whole and is_beyond and is_fit and 2 * indices[axis] >= height


def _divided(
    loop: str, arguments: Callable[[int], tuple[Array | int, ...]], blocks: tuple[int, int, int], nbytes: int
) -> None:
    """Divide outer or inner places among threads: of those, no two share an element, if L is more than 1."""
    outers, length, inners = blocks
    parts = parts_for(nbytes)
    if parts > 1 and length > 1 and inners >= parts > outers:
        run_in_parts(loop, lambda: arguments(0), inners, parts)
    else:
        run_in_parts(loop, lambda: arguments(1), outers, min(parts_for(nbytes, PIECES), outers))


def _sums(sizes: tuple[int, ...], steps: list[int]) -> Positions:
    """Return the offset of each element of a block of these sizes, in row-major order."""
    total = np.zeros(1, np.int64)
    for size, step in zip(sizes, steps, strict=True):
        total = (total[:, np.newaxis] + np.arange(size) * step).reshape(-1)
    return total
