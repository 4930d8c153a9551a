"""What models keep from one evaluation to the next: the same in ONNX as in modeci-mdf's engine."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import onnxruntime
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from modeci_mdf.mdf import (
    Condition,
    ConditionSet,
    Edge,
    Function,
    Graph,
    InputPort,
    Model,
    Node,
    OutputPort,
    Parameter,
    ParameterCondition,
)
from models import chain

import mdf_scatter
from mdf_scatter import Runner, run, to_onnx
from mdf_scatter.errors import EvaluationError, UnsupportedError
from mdf_scatter.lower import lower

Steps = list[dict[str, np.ndarray]]


def node(
    node_id: str,
    parameters: dict[str, Any],
    *,
    inputs: dict[str, Any] | None = None,
    functions: dict[str, Any] | None = None,
    outputs: list[str] | None = None,
) -> Node:
    """Return a node; a parameter is a value, or what `Parameter` takes; outputs are named like values."""
    made = Node(id=node_id)
    for name, default in (inputs or {}).items():
        made.input_ports.append(InputPort(id=name, default_value=default))
    for name, given_value in parameters.items():
        parts = given_value if isinstance(given_value, dict) else {"value": given_value}
        made.parameters.append(Parameter(id=name, **parts))
    for name, value in (functions or {}).items():
        made.functions.append(Function(id=name, value=value))
    for name in outputs or list(parameters):
        made.output_ports.append(OutputPort(id=f"{name}_out", value=name))
    return made


def edge(sender: str, sent: str, receiver: str, received: str, weight: float = 1) -> Edge:
    name = f"{sender}_{sent}_{receiver}_{received}"
    parameters = None if weight == 1 else {"weight": weight}
    return Edge(
        id=name,
        sender=sender,
        sender_port=f"{sent}_out",
        receiver=receiver,
        receiver_port=received,
        parameters=parameters,
    )


def model_of(*nodes: Node, edges: list[Edge] | None = None) -> Model:
    """Return a model that gives every output port."""
    graph = Graph(id="g", nodes=list(nodes), edges=edges or [])
    graph.metadata = {"onnx": {"outputs": [f"{n.id}.{p.id}" for n in nodes for p in n.output_ports]}}
    return Model(id="m", graphs=[graph])


def stepped(
    model: Model, engine: str, increments: list[float | None], inputs: list[dict[str, Any]] | None = None
) -> Steps:
    runner = Runner(model, engine=engine)  # type: ignore[arg-type]
    given_inputs = inputs or [{}] * len(increments)
    return [runner(each, time_increment=dt) for each, dt in zip(given_inputs, increments, strict=True)]


def both(
    model: Model, increments: list[float | None], inputs: list[dict[str, Any]] | None = None
) -> dict[str, list[Any]]:
    """Evaluate in both engines, which have to agree after each evaluation."""
    ours, theirs = (stepped(model, engine, increments, inputs) for engine in ("onnx", "mdf"))
    for number, (mine, other) in enumerate(zip(ours, theirs, strict=True)):
        for name, array in other.items():
            assert mine[name].shape == array.shape, (number, name)
            np.testing.assert_allclose(
                mine[name].astype(float), array.astype(float), rtol=1e-9, err_msg=f"{number} {name}"
            )
    return {name: [step[name].tolist() for step in ours] for name in ours[0]}


COUNTER = {"step": 2, "count": "count + step"}
DECAY = {"v": {"default_initial_value": 1.0, "time_derivative": "-v"}}


def test_a_value_that_reads_itself_starts_from_zero_or_its_default_initial_value() -> None:
    model = model_of(
        node("n", COUNTER | {"other": {"value": "other * 3", "default_initial_value": "step + 1"}})
    )
    assert both(model, [None] * 3) == {
        "step_out": [2, 2, 2],
        "count_out": [2, 4, 6],
        "other_out": [9, 27, 81],
    }


def test_a_time_derivative_starts_moves_on_and_starts_anew_without_a_step() -> None:
    model = model_of(node("n", DECAY))
    assert both(model, [0.5, 0.5, 0.25, None, 0.5]) == {"v_out": [1, 0.5, 0.375, 1, 0.5]}


def test_types_change_with_the_values_as_in_mdf() -> None:
    parameters = {
        "v": {"default_initial_value": [0, 10], "time_derivative": "1"},
        "held": {
            "default_initial_value": "0",
            "time_derivative": "v",
            "conditions": [ParameterCondition(id="c", test="v > 5", value="v * 2")],
        },
    }
    model = model_of(node("n", parameters))
    both(model, [None, 0.5, 0.5])
    for engine in ("onnx", "mdf"):
        steps = stepped(model, engine, [None, 0.5])
        assert [step["v_out"].dtype for step in steps] == [np.int64, np.float64]
        assert [step["held_out"].shape for step in steps] == [(2,), (2,)]


def test_parameters_see_new_values_above_and_old_ones_below() -> None:
    parameters = {
        "early": {"value": "late * 10", "default_initial_value": 0},
        "late": {"value": "late + 1", "default_initial_value": 0},
        "after": "late * 10",
    }
    model = model_of(node("n", parameters, functions={"f": "late * 100"}, outputs=["early", "after", "f"]))
    assert both(model, [None] * 3) == {
        "early_out": [0, 10, 20],
        "after_out": [10, 20, 30],
        "f_out": [0, 100, 200],
    }


def test_a_function_reads_what_a_parameter_was_before_also_where_that_came_from_an_input() -> None:
    made = node("n", {"double": "x * 2"}, functions={"f": "double + 1"}, outputs=["double", "f"])
    made.input_ports.append(InputPort(id="x", type="float64"))
    model = model_of(made)
    inputs = [{"x": np.array(value)} for value in (1.0, 5.0, 7.0)]
    assert both(model, [None] * 3, inputs) == {"double_out": [2, 10, 14], "f_out": [3, 3, 11]}
    made.input_ports[0].shape = (2,)
    proto = to_onnx(model)
    assert [item.name for item in proto.graph.input] == ["x"], "MDF calls none of this state"
    assert run(mdf_scatter.from_onnx(proto), {"x": np.ones(2)})["f_out"].tolist() == [3, 3]


def test_conditions_carry_on_from_the_old_value() -> None:
    parameters = {
        "t": {"default_initial_value": 0, "time_derivative": "1"},
        "i": {
            "conditions": [
                ParameterCondition(id="on", test="t >= 1 and t < 2", value="5"),
                ParameterCondition(id="off", test="t >= 3", value="0"),
            ]
        },
    }
    model = model_of(node("n", parameters))
    assert both(model, [1.0] * 5)["i_out"] == [0, 5, 5, 0, 0]


def test_edges_into_ports_with_a_default_bring_the_value_before_around_a_circle() -> None:
    ahead = node("ahead", {"y": "x + 1"}, inputs={"x": 10})
    behind = node("behind", {"z": "x * 2"}, inputs={"x": None})
    edges = [edge("ahead", "y", "behind", "x"), edge("behind", "z", "ahead", "x", weight=0.5)]
    model = model_of(ahead, behind, edges=edges)
    assert both(model, [None] * 3) == {"y_out": [11, 12, 13], "z_out": [22, 24, 26]}


def test_a_node_that_feeds_itself() -> None:
    model = model_of(node("n", {"y": "x + 1"}, inputs={"x": [1.0, 2.0]}), edges=[edge("n", "y", "n", "x")])
    assert both(model, [None] * 3) == {"y_out": [[2, 3], [3, 4], [4, 5]]}


@pytest.mark.parametrize(
    ("reduce", "expected"),
    [("overwrite", [7, 13, 13]), ("add", [7, 20, 33]), ("multiply", [7, 91, 1183])],
)
def test_several_edges_some_from_the_evaluation_before(reduce: str, expected: list[int]) -> None:
    first = node("first", {"a": 7})
    last = node("last", {"y": "x"}, inputs={"x": 1}, outputs=["y"])
    last.input_ports[0].reduce = reduce
    later = node("later", {"b": "x * 0 + 13" if reduce == "overwrite" else "x"}, inputs={"x": None})
    edges = [
        edge("first", "a", "last", "x"),
        edge("later", "b", "last", "x"),
        edge("last", "y", "later", "x"),
    ]
    model = model_of(first, last, later, edges=edges)
    if reduce != "overwrite":
        later.parameters[0].value = "x * 0 + 13"
        first.parameters[0].value = "7"
        expected = [7, 20, 20] if reduce == "add" else [7, 91, 91]
    assert both(model, [None] * 3)["y_out"] == expected


def test_of_several_edges_into_one_port_the_one_that_is_reached_last_counts_every_time() -> None:
    senders = [node(name, {"y": number}) for number, name in enumerate("abcd")]
    relay = node("relay", {"y": "x"}, inputs={"x": None})
    last = node("last", {"z": "x"}, inputs={"x": None})
    edges = [edge("relay", "y", "last", "x"), *(edge(name, "y", "last", "x") for name in "bcd")]
    edges.append(edge("a", "y", "relay", "x"))
    model = model_of(*senders, relay, last, edges=edges)
    assert both(model, [None] * 2)["z_out"] == [0, 0]


def test_ports_that_add_leave_the_outputs_alone_that_they_add() -> None:
    senders = [node(name, {"y": "[1, 2]"}) for name in "ab"]
    last = node("last", {"z": "x"}, inputs={"x": None})
    last.input_ports[0].reduce = "add"
    model = model_of(*senders, last, edges=[edge("a", "y", "last", "x"), edge("b", "y", "last", "x")])
    results = both(model, [None] * 2)
    assert results["a.y_out"] == results["b.y_out"] == [[1, 2], [1, 2]]
    assert results["z_out"] == [[2, 4], [2, 4]]


def test_results_stay_as_they_were_when_the_model_goes_on() -> None:
    for engine in ("onnx", "mdf"):
        runner = Runner(
            model_of(node("n", {"v": {"value": "v + 1", "default_initial_value": [0, 1]}})), engine=engine
        )  # type: ignore[arg-type]
        first = runner()["v_out"]
        runner(steps=3)
        assert first.tolist() == [1, 2]


def test_calls_go_on_where_the_last_one_stopped_and_reset_starts_over() -> None:
    for engine in ("auto", "onnx", "mdf"):
        runner = Runner(model_of(node("n", COUNTER | DECAY)), engine=engine)  # type: ignore[arg-type]
        assert runner(steps=3, time_increment=0.5)["v_out"] == 0.25
        result = runner(time_increment=0.5)
        assert (result["count_out"], result["v_out"]) == (8, 0.125)
        runner.reset()
        result = runner(steps=2, time_increment=0.5)
        assert (result["count_out"], result["v_out"]) == (4, 0.5)


def test_steps_are_lowered_once_for_each_kind_of_evaluation() -> None:
    runner = Runner(model_of(node("n", DECAY)), engine="onnx")
    runner(steps=50, time_increment=0.01)
    assert len(runner._engine._plans) == 3, "a Python number becomes an array in the second evaluation"  # type: ignore[union-attr]


def exported(model: Model) -> tuple[Any, list[list[str]]]:
    proto = to_onnx(model)
    properties = {item.key: item.value for item in proto.metadata_props}
    return proto, json.loads(properties["mdf_scatter.states"])


def test_an_exported_model_has_its_states_as_inputs_and_outputs() -> None:
    model = model_of(node("n", COUNTER | DECAY))
    proto, pairs = exported(model)
    assert pairs == [["n.count", "n.count.next"], ["n.v", "n.v.next"]]
    assert [item.name for item in proto.graph.input] == ["n.count", "n.v", "time_increment"]
    assert {item.name for item in proto.graph.initializer} >= {"n.count", "n.v", "time_increment"}
    assert [item.name for item in proto.graph.output] == [
        "step_out",
        "count_out",
        "v_out",
        "n.count.next",
        "n.v.next",
    ]
    expected = both(model, [None, 0.5, 0.5])
    session = onnxruntime.InferenceSession(proto.SerializeToString())
    again = Runner(mdf_scatter.from_onnx(proto))
    for evaluate in (lambda feed: _named(session, feed), again):
        feed: dict[str, Any] = {}
        for number in range(3):
            results = evaluate(feed)
            for name, values in expected.items():
                assert results[name] == values[number]
            feed = {name: results[following] for name, following in pairs} | {"time_increment": np.array(0.5)}


def _named(session: Any, feed: dict[str, Any]) -> dict[str, Any]:
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, feed), strict=True))


def test_states_around_a_circle_start_from_the_ports_default() -> None:
    model = model_of(node("n", {"y": "x + 1"}, inputs={"x": [1.0, 2.0]}), edges=[edge("n", "y", "n", "x")])
    proto, pairs = exported(model)
    assert pairs == [["n.x.n_y_n_x", "n.x.n_y_n_x.next"]]
    session = onnxruntime.InferenceSession(proto.SerializeToString())
    assert _named(session, {})["y_out"].tolist() == [2, 3]


def test_states_of_arrays_are_arrays_from_the_start() -> None:
    parameters = {"v": {"default_initial_value": 0, "time_derivative": "numpy.array([1.0, 2.0]) - v"}}
    proto, _ = exported(model_of(node("n", parameters)))
    state = proto.graph.input[0].type.tensor_type
    assert (state.elem_type, [dim.dim_value for dim in state.shape.dim]) == (11, [2])


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        (
            {"v": {"value": "v + x", "default_initial_value": "x"}},
            "node 'n': what parameter 'v' starts from depends on input 'x', which one ONNX graph has no form "
            "for; give it a constant default_initial_value",
        ),
        (
            {"c": "c + 1", "v": {"default_initial_value": "c", "time_derivative": "x"}},
            "node 'n': parameter 'v' starts from 'c', which is not constant; "
            "one ONNX graph has no form for it",
        ),
        (
            {
                "v": {
                    "default_initial_value": 3,
                    "conditions": [ParameterCondition(id="c", test="v > 1", value="x")],
                }
            },
            "node 'n': parameter 'v' has conditions but no value, so it starts from 0 and from its "
            "default_initial_value; give it a value",
        ),
    ],
)
def test_starts_that_no_single_graph_has_a_form_for_run_but_are_not_exported(
    parameters: dict[str, Any], message: str
) -> None:
    made = node("n", parameters)
    made.input_ports.append(InputPort(id="x", type="float64", shape=(1,)))
    model = model_of(made)
    with pytest.raises(UnsupportedError) as caught:
        to_onnx(model)
    assert str(caught.value) == message
    both(model, [None, 0.5, 0.5], [{"x": np.array([value])} for value in (1.0, 2.0, 3.0)])


def test_scheduling_conditions_run_in_mdfs_engine() -> None:
    model = Model(
        id="m", graphs=[chain(node("n", {"count": {"value": "count + 1", "default_initial_value": 0}}))]
    )
    model.graphs[0].conditions = ConditionSet(
        termination={
            "environment_state_update": Condition(
                type="Threshold", dependency="n", parameter="count", threshold=5, comparator=">="
            )
        }
    )
    message = "graph 'g' has scheduling conditions, which ONNX has no form for"
    with pytest.raises(UnsupportedError, match=message):
        run(model, engine="onnx")
    runner = Runner(model)
    assert runner()["count_out"] == 5
    assert runner()["count_out"] == 5, "what ends an evaluation is true from the start of the next"


def test_nodes_that_only_wait_for_each_other_are_refused() -> None:
    nodes = [node(name, {"y": "x"}, inputs={"x": None}) for name in "ab"]
    model = model_of(*nodes, edges=[edge("a", "y", "b", "x"), edge("b", "y", "a", "x")])
    with pytest.raises(UnsupportedError) as caught:
        lower(model)
    assert str(caught.value) == (
        "graph 'g': nodes 'a', 'b' feed each other, which ONNX has no form for; "
        "give an input port on the way a default_value"
    )


VALUES = st.sampled_from([1, 2, 0.5, -1.5, [1.0, 2.0], "2"])


@st.composite
def random_nodes(draw: st.DrawFn, node_id: str) -> Node:
    inputs = {f"p{i}": draw(st.sampled_from([None, 0.5, [1.0, 2.0]])) for i in range(draw(st.integers(0, 2)))}
    names = list(inputs)
    parameters: dict[str, Any] = {}
    for position in range(draw(st.integers(1, 4))):
        own = f"q{position}"
        term = st.sampled_from([*names, "1"])
        own_term = st.sampled_from([*names, own])
        sums = st.builds("{} * 0.5 + {}".format, term, term)
        tests = st.builds("{} > {}".format, term, st.sampled_from(["0", "1.5"]))
        parameters[own] = draw(
            st.one_of(
                st.builds(lambda value: {"value": value}, VALUES),
                st.builds(lambda value: {"value": value}, sums),
                st.builds(
                    lambda v, d, own=own: {"value": f"{own} + {v}", "default_initial_value": d}, term, VALUES
                ),
                st.builds(lambda d, v: {"time_derivative": d, "default_initial_value": v}, own_term, VALUES),
                st.builds(
                    lambda v, test, met: {
                        "value": v,
                        "conditions": [ParameterCondition(id="c", test=test, value=met)],
                    },
                    sums,
                    tests,
                    term,
                ),
                st.builds(
                    lambda v: {
                        "function": "linear",
                        "args": {"variable0": v, "slope": 2, "intercept": "variable0"},
                    },
                    sums,
                ),
            )
        )
        if "function" not in parameters[own]:
            names.append(own)
    functions = {
        "f": draw(st.builds("{} - {}".format, st.sampled_from([*names, "3"]), st.sampled_from([*names, "1"])))
    }
    return node(node_id, parameters, inputs=inputs, functions=functions, outputs=[*parameters, "f"])


@st.composite
def random_models(draw: st.DrawFn) -> Model:
    nodes = [draw(random_nodes(f"n{i}")) for i in range(draw(st.integers(1, 3)))]
    edges = []
    for place, receiver in enumerate(nodes):
        for port in receiver.input_ports:
            for sender in draw(st.lists(st.sampled_from(nodes), max_size=2, unique_by=id)):
                if port.default_value is None and nodes.index(sender) >= place:
                    continue
                sent = draw(st.sampled_from(sender.output_ports)).id.removesuffix("_out")
                edges.append(edge(sender.id, sent, receiver.id, port.id, draw(st.sampled_from([1, 0.5]))))
            port.reduce = draw(st.sampled_from(["overwrite", "add", "multiply"]))
    return model_of(*nodes, edges=edges)


@settings(max_examples=60, deadline=None)
@given(random_models(), st.lists(st.sampled_from([0.1, 0.25, None]), min_size=3, max_size=3))
def test_random_models_go_the_same_way_in_both_engines(model: Model, increments: list[float | None]) -> None:
    try:
        stepped(model, "mdf", [None, *increments])
    except (EvaluationError, mdf_scatter.errors.ModelError):
        return
    with np.errstate(all="ignore"):
        both(model, [None, *increments])
