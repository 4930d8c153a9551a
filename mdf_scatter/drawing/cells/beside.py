"""Tensors side by side: data, the items one below the other, and the output."""

from __future__ import annotations

from dataclasses import dataclass

from mdf_scatter.drawing.cells.arrows import CLEAR, lane_heights, regions, sideways
from mdf_scatter.drawing.cells.grid import CELL_HEIGHT, GAP, LABEL, LABEL_SIZE, Grid, grid, row_label_width
from mdf_scatter.drawing.cells.parts import (
    CHANNEL,
    COLUMN_GAP,
    HEADING,
    ITEM_GAP,
    MARGIN,
    NOTE,
    Parts,
)
from mdf_scatter.drawing.cells.shapes import Shape, Text, ends
from mdf_scatter.drawing.cells.text import width


@dataclass(frozen=True)
class _Items:
    """Items one below the other, where each has its middle, and the side that arrows go to."""

    shapes: list[Shape]
    middles: list[float]
    left: float
    right: float


def beside(parts: Parts, y: float) -> list[Shape]:
    """Draw a call of tensors of any rank."""
    labels = row_label_width(parts.whole)
    return _gather(parts, y, labels) if parts.call.is_gather else _scatter(parts, y, labels)


def _scatter(parts: Parts, y: float, labels: float) -> list[Shape]:
    x = MARGIN + labels
    data = parts.whole_grid(x, y + HEADING)
    shapes = parts.heading(x, y, "data") + data.shapes(parts.paint.data)
    items = _items(parts, max(data.right, ends(shapes)) + COLUMN_GAP, y)
    x = max(ends(items.shapes), items.right) + (CHANNEL if parts.has_arrows else COLUMN_GAP) + labels
    output = _target(parts, x, y)
    shapes += items.shapes + parts.heading(x, y, "output") + output.shapes(parts.paint.target)
    shapes += _notes(parts, output)
    return shapes + _arrows(parts, output, items, output.left - labels - CLEAR)


def _gather(parts: Parts, y: float, labels: float) -> list[Shape]:
    x = MARGIN + labels
    data = _target(parts, x, y)
    shapes = parts.heading(x, y, "data") + data.shapes(parts.paint.target)
    gap = CHANNEL if parts.has_arrows else COLUMN_GAP
    items = _items(parts, max(data.right, ends(shapes)) + gap, y)
    return shapes + items.shapes + _arrows(parts, data, items, data.right + CLEAR)


def _target(parts: Parts, x: float, y: float) -> Grid:
    """Lay out the tensor that is written to or read from, with lanes for the arrows."""
    target = parts.whole_grid(x, y + HEADING)
    if not parts.has_arrows:
        return target
    from_left = not parts.call.is_gather
    found = regions(target, parts.rows, parts.call.row_width, from_left=from_left)
    inner = [row for row in parts.rows if row in found and not found[row].is_outer]
    # Only single elements are not at the side of their line.
    lanes = lane_heights([row // parts.whole.sizes[2] for row in inner])
    return parts.whole_grid(x, y + HEADING, lanes=lanes)


def _items(parts: Parts, x: float, y: float) -> _Items:
    call, paint = parts.call, parts.paint
    place = max((width(parts.batch_place(item), LABEL_SIZE, code=True) for item in parts.items), default=0)
    index_x = x + parts.badge_width + 6 + (place + 6 if place else 0)
    shapes = parts.heading(index_x, y, "indices")
    item_x = max(index_x + parts.index_width, ends(shapes)) + 14
    shapes += parts.heading(item_x, y, "items")
    middles: list[float] = []
    right = item_x + parts.item_width
    # Level with the first row of data, which has the numbers of its columns above it.
    y += HEADING + LABEL
    if not parts.items:
        shapes.append(parts.muted(index_x, y + CELL_HEIGHT / 2, "none"))
    for item, hidden in parts.items_after_gaps():
        if hidden:
            said = f"… {hidden} {'results' if call.is_gather else 'updates'} not shown"
            shapes.append(parts.muted(index_x, y + GAP / 2, said))
            y += GAP + ITEM_GAP
        cells = grid(parts.part, item_x, y, parts.item_width, parts.theme.muted, numbered=False)
        middle = (y + cells.bottom) / 2
        shapes += parts.badge(x, middle, item)
        if text := parts.batch_place(item):
            shapes.append(Text(index_x - 6, middle, text, LABEL_SIZE, parts.theme.muted, "end", code=True))
        shapes += paint.index(item).shapes(index_x, middle - CELL_HEIGHT / 2, parts.index_width)
        shapes += cells.shapes(paint.item(item))
        right = max(right, cells.right)
        middles.append(middle)
        y = cells.bottom + ITEM_GAP
    return _Items(shapes, middles, x, right)


def _arrows(parts: Parts, target: Grid, items: _Items, edge: float) -> list[Shape]:
    if not parts.has_arrows:
        return []
    is_gather = parts.call.is_gather
    side = items.left - CLEAR if is_gather else items.right + CLEAR
    return [
        *sideways(
            [(row, (side, middle)) for row, middle in zip(parts.rows, items.middles, strict=True)],
            regions(target, parts.rows, parts.call.row_width, from_left=not is_gather),
            edge,
            parts.colours,
            parts.lost,
            to_items=is_gather,
        )
    ]


def _notes(parts: Parts, target: Grid) -> list[Shape]:
    """Write the notes beside their rows, each below the one before."""
    notes = parts.notes()
    if not notes:
        return []
    found = regions(target, [row for row, _ in notes], parts.call.row_width, from_left=True)
    shapes: list[Shape] = []
    y = 0.0
    for row, text in notes:
        y = max(y + NOTE, (found[row].top + found[row].bottom) / 2)
        shapes.append(parts.note(target.right + 12, y, text))
    return shapes
