"""An MDF graph as an ONNX graph: nodes in order, edges as values, ports as inputs and outputs."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from heapq import heapify, heappop, heappush
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
from google.protobuf.json_format import ParseDict  # type: ignore[import-untyped]
from modeci_mdf.mdf import Graph, Node, OutputPort

from mdf_scatter.attributes import sparse_proto
from mdf_scatter.dtypes import dtype_of
from mdf_scatter.errors import UnsupportedError
from mdf_scatter.lower.arithmetic import Arithmetic, is_weak
from mdf_scatter.lower.builder import WEAK, Builder, Literal, Operand
from mdf_scatter.lower.evaluation import Evaluation, Key
from mdf_scatter.lower.functions import METADATA
from mdf_scatter.lower.nodes import NodeLowering
from mdf_scatter.lower.ports import Edges, fed, key_of, weighted
from mdf_scatter.lower.protos import extras_of, note
from mdf_scatter.lower.scoping import Graphs, waits_for
from mdf_scatter.lower.types import declared_type, describe, document, is_declared, typed_value
from mdf_scatter.wiring import (
    GraphInput,
    declared_shape,
    default_value,
    graph_inputs,
    graph_outputs,
    onnx_metadata,
    outer_name,
    specified_outputs_name,
)

TypeOf = Mapping[str, tuple[np.dtype[Any], tuple[int, ...] | None]]
"""dtype, and shape where it is known, by the name of a graph input."""


def lower_graph(
    graph: Graph,
    opset_imports: Mapping[str, int],
    types: TypeOf,
    *,
    graphs: Graphs | None = None,
    outer: Builder | None = None,
    evaluation: Evaluation | None = None,
    held: Collection[Key] = (),
) -> ir.Graph:
    """Return an MDF graph as an ONNX graph.

    Args:
        graph: The graph.
        opset_imports: Operator set version of each domain.
        types: dtype and shape of graph inputs, by name, where the ports declare none.
        graphs: The model's other graphs, which may stand inside this one.
        outer: What builds the graph around this one.
        evaluation: Which evaluation of the graph this is. Left out, it is the only one.
        held: Parameters that stay initializers of their own.

    Raises:
        UnsupportedError: Something in the graph has no form in ONNX.
        ModelError: It names a graph or a value of a graph around it that is not there.
    """
    graphs = graphs or Graphs()
    this = evaluation or Evaluation()
    conditions = graph.conditions
    if conditions is not None and (conditions.node_specific or conditions.termination):
        raise UnsupportedError(f"graph {graph.id!r} has scheduling conditions, which ONNX has no form for")
    builder = Builder(opset_imports, outer=outer, functions=graphs.functions)
    lifted = builder.is_lifted = "opset" in onnx_metadata(graph)
    has_types = outer is None and not graphs.is_function(graph)

    def subgraph(graph_id: str) -> ir.Graph:
        with graphs.opened(graph_id) as inner:
            return lower_graph(inner, opset_imports, {}, graphs=graphs, outer=builder)

    builder.subgraph = subgraph
    outside = {(item.node.id, item.port.id): item for item in graph_inputs(graph)}
    wanted = graph_outputs(graph)
    final = {(item.node.id, item.port.id): item.name for item in wanted}
    given = {item.name for item in outside.values()}
    builder.reserve([*given, *final.values()])
    edges = Edges(graph)
    shared = Counter(port.id for node in graph.nodes for port in node.output_ports)
    values: dict[tuple[str, str], ir.Value] = {}
    inputs: list[ir.Value] = []
    bound: set[str | None] = set()

    for node in in_order(graph, waits_for(graph, graphs), edges.late):
        at_ports: dict[str, Operand] = {}
        for port in node.input_ports:
            item = outside.get((node.id, port.id))
            enclosing = outer_name(port)
            if item is None and enclosing is not None:
                at_ports[port.id] = value = builder.outer_value(enclosing)
                bound.add(value.name)
            elif item is None:
                at_ports[port.id] = fed(builder, node, port, edges, values, this)
            else:
                value = _input(builder, item, types, must_have_type=has_types)
                builder.values[item.name] = value
                document(value, port)
                inputs.append(value)
                at_ports[port.id] = value
        lowering = NodeLowering(builder, node, at_ports, this, held)
        builder.trusts_types = lifted and all(map(is_declared, node.output_ports))
        first = len(builder.nodes)
        if not node.output_ports and node.functions:
            lowering.output(OutputPort(id=node.id, value=node.functions[0].id))
        for out in node.output_ports:
            place = (node.id, out.id)
            name = final.get(place) or _value_name(node, out, shared)
            result = lowering.output(out)
            if (
                place in final
                and name in given
                and not (isinstance(result, ir.Value) and result.name == name)
            ):
                # ONNX has one name for one value, be it an input or an output.
                name = builder.free_name(f"{node.id}.{out.id}")
            values[place] = _bind(builder, result, name, place in final, bound)
            builder.values[str(values[place].name)] = values[place]
            describe(values[place], out)
            document(values[place], out)
        if lifted:
            _settle(builder.nodes[first:], node, {value for value in map(values.get, _places(node)) if value})

        if evaluation is not None:
            lowering.leave()

    if evaluation is None and any(this.state.values()):
        raise UnsupportedError(f"graph {graph.id!r}, which another graph calls, keeps state")
    for edge in graph.edges if evaluation is not None and not this.gives_start else ():
        if id(edge) in edges.late:
            arithmetic = Arithmetic(builder, f"{edge.receiver}.{edge.receiver_port}")
            this.leave(builder, key_of(edge), weighted(arithmetic, edge, values))
    order = {item.name: position for position, item in enumerate(outside.values())}
    lowered = ir.Graph(
        [*sorted(inputs, key=lambda value: order[str(value.name)]), *this.all_inputs],
        [*(values[item.node.id, item.port.id] for item in wanted), *this.outputs.values()],
        nodes=builder.nodes,
        initializers=list(builder.initializers.values()),
        opset_imports=builder.opset_imports if outer is None else {},
        name=str(onnx_metadata(graph).get("name", graph.id)),
        doc_string=onnx_metadata(graph).get("doc_string"),
        metadata_props=_graph_metadata(graph),
    )
    _note_extras(lowered, builder, onnx_metadata(graph))
    if lifted:
        note(lowered, outputs=[declared_type(item.port) for item in wanted])
    return lowered


def _note_extras(lowered: ir.Graph, builder: Builder, kept: Mapping[str, Any]) -> None:
    if builder.sparse:
        note(
            lowered,
            sparse_initializer=[sparse_proto(value, str(own.name)) for own, value in builder.sparse],
        )
    if "quantization_annotation" in kept:
        parts = [ParseDict(part, onnx.TensorAnnotation()) for part in kept["quantization_annotation"]]
        note(lowered, quantization_annotation=parts)


def _places(node: Node) -> list[tuple[str, str]]:
    return [(node.id, port.id) for port in node.output_ports]


def _settle(made: Sequence[ir.Node], node: Node, bound: set[ir.Value]) -> None:
    """Give a lifted node's operator what no port says of it: outputs that are left out, and the like."""
    kept = onnx_metadata(node)
    for own in made[-1:]:
        for value in own.outputs:
            if value not in bound and not value.uses():
                value.name = ""
        if "overload" in kept:
            own.overload = kept["overload"]
        if "inputs" in kept or "outputs" in kept:
            extras_of(own).inputs = int(kept.get("inputs", 0))
            extras_of(own).outputs = int(kept.get("outputs", 0))
        if "device_configurations" in kept:
            extras_of(own).devices = [
                ParseDict(part, onnx.NodeDeviceConfigurationProto()) for part in kept["device_configurations"]
            ]


def in_order(
    graph: Graph, besides: Mapping[str, Iterable[str]] | None = None, late: Collection[int] = ()
) -> list[Node]:
    """Return the nodes so that each comes after those that feed it, else in the file's order.

    Args:
        graph: The graph.
        besides: Nodes that a node waits for though no edge comes from them.
        late: Edges, by `id`, whose sender comes after the receiver.

    Raises:
        UnsupportedError: They feed each other in a circle.
    """
    by_id = {node.id: node for node in graph.nodes}
    waiting = {node.id: 0 for node in graph.nodes}
    fed: dict[str, list[str]] = {node.id: [] for node in graph.nodes}
    pairs = [(edge.sender, edge.receiver) for edge in graph.edges if id(edge) not in late]
    pairs += [(sender, receiver) for receiver, senders in (besides or {}).items() for sender in senders]
    for sender, receiver in pairs:
        waiting[receiver] += 1
        fed[sender].append(receiver)
    order = {node.id: position for position, node in enumerate(graph.nodes)}
    ready = [position for node_id, position in order.items() if not waiting[node_id]]
    heapify(ready)
    ordered: list[Node] = []
    while ready:
        ordered.append(graph.nodes[heappop(ready)])
        for receiver in fed[ordered[-1].id]:
            waiting[receiver] -= 1
            if not waiting[receiver]:
                heappush(ready, order[receiver])
    if len(ordered) < len(by_id):
        circle = ", ".join(repr(node_id) for node_id, count in waiting.items() if count)
        raise UnsupportedError(
            f"graph {graph.id!r}: nodes {circle} feed each other, which ONNX has no form for; "
            "give an input port on the way a default_value"
        )
    return ordered


def _input(builder: Builder, item: GraphInput, types: TypeOf, *, must_have_type: bool) -> ir.Value:
    """Return a graph input; a default is an initializer of its name, which a caller may override."""
    port = item.port
    dtype = dtype_of(port.type) if port.type else None
    shape: Sequence[int | str | None] | None = declared_shape(port)
    default = default_value(item) if must_have_type else port.default_value
    if item.name in types:
        given, sizes = types[item.name]
        dtype = dtype or given
        if default is not None and sizes is not None and np.shape(default) != sizes:
            default = np.zeros(sizes, dtype)
        shape = shape if sizes is None else sizes
    elif dtype is None and default is not None:
        dtype = np.asarray(default).dtype
    is_open = dtype is None or (default is None and item.name not in types)
    if is_open and (value := typed_value(item.name, port)) is not None:
        return value
    if dtype is None and not must_have_type:
        return ir.val(item.name, shape=shape)
    if dtype is None:
        raise UnsupportedError(
            f"graph input {item.name!r} (port {port.id!r} of node {item.node.id!r}) declares no type; "
            "ONNX needs one: give the port a type such as float32"
        )
    if default is None:
        return ir.val(item.name, ir.DataType.from_numpy(dtype), shape)
    value = builder.input_with_default(item.name, np.asarray(default, dtype), shape)
    if item.name not in types and port.type is None and type(default) in (bool, int, float):
        value.meta[WEAK] = type(default)
    return value


def _value_name(node: Node, port: OutputPort, shared: Mapping[str, int]) -> str:
    chosen = specified_outputs_name(node)
    if chosen:
        position = next(place for place, other in enumerate(node.output_ports) if other is port)
        if position < len(chosen):
            return str(chosen[position])
    kept = onnx_metadata(port).get("name")
    return str(kept or (port.id if shared[port.id] == 1 else f"{node.id}.{port.id}"))


def _bind(builder: Builder, operand: Operand, name: str, is_output: bool, bound: set[str | None]) -> ir.Value:
    """Give the value at an output port its name, with an Identity where it has another one already."""
    if isinstance(operand, Literal):
        value = builder.constant(np.asarray(operand.value), builder.free_name(name) if is_output else name)
        if is_weak(operand):
            value.meta[WEAK] = type(operand.value)
    else:
        value = operand
    if value.name == name and (not is_output or value.name not in bound):
        bound.add(name)
        return value
    own = value.producer() is not None or (is_output and builder.initializers.get(str(value.name)) is value)
    # What has its final name already is an input of the graph, or the value of another port.
    if own and builder.values.get(str(value.name)) is not value and value.name not in bound:
        builder.rename(value, name, reserved=is_output)
    elif is_output:
        kind = value.meta.get(WEAK)
        value = builder.op("Identity", [value], name=f"{name}.identity")[0]
        if kind is not None:
            value.meta[WEAK] = kind
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
