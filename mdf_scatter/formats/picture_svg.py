"""SVG: the model is the root's attribute `data-mdf`, base64 of zlib; its marks are attributes beside it.

svgo and other programs that clean SVG up keep such attributes, and drop `<metadata>`.
"""

from __future__ import annotations

import base64
import binascii
import re
import zlib
from collections.abc import Callable, Mapping
from html import escape
from xml.parsers import expat

from mdf_scatter.errors import FormatError
from mdf_scatter.formats.arrays import shown
from mdf_scatter.formats.picture import Held, held_of, inflate
from mdf_scatter.formats.picture_svg_drawing import Drawing

SVG = "http://www.w3.org/2000/svg"

_PREFIX = "data-"
_MODEL = "data-mdf"
_MAX_DEPTH = 200
_MAX_ATTRIBUTE = 10_000_000  # what libxml2, and so most programs, read
_LINKS = ("href", "src")
_SAFE_LINK = re.compile(r"https://[^\s\x00-\x20]|#")
_SPACES = re.compile(r"\s+")

Start = Callable[[str, dict[str, str]], None]


def put(picture: bytes, held: Held) -> bytes:
    """Return the picture with the model in it; see `PictureFormat`."""
    model = base64.b64encode(zlib.compress(held.text, 9)).decode()
    if len(model) > _MAX_ATTRIBUTE:
        raise FormatError(
            f"would hold {len(model)} bytes in an attribute, which few programs read; save it as .html"
        )
    attributes = {_MODEL: model, **{_PREFIX + name: text for name, text in held.marks.items()}}
    written = "".join(f' {name}="{escape(text)}"' for name, text in attributes.items())
    if held.tensors:
        said = (
            f" Its large arrays are in the file {escape(held.tensors.rpartition(' ')[0])} beside it.</desc>"
        )
        picture = picture.replace(b"</desc>", said.encode(), 1)
    return picture.replace(b"<svg", b"<svg" + written.encode(), 1)


def take(picture: bytes) -> Held:
    """Return what a picture holds; see `PictureFormat`."""
    roots: list[dict[str, str]] = []

    def start(tag: str, attributes: dict[str, str]) -> None:
        if not roots:
            if tag != f"{SVG} svg":
                raise FormatError(f"is not SVG: its root is {shown(tag.rpartition(' ')[2])}")
            roots.append(attributes)
        elif any(name.startswith(_MODEL) for name in attributes):
            raise FormatError(f"holds a second {_MODEL!r}, inside the drawing; the model is the root's")

    _parse(picture, start)
    texts = {name.removeprefix(_PREFIX): value for name, value in roots[0].items()}
    model = texts.get("mdf")
    return held_of(texts, None if model is None else _model(model))


def drawing_digest(picture: bytes) -> str:
    """Return the digest of texts, shapes and colours; see `PictureFormat` and `Drawing`."""
    drawing = Drawing()
    _parse(picture, drawing.start, drawing.end, drawing.text)
    return drawing.digest()


def _model(text: str) -> bytes:
    try:
        packed = base64.b64decode(_SPACES.sub("", text), validate=True)
    except (binascii.Error, ValueError) as error:
        raise FormatError(f"holds {_MODEL!r} that is not base64") from error
    return inflate(packed)


def _parse(
    picture: bytes,
    start: Start,
    end: Callable[[str], None] | None = None,
    text: Callable[[str], None] | None = None,
) -> None:
    """Go through an SVG; a document type, which entities need, is not read, nor is what can run.

    Raises:
        FormatError: The bytes are not XML, or the drawing holds what can run.
    """
    parser = expat.ParserCreate(namespace_separator=" ")
    parser.buffer_text = True
    depth = 0

    def safe_start(tag: str, attributes: dict[str, str]) -> None:
        nonlocal depth
        depth += 1
        if depth > _MAX_DEPTH:
            raise FormatError(f"is SVG nested deeper than {_MAX_DEPTH} levels")
        _refuse_what_runs(tag, attributes)
        start(tag, attributes)

    def safe_end(tag: str) -> None:
        nonlocal depth
        depth -= 1
        if end is not None:
            end(tag)

    def refuse_doctype(*_: object) -> None:
        raise FormatError("has a document type (DOCTYPE), which a picture as we write it has not")

    def refuse_instruction(target: str, _: str) -> None:
        raise FormatError(f"has an instruction to programs, {shown(target)}, which ours have not")

    parser.StartElementHandler = safe_start
    parser.EndElementHandler = safe_end
    parser.CharacterDataHandler = text
    parser.StartDoctypeDeclHandler = refuse_doctype
    parser.ProcessingInstructionHandler = refuse_instruction
    try:
        parser.Parse(picture, True)
    except expat.ExpatError as error:
        reason = expat.errors.messages[error.code]
        raise FormatError(
            f"is not SVG: {reason} at line {error.lineno}, column {error.offset + 1}"
        ) from error
    except (LookupError, ValueError) as error:
        if isinstance(error, FormatError):
            raise
        raise FormatError("is not SVG: it is written in an encoding that is not known") from error


def _refuse_what_runs(tag: str, attributes: Mapping[str, str]) -> None:
    name = tag.rpartition(" ")[2]
    if name.lower() in ("script", "foreignobject", "iframe", "handler", "listener"):
        raise FormatError(f"holds a <{name}>, which can run; a picture as we write it holds none")
    for key, value in attributes.items():
        own = key.rpartition(" ")[2].lower()
        if own.startswith("on"):
            raise FormatError(f"holds the attribute {shown(own)}, which can run; ours have none")
        runs = "javascript:" in _SPACES.sub("", value).lower()  # an animation can set a link, too
        if runs or (own in _LINKS and not _SAFE_LINK.match(value)):
            raise FormatError(
                f"holds a link to {shown(value)}; a picture's links begin with 'https://' or '#'"
            )
