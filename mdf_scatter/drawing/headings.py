"""What stands over a graph, and the legend under the diagram."""

from __future__ import annotations

from collections.abc import Iterator

from mdf_scatter.drawing.blocks import Scene
from mdf_scatter.drawing.markup import run, short_code, short_name, title
from mdf_scatter.drawing.passes import gradients
from mdf_scatter.drawing.rows import condition_text, counted, value_text
from mdf_scatter.drawing.style import (
    SMALL_SIZE,
    DtypeClass,
    LineStyle,
    Theme,
    dtype_class,
    line_style,
)
from mdf_scatter.drawing.tables import patch, plain_table
from mdf_scatter.drawing.values import full_text

_NOTE_CHARACTERS = 100
_LOSSES = 4
"""More outputs than this are not named over their backward pass."""

_STYLE_NAMES: dict[LineStyle, str] = {
    "scalar": "scalar",
    "vector": "rank 1",
    "matrix": "rank 2",
    "tensor": "rank 3+",
    "unknown": "rank unknown",
}
_SAMPLE_WIDTH = 24

_IN_ONE_ROW = 8
"""Captions and entries of a legend that stand side by side."""


def heading(scene: Scene, theme: Theme) -> str:
    """Return a graph's name, its parameters, the conditions that end its run, and what is not drawn."""
    graph = scene.graph
    words = run(short_name(graph.id), bold=True)
    words += run(f"   {short_name(scene.what)}", size=SMALL_SIZE, colour=theme.muted)
    notes = [
        (f"{name} = {value_text(value)}", f"{name} = {full_text(value)}")
        for name, value in (graph.parameters or {}).items()
    ]
    for name, condition in ((graph.conditions and graph.conditions.termination) or {}).items():
        text = f"ends when {condition_text(condition)}"
        notes.append((text, f"{text} ({name})"))
    if not scene.blocks:
        notes.append(("no nodes", "no nodes"))
    if scene.folded:
        boxes = sum(block.kind == "run" for block in scene.blocks)
        text = (
            f"{scene.folded} nodes stand in {counted(boxes, 'box')}; a depth, such as 1, draws each by itself"
        )
        notes.append((text, text))
    if scene.unwired:
        text = f"{counted(scene.unwired, 'wire')} into the backward pass stand at their terminals as names"
        notes.append((text, text))
    cells = [f'<TD ALIGN="LEFT"{title(graph.id)}>{words}</TD>']
    for short, full in notes:
        note = run(short_code(short, _NOTE_CHARACTERS), code=True, size=SMALL_SIZE, colour=theme.muted)
        cells.append(f'<TD ALIGN="LEFT"{title(full)}>{note}</TD>')
    return plain_table(cells, padding=2)


def backward_heading(scene: Scene, number: int, theme: Theme) -> str:
    """Return what stands over a backward pass of a graph."""
    names = next(iter(gradients(scene.graph).losses[number - 1 :]), ())
    shown = [short_name(name) for name in names[:_LOSSES]] + ["…"] * (len(names) > _LOSSES)
    words = run("backward" if number == 1 else f"backward {number}", bold=True)
    if shown:
        text = f"   gradient{'s' if len(names) > 1 else ''} of {', '.join(shown)}"
        words += run(text, size=SMALL_SIZE, colour=theme.muted)
    return plain_table([f'<TD ALIGN="LEFT"{title(", ".join(names))}>{words}</TD>'], padding=2)


def legend(scenes: list[Scene], theme: Theme) -> str:
    """Return the legend of the colours and lines that are in the diagram."""
    scenes = [part for scene in scenes for part in scene.all()]
    wires = [wire for scene in scenes for wire in scene.wires]
    tensors = [wire.tensor for wire in wires]
    colours = {dtype_class(tensor.dtype) for tensor in tensors} | {
        row.dtype for scene in scenes for block in scene.blocks for row in block.rows if row.dtype
    }
    styles = {line_style(tensor) for tensor in tensors}
    dtypes, lines = list(_colours(colours, theme)), list(_lines(styles, theme))
    if any(wire.crosses for wire in wires):
        dots = _fixed([f"<TD>{patch(1, 1, theme.muted)}</TD>" * 6], 21, 1, spacing=3)
        lines.append(_entry(dots, "from an enclosing graph"))
    if len(dtypes) + len(lines) <= _IN_ONE_ROW:
        return plain_table(["".join(dtypes + lines) or "<TD></TD>"], padding=3)
    # A legend that is wider than the diagram would not stand at its left end.
    return plain_table([_captioned(*row) for row in (dtypes, lines) if row])


def _colours(used: set[DtypeClass], theme: Theme) -> Iterator[str]:
    if used:
        yield _caption("colour: dtype", theme)
    for name, colour in theme.dtype.items():
        if name in used:
            yield _entry(patch(9, 9, colour), name)


def _lines(used: set[LineStyle], theme: Theme) -> Iterator[str]:
    if used:
        yield _caption("line: rank", theme)
    for style, name in _STYLE_NAMES.items():
        if style in used:
            yield _entry(_sample(style, theme.muted), name)


def _caption(text: str, theme: Theme) -> str:
    return f"<TD>{run(text + ' ', size=SMALL_SIZE, colour=theme.muted)}</TD>"


def _entry(sign: str, name: str) -> str:
    return f"<TD>{sign}</TD><TD>{run(name + '   ', size=SMALL_SIZE)}</TD>"


def _sample(style: LineStyle, colour: str) -> str:
    """Draw a short line of a style out of rectangles: labels hold no lines."""
    if style == "unknown":
        dash = f"<TD>{patch(5, 1, colour)}</TD>"
        return _fixed([dash * 3], 21, 1, spacing=3)
    if style == "vector":
        return patch(_SAMPLE_WIDTH, 2, colour)
    lines = {"scalar": 1, "matrix": 2, "tensor": 3}[style]
    line = f"<TD>{patch(_SAMPLE_WIDTH, 1, colour)}</TD>"
    return _fixed([line] * lines, _SAMPLE_WIDTH, 3 * lines - 2, spacing=2)


def _captioned(caption: str, *entries: str) -> str:
    """Return a row of a legend of several: an entry is as wide as it is, whatever stands over or under it."""
    rest = '<TD COLSPAN="100"></TD>'
    return "".join(
        f'<TD ALIGN="LEFT">{plain_table([cells + rest], padding=3)}</TD>'
        for cells in (caption, "".join(entries))
    )


def _fixed(rows: list[str], width: int, height: int, spacing: int) -> str:
    body = "".join(f"<TR>{row}</TR>" for row in rows)
    size = f'FIXEDSIZE="TRUE" WIDTH="{width + 2 * spacing}" HEIGHT="{height + 2 * spacing}"'
    return f'<TABLE BORDER="0" CELLBORDER="0" CELLSPACING="{spacing}" CELLPADDING="0" {size}>{body}</TABLE>'
