"""Rules of operators that cut parts out of tensors, or put more around them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from mdf_scatter.gradient.emitter import Emitter
from mdf_scatter.gradient.rules.places import Places, folded
from mdf_scatter.gradient.table import Call, Gradient, rule


@rule("Slice")
def slice_(call: Call) -> Sequence[Gradient]:
    """Y = x[starts:ends:steps] along axes: zeros around it, and between where there are steps."""
    emit, x = call.emit, call.input(0)
    starts, ends, axes, steps = call.input(1), call.input(2), call.optional(3), call.optional(4)
    rank = emit.rank(x)

    def to_x() -> ir.Value:
        pads = _pads(emit, x, starts, ends, axes, steps)
        if pads is not None:
            return emit("Pad", call.grad, emit.integers(pads)) if any(pads) else call.grad
        places = Places(emit, x, rank, lambda value: emit("Slice", value, starts, ends, axes, steps))
        return places.scatter(places.filled(0, call.grad), call.grad)

    return [to_x]


@rule("Pad")
def pad(call: Call) -> Sequence[Gradient]:
    """Y = x with more around it, or, where pads are negative, less."""
    emit, x, pads, axes = call.emit, call.input(0), call.input(1), call.optional(3)
    mode = call.attribute("mode", "constant")
    if mode == "constant":
        return [
            lambda: emit("Pad", call.grad, folded(emit, emit("Neg", pads)), None, axes),
            None,
            lambda: _sum_around(call, x, pads, axes),
        ]
    places = Places(emit, x, emit.rank(x), lambda value: emit("Pad", value, pads, None, axes, mode=mode))
    return [lambda: places.sums(call.grad)]


@rule("Compress")
def compress(call: Call) -> Sequence[Gradient]:
    """Y = x where condition is true, along an axis, or of all elements in a row."""
    emit, x, condition = call.emit, call.input(0), call.input(1)
    rank, axis = emit.rank(x), call.attribute("axis")
    depth = rank if axis is None else axis % rank + 1
    places = Places(emit, x, depth, lambda value: emit("Compress", value, condition, axis=axis))
    return [lambda: places.scatter(places.filled(0, call.grad), call.grad)]


def _sum_around(call: Call, x: ir.Value, pads: ir.Value, axes: ir.Value | None) -> ir.Value:
    """Return the sum of what comes back to the elements that are not from x."""
    emit, grad = call.emit, call.grad
    nothing = emit("Expand", emit.integers(0), emit.shape(x))
    added = emit("Equal", emit("Pad", nothing, pads, emit.integers(1), axes), emit.integers(1))
    sent = emit("Where", added, grad, emit.constant(0, grad))
    return emit.like(emit("ReduceSum", sent, keepdims=0), call.input(2))


def _pads(
    emit: Emitter,
    x: ir.Value,
    starts: ir.Value,
    ends: ir.Value,
    axes: ir.Value | None,
    steps: ir.Value | None,
) -> list[int] | None:
    """Return the zeros before and after a slice along each axis; None where it is not that simple."""
    found = [emit.known(value) for value in (starts, ends)]
    stride = None if steps is None else emit.known(steps)
    if any(part is None for part in found) or (steps is not None and (stride is None or (stride != 1).any())):
        return None
    first, last = ([] if part is None else part.tolist() for part in found)
    rank = emit.rank(x)
    along = np.arange(len(first)) if axes is None else emit.known(axes)
    if along is None:
        return None
    before, after = [0] * rank, [0] * rank
    for axis, start, end in zip((along % rank).tolist(), first, last, strict=True):
        size = None if x.shape is None else x.shape[axis]
        if not isinstance(size, int):
            return None
        begin, stop, _ = slice(start, end).indices(size)
        before[axis], after[axis] = begin, size - max(begin, stop)
    return before + after
