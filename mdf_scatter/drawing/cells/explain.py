"""`explain` draws what a scatter does; `explain_call` any operator of the family."""

from __future__ import annotations

from typing import Any

import numpy.typing as npt

from mdf_scatter.drawing.cells import words
from mdf_scatter.drawing.cells.colours import palette
from mdf_scatter.drawing.cells.layout import lay_out, size
from mdf_scatter.drawing.cells.movement import movement
from mdf_scatter.drawing.cells.picture import Picture


def explain(
    data: npt.ArrayLike,
    indices: npt.ArrayLike,
    updates: npt.ArrayLike,
    reduction: str = "none",
    *,
    include_self: bool = True,
    theme: str = "light",
) -> Picture:
    """Draw what ScatterND does, cell by cell: each update in its colour, and where it goes.

    Large tensors are drawn in part: the rows and columns that the shown updates go to.

    Args:
        data: T[d0..dr-1], r >= 1.
        indices: int[i0..iq-2, k].
        updates: T[i0..iq-2, dk..dr-1].
        reduction: "none", "add", "mul", "max", "min" or "mean".
        include_self: Whether data takes part in the reduction on what is touched.
        theme: "light" or "dark".

    Raises:
        OperatorError: An argument is wrong.
        InputError: There is no such theme.

    >>> explain([1, 2, 3, 4], [[3], [-3]], [9, 5], reduction="add").alt
    'ScatterND adds 2 updates into 2 elements of data, int64[4]: update 0 (9) goes to element 3,
    1 (5) to element 1. The other 2 elements are copied from data. Output: [1, 7, 3, 13].'
    """
    attributes = {"reduction": reduction, "include_self": include_self}
    return explain_call("ScatterND", data, indices, updates, theme=theme, **attributes)


def explain_call(name: str, *inputs: Any, theme: str = "light", **attributes: Any) -> Picture:
    """Draw what an operator of the family does, cell by cell.

    Args:
        name: Its name in `OPS`, with or without `onnx::`.
        inputs: Its inputs, in order.
        theme: "light" or "dark".
        attributes: Its attributes.

    Raises:
        OperatorError: There is no such operator or attribute, or an argument is wrong.
        InputError: There is no such theme.

    >>> explain_call("GatherND", [10, 20, 30], [[2], [0]]).alt
    'GatherND reads 2 elements of data, int64[3]: result 0 (30) is element 2, result 1 (10) is element 0.
    Output: [30, 10].'
    """
    colours = palette(theme)
    call = movement(name, inputs, attributes)
    shapes = lay_out(call, colours)
    return Picture(
        tuple(shapes), size(shapes), colours.theme.page, words.title(call), words.description(call)
    )
