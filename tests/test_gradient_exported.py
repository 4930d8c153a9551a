"""What exporters write around the operators: sequences, repeated names of sizes, conditions on ranks."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from central import check_model
from modeci_mdf.mdf import Model

from mdf_scatter import fit, from_onnx, grad, run, to_onnx
from mdf_scatter.errors import InputError, UnsupportedError

RNG = np.random.default_rng(0)


def model_of(text: str) -> Model:
    return from_onnx(onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": 18]> {text}'))


def operators(model: Model) -> set[str]:
    return {node.op_type for node in to_onnx(model).graph.node}


SEQUENCES = {
    "sizes": """n = Constant <value = int64[2] {1, 3}> ()
        s = SplitToSequence <axis = 1> (x, n) a = SequenceAt (s, one) y = Exp (a)""",
    "equal_sizes": """n = Constant <value = int64 {3}> ()
        s = SplitToSequence <axis = 1> (x, n) a = SequenceAt (s, one) y = Exp (a)""",
    "single": """s = SplitToSequence <axis = -1, keepdims = 0> (x) a = SequenceAt (s, one) y = Exp (a)""",
    "single_kept": """s = SplitToSequence (x) a = SequenceAt (s, zero) y = Exp (a)""",
    "from_the_end": """e = Exp (x) m = Constant <value = int64 {-2}> ()
        s = SequenceConstruct (x, e, x) y = SequenceAt (s, m)""",
    "concat": """e = Exp (x) s = SequenceConstruct (x, e) y = ConcatFromSequence <axis = 1> (s)""",
    "stack": """e = Exp (x) s = SequenceConstruct (x, e)
        y = ConcatFromSequence <axis = -1, new_axis = 1> (s)""",
    "insert": """e = Exp (x) s = SequenceEmpty <dtype = 11> () t = SequenceInsert (s, x)
        u = SequenceInsert (t, e, zero) y = SequenceAt (u, zero)""",
}


@pytest.mark.parametrize("name", SEQUENCES)
def test_sequences_of_known_members(name: str) -> None:
    model = model_of(f"""g (double[2, 4] x) => (double y) {{
        zero = Constant <value = int64 {{0}}> () one = Constant <value = int64 {{1}}> ()
        {SEQUENCES[name].replace("y =", "r =")} z = Sin (r) y = ReduceSum <keepdims = 0> (z)
    }}""")
    check_model(model, {"x": RNG.standard_normal((2, 4))})
    assert not any("Sequence" in operator for operator in operators(grad(model)))


def test_what_is_taken_from_a_sequence_may_be_an_output() -> None:
    model = model_of("""g (double[4] x) => (double[2] y) {
        zero = Constant <value = int64 {0}> () two = Constant <value = int64 {2}> ()
        s = SplitToSequence (x, two) y = SequenceAt (s, zero)
    }""")
    check_model(model, {"x": RNG.standard_normal(4)})


def test_a_sequence_that_is_taken_from_may_be_an_output_too() -> None:
    model = model_of("""g (double[4] x) => (double[2] y, seq(double[2]) s) {
        one = Constant <value = int64 {1}> () two = Constant <value = int64 {2}> ()
        s = SplitToSequence (x, two) a = SequenceAt (s, one) y = Exp (a)
    }""")
    x = RNG.standard_normal(4)
    results = run(grad(model, of="y", wrt="x"), {"x": x, "y_grad": np.ones(2)})
    np.testing.assert_allclose(results["x_grad"], [0, 0, *np.exp(x[2:])])
    assert [part.tolist() for part in results["s"]] == [x[:2].tolist(), x[2:].tolist()]


def test_a_sequence_whose_members_vary_has_no_gradient() -> None:
    model = model_of("""g (double[4] x, int64[2] n) => (double y) {
        zero = Constant <value = int64 {0}> ()
        s = SplitToSequence (x, n) a = SequenceAt (s, zero) y = ReduceSum <keepdims = 0> (a)
    }""")
    with pytest.raises(UnsupportedError, match=r"^SequenceAt 'a': there is no rule for its gradient"):
        grad(model)


def test_sizes_of_outputs_that_share_a_name_may_differ() -> None:
    model = model_of("""g (double[2, n] x) => (double[k, k] y, double[k, k] z) {
        y = Concat <axis = 1> (x, x)
        s = ReduceSum <keepdims = 1> (y)
        z = Mul (s, y)
    }""")
    check_model(model, {"x": RNG.standard_normal((2, 3))})


def test_the_size_of_an_output_is_that_of_its_gradient() -> None:
    model = model_of("""g (double[n] x, double[m] w) => (double[k] y) {
        c = Concat <axis = 0> (x, w) y = Exp (c)
    }""")
    backward = grad(model)
    declared = {port.name: port for port in (*to_onnx(backward).graph.input, *to_onnx(backward).graph.output)}
    assert declared["y_grad"].type == declared["y"].type
    assert "ReduceSum" not in operators(backward)
    check_model(model, {"x": RNG.standard_normal(3), "w": RNG.standard_normal(2)})


def test_a_condition_on_a_rank_is_known_where_sizes_are_not() -> None:
    model = model_of("""g (double[n, m] x) => (double[n, m] y) {
        shape = Shape (x) rank = Size (shape) zero = Constant <value = int64 {0}> ()
        scalar = Equal (rank, zero) shut = Constant <value = int64[1] {-1}> ()
        v = If (scalar) <
            then_branch = yes () => (p) { p = Reshape (x, shut) },
            else_branch = no () => (q) { q = Identity (x) }
        >
        y = Exp (v)
    }""")
    check_model(model, {"x": RNG.standard_normal((2, 3))})
    assert "If" not in operators(grad(model))


EXPORTED = """g (float[n, 3] x) => (float[k, k] y) <
    float[3, 2] weight = {0.1, 0.2, 0.3, 0.4, 0.5, 0.6}, float[2] bias = {0.5, -0.5},
    float[2] mask = {0, 0}, float low = {-9}, int64[1] last = {-1}
> {
    half = Constant <value = float {0.5}> ()
    a = Gemm <beta = 0.5> (x, weight, bias)
    b = LeakyRelu <alpha = 0.25> (a)
    c = Clip (b, low)
    d = Add (c, mask)
    e = Softmax (d)
    f = Mul (c, half)
    y = Add (e, f)
}"""


def test_fit_trains_neither_attributes_nor_settings_nor_masks() -> None:
    proto = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": 18]> {EXPORTED}')
    for initializer in proto.graph.initializer:
        if initializer.name == "mask":
            initializer.CopyFrom(onnx.numpy_helper.from_array(np.float32([0, -np.inf]), "mask"))
    data = {"x": np.ones((3, 3), np.float32), "target": np.zeros((3, 2), np.float32)}
    found = fit(
        from_onnx(proto), data, loss="mean_squared_error", steps=20, learning_rate=0.05, progress=False
    )
    assert found.parameters == ("weight", "bias")
    assert found.loss < found.losses[0]


def test_fit_without_a_parameter_says_so() -> None:
    model = model_of("g (float[2] x) => (float[2] y) { y = LeakyRelu <alpha = 0.25> (x) }")
    data = {"x": np.ones(2, np.float32), "target": np.ones(2, np.float32)}
    with pytest.raises(InputError, match=r"^model 'g' has no floating-point parameter to train$"):
        fit(model, data, loss="mean_squared_error", steps=1, progress=False)


def test_what_a_call_leaves_to_the_defaults_of_its_function_counts() -> None:
    model = from_onnx(
        onnx.parser.parse_model("""<ir_version: 9, opset_import: ["": 18, "local": 1]>
            g (double[4] x, int64[2, 1] i, double[2] u) => (double[4] y) {
                h = local.put (x, i, u)
                y = local.put <how = "mul"> (h, i, u)
            }
            <domain: "local", opset_import: ["": 18]> put <how: string = "add"> (x, i, u) => (y) {
                s = ScatterND <reduction: string = @how> (x, i, u)
                y = Neg (s)
            }""")
    )
    values = RNG.standard_normal(6)
    check_model(model, {"x": values[:4], "i": np.array([[1], [1]]), "u": values[4:]})


def test_a_function_may_return_its_own_input() -> None:
    model = from_onnx(
        onnx.parser.parse_model("""<ir_version: 9, opset_import: ["": 18, "local": 1]>
            g (double[3] z) => (double[3] y) {
                a, b = local.both (z)
                y = Mul (a, b)
            }
            <domain: "local", opset_import: ["": 18]> both (x) => (y, x) { y = Neg (x) }""")
    )
    check_model(model, {"z": RNG.standard_normal(3)})
