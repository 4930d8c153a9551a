"""Leaves out the nodes of a backward pass that nothing asks for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import onnx_ir as ir

from mdf_scatter.stretches import values_read


def needed(nodes: Sequence[ir.Node], ends: Iterable[ir.Value]) -> tuple[list[ir.Node], set[ir.Value]]:
    """Return the nodes that some values need; the others read nothing any more.

    Args:
        nodes: Nodes, each after those it reads from.
        ends: The values.

    Returns:
        The nodes that are needed, in order, and what they read, with the ends.
    """
    kept: set[ir.Node] = set()
    read = set(ends)
    for node in reversed(nodes):
        if any(value in read for value in node.outputs):
            kept.add(node)
            read.update(values_read(node))
        else:
            _detach(node)
    return [node for node in nodes if node in kept], read


def _detach(node: ir.Node) -> None:
    """Let a node, and those inside it, read nothing."""
    for attribute in node.attributes.values():
        if attribute.type == ir.AttributeType.GRAPH:
            for inner in attribute.as_graph():
                _detach(inner)
    for position in range(len(node.inputs)):
        node.replace_input_with(position, None)
