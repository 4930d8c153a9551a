"""The form of a model: that lists hold what MDF says they do. modeci-mdf loads anything into them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from modeci_mdf.mdf import Edge, Function, Graph, InputPort, Model, Node, OutputPort, Parameter

from mdf_scatter.checking.finding import Finding, error, place

_OF_GRAPH = {"nodes": Node, "edges": Edge}
_OF_NODE = {
    "input_ports": InputPort,
    "parameters": Parameter,
    "functions": Function,
    "output_ports": OutputPort,
}


def check_form(model: Model) -> Iterator[Finding]:
    """Find what is no graph, node, edge, port, function or parameter where one has to be.

    The other checks can read a model only if this finds nothing.
    """
    yield from _of_kind(place(model.id), model, "graphs", Graph)
    for graph in _those(model.graphs, Graph):
        for name, kind in _OF_GRAPH.items():
            yield from _of_kind(place(graph.id), graph, name, kind)
        for node in _those(graph.nodes, Node):
            for name, kind in _OF_NODE.items():
                yield from _of_kind(place(graph.id, node.id), node, name, kind)


def _of_kind(where: str, owner: Any, name: str, kind: type) -> Iterator[Finding]:
    value = getattr(owner, name)
    if not isinstance(value, list):
        yield error(where, f"{name} is of type {type(value).__name__}; expected ids, each with {_a(kind)}")
        return
    for position, item in enumerate(value):
        if not isinstance(item, kind):
            yield error(where, f"{name}[{position}] is of type {type(item).__name__}; expected {_a(kind)}")


def _those(value: Any, kind: type) -> list[Any]:
    return [item for item in value if isinstance(item, kind)] if isinstance(value, list) else []


def _a(kind: type) -> str:
    return f"a{'n' * (kind.__name__[0] in 'EIO')} {kind.__name__}"
