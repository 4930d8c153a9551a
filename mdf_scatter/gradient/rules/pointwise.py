"""Rules of functions of one number, element by element."""

from __future__ import annotations

import math
from collections.abc import Sequence

import onnx_ir as ir

from mdf_scatter.gradient.table import Call, Gradient, rule


@rule("Neg")
def neg(call: Call) -> Sequence[Gradient]:
    """Y = -x."""
    return [call.emit("Neg", call.grad)]


@rule("Abs")
def absolute(call: Call) -> Sequence[Gradient]:
    """Y = |x|, y' = sign(x), which is 0 at 0."""
    return [call.emit("Mul", call.grad, call.emit("Sign", call.input(0)))]


@rule("Reciprocal")
def reciprocal(call: Call) -> Sequence[Gradient]:
    """Y = 1 / x, y' = -y * y."""
    emit, y = call.emit, call.output
    return [emit("Mul", emit("Mul", call.grad, y), emit("Neg", y))]


@rule("Sqrt")
def sqrt(call: Call) -> Sequence[Gradient]:
    """Y = sqrt x, y' = 1 / (2 * y)."""
    return [call.emit("Div", call.grad, call.emit("Mul", 2, call.output))]


@rule("Exp")
def exp(call: Call) -> Sequence[Gradient]:
    """Y = exp x, y' = y."""
    return [call.emit("Mul", call.grad, call.output)]


@rule("Log")
def log(call: Call) -> Sequence[Gradient]:
    """Y = log x, y' = 1 / x."""
    return [call.emit("Div", call.grad, call.input(0))]


@rule("Sin")
def sin(call: Call) -> Sequence[Gradient]:
    """Y = sin x, y' = cos x."""
    return [call.emit("Mul", call.grad, call.emit("Cos", call.input(0)))]


@rule("Cos")
def cos(call: Call) -> Sequence[Gradient]:
    """Y = cos x, y' = -sin x."""
    return [call.emit("Mul", call.emit("Neg", call.grad), call.emit("Sin", call.input(0)))]


@rule("Tan")
def tan(call: Call) -> Sequence[Gradient]:
    """Y = tan x, y' = 1 + y * y."""
    return [call.emit("Mul", call.grad, call.emit("Add", 1, _square(call, call.output)))]


@rule("Sinh")
def sinh(call: Call) -> Sequence[Gradient]:
    """Y = sinh x, y' = cosh x."""
    return [call.emit("Mul", call.grad, call.emit("Cosh", call.input(0)))]


@rule("Cosh")
def cosh(call: Call) -> Sequence[Gradient]:
    """Y = cosh x, y' = sinh x."""
    return [call.emit("Mul", call.grad, call.emit("Sinh", call.input(0)))]


@rule("Tanh")
def tanh(call: Call) -> Sequence[Gradient]:
    """Y = tanh x, y' = 1 - y * y."""
    return [call.emit("Mul", call.grad, call.emit("Sub", 1, _square(call, call.output)))]


@rule("Asin")
def asin(call: Call) -> Sequence[Gradient]:
    """Y = asin x, y' = 1 / sqrt(1 - x * x)."""
    return [call.emit("Div", call.grad, _cosine_of_asin(call))]


@rule("Acos")
def acos(call: Call) -> Sequence[Gradient]:
    """Y = acos x, y' = -1 / sqrt(1 - x * x)."""
    return [call.emit("Div", call.emit("Neg", call.grad), _cosine_of_asin(call))]


@rule("Atan")
def atan(call: Call) -> Sequence[Gradient]:
    """Y = atan x, y' = 1 / (1 + x * x)."""
    return [call.emit("Div", call.grad, call.emit("Add", 1, _square(call, call.input(0))))]


@rule("Asinh")
def asinh(call: Call) -> Sequence[Gradient]:
    """Y = asinh x, y' = 1 / sqrt(1 + x * x)."""
    emit = call.emit
    return [emit("Div", call.grad, emit("Sqrt", emit("Add", 1, _square(call, call.input(0)))))]


@rule("Acosh")
def acosh(call: Call) -> Sequence[Gradient]:
    """Y = acosh x, y' = 1 / sqrt(x * x - 1)."""
    emit = call.emit
    return [emit("Div", call.grad, emit("Sqrt", emit("Sub", _square(call, call.input(0)), 1)))]


@rule("Atanh")
def atanh(call: Call) -> Sequence[Gradient]:
    """Y = atanh x, y' = 1 / (1 - x * x)."""
    return [call.emit("Div", call.grad, call.emit("Sub", 1, _square(call, call.input(0))))]


@rule("Erf")
def erf(call: Call) -> Sequence[Gradient]:
    """Y = erf x, y' = 2 / sqrt(pi) * exp(-x * x)."""
    emit = call.emit
    bell = emit("Exp", emit("Neg", _square(call, call.input(0))))
    return [emit("Mul", call.grad, emit("Mul", 2 / math.sqrt(math.pi), bell))]


def _square(call: Call, value: ir.Value) -> ir.Value:
    return call.emit("Mul", value, value)


def _cosine_of_asin(call: Call) -> ir.Value:
    return call.emit("Sqrt", call.emit("Sub", 1, _square(call, call.input(0))))
