"""The shortest way through plain calls that are not large: what is right at a glance is done at once.

Anything else, and all that is wrong, is left to the way that reads, checks and explains.
"""

from __future__ import annotations

import math
from contextvars import Context
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from mdf_scatter.kernels.large import LARGE
from mdf_scatter.kernels.rows import copied

Array = npt.NDArray[Any]

NUMBERED = 1 << 14
"""Numbers of indices up to which NumPy turns several to a place into one as fast as the long way does."""

_NDARRAY = np.ndarray  # found faster than as an attribute of a module

_INDICES = frozenset(map(np.dtype, "ilq"))

_INTEGERS, _FLOATS, _COMPLEX = "?bBhHiIlLqQ", "fd", "FD"
"""Characters of dtypes, as `dtype.char` gives them."""

_DTYPES = {
    "none": frozenset(map(np.dtype, _INTEGERS + "e" + _FLOATS + _COMPLEX)),
    "add": frozenset(map(np.dtype, _INTEGERS + _FLOATS + _COMPLEX)),
    "mul": frozenset(map(np.dtype, _INTEGERS + _FLOATS)),
} | dict.fromkeys(("max", "min"), frozenset(map(np.dtype, _INTEGERS + "e" + _FLOATS)))
"""What NumPy moves, and reduces with the same meaning, in native byte order: for bool by OR and AND."""

_REDUCE_AT = {"add": np.add.at, "mul": np.multiply.at, "max": np.maximum.at, "min": np.minimum.at}

_QUIET = Context()
"""Where NumPy does not warn. To run in a copy of it costs a twentieth of `np.errstate`."""
_QUIET.run(np.seterr, all="ignore")


def scatter_small(data: Any, indices: Any, updates: Any, reduction: Any, out: Any = None) -> Array | None:
    """Return what ScatterND gives, or None where it cannot be told at a glance that this is it.

    Args:
        data: As the caller gave it, as are all of these: T[d0..dr-1].
        indices: int64 or int32[i0..iq-2, k]; without negative ones where k is not 1, and where rows are
            reduced.
        updates: T[i0..iq-2, dk..dr-1], not empty.
        reduction: As ScatterND has it.
        out: None, or `data` itself.
    """
    if not _are_plain(data, indices, updates, reduction) or not indices.ndim:
        return None
    shape, depth = data.shape, indices.shape[-1]
    if not 0 < depth <= len(shape) or updates.shape != indices.shape[:-1] + shape[depth:]:
        return None
    if depth > 1 and indices.size > NUMBERED:
        return None
    result = data.copy() if out is None and data.size < LARGE else _start(data, indices, updates, out)
    if result is None:
        return None
    try:
        if depth == len(shape) == 1:
            _reduce(result, indices.ravel(), updates.ravel(), reduction)
        elif depth == len(shape):
            _reduce(result.ravel(), _numbered(indices, shape), updates.ravel(), reduction)
        elif reduction == "none":
            rows = indices.ravel() if depth == 1 else _numbered(indices, shape[:depth])
            row = _item(math.prod(shape[depth:]) * data.itemsize)  # moved faster than its elements
            result.ravel().view(row)[rows] = updates.ravel().view(row)
        else:
            width = math.prod(shape[depth:])
            places = _numbered(indices, shape[:depth])[:, np.newaxis] * width + np.arange(width)
            _reduce(result.ravel(), places.ravel(), updates.ravel(), reduction)
    except (IndexError, ValueError):
        return None  # an index is out of range; which one, is found where there is time for it
    return result


def scatter_small_along(
    data: Any, indices: Any, updates: Any, axis: Any, reduction: Any, out: Any = None
) -> Array | None:
    """Return what ScatterElements gives, or None; as `scatter_small`.

    Args:
        data: T[d0..dr-1].
        indices: int64 or int32[i0..ir-1], without negative ones where r is not 1.
        updates: T[i0..ir-1], not empty.
        axis: -r..r-1.
        reduction: As ScatterElements has it.
        out: None, or `data` itself.
    """
    if not _are_plain(data, indices, updates, reduction) or updates.shape != indices.shape:
        return None
    if not _is_along(data, indices, axis):
        return None
    result = data.copy() if out is None and data.size < LARGE else _start(data, indices, updates, out)
    if result is None:
        return None
    try:
        if data.ndim == 1:
            _reduce(result, indices, updates, reduction)
        else:
            places = _numbered_along(indices, data.shape, axis)
            _reduce(result.ravel(), places.ravel(), updates.ravel(), reduction)
    except (IndexError, ValueError):
        return None
    return result


def gather_small(data: Any, indices: Any) -> Array | None:
    """Return what GatherND gives, or None where it cannot be told at a glance that this is it.

    Args:
        data: As the caller gave it, as is the other: T[d0..dr-1].
        indices: int64 or int32[N, k], not empty; without negative ones where k is not 1.
    """
    if not _are_gathered(data, indices) or indices.ndim != 2:
        return None
    shape, depth = data.shape, indices.shape[1]
    if not 0 < depth <= len(shape) or len(indices) * math.prod(shape[depth:]) >= LARGE:
        return None
    if depth > 1 and indices.size > NUMBERED:
        return None
    try:
        if depth == len(shape) == 1:
            elements: Array = data[indices.ravel()]
            return elements
        if not data.flags.c_contiguous:
            return None  # `take` would copy all of it first
        rows = indices.ravel() if depth == 1 else _numbered(indices, shape[:depth])
        found: Array = data.reshape(-1, *shape[depth:]).take(rows, axis=0)
        return found
    except (IndexError, ValueError):
        return None


def gather_small_along(data: Any, indices: Any, axis: Any) -> Array | None:
    """Return what GatherElements gives, or None; as `gather_small`.

    Args:
        data: T[d0..dr-1].
        indices: int64 or int32[i0..ir-1], not empty; without negative ones where r is not 1.
        axis: -r..r-1.
    """
    if not _are_gathered(data, indices) or not _is_along(data, indices, axis):
        return None
    try:
        if not data.flags.c_contiguous:
            return None
        places = indices if data.ndim == 1 else _numbered_along(indices, data.shape, axis)
        found: Array = data.take(places)
        return found
    except (IndexError, ValueError):
        return None


def _are_plain(data: Any, indices: Any, updates: Any, reduction: Any) -> bool:
    """Tell whether arguments are small arrays that NumPy reduces with the same meaning."""
    if not (type(data) is type(indices) is type(updates) is _NDARRAY and type(reduction) is str):
        return False
    dtype = data.dtype
    if dtype not in _DTYPES.get(reduction, ()) or updates.dtype != dtype or indices.dtype not in _INDICES:
        return False
    if not 0 < updates.size < LARGE:
        return False
    # Which of +0 and -0 is the larger, NumPy does not say.
    is_ordered = reduction not in ("max", "min") or dtype.kind != "f"
    return is_ordered or np.count_nonzero(updates) == updates.size


def _are_gathered(data: Any, indices: Any) -> bool:
    return (
        type(data) is type(indices) is _NDARRAY
        and data.dtype in _DTYPES["none"]
        and indices.dtype in _INDICES
        and 0 < indices.size < LARGE
    )


def _is_along(data: Array, indices: Array, axis: Any) -> bool:
    rank = data.ndim
    if not (rank == indices.ndim and type(axis) is int and -rank <= axis < rank):
        return False
    return rank == 1 or indices.size <= NUMBERED


def _start(data: Array, indices: Array, updates: Array, out: Any) -> Array | None:
    """Return what the result is reduced into, or None; of a rank above 1 it is C-contiguous."""
    if out is None:
        return copied(data)
    if out is not data or not data.flags.writeable or not (data.ndim == 1 or data.flags.c_contiguous):
        return None
    # Indices that it writes over NumPy 2.2 reads late, and for updates in a large result it copies all of it.
    is_apart = data.size < LARGE or not np.may_share_memory(data, updates)
    return data if is_apart and not np.may_share_memory(data, indices) else None


def _numbered(indices: Array, sizes: tuple[int, ...]) -> Array:
    """Return indices of several numbers as one each, (N,)."""
    return np.asarray(np.ravel_multi_index(tuple(indices.reshape(-1, len(sizes)).T), sizes))


def _numbered_along(indices: Array, shape: tuple[int, ...], axis: int) -> Array:
    """Return indices along an axis as places in a flat array."""
    places = list(_grid(indices.shape))
    places[axis] = indices
    return np.asarray(np.ravel_multi_index(tuple(places), shape))


@lru_cache
def _grid(shape: tuple[int, ...]) -> tuple[Array, ...]:
    """Return the places of elements along each axis, to be broadcast."""
    return np.indices(shape, sparse=True)


def _reduce(result: Array, places: Array, updates: Array, reduction: str) -> None:
    """Reduce updates into elements of a flat array, in order.

    NumPy, too, looks at all places before it writes, and copies updates that share memory with the result.
    """
    if reduction == "none":
        result[places] = updates
    else:
        _QUIET.copy().run(_REDUCE_AT[reduction], result, places, updates)


@lru_cache
def _item(nbytes: int) -> np.dtype[np.void]:
    return np.dtype(f"V{nbytes}")
