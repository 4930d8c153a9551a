"""Vectors one below the other: data, the items below their indices, and the output."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mdf_scatter.drawing.cells.arrows import downwards
from mdf_scatter.drawing.cells.grid import CELL_HEIGHT, LABEL, LABEL_SIZE, Grid
from mdf_scatter.drawing.cells.parts import CHANNEL, COLUMN_GAP, ITEM_GAP, MARGIN, NOTE, Parts
from mdf_scatter.drawing.cells.shapes import Point, Shape
from mdf_scatter.drawing.cells.text import width

_INDEX = LABEL + 4
_ITEM = _INDEX + CELL_HEIGHT + 4
_NEAR = 2.0
"""Room between an arrow's ends and the cells."""


@dataclass(frozen=True)
class _Items:
    """Items side by side, the middle of each, and where they begin and end."""

    shapes: list[Shape]
    middles: list[float]
    top: float
    bottom: float


def below(parts: Parts, y: float) -> list[Shape]:
    """Draw a call that moves single elements of a vector; the names stand at the left."""
    x = MARGIN + parts.heading_width() + 20
    return _gather(parts, x, y) if parts.call.is_gather else _scatter(parts, x, y)


def _scatter(parts: Parts, x: float, y: float) -> list[Shape]:
    paint = parts.paint
    data = parts.whole_grid(x, y)
    items = _items(parts, x, data.bottom + COLUMN_GAP / 2)
    output = parts.whole_grid(x, items.bottom + _channel(parts), numbers_below=True)
    shapes = parts.heading(MARGIN, data.top + 1, "data") + data.shapes(paint.data) + items.shapes
    shapes += parts.heading(MARGIN, output.top + 1, "output") + output.shapes(paint.target)
    if parts.has_arrows:
        starts = [(middle, items.bottom + _NEAR) for middle in items.middles]
        tips = _meeting(output, parts.rows, -_NEAR)
        shapes += downwards(starts, tips, parts.colours, parts.lost)
    return shapes + _notes(parts, x, output.bottom + 6)


def _gather(parts: Parts, x: float, y: float) -> list[Shape]:
    cells = parts.paint.target
    data = parts.whole_grid(x, y)
    items = _items(parts, x, data.bottom + _channel(parts))
    shapes = parts.heading(MARGIN, data.top + 1, "data") + data.shapes(cells) + items.shapes
    if parts.has_arrows:
        starts = _meeting(data, parts.rows, CELL_HEIGHT + _NEAR)
        tips = [(middle, items.top - _NEAR) for middle in items.middles]
        shapes += downwards(starts, tips, parts.colours, parts.lost)
    return shapes


def _channel(parts: Parts) -> float:
    return CHANNEL * 0.7 if parts.has_arrows else COLUMN_GAP / 2


def _items(parts: Parts, x: float, y: float) -> _Items:
    """Draw the items side by side, each below its number and its index."""
    paint, wide = parts.paint, max(parts.index_width, parts.item_width)
    shapes = parts.heading(MARGIN, y + _INDEX + 1, "indices") + parts.heading(MARGIN, y + _ITEM + 1, "items")
    middles: list[float] = []
    if not parts.items:
        shapes.append(parts.muted(x, y + _ITEM, "none"))
    for item, hidden in parts.items_after_gaps():
        if hidden:
            said = f"… {hidden} not shown …"
            shapes.append(parts.muted(x, y + _ITEM, said))
            x += width(said, LABEL_SIZE) + ITEM_GAP
        middles.append(x + wide / 2)
        shapes += parts.badge(x + (wide - parts.badge_width) / 2, y + LABEL / 2, item)
        shapes += paint.index(item).shapes(x, y + _INDEX, wide)
        shapes += paint.item(item)(0).shapes(x, y + _ITEM, wide)
        x += wide + ITEM_GAP
    return _Items(shapes, middles, y, y + _ITEM + CELL_HEIGHT)


def _meeting(cells: Grid, rows: Sequence[int], down: float) -> list[Point]:
    """Return where each row's arrow meets its cell, side by side where several do."""
    points = []
    for at, row in enumerate(rows):
        x, y = cells.boxes[row]
        part = rows[: at + 1].count(row) / (rows.count(row) + 1)
        points.append((x + part * cells.cell_width, y + down))
    return points


def _notes(parts: Parts, x: float, y: float) -> list[Shape]:
    return [parts.note(x, y + NOTE * (at + 0.5), text) for at, (_, text) in enumerate(parts.notes())]
