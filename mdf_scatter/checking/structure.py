"""Ids, graphs and ports: what is there twice, and what is not there at all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from modeci_mdf.mdf import Graph, Model

from mdf_scatter.attributes import graphs_in
from mdf_scatter.checking.finding import Finding, error, place, warning
from mdf_scatter.checking.scope import Scope
from mdf_scatter.wiring import graph_inputs, graph_outputs, onnx_metadata


def check_model(model: Model) -> Iterator[Finding]:
    """Find graphs that are missing, have one id, or are never run."""
    if not model.graphs:
        yield error(place(model.id), "the model has no graph; expected one")
    yield from _twice(place(model.id), "graph", (graph.id for graph in model.graphs))
    values = [p.value for graph in model.graphs for node in graph.nodes for p in node.parameters]
    runs = {graph.id for graph in model.graphs[:1]}
    runs |= {graph_id for value in values for graph_id in graphs_in(value)}
    for graph in model.graphs:
        if graph.id not in runs and not onnx_metadata(graph):
            yield warning(
                place(graph.id),
                f"the graph is not run: a model's first is, here {model.graphs[0].id!r};"
                " move it to a model of its own",
            )


def check_graph(graph: Graph) -> Iterator[Finding]:
    """Find nodes and edges with one id, and inputs or outputs with one name."""
    if not graph.nodes:
        yield error(place(graph.id), "the graph has no nodes; expected one or more")
    yield from _twice(place(graph.id), "node", (node.id for node in graph.nodes))
    yield from _twice(place(graph.id), "edge", (edge.id for edge in graph.edges))
    try:
        inputs = [item.name for item in graph_inputs(graph)]
        outputs = list({id(item.port): item.name for item in graph_outputs(graph)}.values())
    except (TypeError, ValueError, AttributeError):
        yield error(
            place(graph.id), "metadata 'onnx' is not as this package writes it; remove it, or import again"
        )
        return
    yield from _twice(place(graph.id), "input", inputs, "name")
    yield from _twice(place(graph.id), "output", outputs, "name")


def check_node(scope: Scope) -> Iterator[Finding]:
    """Find names that stand for two things, and outputs without value or with too many names."""
    node = scope.node
    ids = [("input port", port.id) for port in node.input_ports]
    ids += [("parameter", parameter.id) for parameter in node.parameters]
    ids += [("function", function.id) for function in node.functions]
    kinds: dict[str, list[str]] = {}
    for kind, name in ids:
        kinds.setdefault(name, []).append(kind)
    for name, found in kinds.items():
        if len(found) > 1:
            yield error(
                scope.where(name),
                f"{name!r} is the id of {len(found)} parts of the node ({', '.join(found)}),"
                " which share one set of names; rename all but one",
            )
    yield from _twice(scope.where(), "output port", (port.id for port in node.output_ports))
    for port in node.output_ports:
        if port.value is None:
            yield error(
                scope.where(port.id),
                "the output port has no value; expected a name of the node, or an expression",
            )
    yield from _output_names(scope)


def _output_names(scope: Scope) -> Iterator[Finding]:
    parameter = scope.parameters.get("specified_outputs_name")
    if parameter is None or parameter.value is None:
        return
    where = scope.where(parameter.id)
    value = [parameter.value] if isinstance(parameter.value, str) else parameter.value
    try:
        names = list(value)
    except TypeError:
        names = [value]
    if isinstance(value, dict) or not all(isinstance(name, str) for name in names):
        yield error(where, "expected a list of texts, one name for each output port")
        return
    if len(names) > len(scope.node.output_ports):
        ports = len(scope.node.output_ports)
        yield error(where, f"gives {len(names)} names; the node has {ports} output port{'s' * (ports != 1)}")
    for name, count in Counter(names).items():
        if count > 1:
            yield error(where, f"gives the name {name!r} {count} times; names of outputs are unique")
        if not name.strip():
            yield warning(where, "gives an empty name; the output keeps the id of its port")


def _twice(where: str, kind: str, names: Iterable[Any], what: str = "id") -> Iterator[Finding]:
    for name, count in Counter(map(str, names)).items():
        if count > 1:
            yield error(where, f"{count} {kind}s have the {what} {name!r}; each needs its own")
