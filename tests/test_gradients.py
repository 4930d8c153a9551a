"""Gradients: proven against finite differences, and against what other libraries agree on."""

from __future__ import annotations

import dataclasses
import itertools
import warnings

import numpy as np
import pytest
from gradients_nd import gradient_cases
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from mdf_scatter.dtypes import BFLOAT16, dtype_of
from mdf_scatter.errors import OperatorError
from mdf_scatter.kernels import pullback as kernels
from mdf_scatter.ops import OPS, Op
from mdf_scatter.ops.op import DIFFERENTIABLE
from mdf_scatter.ops.vjp import vjp

CASES = gradient_cases()
TOLERANCE = {"float64": 1e-6, "complex128": 1e-6, "float32": 1e-5, "float16": 1e-3}
HALVES = [np.float16, BFLOAT16]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_vector(case):
    gradients = vjp(case.op, case.grad, *case.inputs, **case.attributes)
    for gradient, expected in zip(gradients, case.expected, strict=True):
        if expected is None:
            assert gradient is None
            continue
        assert (gradient.shape, gradient.dtype) == (expected.shape, expected.dtype)
        scaled = gradient * np.asarray(case.factor, gradient.dtype)
        np.testing.assert_allclose(scaled, expected, rtol=TOLERANCE[expected.dtype.name], atol=0)


# --- every operator, by finite differences ---------------------------------------------------------


def indices_into(draw, sizes, batch):
    """Draw indices of shape (*batch, len(sizes)) into axes of these sizes, from either end."""
    columns = [draw(arrays(np.int64, batch, elements=st.integers(-size, size - 1))) for size in sizes]
    return np.stack(columns, axis=-1) if columns else np.zeros((*batch, 0), np.int64)


SHAPES = st.lists(st.integers(1, 3), min_size=1, max_size=3).map(tuple)
BATCHES = st.lists(st.integers(0, 4), max_size=2).map(tuple)


@st.composite
def slices(draw):
    shape, batch = draw(SHAPES), draw(BATCHES)
    depth = draw(st.integers(0, len(shape)))
    return shape, indices_into(draw, shape[:depth], batch), batch + shape[depth:]


@st.composite
def elements(draw):
    shape = draw(SHAPES)
    axis = draw(st.integers(-len(shape), len(shape) - 1))
    taken = [draw(st.integers(0, size)) for size in shape]
    taken[axis] = draw(st.integers(0, 5))
    return shape, indices_into(draw, shape[axis : axis + 1 or None], taken)[..., 0], {"axis": axis}


@st.composite
def gather_nd_calls(draw):
    shared, indexed, kept = draw(BATCHES), draw(SHAPES), draw(BATCHES)
    batch = draw(BATCHES)
    indices = indices_into(draw, indexed, shared + batch)
    return (shared + indexed + kept, indices), {"batch_dims": len(shared)}


@st.composite
def tensor_scatter_calls(draw):
    shape = tuple(draw(st.lists(st.integers(1, 3), min_size=2, max_size=4)))
    axis = draw(st.integers(1, len(shape) - 1))
    length = draw(st.integers(0, shape[axis]))
    mode = draw(st.sampled_from(["linear", "circular"]))
    last = 9 if mode == "circular" else shape[axis] - length
    starts = draw(st.none() | arrays(np.int64, shape[0], elements=st.integers(0, last)))
    update = (*shape[:axis], length, *shape[axis + 1 :])
    return (shape, update, starts), {"axis": axis - draw(st.sampled_from([0, len(shape)])), "mode": mode}


PATTERNS = {
    "ScatterND": slices().map(lambda drawn: (drawn, {})),
    "ScatterElements": elements().map(lambda drawn: ((*drawn[:2], drawn[1].shape), drawn[2])),
    "GatherND": gather_nd_calls(),
    "GatherElements": elements().map(lambda drawn: (drawn[:2], drawn[2])),
    "TensorScatter": tensor_scatter_calls(),
    "tf::scatter_nd": slices().map(lambda drawn: ((drawn[1], drawn[2], np.array(drawn[0])), {})),
    "paddle::scatter_nd_add": slices().map(lambda drawn: (drawn, {})),
}
"""By operator, inputs and attributes of right calls: a shape for values yet to draw, or integers."""


def calls_of(op: Op):
    """Return right calls of any operator: the shapes of its cases, and more where there is a pattern."""
    small = [
        (
            tuple(
                value if name in op.integers else np.shape(value)
                for name, value in zip(op.inputs, case.inputs, strict=False)
            ),
            dict(case.attributes),
        )
        for case in op.cases
        if case.expected is not None and sum(np.size(value) for value in case.inputs) < 60
    ]
    return st.one_of(st.sampled_from(small), PATTERNS.get(op.name, st.nothing()))


def settings_of(op: Op):
    """Return every way to set what decides how updates are reduced."""
    choices = {name: op.attributes[name].choices for name in ("reduction",) if name in op.attributes}
    choices |= {name: (True, False) for name, a in op.attributes.items() if a.default is True}
    return [dict(zip(choices, chosen, strict=True)) for chosen in itertools.product(*choices.values())]


# Few whole numbers: zeros and ties abound, and a difference over a quarter is exact in binary.
WHOLE = st.integers(-2, 3)
STEP = 0.25


@pytest.mark.parametrize(
    ("op", "setting"), [(op, setting) for op in OPS.values() for setting in settings_of(op)],
    ids=lambda value: value.name if isinstance(value, Op) else ",".join(map(str, value.values())),
)  # fmt: skip
@settings(max_examples=30, deadline=None)
@given(data=st.data())
def test_gradient_is_the_derivative(op, setting, data):
    """Prove a gradient by differences in float64 and complex128, exact but for rounding.

    Every operator is linear, multilinear, or piecewise linear with pieces wider than the step. Where the
    output has a derivative along one element, the gradient has to be it. Where it has none, the element
    is one of several that tie for a maximum or minimum; then there is one along all of them together,
    and the gradients have to be equal and sum up to it. That leaves one gradient, the even share.
    """
    is_complex = setting.get("reduction") not in ("max", "min") and data.draw(st.booleans())
    drawn, attributes = data.draw(calls_of(op))
    attributes = attributes | setting

    def values(shape):
        real, imag = (data.draw(arrays(np.int64, shape, elements=WHOLE)) for _ in range(2))
        return real + 1j * imag if is_complex else real.astype(np.float64)

    inputs = [values(value) if isinstance(value, tuple) else value for value in drawn]

    def output(moves):
        moved = [np.array(value) if isinstance(drawn[k], tuple) else value for k, value in enumerate(inputs)]
        for k, place, move in moves:
            moved[k][place] += move
        return op.forward(*moved, **attributes)

    def slopes(members, unit):
        after, at, before = (
            output([(*member, move * unit) for member in members]) for move in (STEP, 0, -STEP)
        )
        return (after - at) / STEP, (at - before) / STEP

    grad = values(output([]).shape)
    gradients = vjp(op.name, grad, *inputs, **attributes)
    assert len(gradients) == len(op.inputs)
    tied = {}
    for k, value in enumerate(inputs):
        if not isinstance(drawn[k], tuple):
            assert gradients[k] is None
            continue
        assert (gradients[k].shape, gradients[k].dtype) == (value.shape, value.dtype)
        for place, unit in itertools.product(np.ndindex(value.shape), (1, 1j) if is_complex else (1,)):
            right, left = slopes([(k, place)], unit)
            if np.allclose(right, left):
                # A step d changes the loss by Re(conj(gradient) * d): torch's convention.
                expected = np.sum(grad.conj() * right).real
                assert np.isclose((np.conj(gradients[k][place]) * unit).real, expected)
            else:
                (spot,) = np.argwhere(~np.isclose(right, left)).tolist()
                tied.setdefault(tuple(spot), []).append((k, place))
    for spot, members in tied.items():
        assert setting["reduction"] in ("max", "min")
        right, left = slopes(members, 1)
        assert right[spot] == left[spot] == 1
        np.testing.assert_allclose([gradients[k][place] for k, place in members], grad[spot] / len(members))


def test_there_is_a_pattern_and_a_gradient_for_every_operator():
    assert set(PATTERNS) == set(OPS)
    assert all(op.pullback is not None for op in OPS.values())


# --- products --------------------------------------------------------------------------------------


def scatter_vjp(grad, data, rows, updates, reduction, include_self=True):
    """Gradients of data and updates of a scatter into rows."""
    indices = np.asarray(rows)[:, np.newaxis]
    gradients = vjp("ScatterND", grad, data, indices, updates, reduction=reduction, include_self=include_self)
    return gradients[0], gradients[2]


@pytest.mark.parametrize("thin", [0, 1 << 40])
@pytest.mark.parametrize("block", [1, 50, 1 << 20])
@pytest.mark.parametrize("include_self", [True, False])
def test_products_of_the_others_in_order(thin, block, include_self, monkeypatch):
    monkeypatch.setattr(kernels, "THIN", thin)
    monkeypatch.setattr(kernels, "BLOCK", block)
    rng = np.random.default_rng(3)
    rows = np.concatenate([rng.integers(0, 12, 60), np.full(100, 12), [14]])
    data, updates = rng.normal(size=(16, 3)), rng.normal(size=(len(rows), 3))
    updates[rng.random(updates.shape) < 0.1] = 0
    grad = rng.normal(size=data.shape)
    to_data, to_updates = scatter_vjp(grad, data, rows, updates, "mul", include_self)
    for row in range(len(data)):
        own = np.flatnonzero(rows == row)
        product = np.prod(updates[own], axis=0) if include_self or not len(own) else 0
        np.testing.assert_allclose(to_data[row], grad[row] * product, rtol=1e-12)
        for number in own:
            others = np.prod(updates[own[own != number]], axis=0) * (data[row] if include_self else 1)
            np.testing.assert_allclose(to_updates[number], grad[row] * others, rtol=1e-12)


def test_products_neither_underflow_nor_overflow_where_the_others_do_not():
    small, large = 1e-200, 1e200
    to_data, to_updates = scatter_vjp([1.0], [small], [0, 0], [small, large], "mul")
    np.testing.assert_allclose(to_data, [1])
    np.testing.assert_allclose(to_updates, [1, 0])
    to_data, to_updates = scatter_vjp([1.0], [1.0], [0, 0, 0], [small, small, large], "mul", False)
    np.testing.assert_allclose(to_updates, [1, 1, 0])
    to_data, to_updates = scatter_vjp([1.0], [large], [0, 0], [large, small], "mul")
    np.testing.assert_allclose(to_data, [1])
    np.testing.assert_allclose(to_updates, [1, np.inf])


def test_a_million_updates_to_one_element_take_linear_time():
    updates = np.ones(1_000_000)
    updates[500_000] = 0
    to_data, to_updates = scatter_vjp([2.0], [3.0], np.zeros(len(updates), int), updates, "mul")
    assert to_data.tolist() == [0]
    assert np.flatnonzero(to_updates).tolist() == [500_000]
    assert to_updates[500_000] == 6


# --- maxima and minima -----------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [*HALVES, np.float32, np.float64])
@pytest.mark.parametrize("reduction", ["max", "min"])
def test_nan_goes_to_all_that_met_and_to_no_other(dtype, reduction):
    data = np.array([1, np.nan, 1, 1], dtype)
    updates = np.array([1, np.nan, 5, 1], dtype)
    grad = np.full(4, 2, dtype)
    to_data, to_updates = scatter_vjp(grad, data, [0, 0, 1, 2], updates, reduction)
    assert np.isnan(to_data).tolist() == [True, True, False, False]
    assert np.isnan(to_updates).tolist() == [True, True, True, False]
    assert to_data[2:].tolist() == [1, 2]
    to_data, to_updates = scatter_vjp(grad, data, [0, 0, 1, 2], updates, reduction, include_self=False)
    assert to_data.tolist() == [0, 0, 0, 2]
    assert np.isnan(to_updates).tolist() == [True, True, False, False]


def test_zeros_of_both_signs_tie():
    to_data, to_updates = scatter_vjp([3.0], [-0.0], [0, 0], [0.0, -0.0], "max")
    assert (to_data.tolist(), to_updates.tolist()) == ([1], [1, 1])


def test_nan_from_above_goes_to_the_winners_alone():
    to_data, to_updates = scatter_vjp([np.nan], [1.0], [0, 0], [2.0, 0.0], "max")
    assert to_data.tolist() == [0]
    assert np.isnan(to_updates).tolist() == [True, False]


@pytest.mark.parametrize("count", [254, 255, 256])
def test_as_many_ties_as_there_are_updates(count):
    to_data, to_updates = scatter_vjp([1.0], [7.0], [0] * count, [7.0] * count, "max")
    assert {*to_data.tolist(), *to_updates.tolist()} == {1 / (count + 1)}


# --- float16 and bfloat16 --------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", HALVES)
def test_halves_are_computed_in_float32_and_rounded_once(dtype):
    ones = np.ones(4096, dtype)
    gathered = vjp("GatherND", ones, np.zeros(1, dtype), np.zeros((4096, 1), int))
    assert gathered[0].tolist() == [4096]
    rng = np.random.default_rng(1)
    data, grad = (rng.normal(1, 0.3, 4).astype(dtype) for _ in range(2))
    updates = rng.normal(1, 0.3, 40).astype(dtype)
    rows = rng.integers(0, 4, 40)
    for reduction in ("none", "add", "mul", "mean", "max"):
        rounded = scatter_vjp(grad, data, rows, updates, reduction)
        wide = scatter_vjp(*(a.astype(np.float32) for a in (grad, data)), rows, updates.astype(np.float32),
                           reduction)  # fmt: skip
        for half, single in zip(rounded, wide, strict=True):
            assert half.dtype == dtype
            assert half.tolist() == single.astype(dtype).tolist()


# --- what is stored --------------------------------------------------------------------------------


def held(pullback):
    """Return the bytes that a pullback keeps alive: of arrays, and of those that they are views of."""
    count = 0
    for value in vars(pullback).values():
        if isinstance(value, np.ndarray):
            count += (value if value.base is None else value.base).nbytes
        elif dataclasses.is_dataclass(value):
            count += held(value)
    return count


@pytest.mark.parametrize("include_self", [True, False])
def test_stored_is_what_the_way_back_needs_and_no_more(include_self):
    data, updates = np.ones((100_000, 4), np.float32), np.ones((10, 4), np.float32)
    indices = np.array([[row % 3] for row in range(10)], np.int8)
    rows, touched = 10 * 8, 3
    expected = {
        "none": rows,
        "add": rows,
        "mean": rows,
        "mul": rows + updates.nbytes + include_self * touched * 4 * 4,
        "max": rows + 10 * 4 + include_self * touched * 4,
        "min": rows + 10 * 4 + include_self * touched * 4,
    }
    op = OPS["ScatterND"]
    assert set(expected) == set(op.attributes["reduction"].choices)
    for reduction, count in expected.items():
        output = op.forward(data, indices, updates, reduction, include_self)
        pullback = op.pullback(data, indices, updates, reduction, include_self, output=output)
        assert pullback.nbytes == held(pullback) == count, reduction
        for dtype in (np.int32, bool):
            if reduction != "mean" or dtype is not bool:
                arguments = data.astype(dtype), indices, updates.astype(dtype), reduction, include_self
                assert held(op.pullback(*arguments, output=op.forward(*arguments))) == 0


@pytest.mark.parametrize("op", OPS.values(), ids=lambda op: op.name)
def test_what_moves_values_stores_rows_alone(op):
    for case in op.cases:
        if case.expected is None or "reduction" in op.attributes:
            continue
        inputs = [
            value if name in op.integers else np.ones(np.shape(value), np.float32)
            for name, value in zip(op.inputs, case.inputs, strict=False)
        ]
        output = op.forward(*inputs, **case.attributes)
        pullback = op.pullback(*inputs, output=output, **case.attributes)
        moved = min(value.size for name, value in zip(op.inputs, inputs, strict=False)
                    if name in ("updates", "update")) if "Gather" not in op.name else output.size  # fmt: skip
        assert pullback.nbytes == held(pullback) <= 8 * max(moved, 1)


@pytest.mark.parametrize("reduction", OPS["ScatterND"].attributes["reduction"].choices)
def test_later_changes_of_the_arguments_change_nothing(reduction):
    data, updates, indices = np.array([1.0, 2, 3]), np.array([3.0, 5, 2]), np.array([[0], [2], [0]])
    op = OPS["ScatterND"]
    output = op.forward(data, indices, updates, reduction)
    pullback = op.pullback(data, indices, updates, reduction, output=output)
    grad = np.array([1.0, 2, 3])
    before = pullback(grad)
    for array in (data, updates, output):
        array[:] = -1
    indices[:] = 1
    after = pullback(grad)
    for first, second in zip(before, after, strict=True):
        assert first is second is None or first.tolist() == second.tolist()
    assert grad.tolist() == [1, 2, 3]
    assert not any(np.may_share_memory(grad, gradient) for gradient in after if gradient is not None)


# --- shapes, layouts, dtypes -----------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DIFFERENTIABLE)
def test_gradients_have_the_dtype_of_the_inputs(dtype):
    dtype = dtype_of(dtype)
    data, updates = np.array([1, 2], dtype), np.array([3, 4], dtype)
    for reduction in ("none", "add", "mul", "mean"):
        to_data, to_updates = scatter_vjp(data, data, [0, 0], updates, reduction)
        assert to_data.dtype == to_updates.dtype == dtype


@pytest.mark.parametrize("reduction", OPS["ScatterND"].attributes["reduction"].choices)
@pytest.mark.parametrize("include_self", [True, False])
def test_empty_tensors(reduction, include_self):
    setting = {"reduction": reduction, "include_self": include_self}
    for data, indices, updates in [
        ((3, 2), (0, 1), (0, 2)),
        ((0, 3), (0, 1), (0, 3)),
        ((2, 0), (3, 1), (3, 0)),
        ((1 << 40, 0), (2, 1), (2, 0)),
    ]:
        inputs = np.ones(data), np.zeros(indices, int), np.ones(updates)
        to_data, nothing, to_updates = vjp("ScatterND", np.ones(data), *inputs, **setting)
        assert nothing is None
        assert (to_data.shape, to_updates.shape) == (data, updates)
        assert (to_data == 1).all()
    shape = np.array([2, 0])
    assert vjp("tf::scatter_nd", np.ones((2, 0)), [[1]], np.ones((1, 0)), shape)[1].shape == (1, 0)
    assert vjp("GatherND", np.ones((1, 0)), np.ones((2, 0)), [[1]])[0].shape == (2, 0)


def test_grad_of_any_layout():
    data, updates = np.arange(6.0).reshape(2, 3), np.ones((1, 3))
    grad = np.arange(6.0).reshape(2, 3)
    for given_grad in (
        grad.tolist(),
        np.asfortranarray(grad),
        grad.astype(">f8"),
        np.repeat(grad, 2, 1)[:, ::2],
    ):
        to_data, to_updates = scatter_vjp(given_grad, data, [1], updates, "mul")
        assert to_data.tolist() == grad.tolist()
        assert to_updates.tolist() == [[9, 16, 25]]


def test_nothing_warns():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for reduction in ("mul", "max", "min", "mean", "add"):
            for dtype in (*HALVES, np.float32):
                extreme = np.array([np.inf, np.nan, 6e4, 0, -0.0, 1e-7]).astype(dtype)
                scatter_vjp(extreme, extreme, [0, 1, 2, 3, 4, 5] * 2, np.tile(extreme[::-1], 2), reduction)


# --- errors ----------------------------------------------------------------------------------------


def problem(*arguments, **attributes):
    with pytest.raises(OperatorError) as caught:
        vjp(*arguments, **attributes)
    assert "\n" not in str(caught.value)
    return str(caught.value)


CALL = [1.0, 2.0], [[0]], [3.0]


@pytest.mark.parametrize(
    ("data", "named"), [([1, 2], "int64"), ([True, False], "bool"), (["a", "b"], "string")]
)
def test_integers_bools_and_strings_have_no_gradient(data, named):
    data = np.array(data)
    for reduction in ("none", "add", "max"):
        assert problem("ScatterND", data, data, [[0]], data[:1], reduction=reduction) == (
            f"ScatterND: the output has dtype {named}, which has no gradient; expected 'float16', 'bfloat16',"
            " 'float32', 'float64', 'complex64' or 'complex128'"
        )
    assert problem("GatherND", data[:1], data, [[0]]).startswith(f"GatherND: the output has dtype {named},")


def test_grad_fits_the_output():
    assert problem("ScatterND", [1.0], *CALL) == (
        "ScatterND: grad has shape (1,); expected (2,), the shape of the output"
    )
    assert problem("ScatterND", np.ones(2, np.float32), *CALL) == (
        "ScatterND: grad has dtype float32; expected float64, the dtype of the output"
    )
    assert problem("tf::scatter_nd", [1.0], [[0]], [3.0], [2]) == (
        "tf::scatter_nd: grad has shape (1,); expected (2,), the shape of the output"
    )
    assert problem("ScatterND", np.ma.ones(2), *CALL).startswith("ScatterND: grad is a masked array")


def test_operator_inputs_and_attributes_are_known(monkeypatch):
    known = ", ".join(repr(name) for name in list(OPS)[:-1]) + f" or {list(OPS)[-1]!r}"
    assert problem("scatterND", [1.0, 2.0], *CALL) == (
        f"vjp: op is 'scatterND'; expected {known}; did you mean 'ScatterND' or 'tf::scatter_nd'?"
    )
    assert problem(None, [1.0, 2.0], *CALL) == f"vjp: op is of type NoneType; expected the text {known}"
    assert problem("ScatterND", [1.0, 2.0], *CALL[:2]) == (
        "ScatterND: 2 inputs are given after grad; expected data, indices, updates, in this order"
    )
    assert problem("TensorScatter", [[1.0]]) == (
        "TensorScatter: 0 inputs are given after grad; expected past_cache, update, write_indices,"
        " in this order; 'write_indices' may be left out"
    )
    assert problem("ScatterND", [1.0, 2.0], *CALL, reducton="add") == (
        "ScatterND: there is no attribute 'reducton'; expected 'reduction' or 'include_self';"
        " did you mean 'reduction'?"
    )
    assert problem("paddle::scatter_nd_add", [1.0, 2.0], *CALL, axis=0) == (
        "paddle::scatter_nd_add: there is no attribute 'axis'; it has no attributes"
    )
    assert problem("ScatterND", [1.0, 2.0], [1.0, 2.0], [[2]], [3.0]) == (
        "ScatterND: indices[0, 0] is 2; expected -2..1 (axis 0 of data)"
    )
    monkeypatch.setitem(OPS, "mine", dataclasses.replace(OPS["ScatterND"], name="mine", pullback=None))
    assert problem("mine", [1.0, 2.0], *CALL) == "mine: there is no gradient of this operator"
