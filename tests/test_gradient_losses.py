"""Rules of Softmax and LogSoftmax, and of the losses of classification."""

from __future__ import annotations

import numpy as np
import pytest
from central import check_model, check_node, gradients_in_float32, node_model
from hypothesis import given, settings
from hypothesis import strategies as st

import mdf_scatter
from mdf_scatter import Runner, grad, to_onnx

LOSSES = ["SoftmaxCrossEntropyLoss", "NegativeLogLikelihoodLoss"]


def normal(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape)


@pytest.mark.parametrize("op_type", ["Softmax", "LogSoftmax"])
@settings(max_examples=15, deadline=None)
@given(
    shape=st.lists(st.integers(0, 4), min_size=1, max_size=3).map(tuple),
    symbolic=st.booleans(),
    data=st.data(),
)
def test_softmax(op_type, shape, symbolic, data):
    axis = data.draw(st.none() | st.integers(-len(shape), len(shape) - 1))
    attributes = {} if axis is None else {"axis": axis}
    check_node(op_type, [normal(*shape)], attributes, symbolic=symbolic)


@pytest.mark.parametrize("op_type", ["Softmax", "LogSoftmax"])
def test_a_score_of_minus_infinity_gets_nothing(op_type):
    model, free = node_model(op_type, [np.array([[-np.inf, 1.0, 1.0]])])
    coming = np.array([[0.0, 1.0, 0.0]])
    found = mdf_scatter.run(grad(model), free | {"y0_grad": coming})["x0_grad"]
    expected = [[0, 0.25, -0.25]] if op_type == "Softmax" else [[0, 0.5, -0.5]]
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_hardmax_sends_nothing_back():
    model, free = node_model("Hardmax", [normal(2, 3)])
    result = mdf_scatter.run(grad(model), free | {"y0_grad": np.ones((2, 3))})["x0_grad"]
    np.testing.assert_array_equal(result, np.zeros((2, 3)))


@st.composite
def losses(draw):
    """Draw scores, labels and weights, and attributes."""
    batch, classes, *places = draw(st.lists(st.integers(1, 4), min_size=2, max_size=4))
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    scores = rng.standard_normal((batch, classes, *places))
    labels = rng.integers(0, classes, (batch, *places)).astype(draw(st.sampled_from([np.int32, np.int64])))
    attributes = {"reduction": draw(st.sampled_from(["none", "sum", "mean"]))}
    ignored = draw(st.sampled_from([None, -1, 0, 9]))
    if ignored is not None:
        attributes["ignore_index"] = ignored
        labels.flat[:: draw(st.integers(2, 3))] = ignored
    if attributes["reduction"] == "mean" and (labels == ignored).all():
        labels.flat[0] = classes - 1
        attributes.pop("ignore_index")
        labels = np.clip(labels, 0, classes - 1)
    weights = rng.uniform(0.5, 2, classes) if draw(st.booleans()) else None
    return [scores, labels, weights], attributes


@settings(max_examples=30, deadline=None)
@given(call=losses(), outputs=st.integers(1, 2), symbolic=st.booleans())
def test_softmax_cross_entropy_loss(call, outputs, symbolic):
    check_node("SoftmaxCrossEntropyLoss", *call, outputs=outputs, symbolic=symbolic)


@settings(max_examples=30, deadline=None)
@given(call=losses(), symbolic=st.booleans())
def test_negative_log_likelihood_loss(call, symbolic):
    check_node("NegativeLogLikelihoodLoss", *call, symbolic=symbolic)


@pytest.mark.parametrize("op_type", LOSSES)
@pytest.mark.parametrize("reduction", ["none", "sum", "mean"])
def test_loss_in_float32(op_type, reduction):
    inputs = [normal(4, 3, 2), np.array([[0, 1], [2, 2], [9, 0], [1, 9]]), np.array([1.0, 2.0, 0.5])]
    attributes = {"reduction": reduction, "ignore_index": 9}
    expected = check_node(op_type, inputs, attributes)
    found = gradients_in_float32(op_type, inputs, attributes)
    for name in ("x0", "x2"):
        np.testing.assert_allclose(found[name], expected[name], rtol=1e-4, atol=1e-6)


def test_the_log_probabilities_of_the_forward_pass_are_used():
    model, _ = node_model("SoftmaxCrossEntropyLoss", [normal(2, 3), np.array([0, 2])])
    nodes = to_onnx(grad(model)).graph.node
    assert [len(node.output) for node in nodes if node.op_type == "SoftmaxCrossEntropyLoss"] == [2]
    assert not {"LogSoftmax", "Softmax", "Log"} & {node.op_type for node in nodes}


def test_an_impossible_class_that_is_not_the_label_does_no_harm():
    model, free = node_model("SoftmaxCrossEntropyLoss", [np.array([[-np.inf, 0.0, 0.0]]), [1], np.ones(3)])
    results = mdf_scatter.run(grad(model), free)
    np.testing.assert_allclose(results["x0_grad"], [[0, -0.5, 0.5]], rtol=1e-12)
    np.testing.assert_array_equal(results["x2_grad"], np.zeros(3))


@pytest.mark.parametrize("reduction", ["none", "mean"])
@pytest.mark.parametrize("op_type", [*LOSSES, "Softmax", "LogSoftmax"])
def test_second_derivatives(op_type, reduction):
    if op_type in LOSSES:
        inputs = [normal(3, 4), np.array([1, 0, 2]), np.array([1.0, 2.0, 0.5, 1.5])]
        model, free = node_model(op_type, inputs, {"reduction": reduction, "ignore_index": 0})
    else:
        model, free = node_model(op_type, [normal(3, 4)])
    backward = grad(model)
    port = backward.graphs[0].metadata["gradient"]["of"]["y0"]
    coming = {} if port is None else {port: normal(*Runner(model)(free)["y0"].shape, seed=1)}
    check_model(backward, free | coming)


@pytest.mark.parametrize("reduction", ["none", "sum", "mean"])
def test_cross_entropy_is_torchs(reduction):
    torch = pytest.importorskip("torch")
    scores, labels = normal(4, 3, 2), np.array([[0, 1], [2, 2], [9, 0], [1, 9]])
    weights = np.array([1.0, 2.0, 0.5])
    attributes = {"reduction": reduction, "ignore_index": 9}
    found = check_node("SoftmaxCrossEntropyLoss", [scores, labels, weights], attributes)["x0"]
    leaf = torch.tensor(scores, requires_grad=True)
    loss = torch.nn.functional.cross_entropy(
        leaf, torch.tensor(labels), torch.tensor(weights), ignore_index=9, reduction=reduction
    )
    coming = np.random.default_rng(0).standard_normal(loss.shape) if reduction == "none" else np.ones(())
    loss.backward(torch.tensor(coming))
    np.testing.assert_allclose(found, leaf.grad.numpy(), rtol=1e-10, atol=1e-14)
