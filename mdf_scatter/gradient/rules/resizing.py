"""The rule of Resize, which is a matrix along each axis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import onnx_ir as ir

from mdf_scatter.gradient.rules.places import joined
from mdf_scatter.gradient.table import Call, Gradient, rule


@rule("Resize")
def resize(call: Call) -> Sequence[Gradient]:
    """Y = r x, where r repeats, drops or mixes what is along each axis; x gets r' times what comes back."""
    return [lambda: _resized_back(call)]


def _resized_back(call: Call) -> ir.Value:
    emit, x = call.emit, call.input(0)
    if call.attribute("coordinate_transformation_mode") == "tf_crop_and_resize":
        raise call.refusal("it crops by roi; use Slice, and another coordinate_transformation_mode")
    if call.optional(3) is not None and call.attribute("keep_aspect_ratio_policy", "stretch") != "stretch":
        raise call.refusal("its scales depend on keep_aspect_ratio_policy; give it scales instead of sizes")
    rank = emit.rank(x)
    named = [axis % rank for axis in call.attribute("axes") or range(rank)]
    factors = {axis: _factor(call, place, axis) for place, axis in enumerate(named)}
    places = {axis: place for place, axis in enumerate(named) if factors[axis] != 1}
    repeats = {axis: int(factor) for axis in places if (factor := factors[axis]) and factor.is_integer()}
    if len(repeats) == len(places) and _repeats(call):
        return _summed_blocks(call, repeats)
    grad = call.grad
    for axis in sorted(places, key=lambda axis: (factors[axis] or 1, axis), reverse=True):
        grad = _times_matrix(call, grad, places[axis], axis)
    return grad


def _factor(call: Call, place: int, axis: int) -> float | None:
    """Return how many times longer an axis gets; None where that is not known."""
    scales = call.emit.known(call.optional(2))
    if call.optional(3) is None:
        return None if scales is None else float(scales[place])
    before, after = (None if v.shape is None else v.shape[axis] for v in (call.input(0), call.output))
    if isinstance(before, int) and isinstance(after, int):
        return after / before
    is_same = isinstance(before, ir.SymbolicDim) and before.value is not None and before == after
    return 1.0 if is_same else None


def _repeats(call: Call) -> bool:
    """Tell whether a whole factor makes that many copies of everything, side by side."""
    if call.attribute("mode", "nearest") != "nearest":
        return False
    rounding: str = call.attribute("nearest_mode", "round_prefer_floor")
    coordinates: str = call.attribute("coordinate_transformation_mode", "half_pixel")
    if coordinates == "asymmetric":
        return rounding == "floor"
    return "half_pixel" in coordinates and rounding.startswith("round_prefer")


def _summed_blocks(call: Call, repeats: dict[int, int]) -> ir.Value:
    """Return the sums over blocks of copies."""
    emit, x = call.emit, call.input(0)
    sizes, inner = [], []
    for axis in range(emit.rank(x)):
        sizes.append(emit.size(x, axis))
        if axis in repeats:
            inner.append(len(sizes))
            sizes.append(emit.integers([repeats[axis]]))
    return emit.sum(emit.reshape(call.grad, joined(emit, *sizes)), inner, keepdims=False)


def _times_matrix(call: Call, grad: ir.Value, place: int, axis: int) -> ir.Value:
    """Return a gradient without what Resize did along one axis.

    Args:
        call: The Resize.
        grad: The gradient, which has the output's size along the axis.
        place: Where the scales, or sizes, name the axis.
        axis: The axis.
    """
    emit, rank = call.emit, call.emit.rank(grad)
    if axis == rank - 2:
        return emit("MatMul", _matrix(call, place, axis, along=1), grad)
    matrix = _matrix(call, place, axis, along=0)
    if axis == rank - 1:
        return emit("MatMul", grad, matrix)
    last = [*(other for other in range(rank) if other != axis), axis]
    back = [last.index(other) for other in range(rank)]
    return emit.transpose(emit("MatMul", emit.transpose(grad, last), matrix), back)


def _matrix(call: Call, place: int, axis: int, *, along: int) -> ir.Value:
    """Return what Resize does along one axis, as a matrix: an identity matrix, resized by the same operator.

    Args:
        call: The Resize.
        place: Where the scales, or sizes, name the axis.
        axis: The axis.
        along: Which axis of the matrix has the output's size.
    """
    emit, x = call.emit, call.input(0)
    scales, sizes = (None if value is None else _one_of(call, value, place) for value in _lengths(call))
    attributes: dict[str, Any] = {key: part for key, part in call.node.attributes.items() if key != "axes"}
    size = emit.size(x, axis)
    identity = emit("EyeLike", emit("Expand", emit.constant(0, x), joined(emit, size, size)))
    # Not folded, but left to the engine: where rounding decides, each has its own, and it is this one that
    # runs the forward pass.
    return emit.several("Resize", identity, None, scales, sizes, outputs=1, **attributes, axes=[along])[0]


def _lengths(call: Call) -> tuple[ir.Value | None, ir.Value | None]:
    sizes = call.optional(3)
    return (call.optional(2) if sizes is None else None), sizes


def _one_of(call: Call, values: ir.Value, place: int) -> ir.Value:
    """Return one of the scales or sizes, as a list of one."""
    emit, known = call.emit, call.emit.known(values)
    if known is not None:
        return emit.constant(known[place : place + 1])
    return emit("Slice", values, emit.integers([place]), emit.integers([place + 1]), emit.integers([0]))
