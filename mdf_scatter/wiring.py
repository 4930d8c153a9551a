"""How an MDF graph is wired: what feeds each port, and which ports are the graph's own edge.

A graph input is an input port that no edge feeds. A graph output is an output port that no edge
leaves, or what the graph's metadata lists. Both are named by their port id, or `node.port` where
another input (or output) has that id too.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Any

import numpy as np
from modeci_mdf.mdf import Edge, Graph, InputPort, Model, Node, OutputPort

from mdf_scatter.dtypes import dtype_of, is_string, name_of
from mdf_scatter.errors import ModelError, UnsupportedError
from mdf_scatter.expressions import literal, shorten
from mdf_scatter.ops import OPS
from mdf_scatter.structured import structured_type

PASS = "mdf_scatter.pass"  # noqa: S105
"""Key of an ONNX node's `metadata_props`: "backward" in a backward pass, "backward 2" in one of that, ..."""

_BACKWARD = re.compile(r"backward(?: ([1-9]\d{0,2}))?")


@dataclass(frozen=True)
class GraphInput:
    """An input port that has to be given from outside, under `name`."""

    name: str
    node: Node
    port: InputPort


@dataclass(frozen=True)
class GraphOutput:
    """An output port whose value the graph gives to the outside, under `name`."""

    name: str
    node: Node
    port: OutputPort


def require_model(model: object) -> None:
    """Raise where what is to be a model is none: a path, most often.

    Raises:
        ModelError: It is none.
    """
    if not isinstance(model, Model):
        raise ModelError(
            f"the model is of type {type(model).__name__}; expected a modeci_mdf.mdf.Model:"
            " mdf_scatter.load reads one from a file, mdf_scatter.from_onnx from ONNX"
        )


def sole_graph(model: Model) -> Graph:
    """Return the graph that runs: the model's first.

    Raises:
        ModelError: The model has no graph, or is no model.
    """
    require_model(model)
    if not model.graphs:
        raise ModelError(f"model {model.id!r} has no graph; expected one")
    return model.graphs[0]


def onnx_metadata(part: Any) -> dict[str, Any]:
    """Return what a graph, node or port keeps of the ONNX model it was lifted from."""
    kept = (part.metadata or {}).get("onnx")
    return kept if isinstance(kept, dict) else {}


def backward_pass(node: Node) -> int:
    """Return which backward pass a node is part of, from 1 on; 0 for the forward pass."""
    props = onnx_metadata(node).get("metadata_props")
    said = props.get(PASS) if isinstance(props, dict) else None
    found = _BACKWARD.fullmatch(said) if isinstance(said, str) else None
    return 0 if found is None else int(found[1] or 1)


def is_backward(node: Node) -> bool:
    """Tell whether a node is part of a backward pass."""
    return backward_pass(node) > 0


def graph_inputs(graph: Graph) -> list[GraphInput]:
    """List the graph's inputs, in the order in which they are to be given."""
    fed = {(edge.receiver, edge.receiver_port) for edge in graph.edges}
    free = [
        (node, port)
        for node in graph.nodes
        for port in node.input_ports
        if (node.id, port.id) not in fed and outer_name(port) is None
    ]
    names = _names(free)
    found = [GraphInput(name, node, port) for name, (node, port) in zip(names, free, strict=True)]
    return _ordered(found, onnx_metadata(graph).get("inputs"))


def outer_name(port: InputPort) -> str | None:
    """Return the ONNX name of the enclosing graph's value that a port stands for; None where it is none."""
    name = onnx_metadata(port).get("outer")
    return None if name is None else str(name)


def graph_outputs(graph: Graph) -> list[GraphOutput]:
    """List the graph's outputs, in order.

    A node's parameter `specified_outputs_name` renames its outputs.
    """
    wanted = onnx_metadata(graph).get("outputs")
    ports = [(node, port) for node in graph.nodes for port in node.output_ports]
    if isinstance(wanted, list):
        by_place = {f"{node.id}.{port.id}": (node, port) for node, port in ports}
        ports = [by_place[place] for place in wanted if place in by_place]
    else:
        left = {(edge.sender, edge.sender_port) for edge in graph.edges}
        ports = [(node, port) for node, port in ports if (node.id, port.id) not in left]
    chosen = [_chosen_name(node, port) for node, port in ports]
    given = _names(ports, chosen)
    return [GraphOutput(name, node, port) for name, (node, port) in zip(given, ports, strict=True)]


def _chosen_name(node: Node, port: OutputPort) -> str | None:
    names = specified_outputs_name(node)
    if not names:
        return None
    place = next(place for place, other in enumerate(node.output_ports) if other is port)
    return names[place] if place < len(names) else None


def specified_outputs_name(node: Node) -> list[str]:
    """Return the names that a node gives to its outputs, in order; empty where it gives none."""
    parameter = node.get_parameter("specified_outputs_name")
    value = None if parameter is None else parameter.value
    if isinstance(value, str):
        value = [value]
    if not isinstance(value, (list, tuple, np.ndarray)):
        return []
    return [name if isinstance(name, str) else "" for name in value]


def incoming(graph: Graph) -> dict[tuple[str, str], list[Edge]]:
    """Map each (node id, input port id) to the edges that feed it, in the file's order."""
    feeding: dict[tuple[str, str], list[Edge]] = {}
    for edge in graph.edges:
        feeding.setdefault((edge.receiver, edge.receiver_port), []).append(edge)
    return feeding


def edges_in_order(graph: Graph) -> list[Edge]:
    """Return the edges so that each comes after one that reaches its sender, as MDF's engine orders them.

    It goes through the file's edges again and again and takes those whose sender is reached by then.
    Where no two edges enter one port their order has no meaning, and they are in the file's.
    """
    edges = list(graph.edges)
    if len({(edge.receiver, edge.receiver_port) for edge in edges}) == len(edges):
        return edges
    receivers = {edge.receiver for edge in edges}
    reached = {node.id for node in graph.nodes if node.id not in receivers}
    if not reached:
        reached = {n.id for n in graph.nodes if any(p.default_value is not None for p in n.input_ports)}
    leaving: dict[str, list[int]] = {}
    for place, edge in enumerate(edges):
        leaving.setdefault(edge.sender, []).append(place)
    found: list[int] = []
    now, later = sorted(place for name in reached for place in leaving.get(name, ())), list[int]()
    while now:
        place = heappop(now)
        found.append(place)
        receiver = edges[place].receiver
        if receiver not in reached:
            reached.add(receiver)
            for other in leaving.get(receiver, ()):
                heappush(now if other > place else later, other)
        if not now:
            now, later = later, []
    unreached = set(range(len(edges))).difference(found)
    return [edges[place] for place in (*found, *sorted(unreached))]


def is_pass_through(node: Node) -> bool:
    """Tell whether a node only stands for a graph input: one port in, the same value out."""
    return (
        len(node.input_ports) == len(node.output_ports) == 1
        and not node.functions
        and not node.parameters
        and node.output_ports[0].value == node.input_ports[0].id
    )


def is_required(item: GraphInput) -> bool:
    """Tell whether a graph input has to be given.

    MDF's engine sets a port that nothing feeds to zero. That is kept for ports that say nothing of
    themselves or only a loose type (`float`); a port with an element type, or one that feeds a tensor
    operator, is asked for.
    """
    if item.port.default_value is not None:
        return False
    text = item.port.type
    if text is not None and (dtype_of(text) is not None or structured_type(text) is not None):
        return True
    functions = [part.function for part in (*item.node.functions, *item.node.parameters)]
    return any(name is not None and name.removeprefix("onnx::") in OPS for name in functions)


def default_value(item: GraphInput) -> Any:
    """Return what a graph input is where nothing is given for it; None where it has to be given.

    Raises:
        ModelError: The port's default_value is not of its type.
        UnsupportedError: It is an expression, which only MDF's engine evaluates.
    """
    port = item.port
    if port.default_value is not None:
        return _own_default(item)
    if is_required(item):
        return None
    return np.full(port.shape or (), 0.0 if "float" in (port.type or "") else 0)


def _own_default(item: GraphInput) -> Any:
    value, dtype = item.port.default_value, dtype_of(item.port.type) if item.port.type else None
    where = f"node {item.node.id!r}: default_value of {item.port.id!r}"
    if isinstance(value, str) and (dtype is None or not is_string(dtype)):
        text, value = value, literal(value)
        if value is None:
            raise UnsupportedError(f"{where} is the expression {shorten(text)!r}, which ONNX has no form for")
    try:
        array = np.asarray(value, dtype)
    except (ValueError, TypeError, OverflowError) as error:
        what = "a tensor" if dtype is None else f"a tensor of {name_of(dtype)}"
        raise ModelError(f"{where} cannot be read as {what}: {error}") from error
    if dtype is not None:
        return array
    if array.dtype.kind == "O" and not all(isinstance(item, str) for item in array.flat):
        raise UnsupportedError(f"{where} is no tensor, and ONNX has no form for it")
    return value


def declared_shape(port: InputPort | OutputPort) -> tuple[int | str | None, ...] | None:
    """Return the shape a port declares, symbolic sizes as texts; None where it declares none.

    MDF writes a scalar and no shape alike, as `()`; a port lifted from ONNX says which in its metadata.
    """
    kept = onnx_metadata(port).get("shape")
    if isinstance(kept, (list, tuple)):
        return tuple(kept)
    return tuple(port.shape) if port.shape else None


def _names(ports: Iterable[tuple[Node, Any]], chosen: list[str | None] | None = None) -> list[str]:
    pairs = list(ports)
    short = [
        name or str(onnx_metadata(port).get("name", port.id))
        for name, (_, port) in zip(chosen or [None] * len(pairs), pairs, strict=True)
    ]
    # A port that is asked for twice has one name all the same, as a value of ONNX has.
    count = Counter({id(port): name for name, (_, port) in zip(short, pairs, strict=True)}.values())
    return [
        name if count[name] == 1 else f"{node.id}.{port.id}"
        for name, (node, port) in zip(short, pairs, strict=True)
    ]


def _ordered(inputs: list[GraphInput], order: object) -> list[GraphInput]:
    if not isinstance(order, list):
        return inputs
    place = {name: position for position, name in enumerate(order)}
    return sorted(inputs, key=lambda item: place.get(item.name, len(place)))
