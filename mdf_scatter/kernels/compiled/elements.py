"""Elements, each at a place of its own in a flat array."""

from __future__ import annotations

import numpy as np

from mdf_scatter.kernels.codes import NEGATIVE, OUTSIDE
from mdf_scatter.kernels.compiled import combine, from_start, misses, stream


def reduce_elements(out, places, updates, reduction):
    """Reduce `updates` (N,) into elements of `out` (R,), in order."""
    for number in range(len(places)):
        # Unsigned, here and elsewhere, because numba counts signed indices from the end if negative.
        place = np.uintp(places[number])
        out[place] = combine(reduction, out[place], updates[number])


def gather_elements(data, places, out, first, last):
    """Copy `data[places]` into those elements of `out` (N,) that are in first..last-1."""
    near_places, copies = places[first:last], out[first:last]
    for number in range(len(copies)):
        copies[number] = data[np.uintp(near_places[number])]


def copy(out, data, lead, first, last):
    """Copy those elements of `data` (N,) that are in first..last-1 to `out`, past the cache; see `stream`."""
    stream(out, first, data, first, last - first, lead)


def inspect(indices, size, first, last):
    """Return `OUTSIDE` if one of indices (N,) in first..last-1 is, plus `NEGATIVE` if one of them is."""
    low, high = np.int64(0), np.int64(0)
    for index in indices[first:last]:
        low |= misses(index, size)
        high |= index
    return (OUTSIDE if low < 0 else 0) + (NEGATIVE if high < 0 else 0)


def number_rows(indices, sizes, rows, first, last):
    """Number the rows that indices (N, k) in first..last-1 name; tell whether one is out of range."""
    outside = np.int64(0)
    for number in range(first, last):
        row = np.int64(0)
        for axis in range(len(sizes)):
            index, size = np.int64(indices[number, axis]), sizes[axis]
            outside |= misses(index, size)
            row = row * size + from_start(index, size)
        rows[number] = row
    return outside < 0
