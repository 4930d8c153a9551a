"""Every operator of the family as an MDF node: in both engines, in files, exported, and drawn."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from modeci_mdf.mdf import Graph, Model
from samples import same

import mdf_scatter
from mdf_scatter import OPS, node
from mdf_scatter.errors import MdfScatterError, UnsupportedError
from mdf_scatter.operator_node import OperatorNode
from mdf_scatter.ops.op import Case

NODES: dict[str, type[OperatorNode]] = {kind.op.name: kind for kind in OperatorNode.__subclasses__()}
CASES = [(name, case) for name, op in OPS.items() for case in op.cases]


def model_of(name: str, case: Case) -> Model:
    graph = Graph(id="g")
    made = NODES[name]("n").to_mdf()
    for attribute, value in case.attributes.items():
        parameter = made.get_parameter(attribute)
        if parameter is None:
            made.parameters.append(node_parameter(attribute, value))
            made.functions[0].args[attribute] = attribute
        else:
            parameter.value = value
    for port, value in zip(list(made.input_ports), case.inputs, strict=False):
        port.default_value = None if value is None else np.asarray(value)
        if value is None:
            made.input_ports.remove(port)
            del made.functions[0].args[port.id]
    for port in made.input_ports[len(case.inputs) :]:
        made.input_ports.remove(port)
        del made.functions[0].args[port.id]
    graph.nodes.append(made)
    return Model(id="m", graphs=[graph])


def node_parameter(name: str, value: object) -> object:
    from modeci_mdf.mdf import Parameter

    return Parameter(id=name, value=value)


def in_onnxruntime(proto: onnx.ModelProto) -> np.ndarray | None:
    """Run on one thread; None where onnxruntime has no kernel for the types."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    try:
        return onnxruntime.InferenceSession(proto.SerializeToString(), options).run(None, {})[0]
    except Exception as error:
        if "NOT_IMPLEMENTED" in str(error) or "is not supported with" in str(error):
            return None
        raise


def test_every_operator_has_a_node() -> None:
    assert NODES.keys() == OPS.keys()
    assert all(getattr(node, kind.__name__) is kind for kind in NODES.values())


@pytest.mark.parametrize(("name", "case"), CASES, ids=[f"{name}-{case.name}" for name, case in CASES])
def test_cases_in_both_engines_after_a_file(name: str, case: Case, tmp_path: Path) -> None:
    if "no integer" in case.name:
        return  # the text "1" in an MDF file is the number
    try:
        mdf_scatter.save(model_of(name, case), tmp_path / "m.json")
    except MdfScatterError:
        assert case.error is not None
        return
    model = mdf_scatter.load(tmp_path / "m.json")
    for engine in ("mdf", "onnx"):
        if case.error is not None:
            with pytest.raises(MdfScatterError, match="n"):
                mdf_scatter.run(model, engine=engine)
        else:
            assert same(mdf_scatter.run(model, engine=engine)["output"], case.expected), engine
    assert "<svg" in mdf_scatter.draw(model).svg


@pytest.mark.parametrize("opset", [None, 11, 13, 16, 18, 21, 24])
@pytest.mark.parametrize("name", [name for name in OPS if name != "TensorScatter"])
def test_cases_exported_at_every_opset_give_the_same_in_onnxruntime(name: str, opset: int | None) -> None:
    tried, refusals = 0, []
    for case in OPS[name].cases:
        if case.error is not None or case.expected.dtype.kind in "OTUV":
            continue
        try:
            proto = mdf_scatter.to_onnx(model_of(name, case), opset=opset)
        except UnsupportedError as error:
            refusals.append(str(error))
            continue
        result = in_onnxruntime(proto)
        if result is None:
            continue
        assert same(result, case.expected, computed=True), case.name
        tried += 1
    assert tried >= 3, refusals
    assert all("'n" in refusal for refusal in refusals)


def test_training_and_lda_coeff() -> None:
    grad = np.array([1.0, 2.0, 3.0])
    inputs = (np.zeros(3), [[1], [1]], np.ones(2))
    made = mdf_scatter.ScatterND("s", reduction="add", lda_coeff=0.5)
    made.forward(*inputs)
    data, updates = made.backward(grad)
    assert data.tolist() == [0.5, 1, 1.5]
    assert updates.tolist() == [1, 1]
    made = mdf_scatter.ScatterND("scatter_1", training=False)
    made.forward(*inputs)
    with pytest.raises(MdfScatterError) as caught:
        made.backward(grad)
    assert str(caught.value) == (
        "ScatterND 'scatter_1': nothing was stored for backward because training=False; "
        "set training=True and run forward again"
    )
    with pytest.raises(MdfScatterError) as caught:
        mdf_scatter.GatherND("g").backward(grad)
    assert str(caught.value) == "GatherND 'g': nothing was stored for backward; run forward first"
    made = mdf_scatter.ScatterND("s")
    made.forward(*inputs)
    with pytest.raises(MdfScatterError, match="ScatterND 's': grad has shape"):
        made.backward(grad[:2])
    made.forward([1, 2, 3], [[0]], [5])
    with pytest.raises(MdfScatterError, match="has no gradient"):
        made.backward([1, 1, 1])


def test_each_node_gives_one_gradient_for_each_input_that_is_not_of_integers() -> None:
    for name, op in OPS.items():
        case = next(case for case in op.cases if case.error is None and case.expected.size)
        made = NODES[name](**case.attributes)
        floats = [
            value if value is None or key in op.integers else np.asarray(value, np.float64)
            for key, value in zip(op.inputs, case.inputs, strict=False)
        ]
        output = made.forward(*floats)
        gradients = made.backward(np.ones_like(output))
        shapes = [np.shape(v) for k, v in zip(op.inputs, floats, strict=False) if k not in op.integers]
        assert [gradient.shape for gradient in gradients] == shapes, name


@pytest.mark.parametrize("kind", list(NODES.values()), ids=list(NODES))
def test_wrong_settings_and_inputs_name_the_node(kind: type[OperatorNode]) -> None:
    for settings in ({"training": 2}, {"lda_coeff": None}, {"specified_outputs_name": ["a", "b"]}):
        with pytest.raises(MdfScatterError, match=f"{kind.op.name} 'n': {next(iter(settings))} is "):
            kind("n", **settings)  # type: ignore[arg-type]
    with pytest.raises(MdfScatterError, match="'n': there is no input 'dat'"):
        kind("n").forward(dat=[1])
    with pytest.raises(MdfScatterError, match="'n': 9 inputs were given"):
        kind("n").forward(*range(9))


@pytest.mark.parametrize("reduction", ["add", "mul", "max", "min", "mean"])
@pytest.mark.parametrize("include_self", [True, False])
@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int32, np.int64])
def test_mean_and_include_self_have_an_exact_onnx_form(
    reduction: str, include_self: bool, dtype: type
) -> None:
    rng = np.random.default_rng(3)
    data = (rng.normal(size=(5, 2)) * 4).astype(dtype)
    updates = (rng.normal(size=(6, 2)) * 4).astype(dtype)
    indices = np.array([[1], [1], [4], [1], [0], [4]])
    for made, source in (
        (mdf_scatter.ScatterND("n", reduction=reduction, include_self=include_self), indices),
        (
            mdf_scatter.ScatterElements("n", reduction=reduction, include_self=include_self),
            np.broadcast_to(indices, (6, 2)),
        ),
    ):
        expected = made.forward(data, source, updates)
        graph = Graph(id="g")
        made.add_to(graph, data, source, updates)
        model = Model(id="m", graphs=[graph])
        for engine in ("onnx", "mdf"):
            assert same(mdf_scatter.run(model, engine=engine)["output"], expected), engine
        result = in_onnxruntime(mdf_scatter.to_onnx(model))
        if result is None:
            assert dtype is np.float16, "onnxruntime has no scatter with a reduction of it"
            continue
        assert same(result, expected)


def test_names_of_the_other_systems_are_mdf_functions() -> None:
    graph = Graph(id="g")
    mdf_scatter.TFScatterND("tf").add_to(
        graph, indices=[[4], [3], [1], [7]], updates=[9, 10, 11, 12], shape=[8]
    )
    mdf_scatter.PaddleScatterNDAdd("paddle").add_to(
        graph, ref=np.arange(6), index=[[1], [2], [3], [1]], updates=[9, 10, 11, 12]
    )
    model = Model(id="m", graphs=[graph])
    assert {f.function for n in graph.nodes for f in n.functions} == {
        "tf::scatter_nd",
        "paddle::scatter_nd_add",
    }
    assert not mdf_scatter.check(model)
    result = mdf_scatter.run(model)
    assert result["tf.output"].tolist() == [0, 11, 0, 10, 9, 0, 0, 12]
    assert result["paddle.output"].tolist() == [0, 22, 12, 14, 4, 5]
    assert {n.op_type for n in mdf_scatter.to_onnx(model).graph.node} == {"Expand", "ScatterND"}
