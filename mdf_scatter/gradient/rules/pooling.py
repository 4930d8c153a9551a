"""Rules of poolings: each window sends back to what it took the greatest, the mean or the norm of."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np
import onnx_ir as ir

from mdf_scatter.gradient.emitter import Array, Emitter
from mdf_scatter.gradient.rules.places import flat, joined, size_of
from mdf_scatter.gradient.rules.windows import Numbers, Window, sent_back, window_of
from mdf_scatter.gradient.table import Call, Gradient, rule


@rule("MaxPool")
def max_pool(call: Call) -> Sequence[Gradient]:
    """Y = the greatest of each window; of several, the first gets the gradient, as in torch."""
    emit, x = call.emit, call.input(0)
    rank = emit.rank(x)
    updates = emit.wide(flat(emit, call.grad))
    zeros = emit("Expand", emit.constant(0, updates), size_of(emit, x, 0, rank))
    positions = flat(emit, call.further(1, ir.DataType.INT64, call.output.shape))
    sent = emit("ScatterElements", zeros, positions, updates, axis=0, reduction="add")
    sent = emit.cast(sent, x)
    if not call.attribute("storage_order", 0):
        return [emit.like(sent, x)]
    columns_first = [0, 1, *reversed(range(2, rank))]
    sizes = joined(emit, *(emit.size(x, axis) for axis in columns_first))
    return [emit.transpose(emit.reshape(sent, sizes), columns_first)]


@rule("AveragePool")
def average_pool(call: Call) -> Sequence[Gradient]:
    """Y = the mean of each window, without its padding, or with where `count_include_pad` says so."""
    emit, x = call.emit, call.input(0)
    window = _window(call)
    counts = _counts(call, window)
    if isinstance(counts, int):
        return [lambda: _spread(emit, window, call.grad, x, 1 / counts)]
    return [lambda: _spread(emit, window, emit("Div", call.grad, counts), x, 1.0)]


@rule("LpPool")
def lp_pool(call: Call) -> Sequence[Gradient]:
    """Y = (sum of |x|^p in each window)^(1/p); where that is 0, nothing comes back."""
    emit, x = call.emit, call.input(0)
    window = _window(call)
    p = call.attribute("p", 2)
    return [lambda: emit("Mul", _slope(emit, x, p), _spread(emit, window, _by_norm(call, p), x, 1.0))]


@rule("GlobalAveragePool")
def global_average_pool(call: Call) -> Sequence[Gradient]:
    """Y = the mean over all spatial axes."""
    emit, x = call.emit, call.input(0)
    axes = range(2, emit.rank(x))
    sizes = joined(emit, *(emit.size(x, axis) for axis in axes))
    known = emit.known(sizes)
    if known is not None:
        mean = emit("Mul", call.grad, 1 / max(1, int(known.prod())))
    else:
        mean = emit("Div", call.grad, emit.cast(emit("ReduceProd", sizes, keepdims=0), x))
    return [lambda: emit.expand(mean, x)]


@rule("GlobalMaxPool")
def global_max_pool(call: Call) -> Sequence[Gradient]:
    """Y = the greatest over all spatial axes; of several, the first gets the gradient, as of MaxPool."""
    emit, x = call.emit, call.input(0)
    channels = emit("Flatten", x, axis=2)
    first = emit("ArgMax", channels, axis=1, keepdims=1)
    updates = emit("Flatten", call.grad, axis=2)
    sent = emit("ScatterElements", emit.zeros_like(channels), first, updates, axis=1)
    return [emit.like(sent, x)]


@rule("GlobalLpPool")
def global_lp_pool(call: Call) -> Sequence[Gradient]:
    """Y = (sum of |x|^p over all spatial axes)^(1/p); where that is 0, nothing comes back."""
    emit, p = call.emit, call.attribute("p", 2)
    return [lambda: emit("Mul", _slope(emit, call.input(0), p), _by_norm(call, p))]


def _window(call: Call) -> Window:
    window = window_of(call, call.attribute("kernel_shape"), call.input(0))
    overtaken = any(stride > extent for stride, extent in zip(window.strides, window.extents, strict=True))
    if overtaken and call.attribute("auto_pad", "NOTSET").startswith("SAME"):
        raise call.refusal(
            "by auto_pad, its padding is negative where a stride is greater than the kernel; "
            "give it pads instead"
        )
    return window


def _slope(emit: Emitter, x: ir.Value, p: int) -> ir.Value:
    """Return the derivative of |x|^p / p."""
    if p == 2:
        return x
    sign = emit("Sign", x)
    return sign if p == 1 else emit("Mul", sign, emit("Pow", emit("Abs", x), p - 1))


def _by_norm(call: Call, p: int) -> ir.Value:
    """Return what comes back, by the norm to the power of p - 1; 0 where that is 0."""
    emit, norm = call.emit, call.output
    if p == 1:
        return call.grad
    is_zero = emit("Equal", norm, 0)
    safe = emit("Where", is_zero, emit.constant(1, norm), norm)
    divided = emit("Div", call.grad, safe if p == 2 else emit("Pow", safe, p - 1))
    return emit("Where", is_zero, emit.constant(0, norm), divided)


def _spread(emit: Emitter, window: Window, grad: ir.Value, data: ir.Value, weight: float) -> ir.Value:
    """Return what windows send back that give each of their positions the same; each channel by itself."""
    axes = range(2, emit.rank(data))
    one = emit.integers([1])
    single = joined(emit, emit.integers([-1]), one, *(emit.size(grad, axis) for axis in axes))
    weights = emit.constant(np.full((1, 1, *window.kernel), weight), data)
    sent = sent_back(emit, window, emit("Reshape", grad, single), weights, data)
    return emit.like(sent, data)


def _counts(call: Call, window: Window) -> int | ir.Value:
    """Return how many positions each window takes the mean of; one number where that is always the same.

    Raises:
        UnsupportedError: That depends on sizes that are not known.
    """
    emit, x = call.emit, call.input(0)
    with_padding, ceil_mode = (call.attribute(name, 0) for name in ("count_include_pad", "ceil_mode"))
    if not ceil_mode and (with_padding or not any(window.heads + window.tails)):
        return prod(window.kernel)
    sizes, places = _spatial(x), _spatial(call.output)
    if sizes is not None and places is not None:
        return emit.constant(_counted(window, sizes, places, with_padding=with_padding), x)
    if ceil_mode:
        raise call.refusal(
            f"with ceil_mode, where its windows end depends on the sizes of {x.name!r}; "
            "give the graph's inputs fixed shapes"
        )
    one = emit.integers([1])
    shape = joined(emit, one, one, *(emit.size(x, axis) for axis in range(2, emit.rank(x))))
    counts = emit(
        "Conv",
        emit("Expand", emit.constant(1, x), shape),
        emit.constant(np.ones((1, 1, *window.kernel)), x),
        strides=window.strides,
        dilations=window.dilations,
        pads=[*window.heads, *window.tails],
    )
    return emit("Max", counts, 1)


def _counted(window: Window, sizes: Sequence[int], places: Sequence[int], *, with_padding: bool) -> Array:
    """Return how much data, or data and padding, a window takes the mean of in each place; 1 for nothing."""
    counts = np.ones((), np.int64)
    for axis, (size, kernel) in enumerate(zip(sizes, window.kernel, strict=True)):
        head, tail = (window.heads[axis], window.tails[axis]) if with_padding else (0, 0)
        starts = np.arange(places[axis]) * window.strides[axis] - window.heads[axis]
        positions = starts[:, None] + np.arange(kernel) * window.dilations[axis]
        counts = counts[..., None] * ((positions >= -head) & (positions < size + tail)).sum(1)
    return np.maximum(counts, 1)


def _spatial(value: ir.Value) -> Numbers | None:
    """Return the sizes of a value's spatial axes; None where one is not known."""
    sizes = () if value.shape is None else value.shape.dims[2:]
    known = tuple(size for size in sizes if isinstance(size, int))
    return known if known and len(known) == len(sizes) else None
