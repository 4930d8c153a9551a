"""Shapes as PNG, by way of DOT with fixed places: `graphviz-pure` brings its fonts with it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

from mdf_scatter.drawing import render
from mdf_scatter.drawing.cells.shapes import Arrow, Box, Shape, Text
from mdf_scatter.drawing.cells.text import width
from mdf_scatter.drawing.style import FONT, MONOSPACE

_POINTS = 72
_BOLD = {FONT: "Helvetica-Bold", MONOSPACE: "Courier-Bold"}
"""Bold fonts have a name of their own only in PostScript's naming; the renderer has the same for both."""


def png(shapes: Sequence[Shape], size: tuple[float, float], ground: str) -> bytes:
    """Render shapes as PNG.

    Raises:
        RenderError: The command `graphviz-pure` is not installed, fails, or takes too long.
    """
    return render.png(dot(shapes, size, ground), size)


def dot(shapes: Sequence[Shape], size: tuple[float, float], ground: str) -> str:
    """Write shapes as nodes and edges that have their places."""
    lines = [
        "digraph {",
        f'graph [layout=nop2, bgcolor="{ground}", pad=0, margin=0, outputorder=nodesfirst]',
        f'node [shape=box, fixedsize=true, margin=0, label="", fontname="{FONT}"]',
        "edge [penwidth=1.6, arrowsize=0.7]",
        # The first, so that it lies below all others.
        _box("page", Box(0, 0, *size, ground)),
    ]
    for number, shape in enumerate(shapes):
        name = f"s{number}"
        if isinstance(shape, Box):
            lines.append(_box(name, shape))
        elif isinstance(shape, Text):
            lines.append(_text(name, shape))
        else:
            lines += _arrow(name, shape)
    return "\n".join((*lines, "}", ""))


def _box(name: str, box: Box) -> str:
    look = {"fillcolor": box.fill or "transparent", "color": box.stroke or "transparent"}
    style = "filled,dashed" if box.dashed else "filled"
    # Without an outline its colour still counts, and none is drawn at all for a width of 0.
    weight = box.stroke_width if box.stroke else 0
    return _node(name, box.x, box.y, box.width, box.height, **look, style=style, penwidth=f"{weight:g}")


def _text(name: str, text: Text) -> str:
    wide = width(text.text, text.size, code=text.code, bold=text.bold)
    left = text.x - {"start": 0.0, "middle": 0.5, "end": 1.0}[text.anchor] * wide
    side = {"start": "l", "middle": "n", "end": "r"}[text.anchor]
    family = MONOSPACE if text.code else FONT
    # `\N` stands for the node's name, and `&` begins an entity.
    safe = escape(text.text).replace("\\", "\\\\")
    return _node(
        name, left, text.y - text.size, wide, 2 * text.size, shape="none", label=f"{safe}\\{side}",
        fontname=_BOLD[family] if text.bold else family, fontsize=f"{text.size:g}", fontcolor=text.colour,
    )  # fmt: skip


def _arrow(name: str, arrow: Arrow) -> Iterator[str]:
    (x, y), *_ = arrow.points
    yield _node(f"{name}a", x, y, 0.1, 0.1, style="invis")
    yield _node(f"{name}b", *(arrow.tip or arrow.points[-1]), 0.1, 0.1, style="invis")
    way = " ".join(f"{x:.2f},{-y:.2f}" for x, y in arrow.points)
    style = ', style="dashed"' if arrow.dashed else ""
    head = ", dir=none" if arrow.tip is None else ""
    end = "" if arrow.tip is None else f"e,{arrow.tip[0]:.2f},{-arrow.tip[1]:.2f} "
    yield f'{name}a -> {name}b [pos="{end}{way}", color="{arrow.colour}"{style}{head}]'


def _node(name: str, x: float, y: float, wide: float, tall: float, **attributes: str) -> str:
    # DOT measures places from the bottom and by the middle, and sizes in inches.
    place = f'pos="{x + wide / 2:.2f},{-(y + tall / 2):.2f}"'
    size = f"width={wide / _POINTS:.5f}, height={tall / _POINTS:.5f}"
    written = (f'{key}="{value}"' for key, value in attributes.items())
    return f"{name} [{', '.join((place, size, *written))}]"
