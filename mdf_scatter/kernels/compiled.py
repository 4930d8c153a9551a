"""The loops of the rows kernels, compiled by numba: for large inputs of plain numbers.

Importing this module imports numba, which takes longer than any small call; only `rows` does it, when an
input is large enough. Each loop is the plain one. It is told which part of the result is its own, so that
several of them, each with its own part, do together what one would do alone, bit for bit.

What is compiled is kept on disk, in NUMBA_CACHE_DIR if that is set, else beside this file, else, where
that cannot be written, in the user's cache directory.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.core import config
from numba.extending import intrinsic, overload

NONE, ADD, MUL, MAX, MIN = range(5)

CODES = {"none": NONE, "add": ADD, "mul": MUL, "max": MAX, "min": MIN}
"""Reductions, as the loops know them: one loop holds all, and LLVM takes the choice out of it."""

COMPILES = not config.DISABLE_JIT  # type: ignore[attr-defined]
"""Whether numba compiles at all; NUMBA_DISABLE_JIT=1 makes it leave loops as they are."""

AHEAD = 1024
"""Updates of which a loop first finds where they go, before it goes there."""


def kernel(function: Callable[..., Any]) -> Any:
    """Compile a loop: without the GIL, and kept on disk where any place for that can be written."""
    try:
        return numba.njit(nogil=True, cache=True)(function)
    except RuntimeError:
        return numba.njit(nogil=True)(function)


LINE = 8
"""Numbers of 8 bytes in a cache line."""

part = numba.njit(inline="always")
"""Make a loop a part of those that call it, which are compiled in less time than loops that call others."""


def combine(reduction: int, element: Any, update: Any) -> Any:
    """Return what becomes of `element`; compiled as one of the three functions below."""
    raise NotImplementedError


@overload(combine, strict=False)
def _combine(reduction: Any, element: Any, update: Any) -> Callable[..., Any]:
    if isinstance(element, types.Complex):
        return _combine_complex
    return _combine_floats if isinstance(element, types.Float) else _combine_integers


def _combine_integers(reduction, element, update):  # type: ignore[no-untyped-def]
    if reduction == NONE:
        return update
    if reduction == ADD:
        return element + update
    if reduction == MUL:
        return element * update
    if reduction == MAX:
        return element if element > update else update
    return element if element < update else update


def _combine_floats(reduction, element, update):  # type: ignore[no-untyped-def]
    if reduction == NONE:
        return update
    if reduction == ADD:
        return element + update
    if reduction == MUL:
        return element * update
    # Which is larger is chance: numba's max and min choose without a branch. What is left is seldom: of
    # equals it is either, of two zeros and with a NaN their sum, as +0 + -0 is +0, and NaN is NaN.
    if (element < update) | (element > update):
        return max(element, update) if reduction == MAX else min(element, update)
    if (element == update) & (element != 0):
        return element
    return element + update if reduction == MAX else -(-element - update)


def _combine_complex(reduction, element, update):  # type: ignore[no-untyped-def]
    if reduction == NONE:
        return update
    return element + update if reduction == ADD else element * update


@kernel
def find_own(rows, first, last, own):  # type: ignore[no-untyped-def]
    """Write which of `rows`, at most `AHEAD`, are in first..last-1; return how many they are."""
    length = np.uintp(last - first)
    count = np.uintp(0)
    # Whose an update is, is chance, which no processor predicts: so this loop does not branch.
    for number in range(len(rows)):
        own[count] = number
        count += np.uintp(np.uintp(rows[number] - first) < length)
    return count


@kernel
def reduce_rows(out, rows, updates, reduction, first, last):  # type: ignore[no-untyped-def]
    """Reduce `updates` (N, S) into those rows of `out` (R, S) that are in first..last-1, in order."""
    own = np.empty(AHEAD, np.uint32)
    for start in range(0, len(rows), AHEAD):
        near_rows, near_updates = rows[start : start + AHEAD], updates[start : start + AHEAD]
        for number in own[: find_own(near_rows, first, last, own)]:
            # Unsigned, here and below, because numba counts signed indices from the end if negative.
            elements, terms = out[np.uintp(near_rows[number])], near_updates[np.uintp(number)]
            for column in range(len(elements)):
                elements[column] = combine(reduction, elements[column], terms[column])


@kernel
def reduce_elements(out, places, updates, reduction):  # type: ignore[no-untyped-def]
    """Reduce `updates` (N,) into elements of `out` (R,), in order."""
    for number in range(len(places)):
        place = np.uintp(places[number])
        out[place] = combine(reduction, out[place], updates[number])


@kernel
def reduce_own_elements(out, places, updates, reduction, first, last):  # type: ignore[no-untyped-def]
    """Reduce `updates` (N,) into those elements of `out` (R,) that are in first..last-1, in order."""
    own = np.empty(AHEAD, np.uint32)
    for start in range(0, len(places), AHEAD):
        near_places, near_updates = places[start : start + AHEAD], updates[start : start + AHEAD]
        for number in own[: find_own(near_places, first, last, own)]:
            place = np.uintp(near_places[number])
            out[place] = combine(reduction, out[place], near_updates[number])


@intrinsic
def move_line(context, out, data, place):  # type: ignore[no-untyped-def]
    """Copy `LINE` numbers, from a place that is a multiple of it, past the cache; see `copy_lines`."""

    def emit(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        line = ir.VectorType(ir.IntType(64), LINE).as_pointer()
        target, source = (
            builder.bitcast(
                builder.gep(context.make_array(type_)(context, builder, array).data, [arguments[2]]), line
            )
            for type_, array in zip(signature.args[:2], arguments[:2], strict=True)
        )
        store = builder.store(builder.load(source, align=8), target, align=8 * LINE)
        store.set_metadata("nontemporal", builder.module.add_metadata([ir.IntType(32)(1)]))
        return context.get_dummy_value()

    return types.void(out, data, place), emit


@kernel
def copy_lines(out, data, first, last):  # type: ignore[no-untyped-def]
    """Copy those cache lines of `data` (N * LINE,) to `out`, aligned to them, that are in first..last-1.

    A processor reads a line before it writes to a part of it; one that is written whole need not be read.
    Other threads are sure to see it after this one has taken the GIL back, as a lock waits for all writes.
    """
    for line in range(first, last):
        move_line(out, data, np.uintp(line * LINE))  # type: ignore[call-arg]


@kernel
def gather_rows(data, rows, out, first, last):  # type: ignore[no-untyped-def]
    """Copy `data[rows]` into those rows of `out` (N, S) that are in first..last-1."""
    for number in range(first, last):
        elements, copies = data[np.uintp(rows[number])], out[np.uintp(number)]
        for column in range(len(elements)):
            copies[column] = elements[column]


@kernel
def gather_elements(data, places, out, first, last):  # type: ignore[no-untyped-def]
    """Copy `data[places]` into those elements of `out` (N,) that are in first..last-1."""
    near_places, copies = places[first:last], out[first:last]
    for number in range(len(copies)):
        copies[number] = data[np.uintp(near_places[number])]


@kernel
def inspect(indices, size, first, last):  # type: ignore[no-untyped-def]
    """Tell of indices (N,) in first..last-1 whether all are in -size..size-1, and whether one is negative."""
    limit = np.uintp(2 * size)
    outside, negative = np.uintp(0), np.int64(0)
    for index in indices[first:last]:
        outside |= np.uintp(np.uintp(index + size) >= limit)
        negative |= index
    return outside == 0, negative < 0


@kernel
def number_rows(indices, sizes, rows, first, last):  # type: ignore[no-untyped-def]
    """Number the rows that indices (N, k) in first..last-1 name; tell whether all are in range."""
    outside = np.uintp(0)
    for number in range(first, last):
        row = np.int64(0)
        for axis in range(len(sizes)):
            index, size = np.int64(indices[number, axis]), sizes[axis]
            outside |= np.uintp(np.uintp(index + size) >= np.uintp(2 * size))
            row = row * size + index + (size if index < 0 else 0)
        rows[number] = row
    return outside == 0


@kernel
def number_near(indices, size, step, before, after, places):  # type: ignore[no-untyped-def]
    """Write the positions that indices (A,) along an axis name.

    It runs ahead of the loop that goes there: the less that one has to do between two places, the more of
    them does the memory look up at once.
    """
    for inner in range(len(indices)):
        index = np.int64(indices[inner])
        row = index + size if index < 0 else index
        places[inner] = before + row * step + after[inner]


@kernel
def reduce_along(  # type: ignore[no-untyped-def]
    out, indices, updates, reduction, size, step, before, after, outers, inners
):
    """Reduce `updates` (B, L, A) into elements of `out` (R,) by indices along an axis, in order.

    An element of `out` is met only by updates of one outer and one inner place, so that those are what is
    divided: `outers` and `inners` are the first and the last but one of each.
    """
    places = np.empty(AHEAD, np.int64)
    for outer in range(outers[0], outers[1]):
        for along in range(indices.shape[1]):
            for first in range(inners[0], inners[1], AHEAD):
                last = min(first + AHEAD, inners[1])
                near_indices, terms = indices[outer, along, first:last], updates[outer, along, first:last]
                number_near(near_indices, size, step, before[outer], after[first:last], places)
                for inner in range(len(terms)):
                    place = np.uintp(places[inner])
                    out[place] = combine(reduction, out[place], terms[inner])


@kernel
def gather_along(data, indices, out, size, step, before, after, outers, inners):  # type: ignore[no-untyped-def]
    """Copy elements of `data` (R,) into `out` (B, L, A) by indices along an axis; see `reduce_along`."""
    places = np.empty(AHEAD, np.int64)
    for outer in range(outers[0], outers[1]):
        for along in range(indices.shape[1]):
            for first in range(inners[0], inners[1], AHEAD):
                last = min(first + AHEAD, inners[1])
                near_indices, copies = indices[outer, along, first:last], out[outer, along, first:last]
                number_near(near_indices, size, step, before[outer], after[first:last], places)
                for inner in range(len(copies)):
                    copies[inner] = data[np.uintp(places[inner])]


@kernel
def number_along(indices, positions, size, step, before, after, outers, inners):  # type: ignore[no-untyped-def]
    """Write the positions (B, L, A) that indices along an axis name; see `reduce_along`."""
    first, last = inners
    for outer in range(outers[0], outers[1]):
        for along in range(indices.shape[1]):
            near_indices, places = indices[outer, along, first:last], positions[outer, along, first:last]
            number_near(near_indices, size, step, before[outer], after[first:last], places)


@kernel
def number_touched(rows, numbers, touched, places):  # type: ignore[no-untyped-def]
    """Number the rows that are in `rows` (N,) as they first occur, and each update's row by that.

    Args:
        rows: (N,), in 0..R-1.
        numbers: (R,), all 0; the number of each touched row, from 1 on, after.
        touched: (N,); its start is the touched rows after.
        places: (N,); the number of each update's row, from 0 on, after.

    Returns:
        How many rows are touched.
    """
    count = 0
    for update in range(len(rows)):
        row = np.uintp(rows[update])
        if numbers[row] == 0:
            touched[count] = row
            count += 1
            numbers[row] = count
        places[update] = numbers[row] - 1
    return count
