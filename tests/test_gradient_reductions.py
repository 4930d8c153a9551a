"""Rules of reductions, products, sums along an axis, and TopK."""

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
from mdf_scatter.errors import UnsupportedError

REDUCTIONS = [
    "ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2",
    "ReduceLogSum", "ReduceLogSumExp", "ReduceSumSquare",
]  # fmt: skip


def spread(shape, seed=0):
    """Numbers between 0.5 and 2 that are all different, in any order: away from ties and from 0."""
    size = int(np.prod(shape))
    return np.random.default_rng(seed).permutation(np.linspace(0.5, 2, size)).reshape(shape)


@st.composite
def reductions(draw):
    shape = tuple(draw(st.lists(st.integers(0, 3), max_size=3)))
    axes = None
    if draw(st.booleans()):
        axes = draw(st.lists(st.integers(0, len(shape) - 1), unique=True)) if shape else []
        axes = np.array([draw(st.sampled_from([axis, axis - len(shape)])) for axis in axes], np.int64)
    attributes = {"keepdims": draw(st.integers(0, 1)), "noop_with_empty_axes": draw(st.integers(0, 1))}
    return shape, axes, attributes


@pytest.mark.parametrize("op_type", REDUCTIONS)
@settings(max_examples=12, deadline=None)
@given(call=reductions(), symbolic=st.booleans(), seed=st.integers(0, 99))
def test_reduction(op_type, call, symbolic, seed):
    shape, axes, attributes = call
    x = spread(shape, seed)
    if op_type in ("ReduceL1", "ReduceL2", "ReduceSumSquare", "ReduceLogSumExp", "ReduceProd"):
        x *= np.random.default_rng(seed).choice([-1, 1], shape)
    constant = () if axes is None else (1,)
    check_node(op_type, [x, axes], attributes, constant=constant, symbolic=symbolic, wrt=["x0"])


@pytest.mark.parametrize("op_type", REDUCTIONS)
@pytest.mark.parametrize("keepdims", [0, 1])
def test_axes_that_are_not_constant(op_type, keepdims):
    x, axes = spread((2, 3, 2)), np.array([-1, 0])
    graph = onnx.parser.parse_graph(
        "g (double[2, 3, 2] x, int64[2] axes) => (double loss) { "
        f"y = {op_type} <keepdims = {keepdims}> (x, axes) z = Mul(y, y) "
        "loss = ReduceSum <keepdims = 0> (z) }"
    )
    proto = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 18)], ir_version=10)
    check_model(from_onnx(proto), {"x": x, "axes": axes}, wrt=["x"])


@pytest.mark.parametrize("op_type", REDUCTIONS)
def test_reduction_in_float32(op_type):
    x = spread((3, 4, 5))
    expected = check_node(op_type, [x, np.array([0, 2])], constant=[1])["x0"]
    found = gradients_in_float32(op_type, [x, np.array([0, 2])], constant=[1])["x0"]
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected, rtol=1e-4)


def gradient_of_x(op_type, x, *others, coming=None, opset=18, outputs=1, symbolic=False, **attributes):
    """Return the gradient of the first input of a node; the others are constant."""
    inputs = [np.asarray(x, np.float64), *others]
    constant = [at for at, value in enumerate(inputs) if at > 0 and value is not None]
    model, free = node_model(
        op_type, inputs, attributes, opset=opset, constant=constant, outputs=outputs, symbolic=symbolic
    )
    backward = grad(model, of="y0", wrt="x0")
    (port,) = backward.graphs[0].metadata["gradient"]["of"].values()
    given = {} if port is None else {port: np.asarray(coming, np.float64)}
    return mdf_scatter.run(backward, free | given)["x0_grad"]


@pytest.mark.parametrize(("op_type", "sign"), [("ReduceMax", 1), ("ReduceMin", -1)])
def test_ties_share_evenly_and_nan_is_sent_on(op_type, sign):
    x = sign * np.array([[3.0, 1.0, 3.0], [0.0, 2.0, 1.0], [np.nan, 1.0, 2.0]])
    found = gradient_of_x(op_type, x, np.array([1]), coming=[[4.0], [5.0], [6.0]])
    np.testing.assert_array_equal(found, [[2, 0, 2], [0, 5, 0], [np.nan] * 3])


def test_norms_have_no_gradient_at_zero():
    x = [[0.0, 0.0], [3.0, -4.0], [0.0, 2.0]]
    coming = [[1.0], [10.0], [1.0]]
    found = gradient_of_x("ReduceL2", x, np.array([1]), coming=coming)
    np.testing.assert_array_equal(found, [[0, 0], [6, -8], [0, 1]])
    found = gradient_of_x("ReduceL1", x, np.array([1]), coming=coming)
    np.testing.assert_array_equal(found, [[0, 0], [10, -10], [0, 1]])


def test_log_sum_exp_of_minus_infinity_is_as_good_as_absent():
    found = gradient_of_x("ReduceLogSumExp", [-np.inf, 2.0, 2.0], keepdims=0)
    np.testing.assert_allclose(found, [0, 0.5, 0.5], rtol=1e-15)


@pytest.mark.parametrize("op_type", ["ReduceMean", "ReduceMax"])
def test_more_elements_than_float16_can_count(op_type):
    model, free = node_model(op_type, [np.ones(2**17, np.float16)], {"keepdims": 0})
    found = mdf_scatter.run(grad(model), free)["x0_grad"]
    assert found.dtype == np.float16
    np.testing.assert_array_equal(found, np.full(2**17, 2.0**-17, np.float16))


# --- products --------------------------------------------------------------------------------------


@pytest.mark.parametrize("symbolic", [False, True])
def test_zeros_in_a_product_are_exact(symbolic):
    x = [[2.0, 3.0, 5.0], [2.0, 0.0, 5.0], [0.0, 0.0, 5.0]]
    found = gradient_of_x("ReduceProd", x, np.array([1]), coming=np.ones((3, 1)), symbolic=symbolic)
    np.testing.assert_array_equal(found, [[15, 10, 6], [0, 10, 0], [0, 0, 0]])


@pytest.mark.parametrize("size", ["N", None])
def test_a_product_in_batches_of_any_size(size):
    given = onnx.helper.make_tensor_value_info("x", onnx.TensorProto.DOUBLE, [size, 5])
    made = onnx.helper.make_tensor_value_info("y", onnx.TensorProto.DOUBLE, [size])
    node = onnx.helper.make_node("ReduceProd", ["x", "axes"], ["y"], name="product", keepdims=0)
    axes = onnx.numpy_helper.from_array(np.array([1]), "axes")
    graph = onnx.helper.make_graph([node], "g", [given], [made], [axes])
    proto = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 18)], ir_version=10)
    model = from_onnx(proto)
    check_model(model, {"x": np.array([[1.0, 2, 3, 4, 5], [0, 2, 3, 4, 5], [0, 0, 1, 2, 3]])})
    assert "Div" not in {node.op_type for node in to_onnx(grad(model)).graph.node}


def test_others_are_exact_where_the_product_overflows():
    found = gradient_of_x("ReduceProd", [1e200, 1e200, 1.0], keepdims=0)
    np.testing.assert_array_equal(found, [1e200, 1e200, np.inf])


def test_all_but_one_of_every_size():
    for size in range(1, 12):
        x = spread((size,), size)
        expected = [np.prod(np.delete(x, at)) for at in range(size)]
        np.testing.assert_allclose(gradient_of_x("ReduceProd", x, keepdims=0), expected, rtol=1e-12)


@settings(max_examples=15, deadline=None)
@given(
    shape=st.lists(st.integers(1, 6), min_size=1, max_size=2).map(tuple),
    exclusive=st.integers(0, 1),
    reverse=st.integers(0, 1),
    data=st.data(),
)
def test_cum_prod(shape, exclusive, reverse, data):
    axis = np.array(data.draw(st.integers(-len(shape), len(shape) - 1)))
    x = spread(shape)
    x.flat[data.draw(st.lists(st.integers(0, x.size - 1), max_size=3))] = 0
    attributes = {"exclusive": exclusive, "reverse": reverse}
    check_node("CumProd", [x, axis], attributes, constant=[1], opset=26)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({}, "the axis is not constant"),
        (
            {"constant": [1], "symbolic": True},
            "the size of the axis is not known; give the graph's inputs fixed shapes",
        ),
    ],
)
def test_cum_prod_needs_the_size(options, reason):
    model, _ = node_model("CumProd", [np.ones(3), np.array(0)], opset=26, **options)
    with pytest.raises(UnsupportedError, match=f"^CumProd 'cumprod': no gradient: {reason}$"):
        grad(model)


# --- along one axis --------------------------------------------------------------------------------


@settings(max_examples=15, deadline=None)
@given(
    shape=st.lists(st.integers(0, 4), min_size=1, max_size=3).map(tuple),
    exclusive=st.integers(0, 1),
    reverse=st.integers(0, 1),
    symbolic=st.booleans(),
    is_constant=st.booleans(),
    data=st.data(),
)
def test_cum_sum(shape, exclusive, reverse, symbolic, is_constant, data):
    axis = np.array(data.draw(st.integers(-len(shape), len(shape) - 1)))
    attributes = {"exclusive": exclusive, "reverse": reverse}
    constant = [1] if is_constant else []
    check_node("CumSum", [spread(shape), axis], attributes, constant=constant, symbolic=symbolic, wrt=["x0"])


@settings(max_examples=15, deadline=None)
@given(
    shape=st.lists(st.integers(1, 4), min_size=1, max_size=3).map(tuple),
    largest=st.integers(0, 1),
    outputs=st.sampled_from([("y0", "y1"), ("y0", "")]),
    symbolic=st.booleans(),
    data=st.data(),
)
def test_top_k(shape, largest, outputs, symbolic, data):
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    k = np.array([data.draw(st.integers(0, shape[axis]))])
    attributes = {"axis": axis, "largest": largest}
    options = {"constant": [1], "outputs": outputs, "symbolic": symbolic}
    check_node("TopK", [spread(shape), k], attributes, **options)


def test_top_k_of_ties_sends_to_those_chosen():
    found = gradient_of_x("TopK", [1.0, 2.0, 2.0, 2.0], np.array([2]), coming=[3.0, 4.0], outputs=2)
    np.testing.assert_array_equal(found, [0, 3, 4, 0])


@pytest.mark.parametrize(("op_type", "other"), [("CumSum", np.array(1)), ("TopK", np.array([2]))])
def test_along_an_axis_in_float32(op_type, other):
    options = {"constant": [1], "outputs": 2 if op_type == "TopK" else 1}
    expected = check_node(op_type, [spread((3, 4)), other], **options)["x0"]
    found = gradients_in_float32(op_type, [spread((3, 4)), other], **options)["x0"]
    np.testing.assert_allclose(found, expected, rtol=1e-5)


# --- second derivatives ----------------------------------------------------------------------------


@pytest.mark.parametrize("op_type", [*REDUCTIONS, "CumSum", "CumProd", "TopK"])
def test_second_derivatives(op_type):
    other = np.array(1) if op_type.startswith("Cum") else np.array([1])
    outputs = 2 if op_type == "TopK" else 1
    model, free = node_model(op_type, [spread((2, 3)), other], constant=[1], outputs=outputs, opset=26)
    check_model(grad(model), free | {"y0_grad": spread(Runner(model)(free)["y0"].shape, 1)})


@pytest.mark.parametrize("keepdims", [0, 1])
@pytest.mark.parametrize("symbolic", [False, True])
def test_second_derivatives_of_a_product_with_zeros(symbolic, keepdims):
    x = np.array([[0.0, 2, 3], [0, 0, 3], [0, 0, 0]])
    options = {"constant": [1], "symbolic": symbolic}
    model, free = node_model("ReduceProd", [x, np.array([1])], {"keepdims": keepdims}, **options)
    coming = np.array([2.0, 3.0, 4.0]).reshape((3, 1) if keepdims else 3)
    found = check_model(grad(model), free | {"y0_grad": coming})
    assert found["x0"].any()


def test_second_derivatives_of_a_product_of_all_sizes_unknown():
    x = np.array([[0.0, 2.0], [3.0, 0.0]])
    model, free = node_model("ReduceProd", [x], {"keepdims": 0}, symbolic=True)
    check_model(grad(model), free)
