"""JSON and BSON <-> plain trees of dicts, lists and scalars."""

from __future__ import annotations

import json
import re
from typing import Any

import bson
from bson.codec_options import CodecOptions

from mdf_scatter.errors import FormatError
from mdf_scatter.formats.arrays import shown


def read_json(data: bytes) -> Any:
    """Read JSON; a key that stands twice is an error."""
    try:
        return json.loads(text_of(data), object_pairs_hook=_unique)
    except json.JSONDecodeError as error:
        raise FormatError(_what_is_wrong(error)) from error
    except FormatError:
        raise
    except ValueError as error:  # a number of thousands of digits
        raise FormatError("is not JSON that can be read: a number in it has thousands of digits") from error


def _what_is_wrong(error: json.JSONDecodeError) -> str:
    """Return what the decoder says, or say it plainly where it is what people write by hand."""
    where = f"at line {error.lineno}, column {error.colno}"
    before, rest = error.doc[: error.pos].rstrip(), error.doc[error.pos :]
    if rest.startswith(("#", "//", "/*")):
        return f"has a comment {where}; JSON has none"
    if rest.startswith("'"):
        return f"has a single quote {where}; JSON's are double"
    if rest.startswith(("}", "]")) and before.endswith(","):
        return f"has a comma before {rest[0]!r} {where}; JSON has none there"
    return f"is not JSON: {error.msg} {where}"


def write_json(tree: Any) -> bytes:
    """Write JSON with lists of numbers on one line each."""
    text = json.dumps(tree, indent=4)
    # a newline never stands inside a JSON text, so that this meets lists of numbers and words only
    text = _INNERMOST_LIST.sub(lambda found: "[" + re.sub(r"\n\s+", " ", found[1]) + "]", text)
    return f"{text}\n".encode()


def write_dense_json(tree: Any) -> bytes:
    """Write JSON for programs only: without spaces, about a quarter as long."""
    return json.dumps(tree, separators=(",", ":")).encode()


_INNERMOST_LIST = re.compile(r"\[\n\s+([^\[\]{}\"]*?)\n\s*\]")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    mapping = dict(pairs)
    if len(mapping) < len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise FormatError(f"has the key {shown(twice)} twice in one mapping")
    return mapping


def text_of(data: bytes) -> str:
    """Return UTF-8 bytes as text, or say why they are none."""
    if data[:2] in (b"\xff\xfe", b"\xfe\xff") or b"\0" in data[:4]:
        raise FormatError("is not UTF-8 text (it looks like UTF-16 or binary data); save it as UTF-8")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise FormatError(f"is not UTF-8 text: byte {data[error.start]:#04x} in line {line}") from error
    if not text.strip():
        raise FormatError("is empty")
    return text


class _BsonMapping(dict[str, Any]):
    """Remembers a key that stands twice; raised in here, the decoder would wrap the error."""

    twice: str | None = None

    def __setitem__(self, key: str, value: Any) -> None:
        if key in self:
            self.twice = key
        super().__setitem__(key, value)


def read_bson(data: bytes) -> Any:
    """Read BSON, of whose types a model has few."""
    says = int.from_bytes(data[:4], "little")
    if says != len(data):
        raise FormatError(f"is not BSON, or is cut off: it says it has {says} bytes, and has {len(data)}")
    try:
        return _without_bson_types(bson.decode(data, CodecOptions(document_class=_BsonMapping)))
    except bson.errors.BSONError as error:
        raise FormatError(f"is not BSON: {str(error)[:80]}") from error


def _without_bson_types(tree: Any) -> Any:
    if isinstance(tree, _BsonMapping):
        if tree.twice is not None:
            raise FormatError(f"has the key {shown(tree.twice)} twice in one mapping")
        return {key: _without_bson_types(value) for key, value in tree.items()}
    if isinstance(tree, list):
        return [_without_bson_types(value) for value in tree]
    return int(tree) if isinstance(tree, bson.Int64) else tree


def write_bson(tree: Any) -> bytes:
    """Write BSON."""
    try:
        return bytes(bson.encode(tree))
    except (bson.errors.BSONError, OverflowError) as error:
        raise FormatError(f"cannot be written as BSON: {str(error)[:80]}") from error
