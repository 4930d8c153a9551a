"""Rules of functions of one number, and of activations, against central differences."""

from __future__ import annotations

from typing import Any

import central
import ml_dtypes
import numpy as np
import pytest
from central import check_model, check_node, node_model, onnxruntime_session
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as shapes

from mdf_scatter import grad, run, to_onnx

REAL = np.array([[-2.3, -0.6, 0.4], [0.8, 1.7, 5.1]])
POSITIVE = np.array([[0.1, 0.4, 0.9], [1.3, 2.6, 7.5]])
INSIDE = np.array([[-0.9, -0.4, -0.1], [0.2, 0.6, 0.8]])
WIDE = np.array([[-31.0, -4.2, -3.4], [3.3, 4.8, 33.0]])

CASES: dict[str, tuple[str, np.ndarray, dict[str, Any]]] = {
    "Neg": ("Neg", REAL, {}),
    "Abs": ("Abs", REAL, {}),
    "Reciprocal": ("Reciprocal", REAL, {}),
    "Sqrt": ("Sqrt", POSITIVE, {}),
    "Exp": ("Exp", REAL, {}),
    "Log": ("Log", POSITIVE, {}),
    "Sin": ("Sin", REAL, {}),
    "Cos": ("Cos", REAL, {}),
    "Tan": ("Tan", INSIDE, {}),
    "Sinh": ("Sinh", REAL, {}),
    "Cosh": ("Cosh", REAL, {}),
    "Tanh": ("Tanh", REAL, {}),
    "Asin": ("Asin", INSIDE, {}),
    "Acos": ("Acos", INSIDE, {}),
    "Atan": ("Atan", REAL, {}),
    "Asinh": ("Asinh", REAL, {}),
    "Acosh": ("Acosh", 1 + POSITIVE, {}),
    "Atanh": ("Atanh", INSIDE, {}),
    "Erf": ("Erf", REAL, {}),
    "Sigmoid": ("Sigmoid", REAL, {}),
    "Sigmoid far out": ("Sigmoid", WIDE, {}),
    "Softplus": ("Softplus", REAL, {}),
    "Softplus far out": ("Softplus", WIDE, {}),
    "Softsign": ("Softsign", REAL, {}),
    "Relu": ("Relu", REAL, {}),
    "LeakyRelu": ("LeakyRelu", REAL, {}),
    "LeakyRelu alpha": ("LeakyRelu", REAL, {"alpha": 0.3}),
    "Elu": ("Elu", REAL, {}),
    "Elu alpha": ("Elu", REAL, {"alpha": 0.7}),
    "Celu": ("Celu", REAL, {}),
    "Celu alpha": ("Celu", REAL, {"alpha": 2.5}),
    "Selu": ("Selu", REAL, {}),
    "Selu alpha": ("Selu", REAL, {"alpha": 0.5, "gamma": 2.0}),
    "ThresholdedRelu": ("ThresholdedRelu", REAL, {}),
    "ThresholdedRelu alpha": ("ThresholdedRelu", REAL, {"alpha": -1.0}),
    "HardSigmoid": ("HardSigmoid", REAL, {}),
    "HardSigmoid alpha": ("HardSigmoid", REAL, {"alpha": -0.4, "beta": 0.3}),
    "HardSwish": ("HardSwish", REAL, {}),
    "HardSwish far out": ("HardSwish", WIDE, {}),
    "Swish": ("Swish", REAL, {}),
    "Swish alpha": ("Swish", REAL, {"alpha": 1.7}),
    "Mish": ("Mish", REAL, {}),
    "Mish far out": ("Mish", WIDE, {}),
    "Gelu": ("Gelu", REAL, {}),
    "Gelu by tanh": ("Gelu", REAL, {"approximate": "tanh"}),
    "Shrink": ("Shrink", REAL, {"lambd": 0.5}),
    "Shrink bias": ("Shrink", REAL, {"lambd": 0.7, "bias": 0.2}),
}
OPSETS = {"Swish": 24, "Gelu": 20, "Celu": 28}
SINGLE = {"Erf", "Gelu", "Shrink"}
"""Operators that onnxruntime or ONNX's evaluator compute in float32, whatever the dtype."""

NEW = {"Swish", "Celu"}
"""Operators of operator sets that onnxruntime may not know yet."""


def model_of(case: str, **options: Any) -> tuple[Any, dict[str, np.ndarray]]:
    op_type, x, attributes = CASES[case]
    return node_model(op_type, [x], attributes, opset=OPSETS.get(op_type, 18), **options)


@pytest.fixture
def rtol(case: str, monkeypatch: pytest.MonkeyPatch) -> float:
    """A tolerance, and differences as wide as the forward pass is exact."""
    if CASES[case][0] not in SINGLE:
        return 1e-5
    monkeypatch.setattr(central, "STEP", 2e-3)
    return 1e-3


@pytest.mark.parametrize("case", CASES)
def test_slope(case: str, rtol: float) -> None:
    check_model(*model_of(case), rtol=rtol)


@pytest.mark.parametrize("case", CASES)
def test_second_derivative_and_sizes_that_are_not_known(case: str, rtol: float) -> None:
    model, given_values = model_of(case, symbolic=True)
    given_values["y0_grad"] = np.linspace(-1.0, 2.0, 6).reshape(2, 3)
    check_model(grad(model), given_values, rtol=rtol)


@settings(max_examples=15, deadline=None)
@given(
    st.sampled_from(["Tanh", "Mish", "Elu", "HardSwish"]),
    shapes.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3),
    st.booleans(),
)
def test_any_shape(op_type: str, shape: tuple[int, ...], symbolic: bool) -> None:
    x = 0.1 + np.random.default_rng(1).uniform(0, 2, shape)
    check_node(op_type, [x], opset=OPSETS.get(op_type, 18), symbolic=symbolic)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16])
def test_gradients_have_the_dtype_of_the_input(case: str, dtype: Any) -> None:
    op_type, x, attributes = CASES[case]
    opset = OPSETS.get(op_type, 22)
    exact_model, _ = node_model(op_type, [x.astype(dtype).astype(np.float64)], attributes, opset=opset)
    model, _ = node_model(op_type, [x.astype(dtype)], attributes, opset=opset)
    ones = np.ones(x.shape)
    exact = run(grad(exact_model), {"x0": x.astype(dtype).astype(np.float64), "y0_grad": ones})["x0_grad"]
    found = run(grad(model), {"x0": x.astype(dtype), "y0_grad": ones.astype(dtype)})["x0_grad"]
    assert found.dtype == dtype
    tolerance = 8 * float(ml_dtypes.finfo(dtype).eps)
    np.testing.assert_allclose(found.astype(np.float64), exact, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("case", CASES)
def test_onnxruntime_has_all_operators_of_the_gradient(case: str) -> None:
    op_type, x, attributes = CASES[case]
    model, _ = node_model(op_type, [x.astype(np.float32)], attributes, opset=OPSETS.get(op_type, 18))
    session = onnxruntime_session(to_onnx(grad(model)))
    assert session is not None or op_type in NEW


def slope_at(op_type: str, points: list[float], **attributes: Any) -> list[float]:
    x = np.array(points)
    model, _ = node_model(op_type, [x], attributes, opset=OPSETS.get(op_type, 18))
    found: list[float] = run(grad(model), {"x0": x, "y0_grad": np.ones_like(x)})["x0_grad"].tolist()
    return found


@pytest.mark.parametrize(
    ("op_type", "attributes", "points", "slopes"),
    [
        ("Abs", {}, [0.0, -0.0], [0, 0]),
        ("Relu", {}, [0.0, -0.0], [0, 0]),
        ("LeakyRelu", {"alpha": 0.25}, [0.0], [0.25]),
        ("Elu", {"alpha": 0.5}, [0.0], [0.5]),
        ("Celu", {"alpha": 0.5}, [0.0], [1]),
        ("Selu", {"alpha": 2.0, "gamma": 3.0}, [0.0], [6]),
        ("ThresholdedRelu", {"alpha": 1.0}, [1.0], [0]),
        ("HardSigmoid", {"alpha": 0.5, "beta": 0.5}, [-1.0, 0.0, 1.0], [0, 0.5, 0]),
        ("HardSwish", {}, [-3.0, 3.0], [0, 1]),
        ("Shrink", {"lambd": 0.5}, [-0.5, 0.5], [0, 0]),
    ],
)
def test_slope_at_kinks_is_that_of_torch(
    op_type: str, attributes: dict[str, Any], points: list[float], slopes: list[float]
) -> None:
    assert slope_at(op_type, points, **attributes) == slopes


@pytest.mark.parametrize(
    ("op_type", "points", "slopes"),
    [
        ("Sigmoid", [-800.0, 800.0], [0, 0]),
        ("Softplus", [-800.0, 800.0], [0, 1]),
        ("Tanh", [-400.0, 400.0], [0, 0]),
        ("Softsign", [-1e200, 1e200], [0, 0]),
        ("Atan", [-1e200, 1e200], [0, 0]),
        ("Erf", [-1e200, 1e200], [0, 0]),
        ("Elu", [-800.0, 800.0], [0, 1]),
        ("Gelu", [-50.0, 50.0], [0, 1]),
        ("Mish", [-800.0, 800.0], [0, 1]),
        ("Sqrt", [0.0, np.inf], [np.inf, 0]),
        ("Log", [0.0, np.inf], [np.inf, 0]),
    ],
)
def test_slope_far_out_is_its_limit(op_type: str, points: list[float], slopes: list[float]) -> None:
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(slope_at(op_type, points), slopes, atol=1e-300)


@pytest.mark.parametrize("symbolic", [False, True])
@pytest.mark.parametrize("shape", [(2, 3), (3,), (1,), (), (2, 1)])
def test_prelu(shape: tuple[int, ...], symbolic: bool) -> None:
    slope = np.random.default_rng(2).uniform(0.1, 1, shape)
    model, given_values = node_model("PRelu", [REAL, slope], symbolic=symbolic and shape != ())
    check_model(model, given_values)
    given_values["y0_grad"] = np.linspace(-1.0, 2.0, 6).reshape(2, 3)
    check_model(grad(model), given_values)


def test_prelu_at_zero_has_the_slope() -> None:
    model, _ = node_model("PRelu", [np.zeros(2), np.array([0.25, 3.0])])
    given_values = {"x0": np.zeros(2), "x1": np.array([0.25, 3.0]), "y0_grad": np.ones(2)}
    found = run(grad(model), given_values)
    assert found["x0_grad"].tolist() == [0.25, 3.0]
    assert found["x1_grad"].tolist() == [0, 0]


LOW, HIGH = np.array(-0.5), np.array(1.2)


@pytest.mark.parametrize(
    "bounds", [(LOW, HIGH), (LOW,), (None, HIGH), (), (np.array(2.0), np.array(-1.0))], ids=str
)
def test_clip_and_its_bounds(bounds: tuple[np.ndarray | None, ...]) -> None:
    check_node("Clip", [REAL, *bounds])
    model, given_values = node_model("Clip", [REAL, *bounds])
    names = list(given_values)
    given_values["y0_grad"] = np.linspace(-1.0, 2.0, 6).reshape(2, 3)
    check_model(grad(model, wrt=names), given_values)


def test_clip_with_constant_bounds() -> None:
    check_node("Clip", [REAL, LOW, HIGH], constant=[1, 2], symbolic=True)


def test_clip_at_its_bounds_is_the_inputs() -> None:
    x = np.array([-0.5, 0.0, 1.2, 2.0])
    model, given_values = node_model("Clip", [x, LOW, HIGH])
    given_values["y0_grad"] = np.array([1.0, 2.0, 4.0, 8.0])
    found = run(grad(model, wrt=["x0", "x1", "x2"]), given_values)
    assert found["x0_grad"].tolist() == [1, 2, 4, 0]
    assert found["x1_grad"].tolist() == 0
    assert found["x2_grad"].tolist() == 8
