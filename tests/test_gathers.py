"""GatherND and GatherElements: every dtype moved bit for bit, and clear about what is wrong."""

from __future__ import annotations

import numpy as np
import pytest
from family import LOOPS, cases_of, check_case, node_cases, problem
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from random_calls import check_random_calls
from samples import ALL_DTYPES, same, samples
from vectors_nd import vectors

from mdf_scatter.dtypes import is_string
from mdf_scatter.ops import OPS
from mdf_scatter.ops.gather_elements import gather_elements
from mdf_scatter.ops.gather_nd import gather_nd
from mdf_scatter.ops.scatter_elements import scatter_elements
from mdf_scatter.ops.scatter_nd import scatter_nd

GATHERS = ("GatherND", "GatherElements")
VECTORS = [
    pytest.param("GatherND", vector, id=vector.id)
    for vector in vectors("GatherND", ("data", "indices"), ("batch_dims",))
] + [
    pytest.param("GatherElements", vector, id=vector.id)
    for vector in vectors("GatherElements", ("data", "indices"), ("axis",))
]


@pytest.mark.parametrize(("name", "case"), cases_of(*GATHERS))
def test_case(name, case):
    check_case(name, case)


@pytest.mark.parametrize(("name", "vector"), VECTORS)
def test_vector(name, vector):
    if vector.expected is None:
        assert problem(name, *vector.inputs, **vector.attributes).startswith(f"{name}: indices")
        return
    result = OPS[name].forward(*vector.inputs, **vector.attributes)
    assert same(result, vector.expected)
    assert same(LOOPS[name](*vector.inputs, **vector.attributes), vector.expected)


@pytest.mark.parametrize(("inputs", "attributes", "output"), node_cases("GatherND", "gathernd"))
def test_gather_nd_example_of_onnx(inputs, attributes, output):
    assert same(gather_nd(*inputs, **attributes), output)


@pytest.mark.parametrize(("inputs", "attributes", "output"), node_cases("GatherElements", "gatherelements"))
def test_gather_elements_example_of_onnx(inputs, attributes, output):
    assert same(gather_elements(*inputs, **attributes), output)


@pytest.mark.parametrize("name", GATHERS)
def test_random_calls_equal_loop_or_are_errors(name):
    outcomes = check_random_calls(name, np.random.default_rng(2024), 1500)
    assert min(outcomes.values()) > 300


@pytest.mark.slow
@pytest.mark.parametrize("name", GATHERS)
@pytest.mark.parametrize("seed", range(10))
def test_many_random_calls_equal_loop_or_are_errors(name, seed):
    check_random_calls(name, np.random.default_rng(seed), 5000)


# --- every dtype -------------------------------------------------------------------------------


@st.composite
def pools(draw, dtype):
    """Draw a matrix of a dtype's values."""
    pool = samples(dtype)
    shape = draw(st.tuples(st.integers(1, 4), st.integers(1, 4)))
    return pool[draw(arrays(np.int64, shape, elements=st.integers(0, len(pool) - 1)))]


@pytest.mark.parametrize("dtype", ALL_DTYPES)
@settings(max_examples=15, deadline=None)
@given(drawn=st.data())
def test_gathers_equal_loops(dtype, drawn):
    data = drawn.draw(pools(dtype))
    height, width = data.shape
    rows = drawn.draw(arrays(np.int8, (3, width), elements=st.integers(-height, height - 1)))
    columns = drawn.draw(arrays(np.int8, (height, 3, 1), elements=st.integers(-width, width - 1)))
    for result, expected in [
        (gather_nd(data, rows[:, :1]), LOOPS["GatherND"](data, rows[:, :1])),
        (gather_nd(data, columns, 1), LOOPS["GatherND"](data, columns, 1)),
        (gather_elements(data, rows), LOOPS["GatherElements"](data, rows)),
        (gather_elements(data, columns[..., 0], 1), LOOPS["GatherElements"](data, columns[..., 0], 1)),
    ]:
        assert same(result, expected)
        assert result.dtype == data.dtype


@pytest.mark.parametrize("dtype", ALL_DTYPES)
@settings(max_examples=10, deadline=None)
@given(drawn=st.data())
def test_gather_is_the_inverse_of_scatter(dtype, drawn):
    data, updates = drawn.draw(pools(dtype)), drawn.draw(pools(dtype))
    height = len(data)
    assume(updates.shape[0] <= height)
    rows = np.array(drawn.draw(st.permutations(range(-height, 0)))[: len(updates)])
    updates = np.resize(updates, (len(updates), data.shape[1]))
    assert same(gather_nd(scatter_nd(data, rows[:, np.newaxis], updates), rows[:, np.newaxis]), updates)
    by_element = np.repeat(rows[:, np.newaxis], data.shape[1], axis=1)
    assert same(gather_elements(scatter_elements(data, by_element, updates), by_element), updates)


# --- shapes ------------------------------------------------------------------------------------


def test_zero_sized_axes_are_legal_however_large_the_others():
    wide = np.zeros((1 << 40, 0, 2), np.float32)
    assert gather_nd(wide, [[5], [-1]]).shape == (2, 0, 2)
    assert gather_nd(wide, np.zeros((1 << 40, 0, 1), int), 1).shape == (1 << 40, 0, 2)
    assert gather_nd(np.zeros((0, 3)), np.zeros((0, 1), int)).shape == (0, 3)
    assert gather_elements(wide, np.zeros((1 << 40, 0, 2), int)).shape == (1 << 40, 0, 2)
    assert gather_elements(wide, np.zeros((3, 0, 7), int), 2).shape == (3, 0, 7)
    assert gather_elements(wide, np.zeros((1 << 40, 0, 7), int), 2).shape == (1 << 40, 0, 7)
    assert gather_elements([[1.0, 2.0]], np.zeros((0, 2), int)).shape == (0, 2)


def test_scalars_come_out_as_arrays():
    result = gather_nd([[1, 2], [3, 4]], [1, -2])
    assert same(result, np.array(3))
    assert same(gather_nd([1, 2], [[0]], batch_dims=0), np.array([1]))


def test_batch_dims_may_be_any_integer_but_a_truth_value():
    data, indices = np.arange(8).reshape(2, 2, 2), [[1], [0]]
    assert gather_nd(data, indices, np.int8(1)).tolist() == [[2, 3], [4, 5]]
    assert problem("GatherND", data, indices, True) == "GatherND: batch_dims is True; expected an integer"
    assert problem("GatherND", data, indices, -1) == (
        "GatherND: batch_dims is -1; expected 0..1, as data has rank 3 and indices 2"
    )
    assert problem("GatherElements", data, data, 0.0) == "GatherElements: axis is 0.0; expected an integer"


@pytest.mark.parametrize("name", GATHERS)
@pytest.mark.parametrize("index", [2**63, 2**64 - 1, 1000])
def test_large_unsigned_index_is_out_of_range_not_negative(name, index):
    indices = np.array([1, index], np.uint64)
    given_indices, place = (indices[:, np.newaxis], "1, 0") if name == "GatherND" else (indices, "1")
    assert problem(name, np.zeros(1000), given_indices) == (
        f"{name}: indices[{place}] is {index}; expected -1000..999 (axis 0 of data)"
    )


def test_the_first_index_out_of_range_is_named():
    assert problem("GatherND", np.zeros((2, 2, 3)), [[[0, 1], [1, 3]], [[-3, 0], [0, 9]]], 1) == (
        "GatherND: indices[0, 1, 1] is 3; expected -3..2 (axis 2 of data)"
    )
    assert problem("GatherElements", np.zeros((2, 3)), [[0, -4, 9], [7, 0, 0]], 1) == (
        "GatherElements: indices[0, 1] is -4; expected -3..2 (axis 1 of data)"
    )


# --- what callers pass -------------------------------------------------------------------------


@pytest.mark.parametrize("name", GATHERS)
def test_masked_arrays_and_other_dtypes_are_refused(name):
    masked = np.ma.masked_array([1.0, 2.0], [True, False])
    assert problem(name, masked, [0]) == (
        f"{name}: data is a masked array, and {name} has no masked elements;"
        " fill them first: data.filled(value)"
    )
    assert problem(name, np.zeros(2, "datetime64[s]"), [0]).startswith(
        f"{name}: data has dtype datetime64[s]; expected 'bool', 'int8', "
    )
    assert problem(name, [1, 2], ["0"]) == (
        f"{name}: indices has dtype string; expected an integer dtype, such as int64"
    )
    assert problem(name, [[1, 2], [3]], [0]).startswith(
        f"{name}: data is a list that cannot be read as an array: "
    )


@pytest.mark.parametrize("name", GATHERS)
def test_objects_are_strings_or_an_error(name):
    assert problem(name, np.array(["a", b"b"], object), [0]) == (
        f"{name}: data[1] is of type bytes; expected str, all that an array of strings may hold"
    )
    missing = np.array(["a", None], np.dtypes.StringDType(na_object=None))
    assert problem(name, missing, [0]) == (
        f"{name}: data[1] is of type NoneType; expected str, all that an array of strings may hold"
    )


@pytest.mark.parametrize("kind", ["U4", "O", "T"])
def test_strings_keep_their_kind(kind):
    data = np.array(["a", "longer"[:4], "\U0001f600"], np.dtypes.StringDType() if kind == "T" else kind)
    for result in (gather_nd(data, [[2], [1]]), gather_elements(data, [2, 1])):
        assert result.tolist() == ["\U0001f600", "long"]
        assert result.dtype == data.dtype
    assert is_string(gather_nd(["a", "b"], [[0]]).dtype)


def test_empty_lists_are_empty_indices():
    assert same(gather_elements([1.5, 2.5], []), np.zeros(0))
    assert same(gather_nd([1.5, 2.5], []), np.array([1.5, 2.5]))


def test_results_are_new_arrays():
    data = np.arange(6.0).reshape(2, 3)
    for result in (
        gather_nd(data, [[0], [1]]),
        gather_nd(data, np.zeros(0, int)),
        gather_elements(data, [[0, 0, 0]]),
    ):
        result[:] = -1
    assert data.tolist() == [[0, 1, 2], [3, 4, 5]]
