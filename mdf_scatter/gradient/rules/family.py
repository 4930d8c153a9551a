"""Rules of the scatters and gathers: what comes back goes where the values came from."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from mdf_scatter.gradient.emitter import Emitter
from mdf_scatter.gradient.rules.places import Places, folded, joined, numbers, shape_of, size_of
from mdf_scatter.gradient.rules.products import products_of_others
from mdf_scatter.gradient.table import Call, Gradient, rule


@rule("Gather")
def gather(call: Call) -> Sequence[Gradient]:
    """Y = x[.., indices, ..] along one axis: each place of x is sent the sum of what its copies are."""
    emit, data, indices = call.emit, call.input(0), call.input(1)
    axis = call.attribute("axis", 0) % emit.rank(data)
    places = Places(emit, data, axis + 1, lambda value: emit("Gather", value, indices, axis=axis))

    def to_data() -> ir.Value:
        around = _around_run(emit, data, indices, axis)
        if around is None:
            return places.sums(call.grad)
        taken = emit.unsqueeze(call.grad, [axis]) if emit.rank(indices) == 0 else call.grad
        return (
            emit("Pad", taken, emit.integers(around), None, emit.integers([axis])) if any(around) else taken
        )

    return [to_data]


@rule("GatherElements")
def gather_elements(call: Call) -> Sequence[Gradient]:
    """Y = x, each element from its own place along one axis."""
    places = _elements(call, call.input(0), call.input(1))
    return [lambda: places.sums(call.grad)]


@rule("GatherND")
def gather_nd(call: Call) -> Sequence[Gradient]:
    """Y[p] = x[indices[p]]."""
    places = _slices(call, call.input(0), call.input(1), call.attribute("batch_dims", 0))
    return [lambda: places.sums(call.grad)]


@rule("ScatterND")
def scatter_nd(call: Call) -> Sequence[Gradient]:
    """Y = data; y[indices[p]] = updates[p], or the reduction of both."""
    return _scattered(call, _slices(call, call.input(0), call.input(1)))


@rule("ScatterElements")
def scatter_elements(call: Call) -> Sequence[Gradient]:
    """Y = data, each element of updates at its own place along one axis, or reduced with what is there."""
    return _scattered(call, _elements(call, call.input(0), call.input(1)))


@rule("TensorScatter")
def tensor_scatter(call: Call) -> Sequence[Gradient]:
    """Y = cache; y[b, .., start[b] + n, ..] = update[b, .., n, ..], places modulo the size if circular."""
    emit, cache, update, grad = call.emit, call.input(0), call.input(1), call.grad
    rank = emit.rank(cache)
    axis = call.attribute("axis", -2) % rank
    size, length = emit.size(cache, axis), emit.size(update, axis)
    along = numbers(emit, length)
    starts = call.optional(2)
    if starts is not None:
        along = emit("Add", emit.unsqueeze(starts, range(1, axis + 1)), along)
    if call.attribute("mode", "linear") == "circular":
        along = emit("Mod", along, size)
    before = emit("Mul", numbers(emit, size_of(emit, cache, 0, axis)), size)
    before = emit.reshape(before, joined(emit, shape_of(emit, cache, 0, axis), emit.integers([1])))
    rows = folded(emit, emit("Add", before, along))

    def look(value: ir.Value) -> ir.Value:
        own = joined(emit, emit.integers([-1]), shape_of(emit, value, axis + 1, emit.rank(value)))
        return emit("Gather", emit("Reshape", value, own), rows)

    places = Places(emit, cache, axis + 1, look)
    return [
        lambda: places.scatter(grad, emit.zeros_like(update)),
        lambda: emit.like(places.look(grad), update),
    ]


def _around_run(emit: Emitter, data: ir.Value, indices: ir.Value, axis: int) -> list[int] | None:
    """Return how many places are before and after those gathered; None where these are no known run."""
    known, size = emit.known(indices), None if data.shape is None else data.shape[axis]
    if known is None or known.ndim > 1 or known.size == 0 or not isinstance(size, int):
        return None
    first = int(known.ravel()[0]) % size
    is_run = np.array_equal(known.ravel() % size, np.arange(first, first + known.size))
    return [first, size - first - known.size] if is_run else None


def _elements(call: Call, data: ir.Value, indices: ir.Value) -> Places:
    emit, axis = call.emit, call.attribute("axis", 0)
    return Places(
        emit, data, emit.rank(data), lambda value: emit("GatherElements", value, indices, axis=axis)
    )


def _slices(call: Call, data: ir.Value, indices: ir.Value, batch_dims: int = 0) -> Places:
    emit = call.emit
    length = None if indices.shape is None else indices.shape[-1]
    if not isinstance(length, int):
        raise call.refusal(
            f"indices has shape {indices.shape}, and how many numbers an index has is not known; "
            "give it a fixed last size"
        )

    def look(value: ir.Value) -> ir.Value:
        if length == 0 and not batch_dims:
            # An index without numbers is all of the tensor; onnxruntime has no form of that.
            batch = shape_of(emit, indices, 0, emit.rank(indices) - 1)
            return emit("Expand", value, joined(emit, batch, emit.shape(value)))
        return emit("GatherND", value, indices, batch_dims=batch_dims or None)

    return Places(emit, data, batch_dims + length, look)


def _scattered(call: Call, places: Places) -> Sequence[Gradient]:
    reduction = call.attribute("reduction", "none")
    if reduction == "add":
        return [call.grad, None, lambda: places.look(call.grad)]
    if reduction == "mul":
        return _multiplied(call, places)
    if reduction in ("max", "min"):
        return _extremum(call, places, beaten="Less" if reduction == "max" else "Greater")
    return _written(call, places)


def _written(call: Call, places: Places) -> Sequence[Gradient]:
    """Give the last update to a row what comes back to it; data has no part in it."""
    emit, grad, updates = call.emit, call.grad, call.input(2)

    def to_updates() -> ir.Value:
        sent, is_last = places.look(grad), places.is_last
        return sent if is_last is None else emit("Where", is_last, sent, emit.constant(0, sent))

    return [lambda: places.scatter(grad, emit.zeros_like(updates)), None, to_updates]


def _multiplied(call: Call, places: Places) -> Sequence[Gradient]:
    """Give each factor the product of the others, without a division: zeros are exact."""
    emit = call.emit
    if emit.dtype(call.output).kind == "c":
        raise call.refusal("ONNX multiplies no complex numbers; scatter with 'add', or real numbers")
    data, updates, grad = (emit.wide(value) for value in (call.input(0), call.input(2), call.grad))

    def to_data() -> ir.Value:
        products = places.scatter(places.filled(1, updates), updates, "mul")
        return emit.cast(emit("Mul", grad, products), call.input(0))

    def to_updates() -> ir.Value:
        others = products_of_others(places, places.look(data), updates)
        return emit.cast(emit("Mul", places.look(grad), others), call.input(2))

    return [to_data, None, to_updates]


def _extremum(call: Call, places: Places, beaten: str) -> Sequence[Gradient]:
    """Share evenly among all that equal the result, data and updates alike; NaN in it is sent to all.

    What is not beaten is the result, or has NaN to do with it. Updates count as NaN where the result is:
    so does the share of a row that they meet, and of no other.
    """
    emit, data, updates, output = call.emit, call.input(0), call.input(2), call.output
    grad = emit.wide(call.grad)
    zero, one, nan = (emit.constant(number, grad) for number in (0, 1, np.nan))
    data_loses = emit(beaten, data, output)
    met = places.look(output)
    updates_lose = emit(beaten, updates, met)
    counted = emit("Where", emit("IsNaN", met), nan, emit("Where", updates_lose, zero, one))
    winners = places.scatter(emit("Where", data_loses, zero, one), counted, "add")
    share = emit("Div", grad, winners)
    return [
        lambda: emit.cast(emit("Where", data_loses, zero, share), data),
        None,
        lambda: emit.cast(emit("Where", updates_lose, zero, places.look(share)), updates),
    ]
