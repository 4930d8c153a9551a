"""One page a graph: the diagram to move in, what is in each node, and the model, in one HTML file."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Mapping
from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template
from xml.etree import ElementTree as ET

from modeci_mdf.mdf import Model

from mdf_scatter.drawing.diagram import draw
from mdf_scatter.drawing.embed import with_model
from mdf_scatter.drawing.page_sections import Sections

_SVG = "{http://www.w3.org/2000/svg}"
_POINT = re.compile(r"(-?[\d.]+),(-?[\d.]+)")
_AROUND = 4
"""How far the frame around a chosen node is away from it, in points."""


def page(model: Model, *, depth: int | None = None, values: Mapping[str, object] | None = None) -> str:
    """Return a page that shows a model and holds it: `load` reads it again. It needs no network.

    Args:
        model: The model; it is not changed.
        depth: How many levels of subgraphs are drawn; see `draw`.
        values: What a run gave, by name; see `draw`. With them, the model is run once more for what
            reaches its scatters and gathers, which are then drawn cell by cell.

    Raises:
        ModelError: The model has no graph.
        InputError: `values` names what is not there.
        RenderError: The diagram cannot be rendered.
        FormatError: The model holds what a file cannot keep.
    """
    path = Path("page.html")
    written = with_model(model, path, drawn_page(model, depth=depth, values=values).encode(), embed=True)
    return (written[path] or b"").decode()


def drawn_page(model: Model, *, depth: int | None = None, values: Mapping[str, object] | None = None) -> str:
    """Return the page without the model; see `page`."""
    light, dark = (draw(model, theme=theme, depth=depth, values=values) for theme in ("light", "dark"))
    drawing = _Drawing(light.svg)
    sections = Sections(model, values)
    drawing.make_nodes_buttons(sections)
    other = _Drawing(dark.svg)
    other.make_nodes_buttons(sections)
    style, script = _asset("page.css"), _asset("page.js")
    return Template(_asset("page.html")).substitute(
        title=escape(light.title),
        style_hash=_source_hash(style),
        script_hash=_source_hash(script),
        style=style,
        script=script,
        light=drawing.text(),
        dark=other.text(),
        sections="\n".join(sections.written.values()),
    )


class _Drawing:
    """A diagram's SVG, whose nodes become buttons."""

    def __init__(self, svg: str) -> None:
        self._root = ET.fromstring(svg)  # noqa: S314 - it comes from our own command

    def make_nodes_buttons(self, sections: Sections) -> None:
        """Give each node a name, a place in the order of the keyboard, and the section it opens."""
        self._root.set("role", "group")
        for position, node in enumerate(self._nodes_from_left_to_right()):
            tips = list(dict.fromkeys(title.text or "" for title in node.iter(f"{_SVG}title")))
            key = f"node-{position}"
            node.attrib |= {
                "role": "button",
                "tabindex": "0",
                "aria-label": sections.label(key, tips),
                "aria-expanded": "false",
                "aria-controls": key,
                "data-panel": key,
            }
            for link in node.iter(f"{_SVG}a"):  # a button holds no link; the section has it
                link.tag = f"{_SVG}g"
                link.attrib.pop("href", None)
            left, top, right, bottom = _frame(node)
            place = {"x": left, "y": top, "width": right - left, "height": bottom - top, "rx": _AROUND}
            mark = {name: f"{number:.2f}" for name, number in place.items()}
            node.append(ET.Element(f"{_SVG}rect", {"class": "mark", **mark}))

    def _nodes_from_left_to_right(self) -> list[ET.Element]:
        """Put the nodes in the order in which data flows; that of the file decides what Tab goes to next."""
        nodes: list[ET.Element] = []
        for parent in list(self._root.iter()):
            own = sorted((item for item in parent if item.get("class") == "node"), key=_frame)
            for item in own:
                parent.remove(item)
            parent.extend(own)
            nodes += own
        return nodes

    def text(self) -> str:
        """Return the SVG."""
        return ET.tostring(self._root, encoding="unicode")


def _frame(node: ET.Element) -> tuple[float, float, float, float]:
    """Return the left, top, right and bottom of a little more than a node."""
    points = [
        (float(x), float(y))
        for polygon in node.iter(f"{_SVG}polygon")
        for x, y in _POINT.findall(polygon.get("points", ""))
    ]
    across, down = zip(*points, strict=True)
    return min(across) - _AROUND, min(down) - _AROUND, max(across) + _AROUND, max(down) + _AROUND


def _asset(name: str) -> str:
    return files("mdf_scatter.drawing").joinpath(name).read_text(encoding="utf-8")


def _source_hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
