"""Lists in files that make no tensor: what stands in them that must not, and where."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from mdf_scatter.expressions import shorten
from mdf_scatter.ops.settings import MOST_AXES, described, is_wide

_NO_NUMBERS = frozenset({"nan", "inf", "+inf", "-inf", "infinity", "+infinity", "-infinity"})


def no_tensor(value: Any) -> str | None:
    """Say why a value makes no tensor; None where it may make one, or is a text or nothing.

    >>> no_tensor([[4], [3, 1]]), no_tensor([9, None]), no_tensor([[1, 2]])
    ('is uneven: [1] has length 2 and [0] has 1', 'has null at [1]', None)
    """
    if value is None or isinstance(value, (str, np.ndarray)):
        return None
    if isinstance(value, Mapping):
        return "is a mapping"
    if (problem := uneven(value)) is not None:
        return problem
    for place, item in _leaves(value):
        if item is None:
            return f"has null{_at(place)}"
        if isinstance(item, Mapping):
            return f"has a mapping{_at(place)}"
        if isinstance(item, bytes):
            return f"has bytes{_at(place)}"
        if is_wide(item):
            return f"has {described(item)}{_at(place)}, which no dtype holds"
    return None


def text_in(value: Any) -> str:
    """Say which text stands where numbers should.

    >>> text_in([1, "two"])
    "has the text 'two' at [1]"
    """
    place, text = next((place, item) for place, item in _leaves(value) if isinstance(item, str))
    is_no_number = text.strip().casefold() in _NO_NUMBERS
    hint = " (YAML writes .nan and .inf, JSON NaN and Infinity)" if is_no_number else ""
    return f"has the text {shorten(text)!r}{_at(place)}{hint}"


def uneven(value: Any) -> str | None:
    """Say where lists that make one tensor differ in length or depth; None where they do not."""
    level: list[tuple[tuple[int, ...], Any]] = [((), value)]
    while level and isinstance(level[0][1], (list, tuple)):
        first, size = level[0][0], len(level[0][1])
        if len(first) == MOST_AXES:
            return f"is nested deeper than {MOST_AXES} levels"
        for place, item in level:
            if not isinstance(item, (list, tuple)):
                return f"is uneven:{_at(place, '')} is no list and{_at(first, '')} is one"
            if len(item) != size:
                return f"is uneven:{_at(place, '')} has length {len(item)} and{_at(first, '')} has {size}"
        level = [((*place, i), inner) for place, item in level for i, inner in enumerate(item)]
    deeper = next((place for place, item in level if isinstance(item, (list, tuple))), None)
    if deeper is None:
        return None
    return f"is uneven:{_at(deeper, '')} is a list and{_at(level[0][0], '')} is none"


def _leaves(value: Any, place: tuple[int, ...] = ()) -> Iterator[tuple[tuple[int, ...], Any]]:
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if not isinstance(value, (list, tuple)):
        yield place, value
        return
    for i, item in enumerate(value):
        yield from _leaves(item, (*place, i))


def _at(place: tuple[int, ...], word: str = " at") -> str:
    return f"{word} [{', '.join(map(str, place))}]" if place else ""
