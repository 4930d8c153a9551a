"""The side file: large arrays of a model, in safetensors, beside the model file.

The model names the file and its SHA-256. A side file is only ever looked for in the model's own
folder, only ever believed when the hash is right, and only ever overwritten or removed when no other
model in the folder relies on it.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path, PureWindowsPath
from typing import Any

import numpy as np
import safetensors
import safetensors.numpy

from mdf_scatter.dtypes import is_string, name_of
from mdf_scatter.errors import FormatError
from mdf_scatter.formats.arrays import Array, Dtype, in_native_order, shown
from mdf_scatter.formats.picture import SUFFIXES as PICTURE_SUFFIXES
from mdf_scatter.formats.picture import digest

SUFFIX = ".safetensors"
MODEL_SUFFIXES = (".json", ".yaml", ".yml", ".bson", *PICTURE_SUFFIXES)

_MARK = {"written_by": "mdf-scatter"}
_NATIVE = {"bool", "float16", "float32", "float64", "int8", "int16", "int32", "int64"}
_NATIVE |= {"uint8", "uint16", "uint32", "uint64"}


def encode(arrays: Mapping[str, Array]) -> bytes:
    """Return the bytes of a side file that holds these arrays; the same arrays give the same bytes."""
    stored = {key: _stored(array) for key, array in arrays.items()}
    return bytes(safetensors.numpy.save(stored, metadata=_MARK))


class TensorsFile:
    """The arrays of a side file, each of them read as one array however often it is asked for."""

    def __init__(self, reference: Mapping[str, Any], folder: Path) -> None:
        """Read the file that a model's `tensors` metadata names.

        Args:
            reference: The metadata: `file`, a plain file name, and `sha256`.
            folder: The folder the model is in.

        Raises:
            FormatError: The name leads out of the folder, or the file is missing, changed or broken.
        """
        self.name, expected = reference.get("file"), reference.get("sha256")
        path = _beside(self.name, folder)
        if not isinstance(expected, str):
            raise FormatError(
                f"the metadata 'tensors' has no sha256 for {shown(self.name)}; save the model again"
            )
        try:
            data = path.read_bytes()
        except OSError as error:
            raise FormatError(f"the side file {shown(self.name)} cannot be read: {error.strerror}") from error
        if digest(data) != expected:
            raise FormatError(
                f"the side file {shown(self.name)} has changed since the model was saved; "
                "put back the file that was saved with it"
            )
        try:
            self._stored = safetensors.numpy.load(data)
        except (safetensors.SafetensorError, KeyError, ValueError, TypeError) as error:
            raise FormatError(
                f"the side file {shown(self.name)} is not a safetensors file that NumPy can read"
            ) from error
        self._arrays: dict[tuple[str, str], Array] = {}

    def get(self, key: object, dtype: Dtype, shape: tuple[int, ...], where: str) -> Array:
        """Return an array of the file: the same object each time, so that shared weights stay shared.

        Raises:
            FormatError: The file has no array of that key, or one of another type.
        """
        if is_string(dtype):
            raise FormatError(f"{where} is text, which no side file holds")
        if not isinstance(key, str) or key not in self._stored:
            raise FormatError(
                f"{where} is kept in {shown(self.name)} under {shown(key)}, which that file does not hold"
            )
        known = self._arrays.get((key, str(dtype)))
        if known is None:
            known = self._arrays[key, str(dtype)] = _restored(self._stored[key], dtype, where)
        if known.shape != shape:
            raise FormatError(
                f"{where} should be of shape {list(shape)}; {shown(self.name)} holds {list(known.shape)}"
            )
        return known


def refuse_to_overwrite(side: Path, model: Path, data: bytes) -> None:
    """Raise where writing `data` as the side file would destroy what another file is or needs.

    Raises:
        FormatError: The file there belongs to another model, or to nothing of ours.
    """
    if not side.exists():
        return
    present = side.read_bytes()
    if present == data:
        return
    other = _other_user(present, side, model)
    if other is not None:
        raise FormatError(f"{side.name} holds arrays of {other.name} too; save under another name, or embed")
    if not (_is_ours(present) or side.name.encode() in _bytes_of(model)):
        raise FormatError(
            f"the arrays would overwrite {side.name}, which is not a model's side file; "
            "save under another name, embed, or move that file"
        )


def is_abandoned(side: Path, model: Path) -> bool:
    """Tell whether a side file served the model that is about to be replaced, and nothing else."""
    if not side.is_file() or not model.is_file():
        return False
    present = side.read_bytes()
    return digest(present).encode() in _bytes_of(model) and _other_user(present, side, model) is None


def _beside(name: object, folder: Path) -> Path:
    if not isinstance(name, str) or not name.endswith(SUFFIX):
        raise FormatError(
            f"the metadata 'tensors' names the file {shown(name)}; expected a name ending in {SUFFIX!r}"
        )
    if Path(name).name != name or PureWindowsPath(name).name != name or "\0" in name:
        raise FormatError(
            f"the side file {shown(name)} is not in the model's own folder; expected a plain file name"
        )
    path = folder / name
    try:
        found = path.is_file()
        stays = path.resolve().parent == folder.resolve()
    except (OSError, ValueError, RuntimeError) as error:  # a name too long, or a loop of links
        raise FormatError(f"the side file {shown(name)} cannot be looked up in {folder}") from error
    if not stays:
        raise FormatError(f"the side file {shown(name)} is a link that leaves the model's own folder")
    if not found:
        raise FormatError(
            f"the side file {shown(name)}, which holds the model's large arrays, is not in {folder}"
        )
    return path


def _stored(array: Array) -> Array:
    native = np.ascontiguousarray(array, dtype=in_native_order(array.dtype))
    if name_of(native.dtype) in _NATIVE:
        return native
    if native.dtype.kind == "c":
        part = np.float32 if native.dtype == np.complex64 else np.float64
        return native.view(part).reshape(*native.shape, 2)
    return native.view(f"u{native.dtype.itemsize}")


def _restored(stored: Array, dtype: Dtype, where: str) -> Array:
    expected = _stored(np.empty(0, dtype))
    if stored.dtype != expected.dtype or (dtype.kind == "c" and stored.shape[-1:] != (2,)):
        raise FormatError(
            f"{where} should be of type {name_of(dtype)}; its side file holds {stored.dtype} there"
        )
    if dtype == np.bool_:
        return np.not_equal(stored.view(np.uint8), 0)  # a byte other than 0 and 1 is no bool to NumPy
    if dtype.kind == "c":
        return stored.view(dtype)[..., 0]
    return stored.view(dtype)


def _bytes_of(path: Path) -> bytes:
    return path.read_bytes() if path.is_file() else b""


def _is_ours(data: bytes) -> bool:
    return b'"written_by":"mdf-scatter"' in data[:4096]


def _other_user(data: bytes, side: Path, model: Path) -> Path | None:
    needle = digest(data).encode()
    for other in sorted(side.parent.iterdir()):
        if other.suffix.lower() in MODEL_SUFFIXES and other != model and needle in _bytes_of(other):
            return other
    return None
