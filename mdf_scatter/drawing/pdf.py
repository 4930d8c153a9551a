"""A rendered diagram as a PDF of one page.

Graphviz's SVG has polygons, curves and text in two fonts whose widths every PDF viewer's own fonts have
too, so the page is the same drawing: sharp at any size, its text can be searched. Those fonts know Latin
letters only: a diagram with other text becomes a page that holds a picture of it.
"""

from __future__ import annotations

import re
import struct
import zlib
from collections.abc import Iterator
from xml.etree import ElementTree as ET

from mdf_scatter.drawing.style import FALLBACKS, MONOSPACE

LONGEST_SIDE = 14_400
"""Points; viewers need not show larger pages."""

_SVG = "{http://www.w3.org/2000/svg}"
_FONTS = ("Helvetica", "Helvetica-Bold", "Courier", "Courier-Bold")
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
_ARROW = "→"
_ARROW_IN_SYMBOL = b"\xae"


def is_latin(svg: str) -> bool:
    """Tell whether the fonts that every PDF viewer has know all of an SVG's visible text."""
    return all(_encoded(text.text or "") is not None for text in ET.fromstring(svg).iter(f"{_SVG}text"))  # noqa: S314


def vector_page(svg: str, size: tuple[float, float], title: str, alt: str) -> bytes:
    """Return a page that draws what an SVG does.

    Args:
        svg: The SVG, of Latin text.
        size: Its width and height, in points.
        title: The document's title.
        alt: What it shows, in words.
    """
    root = ET.fromstring(svg)  # noqa: S314 - it is our own
    fonts = [
        b"<</Type/Font/Subtype/Type1/BaseFont/%s/Encoding/WinAnsiEncoding>>" % n.encode() for n in _FONTS
    ]
    fonts.append(b"<</Type/Font/Subtype/Type1/BaseFont/Symbol>>")
    names = b"".join(b"/F%d %d 0 R" % (at, _FIRST_FREE + at) for at in range(len(fonts)))
    return _document(
        "\n".join(_drawn(root)).encode("latin-1"), size, title, alt, b"/Font<<%s>>" % names, fonts
    )


def picture_page(jpeg: bytes, size: tuple[float, float], title: str, alt: str) -> bytes:
    """Return a page that holds a JPEG; the arguments are those of `vector_page`."""
    width, height = _jpeg_size(jpeg)
    kind = b"/Type/XObject/Subtype/Image/ColorSpace/DeviceRGB/BitsPerComponent 8/Filter/DCTDecode"
    image = _stream(b"%s/Width %d/Height %d" % (kind, width, height), jpeg)
    # Images stand upright in PDF's own axes, which the page turns upside down.
    content = f"{_n(size[0])} 0 0 {_n(-size[1])} 0 {_n(size[1])} cm /I Do".encode()
    return _document(content, size, title, alt, b"/XObject<</I %d 0 R>>" % _FIRST_FREE, [image])


_FIRST_FREE = 7


def _document(
    content: bytes, size: tuple[float, float], title: str, alt: str, resources: bytes, more: list[bytes]
) -> bytes:
    scale = min(1.0, LONGEST_SIDE / max(size))
    width, height = (side * scale for side in size)
    # SVG counts downwards. What is marked here is the figure that the alternative text is for.
    turned = f"{_n(scale)} 0 0 {_n(-scale)} 0 {_n(height)} cm /Figure<</MCID 0>> BDC\n".encode()
    objects = [
        b"<</Type/Catalog/Pages 2 0 R/StructTreeRoot 5 0 R/MarkInfo<</Marked true>>/Lang(en)"
        b"/ViewerPreferences<</DisplayDocTitle true>>>>",
        b"<</Type/Pages/Kids[3 0 R]/Count 1>>",
        b"<</Type/Page/Parent 2 0 R/MediaBox%s/Contents 4 0 R/StructParents 0/Resources<<%s>>>>"
        % (f"[0 0 {_n(width)} {_n(height)}]".encode(), resources),
        _stream(b"/Filter/FlateDecode", zlib.compress(turned + content + b"\nEMC", 9)),
        b"<</Type/StructTreeRoot/K 6 0 R/ParentTree<</Nums[0[6 0 R]]>>>>",
        b"<</Type/StructElem/S/Figure/P 5 0 R/Pg 3 0 R/K 0/Alt %s>>" % _text_string(alt),
        *more,
        b"<</Title %s>>" % _text_string(title),
    ]
    written = bytearray(b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n")
    places = []
    for number, body in enumerate(objects, start=1):
        places.append(len(written))
        written += b"%d 0 obj\n%s\nendobj\n" % (number, body)
    start, last = len(written), len(objects)
    written += b"xref\n0 %d\n0000000000 65535 f \n" % (last + 1)
    written += b"".join(b"%010d 00000 n \n" % place for place in places)
    written += b"trailer\n<</Size %d/Root 1 0 R/Info %d 0 R>>\n" % (last + 1, last)
    written += b"startxref\n%d\n%%%%EOF\n" % start
    return bytes(written)


def _drawn(group: ET.Element) -> Iterator[str]:
    """Give the drawing operators of a group and what is in it."""
    moved = re.search(r"translate\(([-\d.]+)[ ,]+([-\d.]+)\)", group.get("transform", ""))
    if moved:
        yield f"q 1 0 0 1 {moved[1]} {moved[2]} cm"
    for element in group:
        match element.tag.removeprefix(_SVG):
            case "polygon":
                yield from _outline(element, _polygon(element.get("points", "")), closed=True)
            case "polyline":
                yield from _outline(element, _polygon(element.get("points", "")), closed=False)
            case "path":
                yield from _outline(element, _path(element.get("d", "")), closed=False)
            case "text":
                yield _text(element)
            case "g" | "a":
                yield from _drawn(element)
    if moved:
        yield "Q"


def _outline(element: ET.Element, path: str, *, closed: bool) -> Iterator[str]:
    fill, stroke = _colour(element.get("fill")), _colour(element.get("stroke"))
    if fill:
        yield f"{fill} rg"
    if stroke:
        dashes = element.get("stroke-dasharray", "").replace(",", " ")
        yield f"{stroke} RG {element.get('stroke-width', '1')} w [{dashes}] 0 d"
    if fill or stroke:
        paint = {(True, True): "B", (True, False): "f", (False, True): "S"}[bool(fill), bool(stroke)]
        yield f"{path}{' h' if closed else ''} {paint}"


def _polygon(points: str) -> str:
    numbers = _NUMBER.findall(points)
    pairs = [f"{x} {y}" for x, y in zip(numbers[::2], numbers[1::2], strict=True)]
    return " ".join([f"{pairs[0]} m", *(f"{pair} l" for pair in pairs[1:])])


def _path(commands: str) -> str:
    """Write a path of Graphviz, which begins with `M` and goes on in curves with `C`."""
    numbers = _NUMBER.findall(commands)
    curves = (" ".join(numbers[at : at + 6]) + " c" for at in range(2, len(numbers), 6))
    return " ".join([f"{numbers[0]} {numbers[1]} m", *curves])


def _text(element: ET.Element) -> str:
    at = 2 * (element.get("font-family") == FALLBACKS[MONOSPACE]) + (element.get("font-weight") == "bold")
    size = element.get("font-size", "")
    parts = (element.text or "").split(_ARROW)
    shown = [f"<{(_encoded(part) or b'').hex()}> Tj" for part in parts]
    arrow = f" /F{len(_FONTS)} {size} Tf <{_ARROW_IN_SYMBOL.hex()}> Tj /F{at} {size} Tf "
    colour = _colour(element.get("fill", "black"))
    place = f"1 0 0 -1 {element.get('x')} {element.get('y')} Tm"
    return f"BT {colour} rg /F{at} {size} Tf {place} {arrow.join(shown)} ET"


def _encoded(text: str) -> bytes | None:
    try:
        return text.replace(_ARROW, "").encode("cp1252")
    except UnicodeEncodeError:
        return None


def _colour(value: str | None) -> str:
    """Write a colour as three numbers; nothing for none."""
    if value in (None, "none", "transparent"):
        return ""
    if value == "black":
        return "0 0 0"
    return " ".join(_n(int(str(value)[at : at + 2], 16) / 255) for at in (1, 3, 5))


def _jpeg_size(jpeg: bytes) -> tuple[int, int]:
    at = 2
    while jpeg[at + 1] not in (0xC0, 0xC1, 0xC2):
        at += 2 + struct.unpack(">H", jpeg[at + 2 : at + 4])[0]
    height, width = struct.unpack(">HH", jpeg[at + 5 : at + 9])
    return width, height


def _stream(entries: bytes, data: bytes) -> bytes:
    return b"<<%s/Length %d>>stream\n%s\nendstream" % (entries, len(data), data)


def _text_string(text: str) -> bytes:
    return b"<feff%s>" % text.encode("utf-16-be", "replace").hex().encode()


def _n(number: float) -> str:
    return f"{number:.4f}".rstrip("0").rstrip(".")
