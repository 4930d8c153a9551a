"""The rule of Resize, in float64 by ONNX's evaluator and in float32 by onnxruntime."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from central import check_model, check_node, node_model
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from slopes import check_slopes

from mdf_scatter import grad, run, to_onnx
from mdf_scatter.errors import UnsupportedError

RNG = np.random.default_rng(0)
COORDINATES = ["half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel", "half_pixel_symmetric"]
ROUNDINGS = ["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"]


def normal(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape)


def by_scales(*scales: float) -> list[np.ndarray | None]:
    return [None, np.array(scales, np.float32)]


def by_sizes(*sizes: int) -> list[np.ndarray | None]:
    return [None, None, np.array(sizes)]


@settings(max_examples=40)
@given(st.data())
def test_resize(data: st.DataObject) -> None:
    mode = data.draw(st.sampled_from(["linear", "nearest", "cubic"]))
    rank = 2 if mode == "cubic" else data.draw(st.integers(1, 3))
    coordinates = data.draw(st.sampled_from(COORDINATES))
    attributes: dict[str, Any] = {"mode": mode, "coordinate_transformation_mode": coordinates}
    if mode == "nearest":
        attributes["nearest_mode"] = data.draw(st.sampled_from(ROUNDINGS))
    if mode == "cubic":
        attributes |= {"exclude_outside": data.draw(st.integers(0, 1)), "cubic_coeff_a": -0.5}
    if mode != "nearest" and rank == 2:
        attributes["antialias"] = data.draw(st.integers(0, 1))
    sizes = [data.draw(st.integers(1, 6)) for _ in range(rank)]
    scales = [data.draw(st.sampled_from([1, 0.5, 2, 3, 1.7, 0.6, 2.5])) for _ in range(rank)]
    results = [int(np.float32(scale) * size) for size, scale in zip(sizes, scales, strict=True)]
    assume(min(results) > 0)
    named = data.draw(st.booleans())
    if named:
        attributes["axes"] = [*range(2, 2 + rank)]
    if data.draw(st.booleans()):
        lengths = by_scales(*scales) if named else by_scales(1, 1, *scales)
    else:
        lengths = by_sizes(*results) if named else by_sizes(2, 3, *results)
    # onnxruntime has this for what it calls two dimensions only, and says so of all others.
    assume(not (attributes.get("antialias") and coordinates == "half_pixel_symmetric"))
    at = len(lengths)
    symbolic = data.draw(st.booleans())
    # Of unknown sizes, ONNX infers no type from scales that are unknown too.
    constant = (at,) if symbolic or data.draw(st.booleans()) else ()
    inputs = [normal(2, 3, *sizes).astype(np.float32), *lengths]
    check_slopes("Resize", inputs, attributes, wrt=["x0"], constant=constant, symbolic=symbolic)


@pytest.mark.parametrize("symbolic", [False, True])
@pytest.mark.parametrize(
    ("lengths", "attributes"),
    [
        (by_scales(1, 1, 2, 1.5), {"mode": "linear"}),
        (by_scales(1, 1, 2, 3), {"mode": "nearest"}),
        (by_scales(1, 1, 0.5, 0.7), {"mode": "nearest", "coordinate_transformation_mode": "asymmetric"}),
        (
            by_sizes(3, 7),
            {"mode": "linear", "axes": [2, 3], "coordinate_transformation_mode": "align_corners"},
        ),
        (by_sizes(2, 2, 4, 4), {"mode": "linear"}),
        (by_scales(1, 1, 1, 1), {"mode": "linear"}),
        (by_scales(2, 1, 1, 1), {"mode": "nearest"}),
    ],
    ids=str,
)
def test_in_double_precision(lengths: list[Any], attributes: dict[str, Any], symbolic: bool) -> None:
    inputs = [normal(2, 2, 4, 3), *lengths]
    check_node("Resize", inputs, attributes, constant=[len(lengths)], symbolic=symbolic)


@pytest.mark.parametrize("coordinates", COORDINATES)
@pytest.mark.parametrize("rounding", ROUNDINGS)
def test_nearest_by_whole_factors(rounding: str, coordinates: str) -> None:
    attributes = {"nearest_mode": rounding, "coordinate_transformation_mode": coordinates}
    inputs = [normal(1, 2, 3, 4).astype(np.float32), *by_scales(1, 1, 2, 3)]
    check_slopes("Resize", inputs, attributes, wrt=["x0"], constant=[2])


def test_axes_in_any_order():
    inputs = [normal(1, 2, 3, 4).astype(np.float32), *by_sizes(7, 5)]
    check_slopes("Resize", inputs, {"mode": "linear", "axes": [-1, 2]}, wrt=["x0"], constant=[3])


def test_a_long_axis():
    inputs = [normal(1, 1, 40, 2).astype(np.float32), *by_scales(1, 1, 1.5, 1)]
    check_slopes("Resize", inputs, {"mode": "linear"}, wrt=["x0"], constant=[2])


def operators_of(lengths: Sequence[Any], **attributes: Any) -> list[str]:
    inputs = [normal(1, 2, 4, 4).astype(np.float32), *lengths]
    model, _ = node_model("Resize", inputs, attributes, constant=[len(lengths)])
    nodes = to_onnx(grad(model, wrt="x0")).graph.node
    return sorted(node.op_type for node in nodes[1:] if node.op_type != "Identity")


def test_copies_are_summed():
    expected = ["ReduceSum", "Reshape"]
    assert operators_of(by_scales(1, 1, 2, 2)) == expected
    assert operators_of(by_sizes(1, 2, 8, 4)) == expected
    up = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    assert operators_of(by_scales(1, 1, 2, 3), **up) == expected


def test_a_matrix_for_each_axis_that_changes():
    assert operators_of(by_scales(1, 1, 2, 2), mode="linear") == ["MatMul", "MatMul", "Resize", "Resize"]
    assert operators_of(by_scales(1, 1, 2, 1), mode="linear") == ["MatMul", "Resize"]


def test_by_hand():
    inputs = [np.array([[[1.0, 2]]]), *by_scales(1, 1, 2)]
    model, given_values = node_model("Resize", inputs, {"mode": "linear"}, constant=[2])
    results = run(grad(model, wrt="x0"), given_values | {"y0_grad": np.array([[[1.0, 10, 100, 1000]]])})
    np.testing.assert_allclose(results["x0_grad"], [[[1 + 7.5 + 25, 2.5 + 75 + 1000]]])


@pytest.mark.parametrize("mode", ["linear", "nearest"])
@pytest.mark.parametrize("scale", [2, 1.5])
def test_second_derivative(mode: str, scale: float) -> None:
    x = normal(1, 1, 3, 2)
    model, given_values = node_model("Resize", [x, *by_scales(1, 1, scale, 2)], {"mode": mode}, constant=[2])
    seed = normal(*run(model, given_values)["y0"].shape)
    check_model(grad(model, wrt="x0"), given_values | {"y0_grad": seed}, wrt=["x0", "y0_grad"])


REFUSALS = [
    (
        by_scales(1, 1, 2),
        {"coordinate_transformation_mode": "tf_crop_and_resize"},
        "it crops by roi; use Slice, and another coordinate_transformation_mode",
    ),
    (
        by_sizes(1, 1, 4),
        {"keep_aspect_ratio_policy": "not_larger"},
        "its scales depend on keep_aspect_ratio_policy; give it scales instead of sizes",
    ),
]


@pytest.mark.parametrize(("lengths", "attributes", "reason"), REFUSALS, ids=str)
def test_refused(lengths: list[Any], attributes: dict[str, Any], reason: str) -> None:
    lengths = [np.array([0, 0, 0, 1, 1, 1], np.float64), *lengths[1:]]
    model, _ = node_model("Resize", [normal(1, 1, 3), *lengths], attributes, constant=[1, len(lengths)])
    with pytest.raises(UnsupportedError) as caught:
        grad(model, wrt="x0")
    assert str(caught.value) == f"Resize 'resize': no gradient: {reason}"
