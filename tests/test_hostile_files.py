"""Wrong and hostile files: one line that says what is wrong, quickly, and nothing is ever evaluated."""

# ruff: noqa: E501 - whole messages stand in the tables
from __future__ import annotations

import hashlib
import json
import os
import struct
import subprocess
import sys
import time

import bson
import numpy as np
import onnx
import pytest
import yaml
from modeci_mdf.mdf import Graph, Model, Node, Parameter

from mdf_scatter.errors import FormatError
from mdf_scatter.formats import load, save, yaml_text
from mdf_scatter.formats.onnx_file import read_proto

SUFFIXES = [".json", ".yaml", ".bson"]


def refused(path, data=None):
    """Return what `load` says about a file, after its name."""
    if data is not None:
        path.write_bytes(data if isinstance(data, bytes) else data.encode())
    with pytest.raises(FormatError) as raised:
        load(path)
    message = str(raised.value)
    assert message.startswith(f"{path}: ")
    assert "\n" not in message
    assert len(message) < len(str(path)) + 250
    return message.removeprefix(f"{path}: ")


# ---- files that are not models ----------------------------------------------------------------------


@pytest.mark.parametrize("suffix", [*SUFFIXES, ".onnx"])
def test_no_file_a_folder_an_empty_file(tmp_path, suffix):
    assert refused(tmp_path / f"m{suffix}") == "there is no such file"
    (tmp_path / f"d{suffix}").mkdir()
    assert refused(tmp_path / f"d{suffix}") == "is a directory; expected a model file"
    assert refused(tmp_path / f"e{suffix}", b"") == "is empty"


@pytest.mark.skipif(not hasattr(os, "mkfifo") or os.name == "nt", reason="needs named pipes")
def test_a_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "m.yaml")
    assert refused(tmp_path / "m.yaml") == "is not a regular file; expected a model file"


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may read everything")
def test_no_permission(tmp_path):
    (tmp_path / "m.yaml").write_text("m: {graphs: {}}")
    (tmp_path / "m.yaml").chmod(0)
    assert refused(tmp_path / "m.yaml") == "cannot be read: Permission denied"


def test_a_file_too_large_is_not_read(tmp_path):
    path = tmp_path / "m.json"
    with path.open("wb") as file:
        file.truncate(2**40)
    assert refused(path) == f"has {2**40} bytes; a model file has at most {2**31 - 1}"


@pytest.mark.parametrize(
    ("suffix", "data", "message"),
    [
        (".json", " \n", "is empty"),
        (".yaml", "# only a comment\n---\n", "holds null; expected a mapping from the model's id to the model"),
        (".yaml", "# only a comment\n", "is empty"),
        (".json", b"\x93NUMPY\xff", "is not UTF-8 text: byte 0x93 in line 1"),
        (".yaml", "m:\n  a".encode("utf-16"), "is not UTF-8 text (it looks like UTF-16 or binary data); save it as UTF-8"),
        (".json", "{}".encode("utf-16-le"), "is not UTF-8 text (it looks like UTF-16 or binary data); save it as UTF-8"),
        (".yaml", b"m: a\nb: \xff", "is not UTF-8 text: byte 0xff in line 2"),
        (".yaml", b"m: a\x01", "is not YAML: control characters are not allowed (at byte 4)"),
        (".json", '{"m": {"graphs"', "is not JSON: Expecting ':' delimiter at line 1, column 16"),
        (".yaml", "m: {graphs: {", "is not YAML: did not find expected node content at line 2, column 1"),
        (".yaml", "m: [1, 2\nb: }", "is not YAML: did not find expected ',' or ']' at line 2, column 2"),
        (".yaml", "m:\n\tgraphs: {}", "is not YAML: line 2 is indented by a tab; use spaces"),
        (".json", '{"m": 1, // one', "has a comment at line 1, column 10; JSON has none"),
        (".json", '{"m": 1,\n# one', "has a comment at line 2, column 1; JSON has none"),
        (".json", '{"m": [1, 2,]}', "has a comma before ']' at line 1, column 13; JSON has none there"),
        (".json", "{'m': 1}", "has a single quote at line 1, column 2; JSON's are double"),
        (".json", "[1]", "holds a list; expected a mapping from the model's id to the model"),
        (".yaml", "just text", "holds 'just text'; expected a mapping from the model's id to the model"),
        (".json", "{}", "holds an empty mapping; expected a mapping from the model's id to the model"),
        (".json", '{"m": {"nodes": {}}}', "is not an MDF model: 'm' has no 'graphs'"),
        (".json", '{"m": 5}', "is not an MDF model: 'm' has no 'graphs'"),
        (".json", '{"a": {"graphs": {}}, "b": {"graphs": {}}}', "holds 2 models, 'a' and 'b'; expected one"),
        (".yaml", "a: {graphs: {}}\n---\nb: {graphs: {}}", "holds several YAML documents; expected one"),
        (".json", '{"m": {"graphs": ' + "9" * 5000 + "}}", "is not JSON that can be read: a number in it has thousands of digits"),
        (".bson", b"\x10\0\0\0abc", "is not BSON, or is cut off: it says it has 16 bytes, and has 7"),
        (".bson", b"\x0c\0\0\0\x99ab\0\0\0\0\0", None),
    ],
)  # fmt: skip
def test_files_that_are_not_models(tmp_path, suffix, data, message):
    found = refused(tmp_path / f"m{suffix}", data)
    assert found == message or (message is None and found.startswith("is not BSON: "))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("format: x, Graphs: {}", "model 'm' has 'Graphs', which is no field; did you mean 'graphs'?"),
        ("graphs: {g: {node: {}}}", "model 'm', graph 'g' has 'node', which is no field; did you mean 'nodes'?"),
        ("graphs: {g: {nodes: {n: {outputPorts: {}}}}}", "model 'm', graph 'g', node 'n' has 'outputPorts', which is no field; did you mean 'output_ports'?"),
        ("graphs: {g: {nodes: {n: {paramters: {}}}}}", "model 'm', graph 'g', node 'n' has 'paramters', which is no field; did you mean 'parameters'?"),
        ("graphs: {g: {nodes: {n: {input_ports: {i: {dtype: int64}}}}}}", "model 'm', graph 'g', node 'n', input port 'i' has 'dtype', which is no field; did you mean 'type'?"),
    ],
)  # fmt: skip
def test_a_misspelt_field_is_not_passed_over(tmp_path, text, message):
    assert refused(tmp_path / "m.yaml", f"m: {{{text}}}") == message


def test_what_is_no_field_is_left_out(tmp_path):
    text = "m: {cells: 1, graphs: {g: {notes: a, nodes: {n: {notes: a, type: 1, node: 2, nodes: 3}}}}}"
    (tmp_path / "m.yaml").write_text(text)
    assert load(tmp_path / "m.yaml").to_dict() == {
        "m": {
            "format": "ModECI MDF v0.4",
            "generating_application": load(tmp_path / "m.yaml").generating_application,
            "graphs": {"g": {"nodes": {"n": {}}}},
        }
    }
    many = ", ".join(f"own_{i}: 0" for i in range(20_000))
    (tmp_path / "m.yaml").write_text(f"m: {{graphs: {{g: {{nodes: {{n: {{{many}}}}}}}}}}}")
    start = time.perf_counter()
    load(tmp_path / "m.yaml")
    assert time.perf_counter() - start < 5


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_every_truncation_is_refused(tmp_path, suffix):
    path = tmp_path / f"m{suffix}"
    save(
        Model(
            id="m", graphs=[Graph(id="g", nodes=[Node(id="n", parameters=[Parameter(id="p", value=[1])])])]
        ),
        path,
    )
    data = path.read_bytes().rstrip(b"\n")
    for length in range(0, len(data) - 1, 3):
        path.write_bytes(data[:length])
        try:
            load(path)
        except FormatError as error:
            assert "\n" not in str(error)  # noqa: PT017
        else:  # a YAML file may be cut off where a shorter one ends
            assert suffix == ".yaml"


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_damaged_files_never_end_in_another_exception(tmp_path, suffix):
    path = tmp_path / f"m{suffix}"
    save(
        Model(
            id="m",
            graphs=[Graph(id="g", nodes=[Node(id="n", parameters=[Parameter(id="p", value=np.ones(3))])])],
        ),
        path,
    )
    data = path.read_bytes()
    random = np.random.default_rng(0)
    for _ in range(300):
        damaged = bytearray(data)
        for place in random.integers(0, len(data), 2):
            damaged[place] = random.integers(0, 256)
        path.write_bytes(damaged)
        try:
            load(path)
        except FormatError as error:
            assert "\n" not in str(error)  # noqa: PT017


def test_a_byte_order_mark_is_no_harm(tmp_path):
    for suffix in (".json", ".yaml"):
        (tmp_path / f"m{suffix}").write_bytes(b'\xef\xbb\xbf{"m": {"graphs": {}}}')
        assert load(tmp_path / f"m{suffix}").id == "m"


# ---- fields of the wrong kind -----------------------------------------------------------------------


def graph_of(graph):
    return json.dumps({"m": {"graphs": {"g": graph}}})


def node_of(node):
    return graph_of({"nodes": {"n": node}})


def parameter_of(parameter):
    return node_of({"parameters": {"p": parameter}})


EDGE = {"sender": "a", "receiver": "b", "sender_port": "o", "receiver_port": "i"}
G = "model 'm', graph 'g'"
N = f"{G}, node 'n'"
P = f"{N}, parameter 'p'"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"m": {"graphs": [1]}}', "model 'm': graphs is a list; expected a mapping from ids"),
        ('{"m": {"graphs": {"g": 5}}}', f"{G} is 5; expected a mapping of its fields"),
        (graph_of({"nodes": [{"id": "n"}]}), f"{G}: nodes is a list; expected a mapping from ids"),
        (graph_of({"nodes": {"n": "x"}}), f"{N} is 'x'; expected a mapping of its fields"),
        (graph_of({"edges": {"e": {"sender": "a"}}}), f"{G}, edge 'e' has no 'receiver'"),
        (graph_of({"edges": {"e": {**EDGE, "parameters": 1}}}), f"{G}, edge 'e': parameters is 1; expected a mapping"),
        (graph_of({"conditions": 1}), f"{G}, conditions is 1; expected a mapping of its fields"),
        (graph_of({"conditions": {"termination": [1]}}), f"{G}, conditions: termination is a list; expected a mapping to conditions"),
        (graph_of({"conditions": {"node_specific": {"n": {}}}}), f"{G}, conditions, node_specific 'n' has no 'type'"),
        (graph_of({"metadata": "x"}), f"{G}: metadata is 'x'; expected a mapping"),
        (node_of({"input_ports": {"i": 5}}), f"{N}, input port 'i' is 5; expected a mapping of its fields"),
        (node_of({"input_ports": {"i": {"shape": ["a"]}}}), f"{N}, input port 'i': shape is ['a']; expected whole numbers such as [8, 4]"),
        (node_of({"input_ports": {"i": {"shape": "__import__('os')"}}}), f"{N}, input port 'i': shape is \"__import__('os')\"; expected whole numbers such as [8, 4]"),
        (node_of({"input_ports": {"i": {"shape": "1" * 900 + "x"}}}), f"{N}, input port 'i': shape is '{'1' * 56}...; expected whole numbers such as [8, 4]"),
        (node_of({"input_ports": {"i": {"type": []}}}), f"{N}, input port 'i': type is a list; expected text"),
        (node_of({"output_ports": {"o": {"value": {}}}}), f"{N}, output port 'o': value is a mapping; expected text"),
        (node_of({"functions": {"f": {"args": "x"}}}), f"{N}, function 'f': args is 'x'; expected a mapping"),
        (parameter_of({"conditions": [{"test": 1}]}), f"{P}: conditions holds a mapping without an id; expected a mapping from ids"),
        (parameter_of({"conditions": [{"id": "a"}, {"id": "a"}]}), f"{P} has two conditions 'a'"),
        (parameter_of({"metadata": {"arrays": {"value": "int8[1]"}}}), f"{P}: value has a type in the metadata, but nothing stands there"),
        (parameter_of({"value": 1, "metadata": {"arrays": {"a[": "int8[1]"}}}), f"{P}: the metadata 'arrays' names 'a[', which is not a path"),
        (parameter_of({"value": [1, 2], "metadata": {"arrays": {"value": "int8[3]"}}}), f"{P}: value is a list of 2; int8[3] needs a list of 3 there"),
        (parameter_of({"value": 1, "metadata": {"arrays": {"value": "int9[]"}}}), f"{P}: value has the type 'int9[]'; expected one such as 'float32[8, 4]'"),
        (parameter_of({"value": {"tensor": "x"}, "metadata": {"arrays": {"value": "int8[1]"}}}), f"{P}: value is kept in a side file, and the model's metadata names none"),
    ],
)  # fmt: skip
def test_fields_of_the_wrong_kind(tmp_path, text, message):
    assert refused(tmp_path / "m.json", text) == message
    assert refused(tmp_path / "m.yaml", text) == message
    assert refused(tmp_path / "m.bson", bson.encode(json.loads(text))) == message


def test_null_is_no_id_where_it_is_not_a_text(tmp_path):
    text = graph_of({"edges": {"e": {**EDGE, "sender": None}}})
    assert refused(tmp_path / "m.json", text) == f"{G}, edge 'e': sender is null; expected text"
    (tmp_path / "m.yaml").write_text(text)
    assert load(tmp_path / "m.yaml").graphs[0].edges[0].sender == "null"


def test_ids_in_messages_are_short(tmp_path):
    text = json.dumps({"m": {"graphs": {"g" * 10_000: 5}}})
    assert refused(tmp_path / "m.json", text) == (
        f"model 'm', graph '{'g' * 56}... is 5; expected a mapping of its fields"
    )


def test_unknown_fields_are_left_out(tmp_path):
    (tmp_path / "m.json").write_text(graph_of({"notes": "x", "nodes": {"n": {"notes": [1], "graphs": 3}}}))
    assert load(tmp_path / "m.json").graphs[0].nodes[0].id == "n"


def test_keys_that_stand_twice(tmp_path):
    yaml_text = "m:\n  graphs:\n    g: {nodes: {}}\n    h: {}\n    g: {}\n"
    assert refused(tmp_path / "m.yaml", yaml_text) == "has the key 'g' twice in one mapping, in lines 3 and 5"
    assert refused(tmp_path / "m.json", '{"m": {"graphs": {"g": 1, "g": 2}}}') == (
        "has the key 'g' twice in one mapping"
    )
    data = bson.encode({"m": {"graphs": {"g": 1, "h": 1}}}).replace(b"h\0", b"g\0")
    assert refused(tmp_path / "m.bson", data) == "has the key 'g' twice in one mapping"


def test_bson_types_that_no_model_has(tmp_path):
    for value, name in (
        (bson.Code("x"), "Code"),
        (bson.ObjectId(), "ObjectId"),
        (b"x", "bytes"),
        (bson.Regex("x"), "Regex"),
    ):
        data = bson.encode({"m": {"graphs": {"g": {"parameters": {"p": value}}}}})
        assert refused(tmp_path / "m.bson", data).startswith(
            f"{G}: parameters holds a {name}; a model holds "
        )


# ---- YAML's own traps -------------------------------------------------------------------------------


@pytest.mark.parametrize("parser", ["C", "pure"])
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("m: !!python/object/apply:os.system ['touch pwned']", "has the tag 'tag:yaml.org,2002:python/object/apply:os.system' in line 1; a model has no tags"),
        ("m:\n  graphs: !!python/name:os.system", "has the tag 'tag:yaml.org,2002:python/name:os.system' in line 2; a model has no tags"),
        ("m: !custom {}", "has the tag '!custom' in line 1; a model has no tags"),
        ("m: &a {graphs: *a}", "uses the alias 'a' inside itself in line 1"),
        ("m: &a [*a]", "uses the alias 'a' inside itself in line 1"),
        ("m: {graphs: *a}", "uses the alias 'a' in line 1, which nothing above defines"),
        ("m: {<<: 5}", "merges '5' with '<<' above line 1; expected a mapping"),
        ("? [1, 2]\n: 3", "has a list as a key in line 1; expected a name"),
        ("a: " + "[" * 200, "is nested deeper than 100 levels in line 1"),
    ],
)  # fmt: skip
def test_what_yaml_can_do_and_a_model_may_not(tmp_path, monkeypatch, parser, text, message):
    if parser == "pure":
        monkeypatch.setattr(yaml_text, "_Events", yaml.SafeLoader)
    assert refused(tmp_path / "m.yaml", text) == message


@pytest.mark.parametrize("merge", [False, True])
def test_a_bomb_of_aliases(tmp_path, merge):
    lines = ["a0: &a0 {x: 1, y: 2}" if merge else "a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1]"]
    for level in range(1, 30):
        before = f"*a{level - 1}"
        lines.append(
            f"a{level}: &a{level} {{<<: {before}, p: {before}, q: {before}}}"
            if merge
            else f"a{level}: &a{level} [{', '.join([before] * 9)}]"
        )
    start = time.monotonic()
    message = refused(tmp_path / "m.yaml", "\n".join(lines))
    assert message.startswith("grows beyond 2000000 values through its aliases in line ")
    assert time.monotonic() - start < 10


def test_many_honest_aliases(tmp_path):
    parameters = ", ".join(f"p{n}: {{value: *v}}" for n in range(500))
    (tmp_path / "m.yaml").write_text(
        f"m: {{graphs: {{g: {{nodes: {{n: {{parameters: {{v: {{value: &v [1, 2, 3]}}, {parameters}}}}}}}}}}}}}"
    )
    assert load(tmp_path / "m.yaml").graphs[0].nodes[0].parameters[500].value == [1, 2, 3]


# ---- depth and size ---------------------------------------------------------------------------------


def test_deep_nesting(tmp_path):
    deep = '{"a":' * 100_000
    assert refused(tmp_path / "m.json", deep) == "is nested deeper than 100 levels"
    assert refused(tmp_path / "m.json", "[" * 100_000) == "is nested deeper than 100 levels"
    assert refused(tmp_path / "m.yaml", deep) == "is nested deeper than 100 levels in line 1"
    assert refused(tmp_path / "m.json", parameter_of({"value": json.loads("[" * 300 + "]" * 300)})) == (
        f"{P}: value is nested deeper than 100 levels"
    )
    body = b"\x05\0\0\0\0"
    for _ in range(2000):
        inner = b"\x03a\0" + body + b"\0"
        body = struct.pack("<i", len(inner) + 4) + inner
    assert "recursion depth" in refused(tmp_path / "m.bson", body)


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("unit", [b"x", b"[", b'{"a":', b"a: ", b"*a ", b"1,", b'{"m": {"graphs": ['])
def test_one_endless_line_is_refused_quickly(tmp_path, suffix, unit):
    data = unit * (10_000_000 // len(unit))
    start = time.monotonic()
    refused(tmp_path / f"m{suffix}", data)
    assert time.monotonic() - start < 5


def test_an_endless_yaml_line_names_the_limit(tmp_path):
    data = b"m: {graphs: [" + b"1," * 4_000_000
    assert refused(tmp_path / "m.yaml", data) == (
        "has a line of more than 4000000 bytes; no YAML file of a model has, JSON may"
    )


@pytest.mark.slow
@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_hundred_megabytes_in_one_line(tmp_path, suffix):
    pytest.importorskip("resource")
    (tmp_path / f"m{suffix}").write_bytes(b"m: {a: [" + b"1, " * 33_000_000)
    code = (
        "import resource, sys; from mdf_scatter.formats import load\n"
        "resource.setrlimit(resource.RLIMIT_AS, (3 * 2**30, 3 * 2**30))\n"
        "try: load(sys.argv[1])\nexcept ValueError as error: sys.exit(0)\nsys.exit(1)"
    )
    start = time.monotonic()
    assert subprocess.run([sys.executable, "-c", code, tmp_path / f"m{suffix}"], check=False).returncode == 0
    assert time.monotonic() - start < 15


# ---- side files -------------------------------------------------------------------------------------


@pytest.fixture
def saved(tmp_path):
    """A model with a side file, in a folder of its own."""
    folder = tmp_path / "models"
    folder.mkdir()
    parameter = Parameter(id="p", value=np.arange(2000))
    save(
        Model(id="m", graphs=[Graph(id="g", nodes=[Node(id="n", parameters=[parameter])])]), folder / "m.json"
    )
    return folder / "m.json"


@pytest.mark.parametrize(
    "name",
    [
        "../m.safetensors",
        "/etc/m.safetensors",
        "a/m.safetensors",
        "..\\m.safetensors",
        "C:m.safetensors",
        "x\0.safetensors",
    ],
)
def test_a_side_file_elsewhere(saved, name):
    text = saved.read_text().replace('"m.safetensors"', json.dumps(name))
    assert refused(saved, text) == (
        f"the side file {name!r} is not in the model's own folder; expected a plain file name"
    )


@pytest.mark.parametrize("name", ["/etc/passwd", "..", "", "~/.ssh/id_rsa", 5, None])
def test_a_side_file_of_another_kind(saved, name):
    text = saved.read_text().replace('"m.safetensors"', json.dumps(name))
    shown = "null" if name is None else repr(name)
    assert refused(saved, text) == (
        f"the metadata 'tensors' names the file {shown}; expected a name ending in '.safetensors'"
    )


def test_a_side_file_that_is_a_link_out_of_the_folder(saved):
    side = saved.with_name("m.safetensors")
    side.rename(saved.parents[1] / "outside.safetensors")
    side.symlink_to(saved.parents[1] / "outside.safetensors")
    assert refused(saved) == "the side file 'm.safetensors' is a link that leaves the model's own folder"


def test_a_side_file_that_links_to_itself_or_is_a_folder(saved):
    side = saved.with_name("m.safetensors")
    side.unlink()
    side.symlink_to(side)
    assert "'m.safetensors'" in refused(saved)
    side.unlink()
    side.mkdir()
    assert refused(saved).startswith(
        "the side file 'm.safetensors', which holds the model's large arrays, is not in "
    )


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"tensor": "', '"tensor": "x', f"{P}: value is kept in 'm.safetensors' under 'xgraphs.g.nodes.n.parameters.p.value', which that file does not hold"),
        ("int64[2000]", "int64[1999]", f"{P}: value should be of shape [1999]; 'm.safetensors' holds [2000]"),
        ("int64[2000]", "float32[2000]", f"{P}: value should be of type float32; its side file holds int64 there"),
        ("int64[2000]", "string[2000]", f"{P}: value is text, which no side file holds"),
        ('"sha256"', '"sha"', "the metadata 'tensors' has no sha256 for 'm.safetensors'; save the model again"),
    ],
)  # fmt: skip
def test_a_model_that_does_not_fit_its_side_file(saved, old, new, message):
    assert refused(saved, saved.read_text().replace(old, new)) == message


def test_a_side_file_that_is_none(saved):
    side = saved.with_name("m.safetensors")
    before = saved.read_text()
    old = hashlib.sha256(side.read_bytes()).hexdigest()
    side.write_bytes(b"\xff" * 100)
    text = before.replace(old, hashlib.sha256(b"\xff" * 100).hexdigest())
    assert (
        refused(saved, text) == "the side file 'm.safetensors' is not a safetensors file that NumPy can read"
    )


# ---- nothing is evaluated ---------------------------------------------------------------------------

PAYLOAD = "__import__('pathlib').Path('pwned').touch()"


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_expressions_names_and_shapes_are_only_text(tmp_path, monkeypatch, suffix):
    monkeypatch.chdir(tmp_path)
    model = {
        PAYLOAD: {
            "graphs": {
                PAYLOAD: {
                    "nodes": {
                        PAYLOAD: {
                            "parameters": {PAYLOAD: {"value": PAYLOAD, "function": PAYLOAD, "args": {PAYLOAD: PAYLOAD}}},
                            "functions": {"f": {"function": {PAYLOAD: {"x": PAYLOAD}}}},
                            "output_ports": {"o": {"value": PAYLOAD}},
                        }
                    }
                }
            }
        }
    }  # fmt: skip
    path = tmp_path / f"m{suffix}"
    path.write_bytes(bson.encode(model) if suffix == ".bson" else json.dumps(model).encode())
    found = load(path)
    save(found, path)
    load(path)
    assert found.graphs[0].nodes[0].parameters[0].value == PAYLOAD
    assert not (tmp_path / "pwned").exists()


# ---- ONNX -------------------------------------------------------------------------------------------


def onnx_with_external(location):
    """An ONNX model whose initializer, inside a branch of an If, lies in another file."""
    external = onnx.TensorProto(name="w", data_type=onnx.TensorProto.FLOAT, dims=[2])
    external.data_location = onnx.TensorProto.EXTERNAL
    external.external_data.add(key="location", value=location)
    value = onnx.helper.make_tensor_value_info("w", onnx.TensorProto.FLOAT, [2])
    branch = onnx.helper.make_graph([], "branch", [], [value], [external])
    node = onnx.helper.make_node("If", ["c"], ["y"], then_branch=branch, else_branch=branch)
    condition = onnx.helper.make_tensor_value_info("c", onnx.TensorProto.BOOL, [])
    return onnx.helper.make_model(onnx.helper.make_graph([node], "g", [condition], [value]))


@pytest.mark.parametrize(
    "location", ["/etc/passwd", "../w.bin", "a/../../w.bin", "..\\w.bin", "C:\\w.bin", ""]
)
def test_external_data_elsewhere(tmp_path, location):
    assert refused(tmp_path / "m.onnx", onnx_with_external(location).SerializeToString()) == (
        f"tensor 'w': its external data {location!r} is not in the model's own folder; "
        "expected a relative path without '..'"
    )


def test_external_data_that_is_missing_cut_off_or_a_link(tmp_path):
    folder = tmp_path / "models"
    folder.mkdir()
    data = onnx_with_external("w.bin").SerializeToString()
    assert refused(folder / "m.onnx", data) == f"tensor 'w': its external data 'w.bin' is not in {folder}"
    (tmp_path / "w.bin").write_bytes(bytes(8))
    (folder / "w.bin").symlink_to(tmp_path / "w.bin")
    assert refused(folder / "m.onnx") == (
        "tensor 'w': its external data 'w.bin' is a link that leaves the model's own folder"
    )


def test_external_data_beside_the_model_is_read(tmp_path):
    (tmp_path / "w.bin").write_bytes(np.array([1, 2], "<f4").tobytes())
    proto = read_proto(onnx_with_external("w.bin").SerializeToString(), tmp_path)
    for attribute in proto.graph.node[0].attribute:
        assert onnx.numpy_helper.to_array(attribute.g.initializer[0]).tolist() == [1, 2]


@pytest.mark.parametrize("data", [b"not a protobuf at all", b"\x08\x07", b"\x0a\xff", b"{}"])
def test_bytes_that_are_no_onnx_model(tmp_path, data):
    assert refused(tmp_path / "m.onnx", data).startswith("is not an ONNX model")
