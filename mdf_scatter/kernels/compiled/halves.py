"""float16 and bfloat16, as their bits, to float32 and back: numba computes with neither on a processor."""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from mdf_scatter.kernels.compiled import part

HIDDEN = 0x38800000
"""The bits of 2 ** -14, the least normal float16."""

INFINITY = 0x7F800000
"""The bits of infinity, in float32."""


@intrinsic
def float_of(context, bits):
    """Return the float32 of some bits, uint32."""

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], ir.FloatType())

    return types.float32(types.uint32), emit


@intrinsic
def bits_of(context, number):
    """Return the bits, uint32, of a float32."""

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], ir.IntType(32))

    return types.uint32(types.float32), emit


@part
def widened(half, is_bfloat):
    """Return the float32 of a half, uint16, which is bfloat16 or float16."""
    bits = np.uint32(half)
    if is_bfloat:
        return float_of(np.uint32(bits << np.uint32(16)))
    sign = np.uint32(bits & np.uint32(0x8000)) << np.uint32(16)
    rest = np.uint32(bits & np.uint32(0x7FFF)) << np.uint32(13)  # exponent and fraction, where they belong
    exponent = np.uint32(rest & np.uint32(0x0F800000))
    if exponent == 0:  # zero, or below the normal numbers: a fraction of 2 ** -14
        small = float_of(np.uint32(rest + np.uint32(HIDDEN))) - float_of(np.uint32(HIDDEN))
        return float_of(np.uint32(bits_of(small) | sign))
    bias = np.uint32((255 - 31) << 23) if exponent == np.uint32(0x0F800000) else np.uint32((127 - 15) << 23)
    return float_of(np.uint32((rest + bias) | sign))


@part
def narrowed(number, is_bfloat):
    """Return the half, uint16, nearest to a float32, of two the even one; as NumPy and ml_dtypes have it."""
    bits = bits_of(number)
    sign = np.uint32(bits & np.uint32(0x80000000)) >> np.uint32(16)
    rest = np.uint32(bits & np.uint32(0x7FFFFFFF))
    if is_bfloat:
        if rest > np.uint32(INFINITY):
            return np.uint16(sign | np.uint32(0x7FC0))
        odd = np.uint32(rest >> np.uint32(16)) & np.uint32(1)
        return np.uint16(sign | np.uint32((rest + np.uint32(0x7FFF) + odd) >> np.uint32(16)))
    if rest > np.uint32(INFINITY):
        return np.uint16(sign | np.uint32(0x7E00) | np.uint32((rest >> np.uint32(13)) & np.uint32(0x03FF)))
    if rest >= np.uint32(0x477FF000):  # 65520, from which on the nearest is infinity
        return np.uint16(sign | np.uint32(0x7C00))
    if rest < np.uint32(HIDDEN):
        # 0.5 has as many bits below it as those halves: to add it rounds, and leaves them in its fraction.
        return np.uint16(sign | np.uint32(bits_of(float_of(rest) + np.float32(0.5)) - np.uint32(0x3F000000)))
    odd = np.uint32(rest >> np.uint32(13)) & np.uint32(1)
    rounded = np.uint32(rest - np.uint32((127 - 15) << 23) + np.uint32(0x0FFF) + odd)
    return np.uint16(sign | np.uint32(rounded >> np.uint32(13)))
