"""How many threads the kernels use, and the pool they come from.

The pool is our own, so that it can be used from several Python threads at once and is made anew in a
process that was forked; the threading layers that numba brings allow neither everywhere.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from contextlib import suppress
from itertools import pairwise
from numbers import Integral
from queue import SimpleQueue
from threading import Lock, Thread, get_native_id
from typing import Any, Generic, TypeVar

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


def together(work: Callable[[], T], threads: int) -> list[T]:
    """Run `work()` in some threads at once, the calling one among them, and wait for all.

    Args:
        work: What is done, a part after the other until none is left; it should not hold the GIL.
        threads: How many; fewer, where there are none free.

    Returns:
        What it returned in each.
    """
    if threads == 1:
        return [work()]
    places = _Places()
    jobs = [_Job(lambda: places.run(work)) for _ in range(min(threads, _pool.size) - 1)]
    for job in jobs:
        _pool.submit(job)
    results = [places.run(work)]
    # One that has not begun, because other calls keep the threads busy, has nothing left to do.
    return [*results, *(job.result() for job in jobs if not job.cancel())]


def in_parts(task: Callable[[int, int], T], length: int, parts: int) -> list[T]:
    """Run `task(start, stop)` for each of `parts` equal ranges of 0..length, and wait for all.

    Args:
        task: What is done; it must not wait for another task, and should not hold the GIL.
        length: Where the last range ends.
        parts: How many ranges. Threads, the calling one among them, take one after the other.

    Returns:
        What the tasks returned, in order.
    """
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

    together(work, parts)
    return [results[part] for part in range(parts)]


class _Places:
    """Processors that threads of one call are on: each on one of its own, if there are as many.

    In a virtual machine, whose processors look busy to its system when they are halted, threads are often
    woken where another one runs, and wait for it, while the next processor has nothing to do.
    """

    def __init__(self) -> None:
        self._caller = get_native_id()
        self._processors: dict[int, int] = {}
        if _processor_of is not None:
            self._allowed = os.sched_getaffinity(0)

    def run(self, work: Callable[[], T]) -> T:
        """Run `work()` in this thread; if another one runs on its processor, one of the two is moved."""
        if _processor_of is not None:
            own, here = get_native_id(), _processor_of()
            others = list(self._processors.items())  # at once, as other threads enter themselves
            beside = [thread for thread, processor in others if processor == here]
            self._processors[own] = here
            # The caller's thread is not ours to move; all others are of the pool.
            movable = [thread for thread in (own, *beside) if thread != self._caller]
            free = self._allowed.difference(self._processors.values())
            if beside and free and movable:
                with suppress(OSError):  # not allowed here, or the thread has ended
                    os.sched_setaffinity(movable[0], free)
                self._processors[movable[0]] = min(free)
        return work()


def _processor_call() -> Callable[[], int] | None:
    """Return what tells the processor that the calling thread is on, where threads can be moved at all."""
    if not hasattr(os, "sched_setaffinity"):
        return None
    call: Callable[[], int] | None = getattr(ctypes.PyDLL(None), "sched_getcpu", None)
    return call


_processor_of = _processor_call()


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class _Job(Generic[T]):
    """Work for a thread of the pool.

    It is no `Future`, in which an interrupt can leave a lock that the end of the process waits for.
    """

    def __init__(self, work: Callable[[], T]) -> None:
        self._work = work
        self._is_taken = Lock()
        self._outcome: SimpleQueue[tuple[list[T], BaseException | None]] = SimpleQueue()

    def cancel(self) -> bool:
        """Take the work away, if it has not begun; tell whether it had not."""
        return self._is_taken.acquire(blocking=False)

    def run(self) -> None:
        """Do the work, if it was not taken away."""
        if not self._is_taken.acquire(blocking=False):
            return
        try:
            outcome: tuple[list[T], BaseException | None] = [self._work()], None
        except BaseException as error:  # whatever it is, it is raised where the result is waited for
            outcome = [], error
        self._outcome.put(outcome)

    def result(self) -> T:
        """Wait until the work is done, and return its result, or raise what it raised."""
        results, error = self._outcome.get()
        if error is not None:
            raise error
        return results[0]


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
        self._jobs: SimpleQueue[_Job[Any]] = SimpleQueue()
        self._count = 0

    def submit(self, job: _Job[Any]) -> None:
        """Give work to a thread; it is left undone where none can be had, as when the interpreter ends."""
        with self._lock:
            while self._count < self.size - 1:
                # A daemon: the end of the process waits for none.
                thread = Thread(target=_work, args=(self._jobs,), name="mdf-scatter", daemon=True)
                try:
                    thread.start()
                except RuntimeError:
                    break
                self._count += 1
            if self._count:
                self._jobs.put(job)


def _work(jobs: SimpleQueue[_Job[Any]]) -> None:
    while True:
        jobs.get().run()


_pool = _Pool(_cores())
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.forget)
