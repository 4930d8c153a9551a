"""What a page says of each node: everything its tooltips say, in order, and its cells."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Mapping
from html import escape
from typing import Any

from modeci_mdf.mdf import Model, Node

from mdf_scatter.drawing.calls import Call, calls, is_onnx_operator
from mdf_scatter.drawing.markup import short_code, short_name, visible
from mdf_scatter.drawing.style import THEMES
from mdf_scatter.drawing.tensor_type import is_array
from mdf_scatter.drawing.values import full_text
from mdf_scatter.errors import MdfScatterError
from mdf_scatter.ops import OPS
from mdf_scatter.wiring import graph_inputs, is_backward

_NAME = 120
"""Characters of a name in a table; longer ones are cut, in full they stand in the model."""

_MOST_NODES = 200
_MOST_CELLS = 12
"""Larger graphs, and more scatters and gathers in one, are not drawn cell by cell: each takes a run."""


class Sections:
    """The sections of a page, by their keys, in `written`."""

    def __init__(self, model: Model, values: Mapping[str, object] | None) -> None:
        """Take what the page is of; with values of a run, it gets cells."""
        self.written: dict[str, str] = {}
        self._cells = {} if values is None else _cells(model, values)
        self._nodes: dict[str, Node] = {}
        self._passes: dict[int, str] = {}
        for graph in model.graphs:
            has_backward = any(map(is_backward, graph.nodes))
            for node in graph.nodes:
                self._nodes.setdefault(f"node {visible(node.id)}", node)
                if has_backward:
                    self._passes[id(node)] = "backward " if is_backward(node) else "forward "

    def label(self, key: str, tips: list[str]) -> str:
        """Return what a node is called, and write its section where that is not done yet.

        Args:
            key: The section's id.
            tips: The tooltips of a box of the diagram, its own first.
        """
        own = tips[0] if tips else ""
        several = [node for node in map(self._node, tips[1:]) if node is not None]
        node = self._node(own)
        if several:
            first, last = (short_name(several[at].id) for at in (0, -1))
            way = self._passes.get(id(several[0]), "")
            title, body = f"{len(several)} {way}nodes, {first} to {last}", "".join(map(_brief, several))
        elif node is not None:
            title = f"{self._passes.get(id(node), '')}node {visible(node.id)}"
            body = _content(node, tips[1:]) + self._cells.get(id(node), "")
        else:
            title, body = own.partition(": ")[0], _value(own)
        heading = f'<h2 id="{key}-title">{escape(title)}</h2>'
        section = f'<section id="{key}" aria-labelledby="{key}-title" hidden>{heading}{body}</section>'
        self.written.setdefault(key, section)
        return short_name(title)

    def _node(self, tip: str) -> Node | None:
        ends = [*(place.start() for place in re.finditer("; ", tip)), len(tip)]
        return next((self._nodes[tip[:end]] for end in ends if tip[:end] in self._nodes), None)


def _value(tip: str) -> str:
    """Return what a tooltip says of the only value of an input, output or constant."""
    named, sign, value = next(
        (tip.partition(sign) for sign in (", default ", " = ") if sign in tip), (tip, "", "")
    )
    tensor = named.rpartition(": ")[2] if ": " in named else ""
    rows = [("type", tensor), ("default" if "default" in sign else "value", value)]
    return _table("", [row for row in rows if row[1]])


def _content(node: Node, tips: list[str]) -> str:
    inputs = {visible(port.id) for port in node.input_ports}
    outputs = {visible(port.id) for port in node.output_ports} - inputs
    held = {
        visible(part.id): visible(full_text(part.value)) for part in node.parameters if is_array(part.value)
    }
    rows = [_row(tip, inputs | outputs | set(held)) for tip in tips]
    # A constant drawn beside its node says its value there; here it stands with the others.
    rows = [
        (name, f"{text} = {held[name]}" if name in held and " = " not in text else text)
        for name, text in rows
    ]
    return "".join(
        [
            *(_call(call) for call in calls(node)),
            _table("Inputs", [row for row in rows if row[0] in inputs]),
            _table("Outputs", [row for row in rows if row[0] in outputs]),
            _table("Parameters and expressions", [row for row in rows if row[0] not in inputs | outputs]),
        ]
    )


def _brief(node: Node) -> str:
    parameters = [
        (visible(part.id), visible(full_text(part.value)))
        for part in node.parameters
        if part.value is not None
    ]
    heading = f"<h3>node {escape(visible(node.id))}</h3>"
    return heading + "".join(map(_call, calls(node))) + _table("", parameters)


def _cells(model: Model, values: Mapping[str, object]) -> dict[int, str]:
    """Draw what the first scatters and gathers do, by the identity of their nodes."""
    from mdf_scatter.drawing.cells.node import explain_node

    graph = model.graphs[0]
    given = {item.name for item in graph_inputs(graph)}
    inputs: dict[str, Any] = {name: value for name, value in values.items() if name in given}
    ours = [node for node in graph.nodes if any(call.operator in OPS for call in calls(node))]
    found: dict[int, str] = {}
    if len(graph.nodes) > _MOST_NODES:
        return found
    for node in ours[:_MOST_CELLS]:
        try:
            light, dark = (explain_node(model, node.id, inputs, theme=theme) for theme in THEMES)
        except MdfScatterError:  # what cannot be computed alone, as inside a time step, has no cells
            continue
        found[id(node)] = (
            f'<h3>What it does</h3><picture><source media="(prefers-color-scheme: dark)" '
            f'srcset="{_data_url(dark.svg)}"><img src="{_data_url(light.svg)}" alt="{escape(light.alt)}">'
            "</picture>"
        )
    return found


def _data_url(svg: str) -> str:
    return f"data:image/svg+xml;base64,{base64.b64encode(svg.encode()).decode()}"


def _row(tip: str, names: Iterable[str]) -> tuple[str, str]:
    """Split a tooltip such as `data: float32[4]` or `reduction = add`, by one of the names if it can be."""
    for name in names:
        for sign in (": ", " = "):
            if tip.startswith(name + sign):
                return name, tip[len(name + sign) :]
    found = re.search(r": | = ", tip)
    return (tip[: found.start()], tip[found.end() :]) if found else (tip, "")


def _table(title: str, rows: Iterable[tuple[str, str]]) -> str:
    body = "".join(
        f'<tr><th scope="row">{escape(short_code(name, _NAME))}</th><td>{escape(text)}</td></tr>'
        for name, text in rows
    )
    heading = f"<h3>{title}</h3>" if title else ""
    return f"{heading}<table>{body}</table>" if body else ""


def _call(call: Call) -> str:
    said = escape(visible(str(call)))
    if is_onnx_operator(call.operator):
        link = f"https://onnx.ai/onnx/operators/onnx__{call.operator}.html"
        said += f' <a href="{link}" rel="noreferrer">{call.operator} in ONNX</a>'
    return f"<p>{said}</p>"
