"""The example graphs that come with the package, and what they give."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from mdf_scatter.dtypes import is_string, parse_type, type_text
from mdf_scatter.errors import FormatError

_SUFFIXES = (".yaml", ".json", ".onnx")
_EXPECTED = ".expected.json"


def example_files() -> list[Path]:
    """List the example graphs, in order of their names.

    Raises:
        FormatError: They are not installed.
    """
    here = Path(__file__).parent
    for folder in (here / "graphs", here.parent / "graphs"):
        found = sorted(
            path
            for path in folder.glob("*")
            if path.suffix in _SUFFIXES and not path.name.endswith(_EXPECTED)
        )
        if found:
            return found
    raise FormatError(f"{here / 'graphs'}: the example graphs are not there; install the package again")


def expected_outputs(path: Path) -> dict[str, npt.NDArray[Any]]:
    """Read what an example graph gives, from the file beside it.

    Raises:
        FormatError: The file is missing or not as `write_expected` writes it.
    """
    beside = _beside(path)
    try:
        found = json.loads(beside.read_text(encoding="utf-8"))
        return {name: _array(output["type"], output["values"]) for name, output in found.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise FormatError(f"{beside}: not a file of expected outputs: {error}") from error


def write_expected(path: Path, outputs: Mapping[str, npt.NDArray[Any]]) -> None:
    """Write what an example graph gives into the file beside it."""
    found = {
        name: {"type": type_text(array.dtype, array.shape), "values": array.tolist()}
        for name, array in outputs.items()
    }
    _beside(path).write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def same_outputs(a: Mapping[str, npt.NDArray[Any]], b: Mapping[str, npt.NDArray[Any]]) -> bool:
    """Tell whether outputs are the same: names, dtypes, shapes, and values to 1e-6 of their size."""
    return list(a) == list(b) and all(_same(a[name], b[name]) for name in a)


def _same(a: npt.NDArray[Any], b: npt.NDArray[Any]) -> bool:
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    if is_string(a.dtype):
        return bool((a == b).all())
    return bool(np.allclose(a, b, rtol=1e-6, atol=0, equal_nan=True))


def _array(text: str, values: Any) -> npt.NDArray[Any]:
    parsed = parse_type(text)
    if parsed is None:
        raise ValueError(f"type is {text!r}")
    return np.array(values, dtype=parsed[0]).reshape(parsed[1])


def _beside(path: Path) -> Path:
    return path.with_name(path.name.split(".")[0] + _EXPECTED)
