"""Rules of Conv and ConvTranspose, in float64 by ONNX's evaluator and in float32 by onnxruntime."""

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
FIXED = "give the graph's inputs fixed shapes"


def normal(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape)


def single(*shape: int) -> np.ndarray:
    return normal(*shape).astype(np.float32)


@st.composite
def geometries(draw: st.DrawFn) -> dict[str, Any]:
    """Draw a window, and what it moves over."""
    rank = draw(st.integers(1, 3))
    several = {"min_size": rank, "max_size": rank}
    kernel = draw(st.lists(st.integers(1, 3), **several))
    auto_pad = draw(st.sampled_from(["NOTSET", "NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"]))
    # onnxruntime has no dilations with this padding.
    dilation = st.just(1) if auto_pad.startswith("SAME") else st.integers(1, 2)
    attributes: dict[str, Any] = {
        "strides": draw(st.lists(st.integers(1, 3), **several)),
        "dilations": draw(st.lists(dilation, **several)),
        "group": draw(st.sampled_from([1, 1, 2, 3])),
        "kernel_shape": kernel,
    }
    if auto_pad == "NOTSET":
        attributes["pads"] = draw(st.lists(st.integers(0, 2), min_size=2 * rank, max_size=2 * rank))
    else:
        attributes["auto_pad"] = auto_pad
    return {
        "attributes": attributes,
        "sizes": draw(st.lists(st.integers(1, 7), **several)),
        "channels": (draw(st.integers(1, 2)), draw(st.integers(1, 2))),
        "batch": draw(st.integers(1, 2)),
        "extents": [(k - 1) * d + 1 for k, d in zip(kernel, attributes["dilations"], strict=True)],
        "pads": [sum(attributes.get("pads", [0] * 2 * rank)[axis::rank]) for axis in range(rank)],
    }


# --- Conv ------------------------------------------------------------------------------------------

CONVS: list[tuple[str, list[tuple[int, ...]], dict[str, Any]]] = [
    ("plain", [(2, 2, 6), (3, 2, 3)], {}),
    ("with a bias", [(2, 2, 4, 5), (3, 2, 3, 2), (3,)], {}),
    ("padded", [(1, 2, 4, 5), (2, 2, 3, 3)], {"pads": [1, 0, 2, 1]}),
    ("with a rest", [(1, 2, 6, 8), (2, 2, 3, 2)], {"strides": [2, 3]}),
    ("with a rest of padding", [(1, 2, 6, 6), (2, 2, 3, 3)], {"strides": [2, 2], "pads": [1, 1, 1, 1]}),
    ("dilated", [(1, 2, 7, 6), (2, 2, 3, 2)], {"dilations": [2, 3], "strides": [1, 2]}),
    ("of one position", [(2, 3, 4, 5), (2, 3, 1, 1)], {}),
    ("of one position, with strides", [(2, 3, 4, 5), (2, 3, 1, 1)], {"strides": [1, 3]}),
    ("of each channel", [(1, 3, 5, 5), (3, 1, 2, 2)], {"group": 3}),
    (
        "of each channel, with all else",
        [(2, 3, 7, 8), (3, 1, 2, 3)],
        {"group": 3, "pads": [1, 0, 2, 1], "strides": [2, 1], "dilations": [1, 2]},
    ),
    ("in three dimensions", [(1, 2, 3, 4, 3), (2, 2, 2, 3, 2)], {"strides": [1, 2, 1]}),
    ("same, upper", [(1, 2, 5), (2, 2, 4)], {"auto_pad": "SAME_UPPER", "strides": [2]}),
    ("same, lower", [(1, 2, 5), (2, 2, 4)], {"auto_pad": "SAME_LOWER", "strides": [2]}),
    ("same, without strides", [(1, 2, 5), (2, 2, 4)], {"auto_pad": "SAME_UPPER"}),
    ("valid", [(1, 2, 5), (2, 2, 4)], {"auto_pad": "VALID", "pads": [0, 0]}),
]


@pytest.mark.parametrize(("shapes", "attributes"), [call[1:] for call in CONVS], ids=[c[0] for c in CONVS])
def test_conv(shapes: list[tuple[int, ...]], attributes: dict[str, Any]) -> None:
    check_node("Conv", [normal(*shape) for shape in shapes], attributes)


@settings(max_examples=25)
@given(geometry=geometries(), symbolic=st.booleans(), has_bias=st.booleans())
def test_any_conv(geometry: dict[str, Any], symbolic: bool, has_bias: bool) -> None:
    attributes = geometry["attributes"]
    same = attributes.get("auto_pad", "").startswith("SAME")
    if not same:
        padded = [size + pad for size, pad in zip(geometry["sizes"], geometry["pads"], strict=True)]
        assume(all(size >= extent for size, extent in zip(padded, geometry["extents"], strict=True)))
    assume(not (symbolic and same and max(attributes["strides"]) > 1))
    (into, out), group = geometry["channels"], attributes["group"]
    inputs = [
        single(geometry["batch"], group * into, *geometry["sizes"]),
        single(group * out, into, *attributes["kernel_shape"]),
    ]
    check_slopes(
        "Conv", [*inputs, single(group * out)] if has_bias else inputs, attributes, symbolic=symbolic
    )


def test_conv_by_hand():
    model, given_values = node_model(
        "Conv", [np.arange(4.0).reshape(1, 1, 4), np.ones((1, 1, 2))], {"strides": [2]}
    )
    results = run(grad(model), given_values | {"y0_grad": np.array([[[1.0, 10.0]]])})
    np.testing.assert_array_equal(results["x0_grad"], [[[1, 1, 10, 10]]])
    np.testing.assert_array_equal(results["x1_grad"], [[[0 + 20, 1 + 30]]])


def test_what_no_window_reads_gets_nothing():
    model, given_values = node_model("Conv", [normal(1, 1, 5), np.ones((1, 1, 1))], {"strides": [3]})
    results = run(grad(model), given_values | {"y0_grad": np.ones((1, 1, 2))})
    np.testing.assert_array_equal(results["x0_grad"], [[[1, 0, 0, 1, 0]]])


def test_padding_of_unknown_sizes_is_refused():
    attributes = {"auto_pad": "SAME_UPPER", "strides": [2], "kernel_shape": [3]}
    model, _ = node_model("Conv", [normal(1, 1, 5), normal(1, 1, 3)], attributes, symbolic=True)
    message = f"Conv 'conv': no gradient: its padding by auto_pad depends on the sizes of 'x0'; {FIXED}"
    with pytest.raises(UnsupportedError) as caught:
        grad(model)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("shapes", "attributes", "expected"),
    [
        ([(1, 2, 7, 7), (3, 2, 5, 5)], {}, ["Conv", "ConvTranspose", "Transpose", "Transpose", "Transpose"]),
        (
            [(1, 2, 4, 4), (3, 2, 3, 3)],
            {},
            ["Conv", "ConvTranspose", "MatMul", "ReduceSum", *["Reshape"] * 4, *["Transpose"] * 2],
        ),
        (
            [(1, 2, 4, 4), (2, 1, 1, 2)],
            {"group": 2},
            ["Concat", "ConvTranspose", *["Mul"] * 2, *["ReduceSum"] * 2, "Reshape", *["Slice"] * 2],
        ),
        ([(1, 2, 4, 4), (3, 2, 1, 1)], {}, ["ConvTranspose", "Einsum", "Reshape"]),
    ],
)
def test_nodes_of_the_backward_pass(
    shapes: list[tuple[int, ...]], attributes: dict[str, Any], expected: list[str]
) -> None:
    model, _ = node_model("Conv", [normal(*shape) for shape in shapes], attributes)
    operators = sorted(node.op_type for node in to_onnx(grad(model)).graph.node if node.op_type != "Identity")
    operators.remove("Conv")
    assert operators == expected


# --- ConvTranspose ---------------------------------------------------------------------------------

TRANSPOSES: list[tuple[str, list[tuple[int, ...]], dict[str, Any]]] = [
    ("plain", [(2, 2, 4), (2, 3, 3)], {}),
    ("with a bias", [(2, 2, 3, 4), (2, 3, 3, 2), (3,)], {}),
    ("padded", [(1, 2, 4, 5), (2, 2, 3, 3)], {"pads": [1, 0, 2, 1]}),
    ("with strides", [(1, 2, 3, 4), (2, 2, 3, 2)], {"strides": [2, 3]}),
    ("dilated", [(1, 2, 3, 3), (2, 2, 3, 2)], {"dilations": [2, 3], "strides": [1, 2]}),
    ("with output_padding", [(1, 2, 3), (2, 2, 2)], {"strides": [3], "output_padding": [2]}),
    ("of one position", [(1, 2, 3), (2, 2, 1)], {"strides": [2], "output_padding": [1]}),
    ("in three dimensions", [(1, 2, 2, 3, 2), (2, 1, 2, 3, 2)], {"strides": [1, 2, 1]}),
    ("same, upper", [(1, 2, 4), (2, 2, 5)], {"auto_pad": "SAME_UPPER", "strides": [2]}),
    ("same, lower", [(1, 2, 4), (2, 2, 5)], {"auto_pad": "SAME_LOWER", "strides": [2]}),
]


@pytest.mark.parametrize(
    ("shapes", "attributes"), [call[1:] for call in TRANSPOSES], ids=[call[0] for call in TRANSPOSES]
)
def test_conv_transpose(shapes: list[tuple[int, ...]], attributes: dict[str, Any]) -> None:
    check_node("ConvTranspose", [normal(*shape) for shape in shapes], attributes)


@settings(max_examples=25)
@given(geometry=geometries(), symbolic=st.booleans(), has_bias=st.booleans(), data=st.data())
def test_any_conv_transpose(
    geometry: dict[str, Any], symbolic: bool, has_bias: bool, data: st.DataObject
) -> None:
    attributes, sizes = geometry["attributes"], geometry["sizes"]
    is_given = data.draw(st.booleans()) and not symbolic
    # ONNX's inference counts an output padding beside the padding of auto_pad, and onnxruntime does not.
    if not attributes.get("auto_pad", "").startswith("SAME"):
        attributes["output_padding"] = [data.draw(st.integers(0, s - 1)) for s in attributes["strides"]]
    added = attributes.get("output_padding", [0] * len(sizes))
    full = [
        stride * (size - 1) + more + extent
        for stride, size, more, extent in zip(
            attributes["strides"], sizes, added, geometry["extents"], strict=True
        )
    ]
    if is_given:
        attributes.pop("pads", None)
        attributes["output_shape"] = [max(1, size - data.draw(st.integers(0, 2))) for size in full]
        assume(all(out >= size for out, size in zip(attributes["output_shape"], sizes, strict=True)))
    assume(all(size > pad for size, pad in zip(full, geometry["pads"], strict=True)))
    (into, out), group = geometry["channels"], attributes["group"]
    inputs = [
        single(geometry["batch"], group * into, *sizes),
        single(group * into, out, *attributes["kernel_shape"]),
    ]
    check_slopes(
        "ConvTranspose", [*inputs, single(group * out)] if has_bias else inputs, attributes, symbolic=symbolic
    )


def test_output_shape_with_unknown_sizes_is_refused():
    attributes = {"output_shape": [5], "strides": [2], "kernel_shape": [4]}
    model, _ = node_model("ConvTranspose", [normal(1, 1, 3), normal(1, 1, 4)], attributes, symbolic=True)
    with pytest.raises(UnsupportedError) as caught:
        grad(model)
    assert str(caught.value) == (
        "ConvTranspose 'convtranspose': no gradient: "
        f"its padding by output_shape depends on the sizes of 'x0'; {FIXED}"
    )


# --- both ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kernel", [1, 3])
@pytest.mark.parametrize("op_type", ["Conv", "ConvTranspose"])
def test_second_derivative(op_type: str, kernel: int) -> None:
    attributes = {"strides": [2], "pads": [kernel // 2, 0]}
    inputs = [normal(1, 2, 6), normal(2, 2, kernel), normal(2)]
    model, given_values = node_model(op_type, inputs, attributes)
    seed = normal(*run(model, given_values)["y0"].shape)
    check_model(grad(model), given_values | {"y0_grad": seed})


def test_an_unknown_kernel_is_refused():
    model, _ = node_model("Conv", [normal(1, 1, 5), normal(1, 1, 3)], symbolic=True)
    with pytest.raises(UnsupportedError) as caught:
        grad(model)
    assert str(caught.value).endswith(f"has to be known; {FIXED}")


# --- Col2Im ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("symbolic", [False, True])
@pytest.mark.parametrize(
    ("image", "block", "columns", "attributes"),
    [
        ([4, 5], [2, 3], 9, {}),
        ([5, 6], [2, 2], 9, {"strides": [2, 3], "pads": [0, 1, 1, 1]}),
        ([5, 5], [2, 2], 9, {"dilations": [2, 2]}),
        ([6], [3], 4, {}),
    ],
)
def test_col2im(
    image: list[int], block: list[int], columns: int, attributes: dict[str, Any], symbolic: bool
) -> None:
    shapes = [np.array(image), np.array(block)]
    x = normal(2, 3 * int(np.prod(block)), columns)
    check_node("Col2Im", [x, *shapes], attributes, constant=[1, 2], symbolic=symbolic)


def test_col2im_needs_a_constant_block() -> None:
    model, _ = node_model("Col2Im", [normal(1, 4, 4), np.array([3, 3]), np.array([2, 2])])
    message = "Col2Im 'col2im': no gradient: its block shape 'x2' is not constant; make it a constant"
    with pytest.raises(UnsupportedError, match=f"^{message}$"):
        grad(model)
