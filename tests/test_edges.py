"""Where arrays lie, and what they share: one number as a gradient, half an element, one memory for all."""

from __future__ import annotations

import subprocess
import sys
import warnings

import ml_dtypes
import numpy as np
import pytest

from mdf_scatter import gather_elements, gather_nd, scatter_elements, scatter_nd, tf_scatter_nd, vjp
from mdf_scatter.errors import OperatorError
from mdf_scatter.kernels import reference

pytest.importorskip("numba")

RNG = np.random.default_rng(11)


def flat(reduction: str, data: np.ndarray, rows: np.ndarray, updates: np.ndarray) -> np.ndarray:
    """Do what the specification says for "none" and "add", in a way that no kernel does."""
    expected = data.copy()
    if reduction == "add":
        np.add.at(expected, rows, updates)
    else:
        for row, update in zip(rows.tolist(), updates, strict=True):
            expected[row] = update
    return expected


# --- a gradient that is one number for all, as that of a sum is ---------------------------------


@pytest.mark.parametrize("attributes", [{"reduction": "none"}, {"reduction": "mul"}, {"reduction": "max"}])
@pytest.mark.parametrize(("height", "width", "count"), [(1 << 20, 1, 1 << 17), (1 << 13, 1024, 64)])
def test_gradient_that_is_one_number_for_all(attributes, height, width, count):
    data = RNG.normal(size=(height, width)).astype(np.float32)
    indices = RNG.integers(0, height, (count, 1))
    updates = RNG.normal(size=(count, width)).astype(np.float32)
    grad = np.broadcast_to(np.float32(2), data.shape)
    found = vjp("ScatterND", grad, data, indices, updates, **attributes)
    expected = vjp("ScatterND", grad.copy(), data, indices, updates, **attributes)
    np.testing.assert_array_equal(found[0], expected[0])
    np.testing.assert_array_equal(found[2], expected[2])


# --- complex numbers, whose alignment is that of their parts -------------------------------------

HALF_ALIGNED = """
import numpy as np
from mdf_scatter import scatter_nd

dtype, is_data = np.dtype("{dtype}"), {is_data}
count = {nbytes} // dtype.itemsize
memory = np.zeros(count * dtype.itemsize + 64, np.uint8)
begin = -memory.__array_interface__["data"][0] % 64 + dtype.itemsize // 2
out = memory[begin : begin + count * dtype.itemsize].view(dtype)
rows = np.random.default_rng(0).integers(0, count, 1 << 17)
data = out if is_data else np.zeros(count, dtype)
assert scatter_nd(data, rows[:, None], np.ones(len(rows), dtype), "add", out=out) is out
assert (out == np.bincount(rows, minlength=count)).all()
"""


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize(("is_data", "nbytes"), [(True, 1 << 22), (False, 1 << 25)])
def test_result_that_begins_at_half_an_element(dtype, is_data, nbytes):
    script = HALF_ALIGNED.format(dtype=dtype, is_data=is_data, nbytes=nbytes)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize("shape", [(1 << 17,), (1 << 9, 1 << 8)])
def test_gathers_from_half_an_element_on(dtype, shape):
    count, size = np.prod(shape), np.dtype(dtype).itemsize
    memory = np.zeros(count * size + 64, np.uint8)
    begin = -memory.__array_interface__["data"][0] % 64 + size // 2
    data = memory[begin : begin + count * size].view(dtype).reshape(shape)
    data[:] = RNG.normal(size=shape)
    indices = RNG.integers(-shape[0], shape[0], shape)
    np.testing.assert_array_equal(gather_elements(data, indices), np.take_along_axis(data, indices, 0))


def test_a_long_vector_is_gathered_and_its_indices_are_checked():
    data, indices = RNG.normal(size=1 << 10), RNG.integers(-(1 << 10), 1 << 10, 1 << 20)
    np.testing.assert_array_equal(gather_elements(data, indices), data[indices])
    indices[54321] = 1 << 10
    with pytest.raises(OperatorError) as error:
        gather_elements(data, indices)
    assert str(error.value) == "GatherElements: indices[54321] is 1024; expected -1024..1023 (axis 0 of data)"


# --- results of more axes than NumPy has -----------------------------------------------------------


def test_results_have_64_axes_at_most():
    with pytest.raises(OperatorError) as error:
        gather_nd(np.zeros((1,) * 40), np.zeros((1,) * 40, np.int64))
    assert str(error.value) == (
        "GatherND: the result would have rank 78; expected 64 at most, as NumPy has no more"
    )
    with pytest.raises(OperatorError) as error:
        tf_scatter_nd([[0]], [1.0], [1] * 65)
    assert str(error.value) == (
        "tf::scatter_nd: shape has 65 sizes; expected 64 at most, as NumPy has no more axes"
    )


# --- signalling NaN -------------------------------------------------------------------------------


@pytest.mark.parametrize("reduction", ["max", "min"])
def test_gradient_does_not_warn_of_bfloat16_that_signal(reduction):
    signalling = np.array([0x7F81, 0x3F80], np.uint16).view(ml_dtypes.bfloat16)
    grad = np.ones(2, ml_dtypes.bfloat16)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        to_data, _, to_updates = vjp(
            "ScatterND", grad, signalling, [[0], [1]], signalling, reduction=reduction
        )
    assert np.isnan([to_data[0], to_updates[0]]).all()
    assert [to_data[1], to_updates[1]] == [0.5, 0.5]


# --- out is data, and the rest of the arguments are parts of it ----------------------------------


@pytest.mark.parametrize("reduction", ["none", "add"])
@pytest.mark.parametrize("count", [7, 1 << 16, 1 << 20])
def test_all_of_a_call_in_one_memory(reduction, count):
    memory = RNG.integers(0, count, count)
    rows, updates = memory[1:-1], memory[:-2]
    expected = flat(reduction, memory, rows.copy(), updates.copy())
    assert scatter_nd(memory, rows[:, np.newaxis], updates, reduction, out=memory) is memory
    np.testing.assert_array_equal(memory, expected)


@pytest.mark.parametrize("step", [-1, 1])
@pytest.mark.parametrize("reduction", ["none", "add"])
def test_updates_that_are_data_as_elements(step, reduction):
    memory = RNG.integers(0, 100, 1 << 16)
    rows = RNG.integers(0, len(memory), len(memory))
    expected = flat(reduction, memory, rows, memory[::step].copy())
    np.testing.assert_array_equal(scatter_elements(memory, rows, memory[::step], 0, reduction), expected)
    scatter_elements(memory, rows, memory[::step], 0, reduction, out=memory)
    np.testing.assert_array_equal(memory, expected)


@pytest.mark.parametrize("reduction", ["none", "add", "mul", "max", "min"])
def test_float16_of_all_bits(reduction):
    data = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    rows, updates = RNG.permutation(1 << 16)[:, np.newaxis], RNG.permutation(data)
    found = scatter_nd(data, rows, updates, reduction)
    expected = reference.scatter_nd(data, rows, updates, reduction)
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(np.signbit(found)[expected == 0], np.signbit(expected)[expected == 0])
