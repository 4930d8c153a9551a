"""Sizes of arrays in expressions: constants where they are known, or else computed Python numbers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from mdf_scatter.checking.sizes import MAX_ELEMENTS, elements
from mdf_scatter.errors import UnsupportedError
from mdf_scatter.lower.arithmetic import Arithmetic, dtype_of, kind_of, rank_of, shape_of
from mdf_scatter.lower.builder import Literal, Operand

_INT64 = np.dtype(np.int64)


def shape_parts(a: Arithmetic, operand: Operand) -> list[Operand]:
    """Return what the attribute `shape` gives."""
    return [size_along(a, operand, axis) for axis in range(rank_of(a, operand))]


def size_along(a: Arithmetic, operand: Operand, axis: int) -> Operand:
    """Return the size of an axis."""
    size = (shape_of(operand) or ())[axis]
    if isinstance(size, int):
        return Literal(size)
    shape = a.op("Shape", a.value(operand))
    return a.weak(a.op("Gather", shape, a.constant(axis, _INT64), axis=0), int)


def count(a: Arithmetic, operand: Operand) -> Operand:
    """Return what the attribute `size` gives."""
    shape = shape_of(operand)
    if shape is not None and all(isinstance(size, int) for size in shape):
        return Literal(int(np.prod(shape)))
    return a.weak(a.op("Size", a.value(operand)), int)


def parts_of(a: Arithmetic, sizes: Operand | list[Operand]) -> list[Operand]:
    """Return the sizes that an argument gives: one number, or several.

    Raises:
        UnsupportedError: They are not integers, or an array whose length is not known.
    """
    if isinstance(sizes, Literal):
        sizes = [Literal(size) for size in np.atleast_1d(np.asarray(sizes.value))]
    elif isinstance(sizes, ir.Value) and rank_of(a, sizes) == 1:
        sizes = [
            a.op("Gather", sizes, a.constant(place, _INT64), axis=0) for place in range(_length(a, sizes))
        ]
    found = sizes if isinstance(sizes, list) else [sizes]
    for size in found:
        if dtype_of(size).kind not in "iu":
            raise UnsupportedError(f"{a.name}: a size has dtype {dtype_of(size)}; expected integers")
    return [Literal(int(size.value)) if isinstance(size, Literal) else size for size in found]


def as_value(a: Arithmetic, parts: Sequence[Operand]) -> ir.Value:
    """Return sizes as one array."""
    if all(isinstance(part, Literal) for part in parts):
        return a.constant([part.value for part in parts if isinstance(part, Literal)], _INT64)
    one = a.constant([1], _INT64)
    return a.op("Concat", *(a.op("Reshape", a.cast(part, _INT64), one) for part in parts), axis=0)


def counted_up(a: Arithmetic, start: Operand, stop: Operand, step: Operand) -> Operand:
    """Return `numpy.arange` of integers."""
    if any(kind_of(bound) is not int and dtype_of(bound).kind not in "iu" for bound in (start, stop, step)):
        raise UnsupportedError(f"{a.name}: numpy.arange of computed floats; expected integers or constants")
    bounds = [start, stop, step]
    if all(isinstance(bound, Literal) for bound in bounds):
        return a.folded(np.arange, bounds)
    return a.op("Range", *(a.cast(bound, _INT64) for bound in bounds))


def refuse_huge(a: Arithmetic, name: str, operands: Sequence[Operand | list[Operand] | None]) -> None:
    """Refuse an array that would fill the memory.

    Raises:
        UnsupportedError: A constant size is too large.
    """
    numbers = [_numbers(operand) for operand in operands]
    if elements(name, numbers) > MAX_ELEMENTS:
        raise UnsupportedError(f"{a.name}: numpy.{name} makes more than {MAX_ELEMENTS} elements")


def _numbers(operand: Operand | list[Operand] | None) -> list[float | None]:
    if isinstance(operand, list):
        return [number for part in operand for number in _numbers(part)]
    if isinstance(operand, Literal) and np.ndim(operand.value) < 2:
        return list(np.atleast_1d(operand.value).tolist())
    return [] if operand is None else [None]


def _length(a: Arithmetic, sizes: ir.Value) -> int:
    (length,) = shape_of(sizes) or (None,)
    if not isinstance(length, int):
        raise UnsupportedError(f"{a.name}: how many sizes there are is not known; give its port a shape")
    return length
