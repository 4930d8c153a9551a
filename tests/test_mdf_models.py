"""Real MDF files, where they are there: three evaluations give what modeci-mdf gives."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from modeci_mdf.mdf import Model

import mdf_scatter
from mdf_scatter.errors import UnsupportedError

FOLDER = Path(__file__).parents[2] / "shared" / "mdf_models"
EXPECTED = sorted(FOLDER.glob("*.expected"))


def with_every_port_an_output(model: Model, ports: list[str]) -> Model:
    graph = model.graphs[0]
    graph.metadata = (graph.metadata or {}) | {"onnx": {"outputs": ports}}
    return model


def evaluations(model: Model, expected: dict[str, Any], engine: str) -> None:
    ports = list(expected["steps"][0])
    runner = mdf_scatter.Runner(with_every_port_an_output(model, ports), engine=engine)  # type: ignore[arg-type]
    for number, step in enumerate(expected["steps"]):
        increment = expected["time_increment"] if number else None
        found = runner({}, time_increment=increment)
        for port, value in zip(ports, found.values(), strict=True):
            if step[port] is None:
                continue
            wanted = np.asarray(step[port], float)
            np.testing.assert_allclose(
                np.asarray(value, float).reshape(wanted.shape), wanted, rtol=1e-6, atol=1e-9, err_msg=port
            )


@pytest.mark.parametrize("path", EXPECTED, ids=lambda path: path.stem)
@pytest.mark.parametrize("engine", ["mdf", "onnx"])
def test_three_evaluations(path: Path, engine: str) -> None:
    for position, expected in enumerate(json.loads(path.read_text(encoding="utf-8"))["graphs"]):
        model = mdf_scatter.load(path.with_suffix(""))
        model.graphs = [model.graphs[position]]
        conditions = model.graphs[0].conditions
        if engine == "onnx" and conditions is not None:
            with pytest.raises(UnsupportedError, match="has scheduling conditions"):
                mdf_scatter.run(model, engine="onnx")
        else:
            evaluations(model, expected, engine)
