"""What a picture is laid out of: the shown part of a call, its headings, numbers and notes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from mdf_scatter.drawing.cells import words
from mdf_scatter.drawing.cells.colours import Palette
from mdf_scatter.drawing.cells.grid import LABEL_SIZE, Grid, grid
from mdf_scatter.drawing.cells.movement import Movement
from mdf_scatter.drawing.cells.paint import Paint
from mdf_scatter.drawing.cells.shapes import Box, Shape, Text, ends
from mdf_scatter.drawing.cells.text import place_text, width
from mdf_scatter.drawing.cells.window import Window, shown_items, slice_window, window
from mdf_scatter.drawing.style import Theme
from mdf_scatter.dtypes import is_string, type_text

MARGIN = 20.0
HEADING = 34.0
HEADING_SIZE = 12.0
COLUMN_GAP = 44.0
CHANNEL = 96.0
ITEM_GAP = 8.0
NOTE = 14.0
NOTE_SIZE = 10.0

ARROWS = 8
"""More arrows than this are a tangle: the numbers in the cells say it alone."""

NOTES = 12
"""More notes than this are counted."""


@dataclass(frozen=True)
class Parts:
    """The shown part of a call.

    Attributes:
        call: The call.
        whole: What is shown of data and output.
        part: What is shown of an item.
        items: The items that are shown.
        paint: What stands in their cells.
    """

    call: Movement
    whole: Window
    part: Window
    items: tuple[int, ...]
    paint: Paint

    @classmethod
    def of(cls, call: Movement, palette: Palette) -> Parts:
        """Choose what is shown of a call."""
        shape = call.data.shape
        # How high an item is does not depend on which of its rows are worth showing.
        height = slice_window(window(shape, ()), call.depth).height
        items = shown_items(len(call.rows), height)
        whole = window(shape, [int(call.rows[item]) * call.row_width for item in items])
        return cls(call, whole, slice_window(whole, call.depth), items, Paint(call, whole, items, palette))

    @property
    def theme(self) -> Theme:
        """The colours that diagrams have too."""
        return self.paint.palette.theme

    @property
    def rows(self) -> list[int]:
        """The row of each shown item."""
        return [int(self.call.rows[item]) for item in self.items]

    @property
    def colours(self) -> list[str]:
        """The colour of each shown item."""
        return [self.paint.hue(item).line for item in self.items]

    @property
    def lost(self) -> list[bool]:
        """Whether what each shown item writes is overwritten by a later one."""
        call = self.call
        if call.is_gather or call.reduction != "none":
            return [False] * len(self.items)
        found = [self.paint.items_of.get(row) for row in self.rows]
        return [
            items is not None and int(items[-1]) != item
            for items, item in zip(found, self.items, strict=True)
        ]

    @property
    def has_arrows(self) -> bool:
        """Whether every item has an arrow."""
        return 0 < len(self.items) == len(self.call.rows) <= ARROWS

    @cached_property
    def index_width(self) -> float:
        """The width of the cells that indices stand in."""
        return max((self.paint.index(item).width for item in self.items), default=0)

    @cached_property
    def cell_width(self) -> float:
        """The width of the cells of data and of output, the same so that their columns compare."""
        paint = self.paint
        kinds = (paint.target,) if self.call.is_gather else (paint.data, paint.target)
        return max((cells(position).width for cells in kinds for position in self.whole.positions), default=0)

    @cached_property
    def item_width(self) -> float:
        """The width of an item's cells."""
        cells = (self.paint.item(item)(position) for item in self.items for position in self.part.positions)
        return max((cell.width for cell in cells), default=0)

    @cached_property
    def badge_width(self) -> float:
        """The width of the boxes that the items' numbers stand in."""
        return max((width(str(item), LABEL_SIZE, bold=True) + 8 for item in self.items), default=0)

    @property
    def names(self) -> dict[str, tuple[str, str]]:
        """What data, indices, items and output are called, and their types."""
        call = self.call
        of_indices = "left out"
        if call.indices is not None:
            of_indices = type_text(call.indices.dtype, call.indices.shape)
        return {
            "data": (call.data_name, self._type(call.data.shape)),
            "indices": (call.indices_name, of_indices),
            "items": (call.items_name, self._type(call.items.shape)),
            "output": ("output", self._type(call.output.shape)),
        }

    def heading(self, x: float, y: float, what: str) -> list[Shape]:
        """Write the name of a tensor, and its type below."""
        name, said = self.names[what]
        return [
            Text(x, y + 7, name, HEADING_SIZE, self.theme.text, bold=True),
            Text(x, y + 21, said, LABEL_SIZE, self.theme.muted, code=True),
        ]

    def heading_width(self) -> float:
        """Return the room that the names and types take."""
        return ends([shape for what in self.names for shape in self.heading(0, 0, what)])

    def muted(self, x: float, y: float, text: str) -> Text:
        """Write a remark."""
        return Text(x, y, text, LABEL_SIZE, self.theme.muted)

    def whole_grid(
        self,
        x: float,
        y: float,
        *,
        lanes: Mapping[int, float] | None = None,
        numbers_below: bool = False,
    ) -> Grid:
        """Lay out data or output."""
        return grid(
            self.whole, x, y, self.cell_width, self.theme.muted, lanes=lanes, numbers_below=numbers_below
        )

    def badge(self, x: float, middle: float, item: int) -> list[Shape]:
        """Write the number of an item."""
        wide = self.badge_width
        return [
            Box(x, middle - 7, wide, 14, self.paint.hue(item).line, kind="badge"),
            Text(x + wide / 2, middle, str(item), LABEL_SIZE, self.paint.palette.on_hue, "middle", bold=True),
        ]

    def batch_place(self, item: int) -> str:
        """Write an item's place among the others where they are more than a list."""
        batch = self.call.batch
        return place_text([int(number) for number in np.unravel_index(item, batch)]) if len(batch) > 1 else ""

    def items_after_gaps(self) -> Iterator[tuple[int, int]]:
        """Give each shown item, and how many are left out before it."""
        before = -1
        for item in self.items:
            yield item, item - before - 1
            before = item

    def notes(self) -> list[tuple[int, str]]:
        """Say of each shown row that several items belong to what becomes of it."""
        call = self.call
        several = [(row, items) for row, items in self.paint.items_of.items() if len(items) > 1]
        found = [
            (row, f"{place_text(call.place(row)) + ' ' if call.depth else ''}{words.note(call, row, items)}")
            for row, items in several[:NOTES]
        ]
        if len(several) > NOTES:
            found.append((several[NOTES][0], f"… and {len(several) - NOTES} more"))
        return found

    def note(self, x: float, y: float, text: str) -> Text:
        """Write a note."""
        return Text(x, y, text, NOTE_SIZE, self.theme.text)

    def _type(self, shape: tuple[int, ...]) -> str:
        dtype = self.call.data.dtype
        return type_text("string" if is_string(dtype) else dtype, shape)
