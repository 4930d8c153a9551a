"""Branches that are always taken: their nodes stand in the place of the If."""

from __future__ import annotations

from collections.abc import Iterable

import onnx_ir as ir

from mdf_scatter.gradient.known import known_value


def settle_branches(graph: ir.Graph) -> bool:
    """Put, for each If whose condition is known, the nodes of its branch in its place; tell whether any was.

    Exporters write such conditions on ranks; what stands in both branches has no known rank.
    """
    opset, found = graph.opset_imports[""], False
    for node in list(graph):
        condition = node.inputs[0] if node.domain == "" and node.op_type == "If" else None
        known = None if condition is None else known_value(condition, opset)
        if known is not None:
            _put(graph, node, node.attributes["then_branch" if known.item() else "else_branch"].as_graph())
            found = True
    return found


def _put(graph: ir.Graph, node: ir.Node, branch: ir.Graph) -> None:
    """Put the nodes of a branch in the place of an If."""
    results = list(branch.outputs)
    branch.outputs.clear()
    for name in list(branch.initializers):
        graph.register_initializer(branch.initializers.pop(name))
    for inner in list(branch):
        branch.remove(inner)
        graph.insert_before(node, inner)
    put_for(graph, node, results)


def put_for(graph: ir.Graph, node: ir.Node, results: Iterable[ir.Value]) -> None:
    """Put values in the place of a node's outputs, and remove it."""
    for old, new in zip(node.outputs, results, strict=True):
        if old.is_graph_output():
            last = ir.node("Identity", [new], name=f"{node.name}.{old.name}")
            graph.insert_before(node, last)
            last.outputs[0].type, last.outputs[0].name = old.type, old.name
            old.name, new = f"{old.name}.both", last.outputs[0]
        old.replace_all_uses_with(new, replace_graph_outputs=True)
    graph.remove(node, safe=True)
