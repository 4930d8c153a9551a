"""The rule of BatchNormalization: with statistics that are given, and with those of the batch."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from mdf_scatter.gradient.rules.reductions import count
from mdf_scatter.gradient.rules.standard import (
    over_channels,
    per_channel,
    standardised,
    through_standardised,
)
from mdf_scatter.gradient.table import Call, Gradient, rule


@rule("BatchNormalization")
def batch_normalization(call: Call) -> Sequence[Gradient]:
    """Y = (x - mean) / sqrt(var + epsilon) * scale + bias, for each channel."""
    return _of_batch(call) if call.attribute("training_mode", 0) else _of_given(call)


def _of_given(call: Call) -> Sequence[Gradient]:
    emit = call.emit
    x, scale, bias, mean, var = (call.input(position) for position in range(5))
    grad, data = emit.wide(call.grad), emit.wide(x)
    inverse = emit(
        "Reciprocal", emit("Sqrt", emit("Add", emit.cast(var, data), call.attribute("epsilon", 1e-5)))
    )
    factor = emit("Mul", emit.cast(scale, data), inverse)
    total = over_channels(emit, grad)
    centred = emit("Sub", data, per_channel(emit, mean, data))
    to_scale = emit("Mul", over_channels(emit, emit("Mul", grad, centred)), inverse)

    def to_var() -> ir.Value:
        by_factor = emit("Mul", to_scale, emit("Mul", factor, inverse))
        return emit.cast(emit("Mul", by_factor, -0.5), var)

    return [
        lambda: emit.cast(emit("Mul", grad, per_channel(emit, factor, grad)), x),
        lambda: emit.cast(to_scale, scale),
        lambda: emit.cast(total, bias),
        lambda: emit.cast(emit("Neg", emit("Mul", total, factor)), mean),
        to_var,
    ]


def _of_batch(call: Call) -> Sequence[Gradient]:
    """With mean and var of the batch; those that are given are averaged with them, for later."""
    emit = call.emit
    x, scale, bias, mean, var = (call.input(position) for position in range(5))
    grad, data = emit.wide(call.grad), emit.wide(x)
    axes = sorted(set(range(emit.rank(x))) - {1})
    normal, inverse = standardised(emit, data, axes, call.attribute("epsilon", 1e-5))
    momentum = call.attribute("momentum", 0.9)
    to_mean, to_var = call.grad_of(1), call.grad_of(2)

    def to_x() -> ir.Value:
        scaled = emit("Mul", grad, per_channel(emit, scale, grad))
        sent = through_standardised(emit, scaled, normal, inverse, axes)
        if to_mean is not None:
            sent = emit("Add", sent, share(to_mean, 1 - momentum))
        if to_var is not None:
            centred = emit("Div", normal, inverse)
            sent = emit("Add", sent, emit("Mul", centred, share(to_var, 2 * (1 - momentum))))
        return emit.cast(sent, x)

    def share(coming: ir.Value, weight: float) -> ir.Value:
        coming = emit.cast(coming, data)
        each = emit("Div", emit("Mul", coming, weight), count(emit, data, coming))
        return per_channel(emit, each, data)

    return [
        to_x,
        lambda: emit.cast(over_channels(emit, emit("Mul", grad, normal)), scale),
        lambda: emit.cast(over_channels(emit, grad), bias),
        lambda: None if to_mean is None else emit.cast(emit("Mul", to_mean, momentum), mean),
        lambda: None if to_var is None else emit.cast(emit("Mul", to_var, momentum), var),
    ]
