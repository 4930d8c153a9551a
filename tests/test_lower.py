"""MDF models as ONNX models: meaning, dtypes, names, operator sets."""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np
import onnx
import onnxruntime
import pytest
from modeci_mdf.mdf import Condition, ConditionSet, Graph, InputPort, Model, Node, OutputPort, Parameter
from models import calculation, chain

import mdf_scatter
from mdf_scatter import ScatterND, to_onnx
from mdf_scatter.errors import ModelError, UnsupportedError

X = np.array([[-1.5, 0.25, 2.0]], np.float32)


def both(model: Model, inputs: dict[str, np.ndarray]) -> np.ndarray:
    """Run in both engines; they have to agree in dtype, and in value to a few units in the last place."""
    ours = mdf_scatter.run(model, inputs, engine="onnx")
    theirs = mdf_scatter.run(model, inputs, engine="mdf")
    assert list(ours) == list(theirs)
    for name, array in ours.items():
        assert array.dtype == theirs[name].dtype, name
        assert array.shape == theirs[name].shape, name
        np.testing.assert_allclose(array, theirs[name], rtol=1e-6)
    return ours["y"]


@pytest.mark.parametrize(
    ("function", "args", "expected"),
    [
        ("linear", {"variable0": "x", "slope": 2, "intercept": 1.5}, 2 * X + 1.5),
        ("logistic", {"variable0": "x", "gain": 2.0, "bias": 0.5, "offset": 0.25}, None),
        ("exponential", {"variable0": "x", "scale": 2, "rate": 0.5, "bias": 0.1, "offset": -1}, None),
        ("sin", {"variable0": "x", "scale": 3}, 3 * np.sin(X)),
        ("cos", {"variable0": "x", "scale": 3}, 3 * np.cos(X)),
        ("tan", {"variable0": "x", "scale": 3}, 3 * np.tan(X)),
        ("sinh", {"variable0": "x", "scale": 3}, 3 * np.sinh(X)),
        ("cosh", {"variable0": "x", "scale": 3}, 3 * np.cosh(X)),
        ("tanh", {"variable0": "x", "scale": 3}, 3 * np.tanh(X)),
        ("arctan", {"variable0": "x", "scale": 3}, 3 * np.arctan(X)),
        ("arcsin", {"variable0": "x / 2", "scale": 3}, 3 * np.arcsin(X / 2)),
        ("arccos", {"variable0": "x / 2", "scale": 3}, 3 * np.arccos(X / 2)),
        ("Relu", {"A": "x"}, np.maximum(X, 0)),
        ("MatMul", {"A": "x", "B": [[1.0], [2.0], [3.0]]}, X @ np.array([[1.0], [2.0], [3.0]])),
    ],
)
def test_standard_functions(function: str, args: dict[str, object], expected: np.ndarray | None) -> None:
    result = both(calculation(function=function, args=args), {"x": X})
    if expected is not None:
        assert result.dtype == expected.dtype
        np.testing.assert_allclose(result, expected, rtol=1e-6)


@pytest.mark.parametrize(
    "expression",
    [
        "x + 1",
        "1 - x",
        "x * x / 3",
        "-x ** 2",
        "+x",
        "(x > 0) * x",
        "(x >= 0.25) == (x <= 0.25)",
        "x != 2",
        "numpy.exp(x) + math.pi",
        "numpy.maximum(x, 0)",
        "numpy.minimum(x, k)",
        "numpy.sqrt(abs(x))",
        "x[0]",
        "x[-1][2] * k[1]",
        "x @ w",
        "2 * 3.5 * x",
        "n / 2",
        "n * x",
        "n + n",
        "numpy.sin(n)",
        "k * 2.0",
        "True * x",
    ],
)
def test_expressions_mean_what_they_mean_in_mdfs_engine(expression: str) -> None:
    model = calculation(
        expression,
        inputs={"x": "float32", "n": "int32"},
        parameters={"k": [1, 2, 3], "w": np.eye(3, dtype=np.float32), "s": 2.5},
    )
    both(model, {"x": X, "n": np.array([1, 2, 3], np.int32)})


def test_a_python_number_takes_the_dtype_of_what_it_meets_also_across_edges() -> None:
    first = Node(id="level")
    first.parameters.append(Parameter(id="level", value=0.1))
    first.output_ports.append(OutputPort(id="out", value="level"))
    second = calculation("k * x", inputs={"k": None, "x": "float32"}).graphs[0].nodes[0]
    model = Model(id="m", graphs=[chain(first, second)])
    assert both(model, {"x": X}).dtype == np.float32


def test_weights_and_reduced_ports() -> None:
    graph = chain(*(calculation("x + 1", inputs={"x": "float64"}).graphs[0].nodes[0] for _ in range(1)))
    graph.nodes[0].id = "a"
    graph.nodes[0].output_ports[0].id = "out"
    last = calculation("z * 1", inputs={"z": None}).graphs[0].nodes[0]
    last.input_ports[0].reduce = "add"
    graph.nodes.append(last)
    graph.edges += [
        mdf_edge("one", "a", "out", "n", "z", weight=2.5),
        mdf_edge("two", "a", "out", "n", "z", weight=[1.0, 10.0]),
    ]
    assert both(Model(id="m", graphs=[graph]), {"x": np.array([1.0, 2.0])}).tolist() == [7, 37.5]
    last.input_ports[0].reduce = "multiply"
    assert both(Model(id="m", graphs=[graph]), {"x": np.array([1.0, 2.0])}).tolist() == [10, 225]


def mdf_edge(edge_id: str, sender: str, sent: str, receiver: str, received: str, weight: object) -> object:
    from modeci_mdf.mdf import Edge

    return Edge(
        id=edge_id,
        sender=sender,
        sender_port=sent,
        receiver=receiver,
        receiver_port=received,
        parameters={"weight": weight},
    )


def scatter_model(reduction: str = "none", dtype: object = np.float32) -> Model:
    graph = Graph(id="g")
    data = np.arange(4).astype(dtype)
    ScatterND("s", reduction=reduction).add_to(graph, data, np.array([[1], [1]], np.int32), data[:2])
    return Model(id="m", graphs=[graph])


@pytest.mark.parametrize(
    ("reduction", "dtype", "opset"),
    [
        ("none", np.float32, 11),
        ("none", ml_dtypes.bfloat16, 13),
        ("add", np.float32, 16),
        ("mul", np.int8, 16),
        ("max", np.float32, 18),
        ("min", np.float64, 18),
    ],
)
def test_the_lowest_opset_that_can_express_the_graph(reduction: str, dtype: object, opset: int) -> None:
    proto = to_onnx(scatter_model(reduction, dtype))
    assert [(item.domain, item.version) for item in proto.opset_import] == [("", opset)]
    assert proto.ir_version == onnx.helper.find_min_ir_version_for(proto.opset_import)
    onnx.checker.check_model(proto, full_check=True)


def test_the_opset_asked_for_or_a_refusal_that_names_the_node() -> None:
    assert to_onnx(scatter_model("add"), opset=21).opset_import[0].version == 21
    with pytest.raises(UnsupportedError) as caught:
        to_onnx(scatter_model("add", np.int8), opset=13)
    assert str(caught.value).startswith(
        "ScatterND 's': reduction 'add' needs opset 16 or newer; asked for opset 13, "
        "where it cannot be written in another way: Add 's.step.combine': "
    )
    with pytest.raises(UnsupportedError) as caught:
        to_onnx(scatter_model("none"), opset=6)
    assert str(caught.value) == f"opset is 6; expected 7..{onnx.defs.onnx_opset_version()}"
    with pytest.raises(UnsupportedError) as caught:
        to_onnx(scatter_model("none"), opset=10)
    assert str(caught.value) == "ScatterND 's': ScatterND needs opset 11 or newer; asked for opset 10"


@pytest.mark.parametrize("opset", ["11", 11.0, True])
def test_an_opset_that_is_no_whole_number_is_refused(opset: object) -> None:
    with pytest.raises(UnsupportedError) as caught:
        to_onnx(scatter_model("none"), opset=opset)
    newest = onnx.defs.onnx_opset_version()
    assert str(caught.value) == f"opset is {opset!r}; expected a whole number, 7..{newest}"


@pytest.mark.parametrize("opset", [11, 13, 15])
@pytest.mark.parametrize("reduction", ["add", "mul", "max", "min"])
@pytest.mark.parametrize(
    ("data_shape", "indices_shape"),
    [
        ((5, 3), (6, 1)),
        ((5, 3), (2, 3, 1)),
        ((4,), (1,)),
        ((3, 2), (3, 0)),
        ((3, 2), (0, 1)),
        ((3, 2), (0, 2, 1)),
        ((0, 2), (0, 1)),
    ],
)
def test_reductions_in_opsets_without_them_are_written_exactly(
    opset: int, reduction: str, data_shape: tuple[int, ...], indices_shape: tuple[int, ...]
) -> None:
    rng = np.random.default_rng(7)
    for dtype in (np.float32, np.float16, np.int64, np.bool_):
        data = (rng.normal(size=data_shape) * 3).astype(dtype)
        indices = rng.integers(-3, 3, size=indices_shape)
        shape = indices_shape[:-1] + data_shape[indices_shape[-1] :]
        updates = (rng.normal(size=shape) * 3).astype(dtype)
        graph = Graph(id="g")
        ScatterND("s", reduction=reduction).add_to(graph, data, indices, updates)
        proto = to_onnx(Model(id="m", graphs=[graph]), opset=opset)
        assert proto.opset_import[0].version == opset
        session = onnxruntime.InferenceSession(proto.SerializeToString())
        (result,) = session.run(None, {})
        expected = mdf_scatter.scatter_nd(data, indices, updates, reduction)
        assert result.dtype == expected.dtype
        assert result.tobytes() == expected.tobytes()


def test_a_model_keeps_the_opset_it_declares_unless_a_reduction_needs_more() -> None:
    model = scatter_model("none")
    model.onnx_opset_version = "14"
    assert to_onnx(model).opset_import[0].version == 14
    model = scatter_model("max")
    model.onnx_opset_version = "14"
    assert to_onnx(model).opset_import[0].version == 18


def test_what_changed_its_meaning_between_opsets_is_converted_not_relabelled() -> None:
    model = calculation(function="onnx::Softmax", args={"input": "x", "axis": 1})
    model.graphs[0].nodes[0].input_ports[0].shape = (2, 3, 4)
    model.onnx_opset_version = "11"
    x = np.random.default_rng(0).normal(size=(2, 3, 4)).astype(np.float32)
    before = mdf_scatter.run(model, {"x": x})["y"]
    after = mdf_scatter.run(mdf_scatter.from_onnx(to_onnx(model, opset=13)), {"x": x})["y"]
    np.testing.assert_allclose(after, before, rtol=1e-6)
    assert before.sum() == pytest.approx(2, rel=1e-6), "opset 11 normalises over all axes from axis on"


def test_training_coefficient_and_names_travel_in_metadata_props_and_come_back() -> None:
    graph = Graph(id="g")
    ScatterND("s", reduction="add", training=False, lda_coeff=0.25, specified_outputs_name=["sums"]).add_to(
        graph, np.zeros(3, np.float32), [[1]], np.ones(1, np.float32)
    )
    proto = to_onnx(Model(id="m", graphs=[graph]))
    assert {prop.key: prop.value for prop in proto.graph.node[0].metadata_props} == {
        "mdf_scatter.training": "false",
        "mdf_scatter.lda_coeff": "0.25",
        "mdf_scatter.specified_outputs_name": '["sums"]',
    }
    assert [output.name for output in proto.graph.output] == ["sums"]
    back = mdf_scatter.from_onnx(proto).graphs[0].nodes[0]
    assert {p.id: p.value for p in back.parameters if p.id not in ("data", "indices", "updates")} == {
        "reduction": "add",
        "training": False,
        "lda_coeff": 0.25,
        "specified_outputs_name": ["sums"],
    }
    assert [port.id for port in back.output_ports] == ["output"]


def test_default_values_become_inputs_that_may_be_overridden() -> None:
    node = ScatterND("s").to_mdf()
    for port, value in zip(
        node.input_ports, (np.zeros(3, np.float32), np.array([[2]]), np.ones(1, np.float32)), strict=True
    ):
        port.default_value = value
    model = Model(id="m", graphs=[Graph(id="g", nodes=[node])])
    proto = to_onnx(model)
    assert [item.name for item in proto.graph.input] == ["data", "indices", "updates"]
    assert {item.name for item in proto.graph.initializer} == {"data", "indices", "updates"}
    assert mdf_scatter.run(model)["output"].tolist() == [0, 0, 1]
    assert mdf_scatter.run(model, {"data": np.ones(5, np.float32) * 7})["output"].tolist() == [7, 7, 1, 7, 7]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda model: setattr(
                model.graphs[0],
                "conditions",
                ConditionSet(node_specific={"n": Condition(type="EveryNCalls", dependencies="n", n=2)}),
            ),
            "graph 'g' has scheduling conditions, which ONNX has no form for",
        ),
        (
            lambda model: setattr(model.graphs[0].nodes[0].functions[0], "value", "numpy.median(x) * k"),
            None,
        ),
    ],
)
def test_what_onnx_has_no_form_for_is_refused_by_name(change: object, message: str | None) -> None:
    model = calculation("x * k")
    change(model)  # type: ignore[operator]
    if not any(p.id == "k" for p in model.graphs[0].nodes[0].parameters):
        model.graphs[0].nodes[0].parameters.append(Parameter(id="k", value=2.0))
    with pytest.raises(Exception) as caught:  # noqa: PT011
        to_onnx(model)
    assert isinstance(caught.value, mdf_scatter.errors.MdfScatterError)
    if message is not None:
        assert str(caught.value) == message


def test_strings_lists_and_omitted_inputs_of_onnx_functions() -> None:
    model = calculation(function="onnx::Clip", args={"input": "x", "max": 1.0}, inputs={"x": "float32"})
    assert mdf_scatter.run(model, {"x": X})["y"].tolist() == [[-1.5, 0.25, 1.0]]
    model = calculation(function="onnx::Concat", args={"inputs": "[x, k]", "axis": -1}, parameters={"k": X})
    assert mdf_scatter.run(model, {"x": X})["y"].shape == (1, 6)


def test_deep_graphs_need_no_recursion() -> None:
    nodes = []
    for position in range(3000):
        node = calculation("x + 1").graphs[0].nodes[0]
        node.id = f"n{position}"
        node.input_ports[0].type = "float32"
        nodes.append(node)
    model = Model(id="m", graphs=[chain(*nodes)])
    assert mdf_scatter.run(model, {"x": np.float32(0)})["y"] == 3000


def test_literal_arithmetic_is_pythons() -> None:
    model = calculation("x * 0 + (7 / 2) ** 2")
    assert math.isclose(mdf_scatter.run(model, {"x": np.float32(1)})["y"], 12.25)


def test_onnx_needs_types_and_ranks_of_inputs_and_says_so() -> None:
    node = ScatterND("s").to_mdf()
    model = Model(id="m", graphs=[Graph(id="g", nodes=[node])])
    with pytest.raises(UnsupportedError) as caught:
        to_onnx(model)
    assert str(caught.value) == (
        "graph input 'data' (port 'data' of node 's') declares no type; ONNX needs one: give the port a type "
        "such as float32"
    )
    for port in node.input_ports:
        port.type = "int64"
    with pytest.raises(UnsupportedError) as caught:
        to_onnx(model)
    assert str(caught.value) == (
        "graph input 'data' has no known rank, which ONNX asks for; give its port a shape"
    )
    result = mdf_scatter.run(model, {"data": [1, 2], "indices": [[0]], "updates": [5]}, engine="onnx")
    assert result["output"].tolist() == [5, 2], "it runs all the same"


def test_ports_of_one_name_are_told_apart() -> None:
    nodes = [ScatterND(name).to_mdf() for name in ("a", "b")]
    for node in nodes:
        for port in node.input_ports:
            port.type = "int64" if port.id == "indices" else "float32"
            port.shape = (2, 1) if port.id == "indices" else (2,)
    proto = to_onnx(Model(id="m", graphs=[Graph(id="g", nodes=nodes)]))
    assert [item.name for item in proto.graph.input] == [
        f"{node}.{port}" for node in "ab" for port in ("data", "indices", "updates")
    ]
    assert [item.name for item in proto.graph.output] == ["a.output", "b.output"]


def test_an_input_that_is_an_output_is_passed_on() -> None:
    node = Node(id="x")
    node.input_ports.append(InputPort(id="x", type="float32", shape=(2,)))
    node.output_ports.append(OutputPort(id="y", value="x"))
    proto = to_onnx(Model(id="m", graphs=[Graph(id="g", nodes=[node])]))
    assert [n.op_type for n in proto.graph.node] == ["Identity"]


def test_an_output_that_only_has_the_name_of_an_input_is_named_after_its_node() -> None:
    model = calculation("2 * x")
    (node,) = model.graphs[0].nodes
    node.input_ports[0].shape = (1, 3)
    node.output_ports[0].id = "x"
    proto = to_onnx(model)
    assert [value.name for value in proto.graph.input] == ["x"]
    assert [value.name for value in proto.graph.output] == ["n.x"]
    np.testing.assert_array_equal(mdf_scatter.run(model, {"x": X})["x"], 2 * X)


@pytest.mark.parametrize(
    ("value", "expression", "message"),
    [
        (
            [1, None],
            "p",
            "node 'n': 'p' holds more than numbers of at most 64 bits, or than texts;"
            " ONNX has no form for it",
        ),
        (
            [10**20],
            "p + 1",
            "node 'n': 'p' holds more than numbers of at most 64 bits, or than texts;"
            " ONNX has no form for it",
        ),
        (10**20, "p", "node 'n': 'p' is an integer of 67 bits; ONNX has no more than 64"),
        (10**400, "p", "node 'n': 'p' is an integer of 1329 bits; ONNX has no more than 64"),
        (
            np.array([1, None]),
            "p",
            "n.p is an array of objects; ONNX has tensors of numbers, or of texts",
        ),
        (1, f"where(x > 0, x, {10**400})", "n: int too large to convert to float"),
    ],
)
def test_values_that_no_tensor_holds_are_refused(value: object, expression: str, message: str) -> None:
    with pytest.raises(UnsupportedError) as caught:
        to_onnx(calculation(expression.replace("where", "numpy.where"), parameters={"p": value}))
    assert str(caught.value) == message


def test_lists_that_are_no_tensors_are_refused_in_arguments() -> None:
    arguments = {"variable0": "x", "slope": [[1], [2, 3]], "intercept": 0.0}
    with pytest.raises(UnsupportedError) as caught:
        to_onnx(calculation(function="linear", args=arguments))
    assert str(caught.value) == "linear 'n': 'slope' is uneven; expected a tensor"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"sender": "c"}, "sender 'c' is not a node of the graph"),
        ({"sender_port": "z"}, "sender_port 'z' is not an output port of node 'a'; it has 'y'"),
        ({"receiver": "c"}, "receiver 'c' is not a node of the graph"),
        ({"receiver_port": "z"}, "receiver_port 'z' is not an input port of node 'b'; it has 'x'"),
    ],
)
def test_misspelt_edges_are_refused_as_check_does(change: dict[str, str], message: str) -> None:
    first, second = (
        Node(
            name,
            input_ports=[InputPort("x", type="float32", shape=(2,))],
            output_ports=[OutputPort("y", value="x")],
        )
        for name in "ab"
    )
    graph = chain(first, second)
    for field, name in change.items():
        setattr(graph.edges[0], field, name)
    with pytest.raises(ModelError) as caught:
        to_onnx(Model("m", graphs=[graph]))
    assert str(caught.value) == f"model 'm' has 1 error: g.a_b: {message}"


def test_settings_may_be_numbers_of_numpy() -> None:
    model = Model("m", graphs=[Graph("g")])
    ScatterND("s").add_to(
        model.graphs[0], data=np.zeros(3, np.float32), indices=[[1]], updates=np.ones(1, np.float32)
    )
    for name, value in (("training", np.False_), ("lda_coeff", np.float32(0.5))):
        model.graphs[0].nodes[0].get_parameter(name).value = value
    props = {entry.key: entry.value for entry in to_onnx(model).graph.node[0].metadata_props}
    assert props == {"mdf_scatter.training": "false", "mdf_scatter.lda_coeff": "0.5"}
