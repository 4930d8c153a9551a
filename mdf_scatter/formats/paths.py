"""Texts for the way to a value inside an object of a file: `args.xs[2]`."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

Way = tuple[str | int, ...]

_PLAIN_KEY = re.compile(r'[^.\[\]"\s]+')
_STEP = re.compile(r'\.?([^.\[\]"\s]+)|\[(\d{1,18})\]|\[("(?:[^"\\]|\\.)*")\]')


def path_text(path: Sequence[str | int]) -> str:
    """Write the way to a value inside an object of the file; no two paths give the same text.

    >>> path_text(("args", "xs", 2)), path_text(("args", "a.b"))
    ('args.xs[2]', 'args["a.b"]')
    """
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        elif _PLAIN_KEY.fullmatch(step) and step.isprintable():
            text += f".{step}" if text else step
        else:
            text += f"[{json.dumps(step)}]"
    return text


def parse_path(text: str) -> Way | None:
    """Read what `path_text` wrote; None where it is not such a text.

    >>> parse_path('args["a.b"][2]'), parse_path("args[")
    (('args', 'a.b', 2), None)
    """
    path: list[str | int] = []
    place = 0
    while place < len(text):
        step = _STEP.match(text, place)
        if step is None:
            return None
        place = step.end()
        try:
            path.append(step[1] or (int(step[2]) if step[2] else json.loads(step[3])))
        except json.JSONDecodeError:
            return None
    return tuple(path) if path and path_text(path) == text else None
