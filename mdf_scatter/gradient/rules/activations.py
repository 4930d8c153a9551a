"""Rules of activation functions. Where one has a kink, its slope there is torch's; Clip says what its is."""

from __future__ import annotations

import math
from collections.abc import Sequence

import onnx_ir as ir

from mdf_scatter.gradient.emitter import Emitter
from mdf_scatter.gradient.table import Call, Gradient, rule

_SQRT_2 = math.sqrt(2)
_SQRT_2_PI = math.sqrt(2 * math.pi)
_SQRT_2_OVER_PI = math.sqrt(2 / math.pi)
_GELU_CUBIC = 0.044715
"""What the tanh form of Gelu takes of the cube."""


@rule("Sigmoid")
def sigmoid(call: Call) -> Sequence[Gradient]:
    """Y = 1 / (1 + exp(-x)), y' = y * (1 - y)."""
    emit, y = call.emit, call.output
    return [emit("Mul", call.grad, emit("Mul", y, emit("Sub", 1, y)))]


@rule("Softplus")
def softplus(call: Call) -> Sequence[Gradient]:
    """Y = log(1 + exp(x)), y' = sigmoid(x)."""
    return [call.emit("Mul", call.grad, call.emit("Sigmoid", call.input(0)))]


@rule("Softsign")
def softsign(call: Call) -> Sequence[Gradient]:
    """Y = x / (1 + |x|), y' = 1 / (1 + |x|)**2."""
    emit = call.emit
    divisor = emit("Add", 1, emit("Abs", call.input(0)))
    return [emit("Div", call.grad, emit("Mul", divisor, divisor))]


@rule("Relu")
def relu(call: Call) -> Sequence[Gradient]:
    """Y = max(x, 0), y' = 1 where y > 0, else 0."""
    emit = call.emit
    return [_chosen(emit, emit("Greater", call.output, 0), call.grad, 0)]


@rule("LeakyRelu")
def leaky_relu(call: Call) -> Sequence[Gradient]:
    """Y = x where x > 0, else alpha * x; y' at 0 is alpha."""
    emit, alpha = call.emit, call.attribute("alpha", 0.01)
    return [_chosen(emit, emit("Greater", call.input(0), 0), call.grad, emit("Mul", call.grad, alpha))]


@rule("PRelu")
def prelu(call: Call) -> Sequence[Gradient]:
    """Y = x where x > 0, else slope * x; y' at 0 is the slope."""
    emit, grad, x, slope = call.emit, call.grad, call.input(0), call.input(1)
    return [
        lambda: _chosen(emit, emit("Greater", x, 0), grad, emit("Mul", grad, slope)),
        lambda: emit.sum_to(emit("Mul", grad, emit("Min", x, 0)), slope),
    ]


@rule("Elu")
def elu(call: Call) -> Sequence[Gradient]:
    """Y = x where x > 0, else alpha * (exp(x) - 1) with y' = y + alpha, at 0 too."""
    emit = call.emit
    slope = emit("Add", call.output, call.attribute("alpha", 1.0))
    return [_sloped(call, emit("LessOrEqual", call.input(0), 0), slope, 1)]


@rule("Celu")
def celu(call: Call) -> Sequence[Gradient]:
    """Y = x where x > 0, else alpha * (exp(x / alpha) - 1) with y' = y / alpha + 1."""
    emit = call.emit
    slope = emit("Add", emit("Div", call.output, call.attribute("alpha", 1.0)), 1)
    return [_sloped(call, emit("LessOrEqual", call.input(0), 0), slope, 1)]


@rule("Selu")
def selu(call: Call) -> Sequence[Gradient]:
    """Y = gamma * (x where x > 0, else alpha * (exp(x) - 1)); there y' = y + gamma * alpha, at 0 too."""
    emit = call.emit
    alpha, gamma = call.attribute("alpha", 1.6732631921768188), call.attribute("gamma", 1.0507010221481323)
    slope = emit("Add", call.output, gamma * alpha)
    return [_sloped(call, emit("LessOrEqual", call.input(0), 0), slope, gamma)]


@rule("ThresholdedRelu")
def thresholded_relu(call: Call) -> Sequence[Gradient]:
    """Y = x where x > alpha, else 0."""
    emit = call.emit
    above = emit("Greater", call.input(0), call.attribute("alpha", 1.0))
    return [_chosen(emit, above, call.grad, 0)]


@rule("HardSigmoid")
def hard_sigmoid(call: Call) -> Sequence[Gradient]:
    """Y = alpha * x + beta between 0 and 1, y' = alpha there, and 0 at both ends."""
    emit, y = call.emit, call.output
    inside = emit("And", emit("Greater", y, 0), emit("Less", y, 1))
    return [_chosen(emit, inside, emit("Mul", call.grad, call.attribute("alpha", 0.2)), 0)]


@rule("HardSwish")
def hard_swish(call: Call) -> Sequence[Gradient]:
    """Y = x * (x / 6 + 1 / 2 between 0 and 1); y' = x / 3 + 1 / 2, but 0 from -3 down, 1 from 3 up."""
    emit, x = call.emit, call.input(0)
    slope = emit("Add", emit("Div", x, 3), 0.5)
    slope = _chosen(emit, emit("Less", x, 3), slope, 1)
    return [_sloped(call, emit("Greater", x, -3), slope, 0)]


@rule("Swish")
def swish(call: Call) -> Sequence[Gradient]:
    """Y = x * s, s = sigmoid(alpha * x), y' = s + alpha * y * (1 - s)."""
    emit, y, alpha = call.emit, call.output, call.attribute("alpha", 1.0)
    s = emit("Sigmoid", _scaled(emit, call.input(0), alpha))
    curved = emit("Mul", _scaled(emit, y, alpha), emit("Sub", 1, s))
    return [emit("Mul", call.grad, emit("Add", s, curved))]


@rule("Mish")
def mish(call: Call) -> Sequence[Gradient]:
    """Y = x * t, t = tanh(softplus(x)), y' = t + x * sigmoid(x) * (1 - t * t)."""
    emit, x = call.emit, call.input(0)
    t = emit("Tanh", emit("Softplus", x))
    curved = emit("Mul", emit("Mul", x, emit("Sigmoid", x)), emit("Sub", 1, emit("Mul", t, t)))
    return [emit("Mul", call.grad, emit("Add", t, curved))]


@rule("Gelu")
def gelu(call: Call) -> Sequence[Gradient]:
    """Y = x * the normal distribution up to x, or what stands for that with tanh."""
    slope = _gelu_by_tanh(call) if call.attribute("approximate", "none") == "tanh" else _gelu(call)
    return [call.emit("Mul", call.grad, slope)]


@rule("Shrink")
def shrink(call: Call) -> Sequence[Gradient]:
    """Y = x + bias where x < -lambd, x - bias where x > lambd, else 0."""
    emit = call.emit
    outside = emit("Greater", emit("Abs", call.input(0)), call.attribute("lambd", 0.5))
    return [_chosen(emit, outside, call.grad, 0)]


@rule("Clip")
def clip(call: Call) -> Sequence[Gradient]:
    """Y = min(high, max(x, low)); at the bounds x has the gradient, beyond them the bound has it."""
    emit, grad, x, y = call.emit, call.grad, call.input(0), call.output
    low, high = call.optional(1), call.optional(2)

    def of_low() -> ir.Value | None:
        if low is None:
            return None
        raised = emit("Less", x, y)
        if high is not None:
            # With the bounds in the wrong order everything is `high`.
            raised = emit("And", raised, emit("LessOrEqual", low, high))
        return emit.sum_to(_chosen(emit, raised, grad, 0), low)

    def of_high() -> ir.Value | None:
        if high is None:
            return None
        lowered = emit("Greater", x, y)
        if low is not None:
            lowered = emit("Or", lowered, emit("Greater", low, high))
        return emit.sum_to(_chosen(emit, lowered, grad, 0), high)

    return [lambda: _chosen(emit, emit("Equal", x, y), grad, 0), of_low, of_high]


def _gelu(call: Call) -> ir.Value:
    """Slope P + x * p, with the normal distribution up to x and its density there."""
    emit, x = call.emit, call.input(0)
    scaled = emit("Div", x, _SQRT_2)
    below = emit("Mul", 0.5, emit("Add", 1, emit("Erf", scaled)))
    bell = emit("Exp", emit("Mul", scaled, emit("Neg", scaled)))
    return emit("Add", below, emit("Mul", emit("Div", x, _SQRT_2_PI), bell))


def _gelu_by_tanh(call: Call) -> ir.Value:
    """Slope (1 + t + x * (1 - t * t) * u') / 2, t = tanh(u), u = sqrt(2 / pi) * (x + c * x**3)."""
    emit, x = call.emit, call.input(0)
    square = emit("Mul", x, x)
    cubic = emit("Mul", square, _GELU_CUBIC * _SQRT_2_OVER_PI)
    t = emit("Tanh", emit("Mul", x, emit("Add", cubic, _SQRT_2_OVER_PI)))
    inner = emit("Add", emit("Mul", cubic, 3), _SQRT_2_OVER_PI)
    curved = emit("Mul", emit("Mul", x, inner), emit("Sub", 1, emit("Mul", t, t)))
    return emit("Mul", 0.5, emit("Add", emit("Add", t, curved), 1))


def _chosen(emit: Emitter, condition: ir.Value, value: ir.Value, otherwise: ir.Value | float) -> ir.Value:
    other = otherwise if isinstance(otherwise, ir.Value) else emit.constant(otherwise, value)
    return emit("Where", condition, value, other)


def _sloped(call: Call, condition: ir.Value, slope: ir.Value, otherwise: float) -> ir.Value:
    return call.emit("Mul", call.grad, _chosen(call.emit, condition, slope, otherwise))


def _scaled(emit: Emitter, value: ir.Value, factor: float) -> ir.Value:
    return value if factor == 1 else emit("Mul", value, factor)
