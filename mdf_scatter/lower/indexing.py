"""Subscripts in expressions: numbers, slices, masks and lists of places, constant or computed."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce as fold
from typing import Any

import numpy as np
import onnx_ir as ir

from mdf_scatter.errors import UnsupportedError
from mdf_scatter.lower.arithmetic import Arithmetic, dtype_of, kind_of, rank_of, shape_of
from mdf_scatter.lower.builder import Literal, Operand

_INT64 = np.dtype(np.int64)

Lower = Callable[[ast.expr], Operand]


@dataclass(frozen=True)
class _Slice:
    """A slice whose bounds have been lowered; None where one is left out."""

    start: Operand | None
    stop: Operand | None
    step: Operand | None

    @property
    def parts(self) -> tuple[Operand | None, ...]:
        return (self.start, self.stop, self.step)


_WHOLE = _Slice(None, None, None)


def item_of_list(
    a: Arithmetic, parts: Sequence[Operand], index: ast.expr, lower: Lower
) -> Operand | list[Operand]:
    """Return an item or a slice of a list of values."""
    (place,) = _read(index, lower)
    if not _is_constant(place):
        raise UnsupportedError(f"{a.name}: a list of values has a computed subscript")
    try:
        found: Operand | list[Operand] = parts[_python(place)]
        return found
    except (IndexError, TypeError) as error:
        raise UnsupportedError(f"{a.name}: a list of {len(parts)} values: {error}") from error


def item(a: Arithmetic, base: Operand, index: ast.expr, lower: Lower) -> Operand:
    """Return `base[index]`.

    Args:
        a: Writes the operators.
        base: What is subscripted.
        index: The subscript, as it is written.
        lower: Gives the value of a part of the subscript.

    Raises:
        UnsupportedError: Such a subscript has no form in ONNX.
    """
    places = _read(index, lower)
    if isinstance(base, Literal) and all(map(_is_constant, places)):
        wanted = tuple(map(_python, places))
        literal = Literal(np.asarray(base.value) if base.listed else base.value)
        return a.folded(lambda array: array[wanted if isinstance(index, ast.Tuple) else wanted[0]], [literal])
    value = a.value(base)
    if len(places) == 1 and isinstance(places[0], (ir.Value, Literal)) and not _is_open(places[0]):
        return _one(a, value, places[0])
    value, places = _opened(a, value, places)
    single = [_place(a, place) for place in places if not isinstance(place, _Slice)]
    if len(single) > 1 and any(rank_of(a, place) for place in single):
        if any(place != _WHOLE for place in places[len(single) :]):
            raise UnsupportedError(
                f"{a.name}: several subscripts, one of them an array, beside a slice have no form in ONNX;"
                " slice first, in brackets of its own"
            )
        return _each(a, value, single)
    # From the last axis to the first, so that an axis that goes does not move those still to come.
    for axis, place in reversed(list(enumerate(places))):
        if isinstance(place, _Slice):
            value = _sliced(a, value, axis, place)
        else:
            value = a.op("Gather", value, single.pop(), axis=axis)
    return value


def _each(a: Arithmetic, value: ir.Value, places: Sequence[ir.Value]) -> ir.Value:
    """Return the elements, or parts, at places of which every subscript tells one coordinate."""
    total = fold(lambda left, right: a.op("Add", left, right), places)
    # What is added makes each of them as large as all are together.
    nothing = a.op("Sub", total, total)
    coordinates = [a.with_axes("Unsqueeze", a.op("Add", place, nothing), [-1]) for place in places]
    return a.op("GatherND", value, a.op("Concat", *coordinates, axis=-1))


def _opened(
    a: Arithmetic, value: ir.Value, places: Sequence[Operand | _Slice]
) -> tuple[ir.Value, list[Operand | _Slice]]:
    """Return a value with the axes that `None` adds, and the subscripts without `None` and `...`."""
    rank = rank_of(a, value)
    taken = sum(not _is_open(place) for place in places)
    if taken > rank:
        raise UnsupportedError(f"{a.name}: {taken} subscripts for a value of rank {rank}")
    found: list[Operand | _Slice] = []
    added: list[int] = []
    for place in places:
        if not isinstance(place, Literal) or not _is_open(place):
            found.append(place)
        elif place.value is None:
            added.append(len(found))
            found.append(_WHOLE)
        else:
            found += [_WHOLE] * (rank - taken)
    return (a.with_axes("Unsqueeze", value, added) if added else value), found


def _is_open(place: Operand | _Slice) -> bool:
    return isinstance(place, Literal) and (place.value is None or place.value is ...)


def _one(a: Arithmetic, value: ir.Value, place: Operand) -> ir.Value:
    if rank_of(a, value) == 0:
        raise UnsupportedError(f"{a.name}: a single number has no items")
    if kind_of(place) != np.dtype(np.bool_):
        return a.op("Gather", value, _place(a, place), axis=0)
    mask = a.value(place)
    shape, mask_shape = shape_of(value), shape_of(mask)
    if mask_shape is not None and len(mask_shape) == 1:
        return a.op("Compress", value, mask, axis=0)
    if not mask_shape or mask_shape != shape:
        raise UnsupportedError(f"{a.name}: a mask has to have rank 1, or the shape of what it masks")
    return a.op("Compress", value, a.op("Reshape", mask, a.constant([-1], _INT64)))


def _sliced(a: Arithmetic, value: ir.Value, axis: int, place: _Slice) -> ir.Value:
    if place.parts == (None, None, None):
        return value
    step = place.step.value if isinstance(place.step, Literal) else 1 if place.step is None else None
    if type(step) is not int or step == 0:
        raise UnsupportedError(f"{a.name}: the step of a slice has to be a constant number, not 0")
    limits = np.iinfo(np.int64)
    first, last = (0, limits.max) if step > 0 else (limits.max, limits.min)
    start = _bound(a, Literal(first) if place.start is None else place.start)
    stop = _bound(a, Literal(last) if place.stop is None else place.stop)
    return a.op("Slice", value, start, stop, a.constant([axis], _INT64), a.constant([step], _INT64))


def _bound(a: Arithmetic, operand: Operand) -> ir.Value:
    return a.op("Reshape", _place(a, operand), a.constant([1], _INT64))


def _place(a: Arithmetic, operand: Operand) -> ir.Value:
    # MDF's engine makes an integer of a whole Python number, so a computed one may be a float here.
    is_computed = kind_of(operand) is float and not isinstance(operand, Literal)
    if dtype_of(operand).kind not in "iu" and not is_computed:
        raise UnsupportedError(f"{a.name}: a subscript has dtype {dtype_of(operand)}; expected integers")
    return a.cast(operand, _INT64)


def _read(index: ast.expr, lower: Lower) -> list[Operand | _Slice]:
    parts = index.elts if isinstance(index, ast.Tuple) else [index]
    return [
        _Slice(*(None if bound is None else lower(bound) for bound in (part.lower, part.upper, part.step)))
        if isinstance(part, ast.Slice)
        else lower(part)
        for part in parts
    ]


def _is_constant(place: Operand | _Slice) -> bool:
    parts = place.parts if isinstance(place, _Slice) else (place,)
    return all(part is None or isinstance(part, Literal) for part in parts)


def _python(place: Operand | _Slice | None) -> Any:
    if isinstance(place, _Slice):
        return slice(*map(_python, place.parts))
    return place.value if isinstance(place, Literal) else None
