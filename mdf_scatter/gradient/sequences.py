"""Sequences whose members are known: what reads one reads the members, which have rules where it has none."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from mdf_scatter.gradient.branches import put_for
from mdf_scatter.gradient.known import known_value
from mdf_scatter.tensors import ir_tensor


def settle_sequences(graph: ir.Graph) -> bool:
    """Put tensors in the place of what is taken from sequences of known members; tell whether any was.

    Exporters write a split as a sequence, and what is taken from it at known positions.
    """
    members: dict[ir.Value, list[ir.Value]] = {}
    found = False
    for node in list(graph):
        if node.domain:
            continue
        made = _members(graph, node, members)
        if made is not None:
            members[node.outputs[0]] = made
        taken = _taken(graph, node, members)
        if taken is not None:
            put_for(graph, node, [taken])
            found = True
    for node in reversed(graph):
        if (
            node.outputs[0] in members
            and not node.outputs[0].uses()
            and not node.outputs[0].is_graph_output()
        ):
            graph.remove(node, safe=True)
    return found


def _members(
    graph: ir.Graph, node: ir.Node, members: dict[ir.Value, list[ir.Value]]
) -> list[ir.Value] | None:
    """Return the members of the sequence that a node makes; None where it makes none, or they vary."""
    inputs = [value for value in node.inputs if value is not None]
    if node.op_type == "SequenceEmpty":
        return []
    if node.op_type == "SequenceConstruct":
        return inputs
    if node.op_type == "SplitToSequence":
        return _parts(graph, node)
    if node.op_type == "SequenceInsert" and inputs[0] in members:
        before = members[inputs[0]]
        at = _position(graph, node, 2, len(before))
        return None if at is None else [*before[:at], inputs[1], *before[at:]]
    return None


def _taken(graph: ir.Graph, node: ir.Node, members: dict[ir.Value, list[ir.Value]]) -> ir.Value | None:
    """Return what a node takes from a sequence, if that is known."""
    sequence = node.inputs[0] if node.inputs else None
    if sequence is None or sequence not in members:
        return None
    if node.op_type == "SequenceAt":
        at = _position(graph, node, 1, None)
        return None if at is None else members[sequence][at]
    if node.op_type == "ConcatFromSequence" and members[sequence]:
        return _joined(graph, node, members[sequence])
    return None


def _position(graph: ir.Graph, node: ir.Node, place: int, default: int | None) -> int | None:
    value = node.inputs[place] if place < len(node.inputs) else None
    if value is None:
        return default
    known = known_value(value, graph.opset_imports[""])
    return None if known is None else int(known.item())


def _parts(graph: ir.Graph, node: ir.Node) -> list[ir.Value] | None:
    """Write the node that splits a tensor into as many parts as a SplitToSequence; None if that varies."""
    data, split = node.inputs[0], node.inputs[1] if len(node.inputs) > 1 else None
    axis = _integer(node, "axis", 0)
    if data is None or data.shape is None:
        return None
    size = data.shape[axis]
    known = np.asarray(1) if split is None else known_value(split, graph.opset_imports[""])
    if known is None:
        return None
    if known.ndim:
        sizes = known.tolist()
    elif isinstance(size, int):
        part = int(known.item())
        sizes = [min(part, size - start) for start in range(0, size, part)]
    else:
        return None
    if not sizes:
        return None
    given = _constant(graph, node, "sizes", sizes)
    parts = _write(graph, node, ir.node("Split", [data, given], {"axis": axis}, num_outputs=len(sizes)))
    if split is not None or _integer(node, "keepdims", 1):
        return parts
    along = _constant(graph, node, "axis", [axis])
    return [_write(graph, node, ir.node("Squeeze", [part, along]))[0] for part in parts]


def _joined(graph: ir.Graph, node: ir.Node, parts: list[ir.Value]) -> ir.Value:
    axis = _integer(node, "axis", 0)
    if _integer(node, "new_axis", 0):
        along = _constant(graph, node, "axis", [axis])
        parts = [_write(graph, node, ir.node("Unsqueeze", [part, along]))[0] for part in parts]
    return _write(graph, node, ir.node("Concat", parts, {"axis": axis}))[0]


def _write(graph: ir.Graph, place: ir.Node, node: ir.Node) -> list[ir.Value]:
    """Put a node before another one and return its outputs."""
    node.metadata_props.update(place.metadata_props)
    graph.insert_before(place, node)
    return list(node.outputs)


def _constant(graph: ir.Graph, place: ir.Node, what: str, numbers: list[int]) -> ir.Value:
    name = f"{place.outputs[0].name}.{what}"
    if name in graph.initializers:
        # A sequence that stays, as an output does, is met again.
        return graph.initializers[name]
    value = ir.val(name, const_value=ir_tensor(np.array(numbers, np.int64), name))
    graph.register_initializer(value)
    return value


def _integer(node: ir.Node, name: str, default: int) -> int:
    found = node.attributes.get(name)
    return default if found is None else found.as_int()
