"""Which graphs of a model are drawn: the main one, its functions, and subgraphs inside nodes."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from modeci_mdf.mdf import Graph, Model, Node

from mdf_scatter.attributes import graphs_in
from mdf_scatter.errors import InputError
from mdf_scatter.wiring import onnx_metadata

UNFOLDED = 150
"""Subgraphs are drawn, where nothing is said, as long as there are no more nodes in all than this."""

DEEPEST = 16
"""Frames within frames that Graphviz and readers can take."""


@dataclass(frozen=True)
class Inner:
    """A graph that a node names.

    Attributes:
        label: Name of the parameter that names it, or `function`.
        id: The graph's id.
        graph: The graph, or None where the model has none of that id.
        here: Whether it is drawn inside this node's frame.
    """

    label: str
    id: str
    graph: Graph | None
    here: bool


@dataclass(frozen=True)
class Outline:
    """What is drawn of a model.

    Attributes:
        roots: Graphs that are drawn side by side.
    """

    roots: tuple[Graph, ...]
    _inner: dict[int, list[Inner]]

    def inner(self, node: Node) -> list[Inner]:
        """List the graphs that a node names."""
        return self._inner.get(id(node), [])

    def graphs(self) -> Iterator[Graph]:
        """Give every graph that is drawn."""
        waiting = deque(self.roots)
        while waiting:
            graph = waiting.popleft()
            yield graph
            held = (item for node in graph.nodes for item in self.inner(node) if item.here)
            waiting += [item.graph for item in held if item.graph is not None]


class _Level(NamedTuple):
    """How deep a graph stands, and the node and parameter that hold it; none for a root."""

    depth: int
    node: Node | None = None
    label: str = ""


def outline(model: Model, depth: int | None) -> Outline:
    """Decide which graphs are drawn, and where: each one once, in the first node that names it.

    Args:
        model: The model; it has a graph.
        depth: How many levels of subgraphs are drawn: 0 for none, None for as many as are readable.

    Raises:
        InputError: The depth is negative.
    """
    if depth is not None and depth < 0:
        raise InputError(f"depth is {depth}; expected 0, which folds all subgraphs, or more")
    levels = _levels(model)
    depth = min(_readable(model, levels) if depth is None else depth, DEEPEST)
    by_id, functions = _by_id(model), _functions(model)

    def inner(node: Node, label: str, name: str) -> Inner:
        graph = by_id.get(name)
        level = None if graph is None else levels[id(graph)]
        here = level is not None and level.depth <= depth and level.node is node and level.label == label
        return Inner(label, name, graph, here)

    found: dict[int, list[Inner]] = {}
    for node in (node for graph in model.graphs for node in graph.nodes):
        called = [
            part.function
            for part in (*node.parameters, *node.functions)
            if isinstance(part.function, str) and part.function in functions
        ]
        found[id(node)] = [
            *(inner(node, label, name) for label, name in _references(node)),
            *(Inner("function", functions[name].id, functions[name], here=False) for name in called),
        ]
    roots = (graph for graph in model.graphs if levels[id(graph)].node is None)
    return Outline(tuple(graph for graph in roots if levels[id(graph)].depth <= depth), found)


def function_of(graph: Graph) -> str | None:
    """Return the name by which nodes call a graph, if it is a function of the model."""
    said = onnx_metadata(graph).get("function")
    return f"{said.get('domain', '')}::{said.get('name', '')}" if isinstance(said, dict) else None


def _levels(model: Model) -> dict[int, _Level]:
    by_id = _by_id(model)
    named = {name for graph in model.graphs for node in graph.nodes for _, name in _references(node)}
    # What nodes name waits for them; what only names itself is found last, and is a root.
    first = model.graphs[:1] + [
        graph for graph in model.graphs[1:] if graph.id not in named or by_id[graph.id] is not graph
    ]
    found: dict[int, _Level] = {}
    for root in (*first, *model.graphs):
        if id(root) in found:
            continue
        found[id(root)] = _Level(0 if function_of(root) is None else 1)
        waiting = deque([root])
        while waiting:
            graph = waiting.popleft()
            for node in graph.nodes:
                for label, name in _references(node):
                    held = by_id.get(name)
                    if held is not None and id(held) not in found:
                        found[id(held)] = _Level(found[id(graph)].depth + 1, node, label)
                        waiting.append(held)
    return found


def _readable(model: Model, levels: dict[int, _Level]) -> int:
    depth = 0
    deepest = max(level.depth for level in levels.values())
    while depth < deepest:
        nodes = sum(len(graph.nodes) for graph in model.graphs if levels[id(graph)].depth <= depth + 1)
        if nodes > UNFOLDED:
            break
        depth += 1
    return depth


def _references(node: Node) -> Iterator[tuple[str, str]]:
    """Give the parameter and the id of each graph that a node names."""
    for parameter in node.parameters:
        names = graphs_in(parameter.value)
        for position, name in enumerate(names):
            yield (parameter.id if len(names) == 1 else f"{parameter.id}[{position}]"), name


def _by_id(model: Model) -> dict[str, Graph]:
    return {graph.id: graph for graph in reversed(model.graphs)}


def _functions(model: Model) -> dict[str | None, Graph]:
    named = ((function_of(graph), graph) for graph in reversed(model.graphs))
    return {name: graph for name, graph in named if name is not None}
