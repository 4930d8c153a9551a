"""Files <-> models: what is saved is what is loaded, here and in plain modeci-mdf."""

# ruff: noqa: E501 - whole messages stand in the tables
from __future__ import annotations

import copy
import json
from pathlib import Path

import attrs
import ml_dtypes
import numpy as np
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from modeci_mdf.mdf import (
    Condition,
    ConditionSet,
    Edge,
    Function,
    Graph,
    InputPort,
    Model,
    Node,
    OutputPort,
    Parameter,
    ParameterCondition,
)
from modelspec.base_types import Base

from mdf_scatter.errors import FormatError
from mdf_scatter.formats import extract, load, save

SUFFIXES = [".json", ".yaml", ".yml", ".bson"]
SHARED = Path(__file__).parents[2] / "shared" / "mdf_models"
SHARED_MODELS = sorted(
    path for path in SHARED.glob("*") if path.suffix in (".json", ".yaml") and path.name != "manifest.json"
)


def plain(value):
    """Everything a model holds, in a form that == compares down to dtype, shape and sign."""
    if isinstance(value, Base):
        fields = {field.name: plain(getattr(value, field.name)) for field in attrs.fields(type(value))}
        return type(value).__name__, fields
    if isinstance(value, np.ndarray):
        return "array", str(value.dtype), value.shape, repr(value.tolist())
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, bool) or value is None or isinstance(value, str):
        return value
    return "int" if isinstance(value, int) else "float", repr(value)


def read_by_modelspec(path):
    model = Model.from_file(str(path))
    for graph in model.graphs:
        for node in graph.nodes:
            for parameter in node.parameters:  # modelspec leaves these as mappings
                parameter.conditions = [
                    ParameterCondition(**c) if isinstance(c, dict) else c for c in parameter.conditions
                ]
    return model


def model_with(value=None, **fields):
    parameter = Parameter(id="p", value=value, **fields)
    return Model(id="m", graphs=[Graph(id="g", nodes=[Node(id="n", parameters=[parameter])])])


def parameter_of(model):
    return model.graphs[0].nodes[0].parameters[0]


def everything():
    f32 = np.array([[1.5, -0.0]], np.float32)
    node = Node(
        id="n",
        metadata={"a.b": {"deep": [f32, 1]}, "note": "kept"},
        input_ports=[InputPort(id="in", default_value=f32, shape=(1, 2), type="float32", reduce="add")],
        parameters=[
            Parameter(
                id="p",
                default_initial_value=np.zeros((0, 2), np.float16),
                args={"x": np.array(7, np.int8), "y": ["keep", np.array([True])]},
                conditions=[
                    ParameterCondition(id="on", test="p > 1", value=np.array([1], ml_dtypes.bfloat16))
                ],
            ),
            Parameter(id="q", value=[]),
            Parameter(id="r", value=[1, 2.0, "x", None]),
        ],
        functions=[
            Function(id="f", function="linear", args={"indices": np.array([[4], [3]]), "b.c": f32}),
            Function(id="h", value=np.array(["1", "true"], object)),
        ],
        output_ports=[OutputPort(id="out", value="f", shape=(1, 2))],
    )
    condition = Condition("All", dependencies=[Condition("AfterCall", dependencies="n", n=2)], w=f32)
    condition.metadata = {"kept": 1}
    graph = Graph(
        id="g",
        nodes=[node, Node(id="1")],
        edges=[
            Edge(
                id="e",
                sender="n",
                sender_port="out",
                receiver="1",
                receiver_port="x",
                parameters={"weight": f32},
            )
        ],
        parameters={"global": np.complex64([1 - 2j])},
        conditions=ConditionSet(node_specific={"n": Condition("Always")}, termination={"trial": condition}),
        metadata={"onnx": {"inputs": ["x"]}},
    )
    return Model(id="m", graphs=[graph], onnx_opset_version="18", metadata={"by": np.uint64(2**64 - 1)})


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_model_comes_back_whole_and_is_not_changed(tmp_path, suffix):
    model = everything()
    before = plain(copy.deepcopy(model))
    path = tmp_path / f"m{suffix}"
    save(model, path)
    assert plain(model) == before
    model.metadata["by"] = np.asarray(model.metadata["by"])  # a NumPy scalar is saved as a 0-d array
    assert plain(load(path)) == plain(model)
    assert path.read_bytes().endswith(b"\n") or suffix == ".bson"
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_plain_modeci_mdf_reads_what_is_saved(tmp_path, suffix):
    path = tmp_path / f"m{suffix}"
    save(everything(), path)
    node = read_by_modelspec(path).graphs[0].nodes[0]
    assert node.input_ports[0].default_value == [[1.5, -0.0]]
    assert node.functions[0].args["indices"] == [[4], [3]]
    assert node.parameters[0].conditions[0].value == [1.0]


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_types_survive_a_visit_to_plain_modeci_mdf(tmp_path, suffix):
    path = tmp_path / f"m{suffix}"
    save(everything(), path)
    visited = Model.from_file(str(path))
    {".json": visited.to_json_file, ".bson": visited.to_bson_file}.get(suffix, visited.to_yaml_file)(
        str(path)
    )
    found, expected = load(path).graphs[0].nodes[0], everything().graphs[0].nodes[0]
    for name in ("input_ports", "functions"):
        assert plain(getattr(found, name)) == plain(getattr(expected, name))
    assert plain(found.parameters[0]) == plain(expected.parameters[0])


@pytest.mark.parametrize("path", SHARED_MODELS, ids=lambda path: path.name)
def test_existing_files(tmp_path, path):
    try:
        expected = plain(read_by_modelspec(path))
    except Exception:
        expected = None
    model = load(path)
    assert expected is None or plain(model) == expected
    for suffix in SUFFIXES:
        copied = tmp_path / f"m{suffix}"
        save(model, copied)
        assert plain(load(copied)) == plain(model)
        assert plain(read_by_modelspec(copied)) == plain(model)


NASTY = ["", " x ", "1", "1e-3", "true", "on", "null", "~", ".nan", "a\nb\n", "\ttab", "'\"", "- a", "a: b", "#c",
         "\x85\u2028\ufeff", "\x00nul", "\U0001f600", "<<", "=", "2001-01-01", "1:30", "0x", "0x_", "*a", "!!str"]  # fmt: skip


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("text", NASTY)
def test_nasty_text_comes_back(tmp_path, suffix, text):
    model = model_with(text)
    model.graphs[0].nodes[0].metadata = {"array": np.array([text], object), "list": [text]}
    if "\x00" not in text:  # BSON has no NUL in a key
        model.graphs[0].nodes[0].metadata[text] = 1
    path = tmp_path / f"m{suffix}"
    save(model, path)
    assert plain(load(path)) == plain(model)
    assert read_by_modelspec(path).graphs[0].nodes[0].parameters[0].value == text


@given(st.text(), st.text(min_size=1), st.sampled_from(SUFFIXES))
def test_any_text_comes_back_or_is_refused(tmp_path_factory, text, key, suffix):
    model = model_with([text, {key: text}])
    path = tmp_path_factory.getbasetemp() / f"any{suffix}"
    try:
        save(model, path)
    except FormatError as error:
        assert "\0" in key
        assert "BSON holds no NUL in a key" in str(error)  # noqa: PT017
    else:
        assert plain(load(path)) == plain(model)


def test_surrogates_come_back_or_are_refused(tmp_path):
    save(model_with("\ud800"), tmp_path / "m.json")
    assert parameter_of(load(tmp_path / "m.json")).value == "\ud800"
    place = "graphs.g.nodes.n.parameters.p.value"
    for suffix, text in ((".yaml", "\ud800"), (".bson", "\ud800"), (".json", "\ud83d\ude00")):
        path = tmp_path / f"n{suffix}"
        with pytest.raises(FormatError) as raised:
            save(model_with(text), path)
        assert str(raised.value) == f"{path}: m.{place} is {text!r}; {suffix} files hold no such surrogates"


@pytest.mark.parametrize(
    "id_", ["on", "y", "1", "1e3", "null", "~", "true", "01", "0x1F", ".5", "2001-01-01"]
)
def test_ids_typed_without_quotes_stay_as_typed(tmp_path, id_):
    text = f"""
m:
    graphs:
        g:
            nodes:
                {id_}: {{output_ports: {{{id_}: {{value: 1.50}}}}}}
                b: {{input_ports: {{{id_}: }}}}
            edges:
                e: {{sender: {id_}, sender_port: {id_}, receiver: b, receiver_port: {id_}}}
"""
    (tmp_path / "m.yaml").write_text(text)
    graph = load(tmp_path / "m.yaml").graphs[0]
    edge = graph.edges[0]
    assert [node.id for node in graph.nodes] == [id_, "b"]
    assert graph.nodes[0].output_ports[0].id == graph.nodes[1].input_ports[0].id == id_
    assert [edge.sender, edge.sender_port, edge.receiver, edge.receiver_port] == [id_, id_, "b", id_]


@pytest.mark.parametrize(
    ("text", "value"),
    [("1e-3", 0.001), ("1E5", 1e5), (".5", 0.5), ("-1.5e3", -1500.0), ("0o17", 15), ("0x1F", 31), ("12", 12),
     (".inf", float("inf")), ("-.INF", float("-inf")), ("~", None), ("", None), ("true", True), ("off", False),
     ("'1e-3'", "1e-3"), ("2001-01-01", "2001-01-01"), ("a + 1", "a + 1"), ("1e", "1e"), ("0x_", "0x_")],
)  # fmt: skip
def test_what_unquoted_yaml_means(tmp_path, text, value):
    (tmp_path / "m.yaml").write_text(
        f"m: {{graphs: {{g: {{nodes: {{n: {{parameters: {{p: {{value: {text}}}}}}}}}}}}}}}"
    )
    found = parameter_of(load(tmp_path / "m.yaml")).value
    assert (type(found), found) == (type(value), value)


@pytest.mark.parametrize(
    ("written", "shape"),
    [
        ([2, 3], (2, 3)),
        ("(1,)", (1,)),
        ("1, 2", (1, 2)),
        ("(2, 2)", (2, 2)),
        ("()", ()),
        ("5", (5,)),
        (" [2,3,] ", (2, 3)),
        (None, None),
    ],
)
def test_shapes_as_people_write_them(tmp_path, written, shape):
    node = {"input_ports": {"i": {"shape": written}}}
    (tmp_path / "m.json").write_text(json.dumps({"m": {"graphs": {"g": {"nodes": {"n": node}}}}}))
    assert load(tmp_path / "m.json").graphs[0].nodes[0].input_ports[0].shape == shape


def test_aliases_and_merge_keys_are_read_and_never_written(tmp_path):
    (tmp_path / "m.yaml").write_text(
        "m: {graphs: {g: {nodes: {n: {parameters: {a: &a {value: &v [1, 2]}, b: {<<: *a, function: f}, c: {value: *v}}}}}}}"
    )
    model = load(tmp_path / "m.yaml")
    a, b, c = model.graphs[0].nodes[0].parameters
    assert (b.function, a.value, b.value, c.value) == ("f", [1, 2], [1, 2], [1, 2])
    assert a.value is not b.value
    c.value = a.value
    save(model, tmp_path / "out.yaml")
    assert "*" not in (tmp_path / "out.yaml").read_text()


def test_a_saved_node_is_readable(tmp_path):
    node = Node(
        id="scatter_1",
        input_ports=[InputPort(id="data", shape=(8,), type="float32")],
        parameters=[
            Parameter(id="reduction", value="add"),
            Parameter(id="indices", value=np.array([[4], [3], [1], [7]])),
        ],
        functions=[Function(id="scatter", function="ScatterND", args={"data": "data", "indices": "indices"})],
        output_ports=[OutputPort(id="output", value="scatter", shape=(8,), type="float32")],
    )
    model = Model(id="m", graphs=[Graph(id="g", nodes=[node])], format="F", generating_application="A")
    save(model, tmp_path / "m.yaml")
    assert (
        (tmp_path / "m.yaml").read_text()
        == """\
m:
    format: F
    generating_application: A
    graphs:
        g:
            nodes:
                scatter_1:
                    input_ports:
                        data: {shape: [8], type: float32}
                    functions:
                        scatter:
                            function: ScatterND
                            args: {data: data, indices: indices}
                    parameters:
                        reduction: {value: add}
                        indices:
                            value: [[4], [3], [1], [7]]
                            metadata:
                                arrays: {value: 'int64[4, 1]'}
                    output_ports:
                        output: {value: scatter, shape: [8], type: float32}
"""
    )


def test_json_keeps_small_lists_on_a_line_and_texts_whole(tmp_path):
    save(model_with([[1, 2.5], ["[\n    1\n]"]]), tmp_path / "m.json")
    assert "[1, 2.5]" in (tmp_path / "m.json").read_text()
    assert parameter_of(load(tmp_path / "m.json")).value == [[1, 2.5], ["[\n    1\n]"]]


# ---- the side file ----------------------------------------------------------------------------------


def big(dtype=np.float32, count=1200):
    return (np.arange(count) % 7).astype(dtype).reshape(-1, 4)


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.uint64, bool, ml_dtypes.bfloat16, np.complex64,
                                   np.complex128, ml_dtypes.float8_e4m3fn, ml_dtypes.int4, ">i2"])  # fmt: skip
def test_large_arrays_stand_beside_the_model(tmp_path, suffix, dtype):
    array = big(np.int8).astype(dtype) if dtype is not bool else big() > 3
    path = tmp_path / f"m{suffix}"
    save(model_with(array), path)
    assert sorted(file.name for file in tmp_path.iterdir()) == sorted(["m.safetensors", path.name])
    assert len(path.read_bytes()) < 2000
    model = load(path)
    assert parameter_of(model).value.dtype == np.dtype(dtype).newbyteorder("=")
    assert np.array_equal(parameter_of(model).value, array)
    assert model.metadata is None


def test_text_and_a_thousand_elements_stay_in_the_model(tmp_path):
    model = model_with(np.arange(1000))
    model.graphs[0].nodes[0].metadata = {"t": np.array(["a"] * 2000, object)}
    save(model, tmp_path / "m.json")
    assert [file.name for file in tmp_path.iterdir()] == ["m.json"]
    assert plain(load(tmp_path / "m.json")) == plain(model)


def test_shared_weights_stay_shared_and_are_written_once(tmp_path):
    shared = big()
    model = model_with({"a": shared, "b": [shared]})
    save(model, tmp_path / "m.json")
    assert (tmp_path / "m.safetensors").stat().st_size < 2 * shared.nbytes
    value = parameter_of(load(tmp_path / "m.json")).value
    assert value["a"] is value["b"][0]


def test_payload_of_nan_survives_in_the_side_file(tmp_path):
    bits = np.full(1001, 0x7FC12345, np.uint32)
    save(model_with(bits.view(np.float32)), tmp_path / "m.yaml")
    assert np.array_equal(parameter_of(load(tmp_path / "m.yaml")).value.view(np.uint32), bits)


def test_embed_writes_one_file_and_takes_its_own_side_file_away(tmp_path):
    path = tmp_path / "m.yaml"
    model = model_with(big())
    save(model, path)
    save(model, path, embed=True)
    assert [file.name for file in tmp_path.iterdir()] == ["m.yaml"]
    assert plain(load(path)) == plain(model)


def test_a_side_file_that_another_model_needs_stays(tmp_path):
    model = model_with(big())
    for name in ("m.yaml", "m.json"):
        save(model, tmp_path / name)
    save(model_with(1), tmp_path / "m.yaml")
    assert plain(load(tmp_path / "m.json")) == plain(model)
    path = tmp_path / "m.yaml"
    with pytest.raises(FormatError) as raised:
        save(model_with(big() + 1), path)
    assert str(raised.value) == (
        f"{path}: m.safetensors holds arrays of m.json too; save under another name, or embed"
    )
    assert plain(load(tmp_path / "m.json")) == plain(model)


def test_a_foreign_file_is_not_overwritten(tmp_path):
    (tmp_path / "m.safetensors").write_bytes(b"weights of somebody")
    path = tmp_path / "m.yaml"
    with pytest.raises(FormatError) as raised:
        save(model_with(big()), path)
    assert str(raised.value) == (
        f"{path}: the arrays would overwrite m.safetensors, which is not a model's side file; "
        "save under another name, embed, or move that file"
    )
    save(model_with(1), path)
    assert (tmp_path / "m.safetensors").read_bytes() == b"weights of somebody"


def test_saving_again_replaces_the_arrays(tmp_path):
    path = tmp_path / "m.bson"
    for offset in (0, 1):
        save(model_with(big() + offset), path)
        assert np.array_equal(parameter_of(load(path)).value, big() + offset)


def test_a_missing_side_file(tmp_path):
    path = tmp_path / "m.yaml"
    save(model_with(big()), path)
    (tmp_path / "m.safetensors").unlink()
    with pytest.raises(FormatError) as raised:
        load(path)
    assert str(raised.value) == (
        f"{path}: the side file 'm.safetensors', which holds the model's large arrays, is not in {tmp_path}"
    )


def test_a_changed_side_file(tmp_path):
    path = tmp_path / "m.yaml"
    save(model_with(big()), path)
    side = tmp_path / "m.safetensors"
    side.write_bytes(side.read_bytes()[:-1] + b"\1")
    with pytest.raises(FormatError) as raised:
        load(path)
    assert str(raised.value) == (
        f"{path}: the side file 'm.safetensors' has changed since the model was saved; "
        "put back the file that was saved with it"
    )


def test_a_moved_pair_of_files_loads(tmp_path):
    save(model_with(big()), tmp_path / "m.yaml")
    (tmp_path / "elsewhere").mkdir()
    for name in ("m.yaml", "m.safetensors"):
        (tmp_path / name).rename(tmp_path / "elsewhere" / name)
    assert np.array_equal(parameter_of(load(tmp_path / "elsewhere" / "m.yaml")).value, big())


# ---- what cannot be saved ---------------------------------------------------------------------------


def graph_with(**fields):
    return Model(id="m", graphs=[Graph(id="g", **fields)])


EDGE = {"id": "e", "sender": "a", "receiver": "b", "sender_port": "o", "receiver_port": "i"}


def looped():
    value = []
    value.append(value)
    return value


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (Model(id="m", graphs=[Graph(id="g"), Graph(id="g")]), "model 'm' has two graphs 'g'; one of them would be lost"),
        (graph_with(nodes=[Node(id="n"), Node(id="n")]), "model 'm', graph 'g' has two nodes 'n'; one of them would be lost"),
        (graph_with(edges=[Edge(**EDGE), Edge(**EDGE)]), "model 'm', graph 'g' has two edges 'e'; one of them would be lost"),
        (graph_with(nodes=[Node(id="n", input_ports=[InputPort(id="i"), InputPort(id="i")])]),
         "model 'm', graph 'g', node 'n' has two input ports 'i'; one of them would be lost"),
        (model_with({1: 2}), "model 'm', graph 'g', node 'n', parameter 'p': value has 1 as a key; the keys of a file are text"),
        (model_with([b"x"]), "model 'm', graph 'g', node 'n', parameter 'p': value[0] is a bytes; a file holds numbers, text, lists, mappings and NumPy arrays"),
        (model_with(np.array([1, None])), "model 'm', graph 'g', node 'n', parameter 'p': value[0] is 1; an array of objects holds text"),
        (model_with(1, metadata={"arrays": {}}), "model 'm', graph 'g', node 'n', parameter 'p' has 'arrays' in its metadata, where a file keeps what it knows of arrays; rename it"),
        (Model(id="m", metadata={"tensors": {"file": "x"}}), "model 'm' has 'tensors' in its metadata, where a file keeps what it knows of arrays; rename it"),
        (5, "cannot hold a int; expected a modeci_mdf.mdf.Model"),
    ],
)  # fmt: skip
def test_models_that_cannot_be_saved(tmp_path, model, message):
    path = tmp_path / "m.yaml"
    path.write_text("before")
    with pytest.raises(FormatError) as raised:
        save(model, path)
    assert str(raised.value) == f"{path}: {message}"
    assert path.read_text() == "before"
    assert len(list(tmp_path.iterdir())) == 1


def test_a_value_that_holds_itself(tmp_path):
    with pytest.raises(FormatError, match=r"value\[0\]\[0\].* is nested too deep, or holds itself$"):
        save(model_with(looped()), tmp_path / "m.json")


def test_integers_that_bson_cannot_hold(tmp_path):
    path = tmp_path / "m.bson"
    save(model_with(np.array([2**64 - 1], np.uint64)), path)
    assert parameter_of(load(path)).value.tolist() == [2**64 - 1]
    with pytest.raises(FormatError) as raised:
        save(model_with(2**63), path)
    assert str(raised.value) == (
        f"{path}: m.graphs.g.nodes.n.parameters.p.value is {2**63}; BSON holds whole numbers of 64 bits"
    )


@pytest.mark.parametrize("suffix", [".json", ".yaml"])
def test_very_long_integers(tmp_path, suffix):
    path = tmp_path / f"m{suffix}"
    save(model_with([10**3000, -(10**60)]), path)
    assert parameter_of(load(path)).value == [10**3000, -(10**60)]
    with pytest.raises(FormatError) as raised:
        save(model_with(1 << 20_000), path)
    assert str(raised.value) == (
        f"{path}: m.graphs.g.nodes.n.parameters.p.value is an integer of 20001 bits; a file holds at most 13000"
    )


def test_a_user_s_own_metadata_of_those_names_is_kept(tmp_path):
    model = Model(id="m", metadata={"tensors": [1], "arrays": "mine"})
    save(model, tmp_path / "m.yaml")
    assert load(tmp_path / "m.yaml").metadata == {"tensors": [1], "arrays": "mine"}


@pytest.mark.parametrize("name", ["m.txt", "m", "m.xml"])
def test_unknown_suffixes(tmp_path, name):
    path = tmp_path / name
    what = f"a file ending in '{path.suffix}' is" if path.suffix else "a file without an ending is"
    known = "'.json', '.yaml', '.yml', '.bson', '.onnx', '.png', '.svg', '.pdf' or '.html'"
    for action in (lambda: load(path), lambda: save(model_with(1), path)):
        with pytest.raises(FormatError) as raised:
            action()
        assert str(raised.value) == f"{path}: {what} not supported; expected {known}"


@pytest.mark.parametrize(("path", "kind"), [(None, "NoneType"), (5, "int"), (b"m.yaml", "bytes")])
def test_what_is_no_path(path, kind):
    for action in (lambda: load(path), lambda: save(model_with(1), path), lambda: extract(path)):
        with pytest.raises(FormatError) as raised:
            action()
        assert str(raised.value) == f"the path is of type {kind}; expected a str or os.PathLike"


def test_a_folder_that_is_not_there(tmp_path):
    path = tmp_path / "none" / "m.yaml"
    with pytest.raises(FormatError) as raised:
        save(model_with(1), path)
    why = f"there is no folder {str(path.parent)!r}; make it first"
    assert str(raised.value) == f"{path}: cannot be written: {why}"


def test_yaml_without_its_c_parser_reads_the_same(tmp_path, monkeypatch):
    from mdf_scatter.formats import yaml_text

    save(everything(), tmp_path / "m.yaml")
    expected = plain(load(tmp_path / "m.yaml"))
    monkeypatch.setattr(yaml_text, "_Events", yaml.SafeLoader)
    assert plain(load(tmp_path / "m.yaml")) == expected
