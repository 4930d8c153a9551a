"""The shortest way through a small and plain call: what is right at a glance is done at once.

Anything else, and all that is wrong, is left to the way that reads, checks and explains.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

SMALL = 1 << 12
"""Elements up to which the checks of a call take longer than its work."""

_INT64 = np.dtype(np.int64)

_INTEGERS, _FLOATS, _COMPLEX = "bBhHiIlLqQ", "fd", "FD"
"""Characters of dtypes, as `dtype.char` gives them."""

_MOVED = frozenset("?e" + _INTEGERS + _FLOATS + _COMPLEX)
_AT = {(char, "add"): np.add.at for char in "?" + _INTEGERS + _FLOATS + _COMPLEX}
_AT |= {(char, "mul"): np.multiply.at for char in "?" + _INTEGERS + _FLOATS}
"""NumPy's own reductions of elements, where they mean the same: for bool they are OR and AND."""


def scatter_small(data: Any, indices: Any, updates: Any, reduction: Any) -> npt.NDArray[Any] | None:
    """Return what ScatterND gives, or None where it cannot be told at a glance that this is it.

    Args:
        data: As the caller gave it, as are all below: T[d0, ..].
        indices: int64[N, 1].
        updates: T[N, ..].
        reduction: "none"; for data of rank 1 also "add" and "mul".
    """
    if not (type(data) is type(indices) is type(updates) is np.ndarray and type(reduction) is str):
        return None
    dtype, shape = data.dtype, indices.shape
    is_plain = updates.dtype == dtype and dtype.isnative and indices.dtype == _INT64
    if not is_plain or len(shape) != 2 or shape[1] != 1 or not 0 < data.size <= SMALL:
        return None
    if updates.shape != (shape[0], *data.shape[1:]) or updates.size > SMALL:
        return None
    char = dtype.char
    reduce_at = _AT.get((char, reduction)) if data.ndim == 1 else None
    if reduce_at is None and not (reduction == "none" and char in _MOVED):
        return None
    result: npt.NDArray[Any] = data.copy()
    try:
        if reduce_at is None:
            result[indices.ravel()] = updates
        else:
            with np.errstate(all="ignore"):
                reduce_at(result, indices.ravel(), updates)
    except IndexError:
        return None  # an index is out of range; which one, is found where there is time for it
    return result
