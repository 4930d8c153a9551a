"""One step of each recurrent operator, as ONNX defines it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import onnx_ir as ir

from mdf_scatter.gradient.emitter import Emitter

Activation = Callable[[Emitter, ir.Value], ir.Value]


@dataclass(frozen=True)
class Weights:
    """What a step computes with, of one direction.

    Attributes:
        recurrent: R, transposed, in the parts that multiply one by one: [hidden, gates * hidden] each.
        bias: What is added to h @ R.T, [gates * hidden]; None where that is done already, or there is none.
        peepholes: Of the input, output and forget gate, [hidden] each; empty where there are none.
        activations: f, g and h, as far as the operator has them.
    """

    recurrent: Sequence[ir.Value]
    bias: ir.Value | None
    peepholes: Sequence[ir.Value]
    activations: Sequence[Activation]


@dataclass(frozen=True)
class Cell:
    """How a recurrent operator works.

    Attributes:
        step: Writes a step: from x @ W.T with its biases, [batch, gates * hidden], and the states,
            [batch, hidden] each, it makes the next states.
        recurrent: How many gates each part of R is for.
        activations: The default activation functions.
        states: How many states it has.
        adds_bias: Whether the step adds the bias of R; else it is part of what the step is given.
    """

    step: Callable[[Emitter, Weights, ir.Value, Sequence[ir.Value]], list[ir.Value]]
    recurrent: Sequence[int]
    activations: Sequence[str]
    states: int = 1
    adds_bias: bool = False


def _rnn(emit: Emitter, weights: Weights, given: ir.Value, states: Sequence[ir.Value]) -> list[ir.Value]:
    """H = f(x + h @ R.T)."""
    (f,) = weights.activations
    return [f(emit, emit("Add", given, emit("MatMul", states[0], weights.recurrent[0])))]


def _gru(emit: Emitter, weights: Weights, given: ir.Value, states: Sequence[ir.Value]) -> list[ir.Value]:
    """H = (1 - z) * g(xh + (r * h) @ Rh.T) + z * h, with z, r = f(x + h @ R.T)."""
    (f, g), (h,) = weights.activations, states
    xz, xr, xh = _split(emit, given, 3)
    hz, hr = _split(emit, emit("MatMul", h, weights.recurrent[0]), 2)
    z, r = f(emit, emit("Add", xz, hz)), f(emit, emit("Add", xr, hr))
    reset = emit("MatMul", emit("Mul", r, h), weights.recurrent[1])
    return [_mixed(emit, z, g(emit, emit("Add", xh, reset)), h)]


def _linear_gru(
    emit: Emitter, weights: Weights, given: ir.Value, states: Sequence[ir.Value]
) -> list[ir.Value]:
    """H = (1 - z) * g(xh + r * (h @ Rh.T + Rbh)) + z * h, with z, r = f(x + h @ R.T + Rb)."""
    (f, g), (h,) = weights.activations, states
    xz, xr, xh = _split(emit, given, 3)
    product = emit("MatMul", h, weights.recurrent[0])
    hz, hr, hh = _split(emit, product if weights.bias is None else emit("Add", product, weights.bias), 3)
    z, r = f(emit, emit("Add", xz, hz)), f(emit, emit("Add", xr, hr))
    return [_mixed(emit, z, g(emit, emit("Add", xh, emit("Mul", r, hh))), h)]


def _lstm(emit: Emitter, weights: Weights, given: ir.Value, states: Sequence[ir.Value]) -> list[ir.Value]:
    """C = f(xf) * c + f(xi) * g(xc), H = f(xo) * h(C), with x + h @ R.T for x, and peepholes."""
    (f, g, h), (hidden, cell) = weights.activations, states
    xi, xo, xf, xc = _split(emit, emit("Add", given, emit("MatMul", hidden, weights.recurrent[0])), 4)
    if weights.peepholes:
        pi, po, pf = weights.peepholes
        xi, xf = (emit("Add", x, emit("Mul", p, cell)) for x, p in ((xi, pi), (xf, pf)))
    kept = emit("Mul", f(emit, xf), cell)
    after = emit("Add", kept, emit("Mul", f(emit, xi), g(emit, xc)))
    if weights.peepholes:
        xo = emit("Add", xo, emit("Mul", po, after))
    return [emit("Mul", f(emit, xo), h(emit, after)), after]


def _split(emit: Emitter, value: ir.Value, parts: int) -> list[ir.Value]:
    return emit.several("Split", value, outputs=parts, axis=1, num_outputs=parts)


def _mixed(emit: Emitter, z: ir.Value, new: ir.Value, old: ir.Value) -> ir.Value:
    """Return (1 - z) * new + z * old."""
    return emit("Add", new, emit("Mul", z, emit("Sub", old, new)))


CELLS = {
    "RNN": Cell(_rnn, (1,), ("Tanh",)),
    "GRU": Cell(_gru, (2, 1), ("Sigmoid", "Tanh")),
    "LinearGRU": Cell(_linear_gru, (3,), ("Sigmoid", "Tanh"), adds_bias=True),
    "LSTM": Cell(_lstm, (4,), ("Sigmoid", "Tanh", "Tanh"), states=2),
}
"""The recurrent operators; of GRU, "LinearGRU" is the one with `linear_before_reset`."""
