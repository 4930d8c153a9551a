"""Rules of products along axes: zeros are exact, as nothing is divided by them."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from mdf_scatter.gradient.emitter import Emitter
from mdf_scatter.gradient.rules.reductions import reduced_alike, with_axes
from mdf_scatter.gradient.table import Call, Gradient, rule


@rule("ReduceProd")
def reduce_prod(call: Call) -> Sequence[Gradient]:
    """Y = prod(x): each x gets the product of the others."""
    emit, x = call.emit, call.input(0)
    axes = _axes(call)
    if axes is None or any(_size(x, axis) is None for axis in axes):
        return [lambda: _by_division(call, x)]
    return [lambda: _times_others(emit, with_axes(call, call.grad), x, axes)]


@rule("CumProd")
def cum_prod(call: Call) -> Sequence[Gradient]:
    """Y[j] = product of the x up to j.

    Each x gets the product of all before it, times r[i] = grad[i] + x[i + 1] * r[i + 1]. That recurrence is
    solved by doubling: after n rounds, r covers 2**n terms.
    """
    emit, x = call.emit, call.input(0)
    axis = emit.known(call.input(1))
    if axis is None:
        raise call.refusal("the axis is not constant")
    along = int(axis.ravel()[0])
    size = _size(x, along)
    if size is None:
        raise call.refusal("the size of the axis is not known; give the graph's inputs fixed shapes")
    reverse, exclusive = call.attribute("reverse", 0), call.attribute("exclusive", 0)

    def after(value: ir.Value, step: int) -> ir.Value:
        pads = emit.integers([step, -step] if reverse else [-step, step])
        return emit("Pad", value, pads, None, emit.integers([along]))

    def through() -> ir.Value:
        rest = after(call.grad, 1) if exclusive else call.grad
        factor, step = after(x, 1), 1
        while step < size:
            rest = emit("Add", rest, emit("Mul", factor, after(rest, step)))
            factor = emit("Mul", factor, after(factor, step))
            step *= 2
        before = emit("CumProd", x, call.input(1), exclusive=1, reverse=reverse)
        return emit("Mul", before, rest)

    return [through]


def _times_others(emit: Emitter, grad: ir.Value, x: ir.Value, axes: Sequence[int]) -> ir.Value:
    """Return a gradient times the products of all other elements along axes.

    A product of halves, element by element, leaves half as many factors; what comes back to a product of
    two goes to each, times the other.
    """
    axis = next((axis for axis in axes if (_size(x, axis) or 0) > 1), None)
    if axis is None:
        return emit.expand(grad, x)
    size = _size(x, axis) or 0
    half, odd = divmod(size, 2)
    one, other, *last = _split(emit, x, [half, half, *[1] * odd], axis)
    product = emit("Mul", one, other)
    factors = emit("Concat", product, *last, axis=axis) if odd else product
    sent = _times_others(emit, grad, factors, axes)
    sent, *to_last = _split(emit, sent, [half, 1], axis) if odd else [sent]
    return emit("Concat", emit("Mul", sent, other), emit("Mul", sent, one), *to_last, axis=axis)


def _by_division(call: Call, x: ir.Value) -> ir.Value:
    """Return the same where sizes are not known: by a division, but never by a zero.

    The product of the others that are not 0 is multiplied by the zero among the others, if there is just one,
    so that second derivatives are right too. Where there are more it is 0, and third derivatives are not.
    """
    emit = call.emit
    zero, one = emit.constant(0, x), emit.constant(1, x)
    is_zero = emit("Equal", x, zero)
    factors = emit("Where", is_zero, one, x)
    product = emit("Mul", call.grad, reduced_alike(call, "ReduceProd", factors))

    def over_others(value: ir.Value) -> ir.Value:
        return emit("Sub", with_axes(call, reduced_alike(call, "ReduceSum", value)), value)

    others = emit("Div", with_axes(call, product), factors)
    with_zero = emit("Mul", others, over_others(emit("Where", is_zero, x, zero)))
    count = over_others(emit.cast(is_zero, x))
    if_any = emit("Where", emit("Equal", count, one), with_zero, zero)
    return emit("Where", emit("Equal", count, zero), others, if_any)


def _axes(call: Call) -> list[int] | None:
    """Return the axes that are reduced; None where they are not constant."""
    given, rank = call.optional(1), call.emit.rank(call.input(0))
    axes = call.emit.known(given)
    if given is not None and axes is None:
        return None
    if axes is None or axes.size == 0:
        return [] if call.attribute("noop_with_empty_axes", 0) else list(range(rank))
    return [int(axis) % rank for axis in axes.ravel()]


def _split(emit: Emitter, value: ir.Value, sizes: list[int], axis: int) -> list[ir.Value]:
    return emit.several("Split", value, emit.integers(sizes), outputs=len(sizes), axis=axis)


def _size(value: ir.Value, axis: int) -> int | None:
    size = value.shape[axis] if value.shape is not None else None
    return size if isinstance(size, int) else None
