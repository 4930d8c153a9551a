"""float16 and bfloat16, as their bits, to float32 and back: numba computes with neither on a processor."""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from mdf_scatter.kernels.compiled import combine, part

LEAST = 0x38800000
"""The bits of 2 ** -14, the least normal float16, in float32."""

HALF_INFINITY = 0x0F800000
"""The bits of a float16's infinity, where a float32 has them."""

REBIASED = 0x77800000
"""The bits of 2 ** 112: the exponents of a float32 begin that much lower."""

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


# Neither of the two below branches, and so loops of them compute several at once.


@part
def widened(half, is_bfloat):
    """Return the float32 of a half, uint16, which is bfloat16 or float16."""
    bits = np.uint32(half)
    if is_bfloat:
        return float_of(np.uint32(bits << np.uint32(16)))
    sign = np.uint32(bits & np.uint32(0x8000)) << np.uint32(16)
    rest = np.uint32(bits & np.uint32(0x7FFF)) << np.uint32(13)  # exponent and fraction, where they belong
    rebiased = bits_of(float_of(rest) * float_of(np.uint32(REBIASED)))
    special = np.uint32(INFINITY) if rest >= np.uint32(HALF_INFINITY) else np.uint32(0)
    return float_of(np.uint32(rebiased | special | sign))


@part
def narrowed(number, is_bfloat):
    """Return the half, uint16, nearest to a float32, of two the even one; as NumPy and ml_dtypes have it."""
    bits = bits_of(number)
    sign = np.uint32(bits & np.uint32(0x80000000)) >> np.uint32(16)
    rest = np.uint32(bits & np.uint32(0x7FFFFFFF))
    is_nan = rest > np.uint32(INFINITY)
    if is_bfloat:
        odd = np.uint32(rest >> np.uint32(16)) & np.uint32(1)
        rounded = np.uint32(rest + np.uint32(0x7FFF) + odd) >> np.uint32(16)
        return np.uint16(sign | (np.uint32(0x7FC0) if is_nan else rounded))
    odd = np.uint32(rest >> np.uint32(13)) & np.uint32(1)
    rounded = np.uint32(rest - np.uint32((127 - 15) << 23) + np.uint32(0x0FFF) + odd) >> np.uint32(13)
    # 0.5 has as many bits below it as the least halves: to add it rounds, and leaves them in its fraction.
    small = bits_of(float_of(rest) + np.float32(0.5)) - np.uint32(0x3F000000)
    nearest = np.uint32(small) if rest < np.uint32(LEAST) else rounded
    nearest = np.uint32(0x7C00) if rest >= np.uint32(0x477FF000) else nearest  # from 65520 on
    payload = np.uint32(0x7E00) | (np.uint32(rest >> np.uint32(13)) & np.uint32(0x03FF))
    return np.uint16(sign | (payload if is_nan else nearest))


def reduce_elements(out, data, updates, rows, wide, is_bfloat, reduction):
    """Reduce `updates` (N,) into elements of `data` (R,), in float32, and write the result to `out` (R,).

    Args:
        out: The bits of halves, uint16.
        data: (R,), or (0,), where all of it is 0; it may be `out` itself.
        updates: (N,).
        rows: The element that each update goes to, (N,).
        wide: (R,), float32; room.
        is_bfloat: Whether they are bfloat16.
        reduction: One of `CODES`, not `NONE`.
    """
    for element in range(len(wide)):
        wide[element] = widened(data[element], is_bfloat) if len(data) > 0 else np.float32(0)
    for number in range(len(rows)):
        element = np.uintp(rows[number])
        wide[element] = combine(reduction, wide[element], widened(updates[number], is_bfloat))
    for element in range(len(wide)):
        before = data[element] if len(data) > 0 else np.uint16(0)
        # What no update has met keeps its bits, also those of a NaN.
        is_same = bits_of(wide[element]) == bits_of(widened(before, is_bfloat))
        out[element] = before if is_same else narrowed(wide[element], is_bfloat)
