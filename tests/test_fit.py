"""Training: it learns, it says how well, and what is wrong is one line."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from modeci_mdf.mdf import Model

from mdf_scatter import fit, from_onnx, grad, load, run, save
from mdf_scatter.errors import EvaluationError, InputError
from mdf_scatter.plan import Plan
from mdf_scatter.training.optimizers import SGD, Adam

EXAMPLES = Path(__file__).parents[1] / "graphs" / "training"


def example(name: str) -> tuple[Model, dict[str, Any]]:
    with np.load(EXAMPLES / f"{name}.npz") as data:
        return load(EXAMPLES / f"{name}.yaml"), dict(data)


@pytest.mark.parametrize(
    ("name", "learning_rate", "before", "after"),
    [
        ("embedding", 0.02, 2.0, 1e-3),
        ("message_passing", 0.02, 10.0, 0.1),
        ("spiking_readout", 0.05, 0.2, 1e-3),
    ],
)
def test_the_examples_learn(name: str, learning_rate: float, before: float, after: float) -> None:
    model, data = example(name)
    trained = fit(model, data, steps=600, learning_rate=learning_rate, progress=False)
    assert trained.losses[0] > before
    assert trained.loss < after
    np.testing.assert_allclose(run(model, data)["loss"], trained.loss, rtol=1e-4)
    assert trained.curve.alt.startswith(f"The loss begins at {trained.losses[0]:.4g} and ends at")


def test_the_readout_tells_currents_apart_that_it_was_not_trained_on() -> None:
    model, data = example("spiking_readout")
    held_out = np.arange(len(data["target"])) % 3 == 0
    # The trials it must not learn from are replaced by others it may.
    seen = {name: array.copy() for name, array in data.items()}
    for array in seen.values():
        array[held_out] = array[~held_out][: held_out.sum()]
    fit(model, seen, steps=300, learning_rate=0.05, progress=False)
    model.graphs[0].nodes = [node for node in model.graphs[0].nodes if node.id != "error"]
    model.graphs[0].edges = [edge for edge in model.graphs[0].edges if edge.receiver != "error"]
    predicted = run(model, {"spikes": data["spikes"]})["predicted"]
    right = (predicted > 0.5) == (data["target"] > 0.5)
    assert right[held_out].mean() >= 0.9


@pytest.mark.parametrize("name", ["embedding", "message_passing", "spiking_readout"])
def test_a_gradient_graph_has_at_most_four_times_the_nodes(name: str) -> None:
    from mdf_scatter.lower import lower

    model, _ = example(name)
    forward, whole = (len(list(lower(each).graph)) for each in (model, grad(model)))
    assert whole <= 4 * forward


def linear(columns: int = 1, start: float = 0.5, kind: str = "float") -> Model:
    proto = onnx.parser.parse_model(
        f'<ir_version: 8, opset_import: ["": 18]> g ({kind}[n, 2] x) => ({kind}[n, {columns}] y)'
        "{ y = MatMul(x, w) }"
    )
    dtype = np.float16 if kind == "float16" else np.float32
    proto.graph.initializer.append(onnx.numpy_helper.from_array(np.full((2, columns), start, dtype), "w"))
    return from_onnx(proto)


def batches() -> list[dict[str, Any]]:
    rng = np.random.default_rng(0)
    rows = [rng.standard_normal((8, 2)).astype(np.float32) for _ in range(5)]
    return [{"x": x, "target": x @ np.array([[2.0], [-3.0]], np.float32)} for x in rows]


@pytest.mark.parametrize(("optimizer", "learning_rate"), [("sgd", 0.05), ("adam", 0.05)])
def test_a_loss_is_put_behind_a_model_without_one(optimizer: str, learning_rate: float) -> None:
    model = linear()
    trained = fit(
        model,
        batches(),
        loss="mean_squared_error",
        optimizer=optimizer,
        learning_rate=learning_rate,
        steps=400,
        progress=False,
    )
    assert trained.parameters == ("w",)
    assert trained.loss < 1e-6
    weights = model.graphs[0].nodes[-1].get_parameter("B").value
    np.testing.assert_allclose(weights, [[2], [-3]], rtol=1e-3)
    assert weights.dtype == np.float32
    assert list(run(model, {"x": np.ones((1, 2), np.float32)})) == ["y"]


def test_classes_are_told_apart_with_cross_entropy() -> None:
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 3, 60)
    x = (np.array([[2, 0], [-2, 1], [0, -2]])[labels] + rng.standard_normal((60, 2)) * 0.3).astype(np.float32)
    model = linear(3, 0)
    trained = fit(
        model, {"x": x, "target": labels}, loss="cross_entropy", steps=300, learning_rate=0.1, progress=False
    )
    assert trained.losses[0] == pytest.approx(np.log(3), rel=1e-6)
    right = run(model, {"x": x})["y"].argmax(axis=1) == labels
    assert right.mean() > 0.95


def test_steps_are_those_of_the_optimizers_by_hand() -> None:
    model, batch = linear(), batches()[:1]
    gradient = 2 * batch[0]["x"].T @ (batch[0]["x"] @ np.full((2, 1), 0.5) - batch[0]["target"]) / 8
    fit(model, batch, loss="mean_squared_error", optimizer="sgd", learning_rate=0.1, steps=1, progress=False)
    np.testing.assert_allclose(
        model.graphs[0].nodes[-1].get_parameter("B").value, 0.5 - 0.1 * gradient, rtol=1e-5
    )


def test_adam_moves_by_its_learning_rate_at_first() -> None:
    start, gradient = np.array([1.0, 2.0, 3.0]), np.array([10.0, -1e-3, 0.0])
    np.testing.assert_allclose(Adam(0.1).step(start, gradient), [0.9, 2.1, 3.0], rtol=1e-5)
    np.testing.assert_allclose(SGD(0.1).step(start, gradient), start - 0.1 * gradient)


def test_numbers_and_lists_stay_what_they_are(tmp_path: Path) -> None:
    path = tmp_path / "m.yaml"
    path.write_text(
        """
m:
  format: ModECI MDF v0.4
  graphs:
    g:
      nodes:
        a:
          input_ports: {x: {shape: [2], type: float64}}
          parameters:
            gain: {value: 0.5}
            weights: {value: [1.0, 2.0]}
          functions:
            scaled: {function: 'onnx::Mul', args: {A: x, B: weights}}
            total: {function: 'onnx::ReduceSum', args: {data: scaled, keepdims: 0}}
          output_ports: {loss: {value: gain * total * total}}
""",
        encoding="utf-8",
    )
    model = load(path)
    fit(model, {"x": [1.0, 1.0]}, steps=5, learning_rate=0.1, progress=False)
    values = {parameter.id: parameter.value for parameter in model.graphs[0].nodes[0].parameters}
    assert isinstance(values["gain"], float)
    assert isinstance(values["weights"], list)
    save(model, path)
    again = run(load(path), {"x": [1.0, 1.0]})["loss"]
    np.testing.assert_allclose(again, run(model, {"x": [1.0, 1.0]})["loss"])


def test_halves_are_moved_in_float32() -> None:
    model = linear(start=1.0, kind="float16")
    batch = {"x": np.eye(2, dtype=np.float16), "target": np.zeros((2, 1), np.float16)}
    fit(
        model, batch, loss="mean_squared_error", optimizer="sgd", learning_rate=1e-4, steps=20, progress=False
    )
    value = model.graphs[0].nodes[-1].get_parameter("B").value
    assert value.dtype == np.float16
    # Each step moves by about 1e-4, less than half of float16's last digit at 1.
    np.testing.assert_allclose(value, 1 - 20e-4, atol=5e-4)


def test_where_gradients_stop_is_told() -> None:
    model, data = example("message_passing")
    next(node for node in model.graphs[0].nodes if node.id == "sum").get_parameter("training").value = False
    trained = fit(model, data, steps=1, progress=False)
    assert [(stop.node, stop.reason) for stop in trained.stops] == [("sum", "training is false")]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"steps": 0}, "steps is 0; expected a whole number from 1 on"),
        ({"steps": True}, "steps is True; expected a whole number from 1 on"),
        ({"learning_rate": "0.1"}, "learning_rate is '0.1'; expected a number above 0"),
        ({"learning_rate": True}, "learning_rate is True; expected a number above 0"),
        ({"optimizer": "lbfgs"}, "optimizer is 'lbfgs'; expected 'sgd' or 'adam'"),
        ({"learning_rate": -1.0}, "learning_rate is -1.0; expected a number above 0"),
        (
            {"loss": None},
            "which output is the loss? Expected 'mean_squared_error' or 'cross_entropy'; give loss=",
        ),
        (
            {"loss": "y"},
            "loss is 'y', which is no floating-point number (rank 0); "
            "expected 'mean_squared_error' or 'cross_entropy'",
        ),
        ({"loss": "z"}, "loss is 'z'; expected 'mean_squared_error' or 'cross_entropy'"),
        (
            {"wrt": "x"},
            "wrt has 'x', which is no floating-point parameter of model 'g'; "
            "expected floating-point parameters: 'w'",
        ),
        ({"wrt": []}, "wrt has no names; expected floating-point parameters: 'w'"),
        ({"wrt": 3}, "wrt is 3; expected names of parameters"),
        (
            {"data": None},
            "data has a batch of type NoneType; "
            "expected an array for each input, by name, or a list of such mappings",
        ),
        (
            {"data": [np.ones((1, 2), np.float32)]},
            "data has a batch of type ndarray; "
            "expected an array for each input, by name, or a list of such mappings",
        ),
        ({"data": []}, "data has no batches; expected one or more"),
        ({"data": {"x": np.ones((1, 2), np.float32)}}, "graph 'g' needs input 'target' (float32[n, 1])"),
    ],
)
def test_what_is_wrong_is_one_line(arguments: dict[str, Any], message: str) -> None:
    given = {"data": batches(), "loss": "mean_squared_error", "steps": 1, "progress": False} | arguments
    with pytest.raises(InputError) as caught:
        fit(linear(), given.pop("data"), **given)
    assert str(caught.value) == message


@pytest.mark.parametrize("wrong", [-1, 3])
def test_labels_that_are_no_classes_are_refused(wrong: int) -> None:
    text = "g (float[n, 2] x) => (float[n, 3] y) <float[2, 3] w = {1, 0, 1, 0, 1, 0}> { y = MatMul(x, w) }"
    model = from_onnx(onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": 18]> {text}'))
    data = {"x": np.ones((2, 2), np.float32), "target": np.array([0, wrong])}
    with pytest.raises(InputError) as caught:
        fit(model, data, loss="cross_entropy", steps=1, progress=False)
    assert str(caught.value) == f"input 'target' has the class {wrong}; expected 0 to 2"


def test_a_loss_that_is_not_finite_from_the_start_is_no_matter_of_the_learning_rate() -> None:
    data = {"x": np.full((1, 2), np.nan, np.float32), "target": np.ones((1, 1), np.float32)}
    with pytest.raises(EvaluationError) as caught:
        fit(linear(), data, loss="mean_squared_error", progress=False)
    assert (
        str(caught.value)
        == "fit: the loss is nan before the first step; look at the data, and at the parameters"
    )


def test_a_loss_that_grows_beyond_all_bounds_is_an_error_and_changes_nothing() -> None:
    model = linear()
    before = model.to_yaml()
    with pytest.raises(
        EvaluationError, match=r"^fit: the loss is (inf|nan) after \d+ steps; look at the data"
    ):
        fit(model, batches(), loss="mean_squared_error", optimizer="sgd", learning_rate=1e3, progress=False)
    assert model.to_yaml() == before


def test_the_command_line_differentiates_and_trains(tmp_path: Path) -> None:
    source, data = EXAMPLES / "embedding.yaml", EXAMPLES / "embedding.npz"
    trained, curve, gradient = tmp_path / "t.yaml", tmp_path / "loss.svg", tmp_path / "g.onnx"
    options = ("-i", data, "-o", trained, "--steps", "50", "--learning-rate", "0.05", "--curve", curve)
    lines = command("fit", source, *options)
    assert lines[0] == f"{trained}: 2 parameters after 50 steps of adam"
    assert lines[1].startswith("  loss: 2.32792 before, ")
    assert "loss over 50 steps" in curve.read_text(encoding="utf-8")
    with np.load(data) as arrays:
        after = float(run(load(trained), dict(arrays))["loss"])
    assert lines[1].endswith(f", {after:.6g} after")
    lines = command("grad", source, "-o", gradient, "--wrt", "person.rows")
    assert lines[1:] == [
        "  of loss; its gradient from outside is 1",
        "  with respect to person.rows: output person.rows_grad",
    ]
    onnx.checker.check_model(onnx.load(gradient), full_check=True)


def command(*arguments: Any) -> list[str]:
    call = [sys.executable, "-c", "from mdf_scatter.cli import main; main()", *map(str, arguments)]
    return subprocess.run(call, capture_output=True, text=True, check=True).stdout.splitlines()


def test_a_plan_is_all_that_a_step_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    built: list[Plan] = []
    monkeypatch.setattr(
        "mdf_scatter.training.loop.Plan", lambda model: built.append(Plan(model)) or built[-1]
    )
    fit(linear(), batches(), loss="mean_squared_error", steps=3, progress=False)
    assert len(built) == 1
