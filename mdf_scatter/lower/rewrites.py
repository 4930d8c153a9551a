"""Scatters with a reduction for operator sets that have none: a loop that applies one update at a time.

The loop is the operator's own definition, so duplicates, order and every dtype mean the same.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
import onnx_ir as ir

from mdf_scatter.errors import UnsupportedError
from mdf_scatter.lower.builder import Builder

_COMBINE = {"add": "Add", "mul": "Mul", "max": "Max", "min": "Min"}
_COMBINE_BOOL = {"add": "Or", "mul": "And", "max": "Or", "min": "And"}
_WINS = {"max": "Greater", "min": "Less"}
_WIDENED = (ir.DataType.FLOAT16, ir.DataType.BFLOAT16)


def as_loop(node: ir.Node, opset_imports: dict[str, int]) -> tuple[list[ir.Node], list[ir.Value], ir.Value]:
    """Write a ScatterND or ScatterElements with a reduction as a Loop of ones without.

    Args:
        node: The node; it is not changed.
        opset_imports: The operator sets to write for.

    Returns:
        The new nodes in order, the initializers they need, and the value that stands for the node's output.

    Raises:
        UnsupportedError: The rewrite needs sizes that are not known.
    """
    builder = Builder(opset_imports)
    name = f"{node.name}.loop"
    data, indices, updates = (value for value in node.inputs if value is not None)
    if node.op_type == "ScatterND":
        flat = _one_batch_axis(builder, node, indices, updates)
        if flat is None:
            output = builder.op("Identity", [data], name=name)[0]
            return builder.nodes, list(builder.initializers.values()), output
        indices, updates, axis = *flat, 0
    else:
        axis = node.attributes["axis"].as_int() if "axis" in node.attributes else 0
        axis += len(indices.shape or ()) if axis < 0 else 0
    wide = data.dtype in _WIDENED
    start = builder.cast(data, np.dtype(np.float32), name) if wide else data
    terms = builder.cast(updates, np.dtype(np.float32), name) if wide else updates
    count = _size(builder, indices, axis, name)
    body = _body(builder, node, start, indices, terms, axis)
    true = builder.constant(np.bool_(True), f"{name}.true")
    result = builder.op("Loop", [count, true, start], {"body": body}, name=name)[0]
    result.type, result.shape = start.type, data.shape
    if wide and data.dtype is not None:
        result = builder.cast(result, data.dtype.numpy(), f"{name}.back")
    return builder.nodes, list(builder.initializers.values()), result


def _one_batch_axis(
    builder: Builder, node: ir.Node, indices: ir.Value, updates: ir.Value
) -> tuple[ir.Value, ir.Value] | None:
    """Return indices as [N, k] and updates as [N, ...]; None where there is no update at all."""
    shape = indices.shape
    if shape is None or not isinstance(shape[-1], int):
        raise UnsupportedError(
            f"ScatterND {node.name!r}: the size of the last axis of indices is not known, which writing its "
            "reduction for an opset without reductions needs"
        )
    if len(shape) == 2:
        return indices, updates
    sizes = [*shape[:-1], *(updates.shape[len(shape) - 1 :] if updates.shape is not None else [None])]
    if not all(isinstance(size, int) for size in sizes):
        raise UnsupportedError(
            f"ScatterND {node.name!r}: sizes of indices and updates are not known, which writing its "
            "reduction for an opset without reductions needs where indices has not rank 2"
        )
    known = [int(size) for size in sizes]
    batch, row = known[: len(shape) - 1], known[len(shape) - 1 :]
    if 0 in (*known, shape[-1]) and prod(known) == 0:
        return None
    count = prod(batch)
    wanted = {"indices": [count, shape[-1]], "updates": [count, *row]}
    flat = [
        builder.op(
            "Reshape",
            [value, builder.constant(np.array(wanted[part], np.int64), f"{node.name}.{part}.shape")],
            name=f"{node.name}.{part}.reshape",
        )[0]
        for part, value in (("indices", indices), ("updates", updates))
    ]
    return flat[0], flat[1]


def _size(builder: Builder, value: ir.Value, axis: int, name: str) -> ir.Value:
    shape = builder.op("Shape", [value], name=f"{name}.shape")[0]
    place = builder.constant(np.int64(axis), f"{name}.axis")
    return builder.op("Gather", [shape, place], {"axis": 0}, name=f"{name}.count")[0]


def _body(
    outer: Builder, node: ir.Node, start: ir.Value, indices: ir.Value, updates: ir.Value, axis: int
) -> ir.Graph:
    inner = Builder(outer.opset_imports)
    name = f"{node.name}.step"
    inner.reserve([str(value.name) for value in (start, indices, updates)])
    turn = ir.val(inner.free_name(f"{name}.turn"), ir.DataType.INT64, [])
    going = ir.val(inner.free_name(f"{name}.going"), ir.DataType.BOOL, [])
    current = ir.val(inner.free_name(f"{name}.current"), start.dtype, start.shape)
    reduction = node.attributes["reduction"].as_string()
    attributes: dict[str, Any] = {}
    place = turn
    if node.op_type == "ScatterElements":
        attributes = {"axis": axis}
        one = inner.constant(np.array([1], np.int64), f"{name}.one")
        place = inner.op("Reshape", [turn, one], name=f"{name}.place")[0]
    index = inner.op("Gather", [indices, place], {"axis": axis}, name=f"{name}.index")[0]
    update = inner.op("Gather", [updates, place], {"axis": axis}, name=f"{name}.update")[0]
    whole = node.op_type == "ScatterND" and indices.shape is not None and indices.shape[-1] == 0
    if whole:
        changed = _combined(inner, reduction, current, update, name)
    else:
        gather = "GatherND" if node.op_type == "ScatterND" else "GatherElements"
        before = inner.op(gather, [current, index], attributes, name=f"{name}.before")[0]
        after = _combined(inner, reduction, before, update, name)
        changed = inner.op(node.op_type, [current, index, after], attributes, name=f"{name}.write")[0]
    still = inner.op("Identity", [going], name=f"{name}.still")[0]
    return ir.Graph(
        [turn, going, current],
        [still, changed],
        nodes=inner.nodes,
        initializers=list(inner.initializers.values()),
        name=f"{node.name}.one_update",
    )


def _combined(builder: Builder, reduction: str, before: ir.Value, update: ir.Value, name: str) -> ir.Value:
    name = f"{name}.combine"
    if before.dtype == ir.DataType.BOOL:
        return builder.op(_COMBINE_BOOL[reduction], [before, update], name=name)[0]
    if before.dtype is not None and before.dtype.is_integer() and reduction in _WINS:
        # Max and Min take integers from opset 12 on only.
        wins = builder.op(_WINS[reduction], [update, before], name=f"{name}.wins")[0]
        return builder.op("Where", [wins, update, before], name=name)[0]
    return builder.op(_COMBINE[reduction], [before, update], name=name)[0]
