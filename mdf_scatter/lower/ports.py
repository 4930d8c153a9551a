"""What edges bring to a port: in which order, weighted, reduced, and from which evaluation."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx_ir as ir
from modeci_mdf.mdf import Edge, Graph, InputPort, Node

from mdf_scatter.dtypes import dtype_of
from mdf_scatter.errors import UnsupportedError
from mdf_scatter.lower.arithmetic import Arithmetic, scale
from mdf_scatter.lower.builder import Builder, Literal, Operand
from mdf_scatter.lower.evaluation import Evaluation, Key
from mdf_scatter.wiring import edges_in_order

_REDUCE = {
    "add": (operator.add, np.add, "Add"),
    "multiply": (operator.mul, np.multiply, "Mul"),
}
_NEUTRAL = {"add": 0, "multiply": 1}


class Edges:
    """The edges of a graph, in the order in which MDF's engine passes their values on.

    Where several edges write one port, the last one counts.

    Args:
        graph: The graph.

    Attributes:
        late: Edges that bring what their sender gave in the evaluation before: those into ports with a
            default value whose sender does not come first. Nodes come by their depth among the other
            edges, which the engine waits for, and then in the file's order.
    """

    def __init__(self, graph: Graph) -> None:
        self.late = _late(graph)
        self._into: dict[tuple[str, str], list[Edge]] = {}
        for edge in edges_in_order(graph):
            self._into.setdefault((edge.receiver, edge.receiver_port), []).append(edge)

    def into(self, node: Node, port: InputPort) -> list[Edge]:
        """Return the edges that write a port."""
        return self._into.get((node.id, port.id), [])


def fed(
    builder: Builder,
    node: Node,
    port: InputPort,
    edges: Edges,
    values: Mapping[tuple[str, str], ir.Value],
    evaluation: Evaluation,
) -> Operand:
    """Return what the edges of a port bring; its default value where none brings anything yet."""
    arithmetic = Arithmetic(builder, f"{node.id}.{port.id}")
    brought: list[Operand] = []
    for edge in edges.into(node, port):
        if id(edge) not in edges.late:
            brought.append(weighted(arithmetic, edge, values))
            continue
        key = key_of(edge)
        evaluation.keep(key, is_state=True)
        if not evaluation.is_first:
            brought.append(evaluation.read(builder, key))
        elif edge.sender == node.id and port.reduce in (None, "overwrite"):
            # A node has an output before it has been evaluated: none, which takes the place of the others.
            brought.clear()
    if not brought:
        return default(builder, node, port)
    if port.reduce in (None, "overwrite"):
        return brought[-1]
    total = brought[0]
    for value in brought[1:]:
        total = arithmetic.python(*_REDUCE[port.reduce], total, value)
    return total


def weighted(arithmetic: Arithmetic, edge: Edge, values: Mapping[tuple[str, str], ir.Value]) -> Operand:
    """Return what an edge brings."""
    value = values[edge.sender, edge.sender_port]
    weight = (edge.parameters or {}).get("weight", 1)
    if isinstance(weight, (int, float)) and weight == 1:
        return value
    listed = isinstance(weight, list)
    factor = Literal(np.array(weight) if listed else weight, listed, f"{edge.id}.weight")
    return scale(arithmetic, factor, value)


def start(graph: Graph, edges: Edges, key: Key) -> Any:
    """Return what a late edge brings to the first evaluation, such that the port gets its default value.

    Raises:
        UnsupportedError: No value does, because another edge writes the port in the first evaluation.
    """
    edge = next(edge for edge in graph.edges if id(edge) in edges.late and key_of(edge) == key)
    node = next(node for node in graph.nodes if node.id == edge.receiver)
    port = next(port for port in node.input_ports if port.id == edge.receiver_port)
    others = edges.into(node, port)
    in_time = [other for other in others if id(other) not in edges.late]
    if port.reduce in _NEUTRAL:
        first = not in_time and others[0] is edge
        return _typed(port) if first else _NEUTRAL[port.reduce]
    if in_time and others[-1] is edge and edge.sender != node.id:
        raise UnsupportedError(
            f"node {node.id!r}: port {port.id!r} is written by edge {in_time[-1].id!r} in the first "
            f"evaluation and by edge {edge.id!r} later, which one graph has no form for"
        )
    return _typed(port)


def key_of(edge: Edge) -> Key:
    """Return what names the value that an edge brings from one evaluation to the next."""
    return (edge.receiver, f"{edge.receiver_port}.{edge.id}")


def default(builder: Builder, node: Node, port: InputPort) -> Operand:
    """Return a port's default value."""
    value = _typed(port)
    if isinstance(value, np.ndarray):
        return builder.constant(value, f"{node.id}.{port.id}")
    return Literal(value, name=f"{node.id}.{port.id}")


def _typed(port: InputPort) -> Any:
    dtype = dtype_of(port.type) if port.type else None
    if dtype is None and not isinstance(port.default_value, (list, np.ndarray)):
        return port.default_value
    return np.asarray(port.default_value, dtype)


def _late(graph: Graph) -> set[int]:
    defaults = {
        (node.id, port.id)
        for node in graph.nodes
        for port in node.input_ports
        if port.default_value is not None
    }
    loose = [edge for edge in graph.edges if (edge.receiver, edge.receiver_port) in defaults]
    if not loose:
        return set()
    depth = _depths(graph, {id(edge) for edge in loose})
    place = {node.id: (depth.get(node.id, 0), position) for position, node in enumerate(graph.nodes)}
    return {id(edge) for edge in loose if place[edge.sender] >= place[edge.receiver]}


def _depths(graph: Graph, loose: set[int]) -> dict[str, int]:
    waiting = {node.id: 0 for node in graph.nodes}
    sent: dict[str, list[str]] = {node.id: [] for node in graph.nodes}
    for edge in graph.edges:
        if id(edge) not in loose:
            waiting[edge.receiver] += 1
            sent[edge.sender].append(edge.receiver)
    depth = {name: 0 for name, count in waiting.items() if not count}
    ready = list(depth)
    while ready:
        name = ready.pop()
        for receiver in sent[name]:
            depth[receiver] = max(depth.get(receiver, 0), depth[name] + 1)
            waiting[receiver] -= 1
            if not waiting[receiver]:
                ready.append(receiver)
    return depth
