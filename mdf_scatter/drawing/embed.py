"""Diagrams that hold their model, so that whoever has the picture has the model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from mdf_scatter.errors import FormatError
from mdf_scatter.formats import mdf_file, tensors_file
from mdf_scatter.formats.picture import MAX_FILE, MAX_TEXT, Held, digest, picture_format
from mdf_scatter.formats.to_tree import TreeWriter

if TYPE_CHECKING:
    from modeci_mdf.mdf import Model

    from mdf_scatter.drawing.diagram import Diagram

LARGE = 1_000_000
"""Bytes of a model's text above which its large arrays stand in a side file."""

_LEAST_BYTES = 2  # of the text of one element: a digit and a comma


def drawn(diagram: Diagram, suffix: str) -> bytes:
    """Return a diagram in the format of `.png`, `.svg` or `.pdf`, without the model.

    Raises:
        RenderError: It cannot be rendered.
    """
    if suffix == ".png":
        return diagram.png
    return diagram.pdf if suffix == ".pdf" else diagram.svg.encode()


def usual(model: Model, suffix: str) -> bytes:
    """Return what `draw` gives, in the format of a picture's suffix and without the model.

    Raises:
        FormatError: It is no model.
        ModelError: The model has no graph.
        RenderError: It cannot be rendered.
    """
    mdf_file.require_model(model)
    if suffix == ".html":
        from mdf_scatter.drawing.page import drawn_page

        return drawn_page(model).encode()
    from mdf_scatter.drawing.diagram import draw

    return drawn(draw(model), suffix)


def with_model(model: Model, path: Path, picture: bytes, *, embed: bool = False) -> dict[Path, bytes | None]:
    """Return what saving a picture that holds its model writes: the bytes of each file.

    A model whose text would have more than 1,000,000 bytes has its arrays of more than 1000 numbers in
    `<stem>.safetensors` beside the picture, named with its hash.

    Args:
        model: The model that the picture shows.
        path: The picture's file.
        picture: The picture, in the format of the path's suffix.
        embed: Keep everything in the picture, however large.

    Raises:
        FormatError: The model is too large for such a picture, or holds what a file cannot keep.
    """
    files = _model_files(model, path, embed)
    # In a page, `<` could end the script that the model stands in; JSON knows another way to write it.
    text = (files[path] or b"").replace(b"<", rb"\u003c")
    if len(text) > MAX_TEXT:
        raise FormatError(
            f"would hold {len(text)} bytes of text for the model; a picture holds at most {MAX_TEXT}"
        )
    form = picture_format(path.suffix.lower())
    side = path.with_suffix(tensors_file.SUFFIX)
    arrays = files.get(side)
    tensors = "" if arrays is None else f"{side.name} {digest(arrays)}"
    written = form.put(picture, Held(text, digest(text), form.drawing_digest(picture), tensors))
    if len(written) > MAX_FILE:
        raise FormatError(
            f"would have {len(written)} bytes; a picture that holds its model has at most {MAX_FILE}"
        )
    return {**files, path: written}


def _model_files(model: Model, path: Path, embed: bool) -> dict[Path, bytes | None]:
    writer = TreeWriter(int64_only=False, embed=False)
    writer.model(model)
    elements = sum(array.size for array in writer.large.values())
    if embed or _LEAST_BYTES * elements <= LARGE:
        files = mdf_file.write(model, path, embed=True)
        if embed or not elements or len(files[path] or b"") <= LARGE:
            return files
    return mdf_file.write(model, path)
