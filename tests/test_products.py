"""Gradients of products: NumPy and the compiled loops give the bits of the plain loop over the factors."""

from __future__ import annotations

import numpy as np
import pytest
from samples import same

from mdf_scatter.dtypes import BFLOAT16, dtype_of
from mdf_scatter.kernels import large, pullback, threads
from mdf_scatter.kernels.pullback import remember
from mdf_scatter.ops.op import DIFFERENTIABLE
from mdf_scatter.ops.vjp import vjp

SPECIAL = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 1e-30, 1e30]
WIDTHS = (1, 3, 40)
WAYS = {"numpy": 1 << 60, "numpy, wide": 1 << 60, "loops": 1, "loops, divided": 1}
"""By way, how many elements are many."""


@pytest.fixture(params=WAYS)
def way(request, monkeypatch):
    if "loops" in request.param:
        pytest.importorskip("numba")
    monkeypatch.setattr(large, "LARGE", WAYS[request.param])
    if request.param == "numpy, wide":
        monkeypatch.setattr(pullback, "THIN", 0)
    if request.param == "loops, divided":
        monkeypatch.setattr(threads, "PART", 1)
    return request.param


def times(one, other):
    """Return a product of two numbers of a dtype, each step rounded to it."""
    if not np.iscomplexobj(one):
        return one * other
    real = one.real * other.real - one.imag * other.imag
    result = np.empty((), one.dtype)
    result.real, result.imag = real, one.real * other.imag + one.imag * other.real
    return result[()]


def plain_gradients(grad, data, rows, updates, include_self):
    """Return the gradients of data and updates, from one factor to the next."""
    to_data, to_updates = grad.copy(), np.empty_like(updates)
    for row in np.unique(rows):
        own = np.flatnonzero(rows == row).tolist()
        for column in range(grad.shape[1]):
            place, one = (row, column), grad.dtype.type(1)
            before, product = {}, data[place] if include_self else one
            for number in own:
                before[number] = product
                product = times(product, updates[number, column])
            product = one
            for number in reversed(own):
                others = times(before[number], product)
                to_updates[number, column] = times(grad[place], others.conjugate())
                product = times(product, updates[number, column])
            to_data[place] = times(grad[place], product.conjugate()) if include_self else 0
    return to_data, to_updates


def values(rng, shape, dtype, special):
    """Draw numbers, some of which are zeros, infinite or the like."""
    drawn = rng.normal(size=(2, *shape))
    chosen = rng.random(drawn.shape) < special
    drawn[chosen] = rng.choice(SPECIAL, chosen.sum())
    with np.errstate(over="ignore"):
        return (drawn[0] + 1j * drawn[1] if dtype.kind == "c" else drawn[0]).astype(dtype)


@pytest.mark.parametrize("special", [0, 0.2])
@pytest.mark.parametrize("include_self", [True, False])
@pytest.mark.parametrize("dtype", DIFFERENTIABLE)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_each_way_gives_the_bits_of_the_plain_loop(way, dtype, include_self, special):
    rng = np.random.default_rng(6)
    dtype = dtype_of(dtype)
    computed = np.dtype(np.float32) if dtype in (np.float16, BFLOAT16) else dtype
    for width in WIDTHS:
        for count, height in ((1, 1), (30, 3), (30, 100)):
            rows = rng.integers(0, height, count)
            data, grad = (values(rng, (height, width), dtype, special) for _ in range(2))
            updates = values(rng, (count, width), dtype, special)
            wide = [array.astype(computed) for array in (grad, data, updates)]
            expected = plain_gradients(*wide[:2], rows, wide[2], include_self)
            kept = remember(data, rows, updates, None, "mul", include_self)
            for _ in range(2):  # what is kept is not used up
                for found, right in zip(kept(grad), expected, strict=True):
                    assert same(found, right.astype(dtype), computed=True), (width, count, height)


@pytest.mark.parametrize("reduction", ["none", "add", "mul", "max", "min", "mean"])
@pytest.mark.parametrize("include_self", [True, False])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_every_reduction_has_the_same_gradients_either_way(way, reduction, include_self, monkeypatch):
    rng = np.random.default_rng(7)
    data, grad = (rng.choice([*SPECIAL, 2.0], (20, 3)).astype(np.float32) for _ in range(2))
    updates = rng.choice([*SPECIAL, 2.0], (60, 3)).astype(np.float32)
    inputs = data, rng.integers(0, 20, (60, 1)), updates
    attributes = {"reduction": reduction, "include_self": include_self}
    found = vjp("ScatterND", grad, *inputs, **attributes)
    monkeypatch.setattr(large, "LARGE", 1 << 60)
    right = vjp("ScatterND", grad, *inputs, **attributes)
    assert same(found[0], right[0], computed=True)
    assert same(found[2], right[2], computed=True)


def test_many_factors_of_many_products(way):
    """Zeros, one or two to a product: a factor is sent something only where it meets no other zero."""
    count, height = 3000, 30
    rows = np.arange(count) % height
    updates = np.ones((count, 1))
    updates[[5, 6, 6 + height]] = 0
    data, grad = np.full((height, 1), 3.0), np.full((height, 1), 2.0)
    to_data, to_updates = remember(data, rows, updates, None, "mul")(grad)
    assert np.flatnonzero(to_data[:, 0] == 0).tolist() == [5, 6]
    assert to_updates[5] == 6
    assert not to_updates[rows == 6].any()
    assert np.count_nonzero(to_updates) == count - 2 * (count // height) + 1
