"""TensorScatter: every stretch at its place, in both modes, and clear about what is wrong."""

from __future__ import annotations

import numpy as np
import pytest
from family import LOOPS, cases_of, check_case, node_cases, problem
from hypothesis import given, settings
from hypothesis import strategies as st
from random_calls import check_random_calls
from samples import ALL_DTYPES, same, samples

from mdf_scatter.ops.tensor_scatter import tensor_scatter

NAME = "TensorScatter"
loop = LOOPS[NAME]
CACHE = np.arange(24.0).reshape(2, 4, 3)


@pytest.mark.parametrize(("name", "case"), cases_of(NAME))
def test_case(name, case):
    check_case(name, case)


@pytest.mark.parametrize(("inputs", "attributes", "output"), node_cases(NAME, "tensorscatter"))
def test_example_of_onnx(inputs, attributes, output):
    assert same(tensor_scatter(*inputs, **attributes), output)


def test_random_calls_equal_loop_or_are_errors():
    outcomes = check_random_calls(NAME, np.random.default_rng(2024), 1500)
    assert min(outcomes.values()) > 300


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10))
def test_many_random_calls_equal_loop_or_are_errors(seed):
    check_random_calls(NAME, np.random.default_rng(seed), 5000)


@pytest.mark.parametrize("dtype", ALL_DTYPES)
@settings(max_examples=10, deadline=None)
@given(size=st.integers(1, 5), axis=st.sampled_from([1, 2, -1, -2]), seed=st.integers(0, 99))
def test_equals_loop(dtype, size, axis, seed):
    rng = np.random.default_rng(seed)
    pool = samples(dtype)
    shape = [2, 3, 3]
    shape[axis] = size
    cache = pool[rng.integers(0, len(pool), shape)]
    shape[axis] = length = int(rng.integers(0, size + 1))
    update = pool[rng.integers(0, len(pool), shape)]
    linear, circular = rng.integers(0, size - length + 1, 2), rng.integers(0, 1000, 2)
    for call in [(linear, axis, "linear"), (circular, axis, "circular"), (None, axis)]:
        assert same(tensor_scatter(cache, update, *call), loop(cache, update, *call))


# --- decisions ---------------------------------------------------------------------------------


def test_left_out_write_indices_are_zeros():
    update = np.full((2, 2, 3), -1.0)
    assert same(tensor_scatter(CACHE, update), tensor_scatter(CACHE, update, [0, 0]))
    assert same(tensor_scatter(CACHE, update, None, mode="circular"), tensor_scatter(CACHE, update))


def test_a_full_circle_replaces_everything_once():
    update = CACHE + 100
    result = tensor_scatter(CACHE, update, [1, 3], mode="circular")
    assert same(result, np.stack([np.roll(update[0], 1, axis=0), np.roll(update[1], 3, axis=0)]))


def test_past_cache_is_not_written_to():
    before = CACHE.copy()
    result = tensor_scatter(CACHE, np.zeros((2, 0, 3)))
    assert same(result, before)
    result[:] = -1
    assert same(CACHE, before)


def test_write_indices_mean_what_they_say_whatever_their_width():
    cache, update = np.zeros((1, 300)), np.ones((1, 1))
    for index in (np.int8(127), np.uint8(200), np.int16(299), np.uint64(0)):
        assert tensor_scatter(cache, update, np.array([index]), axis=1).argmax() == index
    largest = np.array([2**64 - 1], np.uint64)
    assert tensor_scatter(cache, update, largest, axis=1, mode="circular").argmax() == (2**64 - 1) % 300
    assert problem(NAME, cache, update, largest, 1) == (
        f"TensorScatter: write_indices[0] is {2**64 - 1};"
        " expected 0..299, as update has length 1 and past_cache 300 along axis 1"
    )


def test_negative_write_indices_are_an_error_in_both_modes():
    update = np.zeros((2, 1, 3))
    assert problem(NAME, CACHE, update, [0, -1]) == (
        "TensorScatter: write_indices[1] is -1;"
        " expected 0..3, as update has length 1 and past_cache 4 along axis 1"
    )
    assert problem(NAME, CACHE, update, [-4, -1], mode="circular") == (
        "TensorScatter: write_indices[0] is -4; expected 0 or more"
    )


def test_an_empty_update_has_to_start_inside_too():
    none = np.zeros((2, 0, 3))
    assert same(tensor_scatter(CACHE, none, [4, 0]), CACHE)
    assert same(tensor_scatter(CACHE, none, [9, 0], mode="circular"), CACHE)
    assert problem(NAME, CACHE, none, [4, 5]) == (
        "TensorScatter: write_indices[1] is 5;"
        " expected 0..4, as update has length 0 and past_cache 4 along axis 1"
    )


def test_zero_sized_axes_are_legal_however_large_the_others():
    wide = np.zeros((2, 1 << 40, 3, 0), np.float32)
    assert tensor_scatter(wide, wide[:, :, :1], [0, 2]).shape == wide.shape
    no_room = np.zeros((2, 0, 3))
    assert tensor_scatter(no_room, no_room, [7, 8], mode="circular").shape == no_room.shape


def test_the_axis_is_never_that_of_the_batch():
    matrix = np.zeros((2, 3))
    assert problem(NAME, matrix, matrix) == (
        "TensorScatter: axis is -2, the batch axis of past_cache, which has rank 2; expected -1..-1 or 1..1"
    )
    assert same(tensor_scatter(matrix, matrix + 1, axis=-1), matrix + 1)


def test_fixed_width_strings_widen_as_needed():
    result = tensor_scatter([["a", "b"]], [["wide"]], [1], axis=1)
    assert (result.tolist(), result.dtype) == ([["a", "wide"]], np.dtype("U4"))


def test_arguments_are_named_as_the_operator_names_them():
    masked = np.ma.masked_array(CACHE)
    assert problem(NAME, masked, CACHE).startswith("TensorScatter: past_cache is a masked array")
    assert problem(NAME, CACHE, masked).startswith("TensorScatter: update is a masked array")
    assert problem(NAME, CACHE, CACHE, masked).startswith("TensorScatter: write_indices is a masked array")
    assert problem(NAME, [["a"]], np.array([[1]], object), axis=1) == (
        "TensorScatter: update[0, 0] is of type int; expected str, all that an array of strings may hold"
    )
    assert problem(NAME, CACHE, CACHE, mode=None) == (
        "TensorScatter: mode is of type NoneType; expected the text 'linear' or 'circular'"
    )
