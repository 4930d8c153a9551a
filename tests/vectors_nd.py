"""The operator cases of shared/vectors, where that folder is there."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mdf_scatter.dtypes import BFLOAT16

FOLDER = Path(__file__).parents[2] / "shared" / "vectors"


@dataclass(frozen=True)
class Vector:
    """One call of an operator, with the expected array, or None where it has to be an error."""

    id: str
    dtype: str
    inputs: tuple[np.ndarray, ...]
    attributes: dict[str, Any]
    expected: np.ndarray | None


def vectors(op: str, inputs: tuple[str, ...], attributes: tuple[str, ...]) -> list[Vector]:
    """Read every case of an operator; none where the folder is not there."""
    if not FOLDER.is_dir():
        return []
    index = json.loads((FOLDER / "index.json").read_text(encoding="utf-8"))
    arrays = np.load(FOLDER / "vectors.npz")

    def array(entry: dict[str, Any], name: str) -> np.ndarray:
        stored = arrays[f"{entry['id']}/{name}"]
        is_bits = entry["dtype"] == "bfloat16" and stored.dtype == np.uint16
        return stored.view(BFLOAT16) if is_bits else stored

    return [
        Vector(
            entry["id"],
            entry["dtype"],
            tuple(array(entry, name) for name in inputs),
            {name: entry[name] for name in attributes},
            None if entry["expected"] == "error" else array(entry, "expected"),
        )
        for entry in index["vectors"]
        if entry["op"] == op
    ]
