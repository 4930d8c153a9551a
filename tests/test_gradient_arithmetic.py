"""Rules of operators on several tensors, broadcast, and of those that pass a value on."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from central import check_model, check_node, node_model, onnxruntime_session
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as shapes
from models import onnx_model
from onnx import TensorProto, helper

from mdf_scatter import from_onnx, grad, run, to_onnx
from mdf_scatter.gradient.parameters import parameters_of

RNG = np.random.default_rng(0)
BINARY = ["Add", "Sub", "Mul", "Div", "Pow", "Mod"]
SEVERAL = ["Sum", "Mean", "Max", "Min"]


def positive(*shape: int) -> np.ndarray:
    return RNG.uniform(0.4, 2.7, shape)


def attributes_of(op_type: str) -> dict[str, Any]:
    return {"fmod": 1} if op_type == "Mod" else {}


PAIRS = [
    ((2, 3), (2, 3)),
    ((2, 3), (3,)),
    ((1, 3), (2, 1)),
    ((), (2, 3)),
    ((2, 1, 3), (4, 1)),
    ((1,), ()),
    ((0, 3), (1, 3)),
]


@pytest.mark.parametrize("symbolic", [False, True])
@pytest.mark.parametrize("pair", PAIRS, ids=str)
@pytest.mark.parametrize("op_type", BINARY)
def test_binary(op_type: str, pair: tuple[tuple[int, ...], tuple[int, ...]], symbolic: bool) -> None:
    inputs = [positive(*shape) for shape in pair]
    check_node(op_type, inputs, attributes_of(op_type), symbolic=symbolic)


@pytest.mark.parametrize("op_type", BINARY)
def test_second_derivative(op_type: str) -> None:
    model, given_values = node_model(op_type, [positive(2, 3), positive(3)], attributes_of(op_type))
    check_model(grad(model), given_values | {"y0_grad": positive(2, 3)})


@settings(max_examples=20, deadline=None)
@given(
    st.sampled_from(SEVERAL),
    shapes.mutually_broadcastable_shapes(num_shapes=3, max_dims=3, max_side=3, min_side=0),
    st.integers(1, 3),
    st.booleans(),
)
def test_several(op_type: str, broadcast: shapes.BroadcastableShapes, count: int, symbolic: bool) -> None:
    given_shapes = list(broadcast.input_shapes[:count])
    if op_type == "Mean":
        # ONNX's evaluator, which is who computes it in float64, adds in place to the first.
        given_shapes[0] = np.broadcast_shapes(*given_shapes)
    check_node(op_type, [positive(*shape) for shape in given_shapes], symbolic=symbolic)


@pytest.mark.parametrize("op_type", SEVERAL)
def test_second_derivative_of_several(op_type: str) -> None:
    model, given_values = node_model(op_type, [positive(2, 3), positive(3), positive(2, 1)])
    check_model(grad(model), given_values | {"y0_grad": positive(2, 3)})


def gradients(op_type: str, *inputs: Any, **attributes: Any) -> list[Any]:
    arrays = [np.asarray(value, np.float64) for value in inputs]
    model, given_values = node_model(op_type, arrays, attributes)
    names = list(given_values)
    with np.errstate(all="ignore"):
        coming = np.ones(np.broadcast_shapes(*(array.shape for array in arrays)))
        found = run(grad(model, wrt=names), given_values | {"y0_grad": coming})
    return [found[f"{name}_grad"].tolist() for name in names]


def test_an_input_used_twice_gets_both_gradients() -> None:
    node = helper.make_node("Mul", ["x", "x"], ["y"])
    model = from_onnx(onnx_model([node], {"x": (TensorProto.DOUBLE, [3])}, {"y": (TensorProto.DOUBLE, [3])}))
    check_model(model, {"x": np.array([1.0, -2.0, 3.0])})


def test_ties_share_evenly_and_nan_gives_nan() -> None:
    nan = float("nan")
    found = gradients("Max", [1.0, 2.0, nan, 5.0], [1.0, 1.0, 2.0, nan], [1.0, 2.0, 0.0, 1.0])
    np.testing.assert_array_equal(found[0], [1 / 3, 0.5, nan, nan])
    np.testing.assert_array_equal(found[1], [1 / 3, 0, nan, nan])
    np.testing.assert_array_equal(found[2], [1 / 3, 0.5, nan, nan])
    assert gradients("Min", [1.0, 2.0], 1.0) == [[0.5, 0], 1.5]


# Pow: what its exponent may be.
BASES = np.array([[-1.5, 0.7, 2.0], [0.3, -0.2, 1.1]])


@pytest.mark.parametrize("symbolic", [False, True])
@pytest.mark.parametrize("exponent", [-2.0, -1.0, 0.0, 1.0, 2.0, 3.0, 4.0, [2.0, 0.0, 3.0], [[1.0], [2.0]]])
def test_power_with_a_constant_exponent(exponent: Any, symbolic: bool) -> None:
    model, given_values = node_model("Pow", [BASES, np.array(exponent)], constant=[1], symbolic=symbolic)
    check_model(model, given_values)
    check_model(grad(model), given_values | {"y0_grad": positive(2, 3)})


@pytest.mark.parametrize("exponent", [0.5, -0.5, 1.5, 2.3])
def test_power_with_a_broken_exponent(exponent: float) -> None:
    check_node("Pow", [np.abs(BASES), np.array(exponent)], constant=[1])


@pytest.mark.parametrize("constant", [[1], []])
@pytest.mark.parametrize("dtype", [np.int64, np.int32, np.float32])
def test_power_with_an_exponent_of_another_dtype(dtype: Any, constant: list[int]) -> None:
    exponent = np.array([2, 3, 0], dtype)
    model, given_values = node_model("Pow", [BASES, exponent], constant=constant)
    check_model(model, given_values)
    check_model(grad(model, wrt="x0"), given_values | {"y0_grad": positive(2, 3)})


def test_exponent_keeps_its_dtype() -> None:
    model, given_values = node_model("Pow", [np.abs(BASES), np.array([2, 0.5, 1], np.float32)])
    found = run(grad(model, wrt=["x1"]), given_values | {"y0_grad": np.ones((2, 3))})["x1_grad"]
    expected = (np.abs(BASES) ** [2, 0.5, 1] * np.log(np.abs(BASES))).sum(axis=0)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected, rtol=1e-6)


@pytest.mark.parametrize("base", [2.0, [0.5, 3.0, 1.0]])
def test_power_of_a_constant_base(base: Any) -> None:
    model, given_values = node_model("Pow", [np.array(base), BASES], constant=[0])
    check_model(model, given_values)
    check_model(grad(model), given_values | {"y0_grad": positive(2, 3)})


@pytest.mark.parametrize("constant", [[1], []])
@pytest.mark.parametrize(
    ("exponent", "slope"), [(0.0, 0), (1.0, 1), (2.0, 0), (0.5, np.inf), (-1.0, -np.inf)]
)
def test_slope_of_powers_at_zero(exponent: float, slope: float, constant: list[int]) -> None:
    model, given_values = node_model("Pow", [np.zeros(1), np.array(exponent)], constant=constant)
    with np.errstate(all="ignore"):
        found = run(grad(model, wrt="x0"), given_values | {"y0_grad": np.ones(1)})
    assert found["x0_grad"].tolist() == [slope]


def test_slope_in_the_exponent_at_base_zero_is_zero_and_of_a_negative_base_nan() -> None:
    found = gradients("Pow", [0.0, 0.0, -2.0], [0.0, 2.0, 2.0])
    np.testing.assert_array_equal(found, [[0, 0, -4], [0, 0, np.nan]])


def test_an_exponent_that_is_trained_may_change() -> None:
    node = helper.make_node("Pow", ["x", "e"], ["y"])
    kinds = (TensorProto.DOUBLE, [2])
    model = from_onnx(onnx_model([node], {"x": kinds}, {"y": kinds}, {"e": np.array([2.0, 3.0])}))
    backward = grad(model, wrt=["x", "e"])
    for _, parameter in parameters_of(backward)["e"]:
        parameter.value = np.array([3.0, 1.0])
    x = np.array([2.0, 5.0])
    found = run(backward, {"x": x, "y_grad": np.ones(2)})
    np.testing.assert_allclose(found["x_grad"], [12, 1])
    np.testing.assert_allclose(found["e_grad"], [8 * np.log(2), 5 * np.log(5)])


def test_remainder_of_numbers_of_either_sign() -> None:
    check_node("Mod", [np.array([-7.3, 7.3, -7.3, 7.3]), np.array([2.0, -2.0, -2.0, 2.0])], {"fmod": 1})


# What chooses, and what passes a value on.
@pytest.mark.parametrize("symbolic", [False, True])
@pytest.mark.parametrize("pair", PAIRS[:5], ids=str)
def test_where(pair: tuple[tuple[int, ...], tuple[int, ...]], symbolic: bool) -> None:
    inputs = [np.array([True, False, True]), positive(*pair[0]), positive(*pair[1])]
    check_node("Where", inputs, symbolic=symbolic)


def test_second_derivative_of_where() -> None:
    model, given_values = node_model("Where", [np.array([True, False, True]), positive(2, 3), positive(3)])
    check_model(grad(model), given_values | {"y0_grad": positive(2, 3)})


def test_where_keeps_nan_on_the_side_that_is_not_taken() -> None:
    model, given_values = node_model("Where", [np.array([True, False]), positive(2), np.array([np.nan, 1.0])])
    found = run(grad(model), given_values | {"y0_grad": np.array([3.0, np.nan])})
    np.testing.assert_array_equal(found["x1_grad"], [3, 0])
    np.testing.assert_array_equal(found["x2_grad"], [0, np.nan])


def test_identity() -> None:
    check_node("Identity", [positive(2, 3)])


@pytest.mark.parametrize("to", [np.float32, np.float16, ml_dtypes.bfloat16])
def test_casts_go_back_to_the_dtype_of_the_input(to: Any) -> None:
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(to))
    like = np.ones((), to)
    for op_type, inputs, attributes in [("Cast", [], {"to": kind}), ("CastLike", [like], {})]:
        model, given_values = node_model(op_type, [positive(2, 3), *inputs], attributes, opset=19)
        coming = np.arange(6, dtype=to).reshape(2, 3)
        backward = grad(model, wrt="x0")
        found = run(backward, given_values | {"y0_grad": coming})["x0_grad"]
        assert found.dtype == np.float64
        assert found.tolist() == coming.astype(np.float64).tolist()


def test_nothing_comes_back_through_integers() -> None:
    nodes = [
        helper.make_node("Cast", ["x"], ["i"], to=TensorProto.INT64),
        helper.make_node("Cast", ["i"], ["f"], to=TensorProto.DOUBLE),
        helper.make_node("Mul", ["x", "f"], ["y"]),
    ]
    kinds = (TensorProto.DOUBLE, [3])
    model = from_onnx(onnx_model(nodes, {"x": kinds}, {"y": kinds}))
    assert check_model(model, {"x": np.array([1.5, 2.5, -3.5])})["x"].shape == (3,)


@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize("op_type", [*BINARY, *SEVERAL])
def test_gradients_have_the_dtype_of_the_inputs(op_type: str, dtype: Any) -> None:
    inputs = [positive(2, 3).astype(dtype), positive(3).astype(dtype)]
    exact_inputs = [array.astype(np.float64) for array in inputs]
    found = _both(op_type, inputs, np.ones((2, 3), dtype))
    exact = _both(op_type, exact_inputs, np.ones((2, 3)))
    for ours, expected in zip(found, exact, strict=True):
        assert ours.dtype == dtype
        tolerance = 16 * float(ml_dtypes.finfo(dtype).eps)
        np.testing.assert_allclose(ours.astype(np.float64), expected, rtol=tolerance, atol=tolerance)


def _both(op_type: str, inputs: list[np.ndarray], coming: np.ndarray) -> list[np.ndarray]:
    model, given_values = node_model(op_type, inputs, attributes_of(op_type))
    found = run(grad(model, wrt=["x0", "x1"]), given_values | {"y0_grad": coming})
    return [found["x0_grad"], found["x1_grad"]]


@pytest.mark.parametrize("op_type", [*BINARY, *SEVERAL])
def test_onnxruntime_has_all_operators_of_the_gradient(op_type: str) -> None:
    inputs = [positive(2, 3).astype(np.float32), positive(3).astype(np.float32)]
    model, _ = node_model(op_type, inputs, attributes_of(op_type))
    assert onnxruntime_session(to_onnx(grad(model, wrt=["x0", "x1"]))) is not None


# Dropout.
def test_dropout_outside_training_passes_everything() -> None:
    x = positive(2, 3)
    for inputs in ([x], [x, np.array(0.3)], [x, np.array(0.3), np.array(False)]):
        check_node("Dropout", inputs, constant=range(1, len(inputs)))


@pytest.mark.parametrize("mask", [True, False])
@pytest.mark.parametrize("ratio", [0.25, None])
@pytest.mark.parametrize("fixed", [True, False])
def test_dropout_in_training_uses_the_mask_of_the_forward_pass(
    mask: bool, ratio: float | None, fixed: bool
) -> None:
    x = positive(40)
    inputs = [x, None if ratio is None else np.array(ratio), np.array(True)]
    constant = [at for at in (1, 2) if inputs[at] is not None and (fixed or at == 1)]
    model, given_values = node_model(
        "Dropout", inputs, {"seed": 3}, outputs=2 if mask else 1, constant=constant
    )
    found = run(grad(model, of="y0", wrt="x0"), given_values | {"y0_grad": np.ones(40)})
    kept = found["y0"] != 0
    assert 0 < kept.sum() < 40
    np.testing.assert_allclose(found["x0_grad"], np.where(kept, 1 / (1 - (ratio or 0.5)), 0))
    np.testing.assert_allclose(found["x0_grad"] * x, found["y0"])


def test_dropout_in_training_in_onnxruntime() -> None:
    x = positive(40).astype(np.float32)
    model, given_values = node_model("Dropout", [x, np.array(0.5, np.float32), np.array(True)], constant=[1])
    backward: onnx.ModelProto = to_onnx(grad(model, wrt="x0"))
    session = onnxruntime_session(backward)
    for training in (True, False):
        feed = given_values | {"x2": np.array(training), "y0_grad": np.ones(40, np.float32)}
        y, slope = session.run(["y0", "x0_grad"], feed)
        np.testing.assert_allclose(slope * x, y)
        assert (slope == 0).any() == training
