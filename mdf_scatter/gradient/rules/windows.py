"""How the window of a convolution or a pooling moves, and what each window sends back to what it covered."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import onnx_ir as ir

from mdf_scatter.gradient.emitter import Emitter
from mdf_scatter.gradient.rules.places import joined
from mdf_scatter.gradient.table import Call

Numbers = tuple[int, ...]


@dataclass(frozen=True)
class Window:
    """A window that moves over the spatial axes: those after the first two.

    Attributes:
        kernel: How many positions it takes along each axis.
        strides: How far it moves at a time.
        dilations: How far apart its positions are.
        heads: How many positions of padding it finds before the first.
        tails: How many it finds after the last.
    """

    kernel: Numbers
    strides: Numbers
    dilations: Numbers
    heads: Numbers
    tails: Numbers

    @property
    def extents(self) -> Numbers:
        """The distance from its first position to behind its last one, along each axis."""
        return tuple(d * (k - 1) + 1 for k, d in zip(self.kernel, self.dilations, strict=True))


def window_of(call: Call, kernel: Sequence[int], data: ir.Value) -> Window:
    """Return the window that an operator moves over its data.

    Raises:
        UnsupportedError: Its padding depends on sizes that are not known.
    """
    window = explicit_window(call, kernel)
    auto_pad = call.attribute("auto_pad", "NOTSET")
    if auto_pad not in ("SAME_UPPER", "SAME_LOWER"):
        return window
    totals = [_total_padding(call, window, data, axis) for axis in range(len(kernel))]
    return padded(window, totals, upper=auto_pad == "SAME_UPPER")


def explicit_window(call: Call, kernel: Sequence[int]) -> Window:
    """Return an operator's window with the padding that its `pads` says."""
    rank = len(kernel)
    strides, dilations = (tuple(call.attribute(name, [1] * rank)) for name in ("strides", "dilations"))
    pads = call.attribute("pads") if call.attribute("auto_pad", "NOTSET") == "NOTSET" else None
    pads = tuple(pads or [0, 0] * rank)
    return Window(tuple(kernel), strides, dilations, heads=pads[:rank], tails=pads[rank:])


def padded(window: Window, totals: Sequence[int], *, upper: bool) -> Window:
    """Return a window with padding in halves; of an odd number, the greater part is at the end if `upper`."""
    smaller, greater = tuple(total // 2 for total in totals), tuple(total - total // 2 for total in totals)
    heads, tails = (smaller, greater) if upper else (greater, smaller)
    return replace(window, heads=heads, tails=tails)


def _total_padding(call: Call, window: Window, data: ir.Value, axis: int) -> int:
    """Return the padding along an axis that lets the window begin at every stride's first position."""
    stride, extent = window.strides[axis], window.extents[axis]
    if stride == 1:
        return extent - 1
    size = known_size(data, axis)
    if size is None:
        raise call.refusal(
            f"its padding by auto_pad depends on the sizes of {data.name!r}; "
            "give the graph's inputs fixed shapes"
        )
    return max(0, (-(-size // stride) - 1) * stride + extent - size)


def known_size(value: ir.Value, axis: int) -> int | None:
    """Return the size of a spatial axis; None where it is not known."""
    size = None if value.shape is None else value.shape[2 + axis]
    return size if isinstance(size, int) else None


def sent_back(
    emit: Emitter, window: Window, grad: ir.Value, weights: ir.Value, data: ir.Value, group: int = 1
) -> ir.Value:
    """Return the sum of what windows send to each position that they covered.

    Args:
        emit: Writes the nodes.
        window: The window.
        grad: What each window sends, [n, m, *outputs].
        weights: What each position of the window gets of that, [m, c / group, *kernel].
        data: What the window moved over, [n, c, *sizes].
        group: In how many groups the channels are.
    """
    tails, paddings, open_axes = [], [], []
    for axis, stride in enumerate(window.strides):
        size, outputs = known_size(data, axis), known_size(grad, axis)
        if size is not None and outputs is not None:
            reached = stride * (outputs - 1) + window.extents[axis] - window.heads[axis]
            surplus = reached - size
        elif stride == 1:
            surplus = window.tails[axis]
        else:
            # The last window may stop up to a stride before the end.
            surplus = 1 - stride
            open_axes.append(2 + axis)
        tails.append(max(surplus, 0))
        paddings.append(max(-surplus, 0))
    found = emit(
        "ConvTranspose",
        grad,
        weights,
        kernel_shape=window.kernel,
        strides=window.strides,
        dilations=window.dilations,
        pads=[*window.heads, *tails],
        output_padding=paddings if any(paddings) else None,
        group=group,
    )
    return first_of(emit, found, data, open_axes)


def columns_of(emit: Emitter, window: Window, data: ir.Value) -> ir.Value:
    """Return what a window covers of each channel, [n * c, k, *places], k positions in the window.

    That is a convolution with unit kernels. Of two axes it gets a third of size 1, and so do the places:
    onnxruntime would bring the data into an order of its own, and back, for two axes and a constant kernel.
    """
    more = [1] * (len(window.kernel) == 2)
    count = math.prod(window.kernel)
    sizes = [emit.size(data, 2 + axis) for axis in range(len(window.kernel))]
    single = joined(emit, emit.integers([-1, 1, *more]), *sizes)
    pads = [0] * len(more)
    return emit(
        "Conv",
        emit("Reshape", data, single),
        emit.constant(np.eye(count).reshape(count, 1, *more, *window.kernel), data),
        strides=[*more, *window.strides],
        dilations=[*more, *window.dilations],
        pads=[*pads, *window.heads, *pads, *window.tails],
    )


def first_of(emit: Emitter, value: ir.Value, like: ir.Value, axes: Sequence[int]) -> ir.Value:
    """Return a value without what is beyond another one's sizes along some axes."""
    if not axes:
        return value
    ends = joined(emit, *(emit.size(like, axis) for axis in axes))
    return emit("Slice", value, emit.integers([0] * len(axes)), ends, emit.integers(axes))
