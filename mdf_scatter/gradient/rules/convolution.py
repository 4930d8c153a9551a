"""Rules of convolutions: each one's gradients are the other one, and a convolution with what comes back."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from mdf_scatter.gradient.emitter import Emitter, static_shape
from mdf_scatter.gradient.rules.places import joined
from mdf_scatter.gradient.rules.windows import (
    Window,
    columns_of,
    explicit_window,
    first_of,
    known_size,
    padded,
    sent_back,
    window_of,
)
from mdf_scatter.gradient.table import Call, Gradient, rule

_MOST_COLUMNS = 16
"""Positions of a window up to which what it covers is worth that much more memory than the data."""


@rule("Conv")
def conv(call: Call) -> Sequence[Gradient]:
    """Y[m, o] = sum of x[c, stride o + dilation k - pad] w[m, c, k] over c and k, + b[m]."""
    emit, x, w = call.emit, call.input(0), call.input(1)
    group = call.attribute("group", 1)
    window = window_of(call, _kernel(call), x)
    return [
        lambda: sent_back(emit, window, call.grad, w, x, group),
        lambda: _grad_of_weights(emit, window, x, call.grad, w, group),
        lambda: _grad_of_bias(call),
    ]


@rule("ConvTranspose")
def conv_transpose(call: Call) -> Sequence[Gradient]:
    """Y[m, stride i + dilation k - pad] = sum of x[c, i] w[c, m, k] over c, i and k, + b[m]."""
    emit, x, w = call.emit, call.input(0), call.input(1)
    group = call.attribute("group", 1)
    window = _window_of_transpose(call)

    def grad_of_x() -> ir.Value:
        found = emit(
            "Conv",
            call.grad,
            w,
            kernel_shape=window.kernel,
            strides=window.strides,
            dilations=window.dilations,
            pads=[*window.heads, *window.tails],
            group=group,
        )
        padding = call.attribute("output_padding", [0] * len(window.kernel))
        beyond = [2 + axis for axis, stride in enumerate(window.strides) if padding[axis] >= stride]
        return first_of(emit, found, x, beyond)

    return [
        grad_of_x,
        lambda: _grad_of_weights(emit, window, call.grad, x, w, group),
        lambda: _grad_of_bias(call),
    ]


@rule("Col2Im")
def col2im(call: Call) -> Sequence[Gradient]:
    """Y = columns added up where their windows lie: each gets back what its window covers."""
    emit, x = call.emit, call.input(0)
    block = emit.known(call.input(2))
    if block is None:
        raise call.refusal(f"its block shape {call.input(2).name!r} is not constant; make it a constant")
    window = explicit_window(call, [int(size) for size in block])
    return [lambda: emit.like(columns_of(emit, window, call.grad), x)]


def _kernel(call: Call) -> list[int]:
    return call.attribute("kernel_shape") or list(call.emit.sizes(call.input(1))[2:])


def _window_of_transpose(call: Call) -> Window:
    """Return the window that a transposed convolution moves over its output."""
    x = call.input(0)
    window = explicit_window(call, _kernel(call))
    auto_pad, wanted = call.attribute("auto_pad", "NOTSET"), call.attribute("output_shape")
    if wanted is None and auto_pad in ("NOTSET", "VALID"):
        return window
    padding = call.attribute("output_padding", [0] * len(window.kernel))
    totals = []
    for axis, (stride, extent) in enumerate(zip(window.strides, window.extents, strict=True)):
        if wanted is None:
            totals.append(max(0, extent + padding[axis] - stride))
            continue
        size = known_size(x, axis)
        if size is None:
            raise call.refusal(
                f"its padding by output_shape depends on the sizes of {x.name!r}; "
                "give the graph's inputs fixed shapes"
            )
        totals.append(max(0, stride * (size - 1) + padding[axis] + extent - wanted[axis]))
    return padded(window, totals, upper=auto_pad == "SAME_UPPER")


def _grad_of_weights(
    emit: Emitter, window: Window, data: ir.Value, response: ir.Value, weights: ir.Value, group: int
) -> ir.Value:
    """Return the gradient of weights: the data, convolved with what has the windows' places in it.

    That is a convolution whose batch are the data's channels, and whose channels are the data's batch: its
    kernel's positions are a stride apart, and its own positions are as far apart as the kernel's were.

    Args:
        emit: Writes the nodes.
        window: The window.
        data: What the window moves over, [n, c, *sizes].
        response: A value for each place of the window, [n, m, *outputs].
        weights: What the gradient is of, [m, c / group, *kernel].
        group: In how many groups the channels are.
    """
    if group == 1 and set(window.kernel) == {1} and not any(window.heads + window.tails):
        return emit.like(_product_of_places(emit, window, data, response), weights)
    places = _few_places(window, data, response, weights, group)
    if places:
        # A response is a large kernel, for which onnxruntime's convolution takes twice as long.
        return _product_of_columns(emit, window, data, response, weights, group, places)
    tails, open_axes = [], []
    for axis, (stride, dilation) in enumerate(zip(window.strides, window.dilations, strict=True)):
        tail = window.tails[axis]
        size, outputs = known_size(data, axis), known_size(response, axis)
        if size is not None and outputs is not None:
            reached = stride * (outputs - 1) + window.extents[axis] - window.heads[axis]
            unread = size + tail - reached
            tail -= min(unread, tail)
            if size + tail - reached >= dilation:
                open_axes.append(2 + axis)
        elif stride > 1:
            open_axes.append(2 + axis)
        tails.append(tail)
    swapped = [1, 0, *range(2, emit.rank(data))]
    found = emit(
        "Conv",
        _channels_by_batch(emit, data, weights, group),
        emit.transpose(response, swapped),
        strides=window.dilations,
        dilations=window.strides,
        pads=[*window.heads, *tails],
        group=group,
    )
    return first_of(emit, emit.transpose(found, swapped), weights, open_axes)


def _product_of_places(emit: Emitter, window: Window, data: ir.Value, response: ir.Value) -> ir.Value:
    """Return the gradient of weights of a window of one position, [m, c]: no more than a product."""
    taken = [axis for axis, stride in enumerate(window.strides) if stride > 1]
    if taken:
        axes, steps = [2 + axis for axis in taken], [window.strides[axis] for axis in taken]
        # Only as far as the response goes; what is behind it is a rest, or what an output padding made.
        ends = joined(emit, *(emit.size(response, axis) for axis in axes))
        reached = emit("Mul", ends, emit.integers(steps))
        bounds = (emit.integers([0] * len(taken)), reached, emit.integers(axes), emit.integers(steps))
        data = emit("Slice", data, *bounds)
    spatial = "uvwxyz"[: len(window.kernel)]
    return emit("Einsum", response, data, equation=f"nm{spatial},nc{spatial}->mc")


def _few_places(
    window: Window, data: ir.Value, response: ir.Value, weights: ir.Value, group: int
) -> int | None:
    """Return how many places a window has, if what it covers at all of them may be written down."""
    sizes, places = (
        [known_size(value, axis) for axis in range(len(window.kernel))] for value in (data, response)
    )
    shape = static_shape(weights)
    if shape is None or None in sizes or math.prod(window.kernel) > _MOST_COLUMNS:
        return None
    moves = zip(sizes, window.heads, window.tails, window.extents, window.strides, strict=True)
    reached = [((size or 0) + h + t - extent) // stride + 1 for size, h, t, extent, stride in moves]
    # With fewer places than channels, the products of each image would be more than what it covers.
    return math.prod(reached) if reached == places and math.prod(reached) >= shape[0] // group else None


def _product_of_columns(
    emit: Emitter, window: Window, data: ir.Value, sent: ir.Value, weights: ir.Value, group: int, places: int
) -> ir.Value:
    """Return the gradient of weights as a product of what comes back and what the window covers."""
    outer, inner, *kernel = emit.sizes(weights)
    if inner == 1 and outer == group:
        return _sums_of_products(emit, window, data, sent, weights)
    covered = columns_of(emit, window, data)
    columns = emit("Reshape", covered, emit.integers([-1, group, inner * math.prod(kernel), places]))
    coming = emit("Reshape", sent, emit.integers([-1, group, outer // group, places]))
    # There are more columns than channels: it is these that are turned.
    products = emit("MatMul", columns, emit.transpose(coming, [0, 1, 3, 2]))
    return emit.like(emit.transpose(emit.sum(products, [0], keepdims=False), [0, 2, 1]), weights)


def _sums_of_products(
    emit: Emitter, window: Window, data: ir.Value, sent: ir.Value, weights: ir.Value
) -> ir.Value:
    """Return the gradient of weights where each channel has a window of its own: a sum for each position."""
    spatial = range(2, emit.rank(data))
    axes, steps = emit.integers(spatial), emit.integers(window.strides)
    padding = [*window.heads, *window.tails]
    whole = emit("Pad", data, emit.integers(padding), None, axes) if any(padding) else data
    spans = [stride * ((known_size(sent, axis) or 0) - 1) + 1 for axis, stride in enumerate(window.strides)]
    sums = []
    for position in np.ndindex(window.kernel):
        starts = [at * dilation for at, dilation in zip(position, window.dilations, strict=True)]
        ends = [start + span for start, span in zip(starts, spans, strict=True)]
        covered = emit("Slice", whole, emit.integers(starts), emit.integers(ends), axes, steps)
        sums.append(emit.sum(emit("Mul", covered, sent), [0, *spatial], keepdims=True))
    return emit.like(emit("Concat", *sums, axis=2), weights)


def _channels_by_batch(emit: Emitter, data: ir.Value, weights: ir.Value, group: int) -> ir.Value:
    """Return data [n, c, *sizes] as [c / group, group * n, *sizes]."""
    rank = emit.rank(data)
    if group == 1:
        return emit.transpose(data, [1, 0, *range(2, rank)])
    batch, channels = emit.size(data, 0), emit.size(weights, 1)
    spatial = [emit.size(data, axis) for axis in range(2, rank)]
    by_group = emit.reshape(data, joined(emit, batch, emit.integers([group]), channels, *spatial))
    swapped = emit.transpose(by_group, [2, 1, 0, *range(3, rank + 1)])
    return emit.reshape(swapped, joined(emit, channels, emit("Mul", batch, group), *spatial))


def _grad_of_bias(call: Call) -> ir.Value:
    axes = [axis for axis in range(call.emit.rank(call.grad)) if axis != 1]
    return call.emit.sum(call.grad, axes, keepdims=False)
