"""Writes the nodes of a graph again, in another graph."""

from __future__ import annotations

from collections.abc import Mapping

import onnx_ir as ir

from mdf_scatter.gradient.emitter import Emitter
from mdf_scatter.gradient.table import ORIGIN, node_name
from mdf_scatter.tensors import ir_tensor


def write_again(emit: Emitter, graph: ir.Graph, now: dict[ir.Value, ir.Value]) -> None:
    """Write the nodes of a graph again.

    Args:
        emit: Writes them.
        graph: The graph.
        now: What stands for its inputs there; gets what stands for its other values. What is in neither is
            a value around both.
    """
    builder = emit.builder
    for value in graph.initializers.values():
        name = builder.free_name(str(value.name))
        now[value] = builder.initializers[name] = ir.val(name, const_value=value.const_value)
    for node in graph:
        inputs = [None if value is None else now.get(value, value) for value in node.inputs]
        for read in inputs:
            _note_constant(emit, read)
        attributes = {key: _written_again(emit, part, now) for key, part in node.attributes.items()}
        outputs = builder.op(
            node.op_type,
            inputs,
            attributes,
            name=str(node.name or node.op_type),
            domain=node.domain,
            outputs=[str(value.name or "") for value in node.outputs],
            metadata_props={**node.metadata_props, **emit.metadata},
        )
        builder.nodes[-1].meta.update({ORIGIN: node_name(node), **node.meta})
        for old, new in zip(node.outputs, outputs, strict=True):
            now[old] = new
            new.type = new.type or old.type
            new.shape = _sharper(new.shape, old.shape)


def _written_again(emit: Emitter, attribute: ir.Attr, now: Mapping[ir.Value, ir.Value]) -> ir.Attr:
    if attribute.type == ir.AttributeType.GRAPH:
        return ir.AttrGraph(attribute.name, _graph_again(emit, attribute.as_graph(), now))
    if attribute.type == ir.AttributeType.GRAPHS:
        return ir.AttrGraphs(
            attribute.name, [_graph_again(emit, part, now) for part in attribute.as_graphs()]
        )
    return attribute


def _graph_again(emit: Emitter, graph: ir.Graph, now: Mapping[ir.Value, ir.Value]) -> ir.Graph:
    inside, within = dict(now), emit.inner()
    builder = within.builder
    for value in graph.inputs:
        name = builder.free_name(str(value.name))
        inside[value] = ir.Value(name=name, type=value.type, shape=value.shape)
    write_again(within, graph, inside)
    return ir.Graph(
        [inside[value] for value in graph.inputs],
        [inside.get(value, value) for value in graph.outputs],
        nodes=builder.nodes,
        initializers=list(builder.initializers.values()),
        name=graph.name,
    )


def _sharper(new: ir.Shape | None, old: ir.Shape | None) -> ir.Shape | None:
    """Return what two shapes of one value say together."""
    if new is None or old is None or len(new) != len(old):
        return old if new is None else new
    pairs = zip(new.dims, old.dims, strict=True)
    return ir.Shape(
        [a if isinstance(a, int) or (not isinstance(b, int) and a.value) else b for a, b in pairs]
    )


def _note_constant(emit: Emitter, value: ir.Value | None) -> None:
    """Let inference see what an axis or a shape is; ONNX's own does not see those around a body."""
    if value is not None and value.const_value is None and value.dtype == ir.DataType.INT64:
        known = emit.known(value)
        value.const_value = None if known is None else ir_tensor(known, str(value.name))
