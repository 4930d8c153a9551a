"""ONNX models as MDF models, and back: nothing is lost on the way."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from models import FLOAT, INT64, onnx_model
from onnx import helper
from protos import differences

import mdf_scatter
from mdf_scatter import from_onnx, to_onnx
from mdf_scatter.errors import FormatError

ROWS = np.array([[1], [1]])


def scatter(**attributes: object) -> onnx.ModelProto:
    node = helper.make_node("ScatterND", ["data", "rows", "u"], ["y"], name="s", **attributes)
    return onnx_model(
        [node],
        {"data": (FLOAT, [3, "N"]), "u": (FLOAT, [2, "N"])},
        {"y": (FLOAT, [3, "N"])},
        {"rows": ROWS},
    )


def same_graph(a: onnx.ModelProto, b: onnx.ModelProto) -> bool:
    """Compare all but value_info, which is derived."""
    return differences(a, b) == []


def test_a_node_becomes_ports_parameters_and_one_function() -> None:
    model = from_onnx(scatter(reduction="add"))
    assert model.onnx_opset_version == "18"
    node = next(node for node in model.graphs[0].nodes if node.functions)
    assert node.id == "s"
    assert [port.id for port in node.input_ports] == ["data", "updates"]
    assert {p.id: np.asarray(p.value).tolist() for p in node.parameters} == {
        "indices": [[1], [1]],
        "reduction": "add",
    }
    assert node.functions[0].function == "ScatterND"
    assert [port.id for port in node.output_ports] == ["y"]


@pytest.mark.parametrize("attributes", [{}, {"reduction": "none"}, {"reduction": "max"}])
def test_the_way_there_and_back_changes_nothing(attributes: dict[str, object]) -> None:
    proto = scatter(**attributes)
    assert same_graph(to_onnx(from_onnx(proto)), proto)


def test_names_of_any_kind_are_kept_exactly() -> None:
    nodes = [
        helper.make_node("Relu", ["in/x:0"], ["/layer.1/Relu:0"], name="/layer.1/Relu"),
        helper.make_node("Relu", ["/layer.1/Relu:0"], ["_layer_1_Relu_0"], name="_layer_1_Relu"),
        helper.make_node("Add", ["/layer.1/Relu:0", "_layer_1_Relu_0"], ["class"], name=""),
        helper.make_node("Mul", ["class", "5 w"], ["é😀"], name="lambda"),
    ]
    proto = onnx_model(
        nodes, {"in/x:0": (FLOAT, [2])}, {"é😀": (FLOAT, [2])}, {"5 w": np.ones(2, np.float32)}
    )
    model = from_onnx(proto)
    assert all(node.id.isidentifier() for node in model.graphs[0].nodes)
    assert same_graph(to_onnx(model), proto)
    assert mdf_scatter.run(model, {"in/x:0": np.array([-1, 2], np.float32)})["é😀"].tolist() == [0, 4]


def test_inputs_used_twice_outputs_used_inside_and_their_order_are_kept() -> None:
    nodes = [
        helper.make_node("Add", ["b", "a"], ["s"], name="add"),
        helper.make_node("Mul", ["s", "b"], ["p"], name="mul"),
    ]
    proto = onnx_model(
        nodes,
        {"a": (FLOAT, [2]), "b": (FLOAT, [2]), "unused": (FLOAT, ["N"])},
        {"p": (FLOAT, [2]), "s": (FLOAT, [2])},
    )
    model = from_onnx(proto)
    assert same_graph(to_onnx(model), proto)
    a, b = np.array([1, 2], np.float32), np.array([10, 20], np.float32)
    result = mdf_scatter.run(model, {"a": a, "b": b, "unused": a})
    assert list(result) == ["p", "s"]
    assert result["p"].tolist() == [110, 440]


def test_initializers_shared_by_nodes_stay_one() -> None:
    nodes = [
        helper.make_node("Add", ["x", "w"], ["h"], name="one"),
        helper.make_node("Mul", ["h", "w"], ["y"], name="two"),
    ]
    proto = onnx_model(nodes, {"x": (FLOAT, [2])}, {"y": (FLOAT, [2])}, {"w": np.full(2, 3, np.float32)})
    assert same_graph(to_onnx(from_onnx(proto)), proto)


def test_attributes_omitted_inputs_and_several_outputs_are_kept() -> None:
    nodes = [
        helper.make_node("Clip", ["x", "", "top"], ["c"], name="clip"),
        helper.make_node("TopK", ["c", "k"], ["values", "places"], name="topk", axis=-1, largest=0),
        helper.make_node("LeakyRelu", ["values"], ["y"], name="leaky", alpha=0.1),
        helper.make_node("Concat", ["y", "y"], ["z"], name="concat", axis=0),
    ]
    proto = onnx_model(
        nodes,
        {"x": (FLOAT, [4])},
        {"z": (FLOAT, [4]), "places": (INT64, [2])},
        {"top": np.float32(2), "k": np.array([2])},
    )
    model = from_onnx(proto)
    leaky = model.graphs[0].get_node("leaky")
    assert leaky.get_parameter("alpha").value == 0.1
    assert same_graph(to_onnx(model), proto)
    result = mdf_scatter.run(model, {"x": np.array([5, -1, 1, 0], np.float32)})
    np.testing.assert_allclose(result["z"], [-0.1, 0, -0.1, 0], rtol=1e-6)
    assert result["places"].tolist() == [1, 3]


def test_defaults_documentation_and_metadata_are_kept() -> None:
    proto = scatter()
    proto.producer_name, proto.model_version, proto.doc_string = "someone", 7, "about"
    proto.graph.doc_string = "the graph"
    proto.graph.node[0].doc_string = "the node"
    proto.graph.node[0].metadata_props.add(key="k", value="v")
    proto.metadata_props.add(key="licence", value="free")
    proto.graph.initializer.append(onnx.numpy_helper.from_array(np.zeros((2, 1), np.float32), "u"))
    assert same_graph(to_onnx(from_onnx(proto)), proto)


def test_the_mdf_nodes_metadata_travels_too() -> None:
    model = from_onnx(scatter())
    node = next(node for node in model.graphs[0].nodes if node.functions)
    node.metadata = (node.metadata or {}) | {"color": ".8 0 0", "notes": ["a", 1]}
    back = from_onnx(to_onnx(model))
    assert next(n for n in back.graphs[0].nodes if n.functions).metadata["notes"] == ["a", 1]


def test_through_every_file_format(tmp_path: object) -> None:
    proto = scatter(reduction="mul")
    for suffix in (".yaml", ".json", ".bson", ".onnx"):
        path = tmp_path / f"m{suffix}"  # type: ignore[operator]
        mdf_scatter.save(from_onnx(proto), path)
        assert same_graph(to_onnx(mdf_scatter.load(path)), proto), suffix


def test_what_the_dimensions_of_inputs_and_outputs_denote_is_kept() -> None:
    proto = scatter()
    for value in (proto.graph.input[0], proto.graph.output[0]):
        value.type.denotation = "IMAGE"
        value.type.tensor_type.shape.dim[1].denotation = "BATCH"
    assert same_graph(to_onnx(from_onnx(proto)), proto)


def test_too_many_inputs_are_an_error() -> None:
    proto = scatter()
    proto.graph.node[0].input.append("data")
    with pytest.raises(FormatError) as caught:
        from_onnx(proto)
    assert str(caught.value) == "ScatterND 's' has 4 inputs; expected at most 3"


@pytest.mark.parametrize(("given", "kind"), [("m.onnx", "str"), (b"\x08", "bytes"), (None, "NoneType")])
def test_what_is_no_onnx_model_is_refused(given: object, kind: str) -> None:
    with pytest.raises(FormatError) as caught:
        from_onnx(given)  # type: ignore[arg-type]
    assert str(caught.value) == (
        f"the ONNX model is of type {kind}; expected an onnx.ModelProto:"
        " mdf_scatter.load reads a model from a file, onnx.load_from_string one from bytes"
    )


@pytest.mark.parametrize(
    ("where", "key", "text", "expected"),
    [
        ("node", "mdf_scatter.lda_coeff", "0.5.1", "a value"),
        ("node", "mdf_scatter.training", "[" * 100_000, "a value"),
        ("node", "mdf_scatter.metadata", "[1]", "a mapping"),
        ("graph", "mdf_scatter.metadata", "{", "a mapping"),
    ],
)
def test_metadata_that_others_wrote_is_refused(where: str, key: str, text: str, expected: str) -> None:
    proto = onnx.parser.parse_model(
        '<ir_version: 10, opset_import: ["": 18]> g (float[2] x) => (float[2] y) { y = Neg(x) }'
    )
    entry = (proto.graph if where == "graph" else proto.graph.node[0]).metadata_props.add()
    entry.key, entry.value = key, text
    with pytest.raises(FormatError) as caught:
        from_onnx(proto)
    shown = text if len(text) < 60 else f"{'[' * 57}..."
    assert str(caught.value) == f"metadata {key!r} is {shown!r}; expected {expected} in JSON"
