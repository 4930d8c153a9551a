"""HTML: the model is the one `<script type="application/json" id="mdf-model">`, its marks are attributes.

A browser runs nothing of that type. Its text has no `<`, which a JSON text can always do without.
"""

from __future__ import annotations

import re
from html import escape, unescape

from mdf_scatter.errors import FormatError
from mdf_scatter.formats.picture import Held, digest, held_of, twice

_BEGIN = b'<script type="application/json" id="mdf-model"'
_END = b"</script>"
_BODY_END = b"</body>"

# Of a bounded length, so that a page of many `<script` takes no longer than another.
_SCRIPT = re.compile(rb"<script\b[^<>]{0,4000}mdf-model[^<>]{0,4000}>", re.IGNORECASE)
_MARK = re.compile(r' data-(mdf-[a-z0-9]+)="([^"<>]*)"')
_MARKS = re.compile(_BEGIN + rb'(?: data-mdf-[a-z0-9]+="[^"<>]*")*>')


def put(picture: bytes, held: Held) -> bytes:
    """Return the page with the model in it; see `PictureFormat`."""
    marks = "".join(f' data-{name}="{escape(text)}"' for name, text in held.marks.items())
    before, end, after = picture.rpartition(_BODY_END)
    return before + _BEGIN + marks.encode() + b">" + held.text + _END + end + after


def take(picture: bytes) -> Held:
    """Return what a page holds; see `PictureFormat`."""
    opening, text = _model(picture)
    if opening is None:
        return held_of({}, None)
    marks = _MARK.findall(opening.decode("utf-8", "replace"))
    if len(dict(marks)) < len(marks):
        raise twice("data-mdf-...")
    return held_of({name: unescape(value) for name, value in marks}, text)


def drawing_digest(picture: bytes) -> str:
    """Return the SHA-256 of the page without the model; see `PictureFormat`."""
    opening, text = _model(picture)
    if opening is None:
        return digest(_lines(picture))
    before, _, after = _lines(picture).partition(opening + text + _END)
    return digest(before + after)


def _model(picture: bytes) -> tuple[bytes | None, bytes]:
    """Return the script's opening tag and its text; None and nothing where the page has none."""
    page = _lines(picture)
    found = list(_SCRIPT.finditer(page))
    if not found:
        if not page.lstrip()[:9].lower().startswith((b"<!doctype", b"<html")):
            raise FormatError("is not an HTML page")
        return None, b""
    if len(found) > 1:
        raise twice("mdf-model")
    opening = found[0][0]
    if not _MARKS.fullmatch(opening):
        raise FormatError("holds its model in a script that is not written as we write it")
    end = page.find(b"<", found[0].end())
    if not page.startswith(_END, end):
        raise FormatError("is a page that is cut off, or whose model is not JSON")
    return opening, page[found[0].end() : end]


def _lines(picture: bytes) -> bytes:
    return picture.replace(b"\r\n", b"\n")  # as programs that keep track of versions may store a page
