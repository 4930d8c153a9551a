"""Rules of reductions along axes, and of what is summed or chosen along one."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from mdf_scatter.gradient.emitter import Emitter, static_shape
from mdf_scatter.gradient.table import Call, Gradient, rule


@rule("ReduceSum")
def reduce_sum(call: Call) -> Sequence[Gradient]:
    """Y = sum(x)."""
    return [lambda: call.emit.expand(with_axes(call, call.grad), call.input(0))]


@rule("ReduceMean")
def reduce_mean(call: Call) -> Sequence[Gradient]:
    """Y = sum(x) / count."""
    emit, x, grad = call.emit, call.input(0), call.emit.wide(call.grad)

    def through() -> ir.Value:
        each = emit.cast(emit("Div", grad, count(emit, x, grad)), x)
        return emit.expand(with_axes(call, each), x)

    return [through]


@rule("ReduceMax", "ReduceMin")
def reduce_extreme(call: Call) -> Sequence[Gradient]:
    """Y = max(x), or min(x): shared evenly among those that tie; where y is NaN, so is the gradient."""
    emit, x, grad = call.emit, call.input(0), call.emit.wide(call.grad)
    ties = emit.cast(emit("Equal", x, with_axes(call, call.output)), grad)
    share = emit("Div", grad, reduced_alike(call, "ReduceSum", ties))
    return [lambda: emit.cast(emit("Mul", ties, with_axes(call, share)), x)]


@rule("ReduceL1")
def reduce_l1(call: Call) -> Sequence[Gradient]:
    """Y = sum(|x|); 0 where x is 0."""
    emit, x = call.emit, call.input(0)
    return [lambda: emit("Mul", emit("Sign", x), with_axes(call, call.grad))]


@rule("ReduceL2")
def reduce_l2(call: Call) -> Sequence[Gradient]:
    """Y = sqrt(sum(x * x)); 0 where all x are 0."""
    emit, x = call.emit, call.input(0)
    return [
        lambda: emit("Mul", x, with_axes(call, emit("Div", call.grad, unless_zero(emit, call.output)))),
    ]


@rule("ReduceLogSum")
def reduce_log_sum(call: Call) -> Sequence[Gradient]:
    """Y = log(sum(x))."""
    emit = call.emit
    return [
        lambda: emit.expand(with_axes(call, emit("Div", call.grad, emit("Exp", call.output))), call.input(0)),
    ]


@rule("ReduceLogSumExp")
def reduce_log_sum_exp(call: Call) -> Sequence[Gradient]:
    """Y = log(sum(exp(x)))."""
    emit, x = call.emit, call.input(0)
    return [
        lambda: emit(
            "Mul", emit("Exp", emit("Sub", x, with_axes(call, call.output))), with_axes(call, call.grad)
        ),
    ]


@rule("ReduceSumSquare")
def reduce_sum_square(call: Call) -> Sequence[Gradient]:
    """Y = sum(x * x)."""
    emit = call.emit
    return [lambda: emit("Mul", call.input(0), with_axes(call, emit("Mul", call.grad, 2)))]


@rule("CumSum")
def cum_sum(call: Call) -> Sequence[Gradient]:
    """Y[j] = sum of the x up to j: each x gets the sum of what comes back from there on."""
    reverse = 1 - call.attribute("reverse", 0)
    return [
        lambda: call.emit(
            "CumSum", call.grad, call.input(1), exclusive=call.attribute("exclusive"), reverse=reverse
        ),
    ]


@rule("TopK")
def top_k(call: Call) -> Sequence[Gradient]:
    """Y = x[indices]; of elements that tie, those that were chosen get it."""
    emit, x = call.emit, call.input(0)
    indices = call.further(1, ir.DataType.INT64, call.output.shape)
    # Indices along an axis are all different, so that nothing is to be added up.
    return [
        lambda: emit(
            "ScatterElements", emit.zeros_like(x), indices, call.grad, axis=call.attribute("axis", -1)
        ),
    ]


def with_axes(call: Call, value: ir.Value) -> ir.Value:
    """Return a value of a reduction's output's shape with the axes that were reduced, of size 1.

    What is left of a reduction over all axes is broadcast as it is.
    """
    axes = call.optional(1)
    if axes is None or call.attribute("keepdims", 1):
        return value
    known = call.emit.known(axes)
    if known is not None and known.size == 0:
        return value
    return call.emit("Unsqueeze", value, axes)


def reduced_alike(call: Call, op_type: str, value: ir.Value) -> ir.Value:
    """Return a value reduced along the axes of a reduction, to the shape of its output."""
    return call.emit(
        op_type,
        value,
        call.optional(1),
        keepdims=call.attribute("keepdims"),
        noop_with_empty_axes=call.attribute("noop_with_empty_axes"),
    )


def count(emit: Emitter, whole: ir.Value, part: ir.Value) -> ir.Value | float:
    """Return how many elements of a value are reduced to each of another one, as a number of its dtype."""
    sizes, kept = static_shape(whole), static_shape(part)
    if sizes is not None and kept is not None:
        # Of an empty value nothing comes of the count, but dividing by it may not be an error.
        return max(math.prod(sizes), 1) / max(math.prod(kept), 1)
    elements = (emit.cast(emit("Size", value), np.float64) for value in (whole, part))
    return emit.cast(emit("Div", *elements), part)


def unless_zero(emit: Emitter, norm: ir.Value) -> ir.Value:
    """Return a norm to divide by; infinity where it is 0, so that the quotient is 0 there."""
    return emit("Where", emit("Equal", norm, 0), emit.constant(np.inf, norm), norm)
