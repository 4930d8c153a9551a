"""Names of element types, and the text form of a tensor's type: `float32[8, 4]`.

Names are NumPy's (`float32`, `int64`, `bool`, `bfloat16`, `float8_e4m3fn`, ...), and `string` for
ONNX's strings, which are object arrays of `str` in NumPy.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache, lru_cache
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

STANDARD = (
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
    "float16", "bfloat16", "float32", "float64", "complex64", "complex128", "string",
)  # fmt: skip
"""Types the operators compute with."""

NARROW = (
    "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu",
    "float6_e2m3fn", "float6_e3m2fn", "float4_e2m1fn", "int4", "uint4", "int2", "uint2",
)  # fmt: skip
"""Types that ONNX stores and moves but defines no arithmetic for."""

ALIASES = {"double": "float64", "str": "string", "object": "string"}

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)

HALVES = (np.dtype(np.float16), BFLOAT16)
"""Types that are computed with in float32, and rounded once."""

_TYPE = re.compile(r"\s*([A-Za-z_]\w*)\s*\[([^\[\]]*)\]\s*")
_FIXED_WIDTH = re.compile(r"U(\d{1,8})", re.ASCII)


@cache
def dtype_of(name: str) -> np.dtype[np.generic] | None:
    """Return the NumPy dtype that a name stands for, or None where the name is not a dtype's.

    `U12` is NumPy's fixed-width string of 12 characters and `StringDType` its variable-width one;
    `string` is an object array.

    >>> dtype_of("bfloat16"), dtype_of("string"), dtype_of("float")
    (dtype(bfloat16), dtype('O'), None)
    """
    name = ALIASES.get(name, name)
    if name == "string":
        return np.dtype(object)
    if name == "StringDType":
        return np.dtype(np.dtypes.StringDType())  # type: ignore[return-value]  # it is one, in NumPy
    if fixed := _FIXED_WIDTH.fullmatch(name):
        return np.dtype(f"<U{int(fixed[1])}")
    if name in STANDARD or name in NARROW:
        return np.dtype(getattr(ml_dtypes, name, None) or name)
    return None


def name_of(dtype: npt.DTypeLike) -> str:
    """Return the name of a dtype, such that `dtype_of(name_of(dtype))` is it in native byte order.

    >>> name_of(np.float32), name_of(">i8"), name_of("U5"), name_of(object)
    ('float32', 'int64', 'U5', 'string')
    """
    dtype = np.dtype(dtype)
    if dtype.kind == "O":
        return "string"
    if dtype.kind == "T":
        return "StringDType"
    if dtype.kind == "U":
        return f"U{dtype.itemsize // 4}"
    return _name(dtype)


@lru_cache
def _name(dtype: np.dtype[Any]) -> str:
    # NumPy puts it together anew each time, which takes longer than many a call.
    return dtype.name


def type_name(dtype: npt.DTypeLike) -> str:
    """Return the name of the type that a dtype is of: strings of all kinds are `string`.

    >>> type_name(np.float32), type_name("U5")
    ('float32', 'string')
    """
    return "string" if is_string(dtype) else name_of(dtype)


def is_string(dtype: npt.DTypeLike) -> bool:
    """Tell whether a dtype holds text: fixed-width, object or StringDType."""
    return np.dtype(dtype).kind in "OTU"


def type_text(dtype: npt.DTypeLike | str, shape: Sequence[int | str | None]) -> str:
    """Write a tensor's type as messages, files and pictures show it.

    Args:
        dtype: A dtype, or its name.
        shape: Sizes; a text is a symbolic size, None an unknown one.

    >>> type_text(np.int64, (4, 1)), type_text("float32", ()), type_text("bool", ("N", None))
    ('int64[4, 1]', 'float32[]', 'bool[N, ?]')
    """
    name = dtype if isinstance(dtype, str) and dtype_of(dtype) is not None else name_of(dtype)
    return f"{name}[{', '.join('?' if size is None else str(size) for size in shape)}]"


def parse_type(text: str) -> tuple[np.dtype[np.generic], tuple[int, ...]] | None:
    """Read `float32[8, 4]` back into dtype and shape; None where it is not such a text.

    >>> parse_type("int64[4, 1]")
    (dtype('int64'), (4, 1))
    """
    match = _TYPE.fullmatch(text)
    if match is None:
        return None
    dtype = dtype_of(match[1])
    sizes = [size.strip() for size in match[2].split(",")] if match[2].strip() else []
    if dtype is None or not all(size.isdecimal() for size in sizes):
        return None
    return dtype, tuple(int(size) for size in sizes)
