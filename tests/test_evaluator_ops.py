"""Operators in float64, for which onnxruntime has no kernels: as onnxruntime computes them in float32."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime
import pytest
from onnx.reference import ReferenceEvaluator

import mdf_scatter
from mdf_scatter.errors import EvaluationError
from mdf_scatter.onnx_plugin import NEW_OPS

RNG = np.random.default_rng(5)
Array = npt.NDArray[Any]


def model_of(op_type: str, inputs: list[Array | None], outputs: int, **attributes: Any) -> onnx.ModelProto:
    names = ["" if array is None else f"x{place}" for place, array in enumerate(inputs)]
    results = [f"y{place}" for place in range(outputs)]
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node(op_type, names, results, name="cell", **attributes)],
        "g",
        [
            onnx.helper.make_tensor_value_info(
                name, onnx.helper.np_dtype_to_tensor_dtype(array.dtype), array.shape
            )
            for name, array in zip(names, inputs, strict=True)
            if array is not None
        ],
        [
            onnx.helper.make_tensor_value_info(
                name, onnx.helper.np_dtype_to_tensor_dtype(inputs[0].dtype), None
            )
            for name in results
        ],
    )
    return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 18)], ir_version=10)


def fed(inputs: list[Array | None], dtype: npt.DTypeLike) -> list[Array | None]:
    return [x.astype(dtype) if x is not None and x.dtype.kind == "f" else x for x in inputs]


def check(op_type: str, inputs: list[Array | None], outputs: int = 1, **attributes: Any) -> None:
    """Hold our results in float64 against onnxruntime's in float32."""
    results = []
    for dtype in (np.float32, np.float64):
        arrays = fed(inputs, dtype)
        model = model_of(op_type, arrays, outputs, **attributes)
        feed = {f"x{place}": array for place, array in enumerate(arrays) if array is not None}
        if dtype == np.float32:
            options = onnxruntime.SessionOptions()
            options.log_severity_level = 4
            session = onnxruntime.InferenceSession(model.SerializeToString(), options)
            results.append(session.run(None, feed))
        else:
            before = {name: array.copy() for name, array in feed.items()}
            results.append(ReferenceEvaluator(model, new_ops=NEW_OPS).run(None, feed))
            for name, array in feed.items():
                np.testing.assert_array_equal(array, before[name])
            run = mdf_scatter.run(mdf_scatter.from_onnx(model), feed)
            for name, array in zip(("y0", "y1", "y2"), results[-1], strict=False):
                np.testing.assert_allclose(run[name], array, rtol=1e-12, strict=True)
    for expected, array in zip(*results, strict=True):
        assert array.dtype == np.float64
        assert array.shape == expected.shape
        np.testing.assert_allclose(array, expected, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("size", [1, 3, 7])
@pytest.mark.parametrize("shape", [(2, 5, 3, 2), (6, 2, 1, 1)])
def test_lrn_looks_at_neighbouring_channels(size: int, shape: tuple[int, ...]) -> None:
    check("LRN", [RNG.normal(size=shape)], size=size, alpha=0.5, beta=0.6, bias=1.5)


def test_lrn_of_an_even_size_which_onnxruntime_lacks() -> None:
    x = np.array([1.0, 2.0, 3.0, 4.0, 5.0]).reshape(1, 5, 1, 1)
    model = model_of("LRN", [x], 1, size=4, alpha=4.0, beta=1.0, bias=0.0)
    sums = np.array([1 + 4 + 9, 1 + 4 + 9 + 16, 4 + 9 + 16 + 25, 9 + 16 + 25, 16 + 25])
    found = mdf_scatter.run(mdf_scatter.from_onnx(model), {"x0": x})["y0"]
    np.testing.assert_allclose(found.ravel(), x.ravel() / sums, rtol=1e-15)


@pytest.mark.parametrize("p", [1, 2])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_lp_normalization_is_by_absolute_values(p: int, axis: int) -> None:
    check("LpNormalization", [RNG.normal(size=(2, 3, 4))], p=p, axis=axis)


def test_lp_normalization_of_zeros_is_zeros() -> None:
    check("LpNormalization", [np.zeros((2, 3))], p=1)


def test_mean_broadcasts_every_input() -> None:
    check("Mean", [RNG.normal(size=(1, 3)), RNG.normal(size=(4, 1)), RNG.normal(size=(2, 4, 3))])
    check("Mean", [RNG.normal(size=3)])


@pytest.mark.parametrize("with_bias", [False, True])
@pytest.mark.parametrize("group", [1, 2, 3])
@pytest.mark.parametrize(
    ("spatial", "kernel", "attributes"),
    [
        ((5,), (3,), {}),
        ((5,), (2,), {"strides": [3], "output_padding": [1]}),
        ((4, 5), (3, 2), {"strides": [2, 3], "dilations": [2, 1], "pads": [1, 0, 2, 1]}),
        ((4, 5), (3, 4), {"strides": [2, 2], "auto_pad": "SAME_UPPER"}),
        ((4, 5), (3, 4), {"strides": [2, 2], "auto_pad": "SAME_LOWER"}),
        ((4, 5), (3, 3), {"auto_pad": "VALID"}),
        ((3, 3), (3, 3), {"strides": [3, 2], "output_shape": [10, 8]}),
        ((3, 3), (3, 3), {"strides": [3, 2], "output_shape": [6, 6]}),
        ((2, 3, 2), (2, 1, 3), {"strides": [1, 2, 2], "pads": [0, 0, 1, 1, 0, 0]}),
    ],
)
def test_transposed_convolution(
    spatial: tuple[int, ...], kernel: tuple[int, ...], attributes: dict[str, Any], group: int, with_bias: bool
) -> None:
    x = RNG.normal(size=(2, 6, *spatial))
    w = RNG.normal(size=(6, 2, *kernel))
    b = [RNG.normal(size=2 * group)] if with_bias else []
    check("ConvTranspose", [x, w, *b], group=group, **attributes)


def test_transposed_convolution_reaches_the_size_that_padding_asks_for() -> None:
    # As ONNX says; onnxruntime stops where the last kernel ends.
    x, w = RNG.normal(size=(1, 1, 2)), RNG.normal(size=(1, 1, 2))
    model = model_of("ConvTranspose", [x, w], 1, strides=[3], auto_pad="SAME_UPPER")
    (found,) = ReferenceEvaluator(model, new_ops=NEW_OPS).run(None, {"x0": x, "x1": w})
    (a, b), (c, d) = x.ravel(), w.ravel()
    np.testing.assert_array_equal(found, [[[a * c, a * d, 0, b * c, b * d, 0]]])


GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
KNOWN = {"LSTM": ["Sigmoid", "Tanh", "Tanh"], "GRU": ["Sigmoid", "Tanh"], "RNN": ["Tanh"]}


def recurrent(op_type: str, directions: int = 1) -> list[Array | None]:
    gates, hidden = GATES[op_type], 3
    shapes = [(5, 2, 4), (directions, gates * hidden, 4), (directions, gates * hidden, hidden)]
    return [RNG.normal(size=shape) for shape in (*shapes, (directions, 2 * gates * hidden))]


@pytest.mark.parametrize("op_type", GATES)
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
def test_recurrent_operators_as_they_are_by_default(op_type: str, direction: str) -> None:
    directions = 2 if direction == "bidirectional" else 1
    inputs = recurrent(op_type, directions)
    listed = KNOWN[op_type] * directions
    outputs = 3 if op_type == "LSTM" else 2
    check(op_type, inputs, outputs, hidden_size=3, direction=direction)
    check(op_type, inputs, outputs, hidden_size=3, direction=direction, activations=listed)
    check(op_type, [*inputs, np.full(2, 5, np.int32)], outputs, hidden_size=3, direction=direction)


@pytest.mark.parametrize(
    ("op_type", "more", "problem"),
    [
        (
            "LSTM",
            {"activations": ["Sigmoid", "Relu", "Tanh"]},
            "activations is ['Sigmoid', 'Relu', 'Tanh'], which is computed for float32 only;"
            " expected ['Sigmoid', 'Tanh', 'Tanh'], or cast the inputs to float32",
        ),
        (
            "GRU",
            {"activations": ["HardSigmoid", "Tanh"]},
            "activations is ['HardSigmoid', 'Tanh'], which is computed for float32 only;"
            " expected ['Sigmoid', 'Tanh'], or cast the inputs to float32",
        ),
        (
            "RNN",
            {"activations": ["Relu"]},
            "activations is ['Relu'], which is computed for float32 only;"
            " expected ['Tanh'], or cast the inputs to float32",
        ),
        (
            "LSTM",
            {"input_forget": 1},
            "input_forget is 1, which is computed for float32 only;"
            " leave it out, or cast the inputs to float32",
        ),
        (
            "GRU",
            {"clip": 0.5},
            "clip is 0.5, which is computed for float32 only; leave it out, or cast the inputs to float32",
        ),
        (
            "RNN",
            {"sequence_lens": np.array([2, 5], np.int32)},
            "sequence_lens is [2, 5], which is computed for float32 only;"
            " expected 5 for each sequence, or cast the inputs to float32",
        ),
    ],
)
def test_what_recurrent_operators_would_leave_out_is_an_error(
    op_type: str, more: dict[str, Any], problem: str
) -> None:
    attributes = {"hidden_size": 3, **more}
    lengths = attributes.pop("sequence_lens", None)
    inputs = recurrent(op_type) + ([] if lengths is None else [lengths])
    feed = {f"x{place}": array for place, array in enumerate(inputs)}
    model = mdf_scatter.from_onnx(model_of(op_type, inputs, 1, **attributes))
    whole = f"operators {op_type}: {op_type} 'cell': {problem}"
    with pytest.raises(EvaluationError, match=f"^{re.escape(whole)}$"):
        mdf_scatter.run(model, feed)
    arrays = fed(inputs, np.float32)
    narrow = mdf_scatter.from_onnx(model_of(op_type, arrays, 1, **attributes))
    found = mdf_scatter.run(narrow, {f"x{place}": array for place, array in enumerate(arrays)})
    assert np.isfinite(found["y0"]).all()


def test_the_depth_of_one_hot_may_have_an_axis() -> None:
    text = """<ir_version: 8, opset_import: ["": 18]>
        g (int64[3] i, int64[1] depth, double[2] values) => (double[3, n] y) {
            y = OneHot <axis = 1> (i, depth, values)
        }"""
    evaluator = ReferenceEvaluator(onnx.parser.parse_model(text), new_ops=NEW_OPS)
    (found,) = evaluator.run(
        None, {"i": np.array([1, -1, 5]), "depth": np.array([3]), "values": np.array([0.0, 2.0])}
    )
    assert found.tolist() == [[0, 2, 0], [0, 0, 2], [0, 0, 0]]
