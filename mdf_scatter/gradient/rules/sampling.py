"""The rule of GridSample: it is written out as a weighted gather, which then goes backwards."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from mdf_scatter.gradient.reverse import through_others
from mdf_scatter.gradient.rules.places import joined
from mdf_scatter.gradient.table import Call, Gradient, rule

_IS_NEAREST = {"linear": False, "bilinear": False, "nearest": True}
"""Of the modes that are written out, whether they take one place or both on either side along each axis."""


@rule("GridSample")
def grid_sample(call: Call) -> Sequence[Gradient]:
    """Y = x at the places that the grid names; on a position of x, its slope is that behind it."""
    mode = call.attribute("mode", "linear")
    if mode not in _IS_NEAREST:
        raise call.refusal(f"its mode is {mode!r}; expected linear or nearest")
    return through_others(call, lambda: [_written_out(call, is_nearest=_IS_NEAREST[mode])])


def _written_out(call: Call, *, is_nearest: bool) -> ir.Value:
    """Write the operator as a gather of the corners around each place, whose weighted sum it is."""
    emit, x, grid = call.emit, call.input(0), call.input(1)
    axes = range(2, emit.rank(x))
    # The grid names the last axis first.
    named = emit.several("Split", grid, outputs=len(axes), axis=-1, num_outputs=len(axes))[::-1]
    weight, position = emit.constant(1, grid), emit.integers(0)
    for axis, coordinate in zip(axes, named, strict=True):
        own_weight, own_position = _corners(call, coordinate, axis, is_nearest=is_nearest)
        # Each axis has its corners along an axis of its own: together they are all corners there are.
        others = [len(axes) + 1 + at for at in range(len(axes)) if at != axis - 2]
        own_weight, own_position = (emit.unsqueeze(part, others) for part in (own_weight, own_position))
        weight = own_weight if axis == 2 else emit("Mul", weight, own_weight)
        before = emit("Mul", position, emit.size(x, axis))
        position = own_position if axis == 2 else emit("Add", before, own_position)
    one, all_corners = emit.integers([1]), emit.integers([1 if is_nearest else 2 ** len(axes)])
    batch, channels = emit.size(x, 0), emit.size(x, 1)
    places = [emit.size(grid, axis) for axis in range(1, len(axes) + 1)]
    rows = emit.unsqueeze(emit("Flatten", position, axis=1), [1])
    rows = emit("Flatten", emit("Expand", rows, joined(emit, one, channels, one)), axis=2)
    taken = emit("GatherElements", emit("Flatten", x, axis=2), rows, axis=1)
    taken = emit.reshape(taken, joined(emit, batch, channels, *places, all_corners))
    weight = emit.reshape(emit.cast(weight, x), joined(emit, batch, one, *places, all_corners))
    return emit.sum(emit("Mul", taken, weight), [len(axes) + 2], keepdims=False)


def _corners(call: Call, coordinate: ir.Value, axis: int, *, is_nearest: bool) -> tuple[ir.Value, ir.Value]:
    """Return the weights and the positions of what is taken around each place, along one axis.

    Args:
        call: The GridSample.
        coordinate: Where the places are, from -1 to 1, [n, *places, 1].
        axis: The axis.
        is_nearest: Whether one is taken, or both on either side.
    """
    emit = call.emit
    length = emit.cast(emit.size(call.input(0), axis), coordinate)
    place = _place(call, coordinate, length)
    if is_nearest:
        corners = emit("Round", place)
        weights = emit("Expand", emit.constant(1, place), emit("Shape", place))
    else:
        before = emit("Floor", place)
        corners = emit("Add", before, emit.constant([0, 1], place))
        slopes = emit("Mul", emit("Sub", place, before), emit.constant([-1, 1], place))
        weights = emit("Add", slopes, emit.constant([1, 0], place))
    inside = emit("Min", emit("Max", corners, 0), emit("Sub", length, 1))
    if call.attribute("padding_mode", "zeros") == "zeros":
        weights = emit("Mul", weights, emit.cast(emit("Equal", inside, corners), weights))
    return weights, emit.cast(inside, np.int64)


def _place(call: Call, coordinate: ir.Value, length: ir.Value) -> ir.Value:
    """Return where a place is in positions of x, which need not be whole, nor inside."""
    emit, aligned = call.emit, call.attribute("align_corners", 0)
    span = emit("Sub", length, 1) if aligned else length
    place = emit("Mul", emit("Add", coordinate, 1), emit("Mul", span, 0.5))
    if call.attribute("padding_mode", "zeros") == "reflection":
        # Back and forth between the ends; a single position has no way to go, and nothing to divide by.
        way = emit("Max", span, 1)
        beyond = emit("Mod", emit("Abs", place), emit("Mul", way, 2), fmod=1)
        place = emit("Sub", way, emit("Abs", emit("Sub", beyond, way)))
    return place if aligned else emit("Sub", place, 0.5)
