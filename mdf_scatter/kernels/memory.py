"""Memory for large results, which is used again when no array refers to it any longer.

The system clears every page that it hands out, which takes as long as to copy data there; so a large
result costs twice its work, unless it is made in memory that this process has had before.
"""

from __future__ import annotations

import math
from collections import deque
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

LEAST, MOST = 1 << 22, 1 << 27
"""Bytes from and up to which memory is kept: below, the C library keeps it itself."""

KEPT = 2
"""How many pieces of memory are kept at most, the latest ones: 256 MB."""

_free: deque[Array] = deque(maxlen=KEPT)


def empty(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """Return a new array, C-contiguous and aligned, whose elements have no meaning yet.

    No other array has its memory, as long as it or a view of it is there.
    """
    nbytes = math.prod(shape) * dtype.itemsize
    if dtype.hasobject or not LEAST <= nbytes <= MOST:
        return np.empty(shape, dtype)
    return np.asarray(_Lent(_take(nbytes))).view(dtype).reshape(shape)


class _Lent:
    """What an array and all of its views refer to, as their base, and so what is deleted after them."""

    def __init__(self, memory: Array) -> None:
        self.__array_interface__ = memory.__array_interface__
        self._memory = memory

    def __del__(self, free: deque[Array] = _free) -> None:
        free.append(self._memory)


def _take(nbytes: int) -> Array:
    # Threads call this at once, and arrays are deleted at any time: every step is a single one of the deque.
    for _ in range(KEPT):
        try:
            memory = _free.popleft()
        except IndexError:
            break
        if memory.nbytes == nbytes:
            return memory
        _free.append(memory)
    return np.empty(nbytes, np.uint8)
