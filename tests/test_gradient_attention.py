"""Gradients through Attention and its relatives, which are written out as ONNX defines them."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import onnx
import pytest
from central import check_model, check_node, node_model
from gradient_sweep import outcome
from modeci_mdf.mdf import Model

from mdf_scatter import from_onnx, grad, run, to_onnx
from mdf_scatter.errors import UnsupportedError

Array = npt.NDArray[np.float64]

RNG = np.random.default_rng(5)
Q, K, V = (RNG.standard_normal((1, 2, length, 4)) for length in (3, 5, 5))
PAST = [RNG.standard_normal((1, 2, 2, 4)) for _ in range(2)]
MASK = np.array([[True, False, True, True, True], [False] * 5, [True] * 5])
"""The second query attends to nothing."""

EXACT = {"scale": 0.25}
"""ONNX defines Attention by the root of its scale in float32, which this one has exactly."""

MASKS = {"bool": MASK, "float": np.where(MASK, 0, -np.inf)}


def parsed(text: str, opset: int = 18) -> Model:
    return from_onnx(onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["": {opset}]> {text}'))


@pytest.mark.parametrize(
    "further",
    [[], [None, *PAST], [None, None, None, np.array([3])]],
    ids=["none", "a past and no mask", "lengths alone"],
)
def test_optional_inputs_may_be_left_out(further: list[Array | None]) -> None:
    model, given = node_model("Attention", [Q, K, V, *further], opset=24)
    assert outcome(to_onnx(model), given) == "right"


def test_a_past_and_no_mask_in_linear_attention() -> None:
    q, k, v = (RNG.standard_normal((1, 3, 8)) for _ in range(3))
    past = RNG.standard_normal((1, 2, 4, 4))
    heads = {"q_num_heads": 2, "kv_num_heads": 2, "update_rule": "linear"}
    model, free = node_model("LinearAttention", [q, k, v, past], heads, outputs=2, opset=27)
    gradient = grad(model, of="y1", wrt="x3")
    found = run(gradient, {**free, "y1_grad": np.ones_like(past)})
    np.testing.assert_allclose(found["x3_grad"], np.ones_like(past))


def test_operators_in_bodies_are_written_out_too() -> None:
    text = """g (bool c, double[1, 2, 3, 4] q, double[2] s) => (double[1, 2, 3, 4] y) {
        n = Constant <value = int64 {2}> ()
        w = GroupNormalization <num_groups = 1> (q, s, s)
        y = Loop <body = turn (int64 i, bool going, p) => (on, r) {
            on = Identity(going)
            t = Tanh(p)
            r = If (c) <
                then_branch = yes () => (u) { a = Attention <scale = 0.25> (t, w, t) u = Mul(a, p) },
                else_branch = no () => (u) { a = Sin(t) u = Mul(a, p) }
            >
        }> (n, , w)
    }"""
    model = parsed(text, 24)
    given = {"c": np.array(True), "q": Q, "s": np.array([0.5, 1.5])}
    assert outcome(to_onnx(model), given) == "right"


def test_an_operator_whose_definition_depends_on_types_that_differ_is_refused() -> None:
    text = """g (bool c, double[1, 2, 3, 4] q) => (double[1, 2, 3, 4] y) {
        y = If (c) <
            then_branch = yes () => (u) { a = Neg(q) u = Attention(a, a, a) },
            else_branch = no () => (u) { a = Shape(q) z = Neg(q) u = Reshape(z, a) }
        >
    }"""
    with pytest.raises(UnsupportedError, match=r"^Attention 'u': there is no rule for its gradient"):
        grad(parsed(text, 24))


@pytest.mark.parametrize("kind", MASKS)
def test_a_row_that_is_masked_as_a_whole_sends_zeros(kind: str) -> None:
    # As in onnxruntime, ONNX's evaluator and torch such a row gives zeros.
    gradients = check_node("Attention", [Q, K, V, MASKS[kind]], EXACT, opset=23, wrt=["x0", "x1", "x2"])
    assert not gradients["x0"][:, :, 1].any()
    assert gradients["x0"][:, :, [0, 2]].all()


def softmax(then: str) -> str:
    return f"""g (double[2, 3] x, bool[2, 3] c, double[2, 3] w) => (double[2, 3] y) {{
        zero = Constant <value = double {{0.0}}> ()
        low = Constant <value = double {{-inf}}> ()
        mask = Where(c, zero, low)
        masked = Add(x, mask)
        p = Softmax(masked)
        {then}
        y = Mul(r, w)
    }}"""


GIVEN = {
    "x": RNG.standard_normal((2, 3)),
    "c": np.array([[True, True, False], [False] * 3]),
    "w": RNG.standard_normal((2, 3)),
}
REPLACED = softmax("lost = IsNaN(p) r = Where(lost, zero, p)")


def test_what_exporters_write_for_such_a_row_sends_zeros() -> None:
    assert not check_model(parsed(REPLACED), GIVEN, wrt=["x", "w"])["x"][1].any()


def test_second_derivatives_where_rows_are_replaced() -> None:
    # Where all that comes back to a row is alike, nothing is sent, but its derivative is not zero.
    given = {**GIVEN, "w": np.ones((2, 3)), "y_grad": np.ones((2, 3))}
    check_model(grad(parsed(REPLACED), wrt="x"), given, wrt=["x", "w", "y_grad"])


@pytest.mark.parametrize("then", ["r = Identity(p)", "r = Where(c, p, p)"])
def test_a_row_that_is_not_replaced_stays_nan(then: str) -> None:
    found = run(grad(parsed(softmax(then)), wrt="x"), {**GIVEN, "y_grad": np.ones((2, 3))})
    assert np.isnan(found["x_grad"]).all(axis=1).tolist() == [False, True]


@pytest.mark.parametrize("kind", MASKS)
def test_masked_rows_have_the_gradients_of_torch(kind: str) -> None:
    torch = pytest.importorskip("torch")
    given = [torch.tensor(array, requires_grad=True) for array in (Q, K, V)]
    y = torch.nn.functional.scaled_dot_product_attention(*given, attn_mask=torch.tensor(MASKS[kind]))
    model, free = node_model("Attention", [Q, K, V, MASKS[kind]], opset=23)
    outside = RNG.standard_normal(y.shape)
    found = run(grad(model, wrt=["x0", "x1", "x2"]), {**free, "y0_grad": outside})
    for at, expected in enumerate(torch.autograd.grad(y, given, torch.tensor(outside))):
        np.testing.assert_allclose(found[f"x{at}_grad"], expected, rtol=1e-5, atol=1e-7)
