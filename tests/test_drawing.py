"""The diagram of a model: what it shows, in which colours, and that any text draws."""

from __future__ import annotations

import re
import struct
import subprocess
from base64 import b64decode
from itertools import product
from pathlib import Path
from xml.etree import ElementTree as ET

import numpy as np
import pytest
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
from syrupy.assertion import SnapshotAssertion
from syrupy.extensions.single_file import SingleFileSnapshotExtension, WriteMode

from mdf_scatter.drawing import render
from mdf_scatter.drawing.diagram import Diagram, draw
from mdf_scatter.drawing.style import DARK, FALLBACKS, LIGHT, THEMES, DtypeClass
from mdf_scatter.errors import FormatError, InputError, ModelError, RenderError
from mdf_scatter.formats import load

SVG = "{http://www.w3.org/2000/svg}"
SHARED = Path(__file__).parents[2] / "shared" / "mdf_models"


class DotFile(SingleFileSnapshotExtension):
    _write_mode = WriteMode.TEXT
    file_extension = "gv"


class SvgFile(DotFile):
    file_extension = "svg"


def model_of(*nodes: Node, edges: list[Edge] | None = None, **graph: object) -> Model:
    return Model("m", graphs=[Graph("g", nodes=list(nodes), edges=edges or [], **graph)])


def edge(sender: str, receiver: str, **parameters: object) -> Edge:
    (a, out), (b, into) = sender.split("."), receiver.split(".")
    return Edge(f"{sender}-{receiver}", a, b, out, into, parameters or None)


def scatter(name: str = "scatter_1", **constants: object) -> Node:
    ports = {"data": ((8, 4), "float32"), "indices": ((4, 1), "int64"), "updates": ((4, 4), "float32")}
    options = {"reduction": "add", "training": True, "lda_coeff": 1.0}
    arguments = {name: name for name in (*ports, *options)}
    return Node(
        name,
        input_ports=[InputPort(k, shape=s, type=t) for k, (s, t) in ports.items() if k not in constants],
        parameters=[Parameter(k, value=v) for k, v in {**constants, **options}.items()],
        functions=[Function("scatter", function="ScatterND", args=arguments)],
        output_ports=[OutputPort("output", value="scatter")],
    )


def unary(name: str, function: str, *, shape: tuple[int, ...] = (), dtype: str | None = None) -> Node:
    return Node(
        name,
        input_ports=[InputPort("X", shape=shape, type=dtype)],
        functions=[Function("f", function=function, args={"X": "X"})],
        output_ports=[OutputPort("Y", value="f")],
    )


def input_node(name: str, **value: object) -> Node:
    [(parameter, given)] = value.items()
    return Node(
        name,
        parameters=[Parameter(parameter, value=given)],
        output_ports=[OutputPort("out", value=parameter)],
    )


def diamond() -> Model:
    add = Node(
        "add",
        input_ports=[InputPort("A"), InputPort("B")],
        functions=[Function("sum", function="onnx::Add", args={"A": "A", "B": "B"})],
        output_ports=[OutputPort("C", value="sum", shape=(8, 4), type="float32")],
    )
    edges = [
        edge("relu.Y", "left.data"),
        edge("relu.Y", "right.data"),
        edge("left.output", "add.A"),
        edge("right.output", "add.B", weight=0.5),
    ]
    nodes = unary("relu", "onnx::Relu"), scatter("left", indices=[[4], [3], [1], [7]]), scatter("right"), add
    return model_of(*nodes, edges=edges)


def stateful() -> Model:
    node = Node(
        "sine",
        parameters=[
            Parameter("amp", value=3),
            Parameter("level", default_initial_value=0, time_derivative="6.28 * rate"),
            Parameter("rate", value="rate + 1"),
            Parameter("spiking", conditions=[ParameterCondition("on", test="level > 1", value="1")]),
            Parameter("scaled", function="linear", args={"variable0": "2*level", "slope": "amp"}),
        ],
        functions=[Function("squashed", function="logistic", args={"variable0": "scaled"})],
        output_ports=[OutputPort("out", value="amp * squashed"), OutputPort("level", value="level")],
    )
    conditions = ConditionSet(
        node_specific={"sine": Condition("EveryNCalls", dependencies="sine", n=2)},
        termination={"environment_state_update": Condition("AfterPass", n=9)},
    )
    return model_of(node, conditions=conditions, parameters={"dt": 0.1})


def chain() -> Model:
    step = Node("step", input_ports=[InputPort("in")], output_ports=[OutputPort("out", value="in")])
    given = Node(
        "given",
        input_ports=[InputPort("x", shape=(2,), type="float64", default_value=[1.5, 2.5])],
        output_ports=[OutputPort("out", value="x")],
    )
    edges = [edge("given.out", "step.in"), edge("step.out", "relu.X"), edge("level.out", "relu2.X")]
    nodes = given, step, unary("relu", "Relu"), input_node("level", level=True), unary("relu2", "Relu")
    return model_of(*nodes, edges=edges)


def strings(diagram: Diagram) -> list[str]:
    """Return the diagram's words as its reader sees them."""
    root = ET.fromstring(diagram.svg)
    return [(element.text or "").replace("\xa0", " ").strip() for element in root.iter(f"{SVG}text")]


def tips(diagram: Diagram) -> list[str]:
    return [element.text or "" for element in ET.fromstring(diagram.svg).iter(f"{SVG}title")]


def wires(diagram: Diagram) -> dict[str, list[tuple[str, str, bool]]]:
    """Map each wire's tooltip to colour, width and dashing of its lines."""
    found = {}
    for group in ET.fromstring(diagram.svg).iter(f"{SVG}g"):
        if group.get("class") == "edge":
            [title] = group.iter(f"{SVG}title")
            found[title.text or ""] = [
                (path.get("stroke", ""), path.get("stroke-width", "1"), "stroke-dasharray" in path.attrib)
                for path in group.iter(f"{SVG}path")
            ]
    return found


MODELS = {
    "scatter": lambda: model_of(scatter()),
    "constant": lambda: model_of(scatter(indices=[[4], [3], [1], [7]])),
    "diamond": diamond,
    "stateful": stateful,
    "chain": chain,
}


@pytest.mark.parametrize("name", MODELS)
def test_dot_stays_as_it_is(name: str, snapshot: SnapshotAssertion) -> None:
    assert draw(MODELS[name]()).dot == snapshot(extension_class=DotFile)


def test_svg_stays_as_it_is(snapshot: SnapshotAssertion) -> None:
    assert draw(model_of(scatter())).svg == snapshot(extension_class=SvgFile)


def test_dark_dot_stays_as_it_is(snapshot: SnapshotAssertion) -> None:
    assert draw(MODELS["constant"](), theme="dark").dot == snapshot(extension_class=DotFile)


def test_a_theme_changes_colours_only() -> None:
    light, dark = (draw(diamond(), theme=theme) for theme in ("light", "dark"))
    assert re.sub("#[0-9A-Fa-f]{6}", "#", light.dot) == re.sub("#[0-9A-Fa-f]{6}", "#", dark.dot)
    assert light.alt == dark.alt
    colours = [set(re.findall("#[0-9A-F]{6}", diagram.dot)) for diagram in (light, dark)]
    assert colours[0] & colours[1] == {"#FFFFFF"}  # the text of headers, which are dark in both
    with pytest.raises(InputError, match=r"^theme is 'blue'; expected 'light' or 'dark'$"):
        draw(diamond(), theme="blue")


@pytest.mark.parametrize("name", MODELS)
def test_every_name_of_the_model_is_in_the_picture(name: str) -> None:
    model = MODELS[name]()
    words = " ".join(strings(draw(model)))
    for node in model.graphs[0].nodes:
        for part in (*node.input_ports, *node.parameters, *node.output_ports):
            drawn_otherwise = node.id in ("given", "level")
            assert part.id in words or drawn_otherwise


def test_svg_says_what_it_shows() -> None:
    diagram = draw(model_of(scatter(indices=[[4], [3], [1], [7]])))
    root = ET.fromstring(diagram.svg)
    title, description = root[0], root[1]
    assert (root.get("role"), title.tag, description.tag) == ("img", f"{SVG}title", f"{SVG}desc")
    assert root.get("aria-labelledby") == f"{title.get('id')} {description.get('id')}"
    assert title.text == "m"
    assert description.text == diagram.alt
    assert diagram.alt == (
        "Block diagram of the MDF graph g. Graph inputs: data float32[8, 4], updates float32[4, 4]. "
        "Constant: indices int64[4, 1] = [[4], [3], [1], [7]]. Node: scatter_1 (ScatterND). "
        "Graph output: output float32[8, 4]. Wires: data to scatter_1.data, "
        "indices to scatter_1.indices, updates to scatter_1.updates, scatter_1.output to output."
    )


def test_ids_differ_between_diagrams_and_are_only_those_that_are_needed() -> None:
    ids = [re.findall(r'\bid="([^"]*)"', draw(MODELS[name]()).svg) for name in ("scatter", "constant")]
    assert [len(found) for found in ids] == [2, 2]
    assert not set(ids[0]) & set(ids[1])


def test_fonts_fall_back_to_those_of_the_same_widths() -> None:
    families = set(re.findall(r'font-family="([^"]*)"', draw(model_of(scatter())).svg))
    assert families == set(FALLBACKS.values())


def test_wires_show_dtype_as_colour_and_rank_as_line() -> None:
    many = Node(
        "n",
        input_ports=[
            InputPort("scalar", type="bool", metadata={"onnx": {"shape": []}}),
            InputPort("vector", shape=(3,), type="int64"),
            InputPort("matrix", shape=(3, 2), type="bfloat16"),
            InputPort("cube", metadata={"onnx": {"shape": ["N", None, 2]}}, type="string"),
            InputPort("complex", shape=(1, 1, 1, 1), type="complex64"),
            InputPort("untyped"),
        ],
    )
    dtype, ground = {k: v.lower() for k, v in LIGHT.dtype.items()}, LIGHT.ground.lower()
    string, cplx = dtype["string"], dtype["complex"]
    assert wires(draw(model_of(many))) == {
        "scalar: bool[]": [(dtype["bool"], "1", False)],
        "vector: int64[3]": [(dtype["int"], "2.4", False)],
        "matrix: bfloat16[3, 2]": [(c, "1.4", False) for c in (dtype["float"], ground, dtype["float"])],
        "cube: string[N, ?, 2]": [(c, "1.3", False) for c in (string, ground, string, ground, string)],
        "complex: complex64[1, 1, 1, 1]": [(c, "1.3", False) for c in (cplx, ground, cplx, ground, cplx)],
        "untyped": [(dtype["unknown"], "1.2", True)],
    }


def test_types_are_carried_along_the_edges() -> None:
    found = wires(draw(diamond()))
    assert "relu.Y to left.data: float32[8, 4]" in found  # from what the receiver declares
    assert "left.output to add.A: float32[8, 4]" in found  # a scatter's output is like its data
    assert "right.output to add.B: float32[8, 4], weight 0.5" in found
    assert "step.out to relu.X: float64[2]" in wires(draw(chain()))
    assert "level.out to relu2.X: bool[]" in wires(draw(chain()))


def product_of(**declared: object) -> Node:
    sizes = {"A": (2, 3), "B": (3, 4)}
    return Node(
        "n",
        input_ports=[InputPort(name, shape=shape, type="float32") for name, shape in sizes.items()],
        functions=[Function("f", function="onnx::MatMul", args={"A": "A", "B": "B"})],
        output_ports=[OutputPort("Y", value="f", **declared)],
    )


def test_shapes_are_inferred_where_the_file_has_none() -> None:
    assert "Y: float32[2, 4]" in wires(draw(model_of(product_of())))
    assert "Y: float32[9]" in wires(draw(model_of(product_of(shape=(9,)))))  # what is declared goes first


def test_what_has_no_form_in_onnx_draws_as_far_as_it_is_declared() -> None:
    conditions = ConditionSet(node_specific={"n": Condition("Always")})
    assert "Y" in wires(draw(model_of(product_of(), conditions=conditions)))


def test_no_failure_of_inference_keeps_a_model_from_being_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(model: Model) -> None:
        raise KeyError(model.id)

    monkeypatch.setattr("mdf_scatter.lower.lower", fails)
    assert "Y" in wires(draw(model_of(product_of())))


def test_constants_of_onnx_are_boxes_one_for_each_who_takes_them() -> None:
    held = Node(
        "k",
        parameters=[Parameter("value", value=np.array([2, 3]))],
        functions=[Function("constant", function="onnx::Constant", args={"value": "value"})],
        output_ports=[OutputPort("K", value="constant")],
    )
    nodes = held, unary("a", "Relu"), unary("b", "Relu")
    diagram = draw(model_of(*nodes, edges=[edge("k.K", "a.X"), edge("k.K", "b.X")]))
    shown = strings(diagram)
    assert (shown.count("constant"), shown.count("[2, 3]"), shown.count("int64[2]")) == (2, 2, 2)
    assert {"k.K to a.X: int64[2]", "k.K to b.X: int64[2]"} <= set(wires(diagram))


def test_outputs_of_one_function_in_their_order_have_no_rows() -> None:
    split = unary("split", "onnx::Split")
    split.output_ports = [OutputPort("y0", value="f[0]"), OutputPort("y1", value="f[1]")]
    assert not {"f[0]", "f[1]"} & set(strings(draw(model_of(split))))
    split.output_ports.reverse()
    assert {"f[0]", "f[1]"} <= set(strings(draw(model_of(split))))


def test_a_weight_stops_the_type_and_stands_at_the_port() -> None:
    nodes = input_node("a", level=[[1.0, 2.0]]), unary("b", "Relu"), unary("c", "Relu")
    edges = [edge("a.out", "b.X", weight=[[2.0], [3.0]]), edge("b.Y", "c.X")]
    diagram = draw(model_of(*nodes, edges=edges))
    assert "× [[2.0], [3.0]]" in strings(diagram)
    assert "a.out to b.X: float64[1, 2], weight [[2.0], [3.0]]" in wires(diagram)
    assert "b.Y to c.X" in wires(diagram)


def test_several_edges_into_one_port_say_how_they_meet() -> None:
    sink = Node("sink", input_ports=[InputPort("X", reduce="add")])
    nodes = input_node("a", level=1.0), input_node("b", level=2.0), sink
    diagram = draw(model_of(*nodes, edges=[edge("a.out", "sink.X"), edge("b.out", "sink.X", weight=2)]))
    assert "add of 2, × 2" in strings(diagram)


def test_small_constants_stand_in_their_box_and_large_ones_as_their_type() -> None:
    small = strings(draw(model_of(scatter(indices=[[4], [3], [1], [7]]))))
    assert {"constant", "[[4], [3], [1], [7]]", "int64[4, 1]"} <= set(small)
    diagram = draw(model_of(scatter(indices=np.zeros((4096, 2), np.int64))))
    assert "int64[4096, 2]" in strings(diagram)
    assert not any("0, 0" in text for text in strings(diagram))
    [tip] = [tip for tip in tips(diagram) if tip.startswith("constant indices: int64[4096, 2] = 0, 0, ")]
    assert tip.endswith("... (8192 elements)")


def test_options_stay_in_the_band_and_only_tensor_inputs_become_constants() -> None:
    node = unary("norm", "linear")
    node.parameters = [Parameter("slope", value=[1.0, 2.0])]
    node.functions[0].args = {"variable0": "X", "slope": "slope"}
    assert "constant" not in strings(draw(model_of(node)))
    assert strings(draw(model_of(scatter(updates=np.ones((4, 4), np.float32))))).count("constant") == 1


def test_graph_inputs_pass_throughs_and_input_nodes_are_boxes() -> None:
    words = strings(draw(chain()))
    assert words.count("graph input") == words.count("constant") == 1
    assert {"default", "[1.5, 2.5]", "float64[2]", "true", "bool[]"} <= set(words)
    assert "given" not in words


def test_a_large_default_is_drawn_in_numbers() -> None:
    node = unary("n", "Relu", shape=(20,), dtype="float32")
    node.input_ports[0].default_value = [float(i) for i in range(20)]
    assert {"default", "min 0, max 19", "float32[20]"} <= set(strings(draw(model_of(node))))


def test_a_node_with_a_condition_is_never_reduced_to_a_box() -> None:
    conditions = ConditionSet(node_specific={"level": Condition("Always")})
    words = strings(draw(model_of(input_node("level", value=1.0), conditions=conditions)))
    assert "constant" not in words
    assert {"level", "runs when", "Always()"} <= set(words)


def test_state_expressions_functions_and_conditions_are_listed() -> None:
    words = strings(draw(stateful()))
    rows = {
        "level at start": "0",
        "d level / dt": "6.28 * rate",
        "rate each step": "rate + 1",
        "spiking if level > 1": "1",
        "scaled": "linear(variable0=2*level, slope=amp)",
        "squashed": "logistic(variable0=scaled)",
        "out": "amp * squashed",
        "runs when": "EveryNCalls(dependencies=sine, n=2)",
    }
    assert "linear → logistic" in words
    assert {"dt = 0.1", "ends when AfterPass(n=9)"} <= set(words)
    for name, text in rows.items():
        after = [words[i + 1] for i, word in enumerate(words[:-1]) if word == name]
        assert text in after


def test_values_are_rounded_in_the_picture_and_full_in_the_tooltip() -> None:
    node = unary("n", "linear")
    node.parameters = [
        Parameter("third", value=1 / 3),
        Parameter("weights", value=[i / 7 for i in range(20)]),
        Parameter("note", value="word " * 50),
    ]
    diagram = draw(model_of(node))
    assert {"0.333333", "float64[20]", "word " * 12 + "wo..."} <= set(strings(diagram))
    assert f"third = {1 / 3}" in tips(diagram)
    assert f"weights = {[i / 7 for i in range(20)]}" in tips(diagram)
    assert f"note = {'word ' * 50}" in tips(diagram)


def test_the_legend_lists_what_is_there() -> None:
    assert {"float", "bool", "scalar", "rank 1"} <= set(strings(draw(chain())))
    assert not {"int", "string", "rank 2", "rank 3+"} & set(strings(draw(chain())))


def test_onnx_operators_link_to_their_pages_and_nothing_else_is_linked() -> None:
    links = set(re.findall(r'href="([^"]*)"', draw(diamond()).svg))
    pages = "https://onnx.ai/onnx/operators/onnx__{}.html"
    assert links == {pages.format(name) for name in ("Relu", "ScatterND", "Add")}
    assert links_without_focus(draw(diamond()).svg)
    assert "href" not in draw(model_of(unary("javascript:alert(1)", "javascript:alert(1)"))).svg


def links_without_focus(svg: str) -> bool:
    links = list(ET.fromstring(svg).iter(f"{SVG}a"))
    return bool(links) and all(link.get("tabindex") == "-1" for link in links)


HOSTILE = {
    "": '""',
    "a & b": None,
    "<b>bold</b>": None,
    "\"quoted\" and 'single'": None,
    "back\\slash \\N \\G \\\\": None,
    "p|q{r}:e": None,
    "&amp; &#92; %s $HOME": None,
    "]]> --> </TABLE>>": None,
    "line\nbreak\ttab": r"line\nbreak\ttab",
    "bell\x07 nul\x00 \ufffe": r"bell\x07 nul\x00 \ufffe",
    "\u202egnp.exe": r"\u202egnp.exe",
    "\ud800 alone": r"\ud800 alone",
    "שלום עולם": None,
    "مرحبا بالعالم": None,
    "日本語": None,
    "👩‍🔬 🎉": None,
    "x" * 10_000: "x" * 19 + "…" + "x" * 12,
}


@pytest.mark.parametrize(("text", "shown"), HOSTILE.items(), ids=[ascii(text)[1:20] for text in HOSTILE])
def test_any_text_draws(text: str, shown: str | None) -> None:
    node = Node(
        text,
        input_ports=[InputPort(text)],
        parameters=[Parameter(text + "?", value="!" + text)],
        functions=[Function(text + "f", function=text or "f", args={text: text})],
        output_ports=[OutputPort(text, value=text + "f", type=text or None)],
    )
    other = Node(text + "2", input_ports=[InputPort(text)])
    link = Edge(text, sender=node.id, receiver=other.id, sender_port=text, receiver_port=text)
    diagram = draw(Model(text, graphs=[Graph(text, nodes=[node, other], edges=[link])]))
    words = strings(diagram)
    assert words.count(text if shown is None else shown) >= 5  # graph, node, its input and output, function
    full = text if shown is None or "…" in shown else shown.strip('"')
    assert any(tip.startswith(f"node {full}; {full}"[:20_000]) for tip in tips(diagram))
    assert diagram.png.startswith(b"\x89PNG")


def test_an_edge_to_something_undeclared_is_drawn_as_missing() -> None:
    nodes = input_node("a", level=1.0), Node("b")
    diagram = draw(model_of(*nodes, edges=[edge("a.out", "gone.X"), edge("a.out", "b.lost")]))
    assert {"gone", "not in the graph", "lost"} <= set(strings(diagram))
    assert strings(diagram).count("missing") == 2
    assert "Missing node: gone." in diagram.alt


def test_a_cycle_draws() -> None:
    edges = [edge("a.Y", "b.X"), edge("b.Y", "a.X"), edge("c.Y", "c.X")]
    diagram = draw(model_of(*(unary(name, "Relu") for name in "abc"), edges=edges))
    assert len(wires(diagram)) == 3


def test_every_graph_of_a_model_is_drawn() -> None:
    graphs = [Graph(name, nodes=[scatter()]) for name in ("one", "two")]
    diagram = draw(Model("both", graphs=graphs))
    assert {"one", "two"} <= set(strings(diagram))
    assert diagram.alt.count("Block diagram of the MDF graph") == 2


def test_a_graph_without_nodes_draws() -> None:
    assert draw(Model("m", graphs=[Graph("empty")])).svg.startswith("<svg")


def test_a_model_without_a_graph_is_refused() -> None:
    with pytest.raises(ModelError, match=r"^model 'm' has no graph to draw; expected one$"):
        draw(Model("m"))


def test_drawing_leaves_the_model_alone_and_gives_the_same_every_time() -> None:
    model = diamond()
    before = model.to_json()
    first, second = draw(model), draw(model)
    assert (first.dot, first.svg, first.png) == (second.dot, second.svg, second.png)
    assert model.to_json() == before


def test_saving_goes_by_suffix(tmp_path: Path) -> None:
    diagram = draw(model_of(scatter()))
    for suffix in ("svg", "png", "pdf", "dot", "gv", "SVG"):
        diagram.save(tmp_path / f"d.{suffix}")
    assert (tmp_path / "d.svg").read_text(encoding="utf-8") == diagram.svg
    assert (tmp_path / "d.png").read_bytes() == diagram.png
    assert (tmp_path / "d.pdf").read_bytes() == diagram.pdf
    assert (tmp_path / "d.gv").read_text(encoding="utf-8") == diagram.dot
    with pytest.raises(FormatError) as caught:
        diagram.save("d.jpg")
    assert str(caught.value) == (
        "diagram 'd.jpg': the suffix is '.jpg'; expected '.svg', '.png', '.pdf', '.dot' or '.gv'"
    )


def test_saving_to_where_nothing_can_be_written(tmp_path: Path) -> None:
    diagram = draw(model_of(scatter()))
    path = tmp_path / "no" / "d.dot"
    with pytest.raises(FormatError) as caught:
        diagram.save(path)
    why = f"there is no folder {str(path.parent)!r}; make it first"
    assert str(caught.value) == f"{path}: cannot be written: {why}"
    with pytest.raises(FormatError) as caught:
        diagram.save(5)  # type: ignore[arg-type]
    assert str(caught.value) == "the path is of type int; expected a str or os.PathLike"


def test_a_notebook_gets_every_form() -> None:
    diagram = draw(model_of(scatter()))
    bundle = diagram._repr_mimebundle_()
    assert bundle["image/svg+xml"] == diagram.svg
    assert b64decode(bundle["image/png"]) == diagram.png
    assert bundle["text/plain"] == diagram.alt


def test_png_has_the_size_of_the_svg_at_192_dots_per_inch() -> None:
    diagram = draw(model_of(scatter()))
    width, height = render.size(diagram.svg)
    pixels = struct.unpack(">II", diagram.png[16:24])
    assert pixels == pytest.approx((width * 192 / 72, height * 192 / 72), abs=3)


def test_a_very_wide_diagram_gets_a_png_that_viewers_open() -> None:
    nodes = [unary(f"n{i}", "Relu") for i in range(60)]
    diagram = draw(model_of(*nodes, edges=[edge(f"n{i}.Y", f"n{i + 1}.X") for i in range(59)]))
    width, _ = struct.unpack(">II", diagram.png[16:24])
    assert render.size(diagram.svg)[0] * 192 / 72 > render.MOST_SIDE >= width > render.MOST_SIDE * 0.9


def test_a_missing_command_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(render.sys, "executable", "/nowhere/python")
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(RenderError) as caught:
        _ = draw(model_of(scatter())).svg
    assert str(caught.value) == (
        "graphviz-pure: command not found in '/nowhere' or in PATH; run: pip install graphviz-pure"
    )


def test_a_command_that_does_not_end_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: object, timeout: float, **__: object) -> None:
        raise subprocess.TimeoutExpired("graphviz-pure", timeout)

    monkeypatch.setattr(render.subprocess, "run", never)
    with pytest.raises(RenderError, match=r"^graphviz-pure: no picture after 120 s; "):
        _ = draw(model_of(scatter())).svg


def test_a_command_that_fails_is_quoted() -> None:
    with pytest.raises(RenderError, match=r"^graphviz-pure: exit status 1: Error: <stdin>: syntax error"):
        _ = Diagram("digraph {", "t", "a").svg


def contrast(one: str, other: str) -> float:
    """Return the contrast ratio of two colours, by WCAG 2.1."""

    def luminance(colour: str) -> float:
        channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
        return float(np.dot((0.2126, 0.7152, 0.0722), linear))

    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("name", THEMES)
def test_every_text_stands_out_from_its_ground(name: str) -> None:
    theme, kinds = THEMES[name], list[DtypeClass](LIGHT.dtype)
    pairs = [*product((theme.text, theme.muted), (theme.page, theme.ground, theme.box, theme.band))]
    pairs += product((theme.text, theme.muted), (theme.constant[kind] for kind in kinds))
    pairs += product((theme.header_text, theme.header_id), (theme.header,))
    pairs += product((theme.header_text,), (theme.missing,))
    pairs += product((theme.dtype[kind] for kind in kinds), (theme.ground, theme.box, theme.band))
    least = {"light": 4.5, "dark": 5.5}[name]
    weak = [(pair, contrast(*pair)) for pair in pairs if contrast(*pair) < least]
    assert weak == []


def test_dtype_colours_stand_out_most_in_the_dark() -> None:
    grounds = DARK.page, DARK.ground
    assert min(contrast(*pair) for pair in product(DARK.dtype.values(), grounds)) >= 7.3


def shared_models() -> list[Path]:
    found = [path for path in SHARED.glob("*.*") if path.suffix in (".json", ".yaml")]
    return sorted(path for path in found if path.name != "manifest.json")


@pytest.mark.parametrize("path", shared_models(), ids=lambda path: path.name)
@pytest.mark.parametrize("theme", THEMES)
def test_real_models_draw(path: Path, theme: str) -> None:
    model = load(path)
    if not model.graphs:
        return  # NeuroMLlite
    diagram = draw(model, theme=theme)
    assert set(strings(diagram)) > {"MDF graph"}
    drawn = len(re.findall(r'class="edge"', diagram.svg))
    assert drawn >= len(model.graphs[0].edges)


def test_what_is_no_model_is_refused() -> None:
    with pytest.raises(ModelError) as caught:
        draw("m.yaml")  # type: ignore[arg-type]
    assert str(caught.value) == (
        "the model is of type str; expected a modeci_mdf.mdf.Model:"
        " mdf_scatter.load reads one from a file, mdf_scatter.from_onnx from ONNX"
    )


def test_settings_that_a_call_gives_itself_have_rows_of_their_own() -> None:
    arguments = {
        "data": "the_zeros_it_begins_with",
        "indices": "the_targets_of_all",
        "updates": "w",
        "reduction": "add",
        "training": False,
        "lda_coeff": "scale",
    }
    node = Node(
        "s",
        input_ports=[InputPort(name) for name in list(arguments.values())[:3]],
        parameters=[Parameter("scale", value=0.5)],
        functions=[Function("f", function="ScatterND", args=arguments)],
        output_ports=[OutputPort("y", value="f")],
    )
    words = strings(draw(Model("m", graphs=[Graph("g", nodes=[node])])))
    assert "f" not in words
    for name, value in {
        "reduction": "add",
        "training": "false",
        "lda_coeff": "scale",
        "scale": "0.5",
    }.items():
        assert words[words.index(name) + 1] == value


def test_arguments_that_are_no_ports_have_rows_of_their_own() -> None:
    node = unary("n", "linear")
    node.functions[0].args = {"variable0": "X", "slope": 2.0, "intercept": "X + 1"}
    words = strings(draw(model_of(node)))
    assert [words[words.index(name) + 1] for name in ("slope", "intercept")] == ["2.0", "X + 1"]
    assert not {"f", "variable0"} & set(words)


def test_ports_say_which_input_of_an_operator_they_are() -> None:
    node = scatter()
    node.input_ports[0].id = "field"
    node.functions[0].args = {**node.functions[0].args, "data": "field"}
    words = strings(draw(model_of(node)))
    assert words[words.index("as data") - 1] == "field"
    assert not any(word in words for word in ("as indices", "as updates"))


def test_an_array_that_a_call_gives_stands_in_its_box_only() -> None:
    node = unary("n", "onnx::MatMul")
    node.functions[0].args = {"A": [[1.0, 2.0]], "B": "X"}
    assert strings(draw(model_of(node))).count("[[1.0, 2.0]]") == 1


@pytest.mark.parametrize(
    ("function", "code", "text"),
    [
        ("onnx::Cast", 10, "10 (float16)"),
        ("onnx::Cast", 8, "8 (string)"),
        ("onnx::Cast", 99, "99"),
        ("onnx::Cast", 0, "0"),
        ("onnx::Cast", [1, 7], "[1, 7]"),
        ("linear", 1, "1"),
    ],
)
def test_a_number_that_stands_for_an_element_type_is_followed_by_it(
    function: str, code: object, text: str
) -> None:
    node = unary("n", function)
    node.parameters = [Parameter("to", value=code)]
    words = strings(draw(model_of(node)))
    assert words[words.index("to") + 1] == text


def test_halves_of_a_row_share_its_room() -> None:
    test, long = "t >= delay and t < delay + duration", "X+" * 30
    node = unary("n", "Relu")
    node.parameters = [Parameter("i", conditions=[ParameterCondition("c", test=test, value="0")])]
    assert f"i if {test}" in strings(draw(model_of(node)))
    node.parameters.append(Parameter("p", value=long))
    words = strings(draw(model_of(node)))
    assert {"i if t >= delay and…y + duration", f"{long[:37]}..."} <= set(words)


def test_a_node_named_as_its_function_says_so_once() -> None:
    assert strings(draw(model_of(unary("Relu", "onnx::Relu")))).count("Relu") == 1


def test_what_no_file_gives_is_drawn_all_the_same() -> None:
    model = Model("m", graphs=[Graph("g", nodes=[Node("n")])])
    [node] = model.graphs[0].nodes
    node.parameters = [
        Parameter("p", value=10**5000),
        Parameter("specified_outputs_name", value=1j),
    ]
    node.functions = [Function("f", function="linear", args={"slope": np.array([1.0, 2.0])})]
    node.functions.append(Function("g"))
    node.functions[-1].function = {"linear": {}}
    node.output_ports = [OutputPort("y", value="f")]
    words = strings(draw(model))
    assert words[words.index("p") + 1] == "an integer of 16610 bits"
