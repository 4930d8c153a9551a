"""Graphs inside graphs: which there are, and which nodes a graph inside a node waits for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager

from modeci_mdf.mdf import Graph, Node

from mdf_scatter.attributes import graphs_in
from mdf_scatter.errors import ModelError
from mdf_scatter.wiring import onnx_metadata, outer_name


class Graphs:
    """The graphs of a model beside its main one.

    Args:
        graphs: The graphs.

    Attributes:
        functions: Domain and name of each graph that is a model-local function.
    """

    def __init__(self, graphs: Iterable[Graph] = ()) -> None:
        self._by_id = {graph.id: graph for graph in graphs}
        self._open: list[str] = []
        self._captured: dict[str, set[str]] = {}
        self.function_graphs = [graph for graph in self._by_id.values() if self.is_function(graph)]
        self.functions = frozenset(
            (str(said.get("domain", "")), str(said.get("name", graph.id)))
            for graph in self.function_graphs
            if isinstance(said := onnx_metadata(graph)["function"], dict)
        )

    def is_function(self, graph: Graph) -> bool:
        """Tell whether a graph is a model-local function."""
        return isinstance(onnx_metadata(graph).get("function"), dict)

    @contextmanager
    def opened(self, graph_id: str) -> Iterator[Graph]:
        """Give a graph while it is being lowered.

        Raises:
            ModelError: There is no such graph, or it is inside itself.
        """
        if graph_id not in self._by_id:
            raise ModelError(f"the model has no graph {graph_id!r}")
        if graph_id in self._open:
            raise ModelError(f"graph {graph_id!r} is inside itself")
        self._open.append(graph_id)
        try:
            yield self._by_id[graph_id]
        finally:
            self._open.pop()

    def captured(self, graph_id: str) -> set[str]:
        """Return the ONNX names of the values that a graph, and those inside it, take from around them."""
        if graph_id not in self._captured:
            self._captured[graph_id] = set()
            graph = self._by_id.get(graph_id)
            found: set[str] = set()
            for node in graph.nodes if graph is not None else ():
                found.update(name for port in node.input_ports if (name := outer_name(port)) is not None)
                for inner in inner_graphs(node):
                    found |= self.captured(inner)
            self._captured[graph_id] = found
        return self._captured[graph_id]


def inner_graphs(node: Node) -> list[str]:
    """Return the ids of the graphs that a node's parameters name."""
    return [graph_id for parameter in node.parameters for graph_id in graphs_in(parameter.value)]


def waits_for(graph: Graph, graphs: Graphs) -> Mapping[str, list[str]]:
    """Return, for each node with graphs inside, the other nodes whose values those read."""
    holders = {node.id: inner for node in graph.nodes if (inner := inner_graphs(node))}
    if not holders:
        return {}
    makers: dict[str, str] = {}
    for node in graph.nodes:
        for port in node.output_ports:
            for name in (f"{node.id}.{port.id}", port.id, str(onnx_metadata(port).get("name", port.id))):
                makers[name] = node.id
        for entry in node.input_ports:
            makers.setdefault(str(onnx_metadata(entry).get("name", entry.id)), node.id)
    found: dict[str, list[str]] = {}
    for holder, inner in holders.items():
        names = set().union(*(graphs.captured(graph_id) for graph_id in inner))
        found[holder] = [makers[name] for name in sorted(names) if name in makers and makers[name] != holder]
    return found
