"""Shapes as SVG."""

from __future__ import annotations

import math
from collections.abc import Sequence
from hashlib import sha256
from xml.etree import ElementTree as ET

from mdf_scatter.drawing.cells.shapes import Arrow, Box, Shape, Text
from mdf_scatter.drawing.style import FALLBACKS, FONT, MONOSPACE

_BASELINE = 0.35
"""From the middle of a line to the feet of its letters, in ems."""


def svg(shapes: Sequence[Shape], size: tuple[float, float], ground: str, title: str, description: str) -> str:
    """Write shapes as an SVG that says what it shows."""
    width, height = (str(math.ceil(side)) for side in size)
    body = ET.Element("g", {"font-family": FALLBACKS[FONT]})
    for shape in shapes:
        if isinstance(shape, Box):
            _box(body, shape)
        elif isinstance(shape, Text):
            _text(body, shape)
        else:
            _arrow(body, shape)
        body[-1].tail = "\n"
    # The only two ids, which differ from picture to picture in one page.
    prefix = "mdf-" + sha256(ET.tostring(body) + description.encode()).hexdigest()[:12]
    root = ET.Element(
        "svg",
        {
            "xmlns": "http://www.w3.org/2000/svg",
            "width": width,
            "height": height,
            "viewBox": f"0 0 {width} {height}",
            "role": "img",
            "aria-labelledby": f"{prefix}-title {prefix}-desc",
        },
    )
    for tag, text in (("title", title), ("desc", description)):
        ET.SubElement(root, tag, id=f"{prefix}-{tag}").text = text
    ET.SubElement(root, "rect", {"class": "page", "width": width, "height": height, "fill": ground})
    root.append(body)
    for part in root:
        part.tail = "\n"
    return ET.tostring(root, encoding="unicode") + "\n"


def _box(parent: ET.Element, box: Box) -> None:
    attributes = {
        "x": _number(box.x),
        "y": _number(box.y),
        "width": _number(box.width),
        "height": _number(box.height),
        "fill": box.fill or "none",
    }
    if box.kind:
        attributes = {"class": box.kind} | attributes
    if box.stroke:
        attributes |= {"stroke": box.stroke, "stroke-width": _number(box.stroke_width)}
    if box.dashed:
        attributes["stroke-dasharray"] = "4 2.5"
    if not box.fill:
        attributes["pointer-events"] = "all"  # its tooltip is shown over all of it, not just its edge
    element = ET.SubElement(parent, "rect", attributes)
    if box.tip:
        ET.SubElement(element, "title").text = box.tip


def _text(parent: ET.Element, text: Text) -> None:
    attributes = {
        "x": _number(text.x),
        "y": _number(text.y + _BASELINE * text.size),
        "font-size": _number(text.size),
        "fill": text.colour,
    }
    if text.anchor != "start":
        attributes["text-anchor"] = text.anchor
    if text.bold:
        attributes["font-weight"] = "bold"
    if text.code:
        attributes["font-family"] = FALLBACKS[MONOSPACE]
    # A tooltip is that of the box below.
    ET.SubElement(parent, "text", attributes | {"pointer-events": "none"}).text = text.text


def _arrow(parent: ET.Element, arrow: Arrow) -> None:
    start, *curves = [f"{_number(x)},{_number(y)}" for x, y in arrow.points]
    path = f"M{start} C{' '.join(curves)}"
    group = ET.SubElement(parent, "g", {"class": "arrow"})
    line = {"d": path, "fill": "none", "stroke": arrow.colour, "stroke-width": "1.6"}
    if arrow.dashed:
        line["stroke-dasharray"] = "4 3"
    ET.SubElement(group, "path", line)
    if arrow.tip is None:
        return
    (x, y), (tip_x, tip_y) = arrow.points[-1], arrow.tip
    # A head half as wide as it is long, across the direction from the last point to the tip.
    across_x, across_y = (tip_y - y) * 0.45, (x - tip_x) * 0.45
    head = ((tip_x, tip_y), (x + across_x, y + across_y), (x - across_x, y - across_y))
    corners = " ".join(f"{_number(x)},{_number(y)}" for x, y in head)
    ET.SubElement(group, "polygon", {"points": corners, "fill": arrow.colour})


def _number(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".")
