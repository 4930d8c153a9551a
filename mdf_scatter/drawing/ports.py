"""The terminals of nodes, and what stands at them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace

from modeci_mdf.mdf import Edge, Graph, InputPort, Node

from mdf_scatter.drawing.blocks import Terminal
from mdf_scatter.drawing.calls import calls, operator_inputs
from mdf_scatter.drawing.inference import is_unweighted, weight
from mdf_scatter.drawing.rows import value_text
from mdf_scatter.drawing.tensor_type import UNKNOWN, TensorType
from mdf_scatter.drawing.values import full_text


def typed(tensor: TensorType) -> str:
    """Write a type as it stands behind a name in tooltips."""
    return f": {tensor}" if str(tensor) else ""


def terminal(name: str, tensor: TensorType, value: str = "", tip: str = "") -> Terminal:
    """Return a terminal, with the value that a run gave there, short and in full."""
    return Terminal(name, tensor, tip=name + typed(tensor) + (f" = {tip}" if tip else ""), value=value)


def input_terminal(port: InputPort, tensor: TensorType, feeding: Sequence[Edge]) -> Terminal:
    """Return the terminal of an input port, which tells of weights and of several edges into it."""
    weights = [edge for edge in feeding if not is_unweighted(edge)]
    notes = [f"× {value_text(weight(edge))}" for edge in weights]
    tips = [f"× {full_text(weight(edge))} from {edge.sender}.{edge.sender_port}" for edge in weights]
    if len(feeding) > 1:
        notes.insert(0, f"{port.reduce} of {len(feeding)}")
        tips.insert(0, f"{len(feeding)} edges, reduce: {port.reduce}")
    return Terminal(port.id, tensor, ", ".join(notes), "; ".join([port.id + typed(tensor), *tips]))


def missing_terminal(name: str) -> Terminal:
    """Return the terminal of a port that only an edge speaks of."""
    tip = f"{name}: an edge names this port, the node does not declare it"
    return Terminal(name, UNKNOWN, "missing", tip)


def undeclared_ports(graph: Graph) -> dict[str, tuple[list[str], list[str]]]:
    """Map each node's id to the input and output ports that edges name but it does not declare."""
    inputs = {(node.id, port.id) for node in graph.nodes for port in node.input_ports}
    outputs = {(node.id, port.id) for node in graph.nodes for port in node.output_ports}
    found: dict[str, tuple[list[str], list[str]]] = defaultdict(lambda: ([], []))
    for edge in graph.edges:
        for side, node, port, known in (
            (0, edge.receiver, edge.receiver_port, inputs),
            (1, edge.sender, edge.sender_port, outputs),
        ):
            if (node, port) not in known and port not in found[node][side]:
                found[node][side].append(port)
    return found


def with_arguments(node: Node, terminals: Sequence[Terminal]) -> list[Terminal]:
    """Return terminals that say which input of an operator they are, where that has another name."""
    known = {
        value: argument
        for call in calls(node)
        for argument, value in call.args.items()
        if argument in operator_inputs(call.operator) and isinstance(value, str) and value != argument
    }
    return [
        replace(item, note=", ".join(filter(None, (f"as {known[item.name]}", item.note))))
        if item.name in known
        else item
        for item in terminals
    ]


def position_among_arguments(node: Node) -> Callable[[Terminal], int]:
    """Return a key that sorts terminals as the node's functions take them."""
    place: dict[str, int] = {}
    for call in calls(node):
        for argument, value in call.args.items():
            place.setdefault(value if isinstance(value, str) else argument, len(place))
    return lambda item: place.get(item.name, len(place))
