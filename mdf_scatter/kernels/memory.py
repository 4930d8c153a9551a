"""Memory for large results and what goes on between, used again when no array refers to it any longer.

The system clears every page that it hands out, which takes as long as to copy data there; so a large
result costs twice its work, unless it is made in memory that this process has had before.
"""

from __future__ import annotations

import math
from collections import deque
from threading import local
from typing import Any

import numpy as np
import numpy.typing as npt

from mdf_scatter.kernels.codes import LINE

Array = npt.NDArray[Any]

LEAST, MOST = 1 << 22, 1 << 29
"""Bytes from which on memory is kept, as below the C library keeps it itself; and of all that is kept."""

SCRATCH = 1 << 27
"""Bytes up to which memory of what goes on between is kept."""

ROOM = 1 << 25
"""Bytes up to which a thread keeps its room."""

_free: deque[Array] = deque()
_free_scratch: deque[Array] = deque(maxlen=1)
_rooms = local()


def empty(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """Return a new array, C-contiguous and aligned, whose elements have no meaning yet.

    No other array has its memory, as long as it or a view of it is there.
    """
    nbytes = math.prod(shape) * dtype.itemsize
    if dtype.hasobject or not is_kept(nbytes):
        return np.empty(shape, dtype)
    return np.asarray(_Lent(_take(nbytes), _free)).view(dtype).reshape(shape)


def is_kept(nbytes: int) -> bool:
    """Tell whether memory of a size is kept, to be used again."""
    return LEAST <= nbytes <= MOST


def scratch(*parts: tuple[int, npt.DTypeLike]) -> tuple[Array, ...]:
    """Return arrays, of these counts and dtypes, for what a call keeps until it ends; see `empty`.

    One piece of memory is kept for all: 128 MB.
    """
    nbytes = sum(_whole_lines(count * np.dtype(dtype).itemsize) for count, dtype in parts)
    if not LEAST <= nbytes <= SCRATCH:
        return tuple(np.empty(count, dtype) for count, dtype in parts)
    try:
        memory = _free_scratch.popleft()
    except IndexError:
        memory = _aligned(nbytes)
    if memory.nbytes < nbytes:
        memory = _aligned(nbytes)
    return _cut(np.asarray(_Lent(memory, _free_scratch)), parts)


def room(*parts: tuple[int, npt.DTypeLike]) -> tuple[Array, ...]:
    """Return arrays, of these counts and dtypes, that are this thread's until it asks for others.

    Up to 32 MB stay with the thread.
    """
    nbytes = sum(_whole_lines(count * np.dtype(dtype).itemsize) for count, dtype in parts)
    memory: Array | None = getattr(_rooms, "memory", None)
    if memory is None or memory.nbytes < nbytes:
        memory = _aligned(nbytes)
        if nbytes <= ROOM:
            _rooms.memory = memory
    return _cut(memory, parts)


class _Lent:
    """What an array and all of its views refer to, as their base, and so what is deleted after them."""

    def __init__(self, memory: Array, free: deque[Array]) -> None:
        self.__array_interface__ = memory.__array_interface__
        self._memory, self._free = memory, free

    def __del__(self) -> None:
        # Threads call this at once, and arrays are deleted at any time: each step is one of the deque.
        self._free.append(self._memory)
        while sum(memory.nbytes for memory in list(self._free)) > MOST:
            try:
                self._free.popleft()
            except IndexError:
                return


def _take(nbytes: int) -> Array:
    for _ in range(len(_free)):
        try:
            memory = _free.popleft()
        except IndexError:
            break
        if memory.nbytes == nbytes:
            return memory
        _free.append(memory)
    return _aligned(nbytes)


def _aligned(nbytes: int) -> Array:
    """Return new memory that begins with a cache line."""
    memory = np.empty(nbytes + LINE, np.uint8)
    lead = -memory.__array_interface__["data"][0] % LINE
    return memory[lead : lead + nbytes]


def _cut(memory: Array, parts: tuple[tuple[int, npt.DTypeLike], ...]) -> tuple[Array, ...]:
    """Cut memory into arrays, each of which begins with a cache line."""
    start, arrays = 0, []
    for count, dtype in parts:
        nbytes = count * np.dtype(dtype).itemsize
        arrays.append(memory[start : start + nbytes].view(dtype))
        start += _whole_lines(nbytes)
    return tuple(arrays)


def _whole_lines(nbytes: int) -> int:
    return nbytes + -nbytes % LINE
