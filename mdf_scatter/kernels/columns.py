"""Loops that reduce and gather along an axis of a large table column by column, compiled by numba.

A table is beyond the cache, and to go there to random places takes a memory access each. One of its columns
is within: so columns are taken out, some at a time, and reduced or gathered there. The tables themselves
are only ever read and written in their order.
"""

from __future__ import annotations

import numpy as np

from mdf_scatter.kernels.compiled import gather_elements, kernel, part, reduce_elements

COLUMNS = 8
"""Columns of a table that are moved at once: so many indices of 8 bytes are a cache line."""


def blocks_of(width: int) -> int:
    """Return how many blocks of `COLUMNS` columns there are; the last one starts earlier, if it has to."""
    return (width + COLUMNS - 1) // COLUMNS


@kernel
def reduce_columns(out, indices, updates, reduction, many, first, last):  # type: ignore[no-untyped-def]
    """Reduce `updates` (B, L, A) into elements of `out` (B, R, A) by indices into R, in order.

    It takes `COLUMNS` columns at a time out of the tables. A column of `out` fits the cache, and there its
    elements are met at random places; the tables themselves are only ever read and written in their order.

    Args:
        out: Of a dtype of 4 bytes or more, as all tables below; fewer are no gain.
        indices: (B, L, A), each in -R..R-1.
        updates: (B, L, A).
        reduction: One of `CODES`.
        many: Blocks of columns in each of B, by `blocks_of`.
        first: The first block, counted over all of B.
        last: The last block but one.
    """
    height, length = out.shape[1], indices.shape[1]
    rows, terms = np.empty((COLUMNS, length), np.uint32), np.empty((COLUMNS, length), updates.dtype)
    elements = np.empty((COLUMNS, height), out.dtype)
    for block in range(first, last):
        outer, own = block // many, block % many * COLUMNS
        start = min(own, out.shape[2] - COLUMNS)
        number_columns(indices[outer], start, height, rows)
        take_columns(updates[outer], start, terms)
        take_columns(out[outer], start, elements)
        for column in range(own - start, COLUMNS):
            reduce_elements(elements[column], rows[column], terms[column], reduction)
        put_columns(elements, out[outer], start, own - start)


@kernel
def gather_columns(data, indices, out, many, first, last):  # type: ignore[no-untyped-def]
    """Copy elements of `data` (B, R, A) into `out` (B, L, A) by indices into R; see `reduce_columns`."""
    height, length = data.shape[1], indices.shape[1]
    rows, copies = np.empty((COLUMNS, length), np.uint32), np.empty((COLUMNS, length), out.dtype)
    elements = np.empty((COLUMNS, height), data.dtype)
    for block in range(first, last):
        outer, own = block // many, block % many * COLUMNS
        start = min(own, out.shape[2] - COLUMNS)
        number_columns(indices[outer], start, height, rows)
        take_columns(data[outer], start, elements)
        for column in range(own - start, COLUMNS):
            gather_elements(elements[column], rows[column], copies[column], 0, length)
        put_columns(copies, out[outer], start, own - start)


@part
def number_columns(indices, start, size, rows):  # type: ignore[no-untyped-def]
    """Write the rows of `size` that columns of `indices` (L, A) from `start` on name, (COLUMNS, L)."""
    for number in range(len(indices)):
        row = np.uintp(number)
        for column in range(COLUMNS):
            index = indices[row, np.uintp(start + column)]
            rows[np.uintp(column), row] = index + size if index < 0 else index


@part
def take_columns(table, start, columns):  # type: ignore[no-untyped-def]
    """Copy columns of `table` (N, A) from `start` on, to lie one after the other, (COLUMNS, N)."""
    for number in range(len(table)):
        row = np.uintp(number)
        for column in range(COLUMNS):
            columns[np.uintp(column), row] = table[row, np.uintp(start + column)]


@part
def put_columns(columns, table, start, skipped):  # type: ignore[no-untyped-def]
    """Copy columns, but some first ones, back to where `take_columns` has them from."""
    if skipped == 0:  # as it nearly always is: a loop of known length is unrolled
        for number in range(len(table)):
            row = np.uintp(number)
            for column in range(COLUMNS):
                table[row, np.uintp(start + column)] = columns[np.uintp(column), row]
        return
    for number in range(len(table)):
        row = np.uintp(number)
        for column in range(skipped, COLUMNS):
            table[row, np.uintp(start + column)] = columns[np.uintp(column), row]
