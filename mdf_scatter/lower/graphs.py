"""An MDF graph as an ONNX graph: nodes in order, edges as values, ports as inputs and outputs."""

from __future__ import annotations

import json
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir
from modeci_mdf.mdf import Edge, Graph, InputPort, Node, OutputPort

from mdf_scatter.dtypes import dtype_of
from mdf_scatter.errors import UnsupportedError
from mdf_scatter.lower.builder import WEAK, Builder, Literal, Operand
from mdf_scatter.lower.expressions import ExpressionLowering
from mdf_scatter.lower.functions import METADATA
from mdf_scatter.lower.nodes import NodeLowering
from mdf_scatter.wiring import (
    GraphInput,
    declared_shape,
    default_value,
    graph_inputs,
    graph_outputs,
    incoming,
    onnx_metadata,
    specified_outputs_name,
)

TypeOf = Mapping[str, tuple[np.dtype[Any], tuple[int, ...] | None]]
"""dtype, and shape where it is known, by the name of a graph input."""


def lower_graph(graph: Graph, opset_imports: Mapping[str, int], types: TypeOf) -> ir.Graph:
    """Return an MDF graph as an ONNX graph.

    Args:
        graph: The graph.
        opset_imports: Operator set version of each domain.
        types: dtype and shape of graph inputs, by name, where the ports declare none.

    Raises:
        UnsupportedError: Something in the graph has no form in ONNX.
    """
    conditions = graph.conditions
    if conditions is not None and (conditions.node_specific or conditions.termination):
        raise UnsupportedError(f"graph {graph.id!r} has scheduling conditions, which ONNX has no form for")
    builder = Builder(opset_imports)
    outside = {(item.node.id, item.port.id): item for item in graph_inputs(graph)}
    wanted = graph_outputs(graph)
    final = {(item.node.id, item.port.id): item.name for item in wanted}
    builder.reserve([*(item.name for item in outside.values()), *final.values()])
    feeding = incoming(graph)
    shared = Counter(port.id for node in graph.nodes for port in node.output_ports)
    values: dict[tuple[str, str], ir.Value] = {}
    inputs: list[ir.Value] = []
    bound: set[str | None] = set()

    for node in in_order(graph):
        at_ports: dict[str, Operand] = {}
        for port in node.input_ports:
            item = outside.get((node.id, port.id))
            if item is None:
                at_ports[port.id] = _fed(builder, port, node, feeding[node.id, port.id], values)
            else:
                value = _input(builder, item, types)
                inputs.append(value)
                at_ports[port.id] = value
        lowering = NodeLowering(builder, node, at_ports)
        for out in node.output_ports:
            place = (node.id, out.id)
            name = final.get(place) or _value_name(node, out, shared)
            values[place] = _bind(builder, lowering.output(out), name, place in final, bound)
            _describe(values[place], out)

    order = {item.name: position for position, item in enumerate(outside.values())}
    return ir.Graph(
        sorted(inputs, key=lambda value: order[str(value.name)]),
        [values[item.node.id, item.port.id] for item in wanted],
        nodes=builder.nodes,
        initializers=list(builder.initializers.values()),
        opset_imports=dict(opset_imports),
        name=str(onnx_metadata(graph).get("name", graph.id)),
        doc_string=onnx_metadata(graph).get("doc_string"),
        metadata_props=_graph_metadata(graph),
    )


def in_order(graph: Graph) -> list[Node]:
    """Return the nodes so that each comes after those that feed it, else in the file's order.

    Raises:
        UnsupportedError: They feed each other in a circle.
    """
    by_id = {node.id: node for node in graph.nodes}
    waiting = {node.id: 0 for node in graph.nodes}
    fed: dict[str, list[str]] = {node.id: [] for node in graph.nodes}
    for edge in graph.edges:
        waiting[edge.receiver] += 1
        fed[edge.sender].append(edge.receiver)
    ready = deque(node.id for node in graph.nodes if not waiting[node.id])
    ordered: list[Node] = []
    while ready:
        node_id = ready.popleft()
        ordered.append(by_id[node_id])
        for receiver in fed[node_id]:
            waiting[receiver] -= 1
            if not waiting[receiver]:
                ready.append(receiver)
    if len(ordered) < len(by_id):
        circle = ", ".join(repr(node_id) for node_id, count in waiting.items() if count)
        raise UnsupportedError(
            f"graph {graph.id!r}: nodes {circle} feed each other, which ONNX has no form for"
        )
    return ordered


def _fed(
    builder: Builder,
    port: InputPort,
    node: Node,
    edges: Sequence[Edge],
    values: Mapping[tuple[str, str], ir.Value],
) -> Operand:
    """Return what the edges of a port bring: weighted, and reduced where there are several."""
    arithmetic = ExpressionLowering(builder, lambda name: Literal(name), f"{node.id}.{port.id}")
    brought: list[Operand] = []
    for edge in edges:
        value: Operand = values[edge.sender, edge.sender_port]
        weight = (edge.parameters or {}).get("weight", 1)
        if not (isinstance(weight, (int, float)) and weight == 1):
            listed = isinstance(weight, list)
            scale = Literal(np.array(weight) if listed else weight, listed, f"{edge.id}.weight")
            value = arithmetic.apply(np.multiply, "Mul", scale, value)
        brought.append(value)
    if port.reduce in (None, "overwrite") or len(brought) == 1:
        return brought[-1]
    function, op_type = {"add": (np.add, "Add"), "multiply": (np.multiply, "Mul")}[port.reduce]
    total = brought[0]
    for value in brought[1:]:
        total = arithmetic.apply(function, op_type, total, value)
    return total


def _input(builder: Builder, item: GraphInput, types: TypeOf) -> ir.Value:
    """Return a graph input; a default is an initializer of its name, which a caller may override."""
    port = item.port
    dtype = dtype_of(port.type) if port.type else None
    shape: Sequence[int | str | None] | None = declared_shape(port)
    default = default_value(item)
    if item.name in types:
        given, sizes = types[item.name]
        dtype = dtype or given
        if default is not None and sizes is not None and np.shape(default) != sizes:
            default = np.zeros(sizes, dtype)
        shape = shape or sizes
    elif dtype is None and default is not None:
        dtype = np.asarray(default).dtype
    if dtype is None:
        raise UnsupportedError(
            f"graph input {item.name!r} (port {port.id!r} of node {item.node.id!r}) declares no type; "
            "ONNX needs one: give the port a type such as float32"
        )
    if default is None:
        return ir.val(item.name, ir.DataType.from_numpy(dtype), shape)
    return builder.input_with_default(item.name, np.asarray(default, dtype), shape)


def _describe(value: ir.Value, port: OutputPort) -> None:
    """What inference cannot tell of a value, its port may say."""
    dtype = dtype_of(port.type) if port.type else None
    if value.type is None and dtype is not None:
        value.type = ir.TensorType(ir.DataType.from_numpy(dtype))
    shape = declared_shape(port)
    if value.shape is None and shape is not None:
        value.shape = ir.Shape(shape)


def _value_name(node: Node, port: OutputPort, shared: Mapping[str, int]) -> str:
    chosen = specified_outputs_name(node)
    position = node.output_ports.index(port)
    if position < len(chosen):
        return str(chosen[position])
    kept = onnx_metadata(port).get("name")
    return str(kept or (port.id if shared[port.id] == 1 else f"{node.id}.{port.id}"))


def _bind(builder: Builder, operand: Operand, name: str, is_output: bool, bound: set[str | None]) -> ir.Value:
    """Give the value at an output port its name, with an Identity where it has another one already."""
    if isinstance(operand, Literal):
        value = builder.constant(np.asarray(operand.value), builder.free_name(name) if is_output else name)
        if not operand.listed and isinstance(operand.value, (bool, int, float, complex)):
            value.meta[WEAK] = type(operand.value)
    else:
        value = operand
    own = value.producer() is not None and value.name not in bound
    if own:
        builder.rename(value, name, reserved=is_output)
    elif is_output:
        value = builder.op("Identity", [value], name=f"{name}.identity")[0]
        builder.rename(value, name, reserved=True)
    bound.add(value.name)
    return value


def _graph_metadata(graph: Graph) -> dict[str, str]:
    kept = dict(graph.metadata or {})
    onnx = kept.pop("onnx", {})
    props = {str(key): str(text) for key, text in onnx.get("metadata_props", {}).items()}
    if kept:
        props[METADATA + "metadata"] = json.dumps(kept, default=str)
    return props
