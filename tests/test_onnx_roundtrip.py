"""Everything ONNX can say goes into MDF and comes out the same, and runs."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import onnx
import pytest
from models import FLOAT, INT64
from onnx import TensorProto, helper, numpy_helper
from protos import differences

import mdf_scatter
from mdf_scatter import from_onnx, run, to_onnx
from mdf_scatter.errors import FormatError, InputError, ModelError, NoEngineError

BOOL = TensorProto.BOOL
info = helper.make_tensor_value_info


def model_of(
    nodes: list[onnx.NodeProto],
    inputs: list[onnx.ValueInfoProto],
    outputs: list[onnx.ValueInfoProto],
    *,
    initializers: dict[str, np.ndarray] | None = None,
    functions: list[onnx.FunctionProto] | None = None,
    domains: dict[str, int] | None = None,
) -> onnx.ModelProto:
    graph = helper.make_graph(
        nodes,
        "g",
        inputs,
        outputs,
        initializer=[numpy_helper.from_array(array, name) for name, array in (initializers or {}).items()],
    )
    imports = [
        helper.make_opsetid(domain, version) for domain, version in {"": 18, **(domains or {})}.items()
    ]
    return helper.make_model(graph, opset_imports=imports, ir_version=9, functions=functions or [])


def there_and_back(proto: onnx.ModelProto, tmp_path: Any, suffix: str = ".json") -> Any:
    """Return the MDF model after a file, having asserted that it says what the ONNX model says."""
    path = tmp_path / f"m{suffix}"
    mdf_scatter.save(from_onnx(proto), path)
    model = mdf_scatter.load(path)
    assert differences(to_onnx(model), proto) == []
    return model


def branches(then: list[onnx.NodeProto], otherwise: list[onnx.NodeProto]) -> onnx.NodeProto:
    return helper.make_node(
        "If",
        ["c"],
        ["y"],
        name="choose",
        then_branch=helper.make_graph(then, "then", [], [onnx.ValueInfoProto(name="a")]),
        else_branch=helper.make_graph(otherwise, "else", [], [onnx.ValueInfoProto(name="b")]),
    )


@pytest.mark.parametrize("suffix", [".json", ".yaml"])
def test_subgraphs_read_values_from_around_them(tmp_path: Any, suffix: str) -> None:
    nodes = [
        helper.make_node("Neg", ["x"], ["n/1"], name="neg"),
        branches(
            [helper.make_node("Add", ["n/1", "w"], ["a"])],
            [helper.make_node("Mul", ["x", "w"], ["m"]), helper.make_node("Sub", ["m", "n/1"], ["b"])],
        ),
    ]
    proto = model_of(
        nodes,
        [info("x", FLOAT, [2]), info("c", BOOL, [])],
        [info("y", FLOAT, [2])],
        initializers={"w": np.array([10, 20], np.float32)},
    )
    model = there_and_back(proto, tmp_path, suffix)
    assert [graph.id for graph in model.graphs] == ["g", "choose.else_branch", "choose.then_branch"]
    assert model.graphs[0].get_node("choose").get_parameter("then_branch").value == {
        "graph": "choose.then_branch"
    }
    x = np.array([1, 2], np.float32)
    assert run(model, {"x": x, "c": np.True_})["y"].tolist() == [9, 18]
    assert run(model, {"x": x, "c": np.False_})["y"].tolist() == [11, 42]


def test_graphs_inside_graphs_reach_the_outermost_and_wait_for_what_they_read(tmp_path: Any) -> None:
    inner = branches([helper.make_node("Identity", ["late"], ["a"])], [helper.make_node("Neg", ["i"], ["b"])])
    inner.output[0] = "inner"
    outer = branches([inner], [helper.make_node("Identity", ["x"], ["b"])])
    then = next(attribute.g for attribute in outer.attribute if attribute.name == "then_branch")
    then.node.insert(0, helper.make_node("Abs", ["x"], ["i"]))
    then.output[0].name = "inner"
    nodes = [helper.make_node("Exp", ["x"], ["late"], name="z"), outer]
    proto = model_of(nodes, [info("x", FLOAT, [1]), info("c", BOOL, [])], [info("y", FLOAT, [1])])
    model = there_and_back(proto, tmp_path)
    model.graphs[0].nodes.reverse()
    result = run(model, {"x": np.zeros(1, np.float32), "c": np.True_})
    assert result["y"].tolist() == [1]


def test_a_loop_with_our_operator_inside_counts_every_update(tmp_path: Any) -> None:
    body = helper.make_graph(
        [
            helper.make_node("ScatterND", ["v", "at", "ones"], ["v2"], reduction="add"),
            helper.make_node("Identity", ["go"], ["go2"]),
        ],
        "body",
        [info("i", INT64, []), info("go", BOOL, []), info("v", FLOAT, [3])],
        [info("go2", BOOL, []), info("v2", FLOAT, [3])],
    )
    proto = model_of(
        [helper.make_node("Loop", ["n", "", "x"], ["y"], name="loop", body=body)],
        [info("n", INT64, []), info("x", FLOAT, [3])],
        [info("y", FLOAT, [3])],
        initializers={"at": np.zeros((5000, 1), np.int64), "ones": np.ones(5000, np.float32)},
    )
    model = there_and_back(proto, tmp_path)
    result = run(model, {"n": np.int64(3), "x": np.zeros(3, np.float32)})["y"]
    assert result.tolist() == [15000, 0, 0]


def test_functions_of_the_model_are_graphs(tmp_path: Any) -> None:
    function = helper.make_function(
        "local",
        "Scaled",
        ["v"],
        ["w"],
        [helper.make_node("LeakyRelu", ["v"], ["t"]), helper.make_node("Neg", ["t"], ["w"])],
        [helper.make_opsetid("", 18)],
        ["alpha"],
    )
    reference = function.node[0].attribute.add()
    reference.name, reference.ref_attr_name, reference.type = "alpha", "alpha", onnx.AttributeProto.FLOAT
    proto = model_of(
        [helper.make_node("Scaled", ["x"], ["y"], name="s", domain="local", alpha=0.5)],
        [info("x", FLOAT, [2])],
        [info("y", FLOAT, [2])],
        functions=[function],
        domains={"local": 1},
    )
    model = there_and_back(proto, tmp_path)
    node = model.graphs[0].get_node("s")
    assert node.functions[0].function == "local::Scaled"
    assert node.functions[0].args == {"input_0": "input_0", "alpha": "alpha"}
    assert run(model, {"x": np.array([-2, 4], np.float32)})["y"].tolist() == [1, -4]


def test_an_attribute_of_a_function_reaches_constants_in_it_and_in_its_branches(tmp_path: Any) -> None:
    proto = onnx.parser.parse_model("""<ir_version: 9, opset_import: ["": 18, "local": 1]>
        g (float[2] x, bool c) => (float[2] y, float[2] z) {
            y = local.f <k = 2.0> (x, c)
            z = local.f (x, c)
        }
        <domain: "local", opset_import: ["": 18]> f <k: float = 3.0> (x, c) => (y) {
            a = Constant <value_float: float = @k> ()
            s = Mul (a, x)
            y = If (c) <
                then_branch = then () => (t) { b = Constant <value_float: float = @k> () t = Add (s, b) },
                else_branch = otherwise () => (e) { e = Neg (s) }
            >
        }""")
    model = there_and_back(proto, tmp_path)
    results = run(model, {"x": np.array([1, -1], np.float32), "c": np.array(True)})
    assert results["y"].tolist() == [4, 0]
    assert results["z"].tolist() == [6, 0]


@pytest.mark.parametrize("engine", ["onnx", "mdf"])
def test_an_output_may_be_given_twice(tmp_path: Any, engine: str) -> None:
    proto = model_of(
        [helper.make_node("Neg", ["x"], ["y"], name="n"), helper.make_node("Exp", ["x"], ["z"], name="Y")],
        [info("x", FLOAT, [1])],
        [info("y", FLOAT, [1]), info("x", FLOAT, [1]), info("z", FLOAT, [1]), info("y", FLOAT, [1])],
    )
    model = there_and_back(proto, tmp_path)
    assert mdf_scatter.check(model) == []
    results = run(model, {"x": np.zeros(1, np.float32)}, engine=engine)
    assert {name: value.tolist() for name, value in results.items()} == {"y": [0], "x": [0], "z": [1]}


def test_operators_that_nobody_knows_are_carried(tmp_path: Any) -> None:
    node = helper.make_node("Fuse", ["x", "", "x", ""], ["", "y", ""], name="f", domain="com.example")
    node.attribute.extend(
        [
            helper.make_attribute("number", 3),
            helper.make_attribute("real", 3.0),
            helper.make_attribute("text", "number"),
            helper.make_attribute("digits", "1e3"),
            helper.make_attribute("texts", ["a", "1"]),
            helper.make_attribute("none", [], attr_type=onnx.AttributeProto.INTS),
            helper.make_attribute("kind", helper.make_tensor_type_proto(FLOAT, ["N", 2])),
            helper.make_attribute("tensor", numpy_helper.from_array(np.arange(3), "inside")),
            helper.make_attribute(
                "sparse",
                helper.make_sparse_tensor(
                    numpy_helper.from_array(np.ones(2, np.float32), "v"),
                    numpy_helper.from_array(np.array([1, 4])),
                    [6],
                ),
            ),
            helper.make_attribute(
                "graphs",
                [
                    helper.make_graph([helper.make_node("Abs", ["x"], ["a"])], f"g{at}", [], [])
                    for at in range(2)
                ],
            ),
            onnx.AttributeProto(name="bytes", type=onnx.AttributeProto.STRING, s=b"\xff\x00"),
        ]
    )
    proto = model_of([node], [info("x", FLOAT, [2])], [info("y", FLOAT, [2])], domains={"com.example": 2})
    model = there_and_back(proto, tmp_path)
    own = model.graphs[0].get_node("f")
    assert own.get_parameter("none").metadata == {"onnx": {"kind": "ints"}}
    assert own.get_parameter("kind").value == "float32[N, 2]"
    with pytest.raises(NoEngineError) as caught:
        run(model, {"x": np.zeros(2, np.float32)})
    assert str(caught.value) == (
        "Fuse 'f': no engine here has an operator of that name in domain 'com.example'; the model can be "
        "carried, drawn and exported, not run"
    )


def test_sequences_optionals_and_maps_go_in_and_out(tmp_path: Any) -> None:
    tensor = helper.make_tensor_type_proto(FLOAT, ["N"])
    several = helper.make_sequence_type_proto(tensor)
    proto = model_of(
        [
            helper.make_node("SequenceInsert", ["s", "x"], ["t"], name="insert"),
            helper.make_node("OptionalHasElement", ["o"], ["h"], name="has"),
        ],
        [
            helper.make_value_info("s", several),
            info("x", FLOAT, ["N"]),
            helper.make_value_info("o", helper.make_optional_type_proto(tensor)),
        ],
        [helper.make_value_info("t", several), info("h", BOOL, [])],
    )
    model = there_and_back(proto, tmp_path)
    x = np.ones(2, np.float32)
    result = run(model, {"s": [x, np.zeros(3, np.float32)], "x": x, "o": None})
    assert [part.tolist() for part in result["t"]] == [[1, 1], [0, 0, 0], [1, 1]]
    assert result["h"].tolist() is False
    with pytest.raises(InputError) as caught:
        run(model, {"s": x, "x": x, "o": x})
    assert str(caught.value) == "input 's' is ndarray; expected a list, for sequence(float32[N])"
    with pytest.raises(InputError) as caught:
        run(model, {"s": [x, np.ones(2)], "x": x, "o": x})
    assert str(caught.value) == "input 's'[1] has dtype float64; expected float32[N]"


def test_maps_of_classifiers(tmp_path: Any) -> None:
    kind = helper.make_map_type_proto(INT64, helper.make_tensor_type_proto(FLOAT, []))
    proto = model_of(
        [
            helper.make_node(
                "ZipMap", ["x"], ["y"], name="zip", domain="ai.onnx.ml", classlabels_int64s=[5, 7]
            )
        ],
        [info("x", FLOAT, [1, 2])],
        [helper.make_value_info("y", helper.make_sequence_type_proto(kind))],
        domains={"ai.onnx.ml": 3},
    )
    model = there_and_back(proto, tmp_path)
    assert run(model, {"x": np.array([[0.25, 0.75]], np.float32)})["y"] == [{5: 0.25, 7: 0.75}]


def test_outputs_left_out_unused_initializers_and_documentation(tmp_path: Any) -> None:
    node = helper.make_node("LSTM", ["x", "w", "r"], ["", "h", ""], name="lstm", hidden_size=2)
    proto = model_of(
        [node],
        [info("x", FLOAT, [1, 1, 2])],
        [info("h", FLOAT, [1, 1, 2])],
        initializers={
            "w": np.ones((1, 8, 2), np.float32),
            "r": np.ones((1, 8, 2), np.float32),
            "spare/1": np.arange(2),
        },
    )
    proto.graph.input[0].doc_string = "what comes in"
    proto.graph.output[0].metadata_props.add(key="k", value="v")
    model = there_and_back(proto, tmp_path)
    assert run(model, {"x": np.zeros((1, 1, 2), np.float32)})["h"].shape == (1, 1, 2)


def sparse(name: str, places: Any) -> onnx.SparseTensorProto:
    values = numpy_helper.from_array(np.array([5, 7], np.float32), name)
    return helper.make_sparse_tensor(values, numpy_helper.from_array(np.array(places)), [4])


@pytest.mark.parametrize("engine", ["onnx", "mdf"])
def test_sparse_tensors_stand_for_dense_ones(tmp_path: Any, engine: str) -> None:
    proto = model_of(
        [
            helper.make_node("Constant", [], ["k"], name="k", sparse_value=sparse("", [[0], [1]])),
            helper.make_node("Mul", ["s/0", "k"], ["m"], name="mul"),
            helper.make_node("Add", ["x", "m"], ["y"], name="add"),
        ],
        [info("x", FLOAT, [4])],
        [info("y", FLOAT, [4])],
    )
    proto.graph.sparse_initializer.append(sparse("s/0", [0, 3]))
    model = there_and_back(proto, tmp_path)
    x = np.ones(4, np.float32)
    assert run(model, {"x": x}, engine=engine)["y"].tolist() == [26, 1, 1, 1]
    product = model.graphs[0].get_node("mul").get_output_port("m")
    assert (product.type, product.shape) == ("float32", (4,)), "not a sparse tensor"
    assert run(mdf_scatter.grad(model), {"x": x, "y_grad": x})["x_grad"].tolist() == [1, 1, 1, 1]


def test_depth_has_no_limit() -> None:
    names = ["x", *(f"v{at}" for at in range(3000)), "y"]
    nodes = [helper.make_node("Neg", [a], [b]) for a, b in pairwise(names)]
    proto = model_of(nodes, [info("x", FLOAT, [1])], [info("y", FLOAT, [1])])
    model = from_onnx(proto)
    assert differences(to_onnx(model), proto) == []
    assert run(model, {"x": np.ones(1, np.float32)})["y"].tolist() == [-1]


def test_nodes_out_of_order_are_put_in_order() -> None:
    nodes = [helper.make_node("Neg", ["h"], ["y"], name="b"), helper.make_node("Exp", ["x"], ["h"], name="a")]
    proto = model_of(nodes, [info("x", FLOAT, [1])], [info("y", FLOAT, [1])])
    written = to_onnx(from_onnx(proto))
    assert [node.name for node in written.graph.node] == ["a", "b"]


def test_what_nothing_gives_is_named() -> None:
    proto = model_of([helper.make_node("Neg", ["h"], ["y"], name="n")], [], [info("y", FLOAT, [1])])
    with pytest.raises(FormatError, match=r"^node 'n' reads 'h', which nothing gives$"):
        from_onnx(proto)


def test_a_graph_that_is_not_there_or_inside_itself_is_named() -> None:
    proto = model_of(
        [branches([helper.make_node("Neg", ["x"], ["a"])], [helper.make_node("Abs", ["x"], ["b"])])],
        [info("x", FLOAT, [1]), info("c", BOOL, [])],
        [info("y", FLOAT, [1])],
    )
    model = from_onnx(proto)
    parameter = model.graphs[0].get_node("choose").get_parameter("then_branch")
    parameter.value = {"graph": "nowhere"}
    with pytest.raises(ModelError, match=r"^the model has no graph 'nowhere'$"):
        to_onnx(model)
    parameter.value = {"graph": "choose.then_branch"}
    inner = next(graph for graph in model.graphs if graph.id == "choose.then_branch")
    inner.nodes.append(model.graphs[0].get_node("choose"))
    with pytest.raises(ModelError, match=r"^graph 'choose.then_branch' is inside itself$"):
        to_onnx(model)
