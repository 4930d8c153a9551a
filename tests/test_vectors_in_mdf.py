"""The operator cases as MDF files: saved, loaded, and run in modeci-mdf's own engine and in ours."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from modeci_mdf.mdf import Graph, Model
from samples import same
from test_scatter_nd import DECIDED_OTHERWISE, VECTORS
from vectors_nd import Vector

import mdf_scatter
from mdf_scatter import OPS, ScatterND
from mdf_scatter.errors import MdfScatterError
from mdf_scatter.ops.op import Case


def model_of(inputs: tuple[object, ...], reduction: str) -> Model:
    graph = Graph(id="g")
    node = ScatterND("scatter_1").to_mdf()
    node.get_parameter("reduction").value = reduction
    graph.nodes.append(node)
    for port, value in zip(node.input_ports, inputs, strict=True):
        port.default_value = np.asarray(value)
    return Model(id="m", graphs=[graph])


@pytest.mark.parametrize("suffix", [".yaml", ".json", ".bson"])
@pytest.mark.parametrize("case", OPS["ScatterND"].cases, ids=lambda case: case.name)
def test_the_cases_of_the_operator(case: Case, suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"m{suffix}"
    reduction = str(case.attributes.get("reduction", "none"))
    mdf_scatter.save(model_of(case.inputs, reduction), path)
    for engine in ("mdf", "onnx"):
        if case.error is not None:
            with pytest.raises(MdfScatterError) as caught:
                mdf_scatter.run(mdf_scatter.load(path), engine=engine)
            assert "scatter_1" in str(caught.value)
        else:
            result = mdf_scatter.run(mdf_scatter.load(path), engine=engine)
            assert same(result["output"], case.expected)


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector.id)
def test_vectors(vector: Vector, tmp_path: Path) -> None:
    if vector.id in DECIDED_OTHERWISE:
        return
    path = tmp_path / "m.json"
    mdf_scatter.save(model_of(vector.inputs, vector.attributes["reduction"]), path)
    model = mdf_scatter.load(path)
    if vector.expected is None:
        with pytest.raises(MdfScatterError, match="scatter_1"):
            mdf_scatter.run(model, engine="mdf")
    else:
        assert same(mdf_scatter.run(model, engine="mdf")["output"], vector.expected)
