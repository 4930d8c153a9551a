"""Our functions in modeci-mdf's own engine."""

from __future__ import annotations

import builtins
from pathlib import Path

import numpy as np
import pytest
from modeci_mdf import execution_engine
from modeci_mdf.execution_engine import EvaluableGraph
from modeci_mdf.functions.standard import mdf_functions
from modeci_mdf.mdf import Edge, Function, Graph, InputPort, Model, Node, OutputPort, Parameter

import mdf_scatter
from mdf_scatter.errors import OperatorError
from mdf_scatter.plugin import registered
from mdf_scatter.wiring import edges_in_order

DATA = np.arange(1, 9, dtype=np.float32)
INDICES = np.array([[4], [3], [1], [4]])
UPDATES = np.array([9, 10, 11, 12], np.float32)
SUMS = [1, 13, 3, 14, 26, 6, 7, 8]


@pytest.fixture(autouse=True)
def _registered() -> object:
    mdf_scatter.register()
    yield
    mdf_scatter.unregister()


def node(function: str = "ScatterND", *, in_parameter: bool = False, **args: object) -> Node:
    made = Node(id="scatter_1")
    made.input_ports += [
        InputPort(id="data", type="float32", shape=(8,), default_value=DATA),
        InputPort(id="indices", type="int64", shape=(4, 1), default_value=INDICES),
        InputPort(id="updates", type="float32", shape=(4,), default_value=UPDATES),
    ]
    given = {"data": "data", "indices": "indices", "updates": "updates"} | args
    if in_parameter:
        made.parameters.append(Parameter(id="scatter", function=function, args=given))
    else:
        made.functions.append(Function(id="scatter", function=function, args=given))
    made.output_ports.append(OutputPort(id="output", value="scatter"))
    return made


def evaluated(made: Node) -> np.ndarray:
    graph = EvaluableGraph(Graph(id="g", nodes=[made]))
    graph.evaluate()
    return graph.enodes["scatter_1"].evaluable_outputs["output"].curr_value


@pytest.mark.parametrize("function", ["ScatterND", "onnx::ScatterND"])
@pytest.mark.parametrize("in_parameter", [False, True])
@pytest.mark.parametrize("reduction", ["add", "'add'", "how"])
def test_it_works_in_a_function_and_in_a_parameter(function: str, in_parameter: bool, reduction: str) -> None:
    made = node(function, in_parameter=in_parameter, reduction=reduction)
    if reduction == "how":
        made.parameters.insert(0, Parameter(id="how", value="add"))
    result = evaluated(made)
    assert result.dtype == np.float32
    assert result.tolist() == SUMS


@pytest.mark.parametrize("reduction", ["none", "add", "mul", "max", "min"])
def test_every_reduction_may_be_written_bare(reduction: str) -> None:
    made = node(reduction="reduction")
    made.parameters.append(Parameter(id="reduction", value=reduction))
    expected = mdf_scatter.scatter_nd(DATA, INDICES, UPDATES, reduction)
    assert evaluated(made).tolist() == expected.tolist()


@pytest.mark.parametrize("suffix", [".yaml", ".json", ".bson"])
def test_files_that_modeci_mdf_itself_reads_keep_their_dtypes(suffix: str, tmp_path: Path) -> None:
    made = node(reduction="reduction")
    made.input_ports.pop(2)
    made.parameters += [Parameter(id="reduction", value="add"), Parameter(id="updates", value=UPDATES)]
    path = tmp_path / f"m{suffix}"
    mdf_scatter.save(Model(id="m", graphs=[Graph(id="g", nodes=[made])]), path)
    read = Model.from_file(str(path))
    result = evaluated(read.graphs[0].nodes[0])
    assert result.dtype == np.float32
    assert result.tolist() == SUMS
    assert isinstance(read.graphs[0].nodes[0].parameters[1].value, list), "the model read is left as it was"


def test_an_error_reaches_the_user_with_its_cause_and_names_the_node() -> None:
    made = node()
    made.input_ports[1].default_value = np.array([[4], [3], [1], [9]])
    with pytest.raises(OperatorError) as caught:
        evaluated(made)
    assert str(caught.value) == ("ScatterND 'scatter_1': indices[3, 0] is 9; expected -8..7 (axis 0 of data)")
    assert isinstance(caught.value.__cause__, OperatorError)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ({"reduction": "total"}, None),
        (
            {"training": 3},
            "ScatterND 'scatter_1': training is 3; expected True or False",
        ),
        (
            {"lda_coeff": True},
            "ScatterND 'scatter_1': lda_coeff is True; expected a finite number",
        ),
    ],
)
def test_wrong_settings_are_errors_too(args: dict[str, object], message: str | None) -> None:
    made = node(**args)
    if "reduction" in args:
        made.parameters.append(Parameter(id="total", value=["add", "mul"]))
        message = (
            "ScatterND 'scatter_1': reduction is of type ndarray; "
            "expected the text 'none', 'add', 'mul', 'max', 'min' or 'mean'"
        )
    with pytest.raises(OperatorError) as caught:
        evaluated(made)
    assert str(caught.value) == message


def test_a_missing_argument_is_named() -> None:
    made = node()
    made.input_ports.pop(2)
    del made.functions[0].args["updates"]
    with pytest.raises(OperatorError) as caught:
        evaluated(made)
    assert str(caught.value) == (
        "ScatterND 'scatter_1': argument 'updates' is missing; give it in the function's args"
    )


def test_other_errors_of_the_engine_stay_what_they_are() -> None:
    made = node()
    made.functions.append(Function(id="f", value="1 / 0 + data"))
    made.output_ports[0].value = "f"
    with pytest.raises(Exception, match="Could not evaluate expression"):
        evaluated(made)


def test_nothing_is_printed_unless_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    evaluated(node(reduction="add"))
    assert capsys.readouterr().out == ""
    EvaluableGraph(Graph(id="g", nodes=[node()]), verbose=True).evaluate()
    assert "Root nodes evaluated as" in capsys.readouterr().out


def test_registering_twice_is_registering_once_and_unregistering_puts_all_back() -> None:
    mdf_scatter.register()
    mdf_scatter.unregister()
    before = {
        "functions": dict(mdf_functions),
        "known": list(execution_engine.KNOWN_PARAMETERS),
        "methods": dict(vars(execution_engine.EvaluableNode)),
        "module": set(vars(execution_engine)),
    }
    assert "ScatterND" not in mdf_functions
    assert mdf_functions["onnx::ScatterND"]["expression_string"].startswith("onnx_ops.")
    mdf_scatter.register()
    mdf_scatter.register()
    assert (
        mdf_functions["onnx::ScatterND"]["expression_string"]
        != (before["functions"]["onnx::ScatterND"]["expression_string"])
    )
    mdf_scatter.unregister()
    mdf_scatter.unregister()
    assert dict(mdf_functions) == before["functions"]
    assert before["known"] == execution_engine.KNOWN_PARAMETERS
    assert dict(vars(execution_engine.EvaluableNode)) == before["methods"]
    assert set(vars(execution_engine)) == before["module"]
    assert execution_engine.__dict__.get("print", builtins.print) is builtins.print


def test_a_block_registers_only_while_it_lasts() -> None:
    mdf_scatter.unregister()
    with registered():
        assert "ScatterND" in mdf_functions
        with registered():
            pass
        assert "ScatterND" in mdf_functions
    assert "ScatterND" not in mdf_functions
    mdf_scatter.register()
    with registered():
        pass
    assert "ScatterND" in mdf_functions


def test_a_plain_list_given_to_a_typed_port_is_of_that_type() -> None:
    graph = EvaluableGraph(Graph(id="g", nodes=[node(reduction="add")]))
    graph.evaluate(initializer={"data": [0.0] * 8, "updates": [1, 2, 3, 4]})
    result = graph.enodes["scatter_1"].evaluable_outputs["output"].curr_value
    assert result.dtype == np.float32
    assert result.tolist() == [0, 3, 0, 2, 5, 0, 0, 0]


def test_other_functions_of_the_node_see_the_result() -> None:
    made = node(reduction="add")
    made.functions.append(Function(id="doubled", value="scatter * 2"))
    made.output_ports[0].value = "doubled"
    assert evaluated(made).tolist() == [2 * value for value in SUMS]


def test_the_registered_entry_can_be_called_and_is_described() -> None:
    entry = mdf_functions["ScatterND"]
    assert entry["arguments"][:4] == ["data", "indices", "updates", "reduction"]
    assert entry["arguments"][-2:] == ["training", "lda_coeff"]
    assert entry["function"]([0.0, 0.0], [[1]], [5.0]).tolist() == [0, 5]
    assert "slices of it replaced" in entry["description"]


@pytest.mark.parametrize("seed", range(30))
def test_edges_are_in_the_order_that_the_engine_works_out(seed: int) -> None:
    rng = np.random.default_rng(seed)
    names = [f"n{place}" for place in rng.permutation(6)]
    nodes = [
        Node(id=name, input_ports=[InputPort(id="x")], output_ports=[OutputPort(id="y", value="x")])
        for name in names
    ]
    graph = Graph(id="g", nodes=sorted(nodes, key=lambda node: node.id))
    pairs = [(a, b) for a in range(6) for b in range(a + 1, 6)]
    graph.edges = [
        Edge(id=f"e{a}{b}", sender=names[a], sender_port="y", receiver=names[b], receiver_port="x")
        for a, b in rng.permutation(pairs)[:9]
    ]
    assert edges_in_order(graph) == EvaluableGraph(graph).ordered_edges
