"""Plain numbers and lists beside tensors, in nodes of our functions: they take the tensor's dtype."""

from __future__ import annotations

import re
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from modeci_mdf.mdf import Edge, Function, Graph, InputPort, Model, Node, OutputPort, Parameter

import mdf_scatter
from mdf_scatter.checks import check
from mdf_scatter.dtypes import name_of
from mdf_scatter.errors import ModelError, OperatorError, UnsupportedError
from mdf_scatter.lower import lower
from mdf_scatter.ops.plain import fitted

ENGINES = ("onnx", "mdf")


def scatter(
    *, function: str = "ScatterND", ports: dict[str, str | None] | None = None, **arguments: Any
) -> Model:
    """Return a model of one node; arguments are parameters, or the default values of ports of a type."""
    node = Node(id="n")
    for name, value in arguments.items():
        if name in (ports or {}):
            node.input_ports.append(InputPort(id=name, type=ports[name], default_value=value))
        else:
            node.parameters.append(Parameter(id=name, value=value))
    node.functions.append(Function(id="f", function=function, args={name: name for name in arguments}))
    node.output_ports.append(OutputPort(id="y", value="f"))
    return Model(id="m", graphs=[Graph(id="g", nodes=[node])])


def in_both(model: Model) -> np.ndarray:
    assert [str(finding) for finding in check(model)] == []
    ours, theirs = (mdf_scatter.run(model, engine=engine)["y"] for engine in ENGINES)
    assert ours.dtype == theirs.dtype
    np.testing.assert_array_equal(ours, theirs)
    return ours


@pytest.mark.parametrize(
    "dtype", ["float16", "bfloat16", "float32", "float64", "int8", "uint8", "int64", "complex64"]
)
@pytest.mark.parametrize("updates", [[1, 2], [1.0, 2.0], "[1, 2]", [True, False]])
def test_a_list_of_updates_is_as_the_data(dtype: str, updates: Any) -> None:
    data = np.zeros(4, dtype=dtype if dtype != "bfloat16" else ml_dtypes.bfloat16)
    result = in_both(scatter(data=data, indices=[[3], [0]], updates=updates))
    assert name_of(result.dtype) == dtype
    first, second = (1, 0) if updates == [True, False] else (1, 2)
    np.testing.assert_array_equal(result, np.array([second, 0, 0, first], data.dtype))


def test_a_list_of_data_is_as_the_updates() -> None:
    result = in_both(scatter(data=[1, 2, 3], indices=[[0]], updates=np.array([0.5], np.float32)))
    assert result.dtype == np.float32
    assert result.tolist() == [0.5, 2, 3]


def test_of_lists_alone_all_numbers_are_kept() -> None:
    assert in_both(scatter(data=[1, 2, 3], indices=[[0]], updates=[0.5])).tolist() == [0.5, 2, 3]
    assert in_both(scatter(data=[1, 2], indices=[[0]], updates=[3])).dtype == np.int64
    assert in_both(scatter(data=["a", "b"], indices=[[0]], updates=["c"])).tolist() == ["c", "b"]


@pytest.mark.parametrize("indices", [[[], []], "[[], []]"])
def test_an_empty_list_of_indices_is_of_integers(indices: Any) -> None:
    model = scatter(data=np.zeros(3, np.float32), indices=indices, updates=np.ones((2, 3), np.float32))
    assert in_both(model).tolist() == [1, 1, 1]
    assert in_both(scatter(data=[1, 2], indices=indices, updates=[[3, 4], [5, 6]])).tolist() == [5, 6]
    assert in_both(scatter(function="GatherND", data=[1, 2], indices=indices)).tolist() == [[1, 2]] * 2
    summed = scatter(function="tf::scatter_nd", indices=indices, updates=[[1.5], [2.5]], shape=[1])
    assert in_both(summed).tolist() == [4]


def test_an_empty_list_tells_no_dtype() -> None:
    result = in_both(scatter(data=[1, 2], indices=np.zeros((0, 1), np.int64), updates=[]))
    assert result.dtype == np.int64
    assert result.tolist() == [1, 2]


@pytest.mark.parametrize("training", [0, 1, "1"])
def test_training_may_be_0_or_1(training: Any) -> None:
    model = scatter(data=np.zeros(2, np.float32), indices=[[1]], updates=[2], training=training)
    assert in_both(model).tolist() == [0, 2]
    stopped = mdf_scatter.grad(model, of=["y"]).graphs[0].metadata["gradient"]["stopped"]
    assert stopped == ([] if int(training) else [{"node": "n", "reason": "training is false"}])


def test_a_number_is_as_the_tensor_too() -> None:
    result = in_both(scatter(data=np.zeros(2, np.float32), indices=[1], updates=3.5))
    assert result.dtype == np.float32
    assert result.tolist() == [0, 3.5]


def test_beside_the_type_that_a_port_declares() -> None:
    model = scatter(ports={"data": "float32"}, data=[0, 0], indices=[[1]], updates=[0.1])
    assert in_both(model).tolist() == [0, np.float32(0.1)]


@pytest.mark.parametrize(
    ("function", "arguments"),
    [
        ("ScatterElements", {"indices": [1, 0], "updates": [1, 2], "reduction": "mean"}),
        ("onnx::ScatterElements", {"indices": [1, 0], "updates": [1, 2], "reduction": "add"}),
        ("paddle::scatter_nd_add", {"index": [[1], [0]], "updates": [1, 2]}),
    ],
)
def test_in_other_functions(function: str, arguments: dict[str, Any]) -> None:
    name = "ref" if "paddle" in function else "data"
    result = in_both(scatter(function=function, **{name: np.ones(3, np.float32)}, **arguments))
    assert result.dtype == np.float32
    assert result.tolist() == ([1.5, 1, 1] if arguments.get("reduction") == "mean" else [3, 2, 1])


def test_an_argument_and_a_parameter_behind_a_parameter() -> None:
    model = scatter(held=[0.5], data=np.zeros(2, np.float32), indices=[[1]], updates="held")
    assert in_both(model).dtype == np.float32
    model = scatter(data=np.zeros(2, np.float32), indices=[[1]])
    model.graphs[0].nodes[0].functions[0].args["updates"] = [0.5]
    assert in_both(model).dtype == np.float32


def test_a_trained_list_is_cast_in_the_graph() -> None:
    model = scatter(ports={"data": "float32"}, data=[0.0, 0.0], indices=[[1]], updates=[0.5])
    graph = lower(model, held=[("n", "updates")]).graph
    assert [node.op_type for node in graph] == ["Cast", "ScatterND"]
    assert graph.initializers["n.updates"].dtype.numpy() == np.float64


@pytest.mark.parametrize(
    ("data", "updates", "own"),
    [
        (np.zeros(2, np.int64), [0.5], "float64"),
        (np.zeros(2, np.int8), [300], "int64"),
        (np.zeros(2, np.uint8), [-1], "int64"),
        (np.zeros(2, np.float16), [1e9], "float64"),
        (np.zeros(2, bool), [2], "int64"),
    ],
)
def test_what_the_dtype_cannot_hold_is_an_error_that_names_both(
    data: np.ndarray, updates: list[Any], own: str
) -> None:
    model = scatter(data=data, indices=[[1]], updates=updates)
    problem = (
        f"updates has dtype {own} and data has {data.dtype};"
        " expected the same dtype: cast one of them first, with astype"
    )
    assert [str(finding) for finding in check(model)] == [f"error: g.n.f: ScatterND: {problem}"]
    for engine in ENGINES:
        with pytest.raises(ModelError, match=re.escape(problem)):
            mdf_scatter.run(model, engine=engine)
    whole = f"ScatterND 'n': {problem}"
    with pytest.raises(UnsupportedError, match=f"^{re.escape(whole)}$"):
        lower(model)


def test_beside_an_input_whose_dtype_shows_in_the_run() -> None:
    model = scatter(ports={"data": None}, data=None, indices=[[1]], updates=[0.5])
    assert check(model) == []
    whole = (
        "ScatterND 'n': updates has dtype float64 and data has int64;"
        " expected the same dtype: cast one of them first, with astype"
    )
    for engine in ENGINES:
        result = mdf_scatter.run(model, {"data": np.zeros(2, np.float32)}, engine=engine)["y"]
        assert result.dtype == np.float32
        assert result.tolist() == [0, 0.5]
        with pytest.raises((OperatorError, UnsupportedError), match=f"^{re.escape(whole)}$"):
            mdf_scatter.run(model, {"data": np.zeros(2, np.int64)}, engine=engine)


def test_beside_what_an_edge_brings() -> None:
    model = scatter(ports={"data": None}, data=None, indices=[[1]], updates=[2.5])
    before = Node(
        id="before",
        input_ports=[InputPort(id="x", type="float32")],
        output_ports=[OutputPort(id="x", value="2 * x")],
    )
    model.graphs[0].nodes.insert(0, before)
    model.graphs[0].edges.append(
        Edge(id="e", sender="before", sender_port="x", receiver="n", receiver_port="data")
    )
    for engine in ENGINES:
        result = mdf_scatter.run(model, {"x": np.ones(2, np.float32)}, engine=engine)["y"]
        assert result.dtype == np.float32
        assert result.tolist() == [2, 2.5]


def test_a_list_at_a_port_without_a_type_is_an_array_of_its_own() -> None:
    model = scatter(ports={"updates": None}, data=np.zeros(2, np.float32), indices=[[1]], updates=[0.5])
    assert [str(finding) for finding in check(model)] == [
        "error: g.n.f: ScatterND: updates has dtype float64 and data has float32;"
        " expected the same dtype: cast one of them first, with astype"
    ]


def test_a_list_is_not_cut_short_in_onnx_functions_either() -> None:
    node = Node(
        id="n",
        input_ports=[InputPort(id="x", type="int64")],
        functions=[Function(id="f", function="onnx::Add", args={"A": "x", "B": [0.5]})],
        output_ports=[OutputPort(id="y", value="f")],
    )
    model = Model(id="m", graphs=[Graph(id="g", nodes=[node])])
    with pytest.raises(UnsupportedError, match=r"^Add 'n': .*B has inconsistent type tensor\(double\)$"):
        lower(model)
    node.functions[0].args["B"] = [2.0]
    result = mdf_scatter.run(model, {"x": np.array([1, 2])}, engine="onnx")["y"]
    assert result.dtype == np.int64
    assert result.tolist() == [3, 4]


def test_inputs_without_end_are_one_list() -> None:
    node = Node(
        id="n",
        parameters=[Parameter(id="a", value=[1.0]), Parameter(id="b", value=[2.0])],
        functions=[Function(id="f", function="onnx::Concat", args={"inputs": ["a", "b"], "axis": 0})],
        output_ports=[OutputPort(id="y", value="f")],
    )
    model = Model(id="m", graphs=[Graph(id="g", nodes=[node])])
    assert mdf_scatter.run(model, engine="onnx")["y"].tolist() == [1, 2]
    node.functions[0].args = {"first": "a", "second": "b", "axis": 0}
    with pytest.raises(UnsupportedError) as caught:
        lower(model)
    assert str(caught.value) == (
        "onnx::Concat 'n': argument 'inputs' of onnx::Concat is missing; give all of them as one list, as in"
        " inputs: [a, b]"
    )


def test_what_a_dtype_holds() -> None:
    for array, dtype, held in (
        (np.array([1, -2]), np.int8, True),
        (np.array([1, -2]), np.uint8, False),
        (np.array([7, -8]), ml_dtypes.int4, True),
        (np.array([8]), ml_dtypes.int4, False),
        (np.array([1j]), np.float32, False),
        (np.array([1]), np.complex64, True),
        (np.array([np.nan]), np.int64, False),
        (np.array([np.nan, np.inf]), np.float16, True),
        (np.array([1e39]), ml_dtypes.bfloat16, False),
        (np.array([0, 1]), bool, True),
        (np.array(["a"]), np.float32, False),
    ):
        assert (fitted(array, np.dtype(dtype)).dtype == np.dtype(dtype)) is held, (array, dtype)
