"""ScatterElements: right for every dtype, reduction and shape, and clear about what is wrong."""

from __future__ import annotations

import numpy as np
import pytest
from family import LOOPS, cases_of, check_case, node_cases, problem
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from random_calls import check_random_calls
from samples import ALL_DTYPES, reductions_of, same, samples
from vectors_nd import vectors

from mdf_scatter.dtypes import BFLOAT16
from mdf_scatter.kernels import REDUCTIONS
from mdf_scatter.ops.scatter_elements import scatter_elements

NAME = "ScatterElements"
loop = LOOPS[NAME]
VECTORS = vectors(NAME, ("data", "indices", "updates"), ("axis", "reduction"))
NO_ORDER = {
    "ScatterElements_1388",
    "ScatterElements_1389",
    "ScatterElements_1393",
    "ScatterElements_1394",
}
"""Vectors whose expected value the specification does not share: complex max and min are an error."""


@pytest.mark.parametrize(("name", "case"), cases_of(NAME))
def test_case(name, case):
    check_case(name, case)


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector.id)
def test_vector(vector):
    if vector.id in NO_ORDER:
        assert "complex numbers have no order" in problem(NAME, *vector.inputs, **vector.attributes)
        return
    if vector.expected is None:
        message = problem(NAME, *vector.inputs, **vector.attributes)
        assert message.startswith((f"{NAME}: indices", f"{NAME}: updates")), message
        return
    result = scatter_elements(*vector.inputs, **vector.attributes)
    assert same(result, loop(*vector.inputs, **vector.attributes), computed=True)
    assert same(result, vector.expected)


@pytest.mark.parametrize(("inputs", "attributes", "output"), node_cases(NAME, "scatterelements"))
def test_example_of_onnx(inputs, attributes, output):
    assert same(scatter_elements(*inputs, **attributes), output)


def test_random_calls_equal_loop_or_are_errors():
    outcomes = check_random_calls(NAME, np.random.default_rng(2024), 2000)
    assert min(outcomes.values()) > 400


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10))
def test_many_random_calls_equal_loop_or_are_errors(seed):
    check_random_calls(NAME, np.random.default_rng(seed), 5000)


@st.composite
def calls(draw, dtype):
    pool = samples(dtype)
    axis = draw(st.integers(0, 1))
    shape = [draw(st.integers(1, 4)), draw(st.integers(1, 4))]
    size = shape[axis]

    def values(shape):
        return pool[draw(arrays(np.int64, shape, elements=st.integers(0, len(pool) - 1)))]

    data = values(tuple(shape))
    shape[axis] = draw(st.integers(0, 6))
    shape[1 - axis] = draw(st.integers(0, shape[1 - axis]))
    indices = draw(arrays(np.int16, tuple(shape), elements=st.integers(-size, size - 1)))
    return data, indices, values(tuple(shape)), axis


@pytest.mark.parametrize(("dtype", "reduction"), [(d, r) for d in ALL_DTYPES for r in reductions_of(d)])
@settings(max_examples=10, deadline=None)
@given(drawn=st.data())
def test_equals_loop(dtype, reduction, drawn):
    call = drawn.draw(calls(dtype))
    result = scatter_elements(*call, reduction)
    assert same(result, loop(*call, reduction), computed=reduction != "none")


# --- decisions ---------------------------------------------------------------------------------


@pytest.mark.parametrize("reduction", ["max", "min"])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, BFLOAT16])
def test_nan_wins_wherever_it_is(dtype, reduction):
    data = np.array([[np.nan, 1, 1]], dtype)
    updates = np.array([[5, np.nan, 5, 5]], dtype)
    result = scatter_elements(data, [[0, 1, 1, 2]], updates, 1, reduction)
    assert np.isnan(result).tolist() == [[True, True, False]]


def test_positive_zero_is_greater_than_negative_zero():
    for reduction, negative in (("max", False), ("min", True)):
        for values in ([0.0, -0.0], [-0.0, 0.0]):
            result = scatter_elements(values[:1], [0], values[1:], 0, reduction)
            assert np.signbit(result[0]) == negative


@pytest.mark.parametrize("dtype", [np.float16, BFLOAT16])
def test_halves_are_rounded_once(dtype):
    ones = np.ones((2, 4096), dtype)
    assert scatter_elements(np.zeros((2, 1), dtype), ones.astype(int) * 0, ones, 1, "add").tolist() == [
        [4096],
        [4096],
    ]


def test_last_of_many_updates_to_an_element_stays():
    rng = np.random.default_rng(3)
    indices = rng.integers(0, 5, (20_000, 4))
    updates = np.arange(80_000.0).reshape(20_000, 4)
    result = scatter_elements(np.zeros((5, 4)), indices, updates)
    for column in range(4):
        last = [np.flatnonzero(indices[:, column] == row)[-1] for row in range(5)]
        assert same(result[:, column].copy(), updates[last, column])


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_every_run_gives_the_same_bits(reduction):
    rng = np.random.default_rng(5)
    data, updates = rng.normal(size=(20, 7)), rng.normal(size=(900, 7))
    indices = rng.integers(-20, 20, (900, 7))
    first = scatter_elements(data, indices, updates, 0, reduction)
    assert same(first, loop(data, indices, updates, 0, reduction))
    assert all(same(scatter_elements(data, indices, updates, 0, reduction), first) for _ in range(3))


def test_zero_sized_axes_are_legal_however_large_the_others():
    wide = np.zeros((1 << 40, 0, 2), np.float32)
    none = np.zeros((1 << 39, 0, 1), int)
    assert scatter_elements(wide, none, none.astype(np.float32), 0, "add").shape == wide.shape
    assert scatter_elements(np.zeros((0, 3)), np.zeros((0, 2), int), np.zeros((0, 2))).shape == (0, 3)


def test_fixed_width_strings_widen_as_needed():
    result = scatter_elements(["a", "bc"], [0, 0, -1], ["wide", "r", "text"], reduction="add")
    assert (result.tolist(), result.dtype) == (["awider", "bctext"], np.dtype("U6"))


@pytest.mark.parametrize("index", [2**63, 2**64 - 1, 3])
def test_large_unsigned_index_is_out_of_range_not_negative(index):
    assert problem(NAME, np.zeros((2, 3)), np.array([[1, index]], np.uint64), np.zeros((1, 2)), 1) == (
        f"ScatterElements: indices[0, 1] is {index}; expected -3..2 (axis 1 of data)"
    )


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"axis": None}, "axis is None; expected an integer"),
        ({"axis": True}, "axis is True; expected an integer"),
        ({"axis": np.eye(2)}, "axis is array([[1., 0.], [0., 1.]]); expected an integer"),
        ({"axis": 1}, "axis is 1; expected -1..0, as data has rank 1"),
        (
            {"reduction": "ad"},
            "reduction is 'ad'; expected 'none', 'add', 'mul', 'max' or 'min'; did you mean 'add'?",
        ),
    ],
)
def test_wrong_attributes(keywords, message):
    assert problem(NAME, [1.0], [0], [2.0], **keywords) == f"ScatterElements: {message}"


# --- out ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("shift", [0, 1, 3])
@pytest.mark.parametrize("step", [1, -1])
def test_out_may_overlap_any_argument(reduction, shift, step):
    for overlapping in range(3):
        memory = np.array([3, 1, 2, 0, 1, 3, 2, 0, 1])
        arguments = [np.array([5, 6, 7, 8]), np.array([1, 0, 1, 3]), np.array([2, 3, 4, 5])]
        arguments[overlapping] = memory[:4]
        expected = scatter_elements(*(array.copy() for array in arguments), 0, reduction)
        out = memory[shift : shift + 4][::step]
        assert scatter_elements(*arguments, 0, reduction, out=out) is out
        assert out.tolist() == expected.tolist()


def test_wrong_out_is_an_error_and_out_is_untouched():
    data = np.arange(4.0)
    assert problem(NAME, data, [0], [1.0], out=np.zeros(3)) == (
        "ScatterElements: out has shape (3,); expected (4,), the shape of data"
    )
    assert problem(NAME, data, [0], [1.0], out=np.zeros(4, ">f8")).startswith(
        "ScatterElements: out has dtype"
    )
    for arguments in [([0, 4], [1.0, 2.0]), ([0], [1.0, 2.0]), ([0], [1]), ([0], [1.0], 1)]:
        problem(NAME, data, *arguments, out=data)
        assert data.tolist() == [0, 1, 2, 3]
