"""One page a graph: self-contained, safe whatever the names are, usable by mouse and by keyboard."""

from __future__ import annotations

import base64
import hashlib
import re
from html.parser import HTMLParser

import numpy as np
import pytest
from browser import CHROMIUM, Browser
from modeci_mdf.mdf import Function, Graph, InputPort, Model, Node, OutputPort, Parameter
from models import chain
from test_formats import plain
from test_pictures import GRAPHS, HELL

from mdf_scatter import run
from mdf_scatter.drawing.page import drawn_page, page
from mdf_scatter.drawing.style import DARK, LIGHT
from mdf_scatter.formats import load, save

[EXAMPLE] = [path for path in GRAPHS if path.stem == "scatter_nd_diamond"]
VOID = {"meta", "img", "source"}


class Elements(HTMLParser):
    """Every element of a page with its attributes, and the text of each."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self._open: list[str] = []
        self.feed(text)
        assert not self._open, "an element is not closed"

    def handle_starttag(self, tag, attrs):
        assert len(dict(attrs)) == len(attrs), f"{tag} has an attribute twice"
        self.found.append((tag, dict(attrs)))
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self._open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)


def hellish() -> Model:
    node = Node(HELL, input_ports=[InputPort(HELL, type="float32", shape=(2,))])
    node.parameters += [Parameter("a: b = c", value=np.arange(4)), Parameter("text", value=HELL)]
    node.functions.append(
        Function(HELL, function="linear", args={"variable0": HELL, "slope": 2, "intercept": 1})
    )
    node.output_ports.append(OutputPort("long" * 2500, value=HELL))
    attack = '<img src=x onerror="hacked=1"></title></script><script>hacked=1</script>'
    other = Node(attack, output_ports=[OutputPort('" onfocus="hacked=1" autofocus x="', value="v")])
    other.parameters.append(Parameter("v", value=[1.5, 2.5]))
    other.functions.append(Function("f", function="exp", args={"variable0": "v"}))
    return Model(attack, graphs=[Graph(HELL, nodes=[node, other])])


def long_chain(count: int) -> Model:
    nodes = []
    for position in range(count):
        node = Node(f"n{position}", input_ports=[InputPort("x", type="float32", shape=(2,))])
        node.functions.append(Function("f", function="onnx::Relu", args={"X": "x"}))
        node.output_ports.append(OutputPort("y", value="f"))
        nodes.append(node)
    return Model("long", graphs=[chain(*nodes)])


@pytest.mark.parametrize("model", [load(EXAMPLE), hellish()], ids=["example", "hell"])
def test_a_page_is_whole_and_asks_for_nothing(model, tmp_path):
    text = page(model)
    elements = Elements(text)
    tags = [tag for tag, _ in elements.found]
    assert tags.count("script") == 2
    assert tags.count("style") == 1
    assert not {"link", "iframe", "object", "embed", "base", "form"} & set(tags)
    for tag, attributes in elements.found:
        assert not [name for name in attributes if name.startswith("on")], tag
        assert "style" not in attributes
        for name in ("src", "href", "srcset"):
            value = attributes.get(name) or "#"
            assert value.startswith(("#", "data:image/svg+xml;base64,", "https://onnx.ai/onnx/operators/")), (
                value
            )
    (tmp_path / "m.html").write_text(text)
    assert plain(load(tmp_path / "m.html")) == plain(model)
    assert text == page(model)


def test_only_its_own_script_and_style_may_run():
    text = page(load(EXAMPLE))
    [policy] = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]*)"', text)
    script, style = (
        re.findall(r"<script>(.*?)</script>", text, re.DOTALL),
        re.findall(r"<style>(.*?)</style>", text, re.DOTALL),
    )
    hashes = [base64.b64encode(hashlib.sha256(part.encode()).digest()).decode() for part in (*script, *style)]
    assert policy == (
        f"default-src 'none'; script-src 'sha256-{hashes[0]}'; style-src 'sha256-{hashes[1]}'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )


def test_the_page_has_the_grounds_and_texts_of_its_diagrams():
    style = page(load(EXAMPLE)).partition("</style>")[0]
    for theme in (LIGHT, DARK):
        for colour in (theme.page, theme.band, theme.text, theme.muted, theme.frame):
            assert colour.lower() in style


def sections(text: str) -> dict[str, str]:
    """Return the words of each section by its heading."""
    found = re.findall(r'<section id="[^"]*" [^>]*><h2[^>]*>(.*?)</h2>(.*?)</section>', text, re.DOTALL)
    return {heading: " ".join(re.sub(r"<[^>]*>", " ", body).split()) for heading, body in found}


def test_a_section_says_everything_of_its_node():
    found = sections(drawn_page(load(EXAMPLE)))
    assert found["node accumulate"] == (
        "ScatterND(data, indices, updates, reduction) ScatterND in ONNX Inputs data float32[4, 2] "
        "Outputs sums float32[4, 2] Parameters and expressions indices int64[3, 1] = [[0], [3], [0]] "
        "updates float32[3, 2] = [[1.0, 1.0], [10.0, 10.0], [2.0, 2.0]] reduction add"
    )
    assert found["node scale"] == (
        "linear(variable0=x, slope, intercept) Inputs x float32[4, 2] Outputs scaled float32[4, 2] "
        "Parameters and expressions slope 0.5 intercept 1.0"
    )
    assert found["graph output y"] == "type float32[4, 2]"
    assert found["graph input x"] == "type float32[4, 2] default [[1, -2], [-3, 4], [5, -6], [-7, 8]]"
    assert found["constant updates"] in (
        "type float32[2] value [0.0, 0.0]",
        "type float32[3, 2] value [[1.0, 1.0], [10.0, 10.0], [2.0, 2.0]]",
    )


def test_values_and_cells_of_a_run():
    model = load(EXAMPLE)
    text = drawn_page(model, values=run(model))
    assert sections(text)["graph output y"].startswith("type float32[4, 2] value [[5.5, 1.0], ")
    alts = [attributes["alt"] for tag, attributes in Elements(text).found if tag == "img"]
    assert len(alts) == 2
    assert all(alt.startswith("ScatterND ") for alt in alts)
    assert "What it does" not in drawn_page(model)


def test_both_themes_have_the_same_nodes_in_the_order_of_the_data():
    text = drawn_page(load(EXAMPLE))
    light, dark = text.split('<div class="dark">')
    labels = [re.findall(r'aria-label="([^"]*)" aria-expanded', part) for part in (light, dark)]
    assert labels[0] == labels[1]
    nodes = [label for label in labels[0] if label.startswith("node ")]
    assert nodes.index("node scale") < nodes.index("node accumulate") < nodes.index("node rectify")
    assert text.count("<section ") == len(labels[0])


def test_a_folded_graph_lists_its_nodes():
    found = sections(drawn_page(long_chain(400)))
    assert "12 nodes, n388 to n399" in found
    listed = [name for body in found.values() for name in re.findall(r"node (n\d+) ", body + " ")]
    listed += [heading.removeprefix("node ") for heading in found if re.fullmatch(r"node n\d+", heading)]
    assert sorted(listed) == sorted(f"n{position}" for position in range(400))


# ---- in a browser -------------------------------------------------------------------------------------

in_a_browser = pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    opened = Browser(tmp_path_factory.mktemp("profile"))
    yield opened
    opened.close()


@pytest.fixture
def example(browser, tmp_path):
    model = load(EXAMPLE)
    save(model, tmp_path / "m.html", picture=drawn_page(model, values=run(model)).encode())
    browser.said.clear()
    browser.open(tmp_path / "m.html")
    yield browser
    assert browser.said == []


def middle(browser: Browser, label: str) -> tuple[float, float]:
    found = browser.ask(
        f"(() => {{ const at = [...document.querySelectorAll('g[data-panel]')]"
        f".find((node) => node.getAttribute('aria-label') === {label!r} && node.checkVisibility())"
        ".getBoundingClientRect(); return [at.x + at.width / 2, at.y + at.height / 2]; })()"
    )
    return tuple(found)


def shown(browser: Browser) -> str | None:
    return browser.ask(
        "document.querySelector('#panel:not([hidden]) section:not([hidden]) h2')?.textContent ?? null"
    )


def box(browser: Browser) -> list[float]:
    return [
        float(part)
        for part in browser.ask("document.querySelector('.light svg').getAttribute('viewBox')").split()
    ]


@in_a_browser
def test_a_click_opens_a_node_and_another_its_own(example):
    assert shown(example) is None
    example.click(*middle(example, "node accumulate"))
    assert shown(example) == "node accumulate"
    assert example.ask("document.querySelector('section:not([hidden]) img').naturalWidth") > 100
    assert middle(example, "graph output y")[0] < example.ask("document.getElementById('view').clientWidth")
    example.click(*middle(example, "node rectify"))
    assert shown(example) == "node rectify"
    assert example.ask("document.querySelectorAll('.light [aria-expanded=true]').length") == 1
    example.ask("document.getElementById('close').click()")
    assert shown(example) is None


@in_a_browser
def test_a_page_that_has_no_room_yet_fits_once_it_has(example):
    fitted = box(example)
    example.ask("document.querySelector('main').style.display = 'none', fit(), zoom(2)")
    assert len(box(example)) == 4
    example.ask("document.querySelector('main').style.display = '', fit()")
    assert box(example) == fitted


@in_a_browser
def test_every_node_is_reached_and_opened_by_keyboard(example):
    names = []
    for _ in range(40):
        example.press("Tab", 9)
        label = example.ask("document.activeElement.getAttribute('aria-label')")
        if label is not None and example.ask("document.activeElement.matches('g[data-panel]')"):
            names.append(label)
            example.press("Enter", 13, "\r")
            assert shown(example) is not None
            example.press("Escape", 27)
            assert shown(example) is None
            assert example.ask("document.activeElement.getAttribute('aria-label')") == label
        if names and example.ask("document.activeElement === document.body"):
            break
    visible = example.ask(
        "[...document.querySelectorAll('.light g[data-panel]')].map((n) => n.getAttribute('aria-label'))"
    )
    assert names[: len(visible)] == visible
    assert "node accumulate" in visible


@in_a_browser
def test_keys_move_and_zoom(example):
    example.ask("document.getElementById('view').focus()")
    x, y, width, height = start = box(example)
    example.press("ArrowRight", 39)
    example.press("ArrowDown", 40)
    assert box(example)[0] > x
    assert box(example)[1] > y
    example.press("ArrowLeft", 37)
    example.press("ArrowUp", 38)
    assert box(example) == pytest.approx(start)
    example.press("+", 187, "+")
    assert box(example)[2:] == pytest.approx([0.8 * width, 0.8 * height])
    centre = [box(example)[0] + box(example)[2] / 2, box(example)[1] + box(example)[3] / 2]
    assert centre == pytest.approx([x + width / 2, y + height / 2])
    example.press("-", 189, "-")
    example.press("-", 189, "-")
    assert box(example)[2] == pytest.approx(1.25 * width)
    example.press("0", 48, "0")
    assert box(example) == pytest.approx(start)


@in_a_browser
def test_the_mouse_drags_and_the_wheel_zooms_where_it_points(example):
    x, y = middle(example, "node accumulate")
    before = box(example)
    mouse = {"button": "left", "buttons": 1, "clickCount": 1}
    example.call("Input.dispatchMouseEvent", type="mousePressed", x=x, y=y, **mouse)
    for step in range(1, 6):
        example.call("Input.dispatchMouseEvent", type="mouseMoved", x=x + 10 * step, y=y, **mouse)
    example.call("Input.dispatchMouseEvent", type="mouseReleased", x=x + 50, y=y, **mouse)
    assert box(example)[0] < before[0]
    assert shown(example) is None
    moved = middle(example, "node accumulate")
    assert moved == pytest.approx((x + 50, y), abs=11)
    example.call("Input.dispatchMouseEvent", type="mouseWheel", x=moved[0], y=moved[1], deltaX=0, deltaY=-300)
    while box(example)[2] > 0.99 * before[2]:
        pass
    assert middle(example, "node accumulate") == pytest.approx(moved, abs=1)


@in_a_browser
def test_light_and_dark_by_the_readers_setting(example, tmp_path):
    for scheme, theme in (("light", LIGHT), ("dark", DARK)):
        example.open(tmp_path / "m.html", scheme)
        red, green, blue = (int(theme.page[at : at + 2], 16) for at in (1, 3, 5))
        assert (
            example.ask("getComputedStyle(document.body).backgroundColor") == f"rgb({red}, {green}, {blue})"
        )
        drawn = example.ask("[...document.querySelectorAll('#view svg')].map((svg) => svg.checkVisibility())")
        assert drawn == [scheme == "light", scheme == "dark"]
        example.click(*middle(example, "node accumulate"))
        assert shown(example) == "node accumulate"


@in_a_browser
def test_names_run_nothing(browser, tmp_path):
    save(hellish(), tmp_path / "m.html")
    browser.said.clear()
    browser.open(tmp_path / "m.html")
    for panel in browser.ask(
        "[...document.querySelectorAll('.light g[data-panel]')].map((n) => n.dataset.panel)"
    ):
        browser.ask(f"document.querySelector('.light [data-panel={panel}]').focus()")
        browser.press("Enter", 13, "\r")
        assert shown(browser)
    assert browser.ask("typeof hacked") == "undefined"
    assert browser.said == []
    width = browser.ask("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    assert width == 0, "a long name makes the page wider than the window"
