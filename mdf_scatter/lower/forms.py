"""Functions that ONNX has no operator for, or one that differs from NumPy's, written with others.

Each takes values of the dtypes of NumPy's loop and gives what that loop gives, NaN, infinities, signs
and rounding included; integers wrap around.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from mdf_scatter.errors import UnsupportedError
from mdf_scatter.lower.arithmetic import Arithmetic, Form, elementwise, numpy_dtype

_UNROLLED = 64
"""Integer powers below this are written as products."""

_BITWISE_SINCE = 18
"""The first operator set with operators on bits."""


def is_nan(a: Arithmetic, values: Sequence[ir.Value]) -> ir.Value:
    """`isnan`: not equal to itself."""
    return a.op("Not", a.op("Equal", values[0], values[0]))


def is_inf(a: Arithmetic, values: Sequence[ir.Value]) -> ir.Value:
    """`isinf`, for integers too."""
    (x,) = values
    dtype = numpy_dtype(x)
    if dtype.kind in "biu":
        return a.op("Not", a.op("Equal", x, x))
    return a.op("Equal", a.op("Abs", x), a.constant(np.inf, dtype))


def is_finite(a: Arithmetic, values: Sequence[ir.Value]) -> ir.Value:
    """`isfinite`, for integers too."""
    (x,) = values
    dtype = numpy_dtype(x)
    if dtype.kind in "biu":
        return a.op("Equal", x, x)
    return a.op("Less", a.op("Abs", x), a.constant(np.inf, dtype))


def sign(a: Arithmetic, values: Sequence[ir.Value]) -> ir.Value:
    """`sign`, which keeps NaN where ONNX's operator gives 0."""
    (x,) = values
    found = a.op("Sign", x)
    return a.op("Where", is_nan(a, values), x, found) if numpy_dtype(x).kind == "f" else found


def truncated(a: Arithmetic, values: Sequence[ir.Value]) -> ir.Value:
    """`trunc`: towards zero."""
    (x,) = values
    dtype = numpy_dtype(x)
    if dtype.kind in "biu":
        return a.op("Identity", x)
    positive = a.op("Greater", x, a.constant(0, dtype))
    # In this order: onnxruntime's Where gives 0.0 for a -0.0 of its first side.
    return a.op("Where", positive, a.op("Floor", x), a.op("Ceil", x))


def heaviside(a: Arithmetic, values: Sequence[ir.Value]) -> ir.Value:
    """`heaviside`: 0, the second value at zero, 1; NaN stays."""
    x, at_zero = values
    dtype = numpy_dtype(x)
    zero, one = a.constant(0, dtype), a.constant(1, dtype)
    step = a.op("Where", a.op("Less", x, zero), zero, one)
    step = a.op("Where", a.op("Equal", x, zero), at_zero, step)
    return a.op("Where", is_nan(a, [x]), x, step)


def logarithm(base: int) -> Form:
    """Return the form of the logarithm to a base; whole powers of the base are exact."""

    def form(a: Arithmetic, values: Sequence[ir.Value]) -> ir.Value:
        (x,) = values
        dtype = numpy_dtype(x)
        log_base = a.constant(math.log(base), dtype)
        # log x = whole + log (x / base**whole): the whole part is exact, and changes in steps, so that the
        # other part has all of the slope. Its bounds keep base**whole finite and normal.
        most = a.constant(math.floor(math.log(float(np.finfo(dtype).max), base)) - 2, dtype)
        near = a.op("Div", a.op("Log", x), log_base)
        whole = a.op("Floor", a.op("Add", near, a.constant(0.5, dtype)))
        whole = a.op("Min", a.op("Max", whole, a.op("Neg", most)), most)
        rest = a.op("Div", x, a.op("Pow", a.constant(base, dtype), whole))
        return a.op("Add", whole, a.op("Div", a.op("Log", rest), log_base))

    return form


def log1p(a: Arithmetic, values: Sequence[ir.Value]) -> ir.Value:
    """`log1p`, exact for small numbers too: log(u) * x / (u - 1) with u = 1 + x rounded."""
    (x,) = values
    dtype = numpy_dtype(x)
    one, infinite = a.constant(1, dtype), a.constant(np.inf, dtype)
    u = a.op("Add", x, one)
    as_is = a.op("Or", a.op("Equal", u, one), a.op("Equal", x, infinite))
    # What is not used must not divide by zero: that would reach the gradient as NaN.
    less = a.op("Where", as_is, one, a.op("Sub", u, one))
    found = a.op("Div", a.op("Mul", a.op("Log", u), x), less)
    return a.op("Where", as_is, x, found)


def expm1(a: Arithmetic, values: Sequence[ir.Value]) -> ir.Value:
    """`expm1`, exact for small numbers too: (u - 1) * x / log(u) with u = exp(x) rounded."""
    (x,) = values
    dtype = numpy_dtype(x)
    one, zero, infinite = a.constant(1, dtype), a.constant(0, dtype), a.constant(np.inf, dtype)
    u = a.op("Exp", x)
    less = a.op("Sub", u, one)
    as_is = a.op("Equal", u, one)
    plain = a.op("Or", a.op("Equal", u, zero), a.op("Equal", u, infinite))
    # What is not used must not divide by zero: that would reach the gradient as NaN.
    safe = a.op("Where", a.op("Or", as_is, plain), a.constant(2, dtype), u)
    found = a.op("Mul", less, a.op("Div", x, a.op("Log", safe)))
    return a.op("Where", plain, less, a.op("Where", as_is, x, found))


def logaddexp(a: Arithmetic, values: Sequence[ir.Value]) -> ir.Value:
    """`logaddexp`: the larger one, and what the smaller one adds to it."""
    x, y = values
    # Of two equal infinities the distance is NaN.
    both = a.op("And", a.op("Equal", x, y), is_inf(a, [x]))
    apart = a.op("Where", both, a.constant(0, numpy_dtype(x)), a.op("Sub", x, y))
    rest = log1p(a, [a.op("Exp", a.op("Neg", a.op("Abs", apart)))])
    return a.op("Add", a.op("Max", x, y), rest)


def exp2(a: Arithmetic, values: Sequence[ir.Value]) -> ir.Value:
    """`exp2`: two to the power."""
    return a.op("Pow", a.constant(2, numpy_dtype(values[0])), values[0])


def times(factor: float) -> Form:
    """Return the form of a product with a number, which is rounded to the dtype first."""

    def form(a: Arithmetic, values: Sequence[ir.Value]) -> ir.Value:
        return a.op("Mul", values[0], a.constant(factor, numpy_dtype(values[0])))

    return form


def reciprocal(a: Arithmetic, values: Sequence[ir.Value]) -> ir.Value:
    """`reciprocal`, of floats; NumPy's of integers is an integer, and nobody means that."""
    dtype = numpy_dtype(values[0])
    if dtype.kind != "f":
        raise UnsupportedError(f"{a.name}: numpy.reciprocal of {dtype} gives integers; write 1 / x")
    return a.op("Div", a.constant(1, dtype), values[0])


def square(a: Arithmetic, values: Sequence[ir.Value]) -> ir.Value:
    """`square`: a value times itself."""
    return a.op("Mul", values[0], values[0])


def power(a: Arithmetic, values: Sequence[ir.Value]) -> ir.Value:
    """`power`; a negative power of integers, which NumPy refuses, is refused where it can be seen."""
    base, exponent = values
    dtype = numpy_dtype(base)
    fixed = _fixed(exponent)
    if dtype.kind not in "iu":
        return elementwise(a, "Pow", base, exponent)
    if fixed is not None and (fixed < 0).any():
        raise UnsupportedError(f"{a.name}: integers to negative integer powers are not allowed")
    if fixed is not None and fixed.ndim == 0 and 0 < fixed < _UNROLLED:
        return _product(a, base, int(fixed))
    if dtype.kind == "u":
        signed = np.dtype(np.int64)
        return a.cast(a.op("Pow", a.cast(base, signed), a.cast(exponent, signed)), dtype)
    return elementwise(a, "Pow", base, exponent)


def _product(a: Arithmetic, base: ir.Value, exponent: int) -> ir.Value:
    """Multiply, which wraps around as NumPy's power does; onnxruntime's goes through float64."""
    if exponent == 1:
        return a.op("Identity", base)
    half = _product(a, base, exponent // 2)
    square_of_half = a.op("Mul", half, half)
    return a.op("Mul", square_of_half, base) if exponent % 2 else square_of_half


def _fixed(value: ir.Value) -> npt.NDArray[Any] | None:
    """Return the array that a value always is; None where a caller may give another."""
    return None if value.const_value is None or value.is_graph_input() else value.const_value.numpy()


def negative(a: Arithmetic, values: Sequence[ir.Value]) -> ir.Value:
    """`negative`."""
    return elementwise(a, "Neg", *values)


def logical(op_type: str) -> Form:
    """Return the form of `logical_and`, `logical_or` or `logical_not`: of what is not zero."""

    def form(a: Arithmetic, values: Sequence[ir.Value]) -> ir.Value:
        return a.op(op_type, *(a.cast(value, np.dtype(np.bool_)) for value in values))

    return form


def bitwise(op_type: str) -> Form:
    """Return the form of `&`, `|`, `^` or `~`: of bools that of the logical one."""

    def form(a: Arithmetic, values: Sequence[ir.Value]) -> ir.Value:
        if numpy_dtype(values[0]) == np.bool_:
            return a.op(op_type, *values)
        if a.builder.opset_imports[""] < _BITWISE_SINCE:
            raise UnsupportedError(
                f"{a.name}: {op_type.lower()} of the bits of integers is in ONNX from operator set"
                f" {_BITWISE_SINCE} on; compare with 0 first"
            )
        return a.op(f"Bitwise{op_type}", *values)

    return form


def not_equal(a: Arithmetic, values: Sequence[ir.Value]) -> ir.Value:
    """`not_equal`."""
    return a.op("Not", elementwise(a, "Equal", *values))


def floor_divide(a: Arithmetic, values: Sequence[ir.Value]) -> ir.Value:
    """`floor_divide`: towards minus infinity; integers divided by zero give 0."""
    x, y = values
    dtype = numpy_dtype(x)
    if dtype.kind == "f":
        return _float_floor_divide(a, x, y)
    return _guarded(a, x, y, _integer_floor_divide, when_minus_one="Neg")


def remainder(a: Arithmetic, values: Sequence[ir.Value]) -> ir.Value:
    """`remainder`: of the divisor's sign; integers modulo zero give 0."""
    x, y = values
    dtype = numpy_dtype(x)
    if dtype.kind == "f":
        rest, flip = _float_rest(a, x, y)
        found = a.op("Where", flip, a.op("Add", rest, y), rest)
        return _with_sign(a, found, a.op("Less", y, a.constant(0, dtype)))
    return _guarded(a, x, y, lambda a, x, y: a.op("Mod", x, y), when_minus_one=None)


def fmod(a: Arithmetic, values: Sequence[ir.Value]) -> ir.Value:
    """`fmod`: of the dividend's sign; integers modulo zero give 0."""
    x, y = values
    if numpy_dtype(x).kind == "f":
        return a.op("Mod", x, y, fmod=1)
    return _guarded(a, x, y, lambda a, x, y: a.op("Mod", x, y, fmod=1), when_minus_one=None)


def _float_rest(a: Arithmetic, x: ir.Value, y: ir.Value) -> tuple[ir.Value, ir.Value]:
    """Return C's remainder, and where it has not the sign of the divisor."""
    zero = a.constant(0, numpy_dtype(x))
    rest = a.op("Mod", x, y, fmod=1)
    signs = a.op("Xor", a.op("Less", rest, zero), a.op("Less", y, zero))
    return rest, a.op("And", signs, a.op("Not", a.op("Equal", rest, zero)))


def _float_floor_divide(a: Arithmetic, x: ir.Value, y: ir.Value) -> ir.Value:
    dtype = numpy_dtype(x)
    rest, flip = _float_rest(a, x, y)
    ratio = a.op("Div", a.op("Sub", x, rest), y)
    ratio = a.op("Where", flip, a.op("Sub", ratio, a.constant(1, dtype)), ratio)
    floor = a.op("Floor", ratio)
    short = a.op("Greater", a.op("Sub", ratio, floor), a.constant(0.5, dtype))
    floor = a.op("Where", short, a.op("Add", floor, a.constant(1, dtype)), floor)
    zero = a.constant(0, dtype)
    quotient = a.op("Div", x, y)
    found = a.op("Where", a.op("Equal", y, zero), quotient, floor)
    # A zero has the sign of the quotient, which is then a zero itself if it is negative.
    negative_zero = a.op("Less", a.op("Div", a.constant(1, dtype), quotient), zero)
    return _with_sign(a, found, a.op("Or", negative_zero, a.op("Less", found, zero)))


def _with_sign(a: Arithmetic, value: ir.Value, negative: ir.Value) -> ir.Value:
    """Return a value of this sign, zeros too, whose sign onnxruntime's Where may lose."""
    dtype = numpy_dtype(value)
    sign = a.op("Where", negative, a.constant(-1, dtype), a.constant(1, dtype))
    return a.op("Mul", a.op("Abs", value), sign)


def _integer_floor_divide(a: Arithmetic, x: ir.Value, y: ir.Value) -> ir.Value:
    dtype = numpy_dtype(x)
    quotient = a.op("Div", x, y)
    if dtype.kind == "u":
        return quotient
    zero = a.constant(0, dtype)
    rest = a.op("Sub", x, a.op("Mul", quotient, y))
    signs = a.op("Xor", a.op("Less", rest, zero), a.op("Less", y, zero))
    flip = a.op("And", signs, a.op("Not", a.op("Equal", rest, zero)))
    return a.op("Sub", quotient, a.cast(flip, dtype))


def _guarded(
    a: Arithmetic,
    x: ir.Value,
    y: ir.Value,
    divide: Callable[[Arithmetic, ir.Value, ir.Value], ir.Value],
    when_minus_one: str | None,
) -> ir.Value:
    """Divide integers, but never by 0 or -1: on these the processor stops the process."""
    dtype = numpy_dtype(x)
    fixed = _fixed(y)
    if fixed is not None and not np.isin(fixed, (0, -1)).any():
        return divide(a, x, y)
    zero, one = a.constant(0, dtype), a.constant(1, dtype)
    by_zero = a.op("Equal", y, zero)
    if dtype.kind == "u":
        return a.op("Where", by_zero, zero, divide(a, x, a.op("Where", by_zero, one, y)))
    by_minus_one = a.op("Equal", y, a.constant(-1, dtype))
    risky = a.op("Or", by_zero, by_minus_one)
    found = divide(a, x, a.op("Where", risky, one, y))
    special = zero if when_minus_one is None else a.op(when_minus_one, x)
    found = a.op("Where", by_minus_one, special, found)
    return a.op("Where", by_zero, zero, found)
