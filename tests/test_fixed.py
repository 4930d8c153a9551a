"""What is the same in every run of a graph is computed once, and nothing else is."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from models import FLOAT, INT64, onnx_model
from onnx import TensorProto, helper

from mdf_scatter import Runner, from_onnx
from mdf_scatter.errors import EvaluationError

BOOL = TensorProto.BOOL


def node(op_type: str, inputs: str, outputs: str, **attributes: Any) -> onnx.NodeProto:
    return helper.make_node(op_type, inputs.split(), outputs.split(), **attributes)


def row_model(size: Any) -> onnx.ModelProto:
    """Return a graph that puts ones into the last row of x, (size, 3), as exporters write it."""
    nodes = [
        node("Shape", "x", "shape"),
        node("Constant", "", "zero", value_int=0),
        node("Constant", "", "one", value_ints=[1]),
        node("Constant", "", "filled", value_float=1.0),
        node("Gather", "shape zero", "height"),
        node("Sub", "height one", "last"),
        node("Reshape", "last place", "indices"),
        node("Slice", "shape one end", "row"),
        node("Concat", "one row", "wide", axis=0),
        node("Expand", "filled wide", "updates"),
        node("ScatterND", "x indices updates", "y"),
    ]
    constants = {"place": np.array([1, 1]), "end": np.array([2])}
    return onnx_model(nodes, {"x": (FLOAT, [size, 3])}, {"y": (FLOAT, [size, 3])}, constants)


def steps(runner: Runner) -> list[str]:
    engine: Any = runner._engine
    (planned,) = engine._plans.values()
    return [type(step).__name__ for step in planned.plan._steps]


@pytest.mark.parametrize(("size", "left"), [(4, ["Operator"]), ("n", ["Segment", "Operator"])])
def test_what_comes_of_a_known_shape_is_computed_before(size: Any, left: list[str]) -> None:
    runner = Runner(from_onnx(row_model(size)))
    for height in (4,) if size == 4 else (4, 7):
        x = np.arange(3.0 * height, dtype=np.float32).reshape(height, 3)
        expected = x.copy()
        expected[-1] = 1
        assert np.array_equal(runner({"x": x})["y"], expected)
    assert steps(runner) == left


def test_what_is_large_is_computed_in_every_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mdf_scatter.fixed.LARGEST", 8)
    runner = Runner(from_onnx(row_model(4)))
    assert runner({"x": np.zeros((4, 3), np.float32)})["y"].sum() == 3
    assert steps(runner) == ["Segment", "Operator"]


def test_what_is_said_of_the_shape_of_another_value_is_not_believed() -> None:
    nodes = [
        node("Neg", "x", "same"),
        node("Shape", "same", "shape"),
        node("ReduceProd", "shape", "y", keepdims=0),
    ]
    proto = onnx_model(nodes, {"x": (FLOAT, ["n"])}, {"y": (INT64, [])})
    proto.graph.value_info.append(helper.make_tensor_value_info("same", FLOAT, [5]))
    assert Runner(from_onnx(proto))({"x": np.zeros(3, np.float32)})["y"] == 3


def test_the_rank_of_an_input_decides_though_its_sizes_are_open() -> None:
    def branch(name: str, op_type: str) -> onnx.GraphProto:
        output = helper.make_tensor_value_info(name, FLOAT, ["n"])
        return helper.make_graph([node(op_type, "x", name)], name, [], [output])

    nodes = [
        node("Shape", "x", "shape"),
        node("Size", "shape", "rank"),
        node("Constant", "", "zero", value_int=0),
        node("Equal", "rank zero", "scalar"),
        node("If", "scalar", "y", then_branch=branch("a", "Neg"), else_branch=branch("b", "Abs")),
    ]
    runner = Runner(from_onnx(onnx_model(nodes, {"x": (FLOAT, ["n"])}, {"y": (FLOAT, ["n"])})))
    assert runner({"x": np.array([-1, 2], np.float32)})["y"].tolist() == [1, 2]
    engine: Any = runner._engine
    (planned,) = engine._plans.values()
    (step,) = planned.plan._steps
    assert "Equal" not in step.operators
    assert step.reads == ("x",)


def test_numbers_that_are_drawn_are_drawn_in_every_run() -> None:
    nodes = [
        node("RandomUniform", "", "noise", shape=[8]),
        node("Neg", "noise", "less"),
        node("ScatterND", "less indices updates", "y"),
    ]
    constants = {"indices": np.array([[0]]), "updates": np.ones(1, np.float32)}
    runner = Runner(from_onnx(onnx_model(nodes, {}, {"y": (FLOAT, [8])}, constants)))
    first, second = runner()["y"], runner()["y"]
    assert first[0] == second[0] == 1
    assert not np.array_equal(first, second)


def test_an_input_with_a_default_is_no_constant() -> None:
    nodes = [node("Neg", "c", "less"), node("ScatterND", "less indices less", "y")]
    constants = {"c": np.array([1, 2], np.float32), "indices": np.array([[1], [0]])}
    proto = onnx_model(nodes, {"c": (FLOAT, [2])}, {"y": (FLOAT, [2])}, constants)
    runner = Runner(from_onnx(proto))
    assert runner()["y"].tolist() == [-2, -1]
    assert runner({"c": np.array([5, 6], np.float32)})["y"].tolist() == [-6, -5]
    assert runner()["y"].tolist() == [-2, -1]


def test_a_result_that_is_the_same_in_every_run_is_handed_out_in_memory_of_its_own() -> None:
    nodes = [
        node("Constant", "", "start", value_floats=[1.0, 2.0]),
        node("Identity", "start", "y"),
        node("Exp", "start", "z"),
        node("ScatterND", "z indices start", "w"),
    ]
    outputs = {name: (FLOAT, [2]) for name in ("y", "z", "w", "start")}
    runner = Runner(from_onnx(onnx_model(nodes, {}, outputs, {"indices": np.array([[1], [0]])})))
    first = runner()
    right = {name: array.copy() for name, array in first.items()}
    assert right["w"].tolist() == [2, 1]
    for array in first.values():
        array[...] = 77
    assert {name: array.tolist() for name, array in runner().items()} == {
        name: array.tolist() for name, array in right.items()
    }


def test_what_fails_on_constants_fails_when_the_graph_runs() -> None:
    nodes = [node("Reshape", "c three", "y")]
    constants = {"c": np.ones(2, np.float32), "three": np.array([3])}
    runner = Runner(from_onnx(onnx_model(nodes, {}, {"y": (FLOAT, [3])}, constants)))
    with pytest.raises(EvaluationError, match="Reshape"):
        runner()
