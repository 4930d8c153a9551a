"""Loop and Scan in ONNX's reference evaluator, where bodies with scatters run: as in onnxruntime."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime
import pytest
from onnx.reference import ReferenceEvaluator

from mdf_scatter.onnx_plugin import NEW_OPS

RNG = np.random.default_rng(3)


def check(text: str, inputs: dict[str, npt.NDArray[Any]]) -> None:
    model = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : 18]> {text}')
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    found = ReferenceEvaluator(model, new_ops=NEW_OPS).run(None, inputs)
    for array, expected in zip(found, session.run(None, inputs), strict=True):
        np.testing.assert_allclose(array, expected, rtol=1e-12, strict=True)


@pytest.mark.parametrize(("count", "going"), [("n", "c"), ("n", ""), ("", "c"), ("", "")])
def test_loop_stacks_scalars_vectors_and_matrices(count: str, going: str) -> None:
    text = f"""g (int64 n, bool c, double[2, 3] h0, double[3] w)
            => (double[2, 3] h, double[T, 2, 3] hs, double[T, 3] vs, int64[T] numbers) {{
        h, hs, vs, numbers = Loop <body = turn (int64 i, bool go, double[2, 3] hp) => (on, hn, m, v, s) {{
            axes = Constant <value = int64[1] {{0}}> ()
            limit = Constant <value = int64 {{3}}> ()
            on = Less(i, limit)
            hn = Mul(hp, w)
            m = Identity(hn)
            v = ReduceSum <keepdims = 0> (hn, axes)
            s = Identity(i)
        }}> ({count}, {going}, h0)
    }}"""
    inputs = {"n": np.array(3), "c": np.array(True), "h0": RNG.random((2, 3)), "w": RNG.random(3)}
    check(text, inputs)


@pytest.mark.parametrize(("axis_in", "axis_out"), [(0, 0), (2, 1), (-2, -1)])
@pytest.mark.parametrize("directions", [(0, 0), (1, 0), (0, 1), (1, 1)])
def test_scan_goes_along_any_axis_in_either_direction(
    axis_in: int, axis_out: int, directions: tuple[int, int]
) -> None:
    xs, ys = (["2", "3"] for _ in range(2))
    xs.insert(axis_in % 3, "4")
    ys.insert(axis_out % 3, "4")
    text = f"""g (double[2, 3] h0, double[{", ".join(xs)}] xs, double[3] w)
            => (double[2, 3] h, double[{", ".join(ys)}] ys) {{
        h, ys = Scan <
            num_scan_inputs = 1, scan_input_axes = [{axis_in}], scan_output_axes = [{axis_out}],
            scan_input_directions = [{directions[0]}], scan_output_directions = [{directions[1]}],
            body = step (hp, x) => (hn, y) {{ a = Mul(hp, w) hn = Sub(x, a) y = Identity(hn) }}
        > (h0, xs)
    }}"""
    inputs = {"h0": RNG.random((2, 3)), "xs": RNG.random([int(size) for size in xs]), "w": RNG.random(3)}
    check(text, inputs)
