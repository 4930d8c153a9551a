"""What a picture is made of: boxes, lines of text and arrows, at places in points from the top left."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, TypeAlias

from mdf_scatter.drawing.cells.text import width

Point: TypeAlias = tuple[float, float]


@dataclass(frozen=True)
class Box:
    """A filled rectangle.

    Attributes:
        kind: What it stands for, as a class of the SVG.
        tip: What it shows, in full, as a tooltip.
    """

    x: float
    y: float
    width: float
    height: float
    fill: str
    stroke: str = ""
    stroke_width: float = 1
    dashed: bool = False
    kind: str = ""
    tip: str = ""


@dataclass(frozen=True)
class Text:
    """A line of text; `y` is the middle of its height."""

    x: float
    y: float
    text: str
    size: float
    colour: str
    anchor: Literal["start", "middle", "end"] = "start"
    bold: bool = False
    code: bool = False


@dataclass(frozen=True)
class Arrow:
    """A line to `tip`: where it starts, and the three points of each Bezier curve that follows.

    The last curve ends a head's length before the tip, and runs towards it. Without a tip it has no head.
    """

    points: tuple[Point, ...]
    tip: Point | None
    colour: str
    dashed: bool = False


Shape: TypeAlias = Box | Text | Arrow

HEAD = 7.0
"""Length of an arrow's head."""


def along(*corners: Point) -> tuple[Point, ...]:
    """Return straight lines through some corners as the points of curves, without the first corner."""
    return tuple(point for a, b in pairwise(corners) for point in (a, b, b))


def ends(shapes: Iterable[Shape]) -> float:
    """Return how far to the right shapes reach, in any font."""
    return max(map(_right, shapes))


def bottom(shape: Shape) -> float:
    """Return how far down a shape reaches."""
    if isinstance(shape, Box):
        return shape.y + shape.height
    if isinstance(shape, Text):
        return shape.y + shape.size * 0.7
    return max(y for _, y in shape.points)


def _right(shape: Shape) -> float:
    if isinstance(shape, Box):
        return shape.x + shape.width
    if isinstance(shape, Text):
        part = {"start": 1.0, "middle": 0.5, "end": 0.0}[shape.anchor]
        return shape.x + part * width(shape.text, shape.size, code=shape.code, bold=shape.bold)
    return max(x for x, _ in shape.points)
