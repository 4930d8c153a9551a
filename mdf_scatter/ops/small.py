"""The shortest way through a plain call that is not large: what is right at a glance is done at once.

Anything else, and all that is wrong, is left to the way that reads, checks and explains.
"""

from __future__ import annotations

from contextvars import Context
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from mdf_scatter.kernels.large import LARGE
from mdf_scatter.kernels.rows import copied

Array = npt.NDArray[Any]

_NDARRAY = np.ndarray  # found faster than as an attribute of a module
_INT64 = np.dtype(np.int64)

_INTEGERS, _FLOATS, _COMPLEX = "bBhHiIlLqQ", "fd", "FD"
"""Characters of dtypes, as `dtype.char` gives them."""

_DTYPES = {
    "none": frozenset(map(np.dtype, "?e" + _INTEGERS + _FLOATS + _COMPLEX)),
    "add": frozenset(map(np.dtype, "?" + _INTEGERS + _FLOATS + _COMPLEX)),
    "mul": frozenset(map(np.dtype, "?" + _INTEGERS + _FLOATS)),
}
"""What NumPy moves, and reduces with the same meaning, in native byte order: for bool by OR and AND."""

_MOVED = _DTYPES["none"]

_REDUCE_AT = {"add": np.add.at, "mul": np.multiply.at}

_QUIET = Context()
"""Where NumPy does not warn. To run in a copy of it costs a twentieth of `np.errstate`."""
_QUIET.run(np.seterr, all="ignore")


def scatter_small(
    data: Any, indices: Any, updates: Any, reduction: Any, out: Any = None, index_rank: int = 2
) -> Array | None:
    """Return what ScatterND gives, or None where it cannot be told at a glance that this is it.

    Args:
        data: As the caller gave it, as are all of these: T[d0, ..].
        indices: int64[N, 1].
        updates: T[N, ..], not empty.
        reduction: "none"; for data of rank 1 also "add" and "mul".
        out: None, or `data` itself.
        index_rank: 2; or 1 for indices int64[N] into data of rank 1, as ScatterElements has them.
    """
    if not (type(data) is type(indices) is type(updates) is _NDARRAY and type(reduction) is str):
        return None
    dtype, rank = data.dtype, data.ndim
    if dtype not in _DTYPES.get(reduction, ()) or updates.dtype != dtype or indices.dtype != _INT64:
        return None
    if indices.ndim != index_rank or updates.ndim != rank or not 0 < updates.size < LARGE:
        return None
    if rank != 1 and (reduction != "none" or index_rank == 1 or data.shape[1:] != updates.shape[1:]):
        return None
    if not rank or not indices.size == len(indices) == len(updates):
        return None
    if out is None:
        result: Array = data.copy() if data.size < LARGE else copied(data)
    elif out is data and data.flags.writeable and (data.size < LARGE or not _overlap(data, indices, updates)):
        result = data
    else:
        return None
    try:
        # NumPy, too, looks at all indices before it writes, and makes copies where memory is shared.
        if reduction != "none":
            _QUIET.copy().run(_REDUCE_AT[reduction], result, indices.ravel(), updates)
        elif rank == 1:
            result[indices.ravel()] = updates
        else:
            _assign_rows(result, indices.ravel(), updates)
    except IndexError:
        return None  # an index is out of range; which one, is found where there is time for it
    return result


def gather_small(data: Any, indices: Any) -> Array | None:
    """Return what GatherND gives, or None where it cannot be told at a glance that this is it.

    Args:
        data: As the caller gave it, as is the other: T[d0, ..].
        indices: int64[N, 1], not empty.
    """
    if not (type(data) is type(indices) is _NDARRAY and data.dtype in _MOVED and indices.dtype == _INT64):
        return None
    if indices.ndim != 2 or not 0 < len(indices) == indices.size < LARGE or not data.ndim:
        return None
    try:
        if data.ndim == 1:
            elements: Array = data[indices.ravel()]
            return elements
        if not data.flags.c_contiguous or indices.size * data.size >= LARGE * len(data):
            return None  # `take` would copy all of it first
        return data.take(indices.ravel(), axis=0)
    except IndexError:
        return None


def _overlap(data: Array, indices: Array, updates: Array) -> bool:
    return np.may_share_memory(data, updates) or np.may_share_memory(data, indices)


def _assign_rows(result: Array, places: npt.NDArray[np.int64], updates: Array) -> None:
    if result.flags.c_contiguous and updates.flags.c_contiguous:
        row = _item(updates.nbytes // len(updates))  # one item is moved faster than its elements
        result, updates = result.ravel().view(row), updates.ravel().view(row)
    result[places] = updates


@lru_cache
def _item(nbytes: int) -> np.dtype[np.void]:
    return np.dtype(f"V{nbytes}")
