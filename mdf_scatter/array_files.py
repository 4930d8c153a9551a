"""NumPy's own files, for the inputs and outputs of the command line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from mdf_scatter.errors import FormatError, InputError


def read_inputs(options: Sequence[str] | None) -> dict[str, npt.NDArray[Any]]:
    """Read the arrays that the command line names.

    Args:
        options: Each `NAME=FILE.npy`, or `FILE.npz`, whose arrays have names of their own.

    Raises:
        InputError: A file is not readable, or it is not clear which input it is for.
    """
    arrays: dict[str, npt.NDArray[Any]] = {}
    for option in options or []:
        name, equals, file = option.rpartition("=")
        try:
            # Pickled arrays can run code, so they are refused.
            found = np.load(file, allow_pickle=False)
        except (OSError, ValueError, EOFError) as error:
            raise InputError(f"-i {option}: {file!r} is not a readable .npy or .npz file: {error}") from error
        if isinstance(found, np.ndarray):
            if not equals:
                raise InputError(f"-i {option}: which input is it? write -i NAME={file}")
            arrays[name] = found
        elif equals:
            raise InputError(f"-i {option}: {file!r} holds {', '.join(found.files)}; write -i {file}")
        else:
            arrays |= {key: found[key] for key in found.files}
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
