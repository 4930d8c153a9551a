"""Files <-> models: `load` and `save`, which choose the format by the file's suffix."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from mdf_scatter.errors import FormatError, listed
from mdf_scatter.formats.picture import MAX_FILE
from mdf_scatter.formats.picture import SUFFIXES as _PICTURES

if TYPE_CHECKING:
    from modeci_mdf.mdf import Model

__all__ = ["SUFFIXES", "extract", "load", "save"]

_MDF = (".json", ".yaml", ".yml", ".bson")
SUFFIXES = (*_MDF, ".onnx", *_PICTURES)
_MAX_BYTES = 2**31 - 1  # what BSON and ONNX can hold; no text of that size is a model


def load(path: str | os.PathLike[str]) -> Model:
    """Read a model; nothing in the file is evaluated.

    Args:
        path: A file ending in .json, .yaml, .yml, .bson or .onnx, or a picture that holds its model:
            .png, .svg, .pdf or .html.

    Returns:
        The model. Every array that was saved as one has its dtype and shape back; lists stay lists.

    Raises:
        FormatError: The file is missing, is not what its name says, or holds what it may not hold; a
            picture holds no model, or was changed after it was saved.
    """
    path = as_path(path)
    suffix = _known_suffix(path)
    try:
        data = _bytes_of(path, MAX_FILE if suffix in _PICTURES else _MAX_BYTES)
        if suffix in _MDF:
            from mdf_scatter.formats import mdf_file

            return mdf_file.read(data, path)
        if suffix in _PICTURES:
            from mdf_scatter.formats import picture

            return picture.read(data, path)
        from mdf_scatter.formats import onnx_file

        return onnx_file.read(data, path)
    except FormatError as error:
        raise FormatError(f"{path}: {error}") from error


def extract(path: str | os.PathLike[str], *, accept_changed: bool = False) -> Model:
    """Take the model out of a picture; `load` does the same for pictures that were not changed.

    Args:
        path: A picture that holds its model: .png, .svg, .pdf or .html.
        accept_changed: Take the model also where the drawing was changed, so that it may show another.

    Raises:
        FormatError: The file is missing, is no such picture, holds no model, or was changed.
    """
    path = as_path(path)
    if path.suffix.lower() not in _PICTURES:
        raise FormatError(f"{path}: is not a picture that holds a model; expected {listed(_PICTURES)}")
    from mdf_scatter.formats import picture

    try:
        return picture.read(_bytes_of(path, MAX_FILE), path, accept_changed=accept_changed)
    except FormatError as error:
        raise FormatError(f"{path}: {error}") from error


def save(
    model: Model, path: str | os.PathLike[str], *, embed: bool = False, picture: bytes | None = None
) -> None:
    """Write a model so that `load` gives an equal one back, dtypes and shapes included.

    The file is replaced in one step: another program sees the old model or the new one.

    Args:
        model: The model; it is not changed.
        path: A file ending in .json, .yaml, .yml, .bson or .onnx, or, for a diagram that holds the model,
            in .png, .svg, .pdf or .html.
        embed: Write everything into the one file. Otherwise, arrays of numbers of more than 1000
            elements go to `<stem>.safetensors` beside it; of a picture, only where the model's text
            would have more than 1,000,000 bytes. ONNX files always hold everything.
        picture: For a picture, the diagram in that format, where it is not to be what `draw` gives.

    Raises:
        FormatError: The model holds what the format cannot keep, or the file cannot be written.
        UnsupportedError: The model cannot be expressed in ONNX.
        ModelError: The model has no graph that could be drawn.
        RenderError: The diagram cannot be rendered.
    """
    path = as_path(path)
    suffix = _known_suffix(path)
    try:
        if suffix in _MDF:
            from mdf_scatter.formats import mdf_file

            _replace(mdf_file.write(model, path, embed=embed))
        elif suffix in _PICTURES:
            from mdf_scatter.drawing import embed as embedding

            given = embedding.usual(model, suffix) if picture is None else picture
            _replace(embedding.with_model(model, path, given, embed=embed))
        else:
            from mdf_scatter.formats import onnx_file

            _replace({path: onnx_file.write(model)})
    except FormatError as error:
        raise FormatError(f"{path}: {error}") from error
    except OSError as error:
        raise FormatError(f"{path}: cannot be written: {why_not(error, path)}") from error


def why_not(error: OSError, path: Path) -> str:
    """Say why a file cannot be written, so that one knows what to do."""
    if isinstance(error, FileNotFoundError):
        return no_folder(path)
    return error.strerror or str(error)


def no_folder(path: Path) -> str:
    """Say that the folder of a file is not there."""
    return f"there is no folder {str(path.parent)!r}; make it first"


def as_path(path: str | os.PathLike[str]) -> Path:
    """Return the path of a file.

    Raises:
        FormatError: It is neither a text nor a path.
    """
    if not isinstance(path, (str, os.PathLike)):
        raise FormatError(f"the path is of type {type(path).__name__}; expected a str or os.PathLike")
    return Path(path)


def _known_suffix(path: Path) -> str:
    suffix = path.suffix.lower()
    if not suffix and path.is_dir():
        raise FormatError(f"{path}: is a directory; expected a model file, ending in {listed(SUFFIXES)}")
    if suffix not in SUFFIXES:
        what = f"a file ending in {suffix!r} is" if suffix else "a file without an ending is"
        raise FormatError(f"{path}: {what} not supported; expected {listed(SUFFIXES)}")
    return suffix


def _bytes_of(path: Path, most: int) -> bytes:
    try:
        found = path.stat()
        mode, size = found.st_mode, found.st_size
        # reading a pipe or a device may never end
        data = path.read_bytes() if stat.S_ISREG(mode) and size <= most else b""
    except FileNotFoundError as error:
        raise FormatError("there is no such file") from error
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        raise FormatError(f"cannot be read: {getattr(error, 'strerror', None) or error}") from error
    if not stat.S_ISREG(mode):
        raise FormatError(
            f"is {'a directory' if stat.S_ISDIR(mode) else 'not a regular file'}; expected a model file"
        )
    if size > most:
        raise FormatError(f"has {size} bytes; a model file has at most {most}")
    if not data:
        raise FormatError("is empty")
    return data


def _replace(files: Mapping[Path, bytes | None]) -> None:
    """Write all files under temporary names before the first takes its place; None removes one."""
    waiting: dict[Path, Path] = {}
    try:
        for path, data in files.items():
            if data is not None:
                waiting[path] = path.with_name(f".{path.name}.{os.getpid()}.tmp")
                waiting[path].write_bytes(data)
        for path, temporary in waiting.items():
            temporary.replace(path)
    finally:
        for temporary in waiting.values():
            temporary.unlink(missing_ok=True)
    for path, data in files.items():
        if data is None:
            path.unlink(missing_ok=True)
