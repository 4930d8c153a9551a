"""Arrows between items and cells, on ways that cross no text: beside the cells, or in the lanes between."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mdf_scatter.drawing.cells.grid import CELL_HEIGHT, Grid
from mdf_scatter.drawing.cells.shapes import HEAD, Arrow, Point, along

LANE = 9.0
"""Height of a lane for one arrow; each further one adds a track."""

TRACK = 5.0
CLEAR = 6.0
"""Room that is left between an arrow's ends and what it points from or to."""


@dataclass(frozen=True)
class Region:
    """The shown cells of a row, from the leftmost to the rightmost and from the top to the bottom.

    Attributes:
        is_outer: Whether it reaches the side of the tensor that the arrows are on.
    """

    left: float
    top: float
    right: float
    bottom: float
    is_outer: bool


def regions(grid: Grid, rows: Sequence[int], row_width: int, *, from_left: bool) -> dict[int, Region]:
    """Find where the given rows stand; a row of which nothing is shown has no region."""
    boxes: dict[int, list[Point]] = defaultdict(list)
    for position, box in grid.boxes.items():
        boxes[position // row_width].append(box)
    edge = min((x for x, _ in grid.boxes.values()), default=0)
    far = max((x for x, _ in grid.boxes.values()), default=0)
    found = {}
    for row in dict.fromkeys(rows):
        if row not in boxes:
            continue
        xs, ys = zip(*boxes[row], strict=True)
        is_outer = min(xs) == edge if from_left else max(xs) == far
        found[row] = Region(min(xs), min(ys), max(xs) + grid.cell_width, max(ys) + CELL_HEIGHT, is_outer)
    return found


def lane_heights(lines: Sequence[int]) -> dict[int, float]:
    """Return the room that the arrows need above each line of cells, given the line that each goes to."""
    return {line: LANE + TRACK * count for line, count in Counter(lines).items()}


def sideways(
    ends: Sequence[tuple[int, Point]],
    found: Mapping[int, Region],
    edge: float,
    colours: Sequence[str],
    dashed: Sequence[bool],
    *,
    to_items: bool,
) -> list[Arrow]:
    """Draw arrows between items and the rows beside them.

    Args:
        ends: For each item, the row it belongs to, and where the arrow begins or ends at the item.
        found: Where the rows stand.
        edge: Where, beside the rows and their numbers, the arrows turn in.
        colours: A colour for each arrow.
        dashed: Whether each arrow is dashed.
        to_items: Whether the arrows go from the rows to the items.
    """
    count = Counter(row for row, _ in ends)
    order: Counter[int] = Counter()
    tracks: Counter[float] = Counter()
    drawn = []
    for (row, end), colour, is_dashed in zip(ends, colours, dashed, strict=True):
        if row not in found:
            continue
        region = found[row]
        order[row] += 1
        part = order[row] / (count[row] + 1)
        if region.is_outer:
            way: tuple[Point, ...] = ((edge, region.top + part * (region.bottom - region.top)),)
        else:
            tracks[region.top] += 1
            lane = region.top - LANE / 2 - TRACK * tracks[region.top] + 2
            x = region.left + part * (region.right - region.left)
            way = ((edge, lane), (x, lane), (x, region.top - (0 if to_items else 1)))
        drawn.append(_arrow(tuple(reversed(way)) if to_items else way, end, colour, is_dashed, to_items))
    return drawn


def downwards(
    starts: Sequence[Point], tips: Sequence[Point], colours: Sequence[str], dashed: Sequence[bool]
) -> list[Arrow]:
    """Draw arrows from each start down to its tip."""
    drawn = []
    for start, tip, colour, is_dashed in zip(starts, tips, colours, dashed, strict=True):
        neck = tip[0], tip[1] - HEAD
        middle = (start[1] + neck[1]) / 2
        curve = (start, (start[0], middle), (neck[0], middle), neck)
        drawn.append(Arrow(curve, tip, colour, is_dashed))
    return drawn


def _arrow(way: tuple[Point, ...], end: Point, colour: str, dashed: bool, to_items: bool) -> Arrow:
    if to_items:
        neck = end[0] - HEAD, end[1]
        return Arrow((way[0], *along(*way), *_bend(way[-1], neck), neck), end, colour, dashed)
    tip = way[-1]
    before = way[-2] if len(way) > 1 else end
    neck = (tip[0], tip[1] - HEAD) if before[0] == tip[0] else (tip[0] - HEAD, tip[1])
    corners = (*way[:-1], neck)
    return Arrow((end, *_bend(end, corners[0]), corners[0], *along(*corners)), tip, colour, dashed)


def _bend(start: Point, end: Point) -> tuple[Point, Point]:
    middle = (start[0] + end[0]) / 2
    return (middle, start[1]), (middle, end[1])
