"""Rules of operators that move, cut and repeat tensors, held against central differences."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from central import check_model, check_node, node_model
from hypothesis import given, settings
from hypothesis import strategies as st

from mdf_scatter import from_onnx, grad, run
from mdf_scatter.errors import UnsupportedError

RNG = np.random.default_rng(5)


def x(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape)


def ints(*numbers: int) -> np.ndarray:
    return np.array(numbers, np.int64)


FIXED = {"symbolic": (False,)}
"""ONNX's inference does not know the rank of the output where these sizes are open, too."""

EXAMPLES: dict[str, tuple[str, list[Any], dict[str, Any], dict[str, Any]]] = {
    "reshape, 0 and -1": ("Reshape", [x(2, 3, 4), ints(0, -1)], {}, {"constant": [1]}),
    "reshape, allowzero": ("Reshape", [x(2, 0, 4), ints(0, 4)], {"allowzero": 1}, {"constant": [1]}),
    "reshape, shape from outside": ("Reshape", [x(2, 3), ints(3, 2)], {}, FIXED),
    "reshape to a scalar": ("Reshape", [x(1, 1), ints()], {}, {"constant": [1]}),
    "flatten": ("Flatten", [x(2, 3, 4)], {"axis": -1}, {}),
    "flatten a scalar": ("Flatten", [x()], {"axis": 0}, {}),
    "squeeze": ("Squeeze", [x(2, 1, 4), ints(-2)], {}, {"constant": [1]}),
    "squeeze all": ("Squeeze", [x(1, 2, 1)], {}, FIXED),
    "unsqueeze": ("Unsqueeze", [x(2, 4), ints(0, -1)], {}, {"constant": [1]}),
    "transpose": ("Transpose", [x(2, 3, 4)], {}, {}),
    "transpose, perm": ("Transpose", [x(2, 3, 4)], {"perm": [1, 2, 0]}, {}),
    "transpose a scalar": ("Transpose", [x()], {}, {}),
    "concat": ("Concat", [x(2, 3), x(2, 1), x(2, 0)], {"axis": -1}, {}),
    "concat of one": ("Concat", [x(2, 3)], {"axis": 0}, {}),
    "split, num_outputs, uneven": ("Split", [x(7, 2)], {"num_outputs": 3}, {"outputs": 3}),
    "split, sizes": ("Split", [x(2, 6), ints(1, 3, 2)], {"axis": -1}, {"outputs": 3, "constant": [1]}),
    "tile": ("Tile", [x(2, 3), ints(2, 3)], {}, {"constant": [1]}),
    "tile, repeats from outside": ("Tile", [x(2, 3), ints(2, 3)], {}, {}),
    "tile to nothing": ("Tile", [x(2, 3), ints(0, 3)], {}, {"constant": [1]}),
    "expand": ("Expand", [x(2, 1), ints(3, 1, 4)], {}, {"constant": [1]}),
    "expand, shape from outside": ("Expand", [x(2, 1), ints(3, 1, 4)], {}, FIXED),
    "trilu": ("Trilu", [x(2, 3, 4), np.array(1)], {"upper": 0}, {}),
    "trilu, upper": ("Trilu", [x(3, 4)], {}, {}),
    "depth to space": ("DepthToSpace", [x(1, 8, 2, 3)], {"blocksize": 2}, {}),
    "depth to space, CRD": ("DepthToSpace", [x(2, 8, 2, 1)], {"blocksize": 2, "mode": "CRD"}, {}),
    "space to depth": ("SpaceToDepth", [x(1, 2, 4, 6)], {"blocksize": 2}, {}),
    "compress": ("Compress", [x(3, 4), np.array([True, False, True])], {"axis": -1}, {}),
    "compress, flat": ("Compress", [x(3, 4), np.array([False, True, False, True, True])], {}, {}),
    "compress, constant": (
        "Compress", [x(3, 2), np.array([True, False, True])], {"axis": 0}, {"constant": [1]}
    ),
    "reverse sequence": ("ReverseSequence", [x(4, 3), ints(1, 4, 2)], {}, {}),
    "reverse sequence, batch first": (
        "ReverseSequence", [x(3, 4, 2), ints(1, 4, 2)], {"batch_axis": 0, "time_axis": 1}, {}
    ),
    "one hot": ("OneHot", [ints(0, -1, 5), np.array(3), x(2)], {}, {}),
    "one hot, axis": ("OneHot", [ints(0, -1, 5), np.array(3), x(2)], {"axis": 0}, {"constant": [1]}),
    "range": ("Range", [np.array(1.0), np.array(2.2), np.array(0.25)], {}, {"wrt": ["x0", "x2"]}),
    "slice, over the end": ("Slice", [x(5, 4), ints(1), ints(2**63 - 1)], {}, {"constant": [1, 2]}),
    "slice, negative": (
        "Slice", [x(5, 4), ints(-3, 0), ints(-1, 3), ints(-1, 0)], {}, {"constant": [1, 2, 3]}
    ),
    "slice, from outside": ("Slice", [x(5, 4), ints(-3, 0), ints(-1, 3), ints(-1, 0)], {}, {}),
    "slice, backwards": (
        "Slice", [x(5, 4), ints(-1), ints(-(2**63)), ints(0), ints(-2)], {}, {"constant": [1, 2, 3, 4]}
    ),
    "slice, steps from outside": ("Slice", [x(5, 4), ints(0), ints(9), ints(1), ints(3)], {}, {}),
    "slice of nothing": ("Slice", [x(5, 4), ints(4), ints(2), ints(0)], {}, {"constant": [1, 2, 3]}),
    "pad": ("Pad", [x(2, 3), ints(1, 0, 2, 1), np.array(0.5)], {}, {"constant": [1]}),
    "pad, negative, from outside": ("Pad", [x(2, 3), ints(-1, 0, 2, 1), np.array(0.5)], {}, {}),
    "pad, axes": ("Pad", [x(2, 3), ints(-1, 2), None, ints(-1)], {}, {"constant": [1, 3]}),
    "pad, reflect": ("Pad", [x(3, 3), ints(1, 2, 2, 1)], {"mode": "reflect"}, {"constant": [1]}),
    "pad, edge": ("Pad", [x(3, 3), ints(1, 2, 2, 1)], {"mode": "edge"}, {}),
    "pad, edge, axes": ("Pad", [x(3, 3), ints(2, 1), None, ints(0)], {"mode": "edge"}, {"constant": [1, 3]}),
    "pad, wrap": ("Pad", [x(3, 3), ints(1, 2, 2, 1)], {"mode": "wrap"}, {"opset": 19}),
    "pad, wrap, negative": (
        "Pad", [x(4, 3), ints(-1, 2, -1, 1)], {"mode": "wrap"}, {"opset": 19, "constant": [1]}
    ),
}  # fmt: skip


@pytest.mark.parametrize("symbolic", [False, True])
@pytest.mark.parametrize("example", EXAMPLES)
def test_example(example, symbolic):
    op_type, inputs, attributes, options = EXAMPLES[example]
    options = dict(options)
    if symbolic in options.pop("symbolic", (False, True)):
        check_node(op_type, inputs, attributes, symbolic=symbolic, **options)


# --- properties ------------------------------------------------------------------------------------


SIZES = st.lists(st.integers(0, 3), min_size=1, max_size=3).map(tuple)


@settings(max_examples=20)
@given(data=st.data(), shape=SIZES, constant=st.booleans(), symbolic=st.booleans())
def test_any_slice(data, shape, constant, symbolic):
    axes = data.draw(st.lists(st.integers(0, len(shape) - 1), unique=True, min_size=1))
    bounds = [[data.draw(st.integers(-5, 5)) for _ in axes] for _ in range(2)]
    steps = [data.draw(st.sampled_from([1, 1, 1, 2, -1, -2])) for _ in axes]
    axes = [axis - data.draw(st.sampled_from([0, len(shape)])) for axis in axes]
    inputs = [x(*shape), *(ints(*part) for part in (*bounds, axes, steps))]
    check_node("Slice", inputs, constant=[1, 2, 3, 4] if constant else [3], symbolic=symbolic)


@settings(max_examples=20)
@given(data=st.data(), mode=st.sampled_from(["constant", "reflect", "edge", "wrap"]), constant=st.booleans())
def test_any_padding(data, mode, constant):
    shape = tuple(data.draw(st.lists(st.integers(2, 4), min_size=1, max_size=3)))
    fewest = -1 if mode == "constant" else 0
    pads = [data.draw(st.integers(fewest, 1)) for _ in range(2 * len(shape))]
    inputs = [x(*shape), ints(*pads), np.array(0.7) if mode == "constant" else None]
    check_node("Pad", inputs[: 3 if mode == "constant" else 2], {"mode": mode}, opset=19,
               constant=[1] if constant else [])  # fmt: skip


@settings(max_examples=15)
@given(data=st.data(), shape=SIZES, symbolic=st.booleans())
def test_any_concat_and_split(data, shape, symbolic):
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    parts = data.draw(st.lists(st.integers(0, 3), min_size=1, max_size=3))
    sizes = [
        tuple(part if at == axis % len(shape) else size for at, size in enumerate(shape)) for part in parts
    ]
    check_node("Concat", [x(*size) for size in sizes], {"axis": axis}, symbolic=symbolic)
    whole = tuple(sum(parts) if at == axis % len(shape) else size for at, size in enumerate(shape))
    check_node("Split", [x(*whole), ints(*parts)], {"axis": axis}, outputs=len(parts), constant=[1],
               symbolic=symbolic)  # fmt: skip


@settings(max_examples=15)
@given(data=st.data(), shape=SIZES, symbolic=st.booleans())
def test_any_tile_and_transpose(data, shape, symbolic):
    repeats = [data.draw(st.integers(0, 3)) for _ in shape]
    check_node("Tile", [x(*shape), ints(*repeats)], constant=[1], symbolic=symbolic)
    perm = data.draw(st.permutations(range(len(shape))))
    check_node("Transpose", [x(*shape)], {"perm": list(perm)}, symbolic=symbolic)


# --- what is pinned --------------------------------------------------------------------------------


def squared(
    op_type: str, inputs: list[Any], attributes: dict[str, Any], constant: list[int], opset: int = 19
):
    """Return a model of the square of an operator's output, and its free inputs."""
    names = [f"x{at}" if value is not None else "" for at, value in enumerate(inputs)]
    given_values = {n: v for n, v in zip(names, inputs, strict=True) if n}
    fixed = {names[at] for at in constant}
    nodes = [
        onnx.helper.make_node(op_type, names, ["y"], "moved", **attributes),
        onnx.helper.make_node("Mul", ["y", "y"], ["z"], "squared"),
    ]
    kind = onnx.helper.np_dtype_to_tensor_dtype
    graph = onnx.helper.make_graph(
        nodes,
        "graph",
        [onnx.helper.make_tensor_value_info(n, kind(v.dtype), v.shape) for n, v in given_values.items()
         if n not in fixed],
        [onnx.ValueInfoProto(name="z")],
        initializer=[onnx.numpy_helper.from_array(given_values[n], n) for n in fixed],
    )  # fmt: skip
    proto = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", opset)], ir_version=10)
    model = from_onnx(onnx.shape_inference.infer_shapes(proto))
    return model, {n: v for n, v in given_values.items() if n not in fixed}


@pytest.mark.parametrize(
    "example",
    ["reshape, 0 and -1", "transpose, perm", "concat", "tile", "expand", "trilu", "depth to space, CRD",
     "compress, constant", "slice, over the end", "slice, backwards", "pad", "pad, reflect", "pad, wrap",
     "reverse sequence"],
)  # fmt: skip
def test_second_derivatives(example):
    op_type, inputs, attributes, options = EXAMPLES[example]
    model, free = squared(op_type, inputs, attributes, list(options.get("constant", ())))
    first = grad(model)
    said = first.graphs[0].metadata["gradient"]
    coming = said["of"]["z"]
    feed = {**free, coming: np.random.default_rng(1).standard_normal(run(model, free)["z"].shape)}
    check_model(first, feed)


def test_a_slice_without_steps_is_padded_in_one_node():
    model, _ = node_model("Slice", [x(5, 4), ints(1), ints(3)], constant=[1, 2])
    functions = [node.functions[0].function for node in grad(model).graphs[0].nodes if node.functions]
    assert functions.count("onnx::Pad") == 1
    assert "onnx::ScatterElements" not in functions


def test_zeros_are_padded_by_what_was_there():
    """No gradient comes from what was cut off, and none of it is NaN where the outside's is."""
    model, free = node_model("Pad", [x(3), ints(1, -1)], constant=[1])
    backward = grad(model)
    results = run(backward, {**free, "y0_grad": np.array([np.nan, 1.0, 2.0])})
    assert results["x0_grad"].tolist() == [1, 2, 0]


def test_outputs_of_split_without_a_gradient_send_zeros():
    model, free = node_model("Split", [x(4)], {"num_outputs": 2}, outputs=2)
    backward = grad(model, of="y1")
    assert run(backward, {**free, "y1_grad": np.ones(2)})["x0_grad"].tolist() == [0, 0, 1, 1]


def test_the_same_input_twice_gets_both_gradients():
    node = onnx.helper.make_node("Concat", ["a", "a"], ["y"], "twice", axis=0)
    info = onnx.helper.make_tensor_value_info
    graph = onnx.helper.make_graph([node], "g", [info("a", 11, [2])], [info("y", 11, [4])])
    proto = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 18)], ir_version=10)
    results = run(grad(from_onnx(proto)), {"a": np.zeros(2), "y_grad": np.array([1.0, 2.0, 4.0, 8.0])})
    assert results["a_grad"].tolist() == [5, 10]


def test_unique_has_no_rule():
    model, _ = node_model("Unique", [x(3)], outputs=["y0"])
    with pytest.raises(UnsupportedError) as caught:
        grad(model)
    assert str(caught.value) == (
        "Unique 'unique': there is no rule for its gradient, and it is on the way 'x0' -> 'unique' -> 'y0'; "
        "add one with mdf_scatter.gradient.rule, or leave it out with of= and wrt="
    )
