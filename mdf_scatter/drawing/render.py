"""From DOT to SVG, PNG and PDF, by the `graphviz-pure` command."""

from __future__ import annotations

import math
import re
import shutil
import subprocess
import sys
import unicodedata
from hashlib import sha256
from pathlib import Path
from xml.etree import ElementTree as ET

from mdf_scatter.drawing import pdf as page
from mdf_scatter.drawing.style import FALLBACKS
from mdf_scatter.errors import RenderError

COMMAND = "graphviz-pure"
SECONDS = 120
PNG_DPI = 192
PDF_DPI = 300
MOST_SIDE = 16_000
MOST_PIXELS = 16_000_000

_SVG = "http://www.w3.org/2000/svg"
_SCRIPTS_OF_PNG = ("LATIN", "GREEK", "CYRILLIC", "HEBREW")
_SIZE = re.compile(r'width="([\d.]+)pt" height="([\d.]+)pt"')
_XLINK = "{http://www.w3.org/1999/xlink}"


def svg(dot: str, title: str, description: str) -> str:
    """Render DOT to SVG that says what it shows, and has tooltips that browsers show.

    Raises:
        RenderError: The command is not installed, fails, or takes longer than two minutes.
    """
    root = ET.fromstring(_run(dot, "-Tsvg"))  # noqa: S314 - it comes from our own command
    for element in list(root.iter(f"{{{_SVG}}}g")):
        _tooltips(element)
    for element in root.iter():
        element.attrib.pop("id", None)  # they would clash with those of a second picture in one page
        family = element.get("font-family")
        if family is not None:
            element.set("font-family", FALLBACKS[family])
    # Only these two ids are needed, and they differ from picture to picture.
    prefix = "mdf-" + sha256(dot.encode()).hexdigest()[:12]
    root.set("role", "img")
    root.set("aria-labelledby", f"{prefix}-title {prefix}-desc")
    for position, (tag, text) in enumerate((("title", title), ("desc", description))):
        element = ET.Element(f"{{{_SVG}}}{tag}", id=f"{prefix}-{tag}")
        element.text, element.tail = text, "\n"
        root.insert(position, element)
    ET.register_namespace("", _SVG)
    return ET.tostring(root, encoding="unicode") + "\n"


def png(dot: str, points: tuple[float, float]) -> bytes:
    """Render DOT to PNG.

    Args:
        dot: The diagram.
        points: Its width and height, in points.

    Raises:
        RenderError: The command is not installed, fails, or takes longer than two minutes.
    """
    return _run(dot, "-Tpng", f"-Gdpi={_dpi(points, PNG_DPI)}")


def boxes_in_png(svg: str) -> str:
    """Return the letters of an SVG's visible text that `png` has no font for, each once, in order."""
    texts = ET.fromstring(svg).iter(f"{{{_SVG}}}text")  # noqa: S314 - it is our own
    return "".join(filter(_is_box, dict.fromkeys("".join(text.text or "" for text in texts))))


def _is_box(character: str) -> bool:
    if character > "\uffff":
        return True
    name = unicodedata.name(unicodedata.normalize("NFKC", character)[0], "")
    return character.isalpha() and character > "\u052f" and not name.startswith(_SCRIPTS_OF_PNG)


def pdf(dot: str, svg: str, title: str, description: str) -> bytes:
    """Render DOT to a PDF of one page; `svg` is what it was rendered to.

    Raises:
        RenderError: The command is not installed, fails, or takes longer than two minutes.
    """
    points = size(svg)
    if page.is_latin(svg):
        return page.vector_page(svg, points, title, description)
    jpeg = _run(dot, "-Tjpg", f"-Gdpi={_dpi(points, PDF_DPI)}")
    return page.picture_page(jpeg, points, title, description)


def _dpi(points: tuple[float, float], wanted: int) -> int:
    width, height = points
    # Kept within what viewers open in no time; a diagram larger than that is for SVG.
    fitting = 72 * min(MOST_SIDE / max(points), math.sqrt(MOST_PIXELS / (width * height)))
    return max(1, min(wanted, int(fitting)))


def size(svg: str) -> tuple[float, float]:
    """Return the width and height that a rendered SVG states, in points."""
    match = _SIZE.search(svg)
    if match is None:
        raise RenderError(f"{COMMAND}: the SVG states no width and height in points")
    return float(match[1]), float(match[2])


def _tooltips(group: ET.Element) -> None:
    """Turn what Graphviz writes as links with a title into what browsers show as tooltips."""
    for anchor in group.findall(f"{{{_SVG}}}a"):
        tip, link = anchor.attrib.pop(f"{_XLINK}title", ""), anchor.attrib.pop(f"{_XLINK}href", None)
        if link is None:
            anchor.tag = f"{{{_SVG}}}g"
        else:
            anchor.set("href", link)
            # To a screen reader an image has nothing in it that could have the keyboard's focus.
            anchor.set("tabindex", "-1")
        title = ET.Element(f"{{{_SVG}}}title")
        title.text, title.tail = tip, "\n"
        anchor.insert(0, title)
    # Graphviz's own title is a generated id.
    for generated in group.findall(f"{{{_SVG}}}title"):
        group.remove(generated)


def _run(dot: str, *options: str) -> bytes:
    try:
        done = subprocess.run(  # noqa: S603 - the options are ours, and the graph goes in by stdin
            [_command(), *options], input=dot.encode(), capture_output=True, timeout=SECONDS, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise RenderError(
            f"{COMMAND}: no picture after {SECONDS} s; the diagram has too many nodes or wires; "
            "fold subgraphs with depth=0, or save it as .dot and render it with other options"
        ) from error
    if done.returncode or not done.stdout:
        said = done.stderr.decode(errors="replace").strip().splitlines()
        errors = [line for line in said if line.startswith("Error")] or said[-1:] or ["no message"]
        raise RenderError(f"{COMMAND}: exit status {done.returncode}: {errors[0]}")
    return done.stdout


def _command() -> str:
    # Beside the interpreter first: an environment that is not activated is not in PATH.
    scripts = Path(sys.executable).parent
    found = shutil.which(COMMAND, path=str(scripts)) or shutil.which(COMMAND)
    if found is None:
        raise RenderError(
            f"{COMMAND}: command not found in {str(scripts)!r} or in PATH; run: pip install {COMMAND}"
        )
    return found
