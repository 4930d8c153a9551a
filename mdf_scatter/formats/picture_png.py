"""PNG: the model is a `zTXt` chunk of the keyword `mdf`, its marks are `tEXt` chunks.

The chunks are read here, each checked by its checksum; Pillow only ever sees those that hold pixels.
"""

from __future__ import annotations

import hashlib
import io
import struct
import zlib
from collections.abc import Iterator

from mdf_scatter.errors import FormatError
from mdf_scatter.formats.arrays import shown
from mdf_scatter.formats.picture import Held, held_of, inflate, twice

MAX_TEXT = 1_000_000
"""Most bytes of a model's text: Pillow opens no PNG with a text of more than 1 MiB."""

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_MODEL = "mdf"
_TEXT_CHUNKS = (b"tEXt", b"zTXt", b"iTXt")
_PIXEL_CHUNKS = (b"IHDR", b"PLTE", b"tRNS", b"IDAT", b"IEND")
_MAX_CHUNKS = 100_000
_MAX_MARK = 1000
_MAX_PIXELS = 64_000_000
_STRIP = 256  # rows that are turned into RGBA at a time, to keep memory small


def put(picture: bytes, held: Held) -> bytes:
    """Return the picture with the model in it; see `PictureFormat`."""
    if len(held.text) > MAX_TEXT:
        raise FormatError(
            f"would hold {len(held.text)} bytes of a model's text, and few programs open a PNG of more than "
            f"{MAX_TEXT}; save it as .svg, .pdf or .html, or draw it without the model (--no-embed)"
        )
    texts = _chunk(b"zTXt", f"{_MODEL}\0\0".encode() + zlib.compress(held.text, 9))
    for name, text in held.marks.items():
        texts += _chunk(b"tEXt", f"{name}\0{text}".encode("latin-1", "backslashreplace"))
    parts = [_SIGNATURE]
    for kind, body in _chunks(picture):
        if kind == b"IDAT":  # readers that stop at the pixels have seen the texts then
            parts.append(texts)
            texts = b""
        parts.append(_chunk(kind, bytes(body)))
    return b"".join(parts)


def take(picture: bytes) -> Held:
    """Return what a picture holds; see `PictureFormat`."""
    marks: dict[str, str] = {}
    model: bytes | None = None
    for kind, body in _chunks(picture):
        if kind not in _TEXT_CHUNKS:
            continue
        keyword = bytes(body[:80]).partition(b"\0")[0].decode("latin-1")
        if keyword == _MODEL:
            if model is not None:
                raise twice(_MODEL)
            model = _model(kind, bytes(body[len(keyword) + 1 :]))
        elif keyword in ("mdf-sha256", "mdf-drawing", "mdf-tensors"):
            if keyword in marks:
                raise twice(keyword)
            if kind != b"tEXt" or len(body) > _MAX_MARK:
                raise FormatError(f"holds {keyword!r} otherwise than as a short tEXt chunk")
            marks[keyword] = bytes(body[len(keyword) + 1 :]).decode("latin-1")
    return held_of(marks, model)


def drawing_digest(picture: bytes) -> str:
    """Return the SHA-256 of the size and the pixels as RGBA; see `PictureFormat`."""
    from PIL import Image

    kept = [_SIGNATURE]
    kept += [_chunk(kind, bytes(body)) for kind, body in _chunks(picture) if kind in _PIXEL_CHUNKS]
    try:
        with Image.open(io.BytesIO(b"".join(kept)), formats=["PNG"]) as image:
            image.load()
            found = hashlib.sha256(f"{image.width}x{image.height}".encode())
            for top in range(0, image.height, _STRIP):
                strip = image.crop((0, top, image.width, min(top + _STRIP, image.height)))
                found.update(strip.convert("RGBA").tobytes())
    except (OSError, SyntaxError, ValueError, struct.error) as error:
        raise FormatError("is a PNG whose pixels are damaged") from error
    return found.hexdigest()


def _model(kind: bytes, body: bytes) -> bytes:
    if kind == b"tEXt":  # as ImageMagick writes a short one
        return body
    if kind == b"iTXt" or body[:1] != b"\0":
        raise FormatError(f"holds {_MODEL!r} otherwise than as a zTXt or tEXt chunk")
    return inflate(body[1:], MAX_TEXT)


def _chunks(data: bytes) -> Iterator[tuple[bytes, memoryview]]:
    """Yield the kind and the body of each chunk of a PNG.

    Raises:
        FormatError: The bytes are not those of a PNG, whole and undamaged.
    """
    if data[:8] != _SIGNATURE:
        raise FormatError("is not a PNG")
    view, place, kind = memoryview(data), 8, b""
    for number in range(_MAX_CHUNKS):
        if place + 12 > len(data):
            raise FormatError("is a PNG that is cut off")
        length, kind = struct.unpack_from(">I4s", data, place)
        end = place + 12 + length
        if end > len(data):
            raise FormatError("is a PNG that is cut off")
        if zlib.crc32(view[place + 4 : end - 4]) != struct.unpack_from(">I", data, end - 4)[0]:
            raise FormatError(f"is a PNG that is damaged: the checksum of its chunk {_name(kind)} is wrong")
        body = view[place + 8 : end - 4]
        if (number == 0) != (kind == b"IHDR"):
            raise FormatError("is not a PNG: its first chunk, and only that, is to be IHDR")
        if kind == b"IHDR":
            _refuse_size(body)
        yield kind, body
        place = end
        if kind == b"IEND":
            if place != len(data):
                raise FormatError(f"is a PNG with {len(data) - place} bytes after its end")
            return
    raise FormatError(f"is a PNG of more than {_MAX_CHUNKS} chunks")


def _name(kind: bytes) -> str:
    return shown(kind.decode("latin-1"))


def _refuse_size(header: memoryview) -> None:
    if len(header) != 13:
        raise FormatError("is not a PNG: its IHDR chunk has not 13 bytes")
    width, height = struct.unpack_from(">II", header)
    if width * height > _MAX_PIXELS:
        raise FormatError(f"is a PNG of {width} x {height} pixels; a diagram has at most {_MAX_PIXELS}")


def _chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
