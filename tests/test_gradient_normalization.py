"""Rules of normalisations. Each epsilon is large, so that it takes part."""

from __future__ import annotations

import numpy as np
import onnx
import onnx.parser
import pytest
from central import check_model, check_node, gradients_in_float32, node_model
from hypothesis import given, settings
from hypothesis import strategies as st

import mdf_scatter
from mdf_scatter import Runner, from_onnx, grad, to_onnx

SHAPES = st.lists(st.integers(1, 4), min_size=1, max_size=3).map(tuple)
CHANNELS = st.lists(st.integers(1, 3), min_size=2, max_size=4).map(tuple)
LARGE = {"epsilon": 0.1}


def normal(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape)


def positive(*shape, seed=0):
    return np.random.default_rng(seed).uniform(0.5, 2, shape)


def per_channel(x, count=4):
    """Scale, bias, mean and variance, or the first of these."""
    size = x.shape[1] if x.ndim > 1 else 1
    return [normal(size, seed=1), normal(size, seed=2), normal(size, seed=3), positive(size)][:count]


# --- over the last axes ----------------------------------------------------------------------------


@settings(max_examples=20, deadline=None)
@given(
    shape=SHAPES, is_broadcast=st.booleans(), has_bias=st.booleans(), symbolic=st.booleans(), data=st.data()
)
def test_layer_normalization(shape, is_broadcast, has_bias, symbolic, data):
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    inner = (*shape[axis:-1], 1) if is_broadcast else shape[axis:]
    bias = normal(*inner, seed=2) if has_bias else None
    inputs = [normal(*shape), normal(*inner, seed=1), bias]
    check_node("LayerNormalization", inputs, {"axis": axis, **LARGE}, symbolic=symbolic)


@settings(max_examples=15, deadline=None)
@given(shape=SHAPES, symbolic=st.booleans(), data=st.data())
def test_rms_normalization(shape, symbolic, data):
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    inputs = [normal(*shape), normal(*shape[axis:], seed=1)]
    check_node("RMSNormalization", inputs, {"axis": axis, **LARGE}, symbolic=symbolic, opset=23)


def test_statistics_of_the_forward_pass_are_used():
    x = np.float32(normal(2, 3))
    model, _ = node_model("LayerNormalization", [x, np.ones(3, np.float32), np.ones(3, np.float32)])
    nodes = to_onnx(grad(model)).graph.node
    assert [len(node.output) for node in nodes if node.op_type == "LayerNormalization"] == [3]
    assert "Sqrt" not in {node.op_type for node in nodes}


def test_gradients_of_mean_and_deviation():
    """Compare with differences in float64 of what the outputs stand for; they are float32 themselves."""
    x, scale, bias = normal(2, 3, 4), normal(3, 4, seed=1), normal(3, 4, seed=2)
    attributes = {"axis": 1, **LARGE}
    found = gradients_in_float32("LayerNormalization", [x, scale, bias], attributes, outputs=3)["x0"]
    rng = np.random.default_rng(0)
    coming = [rng.standard_normal(shape) for shape in ((2, 3, 4), (2, 1, 1), (2, 1, 1))]

    def loss(x):
        mean = x.mean((1, 2), keepdims=True)
        deviation = 1 / np.sqrt(x.var((1, 2), keepdims=True) + 0.1)
        outputs = [(x - mean) * deviation * scale + bias, mean, deviation]
        return sum((grad * output).sum() for grad, output in zip(coming, outputs, strict=True))

    np.testing.assert_allclose(found, differences(loss, x), rtol=1e-3, atol=1e-5)


def differences(loss, x, step=1e-6):
    steps = step * np.eye(x.size).reshape(x.size, *x.shape)
    return np.array([(loss(x + d) - loss(x - d)) / (2 * step) for d in steps]).reshape(x.shape)


# --- over each channel -----------------------------------------------------------------------------


@settings(max_examples=15, deadline=None)
@given(shape=CHANNELS.filter(lambda shape: len(shape) > 2), symbolic=st.booleans())
def test_instance_normalization(shape, symbolic):
    x = normal(*shape)
    check_node("InstanceNormalization", [x, *per_channel(x, 2)], LARGE, symbolic=symbolic)


@settings(max_examples=15, deadline=None)
@given(shape=CHANNELS | st.just((4,)), symbolic=st.booleans())
def test_batch_normalization(shape, symbolic):
    x = normal(*shape)
    check_node("BatchNormalization", [x, *per_channel(x)], LARGE, symbolic=symbolic)


@settings(max_examples=15, deadline=None)
@given(shape=CHANNELS, symbolic=st.booleans())
def test_batch_normalization_in_training(shape, symbolic):
    x = normal(*shape)
    attributes = {"training_mode": 1, "momentum": 0.75, **LARGE}
    check_node("BatchNormalization", [x, *per_channel(x)], attributes, outputs=3, symbolic=symbolic)


def test_in_training_the_running_statistics_get_what_their_outputs_get():
    x = normal(3, 2, 2)
    inputs = [x, *per_channel(x)]
    attributes = {"training_mode": 1, "momentum": 0.75}
    model, free = node_model("BatchNormalization", inputs, attributes, outputs=3)
    found = mdf_scatter.run(grad(model, of="y0", wrt=["x3", "x4"]), free | {"y0_grad": x})
    np.testing.assert_array_equal([found["x3_grad"], found["x4_grad"]], np.zeros((2, 2)))
    found = mdf_scatter.run(grad(model, of="y1", wrt=["x3", "x4"]), free | {"y1_grad": [4.0, 8.0]})
    np.testing.assert_array_equal([found["x3_grad"], found["x4_grad"]], [[3, 6], [0, 0]])


@pytest.mark.parametrize("shape", [(2, 4, 3), (3, 4, 2, 2)])
@pytest.mark.parametrize("groups", [1, 2, 4])
def test_group_normalization(shape, groups):
    """ONNX defines it in float32, in which differences say little; these are of the formula in float64."""
    x, scale, bias = normal(*shape), normal(4, seed=1), normal(4, seed=2)
    coming = normal(*shape, seed=3)

    def output(x, scale, bias):
        grouped = x.reshape(len(x), groups, -1)
        deviation = np.sqrt(grouped.var(-1, keepdims=True) + 0.1)
        standard = ((grouped - grouped.mean(-1, keepdims=True)) / deviation).reshape(len(x), 4, -1)
        return (standard * scale[:, np.newaxis] + bias[:, np.newaxis]).reshape(x.shape)

    graph = onnx.parser.parse_graph(
        f"g (double{list(shape)} x, double[4] scale, double[4] bias) => (double{list(shape)} z) "
        f"{{ y = GroupNormalization <epsilon = 0.1, num_groups = {groups}> (x, scale, bias) z = Neg(y) }}"
    )
    proto = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 21)], ir_version=10)
    feed = {"x": x, "scale": scale, "bias": bias}
    found = mdf_scatter.run(grad(from_onnx(proto)), feed | {"z_grad": -coming})
    for name, value in feed.items():
        expected = differences(
            lambda value, name=name: (output(**feed | {name: value}) * coming).sum(), value
        )
        np.testing.assert_allclose(found[f"{name}_grad"], expected, rtol=1e-4, atol=1e-4)


# --- others ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("axes", [None, [0, 2, 3], [1], [-1, 0]])
def test_mean_variance_normalization(axes):
    """No engine has it in float64; these differences are of the formula."""
    x = normal(2, 3, 2, 2)
    coming = normal(*x.shape, seed=1)
    graph = onnx.parser.parse_graph(
        "g (float[2, 3, 2, 2] x) => (float[2, 3, 2, 2] y) "
        f"{{ y = MeanVarianceNormalization {f'<axes = {axes}>' if axes else ''} (x) }}"
    )
    proto = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 18)], ir_version=10)
    feed = {"x": np.float32(x), "y_grad": np.float32(coming)}
    found = mdf_scatter.run(grad(from_onnx(proto)), feed)["x_grad"]
    along = tuple(axes or [0, 2, 3])

    def loss(x):
        centred = x - x.mean(along, keepdims=True)
        return (coming * centred / (x.std(along, keepdims=True) + 1e-9)).sum()

    np.testing.assert_allclose(found, differences(loss, x), rtol=1e-3, atol=1e-4)


@settings(max_examples=15, deadline=None)
@given(shape=SHAPES, p=st.integers(1, 2), symbolic=st.booleans(), data=st.data())
def test_lp_normalization(shape, p, symbolic, data):
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    x = positive(*shape) * np.random.default_rng(1).choice([-1, 1], shape)
    check_node("LpNormalization", [x], {"axis": axis, "p": p}, symbolic=symbolic)


@pytest.mark.parametrize("p", [1, 2])
def test_there_is_no_direction_at_zero(p):
    model, free = node_model("LpNormalization", [np.array([[0.0, 0.0], [3.0, -4.0]])], {"p": p})
    found = mdf_scatter.run(grad(model), free | {"y0_grad": np.array([[1.0, 2.0], [1.0, 0.0]])})["x0_grad"]
    expected = [4 / 49, 3 / 49] if p == 1 else [16 / 125, 12 / 125]
    np.testing.assert_allclose(found, [[0, 0], expected], rtol=1e-12)


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 9])
@pytest.mark.parametrize("symbolic", [False, True])
def test_lrn(size, symbolic):
    # ONNX's evaluator, which computes it in float64, has as many channels right as there are instances.
    attributes = {"size": size, "alpha": 0.5, "beta": 0.6, "bias": 1.5}
    check_node("LRN", [normal(4, 4, 2, 1)], attributes, symbolic=symbolic)


# --- everywhere ------------------------------------------------------------------------------------

CASES = {
    "LayerNormalization": ([normal(2, 3), normal(3, seed=1), normal(3, seed=2)], LARGE),
    "RMSNormalization": ([normal(2, 3), normal(3, seed=1)], LARGE),
    "InstanceNormalization": ([normal(2, 3, 4), *per_channel(normal(2, 3, 4), 2)], LARGE),
    "BatchNormalization": ([normal(2, 3, 4), *per_channel(normal(2, 3, 4))], LARGE),
    "LpNormalization": ([positive(2, 3)], {}),
    "LRN": ([normal(3, 3, 1, 2)], {"size": 3, "alpha": 0.5, "bias": 1.5}),
}


@pytest.mark.parametrize("op_type", CASES)
def test_in_float32(op_type):
    inputs, attributes = CASES[op_type]
    expected = check_node(op_type, inputs, attributes, opset=23)
    found = gradients_in_float32(op_type, inputs, attributes, opset=23)
    assert "x0" in found
    for name, gradient in found.items():
        assert gradient.dtype == np.float32
        np.testing.assert_allclose(gradient, expected[name], rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("op_type", ["LayerNormalization", "RMSNormalization", "BatchNormalization"])
def test_half_precision_computes_in_float32(op_type):
    inputs, attributes = CASES[op_type]
    inputs = [1000 * inputs[0], *inputs[1:]] if op_type != "BatchNormalization" else inputs
    rounded = [np.float16(array) for array in inputs]
    expected = check_node(op_type, [np.float64(array) for array in rounded], attributes, opset=23)
    model, free = node_model(op_type, rounded, attributes, opset=23)
    coming = np.random.default_rng(0).standard_normal(inputs[0].shape)
    results = mdf_scatter.run(grad(model, wrt=list(free)), free | {"y0_grad": np.float16(coming)})
    for name, gradient in expected.items():
        assert results[f"{name}_grad"].dtype == np.float16
        np.testing.assert_allclose(results[f"{name}_grad"], gradient, rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("op_type", CASES)
def test_second_derivatives(op_type):
    inputs, attributes = CASES[op_type]
    model, free = node_model(op_type, inputs, attributes, opset=23)
    check_model(grad(model), free | {"y0_grad": normal(*Runner(model)(free)["y0"].shape, seed=4)})


def test_second_derivatives_in_training():
    inputs, _ = CASES["BatchNormalization"]
    model, free = node_model("BatchNormalization", inputs, {"training_mode": 1, **LARGE}, outputs=3)
    check_model(grad(model, of="y0", wrt="x0"), free | {"y0_grad": normal(2, 3, 4, seed=4)})
