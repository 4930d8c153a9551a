"""How an array stands in a model file: as plain nested lists, with its type as a text beside them.

Plain modeci-mdf reads the lists; the text, `float32[8, 4]`, gives the dtype and shape back. This
module knows arrays and type texts, and nothing of models or files. Every message begins with
the `name` the caller gives, which says where in the model the array stands.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from functools import cache
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from mdf_scatter.dtypes import dtype_of, is_string, name_of, parse_type, type_text
from mdf_scatter.errors import FormatError

Array = npt.NDArray[Any]
Dtype = np.dtype[Any]
Refuse = Callable[[int, str], FormatError]

INLINE = 1000
"""Most elements that stand in the model file itself, unless everything is to be embedded."""

INT64_MAX = 2**63 - 1

_COMPLEX = re.compile(r"[-+]?[\d.]*(?:e[-+]?\d+|nan|inf)?[-+][\d.]*(?:e[-+]?\d+|nan|inf)?j")
_LETTERS = re.compile(r"[a-z]+")
_DIGITS = re.compile(r"\d{1,20}", re.ASCII)
_MAX_TYPE_TEXT = 500
_MAX_STRING_BYTES = 2**30
_MOST_DIGITS = 9  # enough to tell any two float32 apart; float64 needs no search


def shown(value: object) -> str:
    """Write a value for a message: short whatever it holds, and on one line."""
    for kind, article in ((dict, "a mapping"), ((list, tuple), "a list"), (np.ndarray, "an array")):
        if isinstance(value, kind):
            return article
    if value is None:
        return "null"
    if isinstance(value, int) and value.bit_length() > 200:
        return f"an integer of {value.bit_length()} bits"
    text = repr(str(value) if isinstance(value, str) else value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def is_large(array: Array) -> bool:
    """Tell whether an array belongs in the side file; text always stands in the model."""
    return array.size > INLINE and not is_string(array.dtype)


def in_native_order(dtype: Dtype) -> Dtype:
    """Return the dtype in this machine's byte order, the only one that a file's types mean."""
    return dtype if dtype.isnative else dtype.newbyteorder("=")  # StringDType has no order to change


def kept_type(array: Array, name: str) -> str:
    """Return the text that gives an array's dtype and shape back.

    Raises:
        FormatError: No text does, as for dates, records or masked arrays.
    """
    native = in_native_order(array.dtype)
    text = type_text(native, array.shape)
    if isinstance(array, np.ma.MaskedArray):
        raise FormatError(f"{name} is a masked array; expected a plain one (use .filled())")
    if dtype_of(name_of(native)) != native:
        raise FormatError(
            f"{name} is an array of {shown(str(array.dtype))}, which a model file cannot keep; "
            "expected numbers, bool or text"
        )
    return text


def to_plain(array: Array, name: str, *, int64_only: bool = False) -> Any:
    """Return the nested lists (of a 0-d array, the scalar) that an array stands as in a file.

    Args:
        array: Any shape, any dtype that `kept_type` accepts.
        name: Where it stands, for messages.
        int64_only: Write integers beyond int64 as decimal text, for a format that has no wider ones.

    Raises:
        FormatError: An object array holds something that is not text.
    """
    flat = _plain_elements(array.reshape(-1), array.shape, name)
    if int64_only and array.dtype.kind == "u":
        flat = [str(value) if value > INT64_MAX else value for value in flat]
    if array.size == 0:
        outer = array.shape[: array.shape.index(0)]
        return np.empty((*outer, 0)).tolist() if math.prod(outer) <= INLINE else []
    for size in reversed(array.shape):
        flat = [flat[start : start + size] for start in range(0, len(flat), size)]
    return flat[0]


def read_type(text: object, name: str) -> tuple[Dtype, tuple[int, ...]]:
    """Read a type text such as `float32[8, 4]`.

    Raises:
        FormatError: It is not one.
    """
    try:
        known = parse_type(text) if isinstance(text, str) and len(text) <= _MAX_TYPE_TEXT else None
    except (TypeError, ValueError, OverflowError):  # a width or size that no array has
        known = None
    if known is None:
        raise FormatError(f"{name} has the type {shown(text)}; expected one such as 'float32[8, 4]'")
    return known


def from_plain(tree: Any, text: object, name: str) -> Array:
    """Build the array that nested lists and a type text stand for.

    Args:
        tree: Nested lists of exactly the text's shape; of a 0-d array, a scalar.
        text: The type text.
        name: Where the array stands, for messages.

    Raises:
        FormatError: The text is no type, or the lists do not fit it in shape, kind or range.
    """
    dtype, shape = read_type(text, name)
    flat = _flattened(tree, shape, name, str(text))
    array = _typed(flat, dtype, shape, name)
    try:
        return array.reshape(shape)
    except ValueError as error:  # an empty shape that no array can have
        raise FormatError(f"{name} has the type {shown(text)}, which no array can have") from error


def shortest(values: Array) -> list[float]:
    """Write floats as the shortest decimals that give the same values back in their dtype.

    >>> shortest(np.array([0.1, 1e-45, np.inf], np.float32))
    [0.1, 1e-45, inf]
    """
    exact = values.astype(np.float64)
    if values.dtype == np.float64:
        return list(exact.tolist())
    found = exact.copy()
    left = np.flatnonzero(np.isfinite(exact) & (exact != 0))
    with np.errstate(over="ignore"):
        for digits in range(1, _MOST_DIGITS + 1):
            near = np.array([float(f"{value:.{digits}g}") for value in exact[left].tolist()])
            same = near.astype(values.dtype) == values[left]
            found[left[same]] = near[same]
            left = left[~same]
    return list(found.tolist())


def _kind(dtype: Dtype) -> str:
    # by name, because NumPy calls every type of ml_dtypes "V"
    letters = _LETTERS.match(name_of(dtype))
    return "string" if is_string(dtype) or letters is None else letters[0]


def _plain_elements(flat: Array, shape: tuple[int, ...], name: str) -> list[Any]:
    kind = _kind(flat.dtype)
    if kind == "string":
        texts = flat.tolist()
        for position, text in enumerate(texts):
            if not isinstance(text, str):
                raise FormatError(
                    f"{name}{_index(position, shape)} is {shown(text)}; an array of objects holds text"
                )
        return [str(text) for text in texts]
    if kind in ("float", "bfloat"):
        return shortest(flat)
    if kind == "complex":
        real, imaginary = shortest(flat.real), shortest(flat.imag)
        return [_complex_text(re_, im) for re_, im in zip(real, imaginary, strict=True)]
    # the narrow integers of ml_dtypes come out of tolist() as their own scalars
    return list((flat if flat.dtype.kind in "biu" else flat.astype(np.int64)).tolist())


def _complex_text(real: float, imaginary: float) -> str:
    second = repr(imaginary)
    return f"{real!r}{'' if second.startswith('-') else '+'}{second}j"


def _index(position: int, shape: tuple[int, ...]) -> str:
    if not shape:
        return ""
    return f"[{', '.join(str(place) for place in np.unravel_index(position, shape))}]"


def _flattened(tree: Any, shape: tuple[int, ...], name: str, text: str) -> list[Any]:
    if tree == [] and 0 in shape:
        return []
    level = [tree]
    for axis, size in enumerate(shape):
        for position, part in enumerate(level):
            if not isinstance(part, list) or len(part) != size:
                what = f"a list of {len(part)}" if isinstance(part, list) else shown(part)
                raise FormatError(
                    f"{name}{_index(position, shape[:axis])} is {what}; {text} needs a list of {size} there"
                )
        level = [part for parts in level for part in parts]
    return level


def _typed(flat: list[Any], dtype: Dtype, shape: tuple[int, ...], name: str) -> Array:
    def refuse(position: int, holds: str) -> FormatError:
        return FormatError(f"{name}{_index(position, shape)} is {shown(flat[position])}; {holds}")

    def require(types: set[type], holds: str) -> None:
        if not set(map(type, flat)) <= types:
            raise refuse(next(p for p, value in enumerate(flat) if type(value) not in types), holds)

    kind = _kind(dtype)
    label = name_of(dtype)
    if kind == "string":
        require({str}, f"{label} holds text")
        return _strings(flat, dtype, name, refuse)
    if kind == "bool":
        require({bool}, "bool holds true and false")
        return np.array(flat, dtype=bool)
    if kind in ("int", "uint"):
        return _integers(flat, dtype, refuse)
    if kind == "complex":
        require({int, float, str}, f"{label} holds texts such as '1.0-2.5j'")
        return _complexes(flat, dtype, refuse)
    require({int, float}, f"{label} holds numbers")
    return _floats(flat, dtype, refuse)


def _strings(flat: list[str], dtype: Dtype, name: str, refuse: Refuse) -> Array:
    if dtype.kind == "U":
        width = dtype.itemsize // 4
        for position, text in enumerate(flat):
            if len(text) > width or text.endswith("\0"):  # NumPy cuts off a NUL at the end
                raise refuse(
                    position, f"{name_of(dtype)} holds at most {width} characters, the last not a NUL"
                )
        if dtype.itemsize * len(flat) > _MAX_STRING_BYTES:
            raise FormatError(
                f"{name} pads {len(flat)} texts to {width} characters each; expected 'string' there"
            )
    array = np.empty(len(flat), dtype=dtype)
    array[:] = flat
    return array


def _integers(flat: list[Any], dtype: Dtype, refuse: Refuse) -> Array:
    limits = ml_dtypes.iinfo(dtype)  # type: ignore[no-untyped-call]
    low, high = int(limits.min), int(limits.max)
    holds = f"{name_of(dtype)} holds whole numbers {low}..{high}"
    if high > INT64_MAX:
        flat = [int(v) if isinstance(v, str) and _DIGITS.fullmatch(v) else v for v in flat]
    for position, value in enumerate(flat):
        if type(value) is not int or not low <= value <= high:
            raise refuse(position, holds)
    wide = np.uint64 if high > INT64_MAX else np.int64
    return np.array(flat, dtype=wide).astype(dtype)


def _floats(flat: list[Any], dtype: Dtype, refuse: Refuse) -> Array:
    exact = np.empty(len(flat))
    for position, value in enumerate(flat):
        try:
            exact[position] = value
        except OverflowError:
            raise refuse(position, f"{name_of(dtype)} holds no number so large") from None
    limit = _largest(dtype)
    with np.errstate(over="ignore", invalid="ignore"):
        array = exact.astype(dtype)
        back = array.astype(np.float64)
    # a narrow type may have no infinity, no NaN, no zero or no negative numbers
    wrong = (
        (np.isnan(exact) != np.isnan(back))
        | (np.isinf(exact) != np.isinf(back))
        | ((exact == 0) & (back != 0))
        | (np.isfinite(exact) & (np.abs(exact) > limit))
    )
    if wrong.any():
        raise refuse(int(np.argmax(wrong)), f"{name_of(dtype)} cannot hold that (its largest is {limit!r})")
    return array


@cache
def _largest(dtype: Dtype) -> float:
    largest = np.array([ml_dtypes.finfo(dtype).max], dtype=dtype)  # type: ignore[no-untyped-call]
    # its shortest decimal may lie above it, and is what stands in a file
    return max(float(largest[0]), shortest(largest)[0])


def _complexes(flat: list[Any], dtype: Dtype, refuse: Refuse) -> Array:
    numbers: list[complex] = []
    for position, value in enumerate(flat):
        number = _complex_number(value)
        if number is None:
            raise refuse(position, f"{name_of(dtype)} holds texts such as '1.0-2.5j'")
        numbers.append(number)
    exact = np.array(numbers, dtype=np.complex128)
    part = np.dtype(np.float32 if dtype == np.complex64 else np.float64)
    array = np.empty(len(flat), dtype=dtype)
    array.real = _floats(exact.real.tolist(), part, refuse)
    array.imag = _floats(exact.imag.tolist(), part, refuse)
    return array


def _complex_number(value: str | float) -> complex | None:
    if isinstance(value, str) and not _COMPLEX.fullmatch(value):
        return None
    try:
        return complex(value)
    except (ValueError, OverflowError):
        return None
