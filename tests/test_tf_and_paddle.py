"""tf::scatter_nd and paddle::scatter_nd_add: ScatterND's sum, spoken of in their own terms."""

from __future__ import annotations

import numpy as np
import pytest
from family import cases_of, check_case, problem
from random_calls import check_random_calls
from samples import DTYPES, NARROW, reductions_of, same, samples
from vectors_nd import vectors

from mdf_scatter.ops.paddle_scatter_nd_add import paddle_scatter_nd_add
from mdf_scatter.ops.scatter_nd import scatter_nd
from mdf_scatter.ops.tf_scatter_nd import tf_scatter_nd

TF, PADDLE = "tf::scatter_nd", "paddle::scatter_nd_add"
SUMS = [
    vector
    for vector in vectors("ScatterND", ("data", "indices", "updates"), ("reduction",))
    if vector.attributes["reduction"] == "add" and vector.expected is not None
]


@pytest.mark.parametrize(("name", "case"), cases_of(TF, PADDLE))
def test_case(name, case):
    check_case(name, case)


@pytest.mark.parametrize("vector", SUMS, ids=lambda vector: vector.id)
def test_vector_of_scatter_nd(vector):
    data, indices, updates = vector.inputs
    assert same(paddle_scatter_nd_add(data, indices, updates), vector.expected)
    zeros = np.full(data.shape, "" if data.dtype.kind in "OU" else 0, data.dtype)
    assert same(tf_scatter_nd(indices, updates, data.shape), scatter_nd(zeros, indices, updates, "add"))


@pytest.mark.parametrize("name", [TF, PADDLE])
def test_random_calls_equal_loop_or_are_errors(name):
    outcomes = check_random_calls(name, np.random.default_rng(2024), 1500)
    assert min(outcomes.values()) > 300


@pytest.mark.slow
@pytest.mark.parametrize("name", [TF, PADDLE])
@pytest.mark.parametrize("seed", range(10))
def test_many_random_calls_equal_loop_or_are_errors(name, seed):
    check_random_calls(name, np.random.default_rng(seed), 5000)


@pytest.mark.parametrize("dtype", [name for name in DTYPES if "add" in reductions_of(name)])
def test_every_dtype_with_a_sum(dtype):
    values = samples(dtype)
    updates, indices = (
        np.concatenate([values, values[::-1]]),
        np.tile(np.arange(len(values)), 2)[:, np.newaxis],
    )
    expected = scatter_nd(values, indices, updates, "add")
    assert same(paddle_scatter_nd_add(values, indices, updates), expected, computed=True)
    zeros = np.full(values.shape, "" if values.dtype.kind in "OTU" else 0, values.dtype)
    result = tf_scatter_nd(indices, updates, np.array(values.shape, np.int8))
    assert same(result, scatter_nd(zeros, indices, updates, "add"), computed=True)
    assert result.dtype.kind == values.dtype.kind


@pytest.mark.parametrize("dtype", NARROW)
def test_types_without_arithmetic_are_refused(dtype):
    values = samples(dtype)
    known = ", ".join(repr(name) for name in DTYPES[:15])
    assert problem(PADDLE, values, [[0]], values[:1]) == (
        f"paddle::scatter_nd_add: ref has dtype {dtype}; expected {known} or 'string'"
    )
    assert problem(TF, [[0]], values[:1], [3]) == (
        f"tf::scatter_nd: updates has dtype {dtype}; expected {known} or 'string'"
    )


# --- tf::scatter_nd ----------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int32", "uint32", "int64", "uint64"])
def test_shape_may_have_any_integer_dtype(dtype):
    result = tf_scatter_nd([[1]], np.ones((1, 2), np.int8), np.array([3, 2], dtype))
    assert same(result, np.array([[0, 0], [1, 1], [0, 0]], np.int8))


def test_shape_is_one_axis_of_sizes():
    assert problem(TF, [[0]], [1.0], 8) == (
        "tf::scatter_nd: shape has shape (); expected a list of one size or more, as in [8]"
    )
    assert problem(TF, [[0]], [1.0], np.array([2**63], np.uint64)) == (
        "tf::scatter_nd: shape is (9223372036854775808,);"
        " a result of float64[9223372036854775808] does not fit into memory"
    )
    assert problem(TF, [[0]], [1.0], [2**50]) == (
        "tf::scatter_nd: shape is (1125899906842624,);"
        " a result of float64[1125899906842624] does not fit into memory"
    )
    assert problem(TF, [[0]], [1.0], np.ma.masked_array([8])).startswith("tf::scatter_nd: shape is a masked")


def test_strings_start_as_empty_ones():
    for updates in (np.array(["a", "longer"]), np.array(["a", "longer"], np.dtypes.StringDType())):
        result = tf_scatter_nd([[2], [2]], updates, [3])
        assert result.tolist() == ["", "", "alonger"]
        assert result.dtype.kind == updates.dtype.kind
    assert problem(TF, [[0]], np.array([b"a"], object), [1]) == (
        "tf::scatter_nd: updates[0] is of type bytes; expected str, all that an array of strings may hold"
    )


def test_what_is_left_out_is_zero_and_negative_zero_is_not_kept():
    result = tf_scatter_nd([[1]], [-0.0], [2])
    assert not np.signbit(result).any()


# --- paddle::scatter_nd_add --------------------------------------------------------------------


def test_ref_is_not_written_to():
    ref = np.arange(3.0)
    result = paddle_scatter_nd_add(ref, [[0]], [5.0])
    assert (ref.tolist(), result.tolist()) == ([0, 1, 2], [5, 1, 2])


def test_arguments_are_named_as_paddle_names_them():
    masked = np.ma.masked_array([1.0])
    assert problem(PADDLE, masked, [[0]], [1.0]).startswith(f"{PADDLE}: ref is a masked array")
    assert problem(PADDLE, [1.0], masked, [1.0]).startswith(f"{PADDLE}: index is a masked array")
    assert problem(PADDLE, [1.0], [[0]], masked).startswith(f"{PADDLE}: updates is a masked array")
    assert problem(PADDLE, np.array([b"a"], object), [[0]], ["b"]) == (
        f"{PADDLE}: ref[0] is of type bytes; expected str, all that an array of strings may hold"
    )
