"""Running: engines, inputs and their errors, state."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import onnx
import pytest
from modeci_mdf.mdf import Graph, Model, Node, OutputPort, Parameter
from models import FLOAT, INT64, calculation, chain, onnx_model
from onnx import helper

import mdf_scatter
from mdf_scatter import Runner, ScatterND, from_onnx, run, to_onnx, unregister
from mdf_scatter.errors import (
    EvaluationError,
    InputError,
    MdfScatterError,
    ModelError,
    NoEngineError,
    OperatorError,
)
from mdf_scatter.lower import lower
from mdf_scatter.plan import Plan
from mdf_scatter.segment import Segment


def scatter_model(**settings: object) -> Model:
    node = ScatterND("s", **settings).to_mdf()  # type: ignore[arg-type]
    for port, kind, shape in zip(
        node.input_ports, ("float32", "int64", "float32"), ((8, 2), (3, 1), (3, 2)), strict=True
    ):
        port.type, port.shape = kind, shape
    return Model(id="m", graphs=[Graph(id="g", nodes=[node])])


GIVEN = {
    "data": np.zeros((8, 2), np.float32),
    "indices": np.array([[1], [1], [2]]),
    "updates": np.ones((3, 2), np.float32),
}


@pytest.mark.parametrize("engine", ["auto", "onnx", "mdf"])
def test_engines_agree(engine: str) -> None:
    result = run(scatter_model(reduction="add"), GIVEN, engine=engine)["output"]  # type: ignore[arg-type]
    assert result.dtype == np.float32
    assert result[:3].tolist() == [[0, 0], [2, 2], [1, 1]]


def test_the_model_and_the_inputs_are_left_as_they_were() -> None:
    model = scatter_model(reduction="add")
    before = model.to_dict()
    for engine in ("onnx", "mdf"):
        run(model, GIVEN, engine=engine)  # type: ignore[arg-type]
    assert model.to_dict() == before
    assert not GIVEN["data"].any()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"updates": None}, "graph 'g' needs input 'updates' (float32[3, 2])"),
        (
            {"updates": None, "data": None},
            "graph 'g' needs inputs 'data' (float32[8, 2]), 'updates' (float32[3, 2])",
        ),
        (
            {"update": np.zeros(3)},
            "graph 'g' has no input 'update'; its inputs are 'data', 'indices' or 'updates'; did you mean "
            "'updates'?",
        ),
        (
            {"data": np.zeros((8, 2))},
            "input 'data' has dtype float64; expected float32[8, 2]",
        ),
        (
            {"data": np.zeros((2, 8), np.float32)},
            "input 'data' has shape (2, 8); expected float32[8, 2]",
        ),
        ({"indices": [[1.5], [0], [0]]}, "input 'indices' has dtype float64; expected int64[3, 1]"),
        ({"data": "text"}, "input 'data' has dtype string; expected float32[8, 2]"),
        ({"data": [[1, 2], [3]]}, None),
        ({"data": object()}, "input 'data' has dtype object; expected float32[8, 2]"),
        ({"s.data": np.zeros((8, 2), np.float32)}, "input 'data' is given twice, also as 's.data'"),
    ],
)
def test_wrong_inputs_say_which_and_what_was_expected(change: dict[str, object], message: str | None) -> None:
    given = {name: value for name, value in (GIVEN | change).items() if value is not None}
    with pytest.raises(InputError) as caught:
        run(scatter_model(), given)  # type: ignore[arg-type]
    if message is None:
        assert str(caught.value).startswith("input 'data' is not an array: ")
    else:
        assert str(caught.value) == message


def test_plain_python_numbers_take_the_declared_dtype() -> None:
    given = {"data": np.zeros((8, 2)).tolist(), "indices": [[0], [1], [2]], "updates": [[1, 2]] * 3}
    result = run(scatter_model(), given)["output"]
    assert result.dtype == np.float32
    assert result[0].tolist() == [1, 2]


def test_symbolic_sizes_have_to_agree() -> None:
    model = mdf_scatter.from_onnx(
        onnx_model(
            [helper.make_node("Add", ["a", "b"], ["y"], name="add")],
            {"a": (FLOAT, ["N"]), "b": (FLOAT, ["N"])},
            {"y": (FLOAT, ["N"])},
        )
    )
    assert run(model, {"a": np.ones(3, np.float32), "b": np.ones(3, np.float32)})["y"].tolist() == [2, 2, 2]
    with pytest.raises(InputError) as caught:
        run(model, {"a": np.ones(3, np.float32), "b": np.ones(1, np.float32)})
    assert str(caught.value) == "input 'b' has N = 1 (axis 0), but input 'a' has N = 3"


def test_an_unknown_engine_and_a_wrong_count_of_steps() -> None:
    with pytest.raises(InputError) as caught:
        run(scatter_model(), GIVEN, engine="torch")  # type: ignore[arg-type]
    assert str(caught.value) == "engine is 'torch'; expected 'auto', 'onnx' or 'mdf'"
    for steps in (0, True, 2.0):
        with pytest.raises(InputError) as caught:
            run(scatter_model(), GIVEN, steps=steps)  # type: ignore[arg-type]
        assert str(caught.value) == f"steps is {steps}; expected a whole number from 1 on"
    assert run(scatter_model(), GIVEN, steps=np.int64(2)).keys() == run(scatter_model(), GIVEN).keys()  # type: ignore[arg-type]


@pytest.mark.parametrize("engine", ["onnx", "mdf"])
@pytest.mark.parametrize("step", [float("nan"), float("inf"), "0.1", True, [0.1]])
def test_a_step_of_time_is_a_finite_number(engine: str, step: object) -> None:
    with pytest.raises(InputError) as caught:
        run(scatter_model(), GIVEN, engine=engine, time_increment=step)  # type: ignore[arg-type]
    assert str(caught.value) == f"time_increment is {step!r}; expected a finite number of seconds"


def test_inputs_are_a_mapping() -> None:
    for given in ([1], [], np.ones(2)):
        with pytest.raises(InputError) as caught:
            run(scatter_model(), given)  # type: ignore[arg-type]
        assert str(caught.value) == (
            f"graph 'g': inputs is of type {type(given).__name__}; expected a mapping of names to arrays;"
            " its inputs are 'data', 'indices' or 'updates'"
        )


def test_a_runner_says_what_it_runs() -> None:
    runner = Runner(scatter_model())
    assert repr(runner) == "<Runner of model 'm', engine 'auto'>"
    runner(GIVEN)
    assert repr(runner) == "<Runner of model 'm', engine 'onnx'>"


@pytest.mark.parametrize("engine", ["onnx", "mdf"])
def test_an_operators_error_names_the_node(engine: str) -> None:
    with pytest.raises(OperatorError) as caught:
        run(scatter_model(), GIVEN | {"indices": [[0], [8], [0]]}, engine=engine)  # type: ignore[arg-type]
    assert str(caught.value) == "ScatterND 's': indices[1, 0] is 8; expected -8..7 (axis 0 of data)"


def test_what_check_calls_an_error_does_not_run() -> None:
    model = scatter_model()
    model.graphs[0].nodes[0].functions[0].function = "ScaterND"
    with pytest.raises(ModelError, match="did you mean 'ScatterND'"):
        run(model, GIVEN)
    evil = calculation("__import__('os').getcwd()")
    with pytest.raises(ModelError, match="__import__"):
        run(evil, {"x": np.float32(1)}, engine="mdf")


def test_our_operators_never_reach_onnxruntime() -> None:
    nodes = [
        helper.make_node("Relu", ["x"], ["h"], name="relu"),
        helper.make_node("ScatterND", ["h", "i", "u"], ["s"], name="one", reduction="add"),
        helper.make_node("ScatterND", ["s", "i", "u"], ["t"], name="two", reduction="add"),
        helper.make_node("Neg", ["t"], ["n"], name="neg"),
        helper.make_node("Neg", ["x"], ["m"], name="side"),
        helper.make_node("Add", ["n", "m"], ["y"], name="add"),
    ]
    proto = onnx_model(
        nodes,
        {"x": (FLOAT, [4])},
        {"y": (FLOAT, [4])},
        {"i": np.array([[0], [0]]), "u": np.ones(2, np.float32)},
    )
    plan = Plan(lower(mdf_scatter.from_onnx(proto)))
    segments = [step for step in plan._steps if isinstance(step, Segment)]
    assert len(segments) == 2, "one stretch before the scatters and one after"
    assert all("ScatterND" not in segment.operators for segment in segments)
    assert plan.run({"x": np.arange(4, dtype=np.float32)})["y"].tolist() == [-4, -2, -4, -6]


def test_types_that_onnxruntime_lacks_run_in_the_reference_evaluator() -> None:
    proto = onnx_model(
        [helper.make_node("Add", ["a", "a"], ["y"], name="add")],
        {"a": (FLOAT, [2])},
        {"y": (FLOAT, [2])},
    )
    for value in (proto.graph.input[0], proto.graph.output[0]):
        value.type.tensor_type.elem_type = helper.np_dtype_to_tensor_dtype(np.dtype(ml_dtypes.bfloat16))
    result = run(mdf_scatter.from_onnx(proto), {"a": np.array([1, 2], ml_dtypes.bfloat16)})["y"]
    assert result.dtype == ml_dtypes.bfloat16
    assert result.astype(float).tolist() == [2, 4]


def test_a_branch_may_give_one_value_twice() -> None:
    proto = onnx.parser.parse_model("""<ir_version: 8, opset_import: ["": 18]>
        g (float[2] x, bool c) => (float[2] y, float[2] z) {
            y, z = If (c) <
                then_branch = then () => (float[2] t, float[2] t) { t = Neg (x) },
                else_branch = otherwise () => (float[2] e, float[2] e) { e = Exp (x) }
            >
        }""")
    results = run(mdf_scatter.from_onnx(proto), {"x": np.array([3, 4], np.float32), "c": np.array(True)})
    assert results["y"].tolist() == results["z"].tolist() == [-3, -4], "onnxruntime leaves one unwritten"


def test_a_failure_of_another_operator_says_which() -> None:
    model = calculation("x + k", inputs={"x": "float32"}, parameters={"k": np.ones(3, np.float32)})
    with pytest.raises(EvaluationError, match="operators Add: "):
        run(model, {"x": np.ones(2, np.float32)}, engine="onnx")
    with pytest.raises(EvaluationError, match="node 'n': modeci-mdf's engine failed: "):
        run(model, {"x": np.ones(2, np.float32)}, engine="mdf")


def counting() -> Model:
    node = Node(id="counter")
    node.parameters.append(Parameter(id="count", value="count + 1", default_initial_value=10))
    node.output_ports.append(OutputPort(id="n", value="count"))
    return Model(id="m", graphs=[chain(node)])


def test_state_is_kept_between_calls_until_reset() -> None:
    runner = Runner(counting())
    assert runner()["n"] == 11
    assert runner(steps=3)["n"] == 14
    runner.reset()
    assert runner()["n"] == 11
    for engine in ("onnx", "mdf"):
        assert run(counting(), engine=engine, steps=2)["n"] == 12  # type: ignore[arg-type]


def test_time_derivatives_start_from_their_initial_value() -> None:
    node = Node(id="decay")
    node.parameters.append(Parameter(id="v", default_initial_value=1.0, time_derivative="-v"))
    node.output_ports.append(OutputPort(id="v_out", value="v"))
    model = Model(id="m", graphs=[chain(node)])
    assert run(model)["v_out"] == 1
    for engine in ("onnx", "mdf"):
        assert run(model, steps=3, time_increment=0.5, engine=engine)["v_out"] == 0.25  # type: ignore[arg-type]
        assert run(model, steps=2, time_increment=-1, engine=engine)["v_out"] == 2  # type: ignore[arg-type]


def test_untyped_inputs_are_of_the_dtype_given() -> None:
    model = calculation("x * 2", inputs={"x": None})
    runner = Runner(model, engine="onnx")
    for dtype in (np.float32, np.float64, np.int64):
        result = runner({"x": np.ones((2, 2), dtype)})["y"]
        assert result.dtype == dtype
        assert result.tolist() == [[2, 2], [2, 2]]


def test_a_port_that_nothing_feeds_is_zero_as_in_mdf() -> None:
    model = calculation("x + 1", inputs={"x": None})
    for engine in ("onnx", "mdf"):
        assert run(model, engine=engine)["y"] == 1  # type: ignore[arg-type]


def test_nothing_is_printed(capfd: pytest.CaptureFixture[str]) -> None:
    run(scatter_model(), GIVEN, engine="mdf")
    run(scatter_model(), GIVEN, engine="onnx")
    with pytest.raises(MdfScatterError):
        run(calculation("x + k", parameters={"k": [1.0, 2.0, 3.0]}), {"x": np.ones(2, np.float32)})
    captured = capfd.readouterr()
    assert captured.out == ""
    assert captured.err == ""


def test_an_output_may_have_the_name_of_an_input() -> None:
    model = calculation("x + y", inputs={"x": "float64", "y": "float64"})
    for port in model.graphs[0].nodes[0].input_ports:
        port.shape = (3,)
    for engine in ("onnx", "mdf"):
        results = run(model, {"x": [1.0, 2.0, 3.0], "y": [10.0, 20.0, 30.0]}, engine=engine)  # type: ignore[arg-type]
        assert {name: array.tolist() for name, array in results.items()} == {"y": [11, 22, 33]}
    model.graphs[0].nodes[0].output_ports[0].shape = (3,)
    # ONNX has one name for one value.
    assert [value.name for value in to_onnx(model).graph.output] == ["n.y"]


def test_a_lifted_model_runs_in_modeci_mdf_without_being_registered() -> None:
    unregister()
    text = '<ir_version: 8, opset_import: ["": 13]> g (float[2] x) => (float[2] y) { a = Neg(x) y = Exp(a) }'
    model = from_onnx(onnx.parser.parse_model(text))
    runner = Runner(model, engine="mdf")
    for x in ([0.0, 0.0], [0.0, -1.0]):
        np.testing.assert_allclose(runner({"x": x})["y"], np.exp(-np.array(x)), rtol=1e-6)


def test_statistics_of_the_batch_behind_a_convolution() -> None:
    """onnxruntime folds the normalization into the convolution, with statistics that are not the batch's."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((2, 1, 4, 4)).astype(np.float32)
    kept = {"w": rng.standard_normal((1, 1, 3, 3)), "one": np.ones(1), "zero": np.zeros(1)}
    proto = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["": 15]> g (float[2, 1, 4, 4] x) => (float[2, 1, 2, 2] y) {
            h = Conv (x, w)
            y, mean, var = BatchNormalization <training_mode = 1> (h, one, zero, zero, one)
        }"""
    )
    for name, array in kept.items():
        proto.graph.initializer.append(onnx.numpy_helper.from_array(array.astype(np.float32), name))
    found = run(from_onnx(proto), {"x": x})["y"]
    np.testing.assert_allclose([found.mean(), found.var()], [0, 1], atol=1e-3)


def test_arrays_in_the_byte_order_of_another_machine_are_taken() -> None:
    given = {name: array.astype(array.dtype.newbyteorder()) for name, array in GIVEN.items()}
    result = run(scatter_model(reduction="add"), given)["output"]
    assert result.dtype == np.dtype(np.float32)
    assert result.dtype.isnative
    assert result[:3].tolist() == [[0, 0], [2, 2], [1, 1]]
    with pytest.raises(InputError) as caught:
        run(scatter_model(), {**GIVEN, "data": np.zeros((8, 2), ">f8")})
    assert str(caught.value) == "input 'data' has dtype float64; expected float32[8, 2]"


@pytest.mark.parametrize("name", ["in", "lambda", "the cue"])
@pytest.mark.parametrize("engine", ["auto", "onnx", "mdf"])
def test_a_port_may_have_any_name(name: str, engine: str) -> None:
    arguments = {"variable0": name, "slope": 2.0, "intercept": 1.0}
    model = calculation(function="linear", args=arguments, inputs={name: "float32"})
    found = run(model, {name: np.ones(2, np.float32)}, engine=engine)["y"]  # type: ignore[arg-type]
    assert found.tolist() == [3, 3]


def test_a_nameless_node_that_nothing_runs_is_named_by_its_output() -> None:
    text = """<ir_version: 8, opset_import: ["own": 1]>
    g (float[1] x) => (float[1] y) { y = own.Magic(x) }"""
    with pytest.raises(NoEngineError) as caught:
        run(from_onnx(onnx.parser.parse_model(text)), {"x": np.ones(1, np.float32)})
    assert str(caught.value) == (
        "Magic 'y': no engine here has an operator of that name in domain 'own'; "
        "the model can be carried, drawn and exported, not run"
    )


@pytest.mark.parametrize("engine", ["auto", "mdf"])
@pytest.mark.parametrize(("value", "expected"), [([1, None], [1, None]), (10**20, 10**20)])
def test_what_no_tensor_holds_runs_in_the_engine_of_mdf(value: object, expected: object, engine: str) -> None:
    found = run(calculation("p", parameters={"p": value}), {"x": np.float32(0)}, engine=engine)["y"]  # type: ignore[arg-type]
    assert found.tolist() == expected


def test_a_value_of_the_engine_of_mdf_that_is_no_array_is_refused() -> None:
    model = calculation("[[1.0], [x, x]]")
    with pytest.raises(EvaluationError) as caught:
        run(model, {"x": np.float32(2)}, engine="mdf")
    assert str(caught.value) == "output 'y' is an uneven list; expected an array"


@pytest.mark.parametrize("between", ["Identity", "Neg"])
@pytest.mark.parametrize("is_known", [True, False], ids=["rank known", "rank open"])
def test_a_transposed_matrix_times_a_vector_is_transposed(between: str, is_known: bool) -> None:
    nodes = [
        helper.make_node("Transpose", ["w"], ["turned"], perm=[1, 0]),
        helper.make_node(between, ["turned"], ["left"]),
        helper.make_node("Reshape", ["x", "shape"], ["right"]),
        helper.make_node("MatMul", ["left", "right"], ["y"]),
    ]
    inputs = {"w": (FLOAT, [3, 3]), "x": (FLOAT, [3, 1])} | ({} if is_known else {"shape": (INT64, ["r"])})
    shape = {"shape": np.array([3])}
    proto = onnx_model(nodes, inputs, {"y": (FLOAT, [3])}, shape if is_known else None)
    w, x = np.arange(9, dtype=np.float32).reshape(3, 3), np.arange(1, 4, dtype=np.float32)
    given = {"w": w, "x": x[:, np.newaxis]} | ({} if is_known else shape)
    result = Runner(from_onnx(proto))(given)["y"]
    assert np.array_equal(result, (w if between == "Identity" else -w).T @ x)
