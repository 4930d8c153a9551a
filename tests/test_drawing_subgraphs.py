"""Graphs inside nodes: frames within frames, folded by depth, wires that come in from outside."""

from __future__ import annotations

import re
from xml.etree import ElementTree as ET

import onnx.parser
import pytest
from modeci_mdf.mdf import Edge, Function, Graph, InputPort, Model, Node, OutputPort, Parameter

from mdf_scatter import from_onnx
from mdf_scatter.drawing import outline
from mdf_scatter.drawing.diagram import Diagram, draw
from mdf_scatter.drawing.style import LIGHT
from mdf_scatter.errors import InputError

SVG = "{http://www.w3.org/2000/svg}"


def words(diagram: Diagram) -> set[str]:
    return {
        (text.text or "").replace("\xa0", " ").strip()
        for text in ET.fromstring(diagram.svg).iter(f"{SVG}text")
    }


def edge_paths(diagram: Diagram) -> dict[str, list[ET.Element]]:
    """Map each line's tooltip to its paths."""
    groups = (group for group in ET.fromstring(diagram.svg).iter(f"{SVG}g") if group.get("class") == "edge")
    return {next(group.iter(f"{SVG}title")).text or "": list(group.iter(f"{SVG}path")) for group in groups}


def frames(diagram: Diagram) -> int:
    return diagram.svg.count('class="cluster"')


def given(name: str, **shape: object) -> Node:
    return Node(name, input_ports=[InputPort(name, **shape)], output_ports=[OutputPort(name, value=name)])


def outer(name: str) -> Node:
    node = given(f"outer_{name}")
    node.input_ports[0].metadata = {"onnx": {"outer": name}}
    return node


def relu(name: str, source: str, **parameters: object) -> tuple[Node, Edge]:
    node = Node(
        name,
        input_ports=[InputPort("X")],
        parameters=[Parameter(key, value=value) for key, value in parameters.items()],
        functions=[Function("f", function="onnx::Relu", args={"X": "X"})],
        output_ports=[OutputPort("Y", value="f")],
    )
    return node, Edge(f"{source}-{name}", source, name, source, "X")


def with_body(*bodies: Graph, **parameters: object) -> Model:
    """Return a model of `x -> loop`, where the node names graphs."""
    node, edge = relu("loop", "x", **parameters)
    main = Graph("main", nodes=[given("x", type="float32", shape=(3,)), node], edges=[edge])
    return Model("m", graphs=[main, *bodies])


def body(name: str, takes: str = "x", **parameters: object) -> Graph:
    node, edge = relu("inner", f"outer_{takes}", **parameters)
    return Graph(name, nodes=[outer(takes), node], edges=[edge])


def test_a_subgraph_is_a_frame_in_the_frame_of_its_node() -> None:
    diagram = draw(with_body(body("b"), body={"graph": "b"}))
    assert frames(diagram) == 2
    assert {"main", "b", "body of loop", "body", "1 node"} <= words(diagram)
    clusters = re.findall(r"^(\t*)subgraph (\w+)", diagram.dot, re.MULTILINE)
    assert clusters == [("\t", "cluster_g0"), ("\t\t", "cluster_g0s0")]
    assert "body of loop" in edge_paths(diagram)  # the line from the row to the frame
    assert "Inside it, body of loop: the graph b." in diagram.alt


def test_a_value_from_outside_comes_in_on_a_dotted_wire_of_its_type() -> None:
    diagram = draw(with_body(body("b"), body={"graph": "b"}))
    paths = edge_paths(diagram)
    [path] = paths["outer_x.outer_x to inner.X: float32[3]"]
    assert (path.get("stroke"), path.get("stroke-dasharray")) == (LIGHT.dtype["float"].lower(), "1,5")
    assert "from an enclosing graph" in words(diagram)
    assert "from outside" not in words(diagram)


def test_a_value_from_outside_that_is_not_drawn_has_a_box_of_its_name() -> None:
    diagram = draw(with_body(body("b", takes="elsewhere"), body={"graph": "b"}))
    assert {"from outside", "elsewhere"} <= words(diagram)
    assert "Value: elsewhere." in diagram.alt


def test_a_constant_from_outside_is_drawn_beside_who_takes_it() -> None:
    model = with_body(body("b", takes="k"), body={"graph": "b"})
    held = Node("k", parameters=[Parameter("k", value=[1.5])], output_ports=[OutputPort("k", value="k")])
    model.graphs[0].nodes.append(held)
    model.graphs[0].metadata = {"onnx": {"outputs": ["loop.Y"]}}
    diagram = draw(model)
    assert "[1.5]" in words(diagram)
    assert "from an enclosing graph" not in words(diagram)
    assert diagram.alt.count("Constant: k float64[1] = [1.5].") == 1


def test_depth_folds_subgraphs_into_a_row() -> None:
    model = with_body(body("b", deeper={"graph": "c"}), body("c"), body={"graph": "b"})
    assert [frames(draw(model, depth=depth)) for depth in (0, 1, 2, None)] == [1, 2, 3, 3]
    folded = draw(model, depth=0)
    assert {"body", "1 node"} <= words(folded)
    assert "body: graph b, 1 node: 1 Relu" in folded.svg
    assert not {"b", "inner"} & words(folded)


def test_a_negative_depth_is_refused() -> None:
    with pytest.raises(InputError) as caught:
        draw(with_body(), depth=-1)
    assert str(caught.value) == "depth is -1; expected 0, which folds all subgraphs, or more"


def test_without_a_depth_only_what_is_readable_is_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    model = with_body(body("b", deeper={"graph": "c"}), body("c"), body={"graph": "b"})
    monkeypatch.setattr(outline, "UNFOLDED", 4)  # two nodes in each graph
    assert frames(draw(model)) == 2
    monkeypatch.setattr(outline, "UNFOLDED", 1)
    assert frames(draw(model)) == 1


def test_each_graph_is_drawn_once_and_circles_end() -> None:
    model = with_body(body("b", again={"graph": "b"}), body={"graph": "b"}, other={"graph": "b"})
    diagram = draw(model, depth=50)
    assert frames(diagram) == 2
    assert {"body", "other", "again"} <= words(diagram)
    round_about = [body("p", deeper={"graph": "q"}), body("q", deeper={"graph": "p"})]
    assert frames(draw(with_body(*round_about), depth=9)) == 3


def test_a_list_of_graphs_has_a_row_each_and_a_missing_one_is_named() -> None:
    model = with_body(body("b"), body("c"), branches=[{"graph": "b"}, {"graph": "c"}], gone={"graph": "d"})
    diagram = draw(model)
    assert frames(diagram) == 3
    assert {"branches[0]", "branches[1]", "gone", "missing"} <= words(diagram)
    assert "gone: the model has no graph d" in diagram.svg


def test_frames_within_frames_end_before_graphviz_does() -> None:
    levels = [body(f"b{n}", deeper={"graph": f"b{n + 1}"}) for n in range(60)]
    assert frames(draw(with_body(*levels, body={"graph": "b0"}), depth=1000)) == outline.DEEPEST + 1


def test_nodes_of_one_name_do_not_multiply_what_they_hold() -> None:
    levels = [body(f"b{n}", deeper={"graph": f"b{n + 1}"}) for n in range(12)]
    for level in levels:
        level.nodes += [Node("inner", parameters=level.nodes[1].parameters) for _ in range(9)]
    assert frames(draw(with_body(*levels, body={"graph": "b0"}), depth=20)) == 13


def test_a_node_that_only_names_a_graph_is_a_node() -> None:
    holder = Node(
        "holder",
        parameters=[Parameter("body", value={"graph": "b"})],
        output_ports=[OutputPort("out", value="body")],
    )
    diagram = draw(Model("m", graphs=[Graph("main", nodes=[holder]), body("b")]))
    assert frames(diagram) == 2
    assert "constant" not in words(diagram)


def test_loops_branches_and_functions_of_onnx_draw() -> None:
    text = """
        <ir_version: 10, opset_import: ["": 21, "local": 1]>
        agraph (float[N, 4] X, int64 trips, bool cond) => (float[N, 4] Y) {
            A = local.twice(X)
            Y = Loop (trips, cond, A) <
                body = b (int64 i, bool c, float[N, 4] acc) => (bool d, float[N, 4] acc2)
            {
                d = Identity(c)
                acc2 = If (c) <
                    then_branch = t () => (float[N, 4] u) { u = Mul(acc, X) },
                    else_branch = e () => (float[N, 4] v) { v = Add(X, X) }
                >
            }>
        }
        <domain: "local", opset_import: ["": 21]>
        twice (x) => (y) { y = Add(x, x) }
    """
    model = from_onnx(onnx.parser.parse_model(text))
    diagram = draw(model, theme="dark")
    assert frames(diagram) == 5
    assert {"body of Loop", "then_branch of If", "else_branch of If", "function", "local::twice"} <= words(
        diagram
    )
    crossing = [paths for paths in edge_paths(diagram).values() if paths[0].get("stroke-dasharray") == "1,5"]
    assert len(crossing) == 4
    assert "from outside" not in words(diagram)
    assert frames(draw(model, depth=0)) == 1
