"""Whose memory values are in while a graph runs, and when nothing reads them any more.

A scatter may overwrite its data where that is in memory which this run has made, or was given to keep,
and nothing reads it afterwards, under any name. All else is copied: what a caller gave, the constants of
the graph, and what ONNX's reference evaluator has touched, whose results may be views of each other.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from heapq import heappop, heappush
from typing import Any, Protocol

import numpy as np

from mdf_scatter.kernels.rows import copied


class Step(Protocol):
    """A part of a plan that computes some values from others."""

    @property
    def reads(self) -> tuple[str, ...]:
        """Names of the values it computes from."""

    @property
    def writes(self) -> tuple[str, ...]:
        """Names of the values it computes."""

    @property
    def overwritable(self) -> str | None:
        """Name of the value that it reads and whose memory its result could take; None if there is none."""

    def run(self, values: Values) -> None:
        """Compute this step's values from those that are there, and add them."""


class Values(dict[str, Any]):
    """The values of one run, by name: arrays, and lists, dicts or None for what is no tensor.

    Args:
        given: What the run starts from.
        kept: Names in it of arrays that are the run's to overwrite, each in memory of its own. A run that
            fails leaves them as they were.
        roots: The name whose memory a value is in, for those that are another one by a second name.
    """

    def __init__(
        self,
        given: Mapping[str, Any],
        kept: Collection[str] = (),
        roots: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(given)
        self._roots = roots or {}
        self._own = set(kept)
        self._kept = set(kept)
        self._undo: list[Callable[[], object]] = []

    def own(self, names: Iterable[str]) -> None:
        """Note that values are each in memory of its own."""
        self._own.update(names)

    def inherit(self, name: str, old: str) -> None:
        """Note that a value is in the memory of another, which it has overwritten."""
        self._own.add(name)
        if self.is_kept(old):
            self._kept.add(name)

    def share(self, names: Iterable[str]) -> None:
        """Note that other values may be views of these from now on."""
        self._own.difference_update(self._roots.get(name, name) for name in names)

    def is_own(self, name: str) -> bool:
        """Tell whether a value is in memory that the run may overwrite when nothing reads it any more."""
        return self._roots.get(name, name) in self._own

    def is_kept(self, name: str) -> bool:
        """Tell whether the memory of a value has to be as it was if the run fails."""
        return self._roots.get(name, name) in self._kept

    def on_failure(self, undo: Callable[[], object]) -> None:
        """Say how memory that is about to be overwritten is brought back to what it was."""
        self._undo.append(undo)

    def undo(self) -> None:
        """Bring what is kept back to what it was."""
        while self._undo:
            self._undo.pop()()

    def take(self, names: Iterable[str]) -> dict[str, Any]:
        """Return values, each in memory of its own: what shares its memory with anything is copied."""
        taken: set[str] = set()
        found = {}
        for name in names:
            root = self._roots.get(name, name)
            is_free = root in self._own and root not in taken
            found[name] = self[name] if is_free else _copied(self[name])
            taken.add(root)
        return found


def in_order(steps: Sequence[Step], roots: Mapping[str, str]) -> list[Step]:
    """Return steps so that each comes after those it reads from, else in the order given.

    What could overwrite a value waits for the others that read it, as far as they do not wait for it.

    Args:
        steps: The steps; each value is written by one of them at most.
        roots: See `Values`.
    """
    maker = {name: place for place, step in enumerate(steps) for name in step.writes}
    missing = [{maker[name] for name in step.reads if name in maker} for step in steps]
    after: list[list[int]] = [[] for _ in steps]
    readers: dict[str, set[int]] = {}
    for place, step in enumerate(steps):
        for earlier in missing[place]:
            after[earlier].append(place)
        for root in _roots_of(step.reads, roots):
            readers.setdefault(root, set()).add(place)
    ready = [place for place, makers in enumerate(missing) if not makers]
    held: list[int] = []
    done: dict[int, None] = {}
    while ready or held:
        is_held = not ready
        place = heappop(held if is_held else ready)
        if place in done:
            continue
        step = steps[place]
        target = step.overwritable
        if target is not None and not is_held and len(readers[roots.get(target, target)]) > 1:
            heappush(held, place)
            continue
        done[place] = None
        for root in _roots_of(step.reads, roots):
            readers[root].remove(place)
            for last in readers[root] if len(readers[root]) == 1 else ():
                if not missing[last]:
                    heappush(ready, last)
        for later in after[place]:
            missing[later].remove(place)
            if not missing[later]:
                heappush(ready, later)
    return [steps[place] for place in done]


def endings(steps: Sequence[Step], roots: Mapping[str, str], kept: Iterable[str]) -> list[tuple[str, ...]]:
    """Return for each step the names of the values that nothing reads after it.

    Args:
        steps: The steps, in order.
        roots: See `Values`.
        kept: Names of the values that are wanted in the end.
    """
    last: dict[str, int] = {}
    names: dict[str, dict[str, None]] = {}
    for place, step in enumerate(steps):
        for name in (*step.reads, *step.writes):
            root = roots.get(name, name)
            last[root] = place
            names.setdefault(root, {})[name] = None
    ending: list[list[str]] = [[] for _ in steps]
    for root in last.keys() - _roots_of(kept, roots):
        ending[last[root]] += names[root]
    return [tuple(part) for part in ending]


def _roots_of(names: Iterable[str], roots: Mapping[str, str]) -> set[str]:
    return {roots.get(name, name) for name in names}


def _copied(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return copied(value)
    return [_copied(part) for part in value] if isinstance(value, list) else value
