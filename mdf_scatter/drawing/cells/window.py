"""Which part of a tensor is shown: planes of rows of columns, those that matter kept where they are many."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from mdf_scatter.drawing.cells.text import place_text

ALONG = 12
"""An axis longer than this is elided."""

KEPT = 9
"""What is shown of an elided axis."""

HEIGHT = 28
"""Rows that a picture has room for, over all planes or items."""


@dataclass(frozen=True)
class Window:
    """What is shown of a tensor that is seen as planes, rows and columns.

    Attributes:
        shape: Shape of the tensor.
        planes: Numbers of the planes that are shown; the leading axes, flat.
        rows: Numbers of the rows that are shown.
        columns: Numbers of the columns that are shown.
    """

    shape: tuple[int, ...]
    planes: tuple[int, ...]
    rows: tuple[int, ...]
    columns: tuple[int, ...]

    @property
    def sizes(self) -> tuple[int, int, int]:
        """How many planes, rows and columns the tensor has."""
        return planar(self.shape)

    @property
    def height(self) -> int:
        """Rows that are shown, over all planes."""
        return len(self.planes) * len(self.rows)

    @property
    def positions(self) -> list[int]:
        """The shown elements, by their positions in the flat tensor."""
        return [
            self.position(plane, row, column)
            for plane in self.planes
            for row in self.rows
            for column in self.columns
        ]

    def position(self, plane: int, row: int, column: int) -> int:
        """Return the position of an element in the flat tensor."""
        _, rows, columns = self.sizes
        return (plane * rows + row) * columns + column

    def plane_text(self, plane: int) -> str:
        """Write a plane's place; empty where the tensor has no planes."""
        leading = self.shape[:-2]
        return place_text([int(number) for number in np.unravel_index(plane, leading)]) if leading else ""


def planar(shape: Sequence[int]) -> tuple[int, int, int]:
    """Return the planes, rows and columns of a tensor; a vector is one row, a scalar one cell.

    >>> planar((2, 3, 4, 5)), planar((4,)), planar(())
    ((6, 4, 5), (1, 1, 4), (1, 1, 1))
    """
    rows, columns = (1, 1, *shape)[-2:]
    return math.prod(shape[:-2]), rows, columns


def window(shape: tuple[int, ...], wanted: Sequence[int]) -> Window:
    """Choose what is shown of a tensor.

    Args:
        shape: Its shape.
        wanted: Positions, in the flat tensor, of what should be seen; the most important first.
    """
    planes, rows, columns = planar(shape)
    flat = np.asarray(wanted, np.int64)
    inside = (flat // (rows * columns), flat // columns % rows, flat % columns) if flat.size else (flat,) * 3
    plane, row, column = (axis.tolist() for axis in inside)
    shown_rows = shown(rows, row)
    room = max(2, HEIGHT // max(1, len(shown_rows)))
    shown_planes = shown(planes, plane, min(room, ALONG), min(room, KEPT))
    return Window(shape, shown_planes, shown_rows, shown(columns, column))


def slice_window(whole: Window, depth: int) -> Window:
    """Choose what is shown of a slice below `depth` leading axes, to match what is shown of the whole."""
    shape = whole.shape[depth:]
    if not depth:
        return whole
    planes, _, _ = planar(shape)
    return Window(
        shape,
        shown(planes, (), 2, 2),
        whole.rows if len(shape) > 1 else (0,),
        whole.columns if shape else (0,),
    )


def shown(size: int, wanted: Iterable[int], most: int = ALONG, kept: int = KEPT) -> tuple[int, ...]:
    """Choose what is shown along an axis: all of it, or what is wanted, the ends, and what stands beside.

    >>> shown(4, []), shown(30, [17, 5]), shown(30, range(30))
    ((0, 1, 2, 3), (0, 4, 5, 6, 16, 17, 18, 28, 29), (0, 1, 2, 3, 4, 5, 6, 7, 29))
    """
    if size <= most:
        return tuple(range(size))
    first = list(dict.fromkeys(wanted))[: kept - 1]
    candidates = [*first, 0, size - 1]
    # Neighbours, then the beginning: an elided axis without anything to see is its first few.
    candidates += [number + step for number in (*first, size - 1) for step in (-1, 1)] if first else []
    candidates += range(kept)
    inside = dict.fromkeys(number for number in candidates if 0 <= number < size)
    return tuple(sorted(list(inside)[:kept]))


def shown_items(count: int, height: int) -> tuple[int, ...]:
    """Choose which items are shown, for the rows that each takes: the first, and the last."""
    most = max(3, min(ALONG, HEIGHT // max(1, height)))
    return tuple(range(count)) if count <= most else (*range(most - 2), count - 1)
