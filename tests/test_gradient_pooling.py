"""Rules of poolings, in float64 by ONNX's evaluator and in float32 by onnxruntime."""

from __future__ import annotations

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


def normal(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape)


def apart(*shape: int) -> np.ndarray:
    """Return numbers of both signs, far from each other and from 0: no difference meets a kink."""
    ranks = 1.0 + RNG.permutation(int(np.prod(shape))).reshape(shape)
    return ranks * RNG.choice([-1, 1], shape)


@st.composite
def pools(draw: st.DrawFn, *, has_ceil: bool = True) -> tuple[tuple[int, ...], dict[str, Any], bool]:
    """Draw the shape of what a window moves over, the window, and whether sizes are left open."""
    rank = draw(st.integers(1, 3))
    kernel = [draw(st.integers(1, 3)) for _ in range(rank)]
    auto_pad = draw(st.sampled_from(["NOTSET", "NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"]))
    same, symbolic = auto_pad.startswith("SAME"), draw(st.booleans())
    strides = [draw(st.integers(1, k if same else 3)) for k in kernel]
    dilations = [1 if same else draw(st.integers(1, 2)) for _ in kernel]
    attributes = {"kernel_shape": kernel, "strides": strides, "dilations": dilations}
    pads = [0] * (2 * rank)
    if auto_pad == "NOTSET":
        pads = attributes["pads"] = [
            draw(st.integers(0, kernel[axis % rank] - 1)) for axis in range(2 * rank)
        ]
        if has_ceil:
            attributes["ceil_mode"] = draw(st.integers(0, 1))
    else:
        attributes["auto_pad"] = auto_pad
    sizes = [draw(st.integers(1, 7)) for _ in range(rank)]
    for axis in range(rank):
        size, extent = sizes[axis] + pads[axis] + pads[rank + axis], dilations[axis] * (kernel[axis] - 1) + 1
        assume(same or size >= extent)
        if attributes.get("ceil_mode"):
            # Before opset 22, ONNX's inference counts a window that begins behind the end.
            last = -(-(size - extent) // strides[axis])
            assume(last * strides[axis] < sizes[axis] + pads[axis])
    assume(not (symbolic and same and max(strides) > 1))
    return (draw(st.integers(1, 2)), draw(st.integers(1, 2)), *sizes), attributes, symbolic


# --- MaxPool ---------------------------------------------------------------------------------------


@settings(max_examples=20)
@given(pool=pools(), storage_order=st.integers(0, 1))
def test_max_pool(pool: tuple[tuple[int, ...], dict[str, Any], bool], storage_order: int) -> None:
    shape, attributes, symbolic = pool
    x = apart(*shape).astype(np.float32)
    check_slopes(
        "MaxPool",
        [x],
        attributes | {"storage_order": storage_order},
        step=2**-4,
        rtol=1e-3,
        symbolic=symbolic,
    )


@pytest.mark.parametrize("symbolic", [False, True])
@pytest.mark.parametrize("outputs", [1, 2, ["y0", ""]])
def test_max_pool_with_or_without_its_positions(outputs: Any, symbolic: bool) -> None:
    attributes = {"kernel_shape": [2, 3], "strides": [1, 2], "pads": [1, 0, 0, 1]}
    check_node("MaxPool", [apart(2, 2, 4, 5)], attributes, outputs=outputs, symbolic=symbolic)


def test_the_first_of_equals_gets_it_all():
    model, _ = node_model("MaxPool", [np.ones((1, 1, 4))], {"kernel_shape": [3]})
    results = run(grad(model), {"x0": np.array([[[1.0, 5, 5, 5]]]), "y0_grad": np.array([[[1.0, 10]]])})
    np.testing.assert_array_equal(results["x0_grad"], [[[0, 11, 0, 0]]])


@pytest.mark.parametrize("order", [0, 1])
def test_positions_stay_an_output(order: int) -> None:
    x = apart(1, 2, 3, 4)
    model, given_values = node_model(
        "MaxPool", [x], {"kernel_shape": [2, 2], "storage_order": order}, outputs=2
    )
    before = run(model, given_values)
    after = run(grad(model), given_values | {"y0_grad": np.ones((1, 2, 2, 3))})
    np.testing.assert_array_equal(after["y1"], before["y1"])


def test_overlapping_windows_are_summed_in_single_precision():
    # In float16, 2048 + 1 is 2048, however often 1 is added.
    model, _ = node_model("MaxPool", [np.zeros((1, 1, 5), np.float16)], {"kernel_shape": [3]})
    x, seed = np.array([[[0, 0, 1, 0, 0]]], np.float16), np.array([[[2048, 1, 1]]], np.float16)
    result = run(grad(model), {"x0": x, "y0_grad": seed})["x0_grad"]
    assert result.dtype == np.float16
    np.testing.assert_array_equal(result, [[[0, 0, 2050, 0, 0]]])


# --- AveragePool and LpPool ------------------------------------------------------------------------


@settings(max_examples=30)
@given(pool=pools(), count_include_pad=st.integers(0, 1))
def test_average_pool(pool: tuple[tuple[int, ...], dict[str, Any], bool], count_include_pad: int) -> None:
    shape, attributes, symbolic = pool
    x = normal(*shape).astype(np.float32)
    check_slopes(
        "AveragePool",
        [x],
        attributes | {"count_include_pad": count_include_pad},
        symbolic=symbolic and not attributes.get("ceil_mode"),
        opset=22,
    )


@pytest.mark.parametrize("symbolic", [False, True])
def test_average_pool_in_double_precision(symbolic: bool) -> None:
    attributes = {"kernel_shape": [2, 3], "strides": [1, 2]}
    check_node("AveragePool", [normal(2, 2, 4, 6)], attributes, symbolic=symbolic)


@pytest.mark.parametrize(("with_padding", "expected"), [(0, [1.5, 1, 1.5]), (1, [1, 1, 1])])
def test_padding_is_counted_where_asked(with_padding: int, expected: list[float]) -> None:
    attributes = {"kernel_shape": [3], "pads": [1, 1], "count_include_pad": with_padding}
    model, _ = node_model("AveragePool", [np.ones((1, 1, 3))], attributes)
    seed = np.array([[[3.0, 0, 0]]])
    ends = run(grad(model), {"x0": np.ones((1, 1, 3)), "y0_grad": seed})["x0_grad"]
    np.testing.assert_allclose(ends, [[[expected[0], expected[0], 0]]])


def test_one_weight_where_every_window_is_whole():
    model, _ = node_model("AveragePool", [normal(1, 2, 4, 4)], {"kernel_shape": [2, 2]})
    operators = sorted(node.op_type for node in to_onnx(grad(model)).graph.node if node.op_type != "Identity")
    assert operators == ["AveragePool", "ConvTranspose", "Reshape", "Reshape"]


@settings(max_examples=20)
@given(pool=pools(has_ceil=False), p=st.integers(1, 3))
def test_lp_pool(pool: tuple[tuple[int, ...], dict[str, Any], bool], p: int) -> None:
    shape, attributes, symbolic = pool
    x = (apart(*shape) / 64 + np.sign(apart(*shape))).astype(np.float32)
    x = np.where(np.abs(x) < 0.25, np.float32(0.5), x)
    check_slopes("LpPool", [x], attributes | {"p": p}, step=2**-7, rtol=5e-3, symbolic=symbolic)


@pytest.mark.parametrize("p", [1, 2, 3])
def test_a_norm_of_zero_sends_nothing_back(p: int) -> None:
    model, _ = node_model("LpPool", [np.ones((1, 1, 2), np.float32)], {"kernel_shape": [2], "p": p})
    given_values = {"x0": np.zeros((1, 1, 2), np.float32), "y0_grad": np.ones((1, 1, 1), np.float32)}
    np.testing.assert_array_equal(run(grad(model), given_values)["x0_grad"], [[[0, 0]]])


# --- global poolings -------------------------------------------------------------------------------


@pytest.mark.parametrize("symbolic", [False, True])
@pytest.mark.parametrize("shape", [(2, 3, 4), (2, 2, 3, 4), (1, 2, 2, 3, 2)], ids=str)
@pytest.mark.parametrize("op_type", ["GlobalAveragePool", "GlobalMaxPool"])
def test_global_pool(op_type: str, shape: tuple[int, ...], symbolic: bool) -> None:
    x = apart(*shape)
    if len(shape) == 4 or op_type == "GlobalAveragePool":
        check_node(op_type, [x], symbolic=symbolic)
    check_slopes(op_type, [x.astype(np.float32)], step=2**-4, rtol=1e-3, symbolic=symbolic)


@pytest.mark.parametrize("p", [1, 2, 3])
def test_global_lp_pool(p: int) -> None:
    x = (apart(2, 2, 3, 2) / 8 + 1).astype(np.float32)
    x = np.where(np.abs(x) < 0.25, np.float32(0.5), x)
    check_slopes("GlobalLpPool", [x], {"p": p}, step=2**-6, rtol=5e-3)


def test_the_first_of_all_equals_gets_it_all():
    model, given_values = node_model("GlobalMaxPool", [np.ones((1, 2, 2, 2))])
    results = run(grad(model), given_values | {"y0_grad": np.array([3.0, 4]).reshape(1, 2, 1, 1)})
    np.testing.assert_array_equal(results["x0_grad"].reshape(2, 4), [[3, 0, 0, 0], [4, 0, 0, 0]])


# --- all -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("op_type", "attributes"),
    [
        ("MaxPool", {"kernel_shape": [2, 2]}),
        ("AveragePool", {"kernel_shape": [2, 2], "strides": [2, 1]}),
        ("AveragePool", {"kernel_shape": [2, 2], "pads": [1, 0, 1, 0]}),
        ("LpPool", {"kernel_shape": [2, 2], "p": 3}),
        ("GlobalAveragePool", {}),
        ("GlobalMaxPool", {}),
    ],
    ids=str,
)
def test_second_derivative(op_type: str, attributes: dict[str, Any]) -> None:
    model, given_values = node_model(op_type, [apart(1, 2, 4, 3)], attributes)
    seed = normal(*run(model, given_values)["y0"].shape)
    check_model(grad(model), given_values | {"y0_grad": seed}, rtol=1e-4)


REFUSALS = [
    (
        {"ceil_mode": 1},
        True,
        "with ceil_mode, where its windows end depends on the sizes of 'x0'; "
        "give the graph's inputs fixed shapes",
    ),
    (
        {"auto_pad": "SAME_UPPER", "strides": [3]},
        False,
        "by auto_pad, its padding is negative where a stride is greater than the kernel; "
        "give it pads instead",
    ),
]


@pytest.mark.parametrize(("attributes", "symbolic", "reason"), REFUSALS, ids=str)
def test_refused(attributes: dict[str, Any], symbolic: bool, reason: str) -> None:
    model, _ = node_model(
        "AveragePool", [normal(1, 1, 5)], attributes | {"kernel_shape": [2]}, symbolic=symbolic
    )
    with pytest.raises(UnsupportedError) as caught:
        grad(model)
    assert str(caught.value) == f"AveragePool 'averagepool': no gradient: {reason}"
