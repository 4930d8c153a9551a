"""Elements, or short rows of them, at random places of what is beyond the cache, a bucket at a time.

To go to a random place of a large array takes a memory access, which is as long as hundreds of additions.
So updates are sorted first, by the bucket that their place is in: a bucket is a stretch of the array that
fits the cache. They are sorted by chunks, each within the cache too, and stay in order: a bucket's updates
are a piece of each chunk, chunk after chunk. Neither step goes anywhere in the memory but ahead.
"""

from __future__ import annotations

import numpy as np

from mdf_scatter.kernels.codes import OUTSIDE
from mdf_scatter.kernels.compiled import combine, from_start, misses, part, prefetch_elements, stream
from mdf_scatter.kernels.compiled.halves import narrowed, widened

NEAR = 2
"""Chunks whose pieces are asked for before they are needed."""

BEGINNING = 128
"""Elements of a piece that are asked for; the processor itself asks for what follows."""


@part
def number_places(indices, begin, end, earlier, size, step, before, after, length, width, places):
    """Write the places that those of indices (N,) in begin..end-1 name; tell whether all are in range.

    They are a part of (B * length * width,), with so many earlier ones. The place of an element is
    `before[b] + index * step + after[a]`, without the last if `after` is empty.
    """
    number, outside = begin, np.int64(0)
    while number < end:
        inner = (earlier + number) % width
        offset = before[np.uintp((earlier + number) // (length * width))]
        count = min(width - inner, end - number)
        for ahead in range(count):
            index = np.int64(indices[np.uintp(number + ahead)])
            outside |= misses(index, size)
            row = from_start(index, size)
            beside = after[np.uintp(inner + ahead)] if len(after) > 0 else 0
            places[np.uintp(number - begin + ahead)] = np.uint32(offset + row * step + beside)
        number += count
    return outside >= 0


@part
def take_target(bucket, begin, ends):
    """Return where the next update of a bucket goes, in a chunk that begins there."""
    target = ends[np.uintp(bucket)]
    ends[np.uintp(bucket)] = target + np.uint32(1)
    return np.uintp(begin) + target


def sort_updates(
    indices,
    updates,
    earlier,
    size,
    step,
    before,
    after,
    length,
    width,
    span,
    shift,
    chunk,
    where,
    terms,
    starts,
    ends,
    places,
    first,
    last,
):
    """Sort the updates of chunks first..last-1 by their buckets; return `OUTSIDE` if an index is.

    Args:
        indices: (N,); see `number_places` for what they name.
        updates: (N * span,).
        earlier: Indices before these ones, of which they are a part.
        size: Size of the indexed axis.
        step: Elements from one index to the next.
        before: (B,), elements before.
        after: (width,) or (0,), elements after.
        length: Indices along the axis.
        width: Indices beside each other.
        span: Elements that an index names: what is counted above, and in places, are rows of so many.
        shift: A bucket has `1 << shift` rows, at most 65536.
        chunk: Updates of a chunk.
        where: (N,), uint16; places in their bucket after.
        terms: (N * span,), dtype of `updates`; the updates after.
        starts: (buckets + 1, chunks), uint32; where in a chunk the updates of a bucket begin, after.
        ends: (buckets,), uint32; room for it.
        places: (chunk,), uint32; room for it.
        first: The first chunk.
        last: The last chunk but one.
    """
    buckets = len(starts) - 1
    shifted, inside = np.uint32(shift), np.uint32((1 << shift) - 1)
    for own in range(first, last):
        begin, end = own * chunk, min((own + 1) * chunk, len(indices))
        if not number_places(indices, begin, end, earlier, size, step, before, after, length, width, places):
            return OUTSIDE
        for bucket in range(buckets):
            ends[bucket] = 0
        for number in range(end - begin):
            ends[np.uintp(places[np.uintp(number)] >> shifted)] += np.uint32(1)
        total = np.uint32(0)
        for bucket in range(buckets):
            count = ends[bucket]
            ends[bucket] = total
            starts[bucket, own] = total
            total += count
        starts[buckets, own] = total
        if span == 1:  # what takes the most time, as below, is to be without an inner loop
            for number in range(end - begin):
                place = places[np.uintp(number)]
                target = take_target(place >> shifted, begin, ends)
                where[target] = place & inside
                terms[target] = updates[np.uintp(begin + number)]
            continue
        for number in range(end - begin):
            place = places[np.uintp(number)]
            target = take_target(place >> shifted, begin, ends)
            where[target] = place & inside
            for element in range(span):
                source = np.uintp((begin + number) * span + element)
                terms[target * np.uintp(span) + np.uintp(element)] = updates[source]
    return 0


@part
def take_elements(room, data, start, count):
    """Copy elements of `data` (R,), which is (0,) where all of it is 0, to the beginning of `room`."""
    # Not by one expression with either: of uint64 and 0, which is signed, numba makes a float.
    if len(data) > 0:
        for number in range(count):
            room[np.uintp(number)] = data[np.uintp(start + number)]
    else:
        for number in range(count):
            room[np.uintp(number)] = 0


@part
def ask_for_piece(bucket, own, where, terms, starts, span, chunk):
    """Ask the memory for the beginning of what a bucket has in a chunk; it is not behind what came before."""
    begin = own * chunk + np.int64(starts[bucket, own])
    count = np.int64(starts[bucket + 1, own]) - np.int64(starts[bucket, own])
    prefetch_elements(where, begin, min(count, BEGINNING))
    prefetch_elements(terms, begin * span, min(count * span, BEGINNING))


@part
def reduce_bucket(elements, start, bucket, where, terms, starts, span, chunk, reduction):
    """Reduce the updates of a bucket into its elements, which begin at `start`, in order."""
    for own in range(starts.shape[1]):
        ask_for_piece(bucket, min(own + NEAR, starts.shape[1] - 1), where, terms, starts, span, chunk)
        begin = own * chunk + np.int64(starts[bucket, own])
        end = own * chunk + np.int64(starts[bucket + 1, own])
        if span == 1:
            for number in range(begin, end):
                place = np.uintp(start) + where[np.uintp(number)]
                elements[place] = combine(reduction, elements[place], terms[np.uintp(number)])
            continue
        for number in range(begin, end):
            place = np.uintp(start) + where[np.uintp(number)] * np.uintp(span)
            term = np.uintp(number * span)
            for element in range(span):
                to = place + np.uintp(element)
                elements[to] = combine(reduction, elements[to], terms[term + np.uintp(element)])


def rebuild_buckets(out, data, where, terms, starts, room, span, reduction, shift, chunk, lead, first, last):
    """Write buckets first..last-1 of `out`: what updates make of those of `data`, both (R * span,).

    `data` is (0,) where all of it is 0, and may be `out` itself. A bucket is read and written once, past the
    cache; `room`, (span << shift,), is where it is in between.
    """
    for bucket in range(first, last):
        start = (bucket << shift) * span
        count = min(span << shift, len(out) - start)
        take_elements(room, data, start, count)
        reduce_bucket(room, 0, bucket, where, terms, starts, span, chunk, reduction)
        wanted = data if len(data) > 0 else room
        stream(out, start, room, 0, count, lead, wanted, min(start + count, len(wanted) - count))


def reduce_buckets(out, where, terms, starts, span, reduction, shift, chunk, first, last):
    """Reduce updates into buckets first..last-1 of `out` (R * span,), in place."""
    for bucket in range(first, last):
        start = (bucket << shift) * span
        reduce_bucket(out, start, bucket, where, terms, starts, span, chunk, reduction)


def reduce_half_buckets(
    out, data, where, terms, starts, room, narrow, is_bfloat, reduction, shift, chunk, lead, first, last
):
    """Do as `rebuild_buckets` for elements of float16 or bfloat16, as their bits: in float32, rounded once.

    `room`, (1 << shift,), is float32, and `narrow` is as long; `data` may be `out` itself.
    """
    for bucket in range(first, last):
        start = bucket << shift
        count = min(1 << shift, len(out) - start)
        take_elements(narrow, data, start, count)
        # An element is rounded only if an update meets it: all others keep their bits, also those of a NaN.
        for own in range(starts.shape[1]):
            begin = own * chunk + np.int64(starts[bucket, own])
            for number in range(begin, own * chunk + np.int64(starts[bucket + 1, own])):
                place = np.uintp(where[np.uintp(number)])
                room[place] = widened(narrow[place], is_bfloat)
        for own in range(starts.shape[1]):
            begin = own * chunk + np.int64(starts[bucket, own])
            for number in range(begin, own * chunk + np.int64(starts[bucket + 1, own])):
                place, term = np.uintp(where[np.uintp(number)]), widened(terms[np.uintp(number)], is_bfloat)
                room[place] = combine(reduction, room[place], term)
        for own in range(starts.shape[1]):
            begin = own * chunk + np.int64(starts[bucket, own])
            for number in range(begin, own * chunk + np.int64(starts[bucket + 1, own])):
                place = np.uintp(where[np.uintp(number)])
                narrow[place] = narrowed(room[place], is_bfloat)
        wanted = data if len(data) > 0 else narrow
        stream(out, start, narrow, 0, count, lead, wanted, min(start + count, len(wanted) - count))
