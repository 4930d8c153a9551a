"""Rules of operators on several tensors, broadcast against each other, and of those that pass a value on."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
import onnx_ir as ir

from mdf_scatter.gradient.table import Call, Gradient, rule


@rule("Add")
def add(call: Call) -> Sequence[Gradient]:
    """Z = a + b."""
    emit, a, b = call.emit, call.input(0), call.input(1)
    return [lambda: emit.sum_to(call.grad, a), lambda: emit.sum_to(call.grad, b)]


@rule("Sub")
def sub(call: Call) -> Sequence[Gradient]:
    """Z = a - b."""
    emit, a, b = call.emit, call.input(0), call.input(1)
    return [lambda: emit.sum_to(call.grad, a), lambda: emit("Neg", emit.sum_to(call.grad, b))]


@rule("Mul")
def mul(call: Call) -> Sequence[Gradient]:
    """Z = a * b."""
    emit, a, b = call.emit, call.input(0), call.input(1)
    if a is b:
        return [lambda: emit("Mul", emit("Mul", call.grad, 2), a)]
    return [
        lambda: emit.sum_to(emit("Mul", call.grad, b), a),
        lambda: emit.sum_to(emit("Mul", call.grad, a), b),
    ]


@rule("Div")
def div(call: Call) -> Sequence[Gradient]:
    """Z = a / b, dz/da = 1 / b, dz/db = -z / b."""
    emit, a, b = call.emit, call.input(0), call.input(1)
    share = emit("Div", call.grad, b)
    return [
        lambda: emit.sum_to(share, a),
        lambda: emit("Neg", emit.sum_to(emit("Mul", share, call.output), b)),
    ]


@rule("Pow")
def power(call: Call) -> Sequence[Gradient]:
    """Z = x ** e, dz/dx = e * x ** (e - 1), dz/de = z * log(x).

    Both are 0 where they would be 0 times infinity: for e = 0, and for x = 0. With a negative base z is no
    smooth function of its exponent, and the gradient of that is NaN.
    """
    emit, grad, x, e = call.emit, call.grad, call.input(0), call.input(1)

    def of_base() -> ir.Value | None:
        slope = _slope_of_power(call, x, e)
        return None if slope is None else emit.sum_to(emit("Mul", grad, slope), x)

    def of_exponent() -> ir.Value:
        slope = emit("Mul", call.output, _logarithm(call, x))
        return emit.cast(emit.sum_to(emit("Mul", grad, slope), e), e)

    return [of_base, of_exponent]


@rule("Mod")
def mod(call: Call) -> Sequence[Gradient]:
    """Z = a - n * b, with a whole number n that changes in steps."""
    emit, a, b = call.emit, call.input(0), call.input(1)

    def of_divisor() -> ir.Value:
        near = emit("Div", emit("Sub", call.output, a), b)
        # Not Round, which has no bfloat16 before operator set 22.
        minus_n = emit("Floor", emit("Add", near, 0.5))
        return emit.sum_to(emit("Mul", call.grad, minus_n), b)

    return [lambda: emit.sum_to(call.grad, a), of_divisor]


@rule("Sum")
def sum_of_several(call: Call) -> Sequence[Gradient]:
    """Z = a + b + ... ."""
    return _to_each(call, call.grad)


@rule("Mean")
def mean_of_several(call: Call) -> Sequence[Gradient]:
    """Z = (a + b + ...) / n."""
    return _to_each(call, call.emit("Div", call.grad, len(call.node.inputs)))


@rule("Max", "Min")
def extreme_of_several(call: Call) -> Sequence[Gradient]:
    """Z = the largest, or smallest; those that tie share the gradient evenly. NaN in z gives NaN."""
    emit, grad = call.emit, call.grad
    values = [call.input(at) for at in range(len(call.node.inputs))]
    if len(values) == 1:
        return [grad]
    taken = [emit.cast(emit("Equal", value, call.output), call.output) for value in values]
    share = emit("Div", grad, emit("Sum", *taken))

    def shared(value: ir.Value, mask: ir.Value) -> ir.Value:
        return emit.sum_to(emit("Mul", share, mask), value)

    return [partial(shared, value, mask) for value, mask in zip(values, taken, strict=True)]


@rule("Where")
def where(call: Call) -> Sequence[Gradient]:
    """Z = a where the condition holds, else b."""
    emit, grad, condition, a, b = call.emit, call.grad, call.input(0), call.input(1), call.input(2)
    zero = emit.constant(0, grad)
    return [
        None,
        lambda: emit.sum_to(emit("Where", condition, grad, zero), a),
        lambda: emit.sum_to(emit("Where", condition, zero, grad), b),
    ]


@rule("Identity")
def identity(call: Call) -> Sequence[Gradient]:
    """Y = x."""
    return [call.grad]


@rule("Cast", "CastLike")
def cast(call: Call) -> Sequence[Gradient]:
    """Y = x in another dtype."""
    return [lambda: call.emit.cast(call.grad, call.input(0))]


@rule("Dropout")
def dropout(call: Call) -> Sequence[Gradient]:
    """Y = x; in training x / (1 - ratio) where the mask, which the forward pass drew, lets it pass."""
    emit, ratio, training = call.emit, call.optional(1), call.optional(2)
    known = emit.known(training)
    if training is None or (known is not None and not known):
        return [call.grad]
    half = emit.constant(0.5, call.output)
    keep = half if ratio is None else emit("Sub", 1, emit.cast(ratio, call.output))
    if known is None:
        keep = emit("Where", training, keep, emit.constant(1, keep))
    mask = call.further(1, ir.DataType.BOOL, call.output.shape)
    return [emit("Where", mask, emit("Div", call.grad, keep), emit.constant(0, call.output))]


def _slope_of_power(call: Call, x: ir.Value, e: ir.Value) -> ir.Value | None:
    """Return e * x ** (e - 1); None where that is 0 everywhere."""
    emit = call.emit
    # An exponent that is trained is not folded: it is another number in the next step.
    known = None if 1 in call.wanted else emit.known(e)
    if known is None:
        zero = emit.constant(0, e)
        less = emit("Sub", emit("Where", emit("Equal", e, zero), emit.constant(1, e), e), 1)
        return emit("Mul", emit.cast(e, x), emit("Pow", x, less))
    exponents = known.astype(emit.dtype(x))
    if not exponents.any():
        return None
    if (exponents == 1).all():
        return emit.constant(exponents)
    factor = emit.constant(exponents)
    if (exponents == 2).all():
        return emit("Mul", x, factor)
    if (exponents == 3).all():
        return emit("Mul", emit("Mul", x, x), factor)
    less = emit.constant(np.where(exponents == 0, 0, exponents - 1).astype(exponents.dtype))
    return emit("Mul", emit("Pow", x, less), factor)


def _logarithm(call: Call, x: ir.Value) -> ir.Value:
    """Return the logarithm of a base, and 0 for base 0."""
    emit = call.emit
    known = None if 0 in call.wanted else emit.known(x)
    if known is None:
        return emit("Log", emit("Where", emit("Equal", x, 0), emit.constant(1, x), x))
    with np.errstate(invalid="ignore"):
        return emit.constant(np.log(np.where(known == 0, 1, known)).astype(known.dtype))


def _to_each(call: Call, share: ir.Value) -> Sequence[Gradient]:
    values = [call.input(at) for at in range(len(call.node.inputs))]
    return [partial(call.emit.sum_to, share, value) for value in values]
