"""The rule of GridSample."""

from __future__ import annotations

import numpy as np
import pytest
from central import check_model, check_node, node_model
from hypothesis import given, settings
from hypothesis import strategies as st
from slopes import check_slopes

from mdf_scatter import grad, run
from mdf_scatter.errors import UnsupportedError

RNG = np.random.default_rng(0)
PADDINGS = ["zeros", "border", "reflection"]


def normal(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape)


def places(*shape: int) -> np.ndarray:
    """Return places inside and outside."""
    return RNG.uniform(-1.6, 1.6, shape)


@settings(max_examples=10)
@given(
    sizes=st.lists(st.integers(1, 4), min_size=2, max_size=3),
    mode=st.sampled_from(["linear", "linear", "nearest"]),
    padding=st.sampled_from(PADDINGS),
    align_corners=st.integers(0, 1),
    symbolic=st.booleans(),
)
def test_grid_sample(sizes: list[int], mode: str, padding: str, align_corners: int, symbolic: bool) -> None:
    grid = places(2, *[3, 1, 2][: len(sizes)], len(sizes))
    attributes = {"mode": mode, "padding_mode": padding, "align_corners": align_corners}
    check_node("GridSample", [normal(2, 2, *sizes), grid], attributes, opset=20, symbolic=symbolic)


@pytest.mark.parametrize("padding", PADDINGS)
def test_in_single_precision(padding: str) -> None:
    inputs = [normal(1, 2, 3, 4).astype(np.float32), places(1, 2, 3, 2).astype(np.float32)]
    check_slopes("GridSample", inputs, {"mode": "bilinear", "padding_mode": padding}, wrt=["x0"], opset=16)


def test_by_hand():
    x = np.array([[[[1.0, 2], [4, 8]]]])
    model, _ = node_model("GridSample", [x, np.zeros((1, 1, 1, 2))], {"align_corners": 1}, opset=20)
    results = run(grad(model), {"x0": x, "x1": np.zeros((1, 1, 1, 2)), "y0_grad": np.full((1, 1, 1, 1), 4.0)})
    np.testing.assert_allclose(results["x0_grad"], np.ones((1, 1, 2, 2)))
    # Half a position for each unit of the grid: along x from (1 + 4) / 2 to (2 + 8) / 2, and so along y.
    np.testing.assert_allclose(results["x1_grad"], [[[[4 * 2.5 / 2, 4 * 4.5 / 2]]]])


def test_on_a_position_the_slope_is_that_behind_it():
    x = np.array([[[[1.0, 2, 5]]]])
    grid = np.zeros((1, 1, 1, 2))
    model, _ = node_model("GridSample", [x, grid], {"align_corners": 1}, opset=20)
    results = run(grad(model), {"x0": x, "x1": grid, "y0_grad": np.ones((1, 1, 1, 1))})
    assert results["x1_grad"][..., 0] == 3


def test_second_derivative():
    model, given_values = node_model("GridSample", [normal(1, 1, 3, 3), places(1, 2, 1, 2)], opset=20)
    check_model(grad(model), given_values | {"y0_grad": normal(1, 1, 2, 1)}, rtol=1e-4)


def test_cubic_is_refused():
    model, _ = node_model("GridSample", [normal(1, 1, 3, 3), places(1, 2, 1, 2)], {"mode": "cubic"}, opset=20)
    with pytest.raises(UnsupportedError) as caught:
        grad(model)
    assert str(caught.value) == (
        "GridSample 'gridsample': no gradient: its mode is 'cubic'; expected linear or nearest"
    )
