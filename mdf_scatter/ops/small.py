"""The shortest way through a small and plain call: what is right at a glance is done at once.

Anything else, and all that is wrong, is left to the way that reads, checks and explains.
"""

from __future__ import annotations

from contextvars import Context
from typing import Any

import numpy as np
import numpy.typing as npt

SMALL = 1 << 12
"""Elements up to which the checks of a call take longer than its work."""

_INT64 = np.dtype(np.int64)

_INTEGERS, _FLOATS, _COMPLEX = "bBhHiIlLqQ", "fd", "FD"
"""Characters of dtypes, as `dtype.char` gives them."""

_DTYPES = {
    "none": frozenset(map(np.dtype, "?e" + _INTEGERS + _FLOATS + _COMPLEX)),
    "add": frozenset(map(np.dtype, "?" + _INTEGERS + _FLOATS + _COMPLEX)),
    "mul": frozenset(map(np.dtype, "?" + _INTEGERS + _FLOATS)),
}
"""What NumPy moves, and reduces with the same meaning, in native byte order: for bool by OR and AND."""

_REDUCE_AT = {"add": np.add.at, "mul": np.multiply.at}

_QUIET = Context()
"""Where NumPy does not warn. A copy of it is made and run in at a tenth of the cost of `np.errstate`."""
_QUIET.run(np.seterr, all="ignore")


def scatter_small(
    data: Any, indices: Any, updates: Any, reduction: Any, out: Any = None
) -> npt.NDArray[Any] | None:
    """Return what ScatterND gives, or None where it cannot be told at a glance that this is it.

    Args:
        data: As the caller gave it, as are all below: T[d0, ..].
        indices: int64[N, 1].
        updates: T[N, ..].
        reduction: "none"; for data of rank 1 also "add" and "mul".
        out: None, or `data` itself, which then may be large.
    """
    if not (type(data) is type(indices) is type(updates) is np.ndarray and type(reduction) is str):
        return None
    dtype, shape = data.dtype, updates.shape
    if dtype not in _DTYPES.get(reduction, ()) or updates.dtype != dtype or indices.dtype != _INT64:
        return None
    if not shape or indices.shape != (shape[0], 1) or not data.ndim or data.shape[1:] != shape[1:]:
        return None
    if updates.size > SMALL or not data.size or (len(shape) > 1 and reduction != "none"):
        return None
    if out is None:
        if data.size > SMALL:
            return None
        result: npt.NDArray[Any] = data.copy()
    elif out is data and data.flags.writeable and not _overlap(data, indices, updates):
        result = data
    else:
        return None
    try:
        # NumPy, too, looks at all indices before it writes anything.
        if reduction == "none":
            result[indices.ravel()] = updates
        else:
            _QUIET.copy().run(_REDUCE_AT[reduction], result, indices.ravel(), updates)
    except IndexError:
        return None  # an index is out of range; which one, is found where there is time for it
    return result


def gather_small(data: Any, indices: Any) -> npt.NDArray[Any] | None:
    """Return what GatherND gives, or None where it cannot be told at a glance that this is it.

    Args:
        data: As the caller gave it, as is the other: T[d0, ..].
        indices: int64[N, 1].
    """
    if not (type(data) is type(indices) is np.ndarray) or data.dtype not in _DTYPES["none"]:
        return None
    shape = indices.shape
    if indices.dtype != _INT64 or len(shape) != 2 or shape[1] != 1 or not data.ndim or not data.size:
        return None
    if shape[0] * (data.size // len(data)) > SMALL:
        return None
    try:
        found: npt.NDArray[Any] = data[indices.ravel()]
    except IndexError:
        return None
    return found if found.flags.c_contiguous else np.ascontiguousarray(found)


def _overlap(data: npt.NDArray[Any], *others: npt.NDArray[Any]) -> bool:
    return any(np.may_share_memory(data, other) for other in others)
