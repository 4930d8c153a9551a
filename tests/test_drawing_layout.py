"""Where things stand in a diagram: wires inside frames, labels beside terminals, graphs in order."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree as ET

import numpy as np
import pytest
from modeci_mdf.mdf import Edge, Function, Graph, InputPort, Model, Node, OutputPort, Parameter

from mdf_scatter import ScatterND, grad
from mdf_scatter.drawing.diagram import Diagram, draw
from mdf_scatter.drawing.page import drawn_page
from mdf_scatter.drawing.style import LIGHT
from mdf_scatter.formats import load

SVG = "{http://www.w3.org/2000/svg}"
EXAMPLES = Path(__file__).parents[1] / "graphs"
NUMBER = re.compile(r"-?\d+(?:\.\d+)?")

Points = np.ndarray


def add(name: str, inputs: int, output: str = "C") -> Node:
    return Node(
        name,
        input_ports=[InputPort(f"A{n}", shape=(3,), type="float32") for n in range(inputs)],
        functions=[Function("f", function="onnx::Sum", args={f"A{n}": f"A{n}" for n in range(inputs)})],
        output_ports=[OutputPort(output, value="f", shape=(3,), type="float32")],
    )


def model_of(*nodes: Node, wires: list[tuple[str, str, str]] = []) -> Model:  # noqa: B006 - it stays empty
    edges = [Edge(f"{a}-{b}-{port}", a, b, "C", port) for a, b, port in wires]
    return Model("m", graphs=[Graph("g", nodes=list(nodes), edges=edges)])


def ladder(length: int) -> Model:
    """Return a row of nodes, of which each also takes what the first one gives."""
    nodes = [add(f"n{at}", 2 if at else 1) for at in range(length)]
    wires = [(f"n{at - 1}", f"n{at}", "A0") for at in range(1, length)]
    wires += [("n0", f"n{at}", "A1") for at in range(1, length)]
    return model_of(*nodes, wires=wires)


def dense(length: int) -> Model:
    """Return a row of nodes that each take what all before them give."""
    nodes = [add(f"n{at}", max(at, 1)) for at in range(length)]
    wires = [(f"n{other}", f"n{at}", f"A{other}") for at in range(length) for other in range(at)]
    return model_of(*nodes, wires=wires)


def groups(diagram: Diagram, kind: str) -> list[ET.Element]:
    return [item for item in ET.fromstring(diagram.svg).iter(f"{SVG}g") if item.get("class") == kind]


def points(group: ET.Element, shape: str) -> Points:
    texts = [item.get("points") or item.get("d") or "" for item in group.iter(f"{SVG}{shape}")]
    return np.array([float(number) for text in texts for number in NUMBER.findall(text)]).reshape(-1, 2)


def on_curves(group: ET.Element) -> Points:
    """Return points on the lines of a wire."""
    t = np.linspace(0, 1, 21)[:, None]
    found = []
    for path in group.iter(f"{SVG}path"):
        at = np.array([float(number) for number in NUMBER.findall(path.get("d", ""))]).reshape(-1, 2)
        for a, b, c, d in (at[start : start + 4] for start in range(0, len(at) - 3, 3)):
            found.append((1 - t) ** 3 * a + 3 * (1 - t) ** 2 * t * b + 3 * (1 - t) * t**2 * c + t**3 * d)
    return np.concatenate(found)


def text_at(diagram: Diagram, words: str) -> list[tuple[float, float]]:
    found = ET.fromstring(diagram.svg).iter(f"{SVG}text")
    return [
        (float(text.get("x", "")), float(text.get("y", "")))
        for text in found
        if (text.text or "").replace("\xa0", " ").strip() == words
    ]


@pytest.mark.parametrize(
    "make",
    [
        lambda: ladder(12),
        lambda: dense(6),
        lambda: model_of(add("a", 1), add("b", 1), wires=[("a", "b", "A0"), ("b", "a", "A0")]),
        lambda: model_of(add("a", 1), wires=[("a", "a", "A0")]),
        lambda: load(EXAMPLES / "scatter_nd_diamond.yaml"),
        lambda: grad(load(EXAMPLES / "scatter_nd_diamond.yaml")),
        lambda: grad(load(EXAMPLES / "training" / "embedding.yaml")),
    ],
    ids=["ladder", "dense", "cycle", "loop", "diamond", "gradient", "training"],
)
def test_wires_stay_inside_the_frame(make: object) -> None:
    diagram = draw(make())
    frame = points(groups(diagram, "cluster")[0], "path")
    for wire in groups(diagram, "edge"):
        line = on_curves(wire)
        assert (line > frame.min(0) + 1).all(), wire
        assert (line < frame.max(0) - 1).all(), wire


def test_what_runs_back_keeps_away_from_boxes() -> None:
    first = add("a", 1)
    first.output_ports.append(OutputPort("D", value="f"))
    diagram = draw(model_of(first, add("b", 1), wires=[("a", "b", "A0"), ("b", "a", "A0")]))
    boxes = [points(node, "polygon") for node in groups(diagram, "node")]
    for wire in groups(diagram, "edge"):
        line = on_curves(wire)
        for box in boxes:
            beside = line[(line[:, 0] > box.min(0)[0] + 1) & (line[:, 0] < box.max(0)[0] - 1), 1]
            assert ((beside < box.min(0)[1] - 2) | (beside > box.max(0)[1] + 2)).all()


def test_lines_under_a_name_keep_clear_of_its_letters() -> None:
    [node] = [group for group in groups(draw(model_of(add("n", 1))), "node") if "Sum" in group.itertext()]
    lines = {text.text: float(text.get("y", "")) for text in node.iter(f"{SVG}text")}
    below = next(y for words, y in lines.items() if "float32[3]" in (words or ""))
    assert below - lines["C"] > 10


def test_a_frame_is_narrow_where_no_wire_bends() -> None:
    row = model_of(*(add(name, 1) for name in "abc"), wires=[("a", "b", "A0"), ("b", "c", "A0")])
    assert "margin=14 " in draw(row).dot
    assert "margin=36 " in draw(ladder(3)).dot


def test_what_feeds_a_late_node_alone_stands_beside_it() -> None:
    late = model_of(*(add(n, 2) for n in "abc"), wires=[("a", "b", "A0"), ("b", "c", "A0")])
    late.graphs[0].nodes.append(
        Node("given", parameters=[Parameter("v", value=[1.0])], output_ports=[OutputPort("C", value="v")])
    )
    late.graphs[0].edges.append(Edge("e", "given", "c", "C", "A1"))
    assert "margin=14 " in draw(late).dot

    two = model_of(*(add(n, 2) for n in "abcd"), wires=[("a", "b", "A0"), ("b", "c", "A0"), ("d", "c", "A1")])
    assert "margin=14 " in draw(two).dot


def test_many_wires_on_one_side_of_a_node_have_room() -> None:
    few, many = draw(model_of(add("n", 8))), draw(model_of(add("n", 24)))
    assert "ranksep=0.7 " in few.dot
    assert "ranksep=1.34 " in many.dot
    for wire in groups(many, "edge"):
        line = on_curves(wire)
        ends = line[[0, -1], 0]
        assert line[:, 0].min() >= ends.min() - 1, "the wire runs back"
        assert line[:, 0].max() <= ends.max() + 1, "the wire runs too far"


def test_a_wide_band_leaves_labels_beside_their_terminals() -> None:
    node = add("n", 1)
    node.parameters.append(
        Parameter("a_long_name_of_a_parameter", value="a_long_expression + another_one * 2")
    )
    diagram = draw(model_of(node))
    [group] = [item for item in groups(diagram, "node") if "node n" in ET.tostring(item, "unicode")]
    left = points(group, "polygon")[:, 0].min()
    [(label, _)] = text_at(diagram, "A0")[1:]
    assert label - left < 16


def test_the_first_graph_stands_on_top() -> None:
    names = ["first", "second", "third"]
    diagram = draw(Model("m", graphs=[Graph(name, nodes=[add("n", 1)]) for name in names]))
    heights = [text_at(diagram, name)[0][1] for name in names]
    assert heights == sorted(heights)


def test_a_graph_without_nodes_has_a_frame_that_says_so() -> None:
    model = Model("m", graphs=[Graph("empty")])
    diagram = draw(model)
    assert text_at(diagram, "empty")
    assert text_at(diagram, "no nodes")
    assert len(groups(diagram, "cluster")) == 1
    assert not groups(diagram, "node")
    assert "no nodes" in drawn_page(model)
    assert not text_at(draw(ladder(2)), "no nodes")


def test_a_legend_of_many_entries_has_two_rows() -> None:
    dtypes = ["float32", "int64", "bool", "string", "complex64"]
    node = Node(
        "n", input_ports=[InputPort(name, shape=(2,) * n, type=name) for n, name in enumerate(dtypes)]
    )
    diagram = draw(model_of(node))
    [(left, top)], [(below, bottom)] = (text_at(diagram, words) for words in ("colour: dtype", "line: rank"))
    assert left == pytest.approx(below, abs=0.2)
    assert top + 10 < bottom
    frame = points(groups(diagram, "cluster")[0], "path")
    assert text_at(diagram, "complex")[0][0] < frame[:, 0].max()

    [(left, top)], [(right, bottom)] = (
        text_at(draw(ladder(2)), words) for words in ("colour: dtype", "line: rank")
    )
    assert (left < right, top) == (True, bottom)


@pytest.mark.parametrize(
    ("name", "width"),
    [("выход:1", 4.12), ("шумный", 4.19), ("ЖЩЮ", 2.95), ("узел", 2.22), ("μω", 1.46), ("output", 3.11)],
)
def test_letters_of_other_scripts_have_the_room_they_need(name: str, width: float) -> None:
    """The widths are those of the bold letters in Arial, in ems."""
    node = Node("n", input_ports=[InputPort("x")], output_ports=[OutputPort(name, value="x")])
    diagram = draw(model_of(node))
    start = max(x for x, _ in text_at(diagram, name))
    [(after, _)] = text_at(diagram, "graph output")
    # Two spaces of 5 points in all come before the words.
    assert after - start > 11 * width - 1


def test_lines_to_frames_stand_out() -> None:
    model = load(EXAMPLES / "scatter_nd_duplicates.yaml")
    model.graphs.append(Graph("b", nodes=[add("inner", 1)]))
    model.graphs[0].nodes[0].parameters.append(Parameter("body", value={"graph": "b"}))
    dot = draw(model).dot
    assert re.findall(r"color=(\S+) lhead=\S+", dot) == [f'"{LIGHT.muted}"']


def test_scatters_side_by_side_keep_a_narrow_frame() -> None:
    graph = Graph("g")
    for name in "ab":
        ScatterND(name).add_to(graph, data=[1.0, 2.0], indices=[[0]], updates=[3.0])
    assert "margin=14 " in draw(Model("m", graphs=[graph])).dot
