"""How many threads the kernels use, and the pool they come from.

The pool is our own, so that it can be used from several Python threads at once and is made anew in a
process that was forked; the threading layers that numba brings allow neither everywhere.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import pairwise
from numbers import Integral
from threading import Lock
from typing import TypeVar

from mdf_scatter.errors import InputError

T = TypeVar("T")

PART = 1 << 21
"""Bytes to be moved from which on another thread is worth what it takes to wake it."""

PIECES = 4
"""Parts for each thread, where more parts cost no more."""


def set_num_threads(n: int | None = None) -> None:
    """Set how many threads the operators use, for all of the process.

    Results do not depend on it: every thread owns a part of the result, and does all that is done
    there, in order.

    Args:
        n: 1 or more; None for all cores that the process may run on, as at the start.

    Raises:
        InputError: `n` is something else.

    >>> set_num_threads(2)
    >>> set_num_threads()
    """
    if n is not None and (not isinstance(n, Integral) or isinstance(n, bool) or n < 1):
        raise InputError(f"n is {n!r}; expected the number of threads, 1 or more, or None for all cores")
    _pool.size = _cores() if n is None else int(n)


def num_threads() -> int:
    """Return how many threads the operators use."""
    return _pool.size


def parts_for(nbytes: int, each: int = 1) -> int:
    """Return into how many parts it pays to divide what moves so many bytes.

    Args:
        nbytes: Bytes that are moved.
        each: Parts for each thread; more of them go on when a thread has to wait for a processor.
    """
    return 1 if _pool.size == 1 else max(1, min(_pool.size * each, nbytes // PART))


def in_parts(task: Callable[[int, int], T], length: int, parts: int) -> list[T]:
    """Run `task(start, stop)` for each of `parts` equal ranges of 0..length, and wait for all.

    Args:
        task: What is done; it must not wait for another task, and should not hold the GIL.
        length: Where the last range ends.
        parts: How many ranges. Threads, the calling one among them, take one after the other.

    Returns:
        What the tasks returned, in order.
    """
    if parts == 1:
        return [task(0, length)]
    ranges = enumerate(pairwise(length * part // parts for part in range(parts + 1)))
    lock = Lock()
    results: dict[int, T] = {}

    def work() -> None:
        while True:
            with lock:
                part, (start, stop) = next(ranges, (-1, (0, 0)))
            if part < 0:
                return
            results[part] = task(start, stop)

    helpers = [_pool.submit(work) for _ in range(min(parts, _pool.size) - 1)]
    work()
    for helper in helpers:
        # One that has not begun, because other calls keep the threads busy, has nothing left to do.
        if helper is not None and not helper.cancel():
            helper.result()
    return [results[part] for part in range(parts)]


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class _Pool:
    """Threads that are started when they are first needed, and kept.

    Attributes:
        size: How many threads work at once, the calling one among them.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self.forget()

    def forget(self) -> None:
        """Drop the threads without a word to them: in a child process there are none."""
        self._lock = Lock()
        self._executor: ThreadPoolExecutor | None = None
        self._room = 0

    def submit(self, work: Callable[[], None]) -> Future[None] | None:
        """Give work to a thread; None where no thread can be had, as when the interpreter ends."""
        with self._lock:
            if self._executor is None or self._room < self.size - 1:
                if self._executor is not None:
                    self._executor.shutdown(wait=False)
                self._room = max(1, self.size - 1)
                self._executor = ThreadPoolExecutor(self._room, "mdf-scatter")
            try:
                return self._executor.submit(work)
            except RuntimeError:
                return None


_pool = _Pool(_cores())
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.forget)
