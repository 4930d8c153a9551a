"""A call as shapes: its title, its tensors, and what the colours mean."""

from __future__ import annotations

from collections.abc import Sequence

from mdf_scatter.drawing.cells import words
from mdf_scatter.drawing.cells.below import below
from mdf_scatter.drawing.cells.beside import beside
from mdf_scatter.drawing.cells.colours import Palette
from mdf_scatter.drawing.cells.movement import Movement
from mdf_scatter.drawing.cells.parts import MARGIN, NOTE, Parts
from mdf_scatter.drawing.cells.shapes import Shape, Text, bottom, ends

_TITLE_SIZE = 14.0


def lay_out(call: Movement, palette: Palette) -> list[Shape]:
    """Draw a call."""
    parts = Parts.of(call, palette)
    shapes: list[Shape] = [
        Text(MARGIN, MARGIN + 8, words.title(call), _TITLE_SIZE, palette.theme.text, bold=True)
    ]
    shapes += (below if call.data.ndim == call.depth == 1 else beside)(parts, MARGIN + 30)
    y = max(map(bottom, shapes)) + 18
    return shapes + [parts.muted(MARGIN, y + NOTE * at, line) for at, line in enumerate(_legend(parts))]


def size(shapes: Sequence[Shape]) -> tuple[float, float]:
    """Return the width and height of a picture."""
    return ends(shapes) + MARGIN, max(map(bottom, shapes)) + MARGIN


def _legend(parts: Parts) -> list[str]:
    call, items_of = parts.call, parts.paint.items_of
    kind, done = ("result", "read") if call.is_gather else ("update", "written")
    said = [
        "grey: not read" if call.is_gather else f"grey: copied from {call.data_name}",
        f"colour and number: {done} by the {kind} of that colour and number",
    ]
    if any(len(items) > 1 for items in items_of.values()):
        if call.is_gather:
            said.append("split colour: read several times")
        elif call.reduction == "none":
            said.append("dashed: several updates met, and the last one wins")
        else:
            said.append("split colour: several updates met")
    if parts.paint.has_unshown:
        said.append(f"dark grey: {done} by {kind}s that are not shown")
    return said
