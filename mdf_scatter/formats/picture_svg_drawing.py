"""What an SVG shows, as a digest that stays the same where a program only writes the SVG anew.

Such programs (svgo, scour) shorten numbers and colours, turn polygons into paths, join paths, and move
attributes between elements and groups. What remains is taken: each text with its place and colour, and
of each line or outline the colours and both ends.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Iterator, Mapping
from functools import cache

from mdf_scatter.errors import FormatError
from mdf_scatter.formats.arrays import shown

Point = tuple[float, float]
Matrix = tuple[float, float, float, float, float, float]

_UNCHANGED: Matrix = (1, 0, 0, 1, 0, 0)
_GROUPS = ("svg", "g", "a", "title", "desc", "metadata")
_SHAPES = ("path", "polygon", "polyline", "line", "rect", "circle", "ellipse")
_INHERITED = ("fill", "stroke")
_HIDING = ("style", "display", "visibility", "opacity", "clip-path", "mask", "filter")
"""Attributes with which something could be hidden or shown otherwise; our drawings have none of them."""

_NUMBER = re.compile(r"[\s,]*([-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)", re.ASCII)
_FLAG = re.compile(r"[\s,]*([01])")
_COMMAND = re.compile(r"[\s,]*([MmZzLlHhVvCcSsQqTtAa])")
_TRANSFORM = re.compile(r"[\s,]*(\w+)\s*\(([^()]*)\)", re.ASCII)
_ARGUMENTS = {"M": 2, "L": 2, "H": 1, "V": 1, "C": 6, "S": 4, "Q": 4, "T": 2, "A": 7, "Z": 0}
_ARC_FLAGS = (3, 4)


class Drawing:
    """Collects what is shown while an SVG is gone through."""

    def __init__(self) -> None:
        self._groups: list[tuple[Matrix, dict[str, str]]] = [(_UNCHANGED, {"fill": "#000", "stroke": "none"})]
        self._shown: list[str] = []
        self._words: list[str] | None = None
        self._label = ""

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        """Take an element that begins."""
        name = tag.rpartition(" ")[2]
        matrix, colours = self._groups[-1]
        if "transform" in attributes:
            matrix = _product(matrix, _transform(attributes["transform"]))
        colours = {key: attributes.get(key, colours[key]) for key in _INHERITED}
        self._groups.append((matrix, colours))
        self._shown += [f"{name} {key}={attributes[key]}" for key in _HIDING if key in attributes]
        paint = " ".join(_colour(colours[key]) for key in _INHERITED)
        if name == "text":
            place = _placed(matrix, (_float(attributes.get("x", "0")), _float(attributes.get("y", "0"))))
            self._words, self._label = [], f"text {place} {_colour(colours['fill'])}"
        elif name not in (*_SHAPES, *_GROUPS):
            self._shown.append(f"<{name}>")  # ours have none; whatever it does, it is a change
        else:
            self._shown += [
                f"{paint} {_placed(matrix, first)} {_placed(matrix, last)}"
                for first, last in _lines(name, attributes)
            ]

    def end(self, tag: str) -> None:
        """Take the end of an element."""
        self._groups.pop()
        if tag.rpartition(" ")[2] == "text" and self._words is not None:
            self._shown.append(f"{self._label} {' '.join(''.join(self._words).split())}")
            self._words = None

    def text(self, text: str) -> None:
        """Take characters between elements."""
        if self._words is not None:
            self._words.append(text)

    def digest(self) -> str:
        """Return the SHA-256 of what was collected, in whatever order it stood."""
        return hashlib.sha256("\n".join(sorted(self._shown)).encode("utf-8", "replace")).hexdigest()


def _lines(name: str, attributes: Mapping[str, str]) -> Iterator[tuple[Point, Point]]:
    """Yield the first and the last point of each line or outline of a shape."""
    get = attributes.get
    if name == "path":
        yield from _path_ends(get("d", ""))
    elif name in ("polygon", "polyline"):
        numbers = [float(found[1]) for found in _NUMBER.finditer(get("points", ""))]
        if len(numbers) >= 4:
            first, last = (numbers[0], numbers[1]), (numbers[-2], numbers[-1])
            yield first, first if name == "polygon" else last
    elif name == "line":
        yield (
            (_float(get("x1", "0")), _float(get("y1", "0"))),
            (_float(get("x2", "0")), _float(get("y2", "0"))),
        )
    elif name == "rect":
        corner = _float(get("x", "0")), _float(get("y", "0"))
        yield corner, corner
    elif name in ("circle", "ellipse"):
        radius = _float(get("r", get("rx", "0")))
        yield (_float(get("cx", "0")), _float(get("cy", "0"))), (radius, _float(get("ry", str(radius))))


def _path_ends(path: str) -> Iterator[tuple[Point, Point]]:
    first: Point | None = None
    here: Point = (0.0, 0.0)
    for command, numbers in _commands(path):
        kind, relative = command.upper(), command.islower()
        base = here if relative else (0.0, 0.0)
        if kind == "M":
            if first is not None:
                yield first, here
            first = here = (base[0] + numbers[0], base[1] + numbers[1])
        elif first is None:
            break
        elif kind == "Z":
            here = first
        elif kind == "H":
            here = (base[0] + numbers[0], here[1])
        elif kind == "V":
            here = (here[0], base[1] + numbers[0])
        else:
            here = (base[0] + numbers[-2], base[1] + numbers[-1])
    if first is not None:
        yield first, here


def _commands(path: str) -> Iterator[tuple[str, list[float]]]:
    place, command = 0, ""
    while place < len(path.rstrip()):
        found = _COMMAND.match(path, place)
        if found is not None:
            place, command = found.end(), found[1]
        elif command in ("M", "m"):  # further points of a line that began there
            command = "L" if command == "M" else "l"
        numbers: list[float] = []
        for position in range(_ARGUMENTS.get(command.upper(), -1)):
            is_flag = command in "Aa" and position in _ARC_FLAGS
            number = (_FLAG if is_flag else _NUMBER).match(path, place)
            if number is None:
                raise FormatError(f"holds a path that cannot be read: {shown(path[place : place + 40])}")
            place = number.end()
            numbers.append(float(number[1]))
        if found is None and not numbers:
            raise FormatError(f"holds a path that cannot be read: {shown(path[place : place + 40])}")
        yield command, numbers


def _transform(text: str) -> Matrix:
    matrix = _UNCHANGED
    for found in _TRANSFORM.finditer(text):
        name, n = found[1], [float(number[1]) for number in _NUMBER.finditer(found[2])]
        if name == "translate" and len(n) in (1, 2):
            step: Matrix = (1, 0, 0, 1, n[0], n[-1] if len(n) == 2 else 0)
        elif name == "scale" and len(n) in (1, 2):
            step = (n[0], 0, 0, n[-1], 0, 0)
        elif name == "rotate" and len(n) == 1:
            c, s = math.cos(math.radians(n[0])), math.sin(math.radians(n[0]))
            step = (c, s, -s, c, 0, 0)
        elif name == "matrix" and len(n) == 6:
            step = (n[0], n[1], n[2], n[3], n[4], n[5])
        else:
            raise FormatError(f"holds the transform {shown(text)}, which our drawings have not")
        matrix = _product(matrix, step)
    return matrix


def _product(outer: Matrix, inner: Matrix) -> Matrix:
    a, b, c, d, e, f = outer
    g, h, i, j, k, m = inner
    return a * g + c * h, b * g + d * h, a * i + c * j, b * i + d * j, a * k + c * m + e, b * k + d * m + f


def _placed(matrix: Matrix, point: Point) -> str:
    a, b, c, d, e, f = matrix
    x, y = a * point[0] + c * point[1] + e, b * point[0] + d * point[1] + f
    # Graphviz writes hundredths and svgo keeps thousandths; adding 0.0 turns -0.0 into 0.0.
    return f"{round(x, 2) + 0.0:.2f},{round(y, 2) + 0.0:.2f}"


def _float(text: str) -> float:
    found = _NUMBER.match(text)
    return float(found[1]) if found else 0.0


@cache
def _named_colours() -> dict[str, str]:
    from PIL.ImageColor import colormap

    return {name: colour for name, colour in colormap.items() if isinstance(colour, str)}


def _colour(text: str) -> str:
    colour = _named_colours().get(text.strip().lower(), text.strip().lower())
    return (
        "#" + "".join(digit * 2 for digit in colour[1:]) if re.fullmatch("#[0-9a-f]{3}", colour) else colour
    )
