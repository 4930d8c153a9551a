"""What stands in each cell of a call's tensors, and in which colour."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property

import numpy as np

from mdf_scatter.drawing.cells import words
from mdf_scatter.drawing.cells.colours import Hue, Palette
from mdf_scatter.drawing.cells.grid import Cell
from mdf_scatter.drawing.cells.movement import Array, Integers, Movement
from mdf_scatter.drawing.cells.text import cell_text, full_text, place_text
from mdf_scatter.drawing.cells.window import Window

_STRIPES = 4
_BADGES = 3
_NONE = np.zeros(0, np.int64)


class Paint:
    """The cells of a call.

    Args:
        call: The call.
        window: What is shown of the tensor that is written to or read from.
        items: The items that are shown.
        palette: The colours.
    """

    def __init__(self, call: Movement, window: Window, items: Sequence[int], palette: Palette) -> None:
        self.call = call
        self.palette = palette
        self._window = window
        self._items = tuple(items)

    def hue(self, item: int) -> Hue:
        """Return an item's colour."""
        hues = self.palette.hues
        return hues[item % len(hues)] if item in self._items else self.palette.unshown

    @cached_property
    def items_of(self) -> dict[int, Integers]:
        """The items of each shown row that has some, in order."""
        call, window = self.call, self._window
        if not len(call.rows):
            return {}
        rows = np.unique(np.array(window.positions, np.int64) // call.row_width)
        # One pass over all items, however many: sorted by row, they lie together.
        chosen = np.flatnonzero(np.isin(call.rows, rows))
        chosen = chosen[np.argsort(call.rows[chosen], kind="stable")]
        starts, ends = (np.searchsorted(call.rows[chosen], rows, side) for side in ("left", "right"))
        return {
            int(row): chosen[start:end]
            for row, start, end in zip(rows, starts, ends, strict=True)
            if end > start
        }

    @property
    def has_unshown(self) -> bool:
        """Whether a shown row has items that are not shown."""
        shown = set(self._items)
        return any(len(items) > len(shown) or not shown.issuperset(items) for items in self.items_of.values())

    def target(self, position: int) -> Cell:
        """Return a cell of the tensor that is written to or read from."""
        call, theme = self.call, self.palette.theme
        row = position // call.row_width
        items = self.items_of.get(row, _NONE)
        name = call.data_name if call.is_gather else "output"
        value = call.target.reshape(-1)[position]
        tip = f"{_named(name, call.target, position)} = {full_text(value)}{words.tip(call, position, items)}"
        if not len(items):
            return Cell(
                cell_text(value), theme.muted, (theme.band,), theme.frame, tip=tip, kind="cell copied"
            )
        is_overwritten = call.reduction == "none" and not call.is_gather and len(items) > 1
        counted = items[-1:] if is_overwritten else items
        hues = self._hues(counted)
        is_one = len(hues) == 1
        is_many = len(items) > 1
        return Cell(
            cell_text(value),
            hues[0].line if is_one else theme.text,
            tuple(hue.tint for hue in hues),
            theme.text if is_many else hues[0].line,
            badge=self._badge(position, counted),
            strong=True,
            dashed=is_overwritten,
            tip=tip,
            kind="cell overwritten" if is_overwritten else "cell split" if is_many else "cell touched",
        )

    def data(self, position: int) -> Cell:
        """Return a cell of the tensor that a copy is made of."""
        theme = self.palette.theme
        value = self.call.data.reshape(-1)[position]
        tip = f"{_named(self.call.data_name, self.call.data, position)} = {full_text(value)}"
        return Cell(cell_text(value), theme.text, (theme.box,), theme.frame, tip=tip, kind="cell data")

    def item(self, number: int) -> Callable[[int], Cell]:
        """Return what gives the cells of an item."""
        call, hue = self.call, self.hue(number)
        width = call.row_width

        def cell(position: int) -> Cell:
            value = call.item(number)[position]
            named = _named(call.items_name, call.items, number * width + position)
            return Cell(
                cell_text(value), hue.line, (hue.tint,), hue.line, tip=f"{named} = {full_text(value)}",
                kind="cell item", strong=True,
            )  # fmt: skip

        return cell

    def index(self, number: int) -> Cell:
        """Return an item's index as a cell."""
        hue = self.hue(number)
        return Cell(
            words.index_text(self.call, number),
            hue.line,
            (self.palette.theme.box,),
            hue.line,
            strong=True,
            kind="cell index",
        )

    def _hues(self, items: Integers) -> list[Hue]:
        """Return the colours of a row's items: each shown one's, and one for all others."""
        hues = [self.hue(item) for item in self._shown(items)[:_STRIPES]]
        return [*hues, self.palette.unshown] if len(items) > len(hues) else hues

    def _badge(self, position: int, items: Integers) -> str:
        """Number the first cell of a row that is shown in each plane."""
        _, lines, columns = self._window.sizes
        line, column = position // columns % lines, position % columns
        below = self.call.data.ndim - self.call.depth
        if (below > 0 and column != self._window.columns[0]) or (below > 1 and line != self._window.rows[0]):
            return ""
        shown = [str(item) for item in self._shown(items)][:_BADGES]
        more = len(items) - len(shown)
        return " ".join((*shown, f"+{more}") if more else shown)

    def _shown(self, items: Integers) -> list[int]:
        """Return those of a row's items that are shown."""
        row = self.call.rows[items[0]]
        return [item for item in self._items if item >= items[0] and self.call.rows[item] == row]


def _named(name: str, array: Array, position: int) -> str:
    place = np.unravel_index(position, array.shape) if array.ndim else ()
    return name + (place_text([int(number) for number in place]) if array.ndim else "")
