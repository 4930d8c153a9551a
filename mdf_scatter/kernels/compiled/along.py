"""Elements by one index each, along an axis: of what is indexed, seen as a flat array, R elements.

Indices are seen as (B, L, A), and an element is at `before[b] + index * step + after[a]`. An element is met
only by indices of one outer and one inner place, so that those are what is divided among threads: first and
last below are outer ones if `by_outer`, else inner ones.
"""

from __future__ import annotations

import numpy as np

from mdf_scatter.kernels.codes import AHEAD, OUTSIDE
from mdf_scatter.kernels.compiled import combine, from_start, misses, part, prefetch_elements
from mdf_scatter.kernels.compiled.rows import BEGINNING, NEAR


@part
def number_near(indices, size, step, before, after, places):
    """Write the positions that indices (A,) along an axis name.

    It runs ahead of the loop that goes there: the less that one has to do between two places, the more of
    them does the memory look up at once.
    """
    for inner in range(len(indices)):
        index = np.int64(indices[inner])
        places[inner] = before + from_start(index, size) * step + after[inner]


@part
def bounds_of(indices, by_outer, first, last):
    """Return the first and the last but one of outer, and of inner places of indices (B, L, A)."""
    if by_outer:
        return first, last, 0, indices.shape[2]
    return 0, indices.shape[0], first, last


def reduce_along(out, indices, updates, places, reduction, size, step, before, after, by_outer, first, last):
    """Reduce `updates` (B, L, A) into elements of `out` (R,), in order; `places`, (AHEAD,), is room."""
    outer, past, inner, end = bounds_of(indices, by_outer, first, last)
    for block in range(outer, past):
        for along in range(indices.shape[1]):
            for start in range(inner, end, AHEAD):
                stop = min(start + AHEAD, end)
                near_indices, terms = indices[block, along, start:stop], updates[block, along, start:stop]
                number_near(near_indices, size, step, before[block], after[start:stop], places)
                for number in range(len(terms)):
                    place = np.uintp(places[number])
                    out[place] = combine(reduction, out[place], terms[number])


def gather_along(data, indices, out, places, size, step, before, after, by_outer, first, last):
    """Copy elements of `data` (R,) into `out` (B, L, A); `places`, (AHEAD,), is room for it."""
    outer, past, inner, end = bounds_of(indices, by_outer, first, last)
    for block in range(outer, past):
        for along in range(indices.shape[1]):
            for start in range(inner, end, AHEAD):
                stop = min(start + AHEAD, end)
                near_indices, copies = indices[block, along, start:stop], out[block, along, start:stop]
                number_near(near_indices, size, step, before[block], after[start:stop], places)
                for number in range(len(copies)):
                    copies[number] = data[np.uintp(places[number])]


def gather_within(data, indices, out, size, before, length, first, last):
    """Copy elements of `data` (R,) into those of `out` (B * length,) that are in first..last-1.

    Of each `length`, all are from a stretch of their own, of `size` elements, in which `indices` are places;
    returns `OUTSIDE` if one of them is not. A stretch begins at `before[b]`, (B,), or, if that is (0,), where
    the one before it ends.
    """
    if size == 0:
        return OUTSIDE
    asked, outside, number = min(size, BEGINNING // out.itemsize), np.int64(0), first
    while number < last:
        block, following = number // length, min(number // length + NEAR, (last - 1) // length)
        begin = before[np.uintp(block)] if len(before) > 0 else block * size
        prefetch_elements(data, before[np.uintp(following)] if len(before) > 0 else following * size, asked)
        end = min((block + 1) * length, last)
        for place in range(number, end):
            index = np.int64(indices[np.uintp(place)])
            wrong = misses(index, size)
            outside |= wrong
            inside = 0 if wrong < 0 else from_start(index, size)
            out[np.uintp(place)] = data[np.uintp(begin + inside)]
        number = end
    return OUTSIDE if outside < 0 else 0


def number_along(indices, positions, size, step, before, after, by_outer, first, last):
    """Write the positions (B, L, A) that indices name."""
    outer, past, inner, end = bounds_of(indices, by_outer, first, last)
    for block in range(outer, past):
        for along in range(indices.shape[1]):
            near_indices, places = indices[block, along, inner:end], positions[block, along, inner:end]
            number_near(near_indices, size, step, before[block], after[inner:end], places)
