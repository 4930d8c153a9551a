"""Rows of a table, each flat in it and of some elements."""

from __future__ import annotations

import numpy as np

from mdf_scatter.kernels.codes import AHEAD
from mdf_scatter.kernels.compiled import combine, part, prefetch_elements, stream
from mdf_scatter.kernels.compiled.halves import narrowed, widened

NEAR = 2
"""Rows that are asked for before they are needed: their places are known, but not to the processor."""

FAR = 1024
"""Bytes of rows that are asked for before they are needed, if that is more of them."""

BEGINNING = 32 * 64
"""Bytes of a row that are asked for; the processor itself asks for what follows."""


@part
def near_of(table, width):
    """Return how many rows are asked for before they are needed."""
    return max(NEAR, FAR // (width * table.itemsize))


@part
def find_own(rows, updates, first, last, own):
    """Write which of some updates, at most `AHEAD`, go to rows first..last-1; return how many they are.

    `updates` is an array of their numbers, or a range.
    """
    length = np.uintp(last - first)
    count = np.uintp(0)
    # Whose an update is, is chance, which no processor predicts: so this loop does not branch.
    for update in updates:
        own[count] = update
        count += np.uintp(np.uintp(rows[np.uintp(update)] - first) < length)
    return count


def list_firsts(rows, marks, firsts, others):
    """List the updates that are the first to their row, and the others; return how many are first.

    Args:
        rows: (N,), in 0..R-1.
        marks: (R,), uint8; room for which rows were met.
        firsts: (N,), uint32; those that are first, in order, after.
        others: (N,), uint32; those that are not, in order, after.
    """
    marks[:] = 0
    count = np.uintp(0)
    for number in range(len(rows)):  # without a branch, as in `find_own`
        row = np.uintp(rows[number])
        firsts[count] = number
        others[np.uintp(number) - count] = number
        count += np.uintp(1 - marks[row])
        marks[row] = 1
    return np.int64(count)


def put_rows(out, rows, updates, firsts, width, step, lead, first, last):
    """Put `updates` (N * S,), those of `firsts[first:last]`, into rows of `out` (R * S,); see `stream`.

    From an update to the next are `step` elements: 0, where there is only one, (S,), for all.
    """
    for number in firsts[first:last]:
        place = np.int64(rows[np.uintp(number)]) * width
        stream(out, place, updates, np.int64(number) * step, width, lead)


def reduce_rows(out, rows, updates, firsts, width, step, reduction, first, last):
    """Reduce `updates`, those of `firsts[first:last]`, into rows of `out`, in order; as for `put_rows`."""
    asked, near = min(width, BEGINNING // out.itemsize), near_of(out, width)
    near_firsts = firsts[first:last]
    for number in range(len(near_firsts)):
        far = near_firsts[np.uintp(min(number + near, len(near_firsts) - 1))]
        prefetch_elements(out, np.int64(rows[np.uintp(far)]) * width, asked)
        update = near_firsts[np.uintp(number)]
        place = np.int64(rows[np.uintp(update)]) * width
        reduce_row(out, place, updates, np.int64(update) * step, width, reduction)


def reduce_own_rows(out, rows, updates, others, own, width, step, reduction, first, last):
    """Reduce `updates`, those of `others`, into rows first..last-1 of `out`, in order; as for `put_rows`.

    `own`, (AHEAD,), is room for it.
    """
    asked, near = min(width, BEGINNING // out.itemsize), near_of(out, width)
    for start in range(0, len(others), AHEAD):
        near_others = others[start : start + AHEAD]
        count = np.int64(find_own(rows, near_others, first, last, own))
        for number in range(count):
            far = own[np.uintp(min(number + near, count - 1))]
            prefetch_elements(out, np.int64(rows[np.uintp(far)]) * width, asked)
            update = own[np.uintp(number)]
            place = np.int64(rows[np.uintp(update)]) * width
            reduce_row(out, place, updates, np.int64(update) * step, width, reduction)


def reduce_found_rows(out, rows, table, sources, own, width, reduction, first, last):
    """Reduce rows of `table` (T * S,), found at `sources` (N,), into rows first..last-1 of `out`, in order.

    Else as `reduce_own_rows`.
    """
    asked, near = min(width, BEGINNING // out.itemsize), near_of(out, width)
    for start in range(0, len(rows), AHEAD):
        count = np.int64(find_own(rows, range(start, min(start + AHEAD, len(rows))), first, last, own))
        for number in range(count):
            far = np.uintp(own[np.uintp(min(number + near, count - 1))])
            prefetch_elements(table, np.int64(sources[far]) * width, asked)
            prefetch_elements(out, np.int64(rows[far]) * width, asked)
            update = np.uintp(own[np.uintp(number)])
            place, term = np.int64(rows[update]) * width, np.int64(sources[update]) * width
            reduce_row(out, place, table, term, width, reduction)


@part
def reduce_row(out, place, updates, term, width, reduction):
    """Reduce a row of `updates`, from an element on, into one of `out`."""
    for column in range(width):
        to = np.uintp(place + column)
        out[to] = combine(reduction, out[to], updates[np.uintp(term + column)])


def group_updates(rows, starts, order):
    """Order updates by their rows; those of a row stay in order.

    Args:
        rows: (N,), in 0..R-1.
        starts: (R + 2,); the place in `order` of the first update of each row, and of their end, after.
        order: (N,); numbers of updates after.
    """
    starts[:] = 0
    for row in rows:
        starts[np.uintp(row + 2)] += np.uint32(1)
    total = np.uint32(0)
    for row in range(len(starts)):
        total += starts[row]
        starts[row] = total
    for number in range(len(rows)):
        place = np.uintp(rows[number] + 1)
        order[np.uintp(starts[place])] = number
        starts[place] += np.uint32(1)


def reduce_half_rows(
    out,
    data,
    updates,
    starts,
    order,
    room,
    narrow,
    zeros,
    width,
    in_place,
    is_bfloat,
    reduction,
    lead,
    first,
    last,
):
    """Write those rows of `out` that are in first..last-1: each what its updates make of that of `data`.

    They are float16 or bfloat16, computed in float32 and rounded once. Every row is read once, and written
    once, past the cache.

    Args:
        out: (R * S,), uint16, the bits of halves.
        data: (R * S,); `out` itself, or (0,), where all of it is 0.
        updates: (N * S,).
        starts: As `group_updates` writes it, as `order`.
        order: (N,).
        room: (S,), float32.
        narrow: (S,), uint16.
        zeros: (S,), all 0.
        width: S.
        in_place: Whether `data` is `out`.
        is_bfloat: Whether they are bfloat16.
        reduction: One of `CODES`, not `NONE`.
        lead: See `stream`.
        first: The first row.
        last: The last row but one.
    """
    rows, row_step = (data, width) if len(data) > 0 else (zeros, 0)
    for row in range(first, last):
        place, begin, end = row * width, np.int64(starts[row]), np.int64(starts[row + 1])
        if begin == end:
            if not in_place:
                stream(out, place, rows, row * row_step, width, lead)
            continue
        for column in range(width):
            room[column] = widened(rows[np.uintp(row * row_step + column)], is_bfloat)
        for number in range(begin, end):
            term = np.int64(order[np.uintp(number)]) * width
            for column in range(width):
                update = widened(updates[np.uintp(term + column)], is_bfloat)
                room[column] = combine(reduction, room[column], update)
        for column in range(width):
            narrow[column] = narrowed(room[column], is_bfloat)
        stream(out, place, narrow, 0, width, lead)


def gather_rows(data, rows, out, width, first, last):
    """Copy rows of `data` (R * S,) into those rows of `out` (N * S,) that are in first..last-1."""
    asked, near = min(width, BEGINNING // out.itemsize), near_of(out, width)
    for number in range(first, last):
        prefetch_elements(data, np.int64(rows[min(number + near, last - 1)]) * width, asked)
        place, start = number * width, np.int64(rows[number]) * width
        for column in range(width):
            out[np.uintp(place + column)] = data[np.uintp(start + column)]


def stream_rows(data, rows, out, width, lead, first, last):
    """Do as `gather_rows`, where the result is too large for the cache; see `stream`."""
    asked, near = min(width, BEGINNING // out.itemsize), near_of(out, width)
    for number in range(first, last):
        far = np.int64(rows[min(number + near, last - 1)])
        prefetch_elements(data, far * width, asked)
        stream(out, number * width, data, np.int64(rows[number]) * width, width, lead)
