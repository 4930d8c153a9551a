"""Gradient graphs in pictures: the backward pass in a frame of its own, and where gradients stop."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree as ET

import numpy as np
import pytest
from modeci_mdf.mdf import Edge, Function, Graph, InputPort, Model, Node, OutputPort, Parameter
from syrupy.assertion import SnapshotAssertion
from test_drawing import DotFile, strings
from test_formats import plain
from test_gradient_control import SCATTERS, scattering

from mdf_scatter import ScatterND, grad
from mdf_scatter.drawing import fold
from mdf_scatter.drawing.diagram import Diagram, draw
from mdf_scatter.drawing.page import drawn_page
from mdf_scatter.formats import load, save
from mdf_scatter.wiring import PASS

EXAMPLES = Path(__file__).parents[1] / "graphs"
SVG = "{http://www.w3.org/2000/svg}"
BACKWARD = {"onnx": {"metadata_props": {PASS: "backward"}}}


def scatter(**options: object) -> Model:
    model = Model("m", graphs=[Graph("g")])
    node = ScatterND("s", reduction="add", **options)
    node.add_to(model.graphs[0], data=np.zeros((4, 2), np.float32), indices=[[1], [1], [3]])
    updates = model.graphs[0].nodes[-1].get_input_port("updates")
    updates.shape, updates.type = (3, 2), "float32"
    return model


def call(name: str, operator: str, *inputs: str, backward: bool = False, **given: object) -> Node:
    return Node(
        name,
        metadata=BACKWARD if backward else None,
        input_ports=[InputPort(port) for port in inputs],
        parameters=[Parameter(key, value=value) for key, value in given.items()],
        functions=[Function("f", function=operator, args={key: key for key in (*inputs, *given)})],
        output_ports=[OutputPort(f"{name}_out", value="f")],
    )


def entry(name: str) -> Node:
    ports = [InputPort(name, shape=(3,), type="float32")], [OutputPort(name, value=name)]
    return Node(name, input_ports=ports[0], output_ports=ports[1])


def link(sender: str, receiver: str, port: str) -> Edge:
    out = sender if sender in ("x", "y_grad") else f"{sender}_out"
    return Edge(f"{sender}-{receiver}-{port}", sender, receiver, out, port)


def by_hand(*nodes: Node, edges: list[Edge], said: object = None) -> Model:
    """Return a graph of the form that `grad` gives, which does not change when a rule does."""
    said = {"of": {"y": "y_grad"}, "wrt": {"x": "x_grad"}, "stopped": []} if said is None else said
    main = Graph("g", metadata={"gradient": said}, nodes=[entry("x"), entry("y_grad"), *nodes], edges=edges)
    for node, name in (("relu", "y"), ("mul", "x_grad")):
        for part in main.nodes:
            if part.id == node:
                part.parameters.append(Parameter("specified_outputs_name", value=[name]))
    return Model("m", graphs=[main])


def relu() -> Model:
    return by_hand(
        call("relu", "onnx::Relu", "X"),
        call("mask", "onnx::Greater", "A", backward=True, B=[0.0]),
        call("cast", "onnx::Cast", "input", backward=True, to=1),
        call("mul", "onnx::Mul", "A", "B", backward=True),
        edges=[
            link("x", "relu", "X"),
            link("x", "mask", "A"),
            link("mask", "cast", "input"),
            link("cast", "mul", "A"),
            link("y_grad", "mul", "B"),
        ],
    )


def within(diagram: Diagram) -> tuple[set[str], set[str]]:
    """Return the boxes in the frame of the backward pass, and the others, by the start of their tooltip."""
    lines = diagram.dot.splitlines()
    starts = [at for at, line in enumerate(lines) if line.strip() == "subgraph cluster_g0_backward {"]
    found: tuple[set[str], set[str]] = (set(), set())
    inside = False
    for at, line in enumerate(lines):
        inside = at in starts or (inside and line != "\t\t}")
        box = re.search(r'TITLE="((?:node|graph input|graph output|constant) [^;:,"]+)', line)
        if box and "label=<" in line:
            found[0 if inside else 1].add(box[1])
    return found


def where(diagram: Diagram, *names: str) -> list[tuple[float, float]]:
    """Return where texts stand in the picture, from the left and from the top."""
    texts = list(ET.fromstring(diagram.svg).iter(f"{SVG}text"))
    places = {(text.text or "").replace("\xa0", " ").strip(): text for text in texts}
    return [(float(places[name].get("x", "")), float(places[name].get("y", ""))) for name in names]


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_dot_stays_as_it_is(theme: str, snapshot: SnapshotAssertion) -> None:
    assert draw(relu(), theme=theme).dot == snapshot(extension_class=DotFile)


def test_the_backward_pass_and_its_inputs_and_outputs_stand_in_a_frame() -> None:
    inside, outside = within(draw(relu()))
    assert inside == {"node mask", "node cast", "node mul", "graph input y_grad", "graph output x_grad"}
    assert outside == {"node relu", "graph input x", "graph output y"}


@pytest.mark.parametrize(
    "make",
    [
        lambda: grad(scatter()),
        lambda: grad(scatter(lda_coeff=0.5)),
        lambda: grad(load(EXAMPLES / "scatter_nd_diamond.yaml")),
        lambda: grad(grad(scatter()), of="updates_grad", wrt="output_grad"),
    ],
    ids=["scatter", "lda_coeff", "diamond", "second order"],
)
def test_the_frame_holds_exactly_the_backward_nodes(make: object) -> None:
    model = make()
    backward = {
        f"node {node.id}"
        for node in model.graphs[0].nodes
        if ((node.metadata or {}).get("onnx") or {}).get("metadata_props") == {PASS: "backward"}
    }
    diagram = draw(model)
    inside, outside = ({box for box in part if box.startswith("node ")} for part in within(diagram))
    assert backward
    assert inside == backward
    assert outside
    assert not outside & backward
    assert diagram.svg.startswith("<svg")


def test_forward_stands_over_backward_and_both_go_from_left_to_right() -> None:
    diagram = draw(relu())
    forward, backward, heading = where(diagram, "Relu", "Mul", "backward")
    assert forward[1] < heading[1] < backward[1]
    # Terminals are named from left to right: what enters, the nodes on the way, what leaves.
    columns = [x for x, _ in where(diagram, "x", "Greater", "Cast", "Mul", "x_grad")]
    assert columns == sorted(columns)
    assert abs(heading[0] - where(diagram, "Greater")[0][0]) < 120  # on the left, as every heading


def test_lines_are_turned_only_where_there_is_a_backward_pass() -> None:
    assert "rankdir=RL" in draw(relu()).dot
    assert re.search(r"\bg0b\d+:i0:w -> g0b\d+:o0:e", draw(relu()).dot)
    assert "rankdir=LR" in draw(scatter()).dot
    assert "backward" not in draw(scatter()).dot


def test_the_heading_names_what_is_differentiated() -> None:
    assert {"backward", "gradient of y"} <= set(strings(draw(relu())))
    second = draw(grad(grad(scatter()), of=["output", "updates_grad"], wrt="output_grad"))
    assert "gradients of output, updates_grad" in strings(second)
    said = {"of": {f"y{n}": None for n in range(6)}}
    many = by_hand(call("mul", "onnx::Neg", "X", backward=True), edges=[], said=said)
    assert "gradients of y0, y1, y2, y3, …" in strings(draw(many))


def test_constants_of_the_backward_pass_stand_at_their_terminals() -> None:
    diagram = draw(relu())
    assert "= [0.0]" in strings(diagram)
    assert "constant" not in strings(diagram)
    assert "B: float64[1]; constant B: float64[1] = [0.0]" in diagram.svg
    assert strings(draw(grad(scatter()))).count("constant") == 2  # data and indices of the forward node


def test_a_node_that_stops_gradients_says_so() -> None:
    diagram = draw(grad(scatter(training=False)))
    words = strings(diagram)
    assert words[words.index("no gradient") + 1] == "training is false"
    assert "Gradient stop: s (training is false)." in diagram.alt
    through = draw(grad(scatter(lda_coeff=0.5)))
    assert "no gradient" not in strings(through)
    assert "stop" not in through.alt
    words = strings(through)
    assert words[words.index("lda_coeff") + 1] == "0.5"


def test_stops_are_found_by_the_name_that_the_node_has_in_onnx() -> None:
    model = relu()
    model.graphs[0].metadata["gradient"]["stopped"] = [{"node": "layer/relu", "reason": "training is false"}]
    assert "no gradient" not in strings(draw(model))
    model.graphs[0].nodes[2].metadata = {"onnx": {"name": "layer/relu"}}
    assert "no gradient" in strings(draw(model))


def test_alt_text_tells_forward_from_backward() -> None:
    assert draw(relu()).alt == (
        "Block diagram of the MDF graph g. Graph inputs: x float32[3], y_grad float32[3] (gradient of y). "
        "Forward node: relu (onnx::Relu). "
        "Backward nodes: mask (onnx::Greater), cast (onnx::Cast), mul (onnx::Mul). "
        "Graph outputs: y float32[3], x_grad float32[3] (gradient of x). "
        "Wires: x to relu.X, x to mask.A, mask.mask_out to cast.input, cast.cast_out to mul.A, "
        "y_grad to mul.B, relu.relu_out to y, mul.mul_out to x_grad."
    )


def test_tooltips_say_what_a_graph_input_or_output_is_the_gradient_of() -> None:
    svg = draw(relu()).svg
    assert "graph input y_grad, the gradient of y: float32[3]" in svg
    assert "graph output x_grad, the gradient of x: float32[3]" in svg


def test_a_page_tells_forward_from_backward() -> None:
    page = drawn_page(relu())
    titles = set(re.findall(r"<h2 [^>]*>([^<]*)</h2>", page))
    assert {"forward node relu", "backward node mask", "graph input y_grad, the gradient of y"} <= titles
    assert 'aria-label="backward node mask"' in page
    assert "forward" not in drawn_page(scatter())


def test_a_page_has_the_constants_of_backward_nodes_among_their_parameters() -> None:
    said = '<th scope="row">B</th><td>float64[1]; constant B: float64[1] = [0.0]</td>'
    assert said in drawn_page(relu())


def test_a_page_says_where_gradients_stop() -> None:
    page = drawn_page(grad(scatter(training=False)))
    assert '<th scope="row">no gradient</th><td>training is false</td>' in page


def test_graphs_that_backward_nodes_hold_are_drawn_in_their_frame() -> None:
    model = relu()
    model.graphs[0].nodes[-1].parameters.append(Parameter("body", value={"graph": "b"}))
    inner = call("inner", "onnx::Neg", "X", backward=True, given=[1.0])
    model.graphs.append(Graph("b", nodes=[inner]))
    diagram = draw(model)
    clusters = re.findall(r"^(\t*)subgraph (\w+)", diagram.dot, re.MULTILINE)
    assert clusters == [("\t", "cluster_g0"), ("\t\t", "cluster_g0_backward"), ("\t\t\t", "cluster_g0s0")]
    assert re.search(r"g0s0b\d+ -> g0b\d+:r\d:e \[color=\S+ ltail=cluster_g0s0", diagram.dot)
    assert diagram.svg.count('class="cluster"') == 3


def test_runs_of_a_long_graph_are_of_one_pass() -> None:
    length = fold.LONG // 2 + 1
    ways = [(f"f{n}", False) for n in range(length)] + [(f"b{n}", True) for n in range(length)]
    nodes = [call(name, "onnx::Neg", "X", backward=backward) for name, backward in ways]
    edges = [link(a.id, b.id, "X") for a, b in pairwise(nodes)]
    model = by_hand(*nodes, edges=edges)
    diagram = draw(model)
    boxes = [line for line in diagram.dot.splitlines() if "nodes in a row" in line]
    assert len(boxes) == 2 * -(-length // fold.LONGEST_RUN)
    for box in boxes:
        assert (">f" in box) != (">b" in box)
    sizes = ("forward", (10, 10, 11, 10, 10)), ("backward", (10, 10, 10, 10, 10))
    forward, backward = (
        f"Folded {way} runs: {', '.join(f'{size} nodes in a row' for size in each)}." for way, each in sizes
    )
    assert f"{forward} Backward node: b0 (onnx::Neg). {backward}" in diagram.alt


def test_a_node_that_stops_gradients_stays_by_itself_in_a_long_graph() -> None:
    nodes = [call(f"f{n}", "onnx::Neg", "X") for n in range(fold.LONG + 1)]
    edges = [link(a.id, b.id, "X") for a, b in pairwise(nodes)]
    said = {"stopped": [{"node": "f7", "reason": "training is false"}]}
    diagram = draw(by_hand(*nodes, edges=edges, said=said))
    [box] = [line for line in diagram.dot.splitlines() if "no gradient" in line]
    assert "nodes in a row" not in box


@pytest.mark.parametrize(
    "said",
    [
        5,
        [],
        "x",
        {"of": 1, "wrt": [2], "stopped": {"a": 1}},
        {"of": {1: 2}, "stopped": [None, {}, {"node": 3}]},
    ],
    ids=repr,
)
def test_any_metadata_draws(said: object) -> None:
    model = relu()
    model.graphs[0].metadata = {"gradient": said}
    model.graphs[0].nodes[-1].metadata = {"onnx": {"metadata_props": [PASS]}}
    assert draw(model).svg.startswith("<svg")


@pytest.mark.parametrize("suffix", [".png", ".svg", ".html"])
def test_a_gradient_graph_comes_back_from_its_picture(suffix: str, tmp_path: Path) -> None:
    model = grad(scatter())
    path = tmp_path / f"m{suffix}"
    save(model, path)
    assert plain(load(path)) == plain(model)
    assert draw(load(path)).dot == draw(model).dot


def test_wires_into_the_backward_pass_of_a_long_graph_become_names() -> None:
    length = fold.LONG // 2 + 1
    forward = [call(f"f{n}", "onnx::Neg", "X") for n in range(length)]
    backward = [call(f"b{n}", "onnx::Mul", "A", "B", backward=True) for n in range(length)]
    edges = [link(a.id, b.id, "X") for a, b in pairwise(forward)]
    edges += [link(a.id, b.id, "A") for a, b in pairwise(backward)]
    edges += [link(a.id, b.id, "B") for a, b in zip(forward[::-1], backward, strict=True)]
    edges += [link("y_grad", "b0", "A"), link("x", "f0", "X")]
    model = by_hand(*forward, *backward, edges=edges)
    diagram = draw(model)
    shown = strings(diagram)
    assert f"{length} wires into the backward pass stand at their terminals as names" in shown
    assert {f"from f{n}.f{n}_out" for n in range(length)} <= set(shown)
    assert f"f3.f3_out to b{length - 4}.B" in diagram.svg  # as the terminal's tooltip
    assert {"b0", f"b{length - 1}"} <= set(shown)  # what has a name at a terminal is in no row of others
    each = draw(model, depth=1)
    assert "from f3.f3_out" not in each.dot
    assert each.dot.count(" -> ") > 2 * length


def test_a_node_that_stops_gradients_inside_a_graph_is_marked_there() -> None:
    model, _ = scattering(SCATTERS["If"], training=False)
    marked = [line for line in draw(grad(model)).dot.splitlines() if "no gradient" in line]
    assert len(marked) == 1
    assert "total" in marked[0]
    # A name is that of one node within a graph; in another one it may be that of a node that trains.
    passing = next(node for graph in model.graphs for node in graph.nodes if node.id == "total")
    passing.get_parameter("training").value = True
    model.graphs[0].metadata["gradient"] = {"stopped": [{"node": "total", "reason": "training is false"}]}
    assert "no gradient" not in draw(model).dot


def test_a_nameless_node_that_stops_gradients_is_known_by_its_output() -> None:
    model = relu()
    model.graphs[0].metadata["gradient"]["stopped"] = [{"node": "relu_out", "reason": "training is false"}]
    model.graphs[0].nodes[2].metadata = {"onnx": {"name": ""}}
    assert "no gradient" in strings(draw(model))
