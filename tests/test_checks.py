"""What `check` finds, word for word, and what it has nothing to say about."""

from __future__ import annotations

import json
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import onnx
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

import mdf_scatter
from mdf_scatter.checks import Finding, check, refuse
from mdf_scatter.errors import ModelError

SHARED = Path(__file__).parents[2] / "shared" / "mdf_models"
ALLOWED = "expected arithmetic on known names, numpy.* functions such as numpy.exp"
REPEAT = (
    "warning: g.x.scatter: indices repeat (row 3 is written 2 times, the last one wins);"
    " if updates should accumulate set reduction: add"
)

SCATTER: dict[str, Any] = {
    "nodes": {
        "x": {
            "input_ports": {
                "data": {"shape": [8], "type": "float32"},
                "indices": {"shape": [4, 1], "type": "int64"},
                "updates": {"shape": [4], "type": "float32"},
            },
            "parameters": {
                "reduction": {"value": "add"},
                "training": {"value": True},
                "lda_coeff": {"value": 1.0},
                "specified_outputs_name": {"value": ["output"]},
            },
            "functions": {
                "scatter": {
                    "function": "ScatterND",
                    "args": {
                        "data": "data",
                        "indices": "indices",
                        "updates": "updates",
                        "reduction": "reduction",
                        "training": "training",
                        "lda_coeff": "lda_coeff",
                    },
                }
            },
            "output_ports": {"output": {"value": "scatter", "shape": [8], "type": "float32"}},
        }
    },
    "edges": {},
}


def found(graph: dict[str, Any]) -> list[str]:
    model = Model.from_dict({"m": {"graphs": {"g": graph}}})
    return [str(finding) for finding in check(model)]


def changed(*changes: tuple[str, Any]) -> list[str]:
    """Check the ScatterND graph with parts set: a path of keys, `/` between them, and a value."""
    graph = deepcopy(SCATTER)
    for path, value in changes:
        *parents, last = path.split("/")
        part = graph
        for key in parents:
            part = part.setdefault(key, {})
        if value is None:
            del part[last]
        else:
            part[last] = value
    return found(graph)


def node(name: str = "n", **parts: dict[str, Any]) -> dict[str, Any]:
    return {"nodes": {name: parts}}


def parameters(**values: Any) -> dict[str, Any]:
    return node(parameters=values, output_ports={"y": {"value": next(iter(values))}})


def edge(sender: str, receiver: str, **more: Any) -> dict[str, Any]:
    (a, b), (c, d) = sender.split("."), receiver.split(".")
    return {"sender": a, "sender_port": b, "receiver": c, "receiver_port": d, **more}


def relay(default: Any = None) -> dict[str, Any]:
    port = {} if default is None else {"default_value": default}
    return {"input_ports": {"i": port}, "output_ports": {"o": {"value": "i"}}}


def test_a_right_model_has_no_findings() -> None:
    assert found(SCATTER) == []


CALLS = "nodes/x/functions/scatter/"
ARGS = CALLS + "args/"
PORTS = "nodes/x/input_ports/"
VALUES = "nodes/x/parameters/"


@pytest.mark.parametrize(
    ("changes", "findings"),
    [
        # functions
        (
            {CALLS + "function": "ScaterND"},
            ["error: g.x.scatter: unknown function 'ScaterND'; did you mean 'ScatterND'?"],
        ),
        (
            {CALLS + "function": "onnx::Sactter"},
            [
                "error: g.x.scatter: unknown function 'onnx::Sactter'; did you mean 'onnx::Scatter' or"
                " 'onnx::ScatterND'?"
            ],
        ),
        (
            {CALLS + "function": "Softmax"},
            ["error: g.x.scatter: unknown function 'Softmax'; did you mean 'onnx::Softmax'?"],
        ),
        (
            {CALLS + "function": "2 * data + 1"},
            [
                "error: g.x.scatter: unknown function '2 * data + 1'; write an expression as the value, not"
                " as the function"
            ],
        ),
        (
            {CALLS + "function": "__import__('os').system('x')"},
            [
                "error: g.x.scatter: unknown function \"__import__('os').system('x')\"; expected a standard"
                " function such as 'linear', an operator such as 'ScatterND', or an ONNX operator such as"
                " 'onnx::Add'"
            ],
        ),
        (
            {CALLS + "function": "com.acme::Scatter"},
            [
                "warning: g.x.scatter: function 'com.acme::Scatter' is of a domain that is not known here;"
                " it can be carried, not run"
            ],
        ),
        ({CALLS + "function": "onnx::ScatterND"}, []),
        # arguments
        ({ARGS + "data": None}, []),
        (
            {ARGS + "data": None, PORTS + "date": {}, PORTS + "data": None},
            [
                "error: g.x.scatter: ScatterND is missing its argument 'data'; give it in args,"
                " or as a port or"
                " parameter of that name"
            ],
        ),
        (
            {ARGS + "redction": "reduction"},
            [
                "error: g.x.scatter: ScatterND has no argument 'redction'; expected 'data', 'include_self',"
                " 'indices', 'lda_coeff', 'reduction', 'specified_outputs_name', 'training' or 'updates';"
                " did you mean 'reduction'?"
            ],
        ),
        (
            {VALUES + "reduction/value": "sum"},
            [
                "error: g.x.scatter: ScatterND: reduction is 'sum'; expected 'none', 'add', 'mul', 'max',"
                " 'min' or 'mean'; did you mean 'add'?"
            ],
        ),
        (
            {ARGS + "reduction": "ad"},
            [
                "error: g.x.scatter: ScatterND: reduction is 'ad'; expected 'none', 'add', 'mul', 'max',"
                " 'min' or 'mean'; did you mean 'add'?"
            ],
        ),
        ({ARGS + "reduction": "max"}, []),
        ({ARGS + "reduction": "'max'"}, []),
        ({VALUES + "reduction/value": "b'none'"}, []),
        ({VALUES + "reduction/value": ["add"]}, []),
        (
            {VALUES + "reduction/value": ["add", "mul"]},
            [
                "error: g.x.scatter: ScatterND: reduction is of type list; expected the text 'none', 'add',"
                " 'mul', 'max', 'min' or 'mean'"
            ],
        ),
        ({VALUES + "training/value": 0}, []),
        ({VALUES + "training/value": 1}, []),
        (
            {VALUES + "training/value": 2},
            ["error: g.x.scatter: ScatterND: training is 2; expected true or false"],
        ),
        (
            {VALUES + "training/value": 1.0},
            ["error: g.x.scatter: ScatterND: training is 1.0; expected true or false"],
        ),
        (
            {VALUES + "lda_coeff/value": float("nan")},
            ["error: g.x.scatter: ScatterND: lda_coeff is nan; expected a finite number"],
        ),
        (
            {VALUES + "lda_coeff/value": "other", VALUES + "other": {"value": [[2], [0]]}},
            ["error: g.x.scatter: ScatterND: lda_coeff is [[2], [0]]; expected a finite number"],
        ),
        (
            {VALUES + "reduction/value": "other", VALUES + "other": {"value": [[2], [0]]}},
            [
                "error: g.x.scatter: ScatterND: reduction is of type list; expected the text 'none', 'add',"
                " 'mul', 'max', 'min' or 'mean'"
            ],
        ),
        ({VALUES + "lda_coeff/value": "other", VALUES + "other": {"value": 0.5}}, []),
        (
            {VALUES + "lda_coeff/value": [10**5000]},
            [
                "error: g.x.scatter: ScatterND: lda_coeff is a list of integers too long to write;"
                " expected a finite number"
            ],
        ),
        (
            {"nodes/x/functions/late": {"value": [[1], [2, 3]]}},
            [
                "error: g.x.late: value is uneven: [1] has length 2 and [0] has 1; expected a tensor",
            ],
        ),
        (
            {PORTS + "data": {"type": "float32", "default_value": [1j]}},
            ["error: g.x.data: default_value has complex numbers; expected float32, the port's type"],
        ),
        # names of outputs
        (
            {VALUES + "specified_outputs_name/value": ["a", "a"]},
            [
                "error: g.x.specified_outputs_name: gives 2 names; the node has 1 output port",
                "error: g.x.specified_outputs_name: gives the name 'a' 2 times; names of outputs are unique",
            ],
        ),
        (
            {VALUES + "specified_outputs_name/value": {"a": 1}},
            ["error: g.x.specified_outputs_name: expected a list of texts, one name for each output port"],
        ),
        ({VALUES + "specified_outputs_name/value": "my output"}, []),
        # expressions
        (
            {ARGS + "data": "dta * 2"},
            [
                "error: g.x.scatter.data: expression \"dta * 2\" names 'dta', which is not a"
                " port, parameter or"
                " function of the node; did you mean 'data'?"
            ],
        ),
        (
            {ARGS + "updates": "updates + open('x')"},
            [f"error: g.x.scatter.updates: expression \"updates + open('x')\" calls open; {ALLOWED}"],
        ),
        (
            {ARGS + "updates": "updates * reduction"},
            [
                'error: g.x.scatter.updates: expression "updates * reduction" computes with'
                " 'reduction', which"
                " holds text; expected numbers"
            ],
        ),
        # shapes and dtypes
        (
            {PORTS + "updates/shape": [5]},
            [
                "error: g.x.scatter: ScatterND: updates has shape (5,); expected indices.shape[:-1] +"
                " data.shape[1:] = (4,) + () = (4,)"
            ],
        ),
        (
            {PORTS + "indices/shape": [4, 2]},
            [
                "error: g.x.scatter: ScatterND: indices has shape (4, 2), so that an index has 2 numbers;"
                " expected at most 1, the rank of data"
            ],
        ),
        (
            {PORTS + "updates/metadata": {"onnx": {"shape": ["N"]}}, PORTS + "data/shape": [8, 3]},
            [
                "error: g.x.scatter: ScatterND: updates has shape (?,); expected indices.shape[:-1] +"
                " data.shape[1:] = (4,) + (3,) = (4, 3)"
            ],
        ),
        (
            {PORTS + "updates/type": "float64"},
            [
                "error: g.x.scatter: ScatterND: updates has dtype float64 and data has float32; expected the"
                " same dtype: cast one of them first, with astype"
            ],
        ),
        (
            {PORTS + "indices/type": "float32"},
            [
                "error: g.x.scatter: ScatterND: indices has dtype float32; expected an integer dtype, such as"
                " int64"
            ],
        ),
        (
            {PORTS + "updates/type": "float", PORTS + "data/type": "Tensor", PORTS + "indices/type": "None"},
            [],
        ),
        (
            {PORTS + "data/type": "flaot32"},
            [
                "warning: g.x.data: type 'flaot32' is not known; expected an element type such"
                " as 'float32' or"
                " 'int64'; did you mean 'float32'?"
            ],
        ),
        (
            {PORTS + "data/default_value": [[1, 2], [3, 4]]},
            ["error: g.x.data: default_value has shape (2, 2); expected (8,), the port's"],
        ),
        ({PORTS + "data/default_value": 0}, []),
        (
            {PORTS + "indices/default_value": [[0.5], [1], [2], [3]]},
            ["error: g.x.indices: default_value has fractions or exponents; expected int64, the port's type"],
        ),
        (
            {PORTS + "indices/type": "int8", PORTS + "indices/default_value": [[1], [2], [3], [200]]},
            ["error: g.x.indices: default_value does not fit int8: expected -128..127"],
        ),
        # values that are there
        (
            {PORTS + "indices/default_value": [[0], [1], [2], [9]]},
            ["error: g.x.scatter: ScatterND: indices[3, 0] is 9; expected -8..7 (axis 0 of data)"],
        ),
        ({PORTS + "indices/default_value": [[3], [1], [3], [0]]}, []),
        (
            {PORTS + "indices/default_value": [[3], [1], [-5], [0]], VALUES + "reduction/value": "none"},
            [REPEAT],
        ),
        ({PORTS + "indices/default_value": [[3], [1], [-5], [0]], ARGS + "reduction": "none"}, [REPEAT]),
        (
            {ARGS + "data": [1, 2.5], ARGS + "indices": [[0], [5]], ARGS + "updates": [1, 2]},
            ["error: g.x.scatter: ScatterND: indices[1, 0] is 5; expected -2..1 (axis 0 of data)"],
        ),
        ({ARGS + "data": [1, 2.5], ARGS + "indices": [[0], [1]], ARGS + "updates": [1, 2]}, []),
        # ids
        (
            {VALUES + "scatter": {"value": 1}},
            [
                "error: g.x.scatter: 'scatter' is the id of 2 parts of the node (parameter, function), which"
                " share one set of names; rename all but one"
            ],
        ),
        (
            {"nodes/x/output_ports/more": {}},
            ["error: g.x.more: the output port has no value; expected a name of the node, or an expression"],
        ),
        (
            {PORTS + "data/reduce": "ad"},
            [
                "error: g.x.data: reduce is 'ad'; expected 'overwrite', 'add' or 'multiply';"
                " did you mean 'add'?"
            ],
        ),
    ],
)
def test_findings_in_a_node(changes: dict[str, Any], findings: list[str]) -> None:
    assert changed(*changes.items()) == findings


def test_constants_are_followed_along_an_edge() -> None:
    index = {"parameters": {"i": {"value": [[3], [1], [3], [0]]}}, "output_ports": {"i": {"value": "i"}}}
    constant = ("nodes/c", index), (VALUES + "reduction/value", "none")
    assert changed(*constant, ("edges/e", edge("c.i", "x.indices"))) == [REPEAT]
    weighted = edge("c.i", "x.indices", parameters={"weight": 2})
    assert changed(*constant, ("edges/e", weighted)) == []


def test_typed_arrays_meet() -> None:
    graph = Graph(
        "g",
        nodes=[
            Node(
                "x",
                parameters=[
                    Parameter("data", value=np.zeros(4, np.float32)),
                    Parameter("indices", value=np.array([[1]])),
                    Parameter("updates", value=np.ones(1)),
                ],
                functions=[Function("scatter", function="ScatterND", args={})],
                output_ports=[OutputPort("y", value="scatter")],
            )
        ],
    )
    assert [str(finding) for finding in check(Model("m", graphs=[graph]))] == [
        "error: g.x.scatter: ScatterND: updates has dtype float64 and data has float32; expected the same"
        " dtype: cast one of them first, with astype"
    ]


@pytest.mark.parametrize(
    ("edges", "findings"),
    [
        ({"e": edge("a.o", "b.i")}, []),
        (
            {"e": edge("aa.o", "b.i")},
            ["error: g.e: sender 'aa' is not a node of the graph"],
        ),
        (
            {"e": edge("alpha.o", "bravo.i")},
            [
                "error: g.e: sender 'alpha' is not a node of the graph; did you mean 'alphas'?",
                "error: g.e: receiver 'bravo' is not a node of the graph",
            ],
        ),
        (
            {"e": edge("a.out", "b.in")},
            [
                "error: g.e: sender_port 'out' is not an output port of node 'a'; it has 'o'",
                "error: g.e: receiver_port 'in' is not an input port of node 'b'; it has 'i'",
            ],
        ),
        (
            {"e": edge("a.o", "b.i"), "f": edge("c.o", "b.i")},
            [
                "warning: g.b.i: 2 edges write this port ('e', 'f') and the last that brings a value"
                " wins; set reduce to 'add' or 'multiply', or give each edge a port of its own"
            ],
        ),
        (
            {"e": edge("a.o", "b.i", parameters={"weigth": 1})},
            ["warning: g.e: parameter 'weigth' has no effect; expected 'weight'; did you mean 'weight'?"],
        ),
        (
            {"e": edge("a.o", "b.i", parameters={"weight": "2 * x"})},
            ["error: g.e: weight is not a number; expected a number, or an array of numbers"],
        ),
        ({"e": edge("a.o", "b.i", parameters={"weight": [[1, 0], [0, 1]]})}, []),
        (
            {"e": edge("a.o", "b.i"), "f": edge("b.o", "c.i"), "h": edge("c.o", "a.i")},
            [
                "error: g: nodes wait for each other: a -> b -> c -> a; give an input port on the way a"
                " default_value"
            ],
        ),
        (
            {"e": edge("a.o", "a.i")},
            ["error: g: nodes wait for each other: a -> a; give an input port on the way a default_value"],
        ),
        (
            {"e": edge("d.o", "d.i")},
            [
                "error: g: nodes never start: d -> d; no node without incoming edges leads to them: add an"
                " edge from one, or move them to a graph of their own"
            ],
        ),
    ],
)
def test_findings_in_edges(edges: dict[str, Any], findings: list[str]) -> None:
    nodes = {"a": relay(), "b": relay(), "c": relay(), "d": relay(default=0), "alphas": relay()}
    assert found({"nodes": nodes, "edges": edges}) == findings


def test_a_circle_with_a_default_starts_where_no_node_is_a_root() -> None:
    nodes = {"a": relay(default=0), "b": relay()}
    edges = {"e": edge("a.o", "b.i"), "f": edge("b.o", "a.i")}
    assert found({"nodes": nodes, "edges": edges}) == []


def test_ends_of_an_edge_disagree() -> None:
    nodes = {"a": relay(), "b": relay()}
    nodes["a"]["output_ports"]["o"] |= {"type": "float32", "shape": [2, 3]}
    nodes["b"]["input_ports"]["i"] |= {"type": "float64", "shape": [3, 2]}
    assert found({"nodes": nodes, "edges": {"e": edge("a.o", "b.i")}}) == [
        "error: g.e: a.o has dtype float32 and b.i has float64; expected the same dtype",
        "error: g.e: a.o has shape (2, 3) and b.i has (3, 2); expected the same shape",
    ]


def test_circles_in_a_node() -> None:
    functions = {"f": {"value": "h + 1"}, "h": {"function": "linear", "args": {"variable0": "f"}}}
    settings_ = {"slope": {"value": 1}, "intercept": {"value": 0}, "own": {"value": "own + 1"}}
    parts = {"functions": functions, "parameters": settings_, "output_ports": {"y": {"value": "own"}}}
    assert found(node(**parts)) == [
        "error: g.n: values wait for each other: f -> h -> f; what is kept from step to step is a parameter"
        " with a default_initial_value"
    ]
    state = {"v": {"default_initial_value": 0, "time_derivative": "w - v"}, "w": {"value": "v * 2"}}
    assert found(parameters(**state)) == []


def test_ids_that_are_there_twice() -> None:
    same = [Node("a", output_ports=[OutputPort("o", value="1"), OutputPort("o", value="2")]) for _ in "ab"]
    edges = [Edge("e", "a", "b", "o", "i") for _ in "ab"]
    graph = Graph("g", nodes=[*same, Node("b", input_ports=[InputPort("i", reduce="add")])], edges=edges)
    model = Model("m", graphs=[graph, Graph("g", nodes=[Node("n")])])
    assert [str(finding) for finding in check(model)] == [
        "error: m: 2 graphs have the id 'g'; each needs its own",
        "error: g: 2 nodes have the id 'a'; each needs its own",
        "error: g: 2 edges have the id 'e'; each needs its own",
        "error: g.a: 2 output ports have the id 'o'; each needs its own",
        "error: g.a: 2 output ports have the id 'o'; each needs its own",
    ]


def test_nothing_to_run() -> None:
    assert check(Model("m")) == [Finding("error", "m", "the model has no graph; expected one")]
    assert check(Model("m", graphs=[Graph("g")])) == [
        Finding("error", "g", "the graph has no nodes; expected one or more")
    ]


def test_what_is_not_in_form() -> None:
    graph = Graph("g", nodes=[Node("n", functions=["f"]), "n"], edges={"e": 1})
    assert [str(finding) for finding in check(Model("m", graphs=[graph, 3]))] == [
        "error: m: graphs[1] is of type int; expected a Graph",
        "error: g: nodes[1] is of type str; expected a Node",
        "error: g: edges is of type dict; expected ids, each with an Edge",
        "error: g.n: functions[0] is of type str; expected a Function",
    ]


def test_conditions() -> None:
    def of(kind: str, **kwargs: Any) -> dict[str, Any]:
        return {"type": kind, "kwargs": kwargs}

    conditions = {
        "node_specific": {
            "a": of("EveryNCals", dependencies="b", n=2),
            "b": of("AfterNCalls", dependencies="c", m=2),
            "bb": of("Always"),
        },
        "termination": {
            "enviroment_state_update": of(
                "And", dependencies=[of("JustRan", dependency="d"), of("Not", condition=of("operator"))]
            ),
            "TimeScale.ENVIRONMENT_SEQUENCE": of(
                "Threshold", dependency="a", parameter="oo", threshold=1, comparator=">="
            ),
        },
    }
    assert found({"nodes": {"a": relay(), "b": relay()}, "conditions": conditions}) == [
        "error: g.conditions.a: condition type 'EveryNCals' is not known; did you mean 'EveryNCalls'?",
        "error: g.conditions.b: condition AfterNCalls is missing its argument 'n'",
        "error: g.conditions.b: condition AfterNCalls has no argument 'm'",
        "error: g.conditions.b: condition AfterNCalls depends on 'c', which is not a node of the graph",
        "error: g.conditions: 'bb' is not a node of the graph",
        "error: g.conditions: 'enviroment_state_update' is not a time scale; did you mean"
        " 'ENVIRONMENT_STATE_UPDATE'?",
        "error: g.conditions.enviroment_state_update: condition type 'operator' is not known",
        "error: g.conditions.enviroment_state_update: condition JustRan depends on 'd', which"
        " is not a node of"
        " the graph",
        "error: g.conditions.TimeScale.ENVIRONMENT_SEQUENCE: condition Threshold watches 'oo', which is not a"
        " port, parameter or function of node 'a'",
    ]


def test_right_conditions() -> None:
    every = Condition("EveryNCalls", dependencies="a", n=2)
    ends = Condition("Threshold", dependency="a", parameter="o", threshold=5, comparator=">=")
    conditions = ConditionSet(node_specific={"b": every}, termination={"environment_state_update": ends})
    nodes = [Node(name, output_ports=[OutputPort("o", value="1")]) for name in "ab"]
    assert check(Model("m", graphs=[Graph("g", nodes=nodes, conditions=conditions)])) == []


CODE = "__import__('os').system('x')"
HALVES = ["__import__(", "'os')"]


@pytest.mark.parametrize(
    ("graph", "finding"),
    [
        (parameters(p={"value": CODE}), f'error: g.n.p: expression "{CODE}" calls __import__; {ALLOWED}'),
        (
            parameters(p={"default_initial_value": CODE}),
            f'error: g.n.p.default_initial_value: expression "{CODE}" calls __import__; {ALLOWED}',
        ),
        (
            parameters(p={"default_initial_value": 0, "time_derivative": CODE}),
            f'error: g.n.p.time_derivative: expression "{CODE}" calls __import__; {ALLOWED}',
        ),
        (
            parameters(p={"value": 1, "conditions": {"c": {"test": CODE, "value": 2}}}),
            f'error: g.n.p.c.test: expression "{CODE}" calls __import__; {ALLOWED}',
        ),
        (
            parameters(p={"value": 1, "conditions": {"c": {"test": "p > 0", "value": CODE}}}),
            f'error: g.n.p.c.value: expression "{CODE}" calls __import__; {ALLOWED}',
        ),
        (
            parameters(p={"function": "sin", "args": {"variable0": CODE, "scale": 1}}),
            f'error: g.n.p.variable0: expression "{CODE}" calls __import__; {ALLOWED}',
        ),
        (
            node(functions={"f": {"value": CODE}}),
            f'error: g.n.f: expression "{CODE}" calls __import__; {ALLOWED}',
        ),
        (
            node(output_ports={"y": {"value": CODE}}),
            f'error: g.n.y: expression "{CODE}" calls __import__; {ALLOWED}',
        ),
        (
            node(input_ports={"x": {"default_value": CODE}}),
            f'error: g.n.x: expression "{CODE}" calls __import__; {ALLOWED}',
        ),
        (
            node(input_ports={"x": {"default_value": CODE, "type": "string"}}),
            f'error: g.n.x: holds the text "{CODE}", which modeci-mdf may run as Python; expected text that'
            " calls nothing",
        ),
        # Evaluated once more when it is read.
        (
            parameters(p={"value": repr(CODE)}),
            f'error: g.n.p: holds the text "{CODE}", which modeci-mdf may run as Python; expected text that'
            " calls nothing",
        ),
        (
            parameters(p={"value": repr(repr("9**9**9"))}),
            "error: g.n.p: holds the text \"'9**9**9'\", which modeci-mdf may run as Python;"
            " expected text that"
            " calls nothing",
        ),
        (
            parameters(p={"value": [{"a": [CODE]}]}),
            f'error: g.n.p: holds the text "{CODE}", which modeci-mdf may run as Python; expected text that'
            " calls nothing",
        ),
        # Halves that are harmless, put together.
        (
            parameters(p={"value": HALVES}, q={"value": "p[0] + p[1]"}),
            "error: g.n.q: expression \"p[0] + p[1]\" computes with 'p', which holds text; expected numbers",
        ),
        (
            node(functions={"f": {"value": "k", "args": {"j": HALVES, "k": "j[0] + j[1]"}}}),
            "error: g.n.f.k: expression \"j[0] + j[1]\" computes with 'j', which holds text;"
            " expected numbers",
        ),
        (
            node(
                parameters={"p": {"value": HALVES}},
                functions={"f": {"value": "k", "args": {"j": "p", "k": "sum(j)"}}},
            ),
            "error: g.n.f.k: expression \"sum(j)\" computes with 'j', which holds text; expected numbers",
        ),
        (
            node(functions={"f": {"function": "sin", "args": {"variable0": "'eval('", "scale": 2}}}),
            "error: g.n.f: sin computes with text, \"'eval('\"; expected numbers",
        ),
    ],
)
def test_nothing_runs_but_arithmetic(graph: dict[str, Any], finding: str) -> None:
    assert finding in found(graph)


def test_text_is_followed_from_node_to_node() -> None:
    text = {"parameters": {"p": {"value": HALVES}}, "output_ports": {"o": {"value": "p"}}}
    joins = relay() | {"output_ports": {"o": {"value": "i[0] + i[1]"}}}
    graph = {
        "nodes": {"a": text, "b": relay(), "c": joins},
        "edges": {"e": edge("a.o", "b.i"), "f": edge("b.o", "c.i")},
    }
    assert found(graph) == [
        "error: g.c.o: expression \"i[0] + i[1]\" computes with 'i', which holds text; expected numbers"
    ]
    graph["nodes"]["c"] = relay()
    assert found(graph) == []
    graph["edges"]["f"]["parameters"] = {"weight": 2}
    assert found(graph) == ["error: g.c.i: computes with text that edges bring; expected numbers"]


def test_text_may_be_data() -> None:
    graph = deepcopy(SCATTER)
    ports = graph["nodes"]["x"]["input_ports"]
    ports["data"] |= {"type": "string", "default_value": ["hello (world)", "a.b", "x"], "shape": [3]}
    ports["updates"] |= {"type": "string"}
    graph["nodes"]["x"]["output_ports"]["output"] |= {"type": "string", "shape": [3]}
    assert found(graph) == []


def test_options_of_onnx_operators_are_words() -> None:
    graph = node(
        input_ports={"x": {}},
        parameters={
            "auto_pad": {"value": "SAME_UPPER"},
            "conv": {"function": "onnx::Conv", "args": {"X": "x", "W": [[[1.0]]]}},
            "mode": {"value": "circle"},
            "pads": {"value": [0, 1]},
            "equation": {"value": "ij,jk->ik"},
            "e": {"function": "onnx::Einsum", "args": {"Inputs": ["x", "conv"], "equation": "equation"}},
        },
        output_ports={"y": {"value": "e"}},
    )
    assert found(graph) == [
        "error: g.n.mode: expression \"circle\" names 'circle', which is not a port, parameter or function of"
        " the node"
    ]
    graph["nodes"]["n"]["parameters"]["e"]["args"]["Inputs"] = ["x", "con"]
    assert (
        "error: g.n.e.Inputs: names 'con', which is not a port, parameter or function of the node; did you"
        in (" ".join(found(graph)))
    )


def test_arguments_of_standard_functions() -> None:
    args = {"variable0": "x", "slope": 2, "x_0": 1, "gain": "slope"}
    graph = node(input_ports={"x": {}}, functions={"f": {"function": "linear", "args": args}})
    assert found(graph) == [
        "error: g.n.f: linear is missing its argument 'intercept'; give it in args, or as a port or parameter"
        " of that name",
        "warning: g.n.f: linear has no argument 'x_0'; expected 'intercept', 'slope' or 'variable0'",
        "warning: g.n.f: linear has no argument 'gain'; expected 'intercept', 'slope' or 'variable0'",
    ]
    graph["nodes"]["n"]["parameters"] = {"intercept": {"value": 0}}
    assert [text for text in found(graph) if text.startswith("error")] == []


def test_names_that_are_no_python_names() -> None:
    graph = node(
        input_ports={"/A/x.1": {}},
        parameters={"onnx::Relu_1": {"function": "onnx::Relu", "args": {"X": "/A/x.1"}}},
        output_ports={"y": {"value": "onnx::Relu_1"}},
    )
    assert found(graph) == []


def test_refuse_lists_the_first_errors() -> None:
    values = {name: {"value": f"no_{name}"} for name in "abcde"}
    model = Model.from_dict({"m": {"graphs": {"g": parameters(**values)}}})
    rest = "which is not a port, parameter or function of the node"
    with pytest.raises(ModelError) as caught:
        refuse(model)
    assert str(caught.value) == (
        f"model 'm' has 5 errors: g.n.a: expression \"no_a\" names 'no_a', {rest};"
        f" g.n.b: expression \"no_b\" names 'no_b', {rest};"
        f" g.n.c: expression \"no_c\" names 'no_c', {rest}; and 2 more"
    )
    refuse(Model.from_dict({"m": {"graphs": {"g": SCATTER}}}))


def test_a_finding_is_one_line() -> None:
    graph = Graph("g\n", nodes=[Node("a\x1b", output_ports=[OutputPort("o", value="open(\n'\x07')")])])
    assert str(check(Model("m", graphs=[graph]))[0]) == (
        f"error: g.a\\x1b.o: expression \"open( '\\x07')\" calls open; {ALLOWED}"
    )


def test_time_grows_with_the_model() -> None:
    def seconds(size: int) -> float:
        parts = {f"p{i}": {"value": f"p{i - 1} + 1" if i else 1} for i in range(size)}
        model = Model.from_dict({"m": {"graphs": {"g": parameters(**parts)}}})
        start = perf_counter()
        assert check(model) == []
        return perf_counter() - start

    small, large = (min(seconds(size) for _ in range(3)) for size in (200, 1600))
    # Eight times the model: 8 times as long, and 64 times if anything went through all names for each.
    assert large < 32 * small


JUNK = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats()
    | st.sampled_from(
        ["x", "add", "f(x)", "a + b", "", "linear", "onnx::Add", "a::b", "U9", "U99999999999999", "9**9**9"]
    )
    | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


def paths(
    part: Any, mine: Callable[[Any], Any] = lambda root: root
) -> list[tuple[Callable[[Any], Any], Any]]:
    """List every place in nested mappings and lists: how to get its owner, and its key."""
    keys = list(part) if isinstance(part, dict) else range(len(part)) if isinstance(part, list) else []
    return [
        place
        for key in keys
        for place in [(mine, key), *paths(part[key], lambda root, key=key: mine(root)[key])]
    ]


BASE = SCATTER | {
    "nodes": SCATTER["nodes"] | {"c": relay(default=[[0], [1], [2], [3]]), "d": relay()},
    "edges": {"e": edge("c.o", "x.indices"), "f": edge("d.o", "c.i", parameters={"weight": 1})},
    "conditions": {"node_specific": {"c": {"type": "JustRan", "kwargs": {"dependency": "d"}}}},
    "metadata": {"onnx": {"inputs": ["d.i"], "outputs": ["x.output"]}},
}


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_no_model_that_loads_makes_check_raise(data: st.DataObject) -> None:
    graph = deepcopy(BASE)
    owner, key = data.draw(st.sampled_from(paths(BASE)))
    owner(graph)[key] = data.draw(JUNK)
    try:
        model = Model.from_dict({"m": {"graphs": {"g": graph}}})
    except Exception:  # modeci-mdf refuses it in many ways
        return
    for finding in check(model):
        assert str(finding).isprintable()


def test_conditions_of_parameters_as_objects() -> None:
    condition = ParameterCondition("c", test="p > limit", value=0)
    own = Node("n", parameters=[Parameter("p", value=1, conditions=[condition])])
    assert [str(finding) for finding in check(Model("m", graphs=[Graph("g", nodes=[own])]))] == [
        "error: g.n.p.c.test: expression \"p > limit\" names 'limit', which is not a port,"
        " parameter or function"
        " of the node"
    ]


def shared_models() -> list[tuple[str, bool]]:
    if not SHARED.exists():
        return []
    manifest = json.loads((SHARED / "manifest.json").read_text())
    return [(entry["file"], entry["in_modeci_mdf_0_4_15"].startswith("runs")) for entry in manifest]


def load(name: str) -> Model | None:
    try:
        return Model.from_file(str(SHARED / name))
    except Exception:  # what modeci-mdf cannot load is not for `check`
        return None


@pytest.mark.parametrize("name", [name for name, runs in shared_models() if runs])
def test_models_that_run_have_no_errors(name: str) -> None:
    model = load(name)
    assert model is not None
    # Two files are NeuroMLlite's, of which modeci-mdf reads nothing and runs that.
    errors = [str(finding) for finding in check(model) if finding.level == "error"]
    assert errors == ([] if model.graphs else [f"error: {model.id}: the model has no graph; expected one"])


@pytest.mark.parametrize("name", [name for name, runs in shared_models() if not runs])
def test_models_that_do_not_run_do_not_break_check(name: str) -> None:
    model = load(name)
    if model is not None:
        assert all("\n" not in str(finding) for finding in check(model))


EDGES = {"e": edge("c.o", "b.i"), "f": edge("a.o", "b.i"), "g": edge("a.o", "c.i")}
"""`e` stands first and comes last: its sender waits for `g`."""


@pytest.mark.parametrize("engine", ["onnx", "mdf"])
def test_the_edge_said_to_win_is_the_one_that_does(engine: Any) -> None:
    graph = {
        "nodes": {
            "a": {"parameters": {"one": {"value": 1.0}}, "output_ports": {"o": {"value": "one"}}},
            "b": relay(),
            "c": {"input_ports": {"i": {}}, "output_ports": {"o": {"value": "i + 1"}}},
        },
        "edges": EDGES,
    }
    assert found(graph)[0].startswith("warning: g.b.i: 2 edges write this port ('f', 'e') and the last")
    model = Model.from_dict({"m": {"graphs": {"g": graph}}})
    assert mdf_scatter.run(model, engine=engine)["o"] == 2.0


REPEATED = """<ir_version: 10, opset_import: ["" : 18]>
    g (float[4, 3] d, float[3] u, float[2, 3] v)
        => (float[4, 3] w, float[4, 3] x, float[4, 3] y, float[4, 3] z)
    <int64[3, 2] i = {0, 0, 1, 1, 0, 0}, int64[2, 3] j = {0, 1, 2, 0, 2, -1}> {
        w = ScatterND(d, i, u)
        x = ScatterElements(d, j, v)
        y = ScatterElements<axis = 1>(d, j, v)
        z = ScatterElements<reduction = "add">(d, j, v)
    }"""


def test_repeated_constant_indices_of_a_graph_from_onnx() -> None:
    lost = "the last one wins); if updates should accumulate set reduction: add"
    assert list(map(str, check(mdf_scatter.from_onnx(onnx.parser.parse_model(REPEATED))))) == [
        f"warning: g.ScatterND.scatternd: indices repeat (row (0, 0) is written 2 times, {lost}",
        "warning: g.ScatterElements.scatterelements: indices repeat"
        f" (element (0, 0) is written 2 times, {lost}",
        "warning: g.ScatterElements_1.scatterelements: indices repeat"
        f" (element (1, 2) is written 2 times, {lost}",
    ]


def test_repeated_indices_that_a_constant_gives() -> None:
    text = """<ir_version: 10, opset_import: ["" : 18]>
        g (float[3] x, float[2] u) => (float[3] y, float[3] z) {
            i = Constant<value = int64[2, 1] {1, 1}>()
            j = Constant<value_ints = [2, 2]>()
            y = ScatterND(x, i, u)
            z = ScatterElements(x, j, u)
        }"""
    lost = "the last one wins); if updates should accumulate set reduction: add"
    assert list(map(str, check(mdf_scatter.from_onnx(onnx.parser.parse_model(text))))) == [
        f"warning: g.ScatterND.scatternd: indices repeat (row 1 is written 2 times, {lost}",
        f"warning: g.ScatterElements.scatterelements: indices repeat (element 2 is written 2 times, {lost}",
    ]


def test_a_backward_pass_repeats_indices_on_purpose() -> None:
    text = """<ir_version: 10, opset_import: ["" : 18]> g (float[4] d, float[3] u) => (float s)
        <int64[3] i = {0, 1, 0}, int64[3, 1] j = {0, 1, 0}> {
            x = ScatterElements(d, i, u)
            y = ScatterND(x, j, u)
            z = Mul(y, y)
            s = ReduceSum<keepdims = 0>(z)
        }"""
    model = mdf_scatter.from_onnx(onnx.parser.parse_model(text))
    findings = list(map(str, check(model)))
    assert len(findings) == 2
    gradient = mdf_scatter.grad(model, of="s")
    functions = [part.function or "" for node in gradient.graphs[0].nodes for part in node.functions]
    assert sum("Scatter" in function for function in functions) > 2
    assert list(map(str, check(gradient))) == findings


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ([[4], [3], [1, 2], [7]], "is uneven: [2] has length 2 and [0] has 1"),
        ([[4], 3, [1], [7]], "is uneven: [1] is no list and [0] is one"),
        ([4, [3], [1], [7]], "is uneven: [1] is a list and [0] is none"),
        ([[4], [3], [1], [10**22]], "has an integer of 74 bits at [3, 0], which no dtype holds"),
        ([[4], [3], [10**5000], [7]], "has an integer of 16610 bits at [2, 0], which no dtype holds"),
        ([[4], [3], [b"1"], [7]], "has bytes at [2, 0]"),
        ([[4], [3], [None], [7]], "has null at [2, 0]"),
        ([[4], [3], [{"a": 1}], [7]], "has a mapping at [2, 0]"),
        ({"a": 4}, "is a mapping"),
    ],
)
def test_what_is_no_tensor(value: Any, problem: str) -> None:
    """As a port's default, and as a constant argument of an operator."""
    assert changed((PORTS + "indices/default_value", value)) == [
        f"error: g.x.indices: default_value {problem}; expected a tensor of int64"
    ]
    assert changed((PORTS + "indices", {"default_value": value})) == [
        f"error: g.x.scatter: ScatterND: indices {problem}; expected a tensor"
    ]
    where = "i: value" if problem.startswith("is uneven") else "scatter: ScatterND: indices"
    assert changed((ARGS + "indices", "i"), ("nodes/x/parameters/i", {"value": value})) == [
        f"error: g.x.{where} {problem}; expected a tensor"
    ]


def test_uneven_parameters_of_any_node() -> None:
    assert found(parameters(p={"value": [[1], [2, 3]]})) == [
        "error: g.n.p: value is uneven: [1] has length 2 and [0] has 1; expected a tensor"
    ]
    assert found(parameters(p={"value": "p + 1", "default_initial_value": [1, [2]]})) == [
        "error: g.n.p: default_initial_value is uneven: [1] is a list and [0] is none; expected a tensor"
    ]


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ([9, "ten", 11, 12], "has the text 'ten' at [1]"),
        (["NaN", 1, 2, 3], "has the text 'NaN' at [0] (YAML writes .nan and .inf, JSON NaN and Infinity)"),
    ],
)
def test_texts_among_numbers_are_reported_once(value: Any, problem: str) -> None:
    assert changed((PORTS + "updates/default_value", value)) == [
        f"error: g.x.updates: default_value {problem}; expected float32, the port's"
    ]


def test_what_a_floating_type_cannot_hold() -> None:
    assert changed((PORTS + "updates/default_value", [1e39, 1, 2, 3])) == [
        "error: g.x.updates: default_value does not fit float32: 1e+39 becomes inf"
    ]
    assert changed((PORTS + "updates/default_value", [np.inf, np.nan, 2, 3])) == []


def test_a_graph_that_is_not_run() -> None:
    node_ = Node("n", output_ports=[OutputPort("o", value="1")])
    graphs = [Graph("first", nodes=[node_]), Graph("second", nodes=[node_])]
    assert [str(finding) for finding in check(Model("m", graphs=graphs))] == [
        "warning: second: the graph is not run: a model's first is, here 'first';"
        " move it to a model of its own"
    ]


def test_functions_and_branches_of_an_onnx_model_are_known() -> None:
    text = """<ir_version: 8, opset_import: ["": 18, "own": 1]>
    g (float[3] x, bool c) => (float[3] y) {
        y = If (c) <then_branch = t () => (float[3] a) { a = own.twice(x) },
                    else_branch = e () => (float[3] b) { b = own.thrice(x) }>
    }
    <domain: "own", opset_import: ["": 18]> twice (v) => (w) { w = Add(v, v) }"""
    assert [str(finding) for finding in check(mdf_scatter.from_onnx(onnx.parser.parse_model(text)))] == [
        "warning: If.else_branch.thrice.thrice: function 'own::thrice' is of a domain that is not known here;"
        " it can be carried, not run"
    ]


def test_a_function_whose_id_is_a_word_that_it_is_given() -> None:
    graph = deepcopy(SCATTER)
    functions = graph["nodes"]["x"]["functions"]
    functions["add"] = functions.pop("scatter")
    functions["add"]["args"]["reduction"] = "add"
    graph["nodes"]["x"]["output_ports"]["output"]["value"] = "add"
    assert found(graph) == [
        "error: g.x: argument 'reduction' of 'add' is 'add' itself: give the function another id"
    ]


def test_repeated_indices_are_no_doubt_where_the_reduction_is_open() -> None:
    repeated = (PORTS + "indices/default_value", [[1], [1], [1], [7]])
    assert len(changed(repeated, ("nodes/x/parameters/reduction", {"value": "none"}))) == 1
    assert changed(repeated, (ARGS + "reduction", "r"), (PORTS + "r", {"type": "string"})) == []


def test_a_reduction_may_be_a_list_of_one_text_as_in_onnx_functions_of_mdf() -> None:
    parameters = [
        Parameter(id="r", value=["add"]),
        Parameter(id="d", value=[1.0, 2.0, 3.0]),
        Parameter(id="i", value=[[1], [1]]),
        Parameter(id="u", value=[5.0, 6.0]),
    ]
    args = {"data": "d", "indices": "i", "updates": "u", "reduction": "r"}
    node = Node(
        id="x",
        parameters=parameters,
        functions=[Function(id="f", function="ScatterND", args=args)],
        output_ports=[OutputPort(id="o", value="f")],
    )
    model = Model(id="m", graphs=[Graph(id="g", nodes=[node])])
    assert check(model) == []
    for engine in ("onnx", "mdf"):
        assert mdf_scatter.run(model, engine=engine)["o"].tolist() == [1, 13, 3]
    parameters[0].value = ["sum"]
    assert "reduction is 'sum'" in check(model)[0].message


def test_a_reduction_may_be_an_attribute_of_the_function_around() -> None:
    model = onnx.parser.parse_model("""
        <ir_version: 8, opset_import: ["": 18, "own": 1]>
        g (float[5] d, int64[3, 1] i, float[3] u) => (float[5] y) { y = own.put <how = "max"> (d, i, u) }
        <domain: "own", opset_import: ["": 18]>
        put <how> (a, b, c) => (e) { e = ScatterND <reduction: string = @how> (a, b, c) }
    """)
    given = {"d": np.zeros(5, np.float32), "i": [[1], [4], [1]], "u": np.float32([3, -1, 2])}
    assert mdf_scatter.run(mdf_scatter.from_onnx(model), given)["y"].tolist() == [0, 3, 0, 0, 0]


@pytest.mark.parametrize("what", ["model.yaml", None, 3])
def test_what_is_no_model(what: Any) -> None:
    message = (
        f"the model is of type {type(what).__name__}; expected a modeci_mdf.mdf.Model: mdf_scatter.load"
        " reads one from a file, mdf_scatter.from_onnx from ONNX"
    )
    for function in (check, mdf_scatter.run, mdf_scatter.to_onnx, mdf_scatter.grad):
        with pytest.raises(ModelError) as refused:
            function(what)
        assert str(refused.value) == message
