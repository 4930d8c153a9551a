"""NumPy's functions in expressions that move elements about: shapes, axes, order and copies."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence

import numpy as np
import onnx_ir as ir

from mdf_scatter.errors import UnsupportedError
from mdf_scatter.lower.arithmetic import Arithmetic, numpy_dtype, rank_of, scale
from mdf_scatter.lower.builder import Literal, Operand
from mdf_scatter.lower.forms import floor_divide, not_equal, remainder
from mdf_scatter.lower.reductions import Axis, axes_of
from mdf_scatter.lower.sizes import as_value, counted_up, parts_of, size_along

_INT64 = np.dtype(np.int64)
_END = np.iinfo(np.int64).max


def raveled(a: Arithmetic, operand: Operand) -> ir.Value:
    """Return `numpy.ravel`."""
    return a.op("Reshape", a.value(operand), a.constant([-1], _INT64))


def reshaped(a: Arithmetic, operand: Operand, shape: Operand | list[Operand]) -> ir.Value:
    """Return `numpy.reshape`."""
    parts = parts_of(a, shape)
    # Without this a size of 0 is that of the axis before.
    attributes = {"allowzero": 1} if any(isinstance(p, Literal) and p.value == 0 for p in parts) else {}
    return a.op("Reshape", a.value(operand), as_value(a, parts), **attributes)


def transposed(a: Arithmetic, operand: Operand, axes: Axis = None) -> ir.Value:
    """Return `numpy.transpose`."""
    value = a.value(operand)
    rank = rank_of(a, value)
    perm = [place % rank for place in axes_of(a, value, axes) or range(rank - 1, -1, -1)]
    if sorted(perm) != list(range(rank)):
        raise UnsupportedError(f"{a.name}: numpy.transpose by axes {axes}; expected each of {rank} axes once")
    return value if rank < 2 else a.op("Transpose", value, perm=perm)


def swapped(a: Arithmetic, operand: Operand, axis1: int, axis2: int) -> ir.Value:
    """Return `numpy.swapaxes`."""
    axes_of(a, operand, (axis1, axis2))
    perm = list(range(rank_of(a, operand)))
    perm[axis1], perm[axis2] = perm[axis2], perm[axis1]
    return a.op("Transpose", a.value(operand), perm=perm)


def squeezed(a: Arithmetic, operand: Operand, axis: Axis = None) -> ir.Value:
    """Return `numpy.squeeze`."""
    return a.with_axes("Squeeze", a.value(operand), axes_of(a, operand, axis))


def expanded(a: Arithmetic, operand: Operand, axis: int | Sequence[int]) -> ir.Value:
    """Return `numpy.expand_dims`."""
    return a.with_axes("Unsqueeze", a.value(operand), [axis] if isinstance(axis, int) else list(axis))


def flipped(a: Arithmetic, operand: Operand, axis: Axis = None) -> ir.Value:
    """Return `numpy.flip`."""
    axes = axes_of(a, operand, axis)
    axes = list(range(rank_of(a, operand))) if axes is None else axes
    limits = np.iinfo(np.int64)
    ranges = (np.full(len(axes), number, _INT64) for number in (limits.max, limits.min))
    start, stop = (a.constant(bound) for bound in ranges)
    steps = a.constant(np.full(len(axes), -1, _INT64))
    return a.op("Slice", a.value(operand), start, stop, a.constant(axes, _INT64), steps)


def rolled(a: Arithmetic, operand: Operand, shift: Operand, axis: int | None = None) -> ir.Value:
    """Return `numpy.roll`, by one number along one axis."""
    if axis is not None and not isinstance(axis, int):
        raise UnsupportedError(f"{a.name}: numpy.roll along axes {axis}; expected one axis at a time")
    axes_of(a, operand, axis)
    value = raveled(a, operand) if axis is None else a.value(operand)
    size = size_along(a, value, axis or 0)
    places = a.python(
        operator.sub, np.subtract, "Sub", counted_up(a, Literal(0), size, Literal(1)), _number(a, shift)
    )
    places = a.python(operator.mod, np.remainder, remainder, places, size)
    found = a.op("Gather", value, a.cast(places, _INT64), axis=axis or 0)
    return a.op("Reshape", found, a.op("Shape", a.value(operand))) if axis is None else found


def repeated(a: Arithmetic, operand: Operand, repeats: Operand, axis: int | None = None) -> ir.Value:
    """Return `numpy.repeat`, of all elements alike."""
    axes_of(a, operand, axis)
    value = raveled(a, operand) if axis is None else a.value(operand)
    times = _number(a, repeats)
    if isinstance(times, Literal) and times.value < 0:
        raise UnsupportedError(f"{a.name}: numpy.repeat {times.value} times; expected 0 or more")
    most = scale(a, size_along(a, value, axis or 0), times)
    every = counted_up(a, Literal(0), most, Literal(1))
    places = a.python(operator.floordiv, np.floor_divide, floor_divide, every, times)
    return a.op("Gather", value, a.cast(places, _INT64), axis=axis or 0)


def tiled(a: Arithmetic, operand: Operand, reps: Operand | list[Operand]) -> ir.Value:
    """Return `numpy.tile`."""
    parts = parts_of(a, reps)
    value = a.value(operand)
    further = len(parts) - rank_of(a, value)
    if further > 0:
        value = a.with_axes("Unsqueeze", value, list(range(further)))
    return a.op("Tile", value, as_value(a, [Literal(1)] * -min(further, 0) + parts))


def differences(a: Arithmetic, operand: Operand, n: int = 1, axis: int = -1) -> ir.Value:
    """Return `numpy.diff`; of bools, where they change."""
    if n < 0:
        raise UnsupportedError(f"{a.name}: numpy.diff of order {n}; expected 0 or more")
    axes_of(a, operand, axis)
    value = a.value(operand)
    for _ in range(n):
        later, earlier = (_between(a, value, axis, *bounds) for bounds in ((1, _END), (0, -1)))
        is_bool = numpy_dtype(value) == np.bool_
        value = not_equal(a, [later, earlier]) if is_bool else a.op("Sub", later, earlier)
    return value


def _between(a: Arithmetic, value: ir.Value, axis: int, start: int, stop: int) -> ir.Value:
    return a.op("Slice", value, *(a.constant([number], _INT64) for number in (start, stop, axis)))


def _number(a: Arithmetic, operand: Operand) -> Operand:
    """Return a single whole number, which tells no dtype."""
    parts = parts_of(a, operand)
    if len(parts) != 1:
        raise UnsupportedError(f"{a.name}: {len(parts)} numbers to move or repeat by; expected one")
    return parts[0] if isinstance(parts[0], Literal) else a.weak(a.cast(parts[0], _INT64), int)


SHAPING: dict[str, Callable[..., Operand]] = {
    "copy": lambda a, operand: a.value(operand),
    "diff": differences,
    "expand_dims": expanded,
    "flip": flipped,
    "ravel": raveled,
    "repeat": repeated,
    "reshape": reshaped,
    "roll": rolled,
    "squeeze": squeezed,
    "swapaxes": swapped,
    "tile": tiled,
    "transpose": transposed,
}
"""Functions of one array, by what they are: see `vocabulary.FUNCTIONS`."""
