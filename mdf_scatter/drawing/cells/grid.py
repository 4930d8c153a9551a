"""A tensor as cells: where each stands, with the numbers of planes, rows and columns beside them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from mdf_scatter.drawing.cells.shapes import Box, Shape, Text, ends
from mdf_scatter.drawing.cells.text import width
from mdf_scatter.drawing.cells.window import Window

CELL_HEIGHT = 30.0
CELL_WIDTH = 30.0
PADDING = 12.0
GAP = 16.0
PLANE_GAP = 6.0
LABEL = 14.0

VALUE_SIZE = 11.0
LABEL_SIZE = 9.0
BADGE_SIZE = 8.0


@dataclass(frozen=True)
class Cell:
    """What stands in a cell.

    Attributes:
        text: The value.
        colour: Of the text.
        fills: Colours of the ground, from top to bottom.
        stroke: Colour of the outline.
        badge: Numbers of the updates, in the corner.
        strong: Whether the cell was written or read.
        dashed: Whether it was written several times, and only the last one stays.
        tip: What it shows, in full.
        kind: What it stands for, as a class of the SVG.
    """

    text: str
    colour: str
    fills: tuple[str, ...]
    stroke: str
    badge: str = ""
    strong: bool = False
    dashed: bool = False
    tip: str = ""
    kind: str = "cell"

    @property
    def width(self) -> float:
        """The width it needs."""
        value = width(self.text, VALUE_SIZE, code=True)
        badge = width(self.badge, BADGE_SIZE, bold=True) - PADDING / 2
        return max(CELL_WIDTH, value + PADDING, badge + PADDING)

    def shapes(self, x: float, y: float, wide: float, tall: float = CELL_HEIGHT) -> list[Shape]:
        """Draw the cell."""
        stripe = tall / len(self.fills)
        drawn: list[Shape] = [
            Box(x, y + at * stripe, wide, stripe, fill, kind="stripe")
            for at, fill in enumerate(self.fills)
            if len(self.fills) > 1
        ]
        fill = self.fills[0] if len(self.fills) == 1 else ""
        heavy = 2.0 if len(self.fills) > 1 or self.dashed else 1.4 if self.strong else 1.0
        drawn.append(Box(x, y, wide, tall, fill, self.stroke, heavy, self.dashed, self.kind, self.tip))
        middle = x + wide / 2, y + tall / 2
        drawn.append(Text(*middle, self.text, VALUE_SIZE, self.colour, "middle", self.strong, code=True))
        if self.badge:
            drawn.append(Text(x + 3, y + 5.5, self.badge, BADGE_SIZE, self.colour, bold=True))
        return drawn


@dataclass
class Grid:
    """The cells of a tensor, laid out.

    Attributes:
        boxes: Where each shown element stands, by its position in the flat tensor.
        cell_width: Width of each.
        muted: Colour of the labels.
        left: Where the cells begin; labels stand before it.
        right: Where they end.
        top: Where the first row of cells begins.
        bottom: Where everything ends.
        labels: Numbers of planes, rows and columns, and what is left out.
    """

    left: float
    top: float
    cell_width: float
    muted: str
    right: float = 0
    bottom: float = 0
    boxes: dict[int, tuple[float, float]] = field(default_factory=dict)
    labels: list[Shape] = field(default_factory=list)

    def shapes(self, cells: Callable[[int], Cell]) -> list[Shape]:
        """Draw the cells, those with the heavier outlines last, so that none is covered."""
        drawn = {position: cells(position) for position in self.boxes}
        order = sorted(drawn, key=lambda position: _weight(drawn[position]))
        return self.labels + [
            shape
            for position in order
            for shape in drawn[position].shapes(*self.boxes[position], self.cell_width)
        ]


def row_label_width(window: Window) -> float:
    """Return the room that the numbers of rows take, before the cells."""
    if len(window.shape) < 2 or not window.rows:
        return 0
    return width(str(max(window.rows)), LABEL_SIZE, code=True) + 8


def grid(
    window: Window,
    x: float,
    y: float,
    cell_width: float,
    muted: str,
    *,
    lanes: Mapping[int, float] | None = None,
    numbered: bool = True,
    numbers_below: bool = False,
) -> Grid:
    """Lay out a tensor.

    Args:
        window: What is shown of it.
        x: Where the cells begin; numbers of rows stand before that.
        y: Where it begins.
        cell_width: Width of a cell.
        muted: Colour of the numbers.
        lanes: Room for arrows above lines of cells, by the line's number over all planes.
        numbered: Whether rows and columns have their numbers.
        numbers_below: Whether the numbers of columns stand below a vector, not above.
    """
    made = Grid(x, y, cell_width, muted)
    columns = _columns(window, x, cell_width)
    for plane, hidden in _with_gaps(window.planes, window.sizes[0]):
        if hidden:
            y = _gap(made, y, f"… {hidden} {'plane' if hidden == 1 else 'planes'} not shown")
            continue
        if name := window.plane_text(plane):
            y += PLANE_GAP if made.boxes else 0
            made.labels.append(Text(x, y + LABEL / 2, name, LABEL_SIZE, muted, bold=True))
            y += LABEL
        if numbered and not numbers_below and window.positions:
            y = _numbers(made, columns, y)
        made.top = made.top if made.boxes else y
        y = _lines(made, window, plane, columns, y, lanes or {}, numbered=numbered)
    if numbers_below and window.positions:
        y = _numbers(made, columns, y)
    if not made.boxes:
        y = _gap(made, y, "no elements")
    made.bottom = y
    rights = [at + (GAP if column is None else cell_width) for column, at in columns]
    made.right = max([*rights, ends(made.labels)] if made.labels else rights)
    return made


def _lines(
    made: Grid,
    window: Window,
    plane: int,
    columns: Sequence[tuple[int | None, float]],
    y: float,
    lanes: Mapping[int, float],
    *,
    numbered: bool,
) -> float:
    """Lay out the rows of a plane; return where they end."""
    rows = window.sizes[1]
    for row, hidden in _with_gaps(window.rows, rows):
        if hidden:
            y = _gap(made, y, f"… {hidden} {'row' if hidden == 1 else 'rows'} not shown")
            continue
        y += lanes.get(plane * rows + row, 0)
        middle = y + CELL_HEIGHT / 2
        if numbered and len(window.shape) > 1:
            made.labels.append(
                Text(made.left - 5, middle, str(row), LABEL_SIZE, made.muted, "end", code=True)
            )
        for column, at in columns:
            if column is None:
                made.labels.append(Text(at + GAP / 2, middle, "…", VALUE_SIZE, made.muted, "middle"))
            else:
                made.boxes[window.position(plane, row, column)] = at, y
        y += CELL_HEIGHT
    return y


def _numbers(made: Grid, places: Sequence[tuple[int | None, float]], y: float) -> float:
    for column, at in places:
        if column is not None:
            made.labels.append(
                Text(
                    at + made.cell_width / 2,
                    y + LABEL / 2,
                    str(column),
                    LABEL_SIZE,
                    made.muted,
                    "middle",
                    code=True,
                )
            )
    return y + LABEL


def _gap(made: Grid, y: float, said: str) -> float:
    made.labels.append(Text(made.left, y + GAP / 2 + 1, said, LABEL_SIZE, made.muted))
    return y + GAP + 2


def _columns(window: Window, x: float, cell_width: float) -> list[tuple[int | None, float]]:
    """Return where each column begins; None stands for those that are left out."""
    found: list[tuple[int | None, float]] = []
    for column, hidden in _with_gaps(window.columns, window.sizes[2]):
        found.append((None if hidden else column, x))
        x += GAP if hidden else cell_width
    return found


def _with_gaps(shown: Sequence[int], size: int) -> list[tuple[int, int]]:
    """Return the numbers that are shown, and where some are left out, how many.

    >>> _with_gaps((0, 3, 4), 9)
    [(0, 0), (-1, 2), (3, 0), (4, 0), (-1, 4)]
    """
    found: list[tuple[int, int]] = []
    before = -1
    for number in (*shown, size):
        if number - before > 1:
            found.append((-1, number - before - 1))
        if number < size:
            found.append((number, 0))
        before = number
    return found


def _weight(cell: Cell) -> float:
    return cell.strong + 2 * (len(cell.fills) > 1 or cell.dashed)
