"""Rules of operators that move whole tensors: other shapes, orders of axes, copies and parts of them."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from mdf_scatter.gradient.rules.places import folded, joined, numbers
from mdf_scatter.gradient.table import Call, Gradient, rule


@rule("Reshape", "Flatten", "Squeeze", "Unsqueeze")
def reshape(call: Call) -> Sequence[Gradient]:
    """Y = x in another shape."""
    return [lambda: call.emit.like(call.grad, call.input(0))]


@rule("Transpose")
def transpose(call: Call) -> Sequence[Gradient]:
    """Y = x with its axes in another order."""
    emit, x = call.emit, call.input(0)
    perm = call.attribute("perm") or list(reversed(range(emit.rank(x))))
    return [lambda: emit.transpose(call.grad, [perm.index(axis) for axis in range(len(perm))])]


@rule("Expand")
def expand(call: Call) -> Sequence[Gradient]:
    """Y = x, broadcast."""
    return [lambda: call.emit.sum_to(call.grad, call.input(0))]


@rule("Tile")
def tile(call: Call) -> Sequence[Gradient]:
    """Y = x, repeated along each axis: the sum of the copies."""
    emit, x, repeats = call.emit, call.input(0), call.input(1)
    rank = emit.rank(x)

    def to_x() -> ir.Value:
        pairs = [emit.unsqueeze(part, [1]) for part in (repeats, emit.shape(x))]
        apart = folded(emit, emit.reshape(emit("Concat", *pairs, axis=1), [2 * rank]))
        copies = emit("Reshape", call.grad, apart, allowzero=1)
        return emit.sum(copies, range(0, 2 * rank, 2), keepdims=False)

    return [to_x if rank else call.grad]


@rule("Concat")
def concat(call: Call) -> Sequence[Gradient]:
    """Y = [a, b, ..] along an axis."""
    emit, inputs, axis = call.emit, call.node.inputs, call.attribute("axis")
    parts = [emit.size(call.input(at), axis) for at in range(len(inputs))]
    if len(parts) == 1:
        return [call.grad]
    return list(emit.several("Split", call.grad, joined(emit, *parts), outputs=len(parts), axis=axis))


@rule("Split")
def split(call: Call) -> Sequence[Gradient]:
    """A, b, .. = x along an axis."""
    emit, axis = call.emit, call.attribute("axis", 0)
    parts = [
        emit.zeros_like(part) if grad is None else grad
        for part, grad in zip(call.node.outputs, call.grads, strict=True)
    ]
    return [lambda: emit("Concat", *parts, axis=axis)]


@rule("Trilu")
def trilu(call: Call) -> Sequence[Gradient]:
    """Y = a triangle of x, and zeros."""
    emit, upper = call.emit, call.attribute("upper", 1)
    return [lambda: emit("Trilu", call.grad, call.optional(1), upper=upper)]


@rule("ReverseSequence")
def reverse_sequence(call: Call) -> Sequence[Gradient]:
    """Y = x with the start of each sequence turned round."""
    emit, batch, time = call.emit, call.attribute("batch_axis", 1), call.attribute("time_axis", 0)
    return [lambda: emit("ReverseSequence", call.grad, call.input(1), batch_axis=batch, time_axis=time)]


@rule("SpaceToDepth")
def space_to_depth(call: Call) -> Sequence[Gradient]:
    """Y[b, (i, j, c), h, w] = x[b, c, (h, i), (w, j)]."""
    block = call.attribute("blocksize")
    return [lambda: call.emit("DepthToSpace", call.grad, blocksize=block, mode="DCR")]


@rule("DepthToSpace")
def depth_to_space(call: Call) -> Sequence[Gradient]:
    """Y[b, c, (h, i), (w, j)] = x[b, (i, j, c), h, w], or of x[b, (c, i, j), h, w] in mode CRD."""
    emit, x, block = call.emit, call.input(0), call.attribute("blocksize")

    def to_x() -> ir.Value:
        if call.attribute("mode", "DCR") == "DCR":
            return emit("SpaceToDepth", call.grad, blocksize=block)
        side = emit.integers([block])
        batch, height, width = (emit.size(x, axis) for axis in (0, 2, 3))
        apart = joined(emit, batch, emit.size(call.grad, 1), height, side, width, side)
        moved = emit.transpose(emit.reshape(call.grad, apart), [0, 1, 3, 5, 2, 4])
        return emit.like(moved, x)

    return [to_x]


@rule("OneHot")
def one_hot(call: Call) -> Sequence[Gradient]:
    """Y = on where the index is, off elsewhere: values = [off, on]."""
    emit = call.emit

    def to_values() -> ir.Value:
        flags = emit.integers([0, 1])
        hot = emit("OneHot", call.input(0), call.input(1), flags, axis=call.attribute("axis", -1))
        is_on = emit("Equal", hot, emit.integers(1))
        zero = emit.constant(0, call.grad)
        parts = emit("Where", is_on, zero, call.grad), emit("Where", is_on, call.grad, zero)
        sums = [emit("ReduceSum", part, keepdims=0) for part in parts]
        return emit("Concat", *(emit.unsqueeze(part, [0]) for part in sums), axis=0)

    return [None, None, to_values]


@rule("Range")
def range_(call: Call) -> Sequence[Gradient]:
    """Y = start, start + delta, ..; where it ends changes in steps."""
    emit, grad = call.emit, call.grad

    def to_delta() -> ir.Value:
        steps = emit.cast(numbers(emit, emit.size(call.output, 0)), grad)
        return emit("ReduceSum", emit("Mul", grad, steps), keepdims=0)

    return [lambda: emit("ReduceSum", grad, keepdims=0), None, to_delta]
