"""ONNX operators of lifted graphs in modeci-mdf's engine: their texts reach them, what it lacks is said."""

from __future__ import annotations

import numpy as np
import onnx.parser
import pytest
from modeci_mdf.mdf import Model

from mdf_scatter import from_onnx, run
from mdf_scatter.errors import UnsupportedError

X = np.array([[[[1.0]], [[2.0]], [[3.0]], [[4.0]]]], np.float32)


def lifted(text: str) -> Model:
    return from_onnx(onnx.parser.parse_model(text))


@pytest.mark.parametrize("engine", ["onnx", "mdf"])
@pytest.mark.parametrize(
    ("operator", "shape", "expected"),
    [
        ('DepthToSpace<blocksize=2, mode="CRD">(x)', "1,1,2,2", [1, 2, 3, 4]),
        ('MaxPool<kernel_shape=[2,2], auto_pad="SAME_UPPER">(x)', "1,4,1,1", [1, 2, 3, 4]),
        ('Einsum<equation="nchw->c">(x)', "4", [1, 2, 3, 4]),
    ],
)
def test_attributes_that_are_a_text_reach_the_operator(
    operator: str, shape: str, expected: list[float], engine: str
) -> None:
    model = lifted(
        '<ir_version: 8, opset_import: ["": 17]>'
        f" g (float[1,4,1,1] x) => (float[{shape}] y) {{ y = {operator} }}"
    )
    assert run(model, {"x": X}, engine=engine)["y"].ravel().tolist() == expected  # type: ignore[arg-type]


BRANCHES = """<ir_version: 8, opset_import: ["": 17]>
g (bool c, float[1,4,1,1] x) => (float[1,4,1,1] y) {
  y = If (c) <then_branch = a () => (float[1,4,1,1] p) { p = Neg(x) },
              else_branch = b () => (float[1,4,1,1] q) { q = Abs(x) }> }"""
FOREIGN = """<ir_version: 8, opset_import: ["": 17, "ai.onnx.ml": 3]>
g (float[1,4,1,1] x) => (float[1,4,1,1] y) { y = ai.onnx.ml.Binarizer<threshold=2.5>(x) }"""

SEQUENCES = """<ir_version: 8, opset_import: ["": 17]>
g (float[1,4,1,1] x) => (float[1,4,1,1] y) {
  s = SequenceConstruct(x) y = ConcatFromSequence<axis=1>(s) }"""


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (SEQUENCES, "onnx::SequenceConstruct 'SequenceConstruct': MDF's engine has no sequences"),
        (BRANCHES, "onnx::If 'If': MDF's engine has no graphs inside a graph"),
        (FOREIGN, "ai.onnx.ml::Binarizer 'Binarizer': MDF's engine has no functions of this domain"),
    ],
)
def test_what_the_engine_cannot_have_is_said(text: str, message: str) -> None:
    given = {"x": X} | ({"c": np.array(True)} if text is BRANCHES else {})
    model = lifted(text)
    assert run(model, given)["y"].shape == X.shape
    with pytest.raises(UnsupportedError) as caught:
        run(model, given, engine="mdf")
    assert str(caught.value) == f"{message}; run the model in engine 'onnx'"


def test_where_neither_engine_has_a_form_it_says_what_onnx_lacks() -> None:
    model = lifted(
        '<ir_version: 8, opset_import: ["": 17, "unknown": 1]>'
        " g (float[2] x) => (float[2] y) { y = unknown.Op(x) }"
    )
    with pytest.raises(UnsupportedError) as caught:
        run(model, {"x": np.ones(2, np.float32)})
    assert "MDF's engine" not in str(caught.value)
