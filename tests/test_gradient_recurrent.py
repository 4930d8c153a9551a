"""Gradients through RNN, GRU and LSTM."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from central import check_model, check_node, node_model
from hypothesis import given, settings
from hypothesis import strategies as st

from mdf_scatter import grad, run, to_onnx
from mdf_scatter.errors import UnsupportedError

Array = npt.NDArray[Any]

GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
ACTIVATIONS = {"RNN": 1, "GRU": 2, "LSTM": 3}


def inputs_of(
    op_type: str,
    *,
    directions: int = 1,
    steps: int = 3,
    batch: int = 2,
    size: int = 2,
    hidden: int = 2,
    layout: int = 0,
    bias: bool = True,
    initial: bool = True,
    peepholes: bool = False,
    seed: int = 5,
) -> list[Array | None]:
    rng = np.random.default_rng(seed)
    rows = GATES[op_type] * hidden
    states = (batch, directions, hidden) if layout else (directions, batch, hidden)
    inputs: list[Array | None] = [
        rng.standard_normal((batch, steps, size) if layout else (steps, batch, size)),
        rng.standard_normal((directions, rows, size)),
        rng.standard_normal((directions, rows, hidden)),
        rng.standard_normal((directions, 2 * rows)) if bias else None,
        None,
        rng.standard_normal(states) if initial else None,
    ]
    if op_type == "LSTM":
        inputs.append(rng.standard_normal(states) if initial else None)
        inputs.append(rng.standard_normal((directions, 3 * hidden)) if peepholes else None)
    while inputs[-1] is None:
        inputs.pop()
    return inputs


def outputs_of(op_type: str) -> list[str]:
    return ["y", "h", "c"] if op_type == "LSTM" else ["y", "h"]


@settings(max_examples=10, deadline=None)
@given(st.data())
def test_all_inputs_and_outputs(data: st.DataObject) -> None:
    op_type = data.draw(st.sampled_from(sorted(GATES)))
    direction = data.draw(st.sampled_from(["forward", "reverse", "bidirectional"]))
    attributes: dict[str, Any] = {"hidden_size": data.draw(st.integers(1, 3)), "direction": direction}
    if op_type == "GRU":
        attributes["linear_before_reset"] = data.draw(st.integers(0, 1))
    inputs = inputs_of(
        op_type,
        directions=2 if direction == "bidirectional" else 1,
        steps=data.draw(st.integers(1, 3)),
        batch=data.draw(st.integers(1, 2)),
        size=data.draw(st.integers(1, 2)),
        hidden=attributes["hidden_size"],
        bias=data.draw(st.booleans()),
        initial=data.draw(st.booleans()),
        peepholes=data.draw(st.booleans()),
    )
    check_node(op_type, inputs, attributes, outputs=outputs_of(op_type))


@pytest.mark.parametrize("op_type", sorted(GATES))
def test_batches_first(op_type: str) -> None:
    inputs = inputs_of(op_type, layout=1)
    check_node(op_type, inputs, {"hidden_size": 2, "layout": 1}, outputs=outputs_of(op_type))


@pytest.mark.parametrize("op_type", sorted(GATES))
def test_sizes_that_are_not_known(op_type: str) -> None:
    inputs = inputs_of(op_type, initial=False)
    check_node(op_type, inputs, {"hidden_size": 2}, outputs=outputs_of(op_type), symbolic=True)


@pytest.mark.parametrize(("op_type", "scans"), [("RNN", 1), ("GRU", 1), ("LSTM", 2)])
def test_states_that_stand_in_the_output_are_not_computed_again(op_type: str, scans: int) -> None:
    model, _ = node_model(op_type, inputs_of(op_type), {"hidden_size": 2}, outputs=outputs_of(op_type))
    operators = [node.op_type for node in to_onnx(grad(model)).graph.node]
    # Of the two states of an LSTM, an output has but one for all steps.
    assert operators.count("Scan") == scans


@pytest.mark.parametrize("op_type", sorted(GATES))
def test_only_the_last_state(op_type: str) -> None:
    check_node(op_type, inputs_of(op_type), {"hidden_size": 2}, outputs=["", "h"])


@pytest.mark.parametrize(
    ("names", "alphas", "betas"),
    [
        (["Relu", "Softsign", "Softplus"], None, None),
        (["HardSigmoid", "ScaledTanh", "Elu"], [0.3, 1.1, 0.7], [0.6, 0.8]),
        (["HardSigmoid", "Elu", "LeakyRelu"], None, None),
        (["Affine", "Tanh", "LeakyRelu"], [0.4, 0.2], [0.1]),
    ],
)
@pytest.mark.parametrize("op_type", sorted(GATES))
def test_activations_as_in_onnxruntime(
    op_type: str, names: list[str], alphas: list[float] | None, betas: list[float] | None
) -> None:
    """ONNX's evaluator has the default ones only, so the differences are those of float32 in onnxruntime."""
    names = names[: ACTIVATIONS[op_type]]
    given = {"activation_alpha": alphas, "activation_beta": betas}
    attributes = {name: value for name, value in given.items() if value is not None}
    inputs = [None if x is None else x.astype(np.float32) / 2 for x in inputs_of(op_type)]
    model, feed = node_model(
        op_type, inputs, {"hidden_size": 2, "activations": names, **attributes}, outputs=outputs_of(op_type)
    )
    rng = np.random.default_rng(0)
    coming = {name: rng.standard_normal(y.shape).astype(np.float32) for name, y in run(model, feed).items()}
    backward = grad(model)
    results = run(backward, {**feed, **{f"{name}_grad": value for name, value in coming.items()}})

    def loss(changed: dict[str, Array]) -> float:
        found = run(model, {**feed, **changed})
        return sum(float((found[name].astype(float) * coming[name]).sum()) for name in coming)

    for name, value in feed.items():
        step = (rng.standard_normal(value.shape) * 2e-3).astype(np.float32)
        difference = loss({name: value + step}) - loss({name: value - step})
        expected = 2 * float((results[f"{name}_grad"] * step.astype(float)).sum())
        assert difference == pytest.approx(expected, rel=2e-2, abs=4e-5), name


def test_activations_are_named_in_either_case() -> None:
    inputs = [None if x is None else x.astype(np.float32) for x in inputs_of("GRU")]
    found = []
    for names in (["softsign", "tanh"], ["Softsign", "Tanh"]):
        model, feed = node_model("GRU", inputs, {"hidden_size": 2, "activations": names}, outputs=["y"])
        found.append(run(grad(model), {**feed, "y_grad": np.ones((3, 1, 2, 2), np.float32)}))
    for name, array in found[0].items():
        np.testing.assert_array_equal(found[1][name], array)


def test_whole_lengths_change_nothing() -> None:
    inputs = inputs_of("RNN")
    inputs[4] = np.array([3, 3], np.int32)
    model, free = node_model("RNN", inputs, {"hidden_size": 2}, outputs=["y", "h"], constant=[4])
    said = run(grad(model), {**free, "y_grad": np.ones((3, 1, 2, 2)), "h_grad": np.ones((1, 2, 2))})
    inputs[4] = None
    model, free = node_model("RNN", inputs, {"hidden_size": 2}, outputs=["y", "h"])
    plain = run(grad(model), {**free, "y_grad": np.ones((3, 1, 2, 2)), "h_grad": np.ones((1, 2, 2))})
    np.testing.assert_array_equal(said["x0_grad"], plain["x0_grad"])


def test_second_derivatives() -> None:
    model, free = node_model("GRU", inputs_of("GRU"), {"hidden_size": 2}, outputs=["y"])
    rng = np.random.default_rng(1)
    check_model(grad(model), {**free, "y_grad": rng.standard_normal((3, 1, 2, 2))})


@pytest.mark.parametrize(
    ("op_type", "attributes", "message"),
    [
        ("LSTM", {"clip": 1.0}, "LSTM 'lstm': no gradient: clip is 1.0; leave it out"),
        ("LSTM", {"input_forget": 1}, "LSTM 'lstm': no gradient: input_forget is 1; leave it out"),
        (
            "RNN",
            {"activations": ["Sin"]},
            "RNN 'rnn': no gradient: activation 'Sin'; expected 'Affine', 'Elu', 'HardSigmoid', 'LeakyRelu', "
            "'Relu', 'ScaledTanh', 'Sigmoid', 'Softplus', 'Softsign', 'Tanh' or 'ThresholdedRelu'",
        ),
        (
            "RNN",
            {"activations": ["Affine"], "activation_alpha": [0.5]},
            "RNN 'rnn': no gradient: activation 'Affine' has no default; give activation_alpha and "
            "activation_beta",
        ),
    ],
)
def test_what_is_refused(op_type: str, attributes: dict[str, Any], message: str) -> None:
    model, _ = node_model(op_type, inputs_of(op_type), {"hidden_size": 2, **attributes}, outputs=["y"])
    with pytest.raises(UnsupportedError) as caught:
        grad(model)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("constant", "said"), [([4], "[3, 2]"), ([], "not constant")], ids=["constant", "an input"]
)
def test_sequences_of_several_lengths_are_refused(constant: list[int], said: str) -> None:
    inputs = inputs_of("RNN")
    inputs[4] = np.array([3, 2], np.int32)
    model, _ = node_model("RNN", inputs, {"hidden_size": 2}, outputs=["y"], constant=constant)
    with pytest.raises(UnsupportedError) as caught:
        grad(model)
    assert str(caught.value) == (
        f"RNN 'rnn': no gradient: sequence_lens is {said}, and has to be the length of X, 3, for every "
        "sequence; leave it out"
    )
