"""Pictures that hold the model they show: what is read from one, and when it is believed.

A picture holds the model as JSON, the SHA-256 of that text, and a digest of the drawing as
it was when the model was put in. Each format has a module of its own, which puts these in and takes
them out. Nothing that is found is evaluated or looked up elsewhere, but for the side file of large
arrays, which stands in the picture's own folder (see `tensors_file`).

A drawing that was changed afterwards may no longer show the model, so that `load` refuses it; taking
the model out is still possible with `accept_changed`. The digest is one that stays the same where a
picture is only written anew, by optipng, svgo or ImageMagick. It protects against accidents, not
against someone who means to deceive: such a person can compute it as well.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, cast

from mdf_scatter.errors import FormatError

if TYPE_CHECKING:
    from modeci_mdf.mdf import Model

SUFFIXES = (".png", ".svg", ".pdf", ".html")

MAX_FILE = 64 * 2**20
MAX_TEXT = 32 * 2**20
"""Most bytes of a picture, and of the model's text in it; both are far above what can be looked at."""


@dataclass(frozen=True)
class Held:
    """What a picture holds besides the drawing.

    Attributes:
        text: The model as JSON, in ASCII.
        sha256: What the picture says the text's SHA-256 is.
        drawing: What the picture says the drawing's digest was when the model was put in.
        tensors: Name and SHA-256 of the side file of large arrays, for people who look; or nothing.
    """

    text: bytes
    sha256: str
    drawing: str
    tensors: str = ""

    @property
    def marks(self) -> dict[str, str]:
        """The texts that stand beside the model, by their names in a picture."""
        marks = {"mdf-sha256": self.sha256, "mdf-drawing": self.drawing, "mdf-tensors": self.tensors}
        return {name: text for name, text in marks.items() if text}


class PictureFormat(Protocol):
    """What the module of each format does."""

    def put(self, picture: bytes, held: Held) -> bytes:
        """Return the picture with the model in it."""

    def take(self, picture: bytes) -> Held:
        """Return what a picture holds.

        Raises:
            FormatError: It is not such a picture, or holds no model, or two, or what it may not hold.
        """

    def drawing_digest(self, picture: bytes) -> str:
        """Return the digest of what a picture shows, the same with and without a model in it.

        Raises:
            FormatError: The picture is not one that can be shown.
        """


def picture_format(suffix: str) -> PictureFormat:
    """Return the module that reads and writes the pictures of a suffix."""
    module = import_module(f"mdf_scatter.formats.picture_{suffix.removeprefix('.')}")
    return cast(PictureFormat, module)


def read(data: bytes, path: Path, *, accept_changed: bool = False) -> Model:
    """Read the model that a picture holds.

    Args:
        data: The picture.
        path: Where it comes from; its suffix says what it is, its folder has the side file.
        accept_changed: Take the model also where the drawing has been changed.

    Raises:
        FormatError: The picture holds no model, or one that is not to be believed. The message does not
            name the file.
    """
    from mdf_scatter.formats import mdf_file

    picture = picture_format(path.suffix.lower())
    held = picture.take(data)
    if digest(held.text) != held.sha256:
        raise FormatError("holds a model that was changed after it was put in: its SHA-256 is another")
    if not accept_changed and picture.drawing_digest(data) != held.drawing:
        raise FormatError(
            "was changed after its model was put in, so that it may show another; "
            "take the model out with accept_changed and draw it again"
        )
    return mdf_file.read(held.text, path)


def digest(data: bytes) -> str:
    """Return the SHA-256 of some bytes in hexadecimal digits."""
    return hashlib.sha256(data).hexdigest()


def held_of(texts: Mapping[str, str], model: bytes | None) -> Held:
    """Return what a picture holds, from the model's text and the marks beside it.

    Raises:
        FormatError: There is no model, or one without its marks.
    """
    if model is None:
        raise FormatError(
            "holds no model: it was made without one, or a program that saved it again left the model out"
        )
    for name in ("mdf-sha256", "mdf-drawing"):
        if name not in texts:
            raise FormatError(f"holds a model without {name!r} beside it; it is not a picture as we write it")
    if not model.isascii():
        raise FormatError("holds a model that is not ASCII text; it is not a picture as we write it")
    return Held(model, texts["mdf-sha256"], texts["mdf-drawing"], texts.get("mdf-tensors", ""))


def twice(name: str) -> FormatError:
    """Return the error for a picture with two texts of one name."""
    return FormatError(f"holds {name!r} twice; which of them is the model's cannot be known")


def inflate(data: bytes, limit: int = MAX_TEXT) -> bytes:
    """Return what zlib has compressed, if that is not more than `limit` bytes.

    Raises:
        FormatError: The data is not zlib's, is cut off, or would become too long.
    """
    decompressor = zlib.decompressobj()
    try:
        text = decompressor.decompress(data, limit + 1)
    except zlib.error as error:
        raise FormatError("holds a model whose compressed text is damaged") from error
    if len(text) > limit:
        raise FormatError(f"holds a model whose text would have more than {limit} bytes")
    if not decompressor.eof or decompressor.unused_data:
        raise FormatError("holds a model whose compressed text is damaged")
    return text
