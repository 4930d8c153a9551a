"""Long graphs: what is folded, how it says so, and how long it takes."""

from __future__ import annotations

import struct
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from modeci_mdf.mdf import Edge, Function, Graph, InputPort, Model, Node, OutputPort, Parameter

from mdf_scatter.drawing import fold, render
from mdf_scatter.drawing.diagram import Diagram, draw
from mdf_scatter.formats import load

SVG = "{http://www.w3.org/2000/svg}"
CORPUS = Path(__file__).parents[2] / "shared" / "corpus"


def words(diagram: Diagram) -> list[str]:
    return [
        (text.text or "").replace("\xa0", " ").strip()
        for text in ET.fromstring(diagram.svg).iter(f"{SVG}text")
    ]


def add(name: str, *, bias: list[float] | None = None) -> Node:
    return Node(
        name,
        input_ports=[InputPort("A")] if bias else [InputPort("A"), InputPort("B")],
        parameters=[Parameter("B", value=bias)] if bias else [],
        functions=[Function("f", function="onnx::Add", args={"A": "A", "B": "B"})],
        output_ports=[OutputPort("C", value="f")],
    )


def link(sender: str, receiver: str, port: str = "A") -> Edge:
    return Edge(f"{sender}-{receiver}-{port}", sender, receiver, "C", port)


def chain(length: int) -> Model:
    nodes = [add(f"n{i}", bias=[0.5, 1.5]) for i in range(length)]
    return Model(
        "m", graphs=[Graph("g", nodes=nodes, edges=[link(f"n{i}", f"n{i + 1}") for i in range(length - 1)])]
    )


def grid(width: int, height: int) -> Model:
    places = [(i, j) for i in range(height) for j in range(width)]
    edges = [link(f"n{i - 1}_{j}", f"n{i}_{j}", "A") for i, j in places if i]
    edges += [link(f"n{i}_{j - 1}", f"n{i}_{j}", "B") for i, j in places if j]
    return Model("m", graphs=[Graph("g", nodes=[add(f"n{i}_{j}") for i, j in places], edges=edges)])


def test_nodes_in_a_row_become_boxes_that_list_them_all() -> None:
    length = fold.LONG + 1
    shown = words(draw(chain(length)))
    boxes = -(-length // fold.LONGEST_RUN)
    assert f"{length} nodes stand in {boxes} boxes; a depth, such as 1, draws each by itself" in shown
    assert sum(text.endswith("nodes in a row") for text in shown) == boxes
    assert {f"n{i}" for i in range(length)} <= set(shown)


def test_constants_of_a_long_graph_stand_at_their_terminals() -> None:
    shown = words(draw(chain(fold.LONG + 1)))
    assert "= [0.5, 1.5]" in shown
    assert "constant" not in shown


def test_a_depth_draws_every_node_and_short_graphs_are_never_folded() -> None:
    for diagram in (draw(chain(fold.LONG + 1), depth=1), draw(chain(30))):
        assert not any("in a row" in text for text in words(diagram))
        assert "constant" in words(diagram)


def test_what_branches_is_not_folded() -> None:
    model = chain(fold.LONG + 1)
    model.graphs[0].nodes.append(add("tap", bias=[1.0]))
    model.graphs[0].edges.append(link("n5", "tap"))
    diagram = draw(model)
    assert '"m' not in diagram.dot  # ids are generated
    shown = words(diagram)
    assert {"tap", "n5", "n6"} <= set(shown)
    [row] = [box for box in diagram.dot.splitlines() if ">n5<" in box]
    assert ">n4<" in row
    assert ">n6<" not in row


@pytest.mark.slow
@pytest.mark.parametrize("make", [lambda: grid(32, 32), lambda: chain(1024)], ids=["grid", "chain"])
def test_a_thousand_nodes_draw_within_bounds(make: object) -> None:
    diagram = draw(make())
    assert diagram.svg.startswith("<svg")
    width, height = struct.unpack(">II", diagram.png[16:24])
    assert width * height <= render.MOST_PIXELS * 1.01


@pytest.mark.slow
@pytest.mark.parametrize("path", sorted(CORPUS.rglob("*.onnx")), ids=lambda path: path.parent.name)
def test_the_corpus_draws(path: Path) -> None:
    model = load(path)
    for theme in ("light", "dark"):
        diagram = draw(model, theme=theme)
        assert diagram.svg.startswith("<svg")
        assert diagram.pdf.startswith(b"%PDF-")


def test_nodes_with_settings_stay_by_themselves() -> None:
    model = chain(fold.LONG + 1)
    node = model.graphs[0].nodes[7]
    node.parameters.append(Parameter("lda_coeff", value=0.5))
    [box] = [line for line in draw(model).dot.splitlines() if "lda_coeff" in line]
    assert "nodes in a row" not in box
