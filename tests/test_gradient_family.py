"""Gradient graphs of the scatters and gathers, held against `vjp`, in every engine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from central import check_model, check_node, node_model
from gradients_nd import gradient_cases
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from modeci_mdf.mdf import Graph, InputPort, Model
from test_gradients import HALVES, TOLERANCE, WHOLE, calls_of, settings_of

from mdf_scatter import OPS, ScatterND, from_onnx, grad, node, register, run, to_onnx, unregister, vjp
from mdf_scatter.dtypes import name_of
from mdf_scatter.errors import UnsupportedError
from mdf_scatter.operator_node import OperatorNode
from mdf_scatter.ops import Op

Array = np.ndarray

KINDS: dict[str, type[OperatorNode]] = {
    kind.op.name: kind for kind in vars(node).values() if isinstance(kind, type) and hasattr(kind, "op")
}
CASES = gradient_cases()
ALONG = ("GatherElements", "ScatterElements")


def family_model(
    name: str, inputs: Sequence[Any], attributes: Mapping[str, Any], *, symbolic: bool = False, **set_on: Any
) -> tuple[Model, dict[str, Array]]:
    """Return a model of one node of the family, and its inputs.

    Integers are constants, or, where sizes are symbolic, inputs too.
    """
    op = OPS[name]
    values = {port: np.asarray(value) for port, value in zip(op.inputs, inputs, strict=False)
              if value is not None}  # fmt: skip
    free = [port for port in values if port not in op.integers or (symbolic and port != "shape")]
    graph = Graph(id="g")
    constants = {port: value for port, value in values.items() if port not in free}
    made = KINDS[name]("n", **attributes, **set_on)
    made_node = made.add_to(graph, **constants, **{port: None for port in free if port not in op.optional})
    if symbolic and op.optional and op.optional[0] in free:
        made_node.input_ports.append(InputPort(id=op.optional[0]))
        made_node.functions[0].args[op.optional[0]] = op.optional[0]
    for port in free:
        declared = made_node.get_input_port(port)
        declared.type = name_of(values[port].dtype)
        sizes = list(values[port].shape)
        if symbolic:
            # How many numbers an index has, a rule has to know.
            last = [sizes[-1]] if port in ("indices", "index") and name not in ALONG else []
            sizes = [f"{port}_{axis}" for axis in range(len(sizes) - len(last))] + last
        declared.shape = tuple(sizes)
        # A shape of () alone says nothing.
        declared.metadata = {"onnx": {"shape": sizes}}
    return Model(id="m", graphs=[graph]), {port: values[port] for port in free}


def feed_of(model: Model, floating: Mapping[str, Array], coming: Array) -> dict[str, Array]:
    port = model.graphs[0].metadata["gradient"]["of"]["output"]
    return dict(floating) if port is None else {**floating, port: coming}


def results_of(model: Model, op: Op, results: Mapping[str, Array]) -> list[Array | None]:
    names = model.graphs[0].metadata["gradient"]["wrt"]
    return [results[names[port]] if port in names else None for port in op.inputs]


def in_onnxruntime(model: Model, feed: Mapping[str, Array], threads: int) -> dict[str, Array] | None:
    """Return all outputs; None where onnxruntime refuses the types or the forward pass."""
    proto = to_onnx(model)
    try:
        return _run(proto, feed, threads)
    except Exception:
        with pytest.raises(Exception):  # noqa: B017, PT011  (onnxruntime raises what it pleases)
            _run(_forward(proto), feed, threads)
        return None


def _run(proto: onnx.ModelProto, feed: Mapping[str, Array], threads: int) -> dict[str, Array]:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = threads
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(
        proto.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    names = [value.name for value in session.get_outputs()]
    wanted = {value.name for value in session.get_inputs()}
    found = session.run(None, {name: value for name, value in feed.items() if name in wanted})
    return dict(zip(names, found, strict=True))


def _forward(proto: onnx.ModelProto) -> onnx.ModelProto:
    only = onnx.ModelProto()
    only.CopyFrom(proto)
    kept = [
        entry for entry in only.graph.node if not any(p.value == "backward" for p in entry.metadata_props)
    ]
    made = {name for entry in kept for name in entry.output}
    outputs = [value for value in only.graph.output if value.name in made]
    del only.graph.node[:], only.graph.output[:]
    only.graph.node.extend(kept)
    only.graph.output.extend(outputs)
    return only


def assert_equal(found: Sequence[Array | None], expected: Sequence[Array | None], rtol: float) -> None:
    for gradient, wanted in zip(found, expected, strict=True):
        assert (gradient is None) == (wanted is None)
        if wanted is not None:
            assert (gradient.shape, gradient.dtype) == (wanted.shape, wanted.dtype)
            wide = np.result_type(wanted.dtype, np.float32)
            np.testing.assert_allclose(gradient.astype(wide), wanted.astype(wide), rtol=rtol, atol=0)


# --- shared/gradients, in every engine -------------------------------------------------------------

NOT_IN_ONNXRUNTIME = {
    "snd_add_f16_dup": "it reduces no float16",
    "snd_max_f16_dup": "it reduces no float16",
    "snd_min_f16_dup": "it reduces no float16",
    "gnd_c128_dup": "it has no complex numbers",
    "snd_max_nan_data": "its forward pass loses NaN in data",
    "snd_max_nan_both": "its forward pass loses NaN in data",
}


@pytest.fixture
def in_mdf():
    register()
    yield
    unregister()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_vector(case, in_mdf):
    model, floating = family_model(case.op, case.inputs, case.attributes, lda_coeff=case.factor)
    backward = grad(model)
    feed = feed_of(backward, floating, case.grad)
    ways: list[Any] = [run(backward, feed, engine="onnx"), run(backward, feed, engine="mdf")]
    if case.id not in NOT_IN_ONNXRUNTIME:
        ways += [in_onnxruntime(backward, feed, threads) for threads in (1, 0)]
    for results in ways:
        found = results_of(backward, OPS[case.op], results)
        assert_equal(found, case.expected, TOLERANCE[case.grad.dtype.name])


# --- every operator and setting, against vjp -------------------------------------------------------


@pytest.mark.parametrize(
    ("op", "setting"), [(op, setting) for op in OPS.values() for setting in settings_of(op)],
    ids=lambda value: value.name if isinstance(value, Op) else ",".join(map(str, value.values())),
)  # fmt: skip
@settings(max_examples=4)
@given(data=st.data())
def test_the_graph_gives_what_vjp_gives(op, setting, data):
    """Zeros, ties, duplicates, negative indices and empty tensors abound, as in the tests of `vjp`."""
    drawn, attributes = data.draw(calls_of(op))
    attributes = dict(attributes) | setting
    # Exported indices are int64, so an index past that has no gradient graph.
    assume(all(np.max(v, initial=0) < 2**63 for v in drawn if isinstance(v, np.ndarray)))

    def values(shape):
        return data.draw(arrays(np.int64, shape, elements=WHOLE)).astype(np.float64)

    inputs = [values(value) if isinstance(value, tuple) else value for value in drawn]
    result = op.forward(*inputs, **attributes)
    # A scalar is a loss, and no gradient comes to it from outside.
    coming = values(result.shape) if result.ndim else np.ones(())
    symbolic = data.draw(st.booleans())
    model, floating = family_model(op.name, inputs, attributes, symbolic=symbolic)
    expected = vjp(op.name, coming, *inputs, **attributes)
    backward = grad(model)
    feed = feed_of(backward, floating, coming)
    for results in (
        run(backward, feed),
        in_onnxruntime(backward, feed, 1),
        in_onnxruntime(backward, feed, 0),
    ):
        if results is not None:
            assert_equal(results_of(backward, op, results), expected, 1e-12)


# --- products, maxima and minima -------------------------------------------------------------------


def scatter(rows, data, updates, coming, reduction, *, symbolic=False, **set_on):
    """Return the gradients of data and updates, of a scatter into rows, in our engine and in onnxruntime."""
    inputs = np.asarray(data), np.asarray(rows)[:, np.newaxis], np.asarray(updates)
    model, floating = family_model("ScatterND", inputs, {"reduction": reduction}, symbolic=symbolic, **set_on)
    backward = grad(model)
    feed = feed_of(backward, floating, np.asarray(coming))
    found = results_of(backward, OPS["ScatterND"], run(backward, feed))
    other = in_onnxruntime(backward, feed, 0)
    return (found[0], found[2]), None if other is None else (other["data_grad"], other["updates_grad"])


@pytest.mark.parametrize("symbolic", [False, True])
@pytest.mark.parametrize("width", [1, 3])
def test_products_of_the_others(symbolic, width):
    """Many updates to one row, one to another, none to most; the count of updates known, or not: a Loop."""
    rng = np.random.default_rng(3)
    rows = rng.permutation(np.concatenate([rng.integers(0, 12, 60), np.full(37, 12), [14]]))
    data, updates = rng.normal(size=(16, width)), rng.normal(size=(len(rows), width))
    updates[rng.random(updates.shape) < 0.1] = 0
    coming = rng.normal(size=data.shape)
    expected = vjp("ScatterND", coming, data, rows[:, np.newaxis], updates, reduction="mul")
    for found in scatter(rows, data, updates, coming, "mul", symbolic=symbolic):
        assert_equal(found, (expected[0], expected[2]), 1e-10)


@pytest.mark.parametrize("symbolic", [False, True])
def test_products_neither_underflow_nor_overflow_where_the_others_do_not(symbolic):
    small, large = 1e-200, 1e200
    for found in scatter([0, 0], [small], [small, large], [1.0], "mul", symbolic=symbolic):
        np.testing.assert_allclose(found[0], [1])
        np.testing.assert_allclose(found[1], [1, 0])
    for found in scatter([0, 0], [large], [large, small], [1.0], "mul", symbolic=symbolic):
        np.testing.assert_allclose(found[0], [1])
        np.testing.assert_allclose(found[1], [1, np.inf])


def test_infinity_in_one_row_makes_no_nan_in_another():
    for found in scatter([0, 1, 0], [2.0, 3.0], [np.inf, 0.0, 4.0], [1.0, 1.0], "mul"):
        assert found[0].tolist() == [np.inf, 0]
        assert found[1].tolist() == [8, 3, np.inf]


@pytest.mark.parametrize("reduction", ["max", "min"])
def test_nan_goes_to_all_that_met_and_to_no_other(reduction):
    data, updates = np.array([1.0, np.nan, 1, np.nan]), np.array([1.0, np.nan, 5, 1])
    (to_data, to_updates), _ = scatter([0, 0, 1, 2], data, updates, np.full(4, 2.0), reduction)
    assert np.isnan(to_data).tolist() == [True, True, False, False]
    assert np.isnan(to_updates).tolist() == [True, True, True, False]
    assert to_data[2:].tolist() == [1, 2]


def test_nan_from_outside_goes_to_the_winners_alone():
    for to_data, to_updates in scatter([0, 0], [1.0], [2.0, 0.0], [np.nan], "max"):
        assert to_data.tolist() == [0]
        assert np.isnan(to_updates).tolist() == [True, False]


@pytest.mark.parametrize("reduction", ["max", "min"])
def test_without_self_ties_are_shared_by_the_updates_alone(reduction):
    for to_data, to_updates in scatter(
        [0, 0, 0], [9.0], [2.0, 2.0, 2.0], [3.0], reduction, include_self=False
    ):
        assert (to_data.tolist(), to_updates.tolist()) == ([0], [1, 1, 1])


# --- dtypes ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("reduction", ["none", "add", "mul", "max", "min"])
def test_halves(dtype, reduction):
    rng = np.random.default_rng(1)
    data, coming = (rng.integers(1, 5, 4).astype(dtype) for _ in range(2))
    updates = rng.integers(1, 3, 12).astype(dtype)
    rows = rng.integers(0, 3, 12)
    expected = vjp("ScatterND", coming, data, rows[:, np.newaxis], updates, reduction=reduction)
    found, _ = scatter(rows, data, updates, coming, reduction)
    assert_equal(found, (expected[0], expected[2]), 0)


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("op", ["GatherND", "GatherElements"])
def test_halves_are_added_up_in_float32(op, dtype):
    indices = np.zeros((4096, 1) if op == "GatherND" else 4096, np.int64)
    model, floating = family_model(op, [np.zeros(2, dtype), indices], {})
    backward = grad(model)
    results = run(backward, feed_of(backward, floating, np.ones(4096, dtype)))
    assert results["data_grad"].tolist() == [4096, 0]
    assert results["data_grad"].dtype == dtype


@pytest.mark.parametrize("reduction", ["none", "add"])
def test_complex_numbers(reduction):
    rng = np.random.default_rng(1)
    data, updates, coming = (rng.normal(size=(n, 2)) + 1j * rng.normal(size=(n, 2)) for n in (3, 4, 3))
    rows = [0, 2, 0, -1]
    expected = vjp("ScatterND", coming, data, np.array(rows)[:, np.newaxis], updates, reduction=reduction)
    found, _ = scatter(rows, data, updates, coming, reduction)
    assert_equal(found, (expected[0], expected[2]), 1e-12)


def test_products_of_complex_numbers_are_refused():
    model, _ = family_model("ScatterND", [np.zeros(2, complex), [[0]], np.zeros(1, complex)],
                            {"reduction": "mul"})  # fmt: skip
    with pytest.raises(UnsupportedError) as caught:
        grad(model)
    assert str(caught.value) == (
        "ScatterND 'n': no gradient: ONNX multiplies no complex numbers; scatter with 'add', or real numbers"
    )


# --- training and lda_coeff ------------------------------------------------------------------------


FORMS = [
    ("ScatterND", {"reduction": reduction, "include_self": include_self})
    for reduction in ("none", "add", "mul", "max", "min", "mean")
    for include_self in (True, False)
] + [("tf::scatter_nd", {}), ("paddle::scatter_nd_add", {})]
"""Several of these are more than one node of ONNX."""


def example(name: str) -> tuple[Any, ...]:
    indices, updates = np.array([[0], [2], [0]]), np.array([1.0, 2, 3])
    return (
        (indices, updates, [4]) if name == "tf::scatter_nd" else (np.array([1.0, 5, 2, 7]), indices, updates)
    )


@pytest.mark.parametrize(("name", "attributes"), FORMS)
def test_lda_coeff_multiplies_once(name, attributes):
    inputs, coming = example(name), np.array([1.0, 2, 3, 4])
    expected = vjp(name, coming, *inputs, **attributes)
    model, floating = family_model(name, inputs, attributes, lda_coeff=-0.25)
    backward = grad(model)
    found = results_of(backward, OPS[name], run(backward, feed_of(backward, floating, coming)))
    assert_equal(found, [None if part is None else -0.25 * part for part in expected], 1e-12)


@pytest.mark.parametrize(("name", "attributes"), FORMS)
def test_training_false_stops(name, attributes):
    inputs = example(name)
    model, floating = family_model(name, inputs, attributes, training=False)
    backward = grad(model)
    said = backward.graphs[0].metadata["gradient"]
    assert said["stopped"] == [{"node": "n", "reason": "training is false"}]
    results = run(backward, feed_of(backward, floating, np.ones(4)))
    assert all(not results[result].any() for result in said["wrt"].values())


def test_in_a_row_each_multiplies_once():
    graph = Graph(id="g")
    ScatterND("a", reduction="mul", lda_coeff=2.0).add_to(graph, [2.0, 3.0], [[0], [0]])
    ScatterND("b", reduction="add", lda_coeff=5.0).add_to(graph, "a.output", [[1]], [1.0])
    port = graph.nodes[0].get_input_port("updates")
    port.type, port.shape = "float64", (2,)
    backward = grad(Model(id="m", graphs=[graph]), wrt=["updates", "a.data", "b.updates"])
    (name,) = backward.graphs[0].metadata["gradient"]["of"].values()
    results = run(backward, {"updates": [7.0, 11.0], name: [1.0, 1.0]})
    assert results["updates_grad"].tolist() == [220, 140]
    assert results["a.data_grad"].tolist() == [770, 10]
    assert results["b.updates_grad"].tolist() == [5]


# --- gathers of ONNX, and the cache ----------------------------------------------------------------


@pytest.mark.parametrize("symbolic", [False, True])
@pytest.mark.parametrize("constant", [[], [1]])
@pytest.mark.parametrize(
    ("shape", "indices", "axis"),
    [((3, 4), [-1, 0, 2, 0], 1), ((3, 4), 1, -1), ((3, 4, 2), [[1, 1], [0, -2]], 1), ((3, 2), [], 0)],
)
def test_gather(shape, indices, axis, constant, symbolic):
    x = np.random.default_rng(0).normal(size=shape)
    inputs = [x, np.array(indices, np.int64)]
    check_node("Gather", inputs, {"axis": axis}, constant=constant, symbolic=symbolic)


@pytest.mark.parametrize("mode", ["linear", "circular"])
def test_tensor_scatter(mode):
    rng = np.random.default_rng(0)
    cache, update = rng.normal(size=(2, 3, 4, 2)), rng.normal(size=(2, 3, 2, 2))
    starts = np.array([2, 3 if mode == "circular" else 0])
    for inputs in ([cache, update], [cache, update, starts]):
        check_node("TensorScatter", inputs, {"mode": mode}, opset=24)


@pytest.mark.parametrize(
    ("name", "inputs", "attributes"),
    [("ScatterND", ((3, 2), [[0], [-1], [0]], (3, 2)), {"reduction": reduction})
     for reduction in ("none", "add", "mul", "max", "min")]
    + [("ScatterElements", ((2, 3), [[0, 2, 0, 1]], (1, 4)), {"reduction": "mul", "axis": 1}),
       ("GatherND", ((2, 3), [[1], [0], [1]]), {}), ("GatherElements", ((2, 3), [[1, 0, 1]]), {}),
       ("Gather", ((3, 2), [2, 0, 2]), {"axis": 0})],
)  # fmt: skip
def test_second_derivatives(name, inputs, attributes):
    """The gradients of a square, differentiated again."""
    rng = np.random.default_rng(2)
    values = [rng.normal(size=value) if isinstance(value, tuple) else np.array(value) for value in inputs]
    model, feed = squared(name, values, attributes)
    first = grad(model)
    coming = first.graphs[0].metadata["gradient"]["of"]["z"]
    check_model(first, {**feed, coming: rng.normal(size=run(model, feed)["z"].shape)})


def test_second_derivatives_of_products_in_a_loop():
    rng = np.random.default_rng(2)
    values = [rng.normal(size=(3, 2)), rng.integers(0, 3, (40, 1)), rng.normal(size=(40, 2))]
    model, feed = squared("ScatterND", values, {"reduction": "mul"}, fixed=False)
    first = grad(model)
    assert "Loop" in backward_operators(first)
    check_model(first, {**feed, "z_grad": rng.normal(size=(3, 2))})


def squared(name, values, attributes, *, fixed=True):
    """Return a model of the square of an operator's output, and its inputs; integers may be fixed."""
    names = [f"x{at}" for at in range(len(values))]
    info, kind = onnx.helper.make_tensor_value_info, onnx.helper.np_dtype_to_tensor_dtype
    nodes = [
        onnx.helper.make_node(name, names, ["y"], "moved", **attributes),
        onnx.helper.make_node("Mul", ["y", "y"], ["z"], "squared"),
    ]
    free = {n: v for n, v in zip(names, values, strict=True) if v.dtype == np.float64 or not fixed}
    graph = onnx.helper.make_graph(
        nodes,
        "graph",
        [info(n, kind(v.dtype), v.shape) for n, v in free.items()],
        [onnx.ValueInfoProto(name="z")],
        initializer=[onnx.numpy_helper.from_array(v, n) for n, v in zip(names, values, strict=True)
                     if n not in free],
    )  # fmt: skip
    proto = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 18)], ir_version=10)
    return from_onnx(onnx.shape_inference.infer_shapes(proto)), free


# --- how it is written -----------------------------------------------------------------------------


def backward_operators(model: Model) -> list[str]:
    nodes = to_onnx(model).graph.node
    return sorted(entry.op_type for entry in nodes
                  if any(part.value == "backward" for part in entry.metadata_props))  # fmt: skip


@pytest.mark.parametrize(("name", "attributes"), FORMS)
def test_no_backward_pass_has_a_scatter_that_onnxruntime_divides_among_threads(name, attributes):
    model, _ = family_model(name, example(name), attributes)
    assert "ScatterND" not in backward_operators(grad(model))


def test_what_is_known_is_not_computed():
    """With constant indices the positions are constants, and it is known that no update is overwritten."""
    inputs = np.zeros((4, 2)), np.array([[0], [2]]), np.zeros((2, 2))
    model, _ = family_model("ScatterND", inputs, {})
    assert backward_operators(grad(model)) == ["GatherND", "Reshape", "Reshape", "ScatterElements"]
    model, _ = family_model("ScatterND", inputs, {"reduction": "mul"})
    assert backward_operators(grad(model)) == [
        "GatherND", "GatherND", "Mul", "Mul", "Reshape", "Reshape", "ScatterElements"
    ]  # fmt: skip


def test_many_copies_are_added_up_the_same_on_any_number_of_threads():
    rng = np.random.default_rng(0)
    indices = rng.integers(0, 3, (30_000, 1))
    model, floating = family_model("GatherND", [np.zeros((3, 2)), indices], {}, symbolic=True)
    backward = grad(model)
    feed = feed_of(backward, floating, rng.normal(size=(30_000, 2)))
    ours = run(backward, feed)["data_grad"]
    for threads in (1, 0):
        assert in_onnxruntime(backward, feed, threads)["data_grad"].tolist() == ours.tolist()


def test_how_long_an_index_is_has_to_be_known():
    model, _ = node_model("GatherND", [np.zeros((3, 2)), np.zeros((2, 1), np.int64)], symbolic=True)
    with pytest.raises(UnsupportedError) as caught:
        grad(model)
    assert str(caught.value) == (
        "GatherND 'gathernd': no gradient: indices has shape [x1_0,x1_1], and how many numbers an index "
        "has is not known; give it a fixed last size"
    )


@pytest.mark.parametrize(
    ("indices", "operators"),
    [
        (1, {"Unsqueeze", "Pad"}),
        (-1, {"Unsqueeze", "Pad"}),
        ([1, 2], {"Pad"}),
        ([0, 1, 2], set()),
        ([-1], {"Pad"}),
        ([2, 1], {"ScatterElements"}),
        ([1, 1], {"ScatterElements"}),
    ],
)
def test_what_comes_back_from_a_known_run_is_padded(indices: Any, operators: set[str]) -> None:
    x = np.random.default_rng(0).standard_normal((2, 3, 4))
    inputs, attributes = [x, np.array(indices)], {"axis": 1}
    model, _ = node_model("Gather", inputs, attributes, constant=[1])
    written = {node.op_type for node in to_onnx(grad(model)).graph.node}
    assert written & {"Pad", "ScatterElements", "Unsqueeze"} == operators
    check_node("Gather", inputs, attributes, constant=[1])
