"""Gradients through If, Loop and Scan."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import pytest
from central import check_model
from hypothesis import given, settings
from hypothesis import strategies as st
from modeci_mdf.mdf import Graph, InputPort, Model, Node, OutputPort, Parameter

from mdf_scatter import from_onnx, grad, run, save, to_onnx
from mdf_scatter import load as load_model
from mdf_scatter.errors import UnsupportedError
from mdf_scatter.wiring import graph_inputs

Array = npt.NDArray[Any]

RNG = np.random.default_rng(11)


def model(text: str, opset: int = 18) -> Model:
    return from_onnx(onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : {opset}]> {text}'))


def normal(*shape: int) -> Array:
    return RNG.standard_normal(shape)


CELL = """g (double[2, 3] h0, double[4, 2, 3] xs, double[3] w) => (double[2, 3] h, double[4, 2, 3] ys) {
    h, ys = Scan <num_scan_inputs = 1, body = cell (hp, x) => (hn, y) {
        a = Mul(hp, w)
        s = Add(a, x)
        hn = Tanh(s)
        y = Mul(hn, x)
    }> (h0, xs)
}"""

POWER = """g (int64 n, double[3] h0, double[3] w) => (double[3] h) {
    h = Loop <body = turn (int64 i, bool going, hp) => (on, hn) {
        on = Identity(going)
        a = Mul(hp, w)
        hn = Tanh(a)
    }> (n, , h0)
}"""

BRANCHES = """g (bool c, double[3] a, double[3] b) => (double[3] y, double[3] z) {
    y, z = If (c) <
        then_branch = yes () => (u, p) { u = Mul(a, b) p = Exp(a) },
        else_branch = no () => (v, q) { v = Tanh(a) q = Identity(v) }
    >
}"""


NESTED = """g (double[2] h0, double[3, 4, 2] xs, double[2] w) => (double[2] h, double[3, 4, 2] ys) {
    h, ys = Scan <num_scan_inputs = 1, body = rows (hp, row) => (double[2] hl, y) {
        n = Constant <value = int64 {2}> ()
        s = Mul(hp, w)
        hn, y = Scan <num_scan_inputs = 1, body = cells (k, x) => (kn, z) {
            a = Mul(k, x)
            b = Mul(a, s)
            kn = Tanh(b)
            z = Add(kn, w)
        }> (hp, row)
        hl = Loop <body = turn (int64 i, bool going, m) => (on, mn) {
            on = Identity(going)
            d = Add(m, hp)
            mn = Sin(d)
        }> (n, , hn)
    }> (h0, xs)
}"""


@pytest.mark.parametrize("condition", [True, False])
def test_the_branch_taken_sends_back_and_the_other_sends_zeros(condition: bool) -> None:
    gradients = check_model(model(BRANCHES), {"c": np.array(condition), "a": normal(3), "b": normal(3)})
    assert bool(gradients["b"].any()) is condition


def test_branches_inside_branches_may_give_what_is_around_as_it_is() -> None:
    text = """g (bool c, bool d, double[N] a, double[N] b) => (double[N] y) {
        s = Mul(a, b)
        r = If (c) <
            then_branch = yes () => (u) {
                t = Sin(s)
                u = If (d) <
                    then_branch = both () => (p) { p = Mul(t, a) },
                    else_branch = one () => (q) { q = Identity(s) }
                >
            },
            else_branch = no () => (v) { v = Identity(b) }
        >
        y = Mul(r, a)
    }"""
    for c, d in ((True, True), (True, False), (False, True)):
        check_model(model(text), {"c": np.array(c), "d": np.array(d), "a": normal(3), "b": normal(3)})


def test_scan_goes_back_through_states_slices_and_what_is_around() -> None:
    check_model(model(CELL), {"h0": normal(2, 3), "xs": normal(4, 2, 3), "w": normal(3)})


def test_scan_with_sizes_that_are_not_known() -> None:
    text = CELL.replace("[2, 3]", "[B, N]").replace("[4, 2, 3]", "[T, B, N]").replace("[3]", "[N]")
    check_model(model(text), {"h0": normal(2, 3), "xs": normal(4, 2, 3), "w": normal(3)})


@settings(max_examples=20, deadline=None)
@given(st.data())
def test_scan_reads_and_writes_along_any_axis_in_any_direction(data: st.DataObject) -> None:
    axis_in, other_in, axis_out = (data.draw(st.integers(-3, 2)) for _ in range(3))
    directions = [data.draw(st.integers(0, 1)) for _ in range(4)]
    turns = data.draw(st.integers(1, 4))
    shape = [2, 3]
    xs, vs = ([*shape[: axis % 3], turns, *shape[axis % 3 :]] for axis in (axis_in, other_in))
    ys = [*shape[: axis_out % 3], turns, *shape[axis_out % 3 :]]
    text = f"""g (double[2, 3] h0, double{xs} xs, double{vs} vs)
            => (double[2, 3] h, double{ys} ys, double[{turns}, 2, 3] hs) {{
        h, ys, hs = Scan <
            num_scan_inputs = 2, scan_input_axes = [{axis_in}, {other_in}],
            scan_input_directions = [{directions[0]}, {directions[1]}],
            scan_output_axes = [{axis_out}, 0], scan_output_directions = [{directions[2]}, {directions[3]}],
            body = cell (hp, x, v) => (hn, y, k) {{
                a = Mul(hp, v)
                s = Add(a, x)
                hn = Sin(s)
                y = Mul(hn, x)
                k = Identity(hn)
            }}
        > (h0, xs, vs)
    }}"""
    check_model(model(text), {"h0": normal(2, 3), "xs": normal(*xs), "vs": normal(*vs)})


def test_states_that_are_integers_or_pass_through_are_kept() -> None:
    text = """g (double[3] h0, double[3] k, int64 at, double[4, 3] xs, double[9] w)
            => (double[3] h, double[3] same, int64 end, double[4, 3] ys) {
        h, same, end, ys = Scan <num_scan_inputs = 1, body = cell (hp, kp, t, x) => (hn, kn, u, y) {
            one = Constant <value = int64 {1}> ()
            u = Add(t, one)
            scale = Gather(w, t)
            a = Mul(hp, scale)
            b = Mul(a, kp)
            s = Add(b, x)
            hn = Tanh(s)
            y = Identity(hn)
            kn = Identity(kp)
        }> (h0, k, at, xs)
    }"""
    inputs = {"h0": normal(3), "k": normal(3), "at": np.array(2), "xs": normal(4, 3), "w": normal(9)}
    gradients = check_model(model(text), inputs)
    np.testing.assert_array_equal(np.flatnonzero(gradients["w"]), [2, 3, 4, 5])


def test_one_value_may_be_state_slices_and_captured() -> None:
    text = """g (double[3, 3] x) => (double[3, 3] h, double[3, 3] ys) {
        h, ys = Scan <num_scan_inputs = 2, body = cell (hp, a, b) => (hn, y) {
            p = MatMul(hp, x)
            q = Mul(p, a)
            hn = Tanh(q)
            y = Mul(a, b)
        }> (x, x, x)
    }"""
    check_model(model(text), {"x": normal(3, 3)})


def test_a_gradient_that_only_later_turns_need_is_handed_on() -> None:
    text = """g (double a0, double b0, double[4] xs) => (double c) {
        a, b, c = Scan <num_scan_inputs = 1, body = chain (p, q, r, x) => (pn, qn, rn) {
            pn = Mul(p, x)
            qn = Mul(p, q)
            rn = Add(q, r)
        }> (a0, b0, b0, xs)
    }"""
    check_model(model(text), {"a0": normal(), "b0": normal(), "xs": normal(4)})


@pytest.mark.parametrize("turns", [0, 1, 4])
def test_loop_makes_as_many_turns_back(turns: int) -> None:
    check_model(model(POWER), {"n": np.array(turns), "h0": normal(3), "w": normal(3)})


@pytest.mark.parametrize("start", [0.5, 30.0])
def test_loop_that_its_condition_ends(start: float) -> None:
    text = """g (double h0, double w) => (double h, double[T] hs) {
        limit = Constant <value = double {20.0}> ()
        c = Less(h0, limit)
        h, hs = Loop <body = turn (int64 i, bool going, hp) => (on, hn, keep) {
            hn = Mul(hp, w)
            on = Less(hn, limit)
            keep = Sin(hn)
        }> (, c, h0)
    }"""
    check_model(model(text), {"h0": np.array(start), "w": np.array(1.7)})


def test_loop_that_carries_nothing_and_reads_by_its_number() -> None:
    text = """g (double[5, 2] xs, double[2] w) => (double[T, 2] ys) {
        n = Constant <value = int64 {4}> ()
        c = Constant <value = bool {1}> ()
        ys = Loop <body = turn (int64 i, bool going) => (on, y) {
            on = Identity(going)
            x = Gather(xs, i)
            p = Mul(x, w)
            y = Sin(p)
        }> (n, c)
    }"""
    gradients = check_model(model(text), {"xs": normal(5, 2), "w": normal(2)})
    assert not gradients["xs"][4].any()


@pytest.mark.parametrize(
    "reads", ["p = MatMul(hp, w) q = Mul(p, x)", "r = MatMul(hp, w) p = MatMul(r, w) q = Mul(p, x)"]
)
@pytest.mark.parametrize("shape", [(2, 3), (2, 2, 3)])
def test_matrices_that_each_turn_multiplies_by(reads: str, shape: tuple[int, ...]) -> None:
    sizes = ", ".join(map(str, shape))
    body = f"{{ REST {reads} hn = Tanh(q) }}"
    loop = f"""g (int64 n, double[{sizes}] h0, double[3, 3] w, double[3] x) => (double[{sizes}] h) {{
        h = Loop <body = turn (int64 i, bool going, hp) => (on, hn) {body}> (n, , h0)
    }}""".replace("REST", "on = Identity(going)")
    scan = f"""g (double[{sizes}] h0, double[3, 3] w, double[4, 3] xs) => (double[{sizes}] h) {{
        h = Scan <num_scan_inputs = 1, body = turn (hp, x) => (hn) {body}> (h0, xs)
    }}""".replace("REST", "")
    inputs = {"h0": normal(*shape), "w": normal(3, 3)}
    check_model(model(loop), {**inputs, "n": np.array(3), "x": normal(3)})
    check_model(model(scan), {**inputs, "xs": normal(4, 3)})
    *_, backward = (node for node in to_onnx(grad(model(scan))).graph.node if node.op_type == "Scan")
    states = len(backward.input) - next(a.i for a in backward.attribute if a.name == "num_scan_inputs")
    assert states == reads.count("MatMul"), "what one MatMul reads needs no sum that is handed on"


def test_branches_in_a_loop() -> None:
    text = """g (double[2] h0, double[2] w) => (double[2] h) {
        n = Constant <value = int64 {5}> ()
        c = Constant <value = bool {1}> ()
        two = Constant <value = int64 {2}> ()
        zero = Constant <value = int64 {0}> ()
        h = Loop <body = turn (int64 i, bool going, hp) => (on, hn) {
            on = Identity(going)
            rest = Mod(i, two)
            even = Equal(rest, zero)
            a = Mul(hp, w)
            hn = If (even) <
                then_branch = yes () => (u) { u = Tanh(a) },
                else_branch = no () => (v) { v = Add(a, hp) }
            >
        }> (n, c, h0)
    }"""
    check_model(model(text), {"h0": normal(2), "w": normal(2)})


def test_scans_and_loops_inside_each_other() -> None:
    check_model(model(NESTED), {"h0": normal(2), "xs": normal(3, 4, 2), "w": normal(2)})


def test_second_derivatives() -> None:
    for text, inputs in (
        (CELL, {"h0": normal(2, 3), "xs": normal(4, 2, 3), "w": normal(3)}),
        (POWER, {"n": np.array(3), "h0": normal(3), "w": normal(3)}),
        (BRANCHES, {"c": np.array(True), "a": normal(3), "b": normal(3)}),
    ):
        first = grad(model(text))
        said = first.graphs[0].metadata["gradient"]["of"]
        shapes = {port.id: port.shape for node in first.graphs[0].nodes for port in node.output_ports}
        coming = {given: normal(*shapes[given]) for given in said.values()}
        check_model(first, {**inputs, **coming})


@pytest.mark.parametrize("reduction", ["add", "mul", "max"])
def test_scatters_inside(reduction: str) -> None:
    text = f"""g (double[4] h0, double[3, 2] xs, int64[3, 2, 1] at) => (double[4] h, double[3, 4] hs) {{
        h, hs = Scan <num_scan_inputs = 2, body = turn (hp, x, k) => (hn, keep) {{
            s = ScatterND <reduction = "{reduction}"> (hp, k, x)
            hn = Sin(s)
            keep = Identity(s)
        }}> (h0, xs, at)
    }}"""
    at = np.array([[[1], [1]], [[0], [3]], [[2], [1]]])
    check_model(model(text), {"h0": normal(4), "xs": normal(3, 2), "at": at})


@pytest.mark.parametrize("turns", [0, 3])
def test_scatters_in_a_loop_that_carries_a_matrix(turns: int) -> None:
    text = """g (int64 n, double[4, 2] h0, double[2, 2] x) => (double[4, 2] h) {
        c = Constant <value = bool {1}> ()
        h = Loop <body = turn (int64 i, bool going, hp) => (on, hn) {
            on = Identity(going)
            k = Constant <value = int64[2, 1] {1, 1}> ()
            s = ScatterND <reduction = "add"> (hp, k, x)
            hn = Sin(s)
        }> (n, c, h0)
    }"""
    check_model(model(text), {"n": np.array(turns), "h0": normal(4, 2), "x": normal(2, 2)})


@pytest.mark.parametrize("text", [CELL, POWER, BRANCHES, NESTED], ids=["Scan", "Loop", "If", "nested"])
def test_the_model_is_saved_and_read_again(text: str, tmp_path: Path) -> None:
    backward = grad(model(text))
    save(backward, tmp_path / "m.yaml")
    again = load_model(tmp_path / "m.yaml")
    assert to_onnx(again) == to_onnx(backward)
    inputs = {
        value.name: np.full(
            [dim.dim_value for dim in value.type.tensor_type.shape.dim],
            2,
            onnx.helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type),
        )
        for value in to_onnx(backward).graph.input
    }
    expected = run(backward, inputs)
    for name, array in run(again, inputs).items():
        np.testing.assert_array_equal(array, expected[name])


def test_the_forward_scan_keeps_its_state_and_nothing_else() -> None:
    proto = to_onnx(grad(model(CELL)))
    forward, backward = (node for node in proto.graph.node if node.op_type == "Scan")
    assert list(forward.output) == ["h", "ys", "hp_before"]
    assert len(backward.output) == 3


def test_outputs_that_are_left_out_keep_their_places() -> None:
    inputs = {"h0": normal(2, 3), "xs": normal(4, 2, 3), "w": normal(3), "h_grad": normal(2, 3)}
    less = CELL.replace("h, ys = ", "h = ").replace(", double[4, 2, 3] ys)", ")")
    expected = run(grad(model(CELL), of="h"), inputs)
    found = run(grad(model(less)), inputs)
    for name in ("h0_grad", "xs_grad", "w_grad"):
        np.testing.assert_allclose(found[name], expected[name], rtol=1e-12)


def test_the_same_model_has_the_same_gradient_graph() -> None:
    assert to_onnx(grad(model(NESTED))) == to_onnx(grad(model(NESTED)))


def test_what_is_not_asked_for_costs_nothing() -> None:
    proto = to_onnx(grad(model(CELL), of="h", wrt="xs"))
    _, backward = (node for node in proto.graph.node if node.op_type == "Scan")
    assert len(backward.output) == 2
    body = next(part.g for part in backward.attribute if part.name == "body")
    assert not [node for node in body.node if node.op_type == "ReduceSum"]


def refusal(text: str) -> str:
    with pytest.raises(UnsupportedError) as caught:
        grad(model(text))
    return str(caught.value)


def test_what_changes_its_shape_is_refused() -> None:
    text = """g (double[1] x) => (double[M] y) {
        n = Constant <value = int64 {3}> ()
        y = Loop <body = turn (int64 i, bool going, v) => (on, w) {
            on = Identity(going)
            s = Mul(v, v)
            w = Concat <axis = 0> (s, x)
        }> (n, , x)
    }"""
    assert refusal(text) == (
        "Loop 'y': no gradient: it carries 'v', whose shape changes from [1] to [2] in a turn; carry a "
        "tensor of one shape, such as one that is written into place by place"
    )


def test_a_result_that_no_turn_reads_may_begin_as_anything() -> None:
    """Paddle's exporter carries such results, from a scalar that stands for nothing."""
    text = """g (int64 n, double[2, 3] h0, double[3] w) => (double[2, 3] out) <double nothing = {0.0}> {
        h, result = Loop <body = turn (int64 i, bool on, double[2, 3] hp, double[2, 3] no) => (go, hn, rn) {
            go = Identity(on)
            a = Mul(hp, w)
            hn = Tanh(a)
            rn = Exp(hn)
        }> (n, , h0, nothing)
        out = Neg(result)
    }"""
    found = model(text)
    check_model(found, {"n": np.array(3), "h0": normal(2, 3), "w": normal(3)}, wrt=["h0", "w"])


def test_what_is_no_tensor_is_refused_where_its_values_are_needed() -> None:
    text = """g (double[3] x) => (double[3] y) {
        n = Constant <value = int64 {3}> ()
        zero = Constant <value = int64 {0}> ()
        list = SequenceConstruct(x)
        y, all = Loop <body = turn (int64 i, bool going, v, parts) => (on, w, longer) {
            on = Identity(going)
            w = FACTOR
            longer = SequenceInsert(parts, v)
        }> (n, , x, list)
    }"""
    check_model(model(text.replace("FACTOR", "Mul(v, x)")), {"x": normal(3)})
    assert refusal(text.replace("w = FACTOR", "f = SequenceAt(parts, zero) c = Ceil(f) w = Mul(v, c)")) == (
        "Loop 'y': no gradient: it carries 'parts', a Sequence(Tensor(DOUBLE)); carry a tensor"
    )


def test_random_numbers_inside_are_refused() -> None:
    text = """g (double[3] h0) => (double[3] h) {
        n = Constant <value = int64 {3}> ()
        h = Loop <body = turn (int64 i, bool going, v) => (on, w) {
            on = Identity(going)
            r = RandomNormalLike(v)
            w = Mul(v, r)
        }> (n, , h0)
    }"""
    assert refusal(text) == (
        "Loop 'h': no gradient: RandomNormalLike 'r' inside it draws random numbers, and "
        "the backward pass computes again what is inside; draw them outside"
    )


def test_an_operator_inside_without_a_rule_is_named() -> None:
    text = """g (double[3, 3] h0) => (double[3, 3] h) {
        n = Constant <value = int64 {3}> ()
        h = Loop <body = turn (int64 i, bool going, v) => (on, w) {
            on = Identity(going)
            d = Det(v)
            w = Mul(v, d)
        }> (n, , h0)
    }"""
    assert refusal(text).startswith("Det 'd': there is no rule for its gradient, and it is on the way ")


SCATTERS = {
    "Scan": """g (double[3] h, double[4, 3] xs, double[1] w) => (double[3] y) {
        at = Constant <value = int64[1, 1] {1}> ()
        y = Scan <num_scan_inputs = 1, body = cell (hp, x) => (hn) {
            [total] a = ScatterND <reduction = "add"> (hp, at, w)
            hn = Mul(a, x)
        }> (h, xs)
    }""",
    "Loop": """g (int64 n, double[3] h, double[1] w) => (double[3] y) {
        at = Constant <value = int64[1, 1] {1}> ()
        y = Loop <body = turn (int64 i, bool going, hp) => (on, hn) {
            on = Identity(going)
            [total] a = ScatterND <reduction = "add"> (hp, at, w)
            hn = Tanh(a)
        }> (n, , h)
    }""",
    "If": """g (bool c, double[3] h, double[1] w) => (double[3] y) {
        at = Constant <value = int64[1, 1] {1}> ()
        y = If (c) <
            then_branch = yes () => (u) { [total] u = ScatterND <reduction = "add"> (h, at, w) },
            else_branch = no () => (v) { v = Tanh(h) }
        >
    }""",
    "If in a Loop": """g (int64 n, bool c, double[3] h, double[1] w) => (double[3] y) {
        at = Constant <value = int64[1, 1] {1}> ()
        y = Loop <body = turn (int64 i, bool going, double[3] hp) => (on, hn) {
            on = Identity(going)
            hn = If (c) <
                then_branch = yes () => (u) { [total] u = ScatterND <reduction = "add"> (hp, at, w) },
                else_branch = no () => (v) { v = Tanh(hp) }
            >
        }> (n, , h)
    }""",
}
GIVEN = {"n": np.array(2), "c": np.array(True), "h": np.ones(3), "xs": np.full((4, 3), 2.0), "w": np.ones(1)}


def scattering(text: str, **parameters: Any) -> tuple[Model, dict[str, Array]]:
    """Return a model whose ScatterND, in a body, has these parameters, and its inputs."""
    made = model(text)
    (node,) = [node for graph in made.graphs for node in graph.nodes if node.id == "total"]
    node.parameters += [Parameter(id=name, value=value) for name, value in parameters.items()]
    return made, {item.name: GIVEN[item.name] for item in graph_inputs(made.graphs[0])}


@pytest.mark.parametrize("text", SCATTERS.values(), ids=SCATTERS)
def test_nodes_inside_that_stop_gradients_are_listed_by_their_own_names(text: str) -> None:
    stopped, inputs = scattering(text, training=False)
    backward = grad(stopped)
    said = backward.graphs[0].metadata["gradient"]
    assert said["stopped"] == [{"node": "total", "reason": "training is false"}]
    found = run(backward, {**inputs, said["of"]["y"]: np.ones(3)})
    assert not found["h_grad"].any()
    assert not found["w_grad"].any()
    passing, _ = scattering(text)
    assert grad(passing).graphs[0].metadata["gradient"]["stopped"] == []


def test_a_node_inside_that_nothing_comes_back_to_is_not_listed() -> None:
    stopped, _ = scattering(SCATTERS["Scan"].replace("Mul(a, x)", "Tanh(x)"), training=False)
    assert grad(stopped).graphs[0].metadata["gradient"]["stopped"] == []


def test_lda_coeff_of_a_node_inside_counts_in_each_turn() -> None:
    scaled, inputs = scattering(SCATTERS["Scan"], lda_coeff=0.5)
    found = run(grad(scaled), {**inputs, "y_grad": np.ones(3)})
    np.testing.assert_array_equal(found["h_grad"], np.full(3, 2.0**4 * 0.5**4))


def test_a_model_with_state_is_differentiated_in_one_evaluation() -> None:
    node = Node(id="n", input_ports=[InputPort(id="x", default_value=1.0)])
    node.parameters = [
        Parameter(id="decay", value=0.5),
        Parameter(id="level", default_initial_value=2.0, value="decay * level + tanh(x)"),
    ]
    node.output_ports = [OutputPort(id="out", value="level")]
    stateful = Model(id="m", graphs=[Graph(id="g", nodes=[node])])
    backward = grad(stateful)
    assert backward.graphs[0].metadata["gradient"]["of"] == {"out": None}
    found = run(backward, {"x": 0.0, "n.level": 3.0})
    assert {name: float(value) for name, value in found.items()} == {
        "out": 1.5, "n.level.next": 1.5, "x_grad": 1.0, "n.decay_grad": 3.0,
    }  # fmt: skip
    through = run(grad(stateful, of="n.level.next", wrt="n.level"), {"x": 0.0, "n.level": 3.0})
    assert through["n.level_grad"] == 0.5
