"""Names that nothing else has."""

from __future__ import annotations

from collections.abc import Iterable


class Names:
    """Names in use, and new ones beside them, each found in constant time on average.

    Args:
        taken: Names in use from the start.

    >>> names = Names(["a"])
    >>> names.take("a"), names.take("a"), names.take("b")
    ('a_1', 'a_2', 'b')
    """

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self._taken = set(taken)
        self._count: dict[str, int] = {}

    def __contains__(self, name: object) -> bool:
        """Tell whether a name is in use."""
        return name in self._taken

    def take(self, wanted: str) -> str:
        """Return `wanted`, or the first of `wanted_1`, `wanted_2`, ... that is free; it is in use then."""
        name, count = wanted, self._count.get(wanted, 0)
        while name in self._taken:
            count += 1
            name = f"{wanted}_{count}"
        if count:
            self._count[wanted] = count
        self._taken.add(name)
        return name

    def add(self, names: Iterable[str]) -> None:
        """Take names as they are."""
        self._taken.update(names)

    def free(self, name: str) -> None:
        """Let others have a name again."""
        self._taken.discard(name)
        base, _, number = name.rpartition("_")
        if number.isdecimal():
            self._count.pop(base, None)
