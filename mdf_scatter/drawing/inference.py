"""Which type each port of a graph carries: declared, inferred, or carried along the edges."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from modeci_mdf.mdf import Edge, Graph, Node

from mdf_scatter.drawing.calls import Call, calls, constants_given, is_constant, names
from mdf_scatter.drawing.lowered import Place, value_names
from mdf_scatter.drawing.tensor_type import UNKNOWN, TensorType, declared, of_value
from mdf_scatter.ops import OPS


class PortTypes(NamedTuple):
    """What is known of the types of a graph's input ports, and of its output ports."""

    inputs: dict[Place, TensorType]
    outputs: dict[Place, TensorType]


def weight(edge: Edge) -> object:
    """Return what an edge multiplies its value by; 1 where it says nothing."""
    return (edge.parameters or {}).get("weight", 1)


def is_unweighted(edge: Edge) -> bool:
    """Tell whether an edge hands its value on as it is."""
    factor = weight(edge)
    return isinstance(factor, (int, float, np.number)) and bool(factor == 1)


def port_types(
    graph: Graph,
    inferred: Mapping[str, TensorType] | None = None,
    seen: Mapping[Place, TensorType] | None = None,
) -> PortTypes:
    """Return what is known of the type of each input port, and of each output port.

    Args:
        graph: The graph.
        inferred: Types by value name; what ports declare goes before them.
        seen: Types of the values of a run, by place; they go before everything.
    """
    inferred, seen = inferred or {}, seen or {}
    nodes = {node.id: node for node in graph.nodes}
    leaving: dict[str, list[Edge]] = defaultdict(list)
    for edge in filter(is_unweighted, graph.edges):
        leaving[edge.sender].append(edge)
    inputs = {
        Place(n.id, p.id): seen.get(Place(n.id, p.id), UNKNOWN).or_else(
            declared(p).or_else(of_value(p.default_value))
        )
        for n in graph.nodes
        for p in n.input_ports
    }
    named = value_names(graph) if inferred else {}
    outputs = {
        place: seen.get(place, UNKNOWN).or_else(
            declared(port).or_else(inferred.get(named.get(place, ""), UNKNOWN))
        )
        for node in graph.nodes
        for port in node.output_ports
        for place in [Place(node.id, port.id)]
    }

    # What a source leaves open is what its receivers declare.
    for edge in filter(is_unweighted, graph.edges):
        source = Place(edge.sender, edge.sender_port)
        wanted = inputs.get(Place(edge.receiver, edge.receiver_port), UNKNOWN)
        outputs[source] = outputs.get(source, UNKNOWN).or_else(wanted)

    waiting = deque(nodes.values())
    while waiting:  # ends: a type only ever gains a dtype and a shape
        node = waiting.popleft()
        for port_id, found in _output_types(node, inputs).items():
            place = Place(node.id, port_id)
            outputs[place] = outputs[place].or_else(found)
        for edge in leaving[node.id]:
            place = Place(edge.receiver, edge.receiver_port)
            before = inputs.get(place, UNKNOWN)
            inputs[place] = before.or_else(outputs.get(Place(edge.sender, edge.sender_port), UNKNOWN))
            if inputs[place] != before and edge.receiver in nodes:
                waiting.append(nodes[edge.receiver])
    return PortTypes(inputs, outputs)


def all_known(graph: Graph) -> bool:
    """Tell whether declarations and edges give every output port of a graph a dtype and a shape."""
    outputs = port_types(graph).outputs.values()
    return all(tensor.dtype is not None and tensor.shape is not None for tensor in outputs)


def _output_types(node: Node, inputs: dict[Place, TensorType]) -> dict[str, TensorType]:
    named = {port.id: inputs[Place(node.id, port.id)] for port in node.input_ports}
    known = names(node)
    for parameter in node.parameters:
        if is_constant(parameter, known):
            named[parameter.id] = of_value(parameter.value)
    for call in calls(node):
        op = OPS.get(call.operator)
        if op is not None:
            dtype = _argument(call, op.dtype_from, named).dtype
            named[call.id] = TensorType(dtype, _argument(call, op.shape_from, named).shape)
    found = {port.id: named.get(port.value or "", UNKNOWN) for port in node.output_ports}
    return found | {port_id: of_value(value) for port_id, value in constants_given(node).items()}


def _argument(call: Call, name: str, named: dict[str, TensorType]) -> TensorType:
    source = call.args.get(name)
    return named.get(source, UNKNOWN) if isinstance(source, str) else of_value(source)
