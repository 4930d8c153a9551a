"""The NumPy kernel equals the specification's loop, and keeps what NumPy itself does not promise."""

from __future__ import annotations

import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from samples import ALL_DTYPES, FIXED, VARIABLE, reductions_of, same, samples

from mdf_scatter.dtypes import BFLOAT16, dtype_of
from mdf_scatter.kernels import memory, reference, scatter_rows, vectorized

KERNEL_DTYPES = [name for name in ALL_DTYPES if name not in (FIXED, VARIABLE)]
CALLS = [(dtype, reduction) for dtype in KERNEL_DTYPES for reduction in reductions_of(dtype)]

ARITHMETIC = ("int16", "float16", "float32", "float64", "complex64", "bfloat16", "bool")


@st.composite
def rows_calls(draw, dtype):
    pool = samples(dtype)
    count, height, width = draw(st.integers(0, 12)), draw(st.integers(1, 4)), draw(st.integers(0, 5))

    def values(shape):
        return pool[draw(arrays(np.int64, shape, elements=st.integers(0, len(pool) - 1)))]

    rows = draw(arrays(np.int64, count, elements=st.integers(0, height - 1)))
    return values((height, width)), rows, values((count, width))


@pytest.mark.parametrize(("dtype", "reduction"), CALLS)
@settings(max_examples=20, deadline=None)
@given(data=st.data(), wide_row=st.sampled_from([1, 1024]), movable_row=st.sampled_from([0, 1 << 16]))
def test_kernel_equals_reference(dtype, reduction, data, wide_row, movable_row):
    out, rows, updates = data.draw(rows_calls(dtype))
    expected = reference.scatter_nd(out, rows[:, np.newaxis], updates, reduction)
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("error")
        patch.setattr(vectorized, "WIDE_ROW", wide_row)
        patch.setattr(vectorized, "MOVABLE_ROW", movable_row)
        patch.setattr(vectorized, "BLOCK", 7)
        scatter_rows(out, None, rows, updates, reduction)
    assert same(out, expected, computed=reduction != "none")


@pytest.mark.parametrize("width", [1, 3, 40, 1100, 9000])
@pytest.mark.parametrize("dtype", ["int8", "float32", "complex128", "bfloat16", "string"])
def test_last_of_many_updates_to_a_row_stays(dtype, width):
    rng = np.random.default_rng(width)
    count = max(200, 50_000 // width)
    rows = rng.integers(0, 5, count)
    numbers = np.repeat(np.arange(count) % 100, width).reshape(count, width)
    updates = numbers.astype(str).astype(object) if dtype == "string" else numbers.astype(dtype_of(dtype))
    out = np.zeros((5, width), updates.dtype)
    scatter_rows(out, None, rows, updates, "none")
    last = [np.flatnonzero(rows == row)[-1] for row in range(5)]
    assert same(out, updates[last])


@pytest.mark.parametrize(("dtype", "reduction"), [call for call in CALLS if call[0] in ARITHMETIC])
@pytest.mark.parametrize("width", [1, 3, 1024])
def test_sizes_over_one_block_equal_reference(dtype, reduction, width):
    rng = np.random.default_rng(7)
    count = {1: 3000, 3: 1000, 1024: 5}[width]
    rows = rng.integers(0, 4, count)
    out, updates = (rng.normal(1, 0.3, size=(n, width)).astype(dtype_of(dtype)) for n in (4, count))
    expected = reference.scatter_nd(out, rows[:, np.newaxis], updates, reduction)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(vectorized, "BLOCK", 1 << 10)
        scatter_rows(out, None, rows, updates, reduction)
    assert same(out, expected, computed=True)


@pytest.mark.parametrize("dtype", [np.float16, BFLOAT16])
def test_halves_are_rounded_once(dtype):
    out = np.zeros((1, 1), dtype)
    scatter_rows(out, None, np.zeros(4096, np.int64), np.ones((4096, 1), dtype), "add")
    assert out[0, 0] == 4096
    largest = np.array(np.finfo(np.float16).max, dtype)
    out[:] = 1
    scatter_rows(out, None, np.zeros(3, np.int64), np.array([[largest], [largest], [-largest]], dtype), "add")
    assert out[0, 0] == largest


def test_rows_without_an_update_keep_their_bits():
    signalling = np.array([[0x7D01], [0x7D01]], np.uint16).view(np.float16)
    scatter_rows(signalling, None, np.array([0]), np.ones((1, 1), np.float16), "add")
    assert signalling.view(np.uint16)[1, 0] == 0x7D01


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, BFLOAT16])
@pytest.mark.parametrize(
    ("element", "updates", "reduction", "sign"),
    [
        (0.0, [-0.0], "max", False),
        (-0.0, [0.0], "max", False),
        (-0.0, [-0.0], "max", True),
        (-1.0, [-0.0, 0.0, -0.0], "max", False),
        (0.0, [-1.0, -0.0], "max", False),
        (0.0, [-0.0], "min", True),
        (-0.0, [0.0], "min", True),
        (0.0, [0.0], "min", False),
        (1.0, [0.0, -0.0, 0.0], "min", True),
        (-0.0, [1.0, 0.0], "min", True),
    ],
)
def test_positive_zero_is_greater_than_negative_zero(dtype, element, updates, reduction, sign):
    out = np.array([[element]], dtype)
    scatter_rows(
        out, None, np.zeros(len(updates), np.int64), np.array(updates, dtype)[:, np.newaxis], reduction
    )
    assert out[0, 0] == 0
    assert np.signbit(out[0, 0]) == sign


def test_no_elements_cost_nothing_however_many_rows():
    out = np.zeros((1 << 40, 0), np.float16)
    scatter_rows(out, None, np.array([1 << 39]), np.zeros((1, 0), np.float16), "add")
    assert out.shape == (1 << 40, 0)


def address(array):
    return array.__array_interface__["data"][0]


@pytest.fixture
def nothing_kept():
    memory._free.clear()
    yield
    memory._free.clear()


def test_memory_is_used_again_when_no_view_of_it_is_left(nothing_kept):
    shape = (memory.LEAST // 16, 4)
    first = memory.empty(shape, np.dtype(np.float32))
    assert first.flags.carray
    assert (first.shape, first.dtype) == (shape, np.float32)
    view, place = first[1:, 2:].T, address(first)
    del first
    second = memory.empty(shape, np.dtype(np.float32))
    assert not np.may_share_memory(view, second)
    del view
    assert address(memory.empty(shape, BFLOAT16)) != place  # of another size
    assert address(memory.empty(shape[::-1], np.dtype(np.int32))) == place


@pytest.mark.parametrize("nbytes", [memory.LEAST - 1, memory.MOST + 1])
def test_small_and_huge_memory_is_not_kept(nothing_kept, nbytes):
    memory.empty((nbytes,), np.dtype(np.uint8))
    assert not memory._free


def test_no_more_memory_is_kept_than_told(nothing_kept):
    sizes = [memory.MOST // 4 - number for number in range(6)]
    arrays = [memory.empty((size,), np.dtype(np.uint8)) for size in sizes]
    while arrays:
        arrays.pop(0)
    assert [piece.nbytes for piece in memory._free] == sizes[2:], "the latest ones"


def test_threads_that_take_and_leave_memory_share_none(nothing_kept):
    def once(number):
        array = memory.empty((memory.LEAST,), np.dtype(np.uint8))
        array[:: 1 << 12] = number
        return bool((array[:: 1 << 12] == number).all())

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(once, [number % 251 for number in range(400)]))


@pytest.mark.slow
@pytest.mark.parametrize(("dtype", "reduction"), CALLS)
def test_kernel_equals_reference_on_many_calls(dtype, reduction):
    rng = np.random.default_rng(11)
    pool = samples(dtype)
    for _ in range(1000):
        count, height, width = rng.integers([0, 1, 0], [40, 9, 20])
        out = pool[rng.integers(0, len(pool), (height, width))]
        updates = pool[rng.integers(0, len(pool), (count, width))]
        rows = rng.integers(0, height, count)
        expected = reference.scatter_nd(out, rows[:, np.newaxis], updates, reduction)
        scatter_rows(out, None, rows, updates, reduction)
        assert same(out, expected, computed=reduction != "none")
