"""MDF's standard functions and expressions: gradients of inputs and parameters, against differences."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

import central
import numpy as np
import pytest
from central import check_model
from modeci_mdf.functions.standard import mdf_functions
from modeci_mdf.mdf import Model
from models import calculation

from mdf_scatter import grad, run
from mdf_scatter.errors import UnsupportedError
from mdf_scatter.expressions import names, parse
from mdf_scatter.gradient.table import CONSTANT, RULES

A = np.array([0.3, -0.8, 1.9])
G = np.array([0.15, 0.45, 0.8])
M = np.array([[0.5, 1.2, 2.0], [-1.1, 3.0, -2.2], [4.0, 0.25, 1.4]])
S = np.array(-1.75)


def typed(inputs: Mapping[str, np.ndarray], **given: Any) -> Model:
    """Return a model of one node with typed input ports of known shapes."""
    model = calculation(inputs={name: str(array.dtype) for name, array in inputs.items()}, **given)
    for port in model.graphs[0].nodes[0].input_ports:
        port.shape = inputs[port.id].shape
        # MDF writes a scalar's shape as it writes none.
        port.metadata = {"onnx": {"shape": list(port.shape)}}
    return model


def check(
    inputs: Mapping[str, np.ndarray],
    parameters: Mapping[str, Any],
    *,
    rtol: float = 1e-5,
    opset: str | None = None,
    **given: Any,
) -> None:
    """Hold the gradients of a node's inputs, and of its floating parameters, against differences."""
    model = typed(inputs, parameters=dict(parameters), **given)
    model.onnx_opset_version = opset
    check_model(model, inputs, rtol=rtol)
    trained = {
        name: np.asarray(value) for name, value in parameters.items() if np.asarray(value).dtype == float
    }
    if not trained:
        return
    backward = grad(model, wrt=[f"n.{name}" for name in trained])
    y = run(model, inputs)["y"]
    coming = np.random.default_rng(0).standard_normal(y.shape) if y.shape else np.ones(())
    found = run(backward, {**inputs, **({"y_grad": coming} if y.shape else {})})
    np.testing.assert_array_equal(found["y"], y)
    for name, value in trained.items():
        expected = np.zeros_like(value)
        for place in np.ndindex(value.shape):
            up, down = value.copy(), value.copy()
            up[place] += central.STEP
            down[place] -= central.STEP
            change = changed(model, name, up, inputs) - changed(model, name, down, inputs)
            expected[place] = (change * coming).sum() / (2 * central.STEP)
        gradient = found[f"n.{name}_grad"]
        assert gradient.shape == value.shape
        scale = max(1.0, float(np.abs(expected).max(initial=0)))
        np.testing.assert_allclose(gradient, expected, rtol=rtol, atol=rtol * scale, err_msg=name)


def changed(model: Model, name: str, value: np.ndarray, inputs: Mapping[str, np.ndarray]) -> np.ndarray:
    other = deepcopy(model)
    parameter = next(p for p in other.graphs[0].nodes[0].parameters if p.id == name)
    parameter.value = value if isinstance(parameter.value, np.ndarray) else value.tolist()
    result: np.ndarray = run(other, inputs)["y"]
    return result


STANDARD: dict[str, tuple[dict[str, np.ndarray], dict[str, Any]]] = {
    "linear": ({"variable0": A}, {"slope": 2.5, "intercept": -0.5}),
    "logistic": ({"variable0": A}, {"gain": 2.5, "bias": 0.2, "offset": -0.3}),
    "exponential": ({"variable0": A}, {"scale": 2.5, "rate": 0.4, "bias": 0.2, "offset": -0.3}),
    "MatMul": ({"A": M}, {"B": M.T + 0.1}),
    "Relu": ({"A": M}, {}),
} | {
    name: ({"variable0": G}, {"scale": 2.5})
    for name in ("arctan", "arcsin", "arccos", "sin", "cos", "tan", "sinh", "cosh", "tanh")
}
RULES_OF_PRODUCTIONS = "works on the chunks and productions of ACT-R, not on numbers"
WITHOUT = {
    "drift_diffusion_integrator": "draws random paths until one of them reaches the threshold",
    "chunk_to_string": RULES_OF_PRODUCTIONS,
    "pattern_to_string": RULES_OF_PRODUCTIONS,
    "change_goal": RULES_OF_PRODUCTIONS,
    "retrieve_chunk": RULES_OF_PRODUCTIONS,
    "match_production": RULES_OF_PRODUCTIONS,
    "pattern_matching_function": RULES_OF_PRODUCTIONS,
    "update_buffer": RULES_OF_PRODUCTIONS,
    "update_goal": RULES_OF_PRODUCTIONS,
    "update_retrieval": RULES_OF_PRODUCTIONS,
    "conflict_resolution_function": RULES_OF_PRODUCTIONS,
    "check_termination": RULES_OF_PRODUCTIONS,
}


def test_every_standard_function_is_here() -> None:
    own = {name for name in mdf_functions if not name.startswith("onnx::")}
    assert own == {*STANDARD, *WITHOUT}


@pytest.mark.parametrize("name", STANDARD)
def test_standard_function(name: str) -> None:
    inputs, parameters = STANDARD[name]
    args = {argument: argument for argument in mdf_functions[name]["arguments"]}
    check(inputs, parameters, function=name, args=args)


@pytest.mark.parametrize("name", ["linear", "logistic", "exponential", "sinh"])
def test_standard_function_with_arrays_as_parameters(name: str) -> None:
    inputs, parameters = STANDARD[name]
    arrays = {key: value + 0.1 * np.array([1.0, 2.0, 3.0]) for key, value in parameters.items()}
    args = {argument: argument for argument in mdf_functions[name]["arguments"]}
    check(inputs, arrays, function=name, args=args)


def test_sizes_that_no_port_says() -> None:
    inputs, parameters = STANDARD["logistic"]
    given = {"function": "logistic", "args": {name: name for name in (*inputs, *parameters)}}
    feed = {"variable0": A, "y_grad": np.array([1.0, -2.0, 3.0])}
    model = calculation(inputs={"variable0": "float64"}, parameters=parameters, **given)
    expected = run(grad(typed(inputs, parameters=parameters, **given)), feed)
    found = run(grad(model), feed)
    assert list(found) == list(expected)
    for name, array in found.items():
        np.testing.assert_allclose(array, expected[name], rtol=1e-15, err_msg=name)


@pytest.mark.parametrize("name", WITHOUT)
def test_functions_without_a_form_in_onnx_say_so(name: str) -> None:
    arguments = mdf_functions[name]["arguments"]
    model = calculation(
        function=name,
        args={argument: argument for argument in arguments},
        inputs=dict.fromkeys(arguments, "float64"),
    )
    with pytest.raises(UnsupportedError) as caught:
        grad(model)
    assert str(caught.value) == f"{name} 'n': function {name!r} has no form in ONNX"


UNARY = [
    "Abs", "Acos", "Asin", "Asinh", "Atan", "Atanh", "Cos", "Cosh", "Elu", "Erf", "Exp", "HardSigmoid",
    "HardSwish", "Identity", "LeakyRelu", "Log", "Neg", "Reciprocal", "Relu", "Selu", "Shrink", "Sigmoid",
    "Sin", "Sinh", "Softplus", "Softsign", "Sqrt", "Tan", "Tanh", "ThresholdedRelu",
]  # fmt: skip
BINARY = ["Add", "Sub", "Mul", "Div", "Pow", "PRelu"]
SEVERAL = ["Sum", "Mean", "Max", "Min"]
ELSEWHERE = {
    "Acosh": "begins at 1",
    "Cast": "takes an attribute",
    "CastLike": "takes a second value for its dtype",
    "Celu": "takes float64 since operator set 28",
    "Clip": "takes bounds",
    "Dropout": "takes settings",
    "Mod": "takes an attribute",
    "Where": "takes a condition",
}
"""Pointwise operators that the tests below name one by one."""


def test_every_pointwise_operator_that_mdf_names_is_here() -> None:
    modules = ("pointwise", "activations", "arithmetic")
    own = {
        op_type
        for (domain, op_type), rule in RULES.items()
        if domain == ""
        and rule.__module__.rpartition(".")[2] in modules
        and f"onnx::{op_type}" in mdf_functions
    }
    assert own == {*UNARY, *BINARY, *SEVERAL, *ELSEWHERE}


@pytest.mark.parametrize("op_type", UNARY)
def test_onnx_function_of_one_value(op_type: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # ONNX's evaluator and onnxruntime compute these in float32.
    rtol = 1e-5
    if op_type in ("Erf", "Shrink"):
        monkeypatch.setattr(central, "STEP", 2e-3)
        rtol = 1e-3
    name = mdf_functions[f"onnx::{op_type}"]["arguments"][0]
    # Before operator set 18 another form of it is computed, which differs in the last bit.
    opset = "18" if op_type == "Softplus" else None
    check({name: G}, {}, rtol=rtol, opset=opset, function=f"onnx::{op_type}", args={name: name})


@pytest.mark.parametrize("op_type", BINARY)
def test_onnx_function_of_an_input_and_a_parameter(op_type: str) -> None:
    first, second = mdf_functions[f"onnx::{op_type}"]["arguments"]
    args = {first: first, second: second}
    check({first: G - 0.3 * (op_type == "PRelu")}, {second: G + 0.7}, function=f"onnx::{op_type}", args=args)


@pytest.mark.parametrize("op_type", SEVERAL)
def test_onnx_function_of_several_values(op_type: str) -> None:
    args = {"data_0": ["x", "p", "q"]}
    check({"x": A}, {"p": G, "q": A[::-1] + 0.1}, function=f"onnx::{op_type}", args=args)


@pytest.mark.parametrize(
    ("op_type", "inputs", "parameters"),
    [
        ("Acosh", {"input": 1 + G}, {}),
        ("Cast", {"input": A}, {"to": 11}),
        ("CastLike", {"input": A, "target_type": G}, {}),
        ("Clip", {"input": A}, {"min": np.array(-0.5), "max": np.array(1.2)}),
        ("Dropout", {"data": A}, {"ratio": np.array(0.5)}),
        ("Mod", {"A": 3.1 * A}, {"B": G, "fmod": 1}),
        ("Where", {"condition": A > 0, "X": A}, {"Y": G}),
    ],
)
def test_onnx_function(op_type: str, inputs: dict[str, np.ndarray], parameters: dict[str, Any]) -> None:
    args = {name: name for name in (*inputs, *parameters)}
    check(inputs, parameters, function=f"onnx::{op_type}", args=args)


INPUTS = {"a": A, "g": G, "m": M, "s": S}
PARAMETERS = {"k": 2.5, "l": [0.6, 1.1, 2.3], "n": 3, "p": G + 0.5}


@pytest.mark.parametrize(
    "expression",
    [
        # Arithmetic, weak numbers and broadcasting.
        "a + k", "k - a * g", "-a / k", "m * l + s", "(m - g) / p", "a * n", "2 / p", "m @ (k * a)",
        # Powers.
        "g ** k", "g ** l", "k ** a", "a ** n", "a ** 2", "a ** 0", "a ** -1", "g ** 0.5", "p ** a", "s ** 3",
        "pow(g, k)", "numpy.power(p, g)", "numpy.square(a)", "numpy.exp2(a * k)",
        # Whole parts and remainders.
        "a // 0.7", "k // p", "a % 0.7", "a % -0.7", "m % p", "k % g", "a * (m // k)",
        # Comparisons and choices.
        "a * (a > 0)", "(a < g) * k", "a * (m >= k) + l", "a if s < 0 else a * k", "k * a if k > 3 else -a",
        "a * k if a[0] > 0 and s < 0 else g", "numpy.where(a > 0, a * k, g / p)", "numpy.where(a > k, 0, l)",
        "numpy.maximum(a, k * g)", "numpy.minimum(m, l)", "numpy.clip(a, -0.5, k)", "max(s, k, a[1])",
        "min(s * k, a[0])", "numpy.heaviside(a, k)", "a * (not s < 0)",
        # Functions.
        "exp(-k * a)", "numpy.exp(a)", "numpy.log(p)", "numpy.log(k) * a", "numpy.log1p(g * k)",
        "numpy.expm1(a * k)",
        "numpy.log2(p)", "numpy.log10(p * k)", "numpy.sqrt(p)", "numpy.sqrt(k) + a", "numpy.sin(a) * cos(k)",
        "numpy.tan(g)", "numpy.sinh(a) + numpy.cosh(a)", "tanh(k * a)", "numpy.arcsin(g)", "numpy.arccos(g)",
        "numpy.arctan(a)", "numpy.arcsinh(a)", "numpy.arccosh(p + 1)", "numpy.arctanh(g)", "numpy.abs(a * k)",
        "abs(s) * l", "numpy.sign(a) * k", "numpy.floor(a) + a", "numpy.ceil(a) * g",
        "numpy.trunc(a) - k * a",
        "math.exp(s) * p", "math.sqrt(k) * a", "math.pow(k, 2) + a", "math.fabs(s) * a",
        # MDF's own way of writing a few functions.
        "1/(1 + exp(-1*k*(a + s) + 0.5))", "(1 / (1 + numpy.exp(-(a)))) ** 2", "a * numpy.pi",
    ],
)  # fmt: skip
def test_expression(expression: str) -> None:
    used = names(parse(expression))
    parameters = {name: value for name, value in PARAMETERS.items() if name in used}
    inputs = {name: array for name, array in INPUTS.items() if name in used} or {"a": A}
    check(inputs, parameters, value=expression)


@pytest.mark.parametrize("name", ["logistic", "exponential", "tan", "Relu"])
def test_second_derivative_of_a_standard_function(name: str) -> None:
    inputs, parameters = STANDARD[name]
    args = {argument: argument for argument in mdf_functions[name]["arguments"]}
    model = typed(inputs, parameters=parameters, function=name, args=args)
    (array,) = inputs.values()
    check_model(grad(model), {**inputs, "y_grad": np.linspace(-1.0, 2.0, array.size).reshape(array.shape)})


def slopes(expression: str, x: list[float]) -> list[float]:
    given_values = {"x": np.array(x)}
    backward = grad(typed(given_values, value=expression))
    with np.errstate(all="ignore"):
        found: list[float] = run(backward, given_values | {"y_grad": np.ones(len(x))})["x_grad"].tolist()
    return found


@pytest.mark.parametrize(
    ("expression", "x", "expected"),
    [
        ("numpy.log1p(x)", [0.0, 1e-17, -1e-17, 1e-9, 3.0], [1, 1, 1, 1, 0.25]),
        ("numpy.expm1(x)", [0.0, 1e-17, 1e-9, -800.0, 1.0], [1, 1, 1, 0, np.e]),
        ("numpy.log2(x)", [8.0, 1.0, 0.5], (1 / np.log(2) / np.array([8, 1, 0.5])).tolist()),
        ("numpy.log10(x)", [100.0, 1.0, 3.0], (1 / np.log(10) / np.array([100, 1, 3])).tolist()),
        ("x // 0.7", [-1.0, 0.0, 0.3, 1.0], [0, 0, 0, 0]),
        ("x % 0.7", [-1.0, 0.3, 1.0], [1, 1, 1]),
        ("numpy.where(x > 0, numpy.log(numpy.maximum(x, 1e-9)), 0)", [-1.0, 2.0], [0, 0.5]),
        ("x ** 0", [-1.0, 0.0, 2.0], [0, 0, 0]),
        ("x ** 2", [-1.0, 0.0, 2.0], [-2, 0, 4]),
        ("x * (x > 0)", [-1.0, 0.0, 2.0], [0, 0, 1]),
        ("numpy.abs(x)", [-1.0, 0.0, 2.0], [-1, 0, 1]),
        ("numpy.floor(x) + numpy.sign(x) + numpy.round(x)", [-1.5, 0.0, 2.0], [0, 0, 0]),
    ],
)
def test_slopes_where_the_form_in_onnx_has_a_seam(
    expression: str, x: list[float], expected: list[float]
) -> None:
    np.testing.assert_allclose(slopes(expression, x), expected, rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize("op_type", ["Ceil", "Floor", "Round", "Sign"])
def test_functions_of_steps_send_nothing_back(op_type: str) -> None:
    assert op_type in CONSTANT
    name = mdf_functions[f"onnx::{op_type}"]["arguments"][0]
    backward = grad(typed({name: A}, function=f"onnx::{op_type}", args={name: name}))
    assert run(backward, {name: A, "y_grad": np.ones(3)})[f"{name}_grad"].tolist() == [0, 0, 0]


NUMBERS = np.array([0.0, -0.0, 0.75, -0.75, 1.5, -2.0, 0.1, 5e-324, -1e300, np.inf, -np.inf, np.nan])


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("expression", ["a // b", "a % b", "numpy.trunc(a)"])
def test_forms_take_all_kinds_of_numbers_and_keep_the_signs_of_zeros(expression: str, dtype: str) -> None:
    with np.errstate(all="ignore"):
        numbers = NUMBERS.astype(dtype)
        a, b = (side.ravel() for side in np.meshgrid(numbers, numbers))
        expected = {"a // b": a // b, "a % b": a % b, "numpy.trunc(a)": np.trunc(a)}[expression]
        found = run(typed({"a": a, "b": b}, value=expression), {"a": a, "b": b}, engine="onnx")["y"]
    np.testing.assert_array_equal(found, expected)
    number = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(found[number]), np.signbit(expected[number]))


def test_a_quotient_of_zero_keeps_its_sign_in_what_it_divides() -> None:
    feed = {"a": np.array([0.75, 0, -0.75]), "s": np.array(0.0)}
    model = typed(feed, value="a / ((s * a[-1]) // a[0])")
    with np.errstate(all="ignore"):
        found = run(model, feed, engine="onnx")["y"]
    np.testing.assert_array_equal(found, [-np.inf, np.nan, np.inf])
