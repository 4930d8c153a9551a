"""The short way through calls that are not large: as right as the long one, and silent."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from samples import reductions_of, same, samples

from mdf_scatter.errors import OperatorError
from mdf_scatter.kernels import reference
from mdf_scatter.ops.gather_nd import gather_nd
from mdf_scatter.ops.scatter_elements import scatter_elements
from mdf_scatter.ops.scatter_nd import scatter_nd
from mdf_scatter.ops.small import (
    NUMBERED,
    gather_small,
    gather_small_along,
    scatter_small,
    scatter_small_along,
)

HUGE = np.finfo(np.float32).max
UFUNCS = {"add": np.add, "mul": np.multiply}


def in_order(data, places, updates, reduction):
    """Return what a loop over the updates gives, one after the other."""
    result, places, updates = data.copy(), places.reshape(-1).copy(), updates.copy()
    with np.errstate(all="ignore"):
        for place, update in zip(places, updates, strict=True):
            result[place] = update if reduction == "none" else UFUNCS[reduction](result[place], update)
    return result


@pytest.mark.parametrize("state", ["warn", "raise", "print", "call"])
@pytest.mark.parametrize("reduction", ["add", "mul"])
def test_arithmetic_is_silent_whatever_the_caller_asked_numpy_for(reduction, state, capfd):
    def shout(kind, flag):
        pytest.fail(f"NumPy called back for {kind}")

    data = np.array([HUGE, np.inf, 1e-38, 1], np.float32)
    places = np.array([[0], [1], [2]])
    updates = np.array([HUGE, -np.inf if reduction == "add" else 0, 1e-38], np.float32)
    with warnings.catch_warnings(), np.errstate(all=state, call=shout):
        warnings.simplefilter("error")
        before = np.geterr()
        found = scatter_small(data, places, updates, reduction)
        assert np.geterr() == before
    assert found is not None
    assert same(found, in_order(data, places, updates, reduction))
    assert np.isinf(found[0])
    assert np.isnan(found[1])
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("reduction", ["none", "add", "mul"])
def test_arguments_may_lie_in_the_memory_of_the_result(reduction):
    rng = np.random.default_rng(0)

    def part(memory, size):
        step = int(rng.choice([1, 1, 2, -1]))
        start = int(rng.integers(0, len(memory) - 2 * size))
        return memory[start : start + 2 * size][::step][:size]

    for _ in range(200):
        memory = rng.integers(-6, 7, 40)
        data, count = part(memory, 8), int(rng.integers(1, 7))
        places, updates = part(memory, count), part(memory, count)
        places.clip(-8, 7, out=places)
        expected = in_order(data, places, updates, reduction)
        assert scatter_nd(data, places[:, np.newaxis], updates, reduction, out=data) is data
        assert same(data, expected)


def test_rows_may_be_moved_within_the_result():
    data = np.arange(24.0).reshape(6, 2, 2)
    places = np.array([[0], [-1], [0]])
    expected = in_order(data, places, data[:3], "none")
    assert scatter_small(data, places, data[:3], "none", data) is data
    assert same(data, expected)


@pytest.mark.parametrize("count", [5, 5_000, 60_000])
@pytest.mark.parametrize("height", [7, 100_000])
@pytest.mark.parametrize("reduction", ["none", "add"])
def test_middling_calls_go_the_short_way_and_keep_the_order(count, height, reduction):
    rng = np.random.default_rng(count)
    data, updates = (rng.standard_normal(size).astype(np.float32) for size in (height, count))
    places = rng.integers(-height, height, (count, 1))
    expected = in_order(data, places, updates, reduction)
    assert same(scatter_small(data, places, updates, reduction), expected)
    assert same(scatter_elements(data, places[:, 0], updates, 0, reduction), expected)
    assert same(gather_small(data, places), data[places[:, 0]])


@pytest.mark.parametrize("turn", [slice(None), slice(None, None, -1)], ids=["forwards", "backwards"])
@pytest.mark.parametrize("shape", [(9, 3), (9, 2, 3), (9, 1)])
def test_rows_of_any_layout(shape, turn):
    rng = np.random.default_rng(3)
    data = rng.standard_normal(shape)[turn]
    updates = rng.standard_normal((20, *shape[1:]))[turn]
    places = rng.integers(-9, 9, (20, 1))[turn]
    expected = in_order(data, places, updates, "none")
    found = scatter_small(data, places, updates, "none")
    assert found is not None
    assert found.flags.c_contiguous
    assert same(found, expected)
    gathered = gather_nd(data, places)
    assert gathered.flags.c_contiguous
    assert same(gathered, data[places[:, 0]])


REFUSED = {
    "indices of rank 1": (np.zeros(4), np.array([1]), np.zeros(1)),
    "a negative index of two numbers": (np.zeros((2, 2)), np.array([[0, -1]]), np.zeros(1)),
    "out of range, two numbers": (np.zeros((2, 2)), np.array([[0, 2]]), np.zeros(1)),
    "many indices of two numbers": (np.zeros((2, 2)), np.zeros((NUMBERED, 2), int), np.zeros(NUMBERED)),
    "no number": (np.zeros(2), np.zeros((1, 0), int), np.zeros((1, 2))),
    "too many numbers": (np.zeros(2), np.array([[0, 0]]), np.zeros(1)),
    "as many indices as numbers": (np.zeros(4), np.array([[0, 1]]), np.zeros(2)),
    "too few updates": (np.zeros(4), np.array([[0], [1]]), np.zeros(1)),
    "updates of a higher rank": (np.zeros(4), np.array([[0]]), np.zeros((1, 1))),
    "narrow rows": (np.zeros((4, 3)), np.array([[0]]), np.zeros((1, 1))),
    "scalar data": (np.array(0.0), np.array([[0]]), np.array(0.0)),
    "no update": (np.zeros(4), np.zeros((0, 1), np.int64), np.zeros(0)),
    "out of range": (np.zeros(4), np.array([[4]]), np.zeros(1)),
    "out of range, rows": (np.zeros((4, 2)), np.array([[-5]]), np.zeros((1, 2))),
    "nothing to index": (np.zeros(0), np.array([[0]]), np.zeros(1)),
    "unsigned indices": (np.zeros(4), np.array([[0]], np.uint64), np.zeros(1)),
    "other byte order": (np.zeros(4, ">f8"), np.array([[0]]), np.zeros(1, ">f8")),
    "two dtypes": (np.zeros(4), np.array([[0]]), np.zeros(1, np.float32)),
    "a list": ([0.0], np.array([[0]]), np.zeros(1)),
}


@pytest.mark.parametrize("arguments", REFUSED.values(), ids=REFUSED)
def test_what_is_not_plain_is_left_to_the_long_way(arguments):
    assert scatter_small(*arguments, "none") is None


@pytest.mark.parametrize("reduction", ["mean", "sum", None, 0, ["add"], np.array("add")])
def test_other_reductions_are_left_to_the_long_way(reduction):
    assert scatter_small(np.zeros(4), np.array([[0]]), np.zeros(1), reduction) is None


@pytest.mark.parametrize("reduction", ["max", "min"])
def test_which_zero_is_larger_is_left_to_the_long_way(reduction):
    data, places = np.array([0.0, -0.0]), np.array([[0], [1]])
    assert scatter_small(data, places, np.array([1.0, 0.0]), reduction) is None
    assert scatter_small_along(data, places[:, 0], np.array([-0.0, 1.0]), 0, reduction) is None
    assert scatter_small(data.astype(int), places, np.array([1, 0]), reduction) is not None


ALONG = {
    "one axis more": (np.zeros((4, 2)), np.array([1]), np.ones(1), 0),
    "other shapes": (np.zeros(4), np.array([1]), np.ones(2), 0),
    "wide indices": (np.zeros((2, 2)), np.zeros((1, 3), int), np.ones((1, 3)), 0),
    "out of range": (np.zeros((2, 2)), np.array([[2]]), np.ones((1, 1)), 0),
    "a negative index": (np.zeros((2, 2)), np.array([[-1]]), np.ones((1, 1)), 0),
    "no such axis": (np.zeros((2, 2)), np.array([[1]]), np.ones((1, 1)), 2),
    "an axis that is no integer": (np.zeros((2, 2)), np.array([[1]]), np.ones((1, 1)), True),
    "a scalar": (np.zeros(()), np.zeros((), int), np.zeros(()), 0),
}


@pytest.mark.parametrize("arguments", ALONG.values(), ids=ALONG)
def test_what_is_not_plain_along_an_axis_is_left_to_the_long_way(arguments):
    data, indices, updates, axis = arguments
    assert scatter_small_along(data, indices, updates, axis, "none") is None
    if indices.shape == updates.shape:
        assert gather_small_along(data, indices, axis) is None


@pytest.mark.parametrize("dtype", ["float32", "float16", "bool", "int16", "uint64", "complex64"])
def test_small_calls_of_any_rank_give_what_the_reference_gives(dtype):
    rng = np.random.default_rng(9)
    pool = samples(dtype)
    short = 0

    def draw(*shape):
        return pool[rng.integers(0, len(pool), shape)]

    for _ in range(300):
        shape = tuple(map(int, rng.integers(1, 5, int(rng.integers(1, 4)))))
        depth, batch = int(rng.integers(1, len(shape) + 1)), tuple(map(int, rng.integers(1, 5, 2)))
        data = draw(*shape)
        indices = (rng.random((*batch, depth)) * shape[:depth]).astype(rng.choice([np.int32, np.int64]))
        updates = draw(*batch, *shape[depth:])
        axis = int(rng.integers(-len(shape), len(shape)))
        wide = tuple(int(rng.integers(1, size + 1)) for size in shape)
        along, terms = rng.integers(0, shape[axis], wide), draw(*wide)
        places = np.stack(np.indices(wide), axis=-1)
        places[..., axis] = along
        for reduction in reductions_of(dtype):
            computed = reduction != "none"
            found = scatter_small(data, indices, updates, reduction)
            if found is not None:
                short += 1
                expected = reference.scatter_nd(data, indices, updates, reduction)
                assert same(found, expected, computed=computed), (shape, indices, reduction)
            found = scatter_small_along(data, along, terms, axis, reduction)
            if found is not None:
                expected = reference.scatter_nd(data, places, terms, reduction)
                assert same(found, expected, computed=computed), (shape, along, axis, reduction)
        found = gather_small(data, indices.reshape(-1, depth))
        if found is not None:
            assert same(found, data[tuple(indices.reshape(-1, depth).T)])
        found = gather_small_along(data, along, axis)
        assert same(found, data[tuple(np.moveaxis(places, -1, 0))])
    assert short > 200


@pytest.mark.parametrize("reduction", ["none", "add"])
def test_a_result_is_written_only_where_all_is_right(reduction):
    data = np.zeros(4)
    with pytest.raises(OperatorError) as caught:
        scatter_nd(data, np.array([[0], [4]]), np.ones(2), reduction, out=data)
    assert str(caught.value) == "ScatterND: indices[1, 0] is 4; expected -4..3 (axis 0 of data)"
    data.flags.writeable = False
    with pytest.raises(OperatorError) as caught:
        scatter_nd(data, np.array([[0]]), np.ones(1), reduction, out=data)
    assert str(caught.value) == "ScatterND: out is read-only; expected an array that can be written"
    assert same(data, np.zeros(4))


@pytest.mark.parametrize("value", [False, 0.0, np.array([0, 0])], ids=repr)
def test_batch_dims_is_an_integer_in_small_calls_too(value):
    with pytest.raises(OperatorError) as caught:
        gather_nd(np.zeros(4), np.array([[0]]), value)
    assert str(caught.value) == f"GatherND: batch_dims is {value!r}; expected an integer"


@pytest.mark.parametrize("dtype", [np.int8, np.int64, np.uint8, np.uint64, ">i8"])
@pytest.mark.parametrize("wrong", [None, 3, -4, 2**64 - 1])
def test_indices_of_any_integer_dtype_are_counted_and_checked(dtype, wrong):
    dtype = np.dtype(dtype)
    given = np.array([[0, 2], [1, 1], [2, 0], [0, -3 if dtype.kind == "i" else 0]], dtype)
    data = np.arange(9.0).reshape(3, 3)
    if wrong is None:
        assert same(gather_nd(data, given), data[tuple(given.astype(int).T)])
    elif np.iinfo(dtype).min <= wrong <= np.iinfo(dtype).max:
        given[2, 1] = wrong
        with pytest.raises(OperatorError) as caught:
            gather_nd(data, given)
        assert str(caught.value) == f"GatherND: indices[2, 1] is {wrong}; expected -3..2 (axis 1 of data)"
