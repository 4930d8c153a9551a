"""Rules of operators on several tensors, broadcast against each other."""

from __future__ import annotations

from collections.abc import Sequence

from mdf_scatter.gradient.table import Call, Gradient, rule


@rule("Add")
def add(call: Call) -> Sequence[Gradient]:
    """Z = a + b."""
    emit, a, b = call.emit, call.input(0), call.input(1)
    return [lambda: emit.sum_to(call.grad, a), lambda: emit.sum_to(call.grad, b)]


@rule("Mul")
def mul(call: Call) -> Sequence[Gradient]:
    """Z = a * b."""
    emit, a, b = call.emit, call.input(0), call.input(1)
    return [
        lambda: emit.sum_to(emit("Mul", call.grad, b), a),
        lambda: emit.sum_to(emit("Mul", call.grad, a), b),
    ]


@rule("Identity")
def identity(call: Call) -> Sequence[Gradient]:
    """Y = x."""
    return [call.grad]


@rule("Cast")
def cast(call: Call) -> Sequence[Gradient]:
    """Y = x in another dtype."""
    return [lambda: call.emit.cast(call.grad, call.input(0))]
