"""NumPy's functions in expressions that make arrays: of a shape, of several parts, of a dtype."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from mdf_scatter.errors import UnsupportedError
from mdf_scatter.lower.arithmetic import Arithmetic, dtype_of, is_weak, numpy_dtype, rank_of, sample, shape_of
from mdf_scatter.lower.builder import Literal, Operand
from mdf_scatter.lower.shaping import raveled
from mdf_scatter.lower.sizes import as_value, counted_up, parts_of

_INT64 = np.dtype(np.int64)

Several = Operand | Sequence[Operand]


def filled(
    a: Arithmetic,
    shape: Operand | list[Operand],
    value: Operand,
    dtype: np.dtype[Any] | None = None,
) -> ir.Value:
    """Return `numpy.full`; of the value's own dtype where none is given."""
    number = a.cast(strong(a, value), dtype_of(value) if dtype is None else dtype)
    return a.op("Expand", number, as_value(a, parts_of(a, shape)))


def like(a: Arithmetic, operand: Operand, value: Operand, dtype: np.dtype[Any] | None = None) -> ir.Value:
    """Return `numpy.full_like`."""
    own = a.value(operand)
    number = a.cast(value, numpy_dtype(own) if dtype is None else dtype)
    return a.op("Expand", number, a.op("Shape", own))


def ranged(
    a: Arithmetic,
    start: Operand,
    stop: Operand | None = None,
    step: Operand | None = None,
    *,
    dtype: np.dtype[Any] | None = None,
) -> Operand:
    """Return `numpy.arange` where a bound is computed."""
    first = Literal(0) if stop is None else start
    found = counted_up(a, first, start if stop is None else stop, Literal(1) if step is None else step)
    return found if dtype is None else a.cast(found, dtype)


def as_array(a: Arithmetic, operand: Operand, dtype: np.dtype[Any] | None = None) -> Operand:
    """Return `numpy.array`."""
    return strong(a, operand) if dtype is None else converted_to(a, operand, dtype)


def converted_to(a: Arithmetic, operand: Operand, dtype: np.dtype[Any]) -> ir.Value:
    """Return what `astype` gives."""
    return a.cast(a.value(operand), dtype)


def concatenated(a: Arithmetic, parts: Several, axis: int | None = 0) -> ir.Value:
    """Return `numpy.concatenate`."""
    values = _alike(a, "concatenate", parts)
    if axis is None:
        values, axis = [raveled(a, value) for value in values], 0
    rank = rank_of(a, values[0])
    if any(rank_of(a, value) != rank for value in values) or not -rank <= axis < rank:
        ranks = ", ".join(str(rank_of(a, value)) for value in values)
        raise UnsupportedError(f"{a.name}: arrays of rank {ranks} cannot be joined along axis {axis}")
    return a.op("Concat", *values, axis=axis)


def stacked_along(a: Arithmetic, parts: Several, axis: int = 0) -> ir.Value:
    """Return `numpy.stack`."""
    values = _alike(a, "stack", parts)
    return a.op("Concat", *(a.with_axes("Unsqueeze", value, [axis]) for value in values), axis=axis)


def side_by_side(a: Arithmetic, parts: Several) -> ir.Value:
    """Return `numpy.hstack`: along the second axis, or the only one."""
    values = [_of_rank(a, value, 1) for value in _alike(a, "hstack", parts)]
    return concatenated(a, values, min(rank_of(a, values[0]) - 1, 1))


def one_below_another(a: Arithmetic, parts: Several) -> ir.Value:
    """Return `numpy.vstack`: rows along the first axis."""
    return concatenated(a, [_of_rank(a, value, 2) for value in _alike(a, "vstack", parts)])


def appended(a: Arithmetic, array: Operand, values: Operand, axis: int | None = None) -> ir.Value:
    """Return `numpy.append`."""
    return concatenated(a, [strong(a, array), strong(a, values)], axis)


def stacked(a: Arithmetic, parts: Sequence[Operand]) -> Operand:
    """Return the array that NumPy makes of a list of values of one shape."""
    if all(isinstance(part, Literal) for part in parts):
        literal = a.folded(lambda *values: np.array(values), parts)
        return Literal(literal.value, listed=True)
    try:
        dtype = np.array([np.reshape(sample(part), ()) for part in parts]).dtype
    except (TypeError, ValueError) as error:
        raise UnsupportedError(f"{a.name}: {error}") from error
    shapes = [shape_of(part) for part in parts]
    if None in shapes or any(shape != shapes[0] for shape in shapes):
        raise UnsupportedError(f"{a.name}: a list of values of different or unknown shapes")
    return a.op("Concat", *(a.with_axes("Unsqueeze", a.cast(part, dtype), [0]) for part in parts), axis=0)


def strong(a: Arithmetic, operand: Operand) -> Operand:
    """Return an operand as NumPy's functions give it: no longer a Python number."""
    if not is_weak(operand):
        return operand
    if isinstance(operand, Literal):
        return Literal(np.asarray(operand.value)[()])
    return a.op("Identity", operand)


def _alike(a: Arithmetic, name: str, parts: Several) -> list[ir.Value]:
    if isinstance(parts, (ir.Value, Literal)):
        raise UnsupportedError(f"{a.name}: numpy.{name} of one array; expected a list of arrays")
    # Beside arrays a Python number is one of its own dtype here.
    dtype = np.result_type(*(dtype_of(part) for part in parts))
    return [a.cast(a.value(part), dtype) for part in parts]


def _of_rank(a: Arithmetic, value: ir.Value, least: int) -> ir.Value:
    further = least - rank_of(a, value)
    return a.with_axes("Unsqueeze", value, list(range(further))) if further > 0 else value


def _constant(name: str) -> Callable[..., Operand]:
    def form(a: Arithmetic, *operands: Any, **options: Any) -> Operand:
        raise UnsupportedError(f"{a.name}: numpy.{name} of computed values; expected constant numbers")

    return form


def _of(number: float, form: Callable[..., Operand]) -> Callable[..., Operand]:
    def of_number(a: Arithmetic, like_what: Any, dtype: np.dtype[Any] | None = None) -> Operand:
        return form(a, like_what, Literal(number), dtype)

    return of_number


MAKING: dict[str, Callable[..., Operand]] = {
    "append": appended,
    "arange": ranged,
    "array": as_array,
    "astype": converted_to,
    "concatenate": concatenated,
    "eye": _constant("eye"),
    "full": filled,
    "full_like": like,
    "hstack": side_by_side,
    "identity": _constant("identity"),
    "linspace": _constant("linspace"),
    "ones": _of(1.0, filled),
    "ones_like": _of(1, like),
    "stack": stacked_along,
    "vstack": one_below_another,
    "zeros": _of(0.0, filled),
    "zeros_like": _of(0, like),
}
"""Functions that make arrays, by what they are: see `vocabulary.FUNCTIONS`."""
