"""The ScatterND node: parameters, forward, wiring into a graph."""

from __future__ import annotations

import copy

import numpy as np
import pytest
from modeci_mdf.mdf import Graph, InputPort, Model, Node, OutputPort

import mdf_scatter
from mdf_scatter import ScatterND, TensorScatter, TFScatterND
from mdf_scatter.errors import ModelError, OperatorError


def source_graph() -> Graph:
    node = Node(id="source")
    node.input_ports.append(InputPort(id="x", type="float32", shape=(8,)))
    node.output_ports.append(OutputPort(id="y", value="x", type="float32", shape=(8,)))
    return Graph(id="g", nodes=[node])


def test_forward_is_the_operator() -> None:
    node = ScatterND("s", reduction="add")
    result = node.forward(np.zeros(3, np.float32), [[1], [1]], np.array([2, 3], np.float32))
    assert result.dtype == np.float32
    assert result.tolist() == [0, 5, 0]


def test_an_error_names_the_node_and_keeps_its_cause() -> None:
    with pytest.raises(OperatorError) as caught:
        ScatterND("scatter_1").forward(np.zeros(8), [[0], [1], [9]], np.zeros(3))
    assert str(caught.value) == ("ScatterND 'scatter_1': indices[2, 0] is 9; expected -8..7 (axis 0 of data)")
    assert isinstance(caught.value.__cause__, OperatorError)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"reduction": "sum"},
            "ScatterND 's': reduction is 'sum'; expected 'none', 'add', 'mul', 'max', 'min' or 'mean'; "
            "did you mean 'add'?",
        ),
        (
            {"reduction": "ADD"},
            "ScatterND 's': reduction is 'ADD'; expected 'none', 'add', 'mul', 'max', 'min' or 'mean'; "
            "did you mean 'add'?",
        ),
        (
            {"reduction": None},
            "ScatterND 's': reduction is of type NoneType; "
            "expected the text 'none', 'add', 'mul', 'max', 'min' or 'mean'",
        ),
        ({"training": 2}, "ScatterND 's': training is 2; expected True or False"),
        ({"lda_coeff": "1"}, "ScatterND 's': lda_coeff is '1'; expected a finite number"),
        ({"lda_coeff": True}, "ScatterND 's': lda_coeff is True; expected a finite number"),
        (
            {"lda_coeff": np.ones((8, 4))},
            "ScatterND 's': lda_coeff is an array of shape (8, 4); expected a finite number",
        ),
        (
            {"lda_coeff": 10**400},
            "ScatterND 's': lda_coeff is an integer of 1329 bits; expected a finite number",
        ),
        (
            {"training": np.ones(9)},
            "ScatterND 's': training is an array of shape (9,); expected True or False",
        ),
        (
            {"training": "x" * 90},
            f"ScatterND 's': training is '{'x' * 56}...; expected True or False",
        ),
        ({"lda_coeff": float("nan")}, "ScatterND 's': lda_coeff is nan; expected a finite number"),
        (
            {"specified_outputs_name": ["a", "b"]},
            "ScatterND 's': specified_outputs_name is ['a', 'b']; expected one name, for the one output",
        ),
        (
            {"specified_outputs_name": ""},
            "ScatterND 's': specified_outputs_name is ['']; expected one name, for the one output",
        ),
    ],
)
def test_wrong_parameters_say_what_is_allowed(settings: dict[str, object], message: str) -> None:
    with pytest.raises(OperatorError) as caught:
        ScatterND("s", **settings)  # type: ignore[arg-type]
    assert str(caught.value) == message


def test_to_mdf_has_the_ports_parameters_and_function_of_a_node_file() -> None:
    node = ScatterND(
        "scatter_1", reduction="mul", training=False, lda_coeff=0.5, specified_outputs_name="product"
    ).to_mdf()
    assert node.id == "scatter_1"
    assert [port.id for port in node.input_ports] == ["data", "indices", "updates"]
    assert {p.id: p.value for p in node.parameters} == {
        "reduction": "mul",
        "training": False,
        "lda_coeff": 0.5,
        "specified_outputs_name": ["product"],
    }
    (function,) = node.functions
    assert function.function == "ScatterND"
    assert [(port.id, port.value) for port in node.output_ports] == [("output", function.id)]


def test_a_factor_that_was_set_later_is_checked_when_it_is_used() -> None:
    node = ScatterND("s")
    node.forward([1.0, 2.0], [[0]], [3.0])
    node.lda_coeff = "x"
    with pytest.raises(OperatorError) as caught:
        node.backward([1.0, 1.0])
    assert str(caught.value) == "ScatterND 's': lda_coeff is 'x'; expected a finite number"


def test_a_setting_that_a_node_has_not() -> None:
    with pytest.raises(OperatorError) as caught:
        TFScatterND(reduction="add")
    assert str(caught.value) == (
        "tf::scatter_nd: there is no setting 'reduction';"
        " expected 'training', 'lda_coeff' or 'specified_outputs_name'"
    )
    with pytest.raises(OperatorError) as caught:
        TensorScatter(lda_coef=2.0)
    assert str(caught.value) == (
        "TensorScatter: there is no setting 'lda_coef';"
        " expected 'axis', 'mode', 'training', 'lda_coeff' or 'specified_outputs_name';"
        " did you mean 'lda_coeff'?"
    )


def test_add_to_draws_edges_keeps_constants_and_leaves_graph_inputs() -> None:
    graph = source_graph()
    node = ScatterND("s", reduction="add").add_to(graph, data="source.y", indices=np.array([[1], [1]]))
    (edge,) = graph.edges
    assert (edge.sender, edge.sender_port, edge.receiver, edge.receiver_port) == ("source", "y", "s", "data")
    assert (node.input_ports[0].type, node.input_ports[0].shape) == ("float32", (8,))
    assert (node.output_ports[0].type, node.output_ports[0].shape) == ("float32", (8,))
    result = mdf_scatter.run(
        Model(id="m", graphs=[graph]),
        {"x": np.ones(8, np.float32), "updates": np.array([5, 6], np.float32)},
    )
    assert result["output"].tolist() == [1, 12, 1, 1, 1, 1, 1, 1]


def test_nodes_without_a_name_get_one_that_is_free() -> None:
    graph = source_graph()
    first = ScatterND().add_to(graph, "source.y")
    second = ScatterND().add_to(graph, f"{first.id}.output")
    assert [first.id, second.id] == ["scatter_nd_1", "scatter_nd_2"]


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("source", {}, "ScatterND 'source': graph 'g' has a node of this name; choose another"),
        (
            "s",
            {"data": "sauce.y"},
            "ScatterND 's': data comes from 'sauce.y', which graph 'g' has no output port for; expected "
            "'node.port'; did you mean 'source.y'?",
        ),
        (
            "s",
            {"updates": "source"},
            "ScatterND 's': updates comes from 'source', which graph 'g' has no output port for; expected "
            "'node.port'; did you mean 'source.y'?",
        ),
        (
            "s",
            {"data": np.zeros(2), "indices": [[2]], "updates": [1.0]},
            "ScatterND 's': indices[0, 0] is 2; expected -2..1 (axis 0 of data)",
        ),
    ],
)
def test_wrong_wiring_leaves_the_graph_as_it_was(
    name: str, arguments: dict[str, object], message: str
) -> None:
    graph = source_graph()
    before = copy.deepcopy(graph).to_dict()
    with pytest.raises((ModelError, OperatorError)) as caught:
        ScatterND(name).add_to(graph, **arguments)  # type: ignore[arg-type]
    assert str(caught.value) == message
    assert graph.to_dict() == before


def test_ids_may_have_dots() -> None:
    graph = Graph(id="g")
    sender = Node(id="a.b")
    sender.input_ports.append(InputPort(id="x", type="float64"))
    sender.output_ports.append(OutputPort(id="c.d", value="x"))
    graph.nodes.append(sender)
    ScatterND("s").add_to(graph, data="a.b.c.d")
    assert (graph.edges[0].sender, graph.edges[0].sender_port) == ("a.b", "c.d")


def test_a_model_is_not_a_graph() -> None:
    with pytest.raises(ModelError) as caught:
        ScatterND("s").add_to(Model(id="m"))  # type: ignore[arg-type]
    assert str(caught.value) == "ScatterND: graph is Model; expected an MDF Graph"
