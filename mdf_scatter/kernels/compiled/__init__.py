"""The loops of the kernels, compiled by numba: for large inputs of plain numbers.

Importing this package imports numba, which takes longer than any small call; only `machine` does it, to
compile what it has no machine code of. Each loop is the plain one. It is told which part of the result is
its own, so that several of them, each with its own part, do together what one would do alone, bit for bit.

Loops take C-contiguous, aligned arrays and integers, and return nothing, a truth value or an integer. They
make no arrays and raise nothing: what they need room for is given to them, what could be wrong was checked.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic, overload

from mdf_scatter.kernels.codes import ADD, LINE, MAX, MUL, NONE, PIECE

part = numba.njit(inline="always", error_model="numpy")
"""Make a function a part of the loops that call it: they are compiled in less time than with a call."""


@part
def from_start(index, size):
    """Return an index counted from the start of an axis."""
    return index + size if index < 0 else index


@part
def misses(index, size):
    """Return a number that is negative if an axis has no such index."""
    # Also where a sum is too large, for it wraps around.
    return (index + size) | (size - 1 - index)


@part
def combine(reduction, element, update):
    """Return what becomes of an element that an update meets."""
    if reduction == NONE:
        return update
    if reduction == ADD:
        return element + update
    if reduction == MUL:
        return element * update
    return extreme(reduction, element, update)


def extreme(reduction: int, element: Any, update: Any) -> Any:
    """Return the larger or the smaller of two numbers; compiled as one of the functions below."""
    raise NotImplementedError


@overload(extreme, strict=False)
def _extreme(reduction: Any, element: Any, update: Any) -> Callable[..., Any]:
    if isinstance(element, types.Complex):
        return _first_of
    return _extreme_of_floats if isinstance(element, types.Float) else _extreme_of_integers


def _extreme_of_integers(reduction, element, update):
    if reduction == MAX:
        return element if element > update else update
    return element if element < update else update


def _extreme_of_floats(reduction, element, update):
    # Which is larger is chance: numba's max and min choose without a branch. What is left is seldom: of
    # equals it is either, of two zeros and with a NaN their sum, as +0 + -0 is +0, and NaN is NaN.
    if (element < update) | (element > update):
        return max(element, update) if reduction == MAX else min(element, update)
    if (element == update) & (element != 0):
        return element
    return element + update if reduction == MAX else -(-element - update)


def _first_of(reduction, element, update):
    return element  # complex numbers have no order, and nobody asks for it


@intrinsic
def move_piece(context, out, place, data, start):
    """Copy `PIECE` bytes of elements, to a place that is aligned to them, past the cache; see `stream`."""

    def emit(context, builder, signature, arguments):
        piece = ir.VectorType(ir.IntType(64), PIECE // 8).as_pointer()
        target = builder.bitcast(_element(context, builder, signature, arguments, 0), piece)
        source = builder.bitcast(_element(context, builder, signature, arguments, 2), piece)
        store = builder.store(builder.load(source, align=1), target, align=PIECE)
        store.set_metadata("nontemporal", builder.module.add_metadata([ir.IntType(32)(1)]))
        return context.get_dummy_value()

    return types.void(out, place, data, start), emit


@intrinsic
def prefetch(context, data, place):
    """Ask the memory for the cache line of an element, which need not be there yet when this returns."""

    def emit(context, builder, signature, arguments):
        byte, number = ir.IntType(8).as_pointer(), ir.IntType(32)
        pointer = builder.bitcast(_element(context, builder, signature, arguments, 0), byte)
        type_ = ir.FunctionType(ir.VoidType(), [byte, number, number, number])
        function = builder.module.declare_intrinsic("llvm.prefetch", [byte], type_)
        builder.call(function, [pointer, number(0), number(3), number(1)])  # to read; keep it; it is data
        return context.get_dummy_value()

    return types.void(data, place), emit


def _element(context: Any, builder: Any, signature: Any, arguments: Any, number: int) -> Any:
    """Return a pointer to an element of an array that is an argument; the next argument is its place."""
    array = context.make_array(signature.args[number])(context, builder, arguments[number])
    return builder.gep(array.data, [arguments[number + 1]])


@part
def stream(out, place, data, start, count, lead, wanted=None, far=0):
    """Copy elements of a flat array to a place in another, past the cache.

    A processor reads a line before it writes to it, but not where it is told that nobody needs it soon.
    Other threads are sure to see it after this one has taken the GIL back, as a lock waits for all writes.

    Args:
        out: Where they go.
        place: The first place there.
        data: Where they come from, of the same dtype.
        start: The first place there.
        count: How many they are.
        lead: Elements of `out` before the first that is aligned to a piece.
        wanted: An array whose elements are needed next: the memory reads them while it writes these.
        far: The first place there; as many are asked for as are copied.
    """
    piece = PIECE // out.itemsize
    head = min((lead - place) % piece, count)
    tail = head + (count - head) // piece * piece
    for number in range(head):
        out[np.uintp(place + number)] = data[np.uintp(start + number)]
    for number in range(head, tail, piece):
        if wanted is not None:
            prefetch(wanted, np.uintp(far + number))
        move_piece(out, np.uintp(place + number), data, np.uintp(start + number))
    for number in range(tail, count):
        out[np.uintp(place + number)] = data[np.uintp(start + number)]


@part
def prefetch_elements(data, start, count):
    """Ask the memory for elements of a flat array, a cache line after the other."""
    for number in range(0, count, LINE // data.itemsize):
        prefetch(data, np.uintp(start + number))
