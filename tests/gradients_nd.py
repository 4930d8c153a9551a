"""The gradient cases of shared/gradients, where that folder is there."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

FOLDER = Path(__file__).parents[2] / "shared" / "gradients"

OPERATORS = {
    "scatternd": ("ScatterND", ("data", "indices", "updates")),
    "scatter_elements": ("ScatterElements", ("data", "indices", "updates")),
    "gathernd": ("GatherND", ("data", "indices")),
    "gather_elements": ("GatherElements", ("data", "indices")),
    "tf_scatter_nd": ("tf::scatter_nd", ("indices", "updates", "shape")),
    "paddle_scatter_nd_add": ("paddle::scatter_nd_add", ("data", "indices", "updates")),
}
"""The operator of a case: its name in `OPS`, and its inputs as the cases call them."""


@dataclass(frozen=True)
class GradientCase:
    """One backward pass: gradients are None for inputs that have none; `factor` multiplies them."""

    id: str
    op: str
    inputs: tuple[np.ndarray, ...]
    attributes: dict[str, Any]
    grad: np.ndarray
    factor: float
    expected: tuple[np.ndarray | None, ...]


def gradient_cases() -> list[GradientCase]:
    """Read every case; none where the folder is not there."""
    if not FOLDER.is_dir():
        return []
    index = json.loads((FOLDER / "index.json").read_text(encoding="utf-8"))
    arrays = np.load(FOLDER / "gradients.npz")

    def case(entry: dict[str, Any]) -> GradientCase:
        op, names = OPERATORS[entry["op"]]
        attributes = dict(entry["attrs"])
        factor = attributes.pop("lda_coeff", 1.0)
        stored = {"shape": np.array(attributes.pop("shape", ()))}
        stored |= {key: arrays[f"{entry['id']}/{key}"] for key in ("g", "data", "indices", "updates")
                   if f"{entry['id']}/{key}" in arrays}  # fmt: skip
        expected = tuple(
            arrays[f"{entry['id']}/grad_{name}"] if entry["has"].get(name) else None for name in names
        )
        inputs = tuple(stored[name] for name in names)
        return GradientCase(entry["id"], op, inputs, attributes, stored["g"], factor, expected)

    return [case(entry) for entry in index]
