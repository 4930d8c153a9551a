"""What `grad` takes, says and gives: names, stops, coefficients, errors, ways through files."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from central import check_model
from modeci_mdf.mdf import Graph, InputPort, Model

import mdf_scatter
from mdf_scatter import GatherND, ScatterND, draw, from_onnx, grad, load, run, save, to_onnx
from mdf_scatter.errors import InputError, UnsupportedError
from mdf_scatter.gradient import RULES, Call, rule
from mdf_scatter.wiring import backward_pass


def parsed(body: str, opset: int = 18) -> Model:
    text = f'<ir_version: 8, opset_import: ["": {opset}, "com.example": 1]> {body}'
    return from_onnx(onnx.parser.parse_model(text))


SQUARE = "g (double[3] x) => (double[3] y) { y = Mul(x, x) }"


def said(model: Model) -> dict[str, Any]:
    found: dict[str, Any] = model.graphs[0].metadata["gradient"]
    return found


def test_an_output_has_its_gradient_from_outside_as_an_input() -> None:
    gradient = grad(parsed(SQUARE))
    assert said(gradient) == {"of": {"y": "y_grad"}, "wrt": {"x": "x_grad"}, "stopped": []}
    results = run(gradient, {"x": [1.0, 2.0, 3.0], "y_grad": [1.0, 10.0, 100.0]})
    np.testing.assert_array_equal(results["y"], [1, 4, 9])
    np.testing.assert_array_equal(results["x_grad"], [2, 40, 600])


def test_a_loss_gets_one() -> None:
    model = parsed("g (double[3] x) => (double loss) { y = Mul(x, x) loss = ReduceSum <keepdims=0> (y) }")
    gradient = grad(model)
    assert said(gradient)["of"] == {"loss": None}
    np.testing.assert_array_equal(run(gradient, {"x": [1.0, 2.0, 3.0]})["x_grad"], [2, 4, 6])


def test_names_that_are_taken_get_a_number() -> None:
    model = parsed("g (double[1] x) => (double[1] x_grad) { x_grad = Mul(x, x) }")
    gradient = grad(model)
    assert said(gradient)["of"] == {"x_grad": "x_grad_grad"}
    assert said(gradient)["wrt"] == {"x": "x_grad_1"}


def test_a_value_that_nothing_comes_back_to_has_zeros() -> None:
    model = parsed("g (double[2] x, double[3] z) => (double[2] y, double[3] w) { y = Neg(x) w = Sign(z) }")
    gradient = grad(model, of="y")
    given = {"x": [1.0, 2.0], "z": [1.0, 2.0, 3.0], "y_grad": [1.0, 1.0]}
    np.testing.assert_array_equal(run(gradient, given)["z_grad"], [0, 0, 0])


def test_an_output_that_is_an_input_and_an_input_used_twice() -> None:
    model = parsed("g (double[2] x) => (double[2] a, double[2] b) { a = Identity(x) b = Identity(x) }")
    check_model(model, {"x": np.array([1.0, 2.0])})


def test_only_what_is_asked_for_is_differentiated() -> None:
    model = parsed("g (double[2] x, double[2] z) => (double[2] y) { y = Mul(x, z) }")
    assert said(grad(model, wrt="z"))["wrt"] == {"z": "z_grad"}
    whole, part = (len(grad(model, wrt=wrt).graphs[0].nodes) for wrt in (None, ["z"]))
    assert part < whole


PARAMETERS = """
m:
  format: ModECI MDF v0.4
  graphs:
    g:
      nodes:
        a:
          input_ports: {x: {shape: [3], type: float64}}
          parameters:
            gain: {value: 0.5}
            count: {value: 2}
            weights: {value: [1.0, 2.0, 3.0]}
            fixed: {value: [1.0, 1.0, 1.0], metadata: {trainable: false}}
            twice: {value: gain * count}
            y: {value: twice * x * weights + fixed}
          output_ports: {o: {value: y}}
"""


@pytest.fixture
def parameters(tmp_path: Path) -> Model:
    path = tmp_path / "m.yaml"
    path.write_text(PARAMETERS, encoding="utf-8")
    return load(path)


def test_parameters_are_differentiated_by_their_names(parameters: Model) -> None:
    gradient = grad(parameters)
    assert list(said(gradient)["wrt"]) == ["x", "a.gain", "a.weights"]
    results = run(gradient, {"x": [1.0, 2.0, 3.0], "o_grad": [1.0, 1.0, 1.0]})
    np.testing.assert_allclose(results["a.gain_grad"], 28)
    np.testing.assert_allclose(results["a.weights_grad"], [1, 2, 3])
    np.testing.assert_allclose(results["o"], run(parameters, {"x": [1.0, 2.0, 3.0]})["o"])


def test_a_parameter_that_is_not_trained_has_a_gradient_where_it_is_asked_for(parameters: Model) -> None:
    gradient = grad(parameters, wrt="a.fixed")
    results = run(gradient, {"x": [1.0, 2.0, 3.0], "o_grad": [1.0, 2.0, 3.0]})
    np.testing.assert_array_equal(results["a.fixed_grad"], [1, 2, 3])


def test_settings_of_operators_are_not_trained_unless_asked_for() -> None:
    model = parsed(
        "g (double[3] x) => (double[3] y) <double low = {0.0}, double top = {2.0}> { y = Clip(x, low, top) }"
    )
    assert list(said(grad(model))["wrt"]) == ["x"]
    assert list(said(grad(model, wrt=["low"]))["wrt"]) == ["low"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"of": "z"}, "of has 'z'; expected floating-point outputs: 'y'"),
        ({"wrt": ["i"]}, "wrt has 'i'; expected floating-point inputs or parameters: 'x'"),
        ({"of": []}, "the model has no floating-point output, so there is nothing to differentiate"),
    ],
)
def test_wrong_names_are_errors(arguments: dict[str, Any], message: str) -> None:
    model = parsed("g (double[3] x, int64[3] i) => (double[3] y, int64[3] j) { y = Neg(x) j = Neg(i) }")
    with pytest.raises(InputError) as caught:
        grad(model, **arguments)
    assert str(caught.value) == message


def test_a_model_without_floating_outputs_is_an_error() -> None:
    with pytest.raises(InputError) as caught:
        grad(parsed("g (int64[3] i) => (int64[3] j) { j = Neg(i) }"))
    assert str(caught.value) == "the model has no floating-point output, so there is nothing to differentiate"


def test_an_operator_without_a_rule_is_named_with_the_way_to_it() -> None:
    model = parsed(
        """g (double[3] x) => (double[3] y)
        { [first] a = Neg(x) [middle] b = com.example.Strange(a) [last] y = Neg(b) }"""
    )
    for node in model.graphs[0].nodes:
        for port in node.output_ports:
            port.type, port.shape = "float64", (3,)
    with pytest.raises(UnsupportedError) as caught:
        grad(model)
    assert str(caught.value) == (
        "com.example::Strange 'middle': there is no rule for its gradient, and it is on the way "
        "'x' -> 'first' -> 'middle' -> 'last' -> 'y'; add one with mdf_scatter.gradient.rule, "
        "or leave it out with of= and wrt="
    )


@pytest.fixture
def strange() -> Iterator[None]:
    @rule("Strange", domain="com.example")
    def _strange(call: Call) -> list[Any]:
        """y = 3 * x."""
        return [call.emit("Mul", call.grad, 3)]

    yield
    del RULES["com.example", "Strange"]


@pytest.mark.usefixtures("strange")
def test_rules_can_be_added() -> None:
    model = parsed("g (double[3] x) => (double[3] y) { a = com.example.Strange(x) y = Neg(a) }")
    for node in model.graphs[0].nodes:
        for port in node.output_ports:
            port.type, port.shape = "float64", (3,)
    (last,) = [node for node in grad(model).graphs[0].nodes if node.output_ports[0].id == "x_grad"]
    assert last


def test_a_second_rule_for_an_operator_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^operator 'Mul' of domain '' has a rule already$"):
        rule("Mul")(lambda call: [])


def scatters(**options: Any) -> Model:
    """Return a model of a gather, whose rows are scattered by a node with these options."""
    graph = Graph(id="g")
    gather = GatherND("rows").add_to(graph)
    scatter = ScatterND("total", reduction="add", **options).add_to(graph, updates="rows.output")
    for node, port, kind, shape in (
        (gather, "data", "float64", (4, 2)),
        (gather, "indices", "int64", (3, 1)),
        (scatter, "data", "float64", (5, 2)),
        (scatter, "indices", "int64", (3, 1)),
    ):
        found = node.get_input_port(port)
        found.type, found.shape = kind, shape
    return Model(id="m", graphs=[graph])


GIVEN = {
    "rows.data": np.arange(8.0).reshape(4, 2),
    "rows.indices": np.array([[0], [0], [3]]),
    "total.data": np.zeros((5, 2)),
    "total.indices": np.array([[1], [2], [1]]),
}


def test_lda_coeff_multiplies_what_a_node_sends_back() -> None:
    check_model(scatters(), GIVEN)
    outside = {"output_grad": np.ones((5, 2))}
    plain, scaled = (run(grad(scatters(lda_coeff=value)), GIVEN | outside) for value in (1.0, 0.5))
    for name in ("rows.data_grad", "total.data_grad"):
        np.testing.assert_array_equal(scaled[name], plain[name] / 2)
    np.testing.assert_array_equal(plain["output"], scaled["output"])


def test_training_false_stops_the_gradient_and_says_so() -> None:
    gradient = grad(scatters(training=False))
    assert said(gradient)["stopped"] == [{"node": "total", "reason": "training is false"}]
    results = run(gradient, GIVEN | {"output_grad": np.ones((5, 2))})
    assert not results["rows.data_grad"].any()
    assert not results["total.data_grad"].any()
    assert not any("_grad" in node.id and "ScatterElements" in str(node) for node in gradient.graphs[0].nodes)


def test_older_models_are_moved_to_the_rules_operator_set() -> None:
    model = parsed(
        "g (double[2, 3] x) => (double[3, 2] y) { a = ReduceSum(x) b = Mul(x, a) y = Transpose(b) }", 13
    )
    rng = np.random.default_rng(0)
    check_model(model, {"x": rng.standard_normal((2, 3))})


@pytest.mark.parametrize("suffix", [".yaml", ".json", ".onnx", ".mdf.svg"])
def test_a_gradient_graph_is_a_model_like_any_other(tmp_path: Path, suffix: str) -> None:
    gradient = grad(scatters(lda_coeff=0.5))
    path = tmp_path / f"model{suffix}"
    save(gradient, path)
    again = load(path)
    given = GIVEN | {"output_grad": np.random.default_rng(0).standard_normal((5, 2))}
    results = run(gradient, given)
    for name, array in run(again, given).items():
        np.testing.assert_array_equal(array, results[name])
    assert said(again) == said(gradient)
    onnx.checker.check_model(to_onnx(again), full_check=True)


def test_a_gradient_graph_runs_in_modeci_mdf_too() -> None:
    given = GIVEN | {"output_grad": np.random.default_rng(0).standard_normal((5, 2))}
    gradient = grad(scatters(lda_coeff=0.5))
    results = run(gradient, given)
    for name, array in run(gradient, given, engine="mdf").items():
        np.testing.assert_allclose(array, results[name], rtol=1e-6)


def test_grad_of_grad_is_the_second_derivative() -> None:
    cube = parsed("g (double[3] x) => (double[3] y) { a = Mul(x, x) y = Mul(a, x) }")
    twice = grad(grad(cube), of="x_grad", wrt="x")
    x, outside = np.array([1.0, 2.0, -3.0]), np.array([1.0, 1.0, 2.0])
    results = run(twice, {"x": x, "y_grad": outside, "x_grad_grad": np.ones(3)})
    np.testing.assert_allclose(results[said(twice)["wrt"]["x"]], 6 * x * outside)


def test_a_second_backward_pass_keeps_what_the_first_one_said() -> None:
    once = grad(scatters(training=False))
    twice = grad(once, of="output", wrt="total.data")
    assert said(twice) == {
        "of": {"output": "output_grad_1"},
        "wrt": {"total.data": "total.data_grad_1"},
        "stopped": said(once)["stopped"],
        "earlier": [said(once)],
    }
    thrice = grad(twice, of="output", wrt="rows.data")
    assert said(thrice)["earlier"] == [said(once), {k: said(twice)[k] for k in ("of", "wrt", "stopped")}]


LOOP = """g (int64 n, double[3] x) => (double[3] y) {
    y = Loop <body = turn (int64 i, bool going, h) => (on, hn) {
        on = Identity(going)
        hn = Mul(h, h)
    }> (n, , x)
}"""
RECURRENT = """g (double[2, 1, 3] x, double[1, 4, 3] w, double[1, 4, 4] r) => (double[2, 1, 1, 4] y)
    { y = RNN <hidden_size = 4> (x, w, r) }"""
PRODUCTS = """g (double[3] x, int64[30, 1] at, double[30] u) => (double[3] y)
    { y = ScatterND <reduction = "mul"> (x, at, u) }"""


@pytest.mark.parametrize("text", [LOOP, RECURRENT, PRODUCTS], ids=["Loop", "RNN", "ScatterND"])
def test_nodes_say_which_backward_pass_they_are_part_of(text: str) -> None:
    once = grad(parsed(text))
    twice = grad(once, of="x_grad")

    def passes(model: Model) -> list[int]:
        return [backward_pass(node) for graph in model.graphs for node in graph.nodes]

    assert set(passes(once)) == {0, 1}
    assert set(passes(twice)) == {0, 1, 2}
    assert passes(twice).count(1) == passes(once).count(1)


def test_each_backward_pass_is_drawn_in_a_frame_of_its_own() -> None:
    lines = draw(grad(grad(parsed(SQUARE)), of="x_grad", wrt="x")).dot.splitlines()
    frames: dict[str, set[str]] = {"forward": set(), "_backward": set(), "_backward2": set()}
    frame = "forward"
    for line in lines:
        begins = re.search(r"subgraph cluster_g0(_backward2?) ", line)
        box = re.search(r'TITLE="(?:graph input|graph output) (\w+)', line)
        if begins or line == "\t\t}":
            frame = begins[1] if begins else "forward"
        elif box and "label=<" in line:
            frames[frame].add(box[1])
    assert frames == {
        "forward": {"x", "y"},
        "_backward": {"y_grad", "x_grad"},
        "_backward2": {"x_grad_grad", "x_grad_1"},
    }
    headings = re.findall(r"<B>(backward[^<]*)</B>", "\n".join(lines).replace("\xa0", " "))
    assert headings == ["backward 2", "backward"]


def test_the_model_itself_is_not_changed() -> None:
    model = scatters()
    before = model.to_yaml()
    grad(model)
    assert model.to_yaml() == before


def test_grad_is_a_public_name() -> None:
    assert mdf_scatter.grad is grad


@pytest.mark.parametrize(
    ("name", "port", "message"),
    [
        (
            "lda_coeff",
            "k",
            "ScatterND 's': lda_coeff is 'k', and a gradient graph is built before anything runs; "
            "expected a finite number that stands in the model",
        ),
        (
            "training",
            "k",
            "ScatterND 's': training is 'k', and a gradient graph is built before anything runs; "
            "expected true or false that stands in the model",
        ),
    ],
)
def test_settings_that_come_through_a_port_are_refused(name: str, port: str, message: str) -> None:
    model = Model("m", graphs=[Graph("g")])
    node = ScatterND("s", reduction="add").add_to(
        model.graphs[0], data=np.zeros(3, np.float32), indices=[[1]], updates=np.ones(1, np.float32)
    )
    node.input_ports.append(InputPort(port, type="float32", shape=(1,)))
    node.get_parameter(name).value = port
    with pytest.raises(UnsupportedError) as caught:
        grad(model)
    assert str(caught.value) == message
