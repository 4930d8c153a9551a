"""PDF: the model is the attachment `model.mdf.json`, its marks are lines of the attachment's description."""

from __future__ import annotations

import hashlib
import io
import logging
import struct
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from mdf_scatter.errors import FormatError
from mdf_scatter.formats.picture import MAX_TEXT, Held, held_of, twice

ATTACHMENT = "model.mdf.json"

_HOW_IT_IS_STORED = ("/Parent", "/Length", "/Filter", "/DecodeParms")
_MAX_DEPTH = 60

# pypdf lets these through where an object is not of the kind that its place asks for
_WHERE_OBJECTS_ARE_OF_OTHER_KINDS = (
    AssertionError,
    AttributeError,
    LookupError,
    NotImplementedError,
    OSError,
    OverflowError,
    TypeError,
    ValueError,
    struct.error,
    zlib.error,
)

# Without a handler, its warnings about damaged files would go to stderr, beside the one error.
logging.getLogger("pypdf").addHandler(logging.NullHandler())


def put(picture: bytes, held: Held) -> bytes:
    """Return the picture with the model in it; see `PictureFormat`."""
    from pypdf import PdfWriter
    from pypdf.generic import NameObject, TextStringObject

    writer = PdfWriter(clone_from=io.BytesIO(picture))
    attachment = writer.add_attachment(ATTACHMENT, held.text)
    attachment.subtype = NameObject("/application#2Fjson")
    attachment.description = TextStringObject(
        "\n".join(f"{name}: {text}" for name, text in held.marks.items())
    )
    written = io.BytesIO()
    writer.write(written)
    return written.getvalue()


def take(picture: bytes) -> Held:
    """Return what a picture holds; see `PictureFormat`."""
    with _reading(picture) as pdf:
        _refuse_what_runs(pdf.root_object)
        found = [item for item in pdf.attachment_list if item.name == ATTACHMENT]
        if len(found) > 1:
            raise twice(ATTACHMENT)
        text = bytes(found[0].content) if found else None
        description = str(found[0].description or "") if found else ""
    if text is not None and len(text) > MAX_TEXT:
        raise FormatError(f"holds a model whose text would have more than {MAX_TEXT} bytes")
    return held_of(dict(line.split(": ", 1) for line in description.splitlines() if ": " in line), text)


def drawing_digest(picture: bytes) -> str:
    """Return a digest of everything the pages are made of; see `PictureFormat`."""
    with _reading(picture) as pdf:
        return hashlib.sha256(b"".join(_Digests().of(page) for page in pdf.pages)).hexdigest()


class _Digests:
    """Digests of a PDF's objects by what they are, whatever their numbers and their order."""

    def __init__(self) -> None:
        self._known: dict[int, bytes] = {}

    def of(self, thing: Any, depth: int = 0) -> bytes:
        """Return the digest of an object and of all that it refers to."""
        from pypdf.generic import FloatObject, IndirectObject, NumberObject

        if depth > _MAX_DEPTH:
            raise FormatError(f"is a PDF nested deeper than {_MAX_DEPTH} levels")
        if isinstance(thing, IndirectObject):
            if thing.idnum not in self._known:
                self._known[thing.idnum] = b"itself"  # what a way back to an object counts as
                self._known[thing.idnum] = self.of(thing.get_object(), depth + 1)
            return self._known[thing.idnum]
        if isinstance(thing, dict):
            return self._dictionary(thing, depth)
        if isinstance(thing, list):
            return _hashed("list", *(self.of(item, depth + 1) for item in thing))
        if isinstance(thing, (FloatObject, NumberObject)):
            return _hashed("number", f"{float(thing):.3f}".encode())
        return _hashed(type(thing).__name__, str(thing).encode("utf-8", "replace"))

    def _dictionary(self, thing: dict[Any, Any], depth: int) -> bytes:
        from pypdf.generic import StreamObject

        parts = [
            part
            for key in sorted(thing)
            if key not in _HOW_IT_IS_STORED
            for part in (str(key).encode(), self.of(dict.__getitem__(thing, key), depth + 1))
        ]
        if isinstance(thing, StreamObject):
            parts.append(_hashed("data", thing.get_data()))
        return _hashed("dictionary", *parts)


def _hashed(kind: str, *parts: bytes) -> bytes:
    found = hashlib.sha256(kind.encode())
    for part in parts:
        found.update(hashlib.sha256(part).digest())
    return found.digest()


@contextmanager
def _reading(picture: bytes) -> Iterator[Any]:
    from pypdf import PdfReader
    from pypdf.errors import DependencyError, PyPdfError

    if not picture.startswith(b"%PDF-"):
        raise FormatError("is not a PDF")
    if not picture.rstrip().endswith(b"%%EOF"):
        raise FormatError("is a PDF that is cut off")
    try:
        reader = PdfReader(io.BytesIO(picture), strict=True)
        if reader.is_encrypted:
            raise FormatError("is an encrypted PDF; a picture as we write it is not")
        yield reader
    except FormatError:
        raise
    except RecursionError as error:
        raise FormatError("is a PDF that is nested too deeply") from error
    except (DependencyError, PyPdfError, *_WHERE_OBJECTS_ARE_OF_OTHER_KINDS) as error:
        reason = " ".join(str(error).split())[:80]
        raise FormatError(f"is a PDF that is damaged or cut off: {reason}") from error


def _refuse_what_runs(catalog: Any) -> None:
    names = catalog.get("/Names")
    action = catalog.get("/OpenAction")
    runs = "/AA" in catalog or (names is not None and "/JavaScript" in names.get_object())
    if runs or isinstance(action.get_object() if action is not None else None, dict):
        raise FormatError("is a PDF that runs something when it is opened; a picture as we write it does not")
