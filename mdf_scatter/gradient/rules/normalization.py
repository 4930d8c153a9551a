"""Rules of normalisations: what is done to numbers so that each group of them has mean 0 and variance 1.

GroupNormalization needs none: no engine has more of it than the operators that ONNX defines it by.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from mdf_scatter.gradient.emitter import Emitter
from mdf_scatter.gradient.rules.reductions import count, unless_zero
from mdf_scatter.gradient.rules.standard import (
    over_channels,
    per_channel,
    scaled_by_rms,
    standardised,
    through_standardised,
)
from mdf_scatter.gradient.table import Call, Gradient, rule


@rule("LayerNormalization")
def layer_normalization(call: Call) -> Sequence[Gradient]:
    """Y = (x - mean) * inv_std_dev * scale + bias, with statistics over the last axes."""
    emit, scale, bias = call.emit, call.input(1), call.optional(2)
    x = emit.wide(call.input(0))
    axes = _last_axes(call)
    mean, deviation = _layer_statistics(call, x, axes)
    normal = emit("Mul", emit("Sub", x, mean), deviation)
    grad = emit.wide(call.grad)

    def to_x() -> ir.Value:
        sent = through_standardised(emit, emit("Mul", grad, emit.cast(scale, grad)), normal, deviation, axes)
        of_mean, of_deviation = call.grad_of(1), call.grad_of(2)
        if of_mean is not None:
            coming = emit.cast(of_mean, x)
            sent = emit("Add", sent, emit("Div", coming, count(emit, x, coming)))
        if of_deviation is not None:
            coming = emit("Mul", emit.cast(of_deviation, x), emit("Mul", deviation, deviation))
            sent = emit("Sub", sent, emit("Mul", normal, emit("Div", coming, count(emit, x, coming))))
        return emit.cast(sent, call.input(0))

    return [
        to_x,
        lambda: emit.cast(emit.sum_to(emit("Mul", grad, normal), scale), scale),
        lambda: None if bias is None else emit.cast(emit.sum_to(grad, bias), bias),
    ]


@rule("RMSNormalization")
def rms_normalization(call: Call) -> Sequence[Gradient]:
    """Y = x / sqrt(mean(x * x) + epsilon) * scale, with the mean over the last axes."""
    emit, scale = call.emit, call.input(1)
    x, grad = emit.wide(call.input(0)), emit.wide(call.grad)
    axes = _last_axes(call)
    normal, inverse = scaled_by_rms(emit, x, axes, call.attribute("epsilon", 1e-5))

    def to_x() -> ir.Value:
        scaled = emit("Mul", grad, emit.cast(scale, grad))
        sent = through_standardised(emit, scaled, normal, inverse, axes, centred=False)
        return emit.cast(sent, call.input(0))

    return [to_x, lambda: emit.cast(emit.sum_to(emit("Mul", grad, normal), scale), scale)]


@rule("InstanceNormalization")
def instance_normalization(call: Call) -> Sequence[Gradient]:
    """Y = (x - mean) / sqrt(var + epsilon) * scale + bias, over each channel of each instance."""
    emit, scale, bias = call.emit, call.input(1), call.input(2)
    x, grad = emit.wide(call.input(0)), emit.wide(call.grad)
    rank = emit.rank(x)
    axes = range(2, rank)
    normal, deviation = standardised(emit, x, axes, call.attribute("epsilon", 1e-5))

    def to_x() -> ir.Value:
        scaled = emit("Mul", grad, per_channel(emit, scale, grad))
        return emit.cast(through_standardised(emit, scaled, normal, deviation, axes), call.input(0))

    return [
        to_x,
        lambda: emit.cast(over_channels(emit, emit("Mul", grad, normal)), scale),
        lambda: emit.cast(over_channels(emit, grad), bias),
    ]


@rule("MeanVarianceNormalization")
def mean_variance_normalization(call: Call) -> Sequence[Gradient]:
    """Y = (x - mean) / (sqrt(var) + 1e-9); where var is 0, it stays so."""
    emit = call.emit

    def through() -> ir.Value:
        x, y, grad = (emit.wide(value) for value in (call.input(0), call.output, call.grad))
        axes = emit.integers(call.attribute("axes", [0, 2, 3]))
        centred = emit("Sub", x, emit("ReduceMean", x, axes))
        deviation = emit("Sqrt", emit("ReduceMean", emit("Mul", centred, centred), axes))
        to_centred = emit(
            "Div", emit("Sub", grad, emit("ReduceMean", grad, axes)), emit("Add", deviation, 1e-9)
        )
        along = emit("Div", emit("ReduceMean", emit("Mul", grad, y), axes), unless_zero(emit, deviation))
        return emit.cast(emit("Sub", to_centred, emit("Mul", y, along)), call.input(0))

    return [through]


@rule("LpNormalization")
def lp_normalization(call: Call) -> Sequence[Gradient]:
    """Y = x / norm(x) along an axis; 0 where the norm is 0, and there is no gradient there."""
    emit, x, y = call.emit, call.input(0), call.output

    def through() -> ir.Value:
        axis = emit.integers([call.attribute("axis", -1)])
        is_l1 = call.attribute("p", 2) == 1
        norm = emit("ReduceL1" if is_l1 else "ReduceL2", x, axis)
        along = emit("ReduceSum", emit("Mul", call.grad, y), axis, keepdims=1)
        towards = emit("Mul", emit("Sign", x) if is_l1 else y, along)
        return emit("Div", emit("Sub", call.grad, towards), unless_zero(emit, norm))

    return [through]


@rule("LRN")
def lrn(call: Call) -> Sequence[Gradient]:
    """Y = x * (bias + alpha / size * sum of x * x over neighbouring channels) ** -beta."""
    emit, x, grad = call.emit, call.input(0), call.grad
    size, alpha, beta = call.attribute("size"), call.attribute("alpha", 1e-4), call.attribute("beta", 0.75)
    before = (size - 1) // 2
    after = size - 1 - before

    def through() -> ir.Value:
        squares = emit("Mul", _window_sum(emit, emit("Mul", x, x), before, after), alpha / size)
        scale = emit("Add", squares, call.attribute("bias", 1.0))
        sent = emit("Mul", grad, emit("Pow", scale, emit.constant(-beta, x)))
        # A channel is a neighbour of those whose window it is in: the window, mirrored.
        around = _window_sum(emit, emit("Div", emit("Mul", sent, x), scale), after, before)
        return emit("Sub", sent, emit("Mul", x, emit("Mul", around, 2 * alpha * beta / size)))

    return [through]


def _last_axes(call: Call) -> range:
    rank = call.emit.rank(call.input(0))
    return range(call.attribute("axis", -1) % rank, rank)


def _layer_statistics(call: Call, x: ir.Value, axes: range) -> tuple[ir.Value, ir.Value]:
    """Return mean and inverse standard deviation as the forward pass has them, if it is as exact as x is."""
    emit = call.emit
    if emit.dtype(x) == np.float64:
        mean = emit("ReduceMean", x, emit.integers(axes))
        centred = emit("Sub", x, mean)
        return mean, scaled_by_rms(emit, centred, axes, call.attribute("epsilon", 1e-5))[1]
    shape = ir.Shape([1 if axis in axes else size for axis, size in enumerate(x.shape or ())])
    stash = ir.DataType(call.attribute("stash_type", 1))
    mean, deviation = (call.further(position, stash, shape) for position in (1, 2))
    return emit.cast(mean, x), emit.cast(deviation, x)


def _window_sum(emit: Emitter, value: ir.Value, before: int, after: int) -> ir.Value:
    """Return the sum over each channel and so many before and after it."""
    width = before + after
    if width == 0:
        return value
    padded = emit("Pad", value, emit.integers([before, after]), None, emit.integers([1]))
    last = np.iinfo(np.int64).max
    parts = [
        emit("Slice", padded, emit.integers([at]), emit.integers([at - width or last]), emit.integers([1]))
        for at in range(width + 1)
    ]
    return emit("Sum", *parts)
