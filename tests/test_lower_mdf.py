"""Expressions in ONNX's operators give what modeci-mdf's engine gives: shape, dtype and value."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from central import check_model
from hypothesis import given, settings
from hypothesis import strategies as st
from modeci_mdf.mdf import Function, Graph, InputPort, Model, Node, OutputPort, Parameter
from models import FLOAT, calculation, onnx_model
from onnx import helper

import mdf_scatter
from mdf_scatter import run, to_onnx
from mdf_scatter.errors import EvaluationError, ModelError, UnsupportedError
from mdf_scatter.expressions import names, parse

TYPES = {
    "a": "float64",
    "g": "float32",
    "i": "int64",
    "j": "int32",
    "b": "bool",
    "u": "uint8",
    "m": "float64",
    "s": "float64",
}
VALUES = {
    "a": np.array([-2.5, 0.5, 3.0]),
    "g": np.array([0.25, -1.5, 2.0], np.float32),
    "i": np.array([-7, 0, 3]),
    "j": np.array([[4, -3, 2], [-1, 5, 0]], np.int32),
    "b": np.array([True, False, True]),
    "u": np.array([0, 3, 200], np.uint8),
    "m": np.array([[0.5, 1, 2], [-1, 3, -2], [4, 0.25, 1]]),
    "s": np.float64(-1.75),
}
PARAMETERS = {"k": 2.5, "n": 3, "z": -2, "l": [1, 2, 3], "t": True}


def both(expression: str, values: dict[str, np.ndarray] | None = None) -> tuple[np.ndarray, np.ndarray]:
    model = calculation(expression, inputs=TYPES, parameters=PARAMETERS)
    given_values = VALUES | (values or {})
    return run(model, given_values, engine="onnx")["y"], run(model, given_values, engine="mdf")["y"]


def same(ours: np.ndarray, theirs: np.ndarray, *, rtol: float = 1e-6) -> None:
    assert ours.shape == theirs.shape
    assert ours.dtype == theirs.dtype
    np.testing.assert_allclose(ours, theirs, rtol=rtol, atol=1e-12)


@pytest.mark.parametrize(
    "expression",
    [
        # Division towards minus infinity, and remainders of the divisor's sign.
        "i // 2", "i % 3", "i // -2", "i % -3", "a // 0.7", "a % -0.7", "7 // i[2]", "i // (i - 3)",
        "i % (i - 3)", "u // 7", "u % 7", "(i - 5) // -1", "i % -1", "a // 0", "j // l", "u // (u - u)",
        "k // 2", "z % n", "s // n", "s % -n",
        # Powers.
        "i ** 2", "i ** 3", "a ** 2", "k ** z", "n ** 2", "2 ** l", "a ** 0.0", "u ** 5", "pow(a, 2)",
        # Choices.
        "a if s < 0 else a * 2", "a if n > 5 else -a", "s if a[0] > 0 else s * 3", "0 if n else a", "not s",
        "not t", "s < 0 and a[1] > 0", "s > 0 or a[0] > 0", "n > 2 and a[1] > 0", "0 < n < 5",
        "-2 < s <= a[1] < 1", "t and s", "s or a[0]", "not (s < 0 and t)",
        # Subscripts.
        "a[1]", "a[-1]", "a[1:]", "a[::-1]", "a[-2:3]", "j[1]", "j[1, 2]", "j[:, 1]", "j[0, ::2]",
        "j[-1][0]", "m[1:, 0]", "a[n - 1]", "a[i[2] - 1]", "a[l - i[2]]", "a[a > 0]", "j[j > 1]",
        "j[:, 1:][0]", "m[n - 2, :2]", "[a, 2 * a][1]", "[s, k, 3][:2]", "l[1]", "l[::2]", "a[i[1]:n - 1]",
        # Whole arrays.
        "numpy.sum(a)", "numpy.sum(j, 0)", "numpy.sum(j, axis=1, keepdims=True)", "numpy.sum(b)",
        "numpy.sum(u)", "numpy.mean(j)", "numpy.mean(g)", "numpy.mean(m, axis=0)", "numpy.prod(i)",
        "numpy.max(j, axis=-1)", "numpy.min(g)", "numpy.max(b)", "numpy.sum(m, axis=(0, 1))",
        "numpy.sum(l)", "sum(a)", "sum(j)", "sum(b)", "sum([s, k])", "max(a)", "min(i)",
        "max(s, a[1], 0.0)", "min(n, z)", "max(b)", "len(j)", "len([s, k])", "math.prod(i)",
        "numpy.where(a > 0, a, 0)", "numpy.where(b, i, j)", "numpy.where(i, g, a)", "numpy.clip(a, -1, 1)",
        "numpy.clip(i, 0, 2)", "numpy.clip(i, 0.5, 2)", "numpy.round(a)", "numpy.round(a * 1.37, 1)",
        "numpy.round(i)", "numpy.round(b)", "numpy.round(a * 100, -1)", "numpy.transpose(j)",
        "numpy.transpose(j, [1, 0])", "numpy.transpose(a)", "numpy.dot(m, a)", "numpy.dot(a, a)",
        "numpy.dot(k, a)", "numpy.dot(j, m)", "m @ a", "j @ i", "u @ u", "b @ b", "numpy.zeros_like(g)",
        "numpy.ones_like(j)", "numpy.array([s, 1, 2.5])", "numpy.array([a, g])", "numpy.array([i[0], n])",
        "[a, g] * a",
        # Elementwise.
        "numpy.heaviside(a - 0.5, 0.25)", "numpy.logical_and(a > 0, i)", "numpy.logical_or(a, b)",
        "numpy.logical_not(i)", "numpy.isnan(a / 0 * 0)", "numpy.isinf(a / 0)", "numpy.isinf(i)",
        "numpy.isnan(i)", "numpy.log1p(a * a * 1e-9)", "numpy.log1p(g * g)", "numpy.expm1(a * 1e-9)",
        "numpy.expm1(a * 300)", "numpy.log2(i * i + 1)", "numpy.floor(numpy.log10([1000, 1e6, 1e15]))",
        "numpy.log10(10.0 ** l)", "numpy.square(i)", "numpy.exp2(i)", "numpy.trunc(a)", "numpy.floor(i)",
        "numpy.ceil(a)", "numpy.sign(-a / 0)", "numpy.sign(a - a[0])", "numpy.maximum(a, g)",
        "numpy.maximum(a, a / 0 * 0)", "numpy.minimum(i, 0)", "numpy.arctan(i)", "numpy.sqrt(i)",
        "numpy.abs(j)", "abs(s)", "abs(z)", "-u", "-b[0] if False else -i", "+a", "+t", "t + t", "t * a",
        "a + b", "u + u", "u + 1", "u * 1.5", "i * g", "j + g", "l / 2", "u < -3", "u == 500", "i != a",
        "g <= 0.1", "a >= k", "b < t", "numpy.max(a - a / 0)",
        # Python's own.
        "int(a[0])", "float(a[0]) * j", "int(s) * j", "round(a[0])", "math.floor(a[0])", "math.ceil(s)",
        "math.trunc(a[0]) * g", "math.exp(s) * g", "math.sqrt(n) * g", "math.isnan(s)", "math.pow(s, 2) + a",
        "math.fabs(a[0]) * j", "math.hypot(s, k) * g", "math.atan2(s, -1) * g", "bool(s)",
        "math.isfinite(s)", "math.fmod(s, 1) * j", "any(a > 5)", "all(i)", "s.item() * g", "i[1].item() + u",
        # Operators on bools and bits.
        "(a > 0) & (a < 1)", "b | (i > 0)", "b ^ (a > 0)", "~b", "~(s > 0)", "i & 3", "u | 4", "j ^ n", "~u",
        "(not s) & t", "(n > 1) | (s > 0)",
        # Functions that are operators too.
        "numpy.add(g, 1)", "numpy.add(b, b)", "numpy.subtract(i, b)", "numpy.multiply(u, 1.5)",
        "numpy.divide(i, 2)", "numpy.true_divide(j, l)", "numpy.floor_divide(i, 2)", "numpy.mod(a, -0.7)",
        "numpy.fmod(a, 0.7)", "numpy.fmod(i, i - 3)", "numpy.fmod(i, -2)", "numpy.negative(u)",
        "numpy.float_power(i, 2)", "numpy.positive(j)", "numpy.not_equal(i, 0)", "numpy.less(a, g)",
        "numpy.bitwise_and(u, 7)", "numpy.invert(b)", "numpy.logical_xor(b, i)", "numpy.reciprocal(g)",
        "numpy.greater_equal(u, 3)", "numpy.fabs(i)", "numpy.rint(a * 1.3)", "numpy.isfinite(a / 0)",
        "numpy.isfinite(i)", "numpy.deg2rad(a)", "numpy.degrees(g)", "numpy.hypot(a, g)",
        "numpy.hypot(a / 0, a)", "numpy.hypot(a * 1e200, a * 1e200)", "numpy.hypot(0.0 * a, 0)",
        "numpy.arctan2(a, -g)", "numpy.arctan2(a * 0, g)", "numpy.arctan2(a / 0, a / 0)",
        "numpy.arctan2(-0.0 * a, -0.0 * a)", "numpy.arctan2(g, i)", "numpy.logaddexp(0, a)",
        "numpy.logaddexp(a * 1e3, g)", "numpy.logaddexp(a / 0, a / 0)", "numpy.logaddexp(0, a * 50)",
        "numpy.nan_to_num(a / 0)", "numpy.nan_to_num(a * 0 / 0, nan=1.5)",
        "numpy.nan_to_num(g / 0, posinf=2.0)", "numpy.nan_to_num(i)",
        # Sums, moments and places.
        "a.mean()", "j.sum(axis=0)", "m.max(1, keepdims=True)", "numpy.var(j)", "numpy.std(m, axis=0)",
        "numpy.var(g, ddof=1)", "m.std(0, ddof=1)", "b.var()", "numpy.any(m > 2, axis=1)", "numpy.all(j)",
        "numpy.any(a * 0 / 0)", "numpy.all(a[:0])", "numpy.any(a[:0])", "(a > 0).all()", "numpy.amax(j, 0)",
        "numpy.linalg.norm(a)", "numpy.linalg.norm(j, axis=1)", "numpy.linalg.norm(g, 1)",
        "numpy.linalg.norm(m, axis=0, keepdims=True)", "numpy.linalg.norm(m)",
        "a / numpy.linalg.norm(a, ord=2)", "numpy.argmax(a)", "numpy.argmin(j, axis=1)", "m.argmax(axis=-1)",
        "numpy.argmax(b)", "u.argmin()", "numpy.argmax(numpy.where(a > 1, a / 0 * 0, a))",
        "numpy.argmax(j, keepdims=True)", "numpy.argmin(m, axis=0, keepdims=True)", "numpy.argmax(i * 0)",
        # In order.
        "numpy.sort(m)", "numpy.sort(j, axis=0)", "numpy.sort(m, axis=None)", "numpy.sort(u)[::-1]",
        "numpy.sort(b)", "numpy.sort(numpy.where(a > 1, a, a / 0 * 0))", "numpy.argsort(-a)",
        "numpy.argsort([2.0, s / 0 * 0, s, s / 0])", "m.argsort(axis=0)", "numpy.median(a)",
        "numpy.median(j)", "numpy.median(m, axis=1)", "numpy.median(j, axis=1, keepdims=True)",
        "numpy.median(g, keepdims=True)", "numpy.median(numpy.where(a > 1, a / 0 * 0, a))",
        "numpy.cumsum(a)", "numpy.cumsum(m, axis=0)", "j.cumsum(axis=1)", "numpy.cumsum(m)",
        "numpy.cumsum(u)", "numpy.cumsum(b)",
        # Parts into one.
        "numpy.concatenate([a, g])", "numpy.concatenate(([0], a[:-1]))", "numpy.concatenate([m, j], axis=0)",
        "numpy.concatenate([m, m], axis=-1)", "numpy.concatenate([m, a], axis=None)",
        "numpy.concatenate([b, u])", "numpy.stack([a, g], axis=1)", "numpy.stack([s, k])",
        "numpy.hstack([s, a])", "numpy.hstack([m, m])", "numpy.vstack([m, a])", "numpy.vstack((a, i))",
        "numpy.append(a[1:], s)", "numpy.append(m, j, axis=0)",
        # Moved about.
        "m.T", "j.T.shape[0]", "j.transpose(1, 0)", "numpy.swapaxes(j, 0, 1)", "j.reshape(-1)",
        "j.reshape(3, 2)", "numpy.reshape(j, (n, -1))", "a.reshape(-1, 1) * g", "j.ravel()", "j.flatten()",
        "j.reshape((a.size, 2))", "j[:0].reshape(0, 7)", "a[:, None] * g", "a[numpy.newaxis] - m[..., 0]",
        "m[..., None].squeeze()", "numpy.squeeze(m[:, None, :1], axis=1)", "numpy.expand_dims(a, 0)",
        "numpy.expand_dims(m, axis=(0, -1))", "numpy.flip(j)", "numpy.flip(m, axis=1)", "numpy.roll(a, 1)",
        "numpy.roll(j, -n)", "numpy.roll(m, 4, axis=0)", "numpy.roll(a, i[2])", "numpy.repeat(a, 2)",
        "numpy.repeat(j, n, axis=1)", "a.repeat(i[2])", "numpy.tile(a, 2)", "numpy.tile(j, (2, 1, 2))",
        "numpy.tile(m, 2)", "numpy.diff(a)", "numpy.diff(j, axis=0)", "numpy.diff(i, n=2)", "numpy.diff(b)",
        "m[[0, 2], [1, 2]]", "m[numpy.arange(3), numpy.argmax(m, axis=1)]", "m[i[:, None] % 3, i % 3]",
        "m[l - 1, -1]", "numpy.stack([m, m])[[0, 1], 1]", "j.copy()", "m.T @ a", "numpy.dot(j.T, a[:2])",
        # Products.
        "numpy.outer(a, g)", "numpy.outer(j, i)", "numpy.outer(k, a)", "numpy.inner(a, g)",
        "numpy.inner(j, m)", "a.dot(m)", "numpy.inner(m, a)",
        # Lists of one.
        "[s]", "(a,)", "a.shape", "max(a.shape) * g", "numpy.sum(m, axis=())", "a.var(())",
        "numpy.full(3, [s, k, 1])", "numpy.inner(s, m)", "a.transpose(0)", "m.sum(keepdims=2)",
        # Made.
        "numpy.zeros(3) + g", "numpy.zeros((n, 2), dtype=int)", "numpy.ones(a.shape)",
        "numpy.ones(len(a)) * g", "numpy.full(n, s)", "numpy.full((2, 2), 7)", "numpy.full(a.shape, g[0])",
        "numpy.full(i[2], k)", "numpy.zeros((j.shape[0], 2), dtype=numpy.float32)",
        "numpy.zeros_like(i, dtype=float)", "numpy.full_like(j, 2.7)", "numpy.full_like(g, s)",
        "numpy.arange(n)", "numpy.arange(0, 1, 0.25)", "numpy.arange(len(a)) == numpy.argmax(a)",
        "numpy.arange(i[2])", "numpy.arange(1, i[2], 2, dtype=float)", "numpy.eye(n)[numpy.argmax(a)]",
        "numpy.eye(2, 3, k=1, dtype=int)", "numpy.identity(3) * a", "numpy.linspace(-k, k, n)",
        "numpy.linspace(0, 1, 4, endpoint=False)", "numpy.array([s, 2], dtype=int)",
        "numpy.asarray(j, dtype=numpy.float32)", "numpy.float32(a)", "numpy.int32(n) + j",
        "numpy.float32(k) * g", "(a > 0).astype(float)", "a.astype(int)", "a.astype('float32')",
        "(a / 0).astype(bool)", "u.astype(numpy.int8)", "j.size + u", "m.ndim * g", "numpy.clip(a, None, 1)",
        "i.clip(min=0)", "numpy.clip(a, a_max=k, a_min=s)", "a.round(1)",
    ],
)  # fmt: skip
def test_expressions_mean_what_they_mean_in_mdfs_engine(expression: str) -> None:
    with np.errstate(all="ignore"):
        same(*both(expression))


NUMBERS = st.recursive(
    st.sampled_from(["s", "a[0]", "a[-1]", "m[1, 2]", "numpy.sum(a)", "numpy.mean(m)", "numpy.max(a)"]),
    lambda inner: st.one_of(
        st.builds("({} {} {})".format, inner, st.sampled_from(["+", "-", "*", "//", "%", "/"]), inner),
        st.builds(
            "({} {} {})".format, inner, st.sampled_from(["+", "-", "*"]), st.sampled_from(["k", "2", "0.5"])
        ),
        st.builds("({} if {} < {} else {})".format, inner, inner, inner, inner),
        st.builds("({} if 0 < {} <= {} else {})".format, inner, inner, inner, inner),
        st.builds("max({}, {})".format, inner, inner),
        st.builds("abs({})".format, inner),
    ),
    max_leaves=4,
)
ARITHMETIC = st.sampled_from(["+", "-", "*", "/", "//", "%", "<", "<=", ">", ">=", "==", "!="])
FUNCTIONS = st.sampled_from(
    ["abs", "floor", "tanh", "square", "sign", "trunc", "isnan", "zeros_like", "arctan"]
)
ARRAYS = st.recursive(
    st.sampled_from(["a", "g", "i", "j", "b", "l"]),
    lambda inner: st.one_of(
        st.builds("({} {} {})".format, inner, ARITHMETIC, inner),
        st.builds("({} {} {})".format, inner, ARITHMETIC, NUMBERS),
        st.builds("({} {} {})".format, inner, ARITHMETIC, st.sampled_from(["2", "n", "-3", "0.5", "k", "z"])),
        st.builds("numpy.{}({})".format, FUNCTIONS, inner),
        st.builds("numpy.where({} > 0, {}, {})".format, inner, inner, inner),
        st.builds("numpy.maximum({}, {})".format, inner, inner),
        st.builds(
            "numpy.{}({}, axis=-1, keepdims=True)".format, st.sampled_from(["sum", "max", "mean"]), inner
        ),
        st.builds("({})[{}]".format, inner, st.sampled_from(["0:2", "::-1", "-2:", "::2", "..., None"])),
        st.builds("numpy.{}({}, axis=-1)".format, st.sampled_from(["sort", "flip", "argmax", "any"]), inner),
        st.builds("({}).{}".format, inner, st.sampled_from(["T", "ravel()", "astype(float)", "argmin(0)"])),
        st.builds("numpy.concatenate([{}, {}], axis=-1)".format, inner, inner),
        st.builds("numpy.{}({}, {})".format, st.sampled_from(["outer", "hypot", "arctan2"]), inner, inner),
        st.builds("(({} > 0) {} ({} < 1))".format, inner, st.sampled_from(["&", "|", "^"]), inner),
    ),
    max_leaves=5,
)
SMALL = st.integers(-4, 4)


def arrays(dtype: str, shape: tuple[int, ...]) -> st.SearchStrategy[np.ndarray]:
    size = int(np.prod(shape))
    return st.lists(SMALL, min_size=size, max_size=size).map(
        lambda values: (np.array(values) * (0.75 if "float" in dtype else 1)).astype(dtype).reshape(shape)
    )


@settings(max_examples=120, deadline=None)
@given(
    st.one_of(NUMBERS, ARRAYS),
    st.fixed_dictionaries({name: arrays(TYPES[name], VALUES[name].shape) for name in TYPES}),
)
def test_random_expressions_on_random_arrays(expression: str, values: dict[str, np.ndarray]) -> None:
    with np.errstate(all="ignore"):
        try:
            ours, theirs = both(expression, values)
        except (EvaluationError, UnsupportedError):
            # Shapes that do not fit fail in both; bool has no minus.
            with pytest.raises(EvaluationError):
                run(calculation(expression, inputs=TYPES, parameters=PARAMETERS), values, engine="mdf")
            return
        except ModelError:
            # A float division that comes out whole is no subscript; nothing else is refused here.
            pytest.fail(expression)
        # A half keeps more digits in one engine than in the other.
        same(ours, theirs, rtol=2e-2 if "float16" in (ours.dtype, theirs.dtype) else 1e-4)


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("a and i", "n: a condition has shape (3,); expected one element"),
        ("a if a > 0 else i", "n: a condition has shape (3,); expected one element"),
        ("a if s > 0 else m", "n: a choice between arrays of different or unknown shapes"),
        ("[k, n] * 2", "n: expression '[k, n] * 2' has no form in ONNX here"),
        ("u + 300", "n: 300 is out of range for uint8"),
        ("a[0.5]", "n: a subscript has dtype float64; expected integers"),
        ("i ** -2", "n: integers to negative integer powers are not allowed"),
        ("numpy.sum(a, axis=3)", "n: axis 3 is out of bounds for rank 1"),
        (
            "numpy.dot(a, numpy.array([m, m]))",
            "n: numpy.dot with an array of rank above 2 has no form in ONNX",
        ),
        ("1 / 0", "n: division by zero"),
        ("-b", "n: negative is not defined for bool"),
        ("numpy.array([a, m])", "n: a list of values of different or unknown shapes"),
        (
            "numpy.stack([m, m])[i, :2, l]",
            "n: several subscripts, one of them an array, beside a slice have no form in ONNX;"
            " slice first, in brackets of its own",
        ),
        (
            "n.sum()",
            "n: expression 'n.sum()': 'n' is a Python number, no array; write numpy.array(n) in its place",
        ),
        (
            "[a, a].T",
            "n: expression '[a, a].T': '[a, a]' is a list, no array; write numpy.array([a, a]) in its place",
        ),
        ("a.item()", "n: what item() is called of has shape (3,); expected one element"),
        ("numpy.reciprocal(i)", "n: numpy.reciprocal of int64 gives integers; write 1 / x"),
        ("numpy.linspace(0, s, 3)", "n: numpy.linspace of computed values; expected constant numbers"),
        ("numpy.arange(s)", "n: numpy.arange of computed floats; expected integers or constants"),
        ("numpy.concatenate([m, a])", "n: arrays of rank 2, 1 cannot be joined along axis 0"),
        ("numpy.stack(m)", "n: numpy.stack of one array; expected a list of arrays"),
        ("numpy.roll(m, 1, (0, 1))", "n: numpy.roll along axes (0, 1); expected one axis at a time"),
        ("numpy.repeat(a, i)", "n: 3 numbers to move or repeat by; expected one"),
        ("numpy.repeat(a, -1)", "n: numpy.repeat -1 times; expected 0 or more"),
        ("m.transpose(0, 0)", "n: numpy.transpose by axes (0, 0); expected each of 2 axes once"),
        ("numpy.zeros(s)", "n: a size has dtype float64; expected integers"),
        ("numpy.ones((n * 100000, n * 100000))", "n: numpy.ones makes more than 268435456 elements"),
        (
            "numpy.linalg.norm(m, 2)",
            "n: numpy.linalg.norm of order 2 over axis None has no form in ONNX here;"
            " expected order 1 or 2 of vectors",
        ),
        ("numpy.median(m, (0, 1))", "n: numpy.median over axes (0, 1); expected one axis, or none for all"),
        ("any(m)", "n: any() of an array of rank 2; write numpy.any"),
        ("numpy.invert(a)", "n: invert is not defined for float64"),
        ("max(m)", "n: max() compares the rows of an array of rank 2"),
        ("s[0]", "n: a single number has no items"),
    ],
)
def test_what_onnx_has_no_form_for_names_the_node_and_the_part(expression: str, message: str) -> None:
    model = calculation(expression, inputs=TYPES, parameters=PARAMETERS)
    with pytest.raises(UnsupportedError) as caught:
        run(model, VALUES, engine="onnx")
    assert str(caught.value) == message


DIFFERENTIATED = {
    "a": np.array([0.3, -0.8, 1.9]),
    "g": np.array([0.15, 0.45, 0.8]),
    "m": np.array([[0.5, 1.2, 2.0], [-1.1, 3.0, -2.2], [4.0, 0.25, 1.4]]),
    "s": np.array(-1.75),
}


@pytest.mark.parametrize(
    "expression",
    [
        "a / numpy.linalg.norm(a)", "m.std(axis=0, ddof=1)", "numpy.logaddexp(0, a)", "numpy.hypot(a, g)",
        "numpy.arctan2(a, g)", "numpy.sort(m)", "numpy.median(m, axis=1)", "numpy.cumsum(m, axis=0)",
        "m.T @ a", "numpy.outer(a, g)", "numpy.concatenate([a, g])", "numpy.stack([a, g], axis=1)",
        "numpy.repeat(a, 2)", "numpy.tile(a, 2)", "numpy.roll(a, 1) * g", "numpy.diff(a)",
        "m[[0, 2], [1, 2]]", "numpy.full(3, s) * a",
        "numpy.where((a > 0) & (g > 0.2), a, 2 * g)", "numpy.eye(3)[numpy.argmax(a)] * a", "a[:, None] * g",
        "numpy.exp(a - a.max()) / numpy.exp(a - a.max()).sum()", "numpy.nan_to_num(a)", "s.item() * a",
    ],
)  # fmt: skip
def test_gradients_of_functions_of_arrays(expression: str) -> None:
    inputs = {name: DIFFERENTIATED[name] for name in names(parse(expression))}
    model = calculation(expression, inputs=dict.fromkeys(inputs, "float64"))
    for port in model.graphs[0].nodes[0].input_ports:
        port.shape = inputs[port.id].shape
        port.metadata = {"onnx": {"shape": list(port.shape)}}
    check_model(model, inputs)


def test_a_transposed_matrix_and_a_vector_keep_their_transposition() -> None:
    matrix, vector = np.arange(6.0, dtype=np.float32).reshape(3, 2), np.array([1, 2, 3], np.float32)
    model = calculation("m.T @ v", inputs={"m": "float32", "v": "float32"})
    assert run(model, {"m": matrix, "v": vector}, engine="onnx")["y"].tolist() == [16, 22]
    proto = onnx_model(
        [helper.make_node("Transpose", ["m"], ["t"]), helper.make_node("MatMul", ["t", "v"], ["y"])],
        {"m": (FLOAT, [3, 2]), "v": (FLOAT, [3])},
        {"y": (FLOAT, [2])},
    )
    assert run(mdf_scatter.from_onnx(proto), {"m": matrix, "v": vector})["y"].tolist() == [16, 22]


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("numpy.zeros(len(x)) + x.shape[0]", [3.0, 3.0, 3.0]),
        ("numpy.arange(x.size) == numpy.argmax(x)", [False, False, True]),
        ("x.reshape(x.shape[0], 1).T[0]", [1.0, 0.5, 2.0]),
        ("numpy.tile(x, (x.ndim, 2))[0, 3:]", [1.0, 0.5, 2.0]),
    ],
)
def test_sizes_that_no_port_declares(expression: str, expected: list[Any]) -> None:
    model = calculation(expression, inputs={"x": "float32"})
    assert run(model, {"x": np.array([1, 0.5, 2], np.float32)}, engine="onnx")["y"].tolist() == expected


def test_where_onnx_has_no_form_auto_runs_mdfs_engine() -> None:
    model = calculation("(a if s > 0 else m) * 2", inputs=TYPES, parameters=PARAMETERS)
    assert run(model, VALUES)["y"].tolist() == (VALUES["m"] * 2).tolist()


def test_shapes_that_ports_leave_open_come_from_the_arrays_where_they_are_needed() -> None:
    model = calculation("x if len(x) > 2 else -x[::-1]", inputs={"x": "float32"})
    runner = mdf_scatter.Runner(model, engine="onnx")
    assert runner({"x": np.array([1, 2], np.float32)})["y"].tolist() == [-2, -1]
    assert runner({"x": np.array([1, 2, 3], np.float32)})["y"].tolist() == [1, 2, 3]
    assert runner({"x": np.array([5], np.float32)})["y"].tolist() == [-5]


def node(**parts: object) -> Node:
    made = Node(id="n")
    for name, values in parts.items():
        getattr(made, name).extend(values)
    return made


def outputs_of(made: Node, inputs: dict[str, object] | None = None) -> dict[str, np.ndarray]:
    """Run one node in both engines, which have to agree."""
    model = Model(id="m", graphs=[Graph(id="g", nodes=[made])])
    ours, theirs = (run(model, inputs or {}, engine=engine) for engine in ("onnx", "mdf"))  # type: ignore[arg-type]
    for name, array in ours.items():
        same(array, theirs[name])
    return ours


def test_several_functions_read_each_other_in_any_order() -> None:
    made = node(
        input_ports=[InputPort(id="x", type="float64")],
        functions=[
            Function(
                id="last", function="linear", args={"variable0": "first + 1", "slope": 2, "intercept": 0.5}
            ),
            Function(id="first", value="x * A", args={"A": "B + 1", "B": 3}),
        ],
        parameters=[Parameter(id="B", value=10)],
        output_ports=[OutputPort(id="y", value="last")],
    )
    assert outputs_of(made, {"x": np.array([1.0, 2.0])})["y"].tolist() == [24.5, 46.5]


def test_arguments_see_the_ones_before_them() -> None:
    made = node(
        functions=[
            Function(
                id="f",
                function="linear",
                args={"variable0": 3, "slope": "variable0 * 2", "intercept": "slope"},
            )
        ],
        output_ports=[OutputPort(id="y", value="f")],
    )
    assert outputs_of(made)["y"] == 24


def test_parameters_that_are_expressions_functions_lists_and_texts_of_numbers() -> None:
    made = node(
        parameters=[
            Parameter(id="number", value="2"),
            Parameter(id="array", value=[1, 2.5]),
            Parameter(id="product", value="array * number"),
            Parameter(
                id="called",
                function="linear",
                args={"variable0": "product", "slope": 2, "intercept": "number"},
            ),
            Parameter(id="listed", value="[number, number * 2]"),
        ],
        output_ports=[
            OutputPort(id=name, value=name) for name in ("number", "array", "product", "called", "listed")
        ],
    )
    results = outputs_of(made)
    assert {name: array.tolist() for name, array in results.items()} == {
        "number": 2,
        "array": [1, 2.5],
        "product": [2, 5],
        "called": [6, 12],
        "listed": [2, 4],
    }


def test_whole_results_of_python_arithmetic_are_integers_as_in_mdf() -> None:
    made = node(
        input_ports=[InputPort(id="x", type="int32")],
        parameters=[Parameter(id="half", value="4 / 2"), Parameter(id="text", value="2.0")],
        output_ports=[OutputPort(id="a", value="x * half"), OutputPort(id="b", value="x * text")],
    )
    results = outputs_of(made, {"x": np.array([1, 2], np.int32)})
    assert (results["a"].dtype, results["b"].dtype) == (np.int32, np.float64)


def test_conditions_of_parameters() -> None:
    made = node(
        input_ports=[InputPort(id="x", type="float32")],
        parameters=[
            Parameter(
                id="p",
                value="x * 2",
                conditions=[
                    {"id": "low", "test": "x < 0", "value": "-x"},  # type: ignore[list-item]
                    {"id": "high", "test": "p > 3", "value": 1},  # type: ignore[list-item]
                ],
            ),
        ],
        output_ports=[OutputPort(id="y", value="q"), OutputPort(id="z", value="p")],
    )
    made.parameters[0].conditions[1]["test"] = "x > 3"
    made.parameters.append(
        Parameter(id="q", conditions=[{"id": "on", "test": "x > 1", "value": "x"}])  # type: ignore[list-item]
    )
    results = outputs_of(made, {"x": np.array([-1, 2, 5], np.float32)})
    assert results["z"].tolist() == [1, 4, 1]
    assert results["y"].tolist() == [0, 2, 5]
    assert results["z"].dtype == np.float32


def test_a_parameter_that_calls_nothing_known_is_named() -> None:
    made = node(
        parameters=[
            Parameter(
                id="p",
                function="pattern_matching_function",
                args={"productions": 1, "goal": 1, "retrieval": 1},
            )
        ],
        output_ports=[OutputPort(id="y", value="p")],
    )
    with pytest.raises(UnsupportedError) as caught:
        to_onnx(Model(id="m", graphs=[Graph(id="g", nodes=[made])]))
    assert str(caught.value) == (
        "pattern_matching_function 'n': function 'pattern_matching_function' has no form in ONNX"
    )


X = [[1.0, -2.0, 3.0], [0.5, 0.25, -0.125]]


def called(function: str, args: dict[str, Any], result: str, engine: Any) -> Any:
    """Return what a node gives that calls an ONNX function with parameters."""
    model = calculation(function=f"onnx::{function}", args=args, parameters={"p": X, "k": 2})
    made = model.graphs[0].nodes[0]
    made.input_ports.clear()
    made.output_ports[0].value = result
    return run(model, engine=engine)["y"].tolist()


@pytest.mark.parametrize(
    ("function", "args", "expected"),
    [
        ("Pow", {"X": "k * 1.5", "Y": 2}, [9.0]),
        ("Add", {"A": "p", "B": 1.5}, [[2.5, -0.5, 4.5], [2.0, 1.75, 1.375]]),
        ("Gather", {"data": "p", "indices": 1, "axis": 0}, [[0.5, 0.25, -0.125]]),
        ("Slice", {"data": "p", "starts": 0, "ends": 1, "axes": 1, "steps": 1}, [[1.0], [0.5]]),
        ("Clip", {"input": "p", "min": 0.0, "max": 1.0}, [[1.0, 0.0, 1.0], [0.5, 0.25, 0.0]]),
        ("Range", {"start": 0, "limit": 5, "delta": "k"}, [0, 2, 4]),
    ],
)
@pytest.mark.parametrize("engine", ["onnx", "mdf"])
def test_a_number_given_to_an_onnx_function_is_an_array_of_one(
    function: str, args: dict[str, Any], expected: list[Any], engine: Any
) -> None:
    assert called(function, args, "f", engine) == expected


TOP = {"X": "p", "K": 2, "axis": -1, "largest": 1, "sorted": 1}


@pytest.mark.parametrize(
    ("function", "args", "result", "expected"),
    [
        ("Dropout", {"data": "p"}, "f[0]", X),
        ("TopK", TOP, "f[0]", [[3.0, 1.0], [0.5, 0.25]]),
        ("TopK", TOP, "f[1][0, 1]", 0),
        ("Relu", {"X": "p"}, "f[0]", [1.0, 0.0, 3.0]),
    ],
)
@pytest.mark.parametrize("engine", ["onnx", "mdf"])
def test_a_subscript_tells_results_apart_where_an_operator_has_several(
    function: str, args: dict[str, Any], result: str, expected: Any, engine: Any
) -> None:
    assert called(function, args, result, engine) == expected


@pytest.mark.parametrize("engine", ["onnx", "mdf"])
def test_an_attribute_that_is_a_text_reaches_onnx_functions(engine: Any) -> None:
    args = {"data": "p", "pads": [0, 1, 0, 0], "mode": "reflect"}
    assert called("Pad", args, "f", engine) == [[-2.0, 1.0, -2.0, 3.0], [0.25, 0.5, 0.25, -0.125]]


def test_trust_lets_mdfs_engine_evaluate_what_is_not_allowed() -> None:
    model = calculation("numpy.percentile(x, 50)", inputs={"x": "float64"})
    x = np.array([3.0, 1.0, 2.0])
    with pytest.raises(ModelError, match=r"calls numpy\.percentile"):
        run(model, {"x": x}, engine="mdf")
    assert run(model, {"x": x}, engine="mdf", trust=True)["y"] == 2
    assert run(model, {"x": x}, trust=True)["y"] == 2
    with pytest.raises(ModelError, match=r"calls numpy\.percentile"):
        run(model, {"x": x}, engine="onnx", trust=True)
    model.graphs[0].nodes[0].functions[0].function = "no_such_function"
    with pytest.raises(ModelError, match="unknown function 'no_such_function'"):
        run(model, {"x": x}, trust=True)
