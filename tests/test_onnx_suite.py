"""ONNX's own node tests for the operator family: by the Backend, through MDF, and exported again."""

from __future__ import annotations

import warnings
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from modeci_mdf.execution_engine import EvaluableGraph

import mdf_scatter
from mdf_scatter.errors import OperatorError
from mdf_scatter.onnx_plugin import Backend
from mdf_scatter.wiring import graph_inputs, graph_outputs

FAMILY = {"ScatterND", "ScatterElements", "Scatter", "GatherND", "GatherElements", "Gather", "TensorScatter"}


@cache
def cases() -> dict[str, Any]:
    from onnx.backend.test.loader import load_model_tests

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = load_model_tests(kind="node")
    return {case.name: case for case in found if {node.op_type for node in case.model.graph.node} <= FAMILY}


@pytest.fixture(params=sorted(cases()))
def case(request: pytest.FixtureRequest) -> Any:
    return cases()[request.param]


def same(results: list[np.ndarray], expected: list[np.ndarray]) -> None:
    for result, wanted in zip(results, expected, strict=True):
        assert np.asarray(result).dtype == wanted.dtype
        np.testing.assert_array_equal(result, wanted)


def test_the_family_is_all_there() -> None:
    assert len(cases()) >= 29


def test_by_the_backend(case: Any) -> None:
    prepared = Backend.prepare(case.model)
    for inputs, outputs in case.data_sets:
        same(list(prepared.run(inputs)), outputs)


def test_in_modeci_mdfs_own_engine_after_json(case: Any, tmp_path: Path) -> None:
    mdf_scatter.save(mdf_scatter.from_onnx(case.model), tmp_path / "m.json")
    graph = mdf_scatter.load(tmp_path / "m.json").graphs[0]
    mdf_scatter.register()
    try:
        for inputs, outputs in case.data_sets:
            evaluable = EvaluableGraph(graph)
            for item, array in zip(graph_inputs(graph), inputs, strict=True):
                evaluable.enodes[item.node.id].evaluable_inputs[item.port.id].set_input_value(array)
            evaluable.evaluate()
            same(
                [
                    evaluable.enodes[item.node.id].evaluable_outputs[item.port.id].curr_value
                    for item in graph_outputs(graph)
                ],
                outputs,
            )
    finally:
        mdf_scatter.unregister()


def test_exported_again_and_run_in_onnxruntime_on_one_thread(case: Any) -> None:
    proto = mdf_scatter.to_onnx(mdf_scatter.from_onnx(case.model))
    assert [node.op_type for node in proto.graph.node] == [node.op_type for node in case.model.graph.node]
    assert list(proto.opset_import) == list(case.model.opset_import)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(proto.SerializeToString(), options)
    for inputs, outputs in case.data_sets:
        feed = {item.name: array for item, array in zip(proto.graph.input, inputs, strict=True)}
        same(session.run(None, feed), outputs)


def test_one_node_by_the_backend() -> None:
    node = onnx.helper.make_node("ScatterND", ["d", "i", "u"], ["y"], reduction="max")
    inputs = [np.array([1.0, np.nan]), np.array([[0], [0]]), np.array([3.0, 2.0])]
    outputs = Backend.run_node(node, inputs)
    np.testing.assert_array_equal(outputs.y, [3.0, np.nan])
    with pytest.raises(OperatorError, match=r"indices\[0, 0\] is 5; expected -2..1"):
        Backend.run_node(node, [inputs[0], np.array([[5], [0]]), inputs[2]])
    assert Backend.supports_device("CPU")
    assert not Backend.supports_device("CUDA")
