"""Numbers with mean 0 and variance 1, and gradients through making them so: what normalisations share."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from mdf_scatter.gradient.emitter import Emitter


def standardised(
    emit: Emitter, x: ir.Value, axes: Sequence[int], epsilon: float
) -> tuple[ir.Value, ir.Value]:
    """Return (x - mean) / sqrt(var + epsilon), and 1 / sqrt(var + epsilon) with the axes kept."""
    return scaled_by_rms(emit, emit("Sub", x, emit("ReduceMean", x, emit.integers(axes))), axes, epsilon)


def scaled_by_rms(
    emit: Emitter, x: ir.Value, axes: Sequence[int], epsilon: float
) -> tuple[ir.Value, ir.Value]:
    """Return x / sqrt(mean(x * x) + epsilon), and what x is multiplied by, with the axes kept."""
    squares = emit("ReduceMean", emit("Mul", x, x), emit.integers(axes))
    inverse = emit("Reciprocal", emit("Sqrt", emit("Add", squares, epsilon)))
    return emit("Mul", x, inverse), inverse


def through_standardised(
    emit: Emitter,
    grad: ir.Value,
    normal: ir.Value,
    inverse: ir.Value,
    axes: Sequence[int],
    *,
    centred: bool = True,
) -> ir.Value:
    """Return the gradient of x, from that of its standardised form.

    Args:
        emit: Writes the nodes.
        grad: Gradient of the standardised form.
        normal: The standardised form.
        inverse: What x, less its mean, was multiplied by.
        axes: The axes of the statistics.
        centred: Whether the mean was taken off.
    """
    along = emit("ReduceMean", emit("Mul", grad, normal), emit.integers(axes))
    if centred:
        grad = emit("Sub", grad, emit("ReduceMean", grad, emit.integers(axes)))
    return emit("Mul", emit("Sub", grad, emit("Mul", normal, along)), inverse)


def per_channel(emit: Emitter, value: ir.Value, like: ir.Value) -> ir.Value:
    """Return a number for each channel, (C,), in the dtype of (N, C, d1, ...) and to broadcast with it."""
    return emit.unsqueeze(emit.cast(value, like), range(1, emit.rank(like) - 1))


def over_channels(emit: Emitter, value: ir.Value) -> ir.Value:
    """Return the sum over all but the channels: (C,) of (N, C, d1, ...); (1,) of (N,), one channel."""
    rank = emit.rank(value)
    return emit.sum(value, set(range(rank)) - {1}, keepdims=rank == 1)
