"""Elements by one index each, along an axis of a table beyond the cache, some columns at a time.

To go to random places of the table takes a memory access each. A column of it is within the cache: so
columns are taken out, and gathered from there. The table is only ever read and written in its order.
"""

from __future__ import annotations

import numpy as np

from mdf_scatter.kernels.codes import COLUMNS
from mdf_scatter.kernels.compiled import from_start, part


def gather_columns(data, indices, out, elements, found, many, first, last):
    """Copy elements of `data` (B, R, A) into `out` (B, L, A) by indices into R.

    Args:
        data: Elements of 4 or 8 bytes, as unsigned integers; fewer bytes are no gain.
        indices: (B, L, A), each in -R..R-1.
        out: What is written, of the same dtype.
        elements: (COLUMNS, R), of the same dtype; room for what is looked up.
        found: (COLUMNS, L), of the same dtype; room for rows, and what is found there.
        many: Blocks of columns in each of B; the last one starts earlier, if it has to.
        first: The first block, counted over all of B.
        last: The last block but one.
    """
    height = data.shape[1]
    for block in range(first, last):
        outer, own = block // many, block % many * COLUMNS
        start = min(own, data.shape[2] - COLUMNS)
        number_columns(indices[outer], start, height, found)
        take_columns(data[outer], start, elements)
        for column in range(own - start, COLUMNS):
            places, source = found[column], elements[column]
            for number in range(len(places)):
                places[number] = source[np.uintp(places[number])]
        put_columns(found, out[outer], start, own - start)


@part
def number_columns(indices, start, size, rows):
    """Write the rows of `size` that columns of `indices` (L, A) from `start` on name, (COLUMNS, L)."""
    for number in range(len(indices)):
        row = np.uintp(number)
        for column in range(COLUMNS):
            rows[np.uintp(column), row] = from_start(indices[row, np.uintp(start + column)], size)


@part
def take_columns(table, start, columns):
    """Copy columns of `table` (N, A) from `start` on, to lie one after the other, (COLUMNS, N)."""
    for number in range(len(table)):
        row = np.uintp(number)
        for column in range(COLUMNS):
            columns[np.uintp(column), row] = table[row, np.uintp(start + column)]


@part
def put_columns(columns, table, start, skipped):
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
