"""NumPy's own files, for the inputs and outputs of the command line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from mdf_scatter.errors import FormatError, InputError

_BEGINNINGS = (b"\x93NUMPY", b"PK\3\4", b"PK\5\6")
"""How `.npy` files and zip files begin; the last one is a zip file without members."""


def read_inputs(options: Sequence[str] | None) -> dict[str, npt.NDArray[Any]]:
    """Read the arrays that the command line names.

    Args:
        options: Each `NAME=FILE.npy`, or `FILE.npz`, whose arrays have names of their own.

    Raises:
        InputError: A file is not readable, it is not clear which input it is for, or an input is given twice.
    """
    arrays: dict[str, npt.NDArray[Any]] = {}
    for option in options or []:
        for name, array in _named_arrays(option).items():
            if name in arrays:
                raise InputError(f"-i {option}: input {name!r} is given twice")
            arrays[name] = array
    return arrays


def _named_arrays(option: str) -> dict[str, npt.NDArray[Any]]:
    name, file = option.split("=", 1) if "=" in option else ("", option)
    try:
        found = _read(file)
    except InputError as error:
        raise InputError(f"-i {option}: {file!r} {error}") from error
    if isinstance(found, np.ndarray):
        if not name:
            raise InputError(f"-i {option}: which input is it? write -i NAME={file}")
        return {name: found}
    if name:
        held = f"holds {', '.join(found)}" if found else "holds no arrays"
        raise InputError(f"-i {option}: {file!r} {held}; write -i {file}")
    return found


def _read(file: str) -> npt.NDArray[Any] | dict[str, npt.NDArray[Any]]:
    """Return the array of an `.npy` file, or those of an `.npz` file by name.

    Raises:
        InputError: It is not readable; the message says why, without the file's name.
    """
    try:
        with open(file, "rb") as opened:
            beginning = opened.read(max(map(len, _BEGINNINGS)))
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"is not a readable .npy or .npz file: {reason}") from error
    if not beginning.startswith(_BEGINNINGS):
        raise InputError("is no .npy or .npz file; expected one as numpy.save or numpy.savez writes it")
    try:
        # Pickled arrays can run code, so they are refused.
        found = np.load(file, allow_pickle=False)
        if isinstance(found, np.ndarray):
            return found
        with found:
            arrays = {key: found[key] for key in found.files}
    except Exception as error:  # NumPy's, zipfile's and Python's own parsers raise what they please
        reason = " ".join(str(error).split())
        if "allow_pickle" in reason:
            reason = (
                "it holds Python objects, which are not read as they can run code; expected numbers or text"
            )
        raise InputError(f"is not a readable .npy or .npz file: {reason}") from error
    for key, array in arrays.items():
        if not isinstance(array, np.ndarray):  # but bytes, of a file that is none of NumPy's
            raise InputError(f"holds {key!r}, which is no array; expected only arrays")
    return arrays


def write_arrays(path: Path, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
    """Write arrays into an `.npz` file, each under its name.

    Raises:
        FormatError: The file's suffix is another one.
    """
    if path.suffix != ".npz":
        raise FormatError(f"{path}: the suffix is {path.suffix!r}; outputs are written to '.npz'")
    # Objects would be pickled; text has a type of its own.
    plain = {name: array.astype(str) if array.dtype == object else array for name, array in arrays.items()}
    np.savez(path, **plain)  # type: ignore[arg-type]
