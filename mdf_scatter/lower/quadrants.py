"""Angles and lengths of pairs of numbers, without overflow and with NumPy's zeros and infinities."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from mdf_scatter.lower.arithmetic import Arithmetic, numpy_dtype
from mdf_scatter.lower.forms import is_inf


def hypot(a: Arithmetic, values: Sequence[ir.Value]) -> ir.Value:
    """`hypot`: infinite where one of both is, even beside NaN."""
    x, y = values
    dtype = numpy_dtype(x)
    large, ratio = _ratio(a, x, y)
    length = a.op("Sqrt", a.op("Add", a.constant(1, dtype), a.op("Mul", ratio, ratio)))
    infinite = a.op("Or", is_inf(a, [x]), is_inf(a, [y]))
    return a.op("Where", infinite, a.constant(np.inf, dtype), a.op("Mul", large, length))


def arctan2(a: Arithmetic, values: Sequence[ir.Value]) -> ir.Value:
    """`arctan2`: the angle of (second, first), of the sign of the first, zeros included."""
    y, x = values
    dtype = numpy_dtype(x)
    _, ratio = _ratio(a, x, y)
    alike = a.op("Equal", a.op("Abs", x), a.op("Abs", y))
    # Of two infinities the ratio is NaN, and not of two zeros.
    both = a.op("And", alike, is_inf(a, [x]))
    angle = a.op("Atan", a.op("Where", both, a.constant(1, dtype), ratio))
    steep = a.op("Greater", a.op("Abs", y), a.op("Abs", x))
    angle = a.op("Where", steep, a.op("Sub", a.constant(np.pi / 2, dtype), angle), angle)
    angle = a.op("Where", _is_negative(a, x), a.op("Sub", a.constant(np.pi, dtype), angle), angle)
    sign = a.op("Where", _is_negative(a, y), a.constant(-1, dtype), a.constant(1, dtype))
    return a.op("Mul", angle, sign)


def _ratio(a: Arithmetic, x: ir.Value, y: ir.Value) -> tuple[ir.Value, ir.Value]:
    """Return the larger size of both, and the smaller one divided by it."""
    dtype = numpy_dtype(x)
    sizes = a.op("Abs", x), a.op("Abs", y)
    is_second = a.op("Greater", sizes[1], sizes[0])
    large = a.op("Where", is_second, sizes[1], sizes[0])
    small = a.op("Where", is_second, *sizes)
    # Dividing zeros would reach the gradient as NaN.
    is_zero = a.op("Equal", large, a.constant(0, dtype))
    return large, a.op("Div", small, a.op("Where", is_zero, a.constant(1, dtype), large))


def _is_negative(a: Arithmetic, x: ir.Value) -> ir.Value:
    """Tell whether the sign is minus, of zeros too: one divided by them is infinite."""
    dtype = numpy_dtype(x)
    zero, one = a.constant(0, dtype), a.constant(1, dtype)
    return a.op("Or", a.op("Less", x, zero), a.op("Less", a.op("Div", one, x), zero))
