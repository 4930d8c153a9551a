"""The rows that updates go to, numbered in their order: a bit for each row there is, and counts of them.

Bits of a large table are within the cache, where a number for each of its rows is not.
"""

from __future__ import annotations

import numpy as np

from mdf_scatter.kernels.compiled import part

# Unsigned, because of a signed and an unsigned one numba makes a float.
ONE, WORD, SHIFT = np.uint64(1), np.uint64(63), np.uint64(6)
PAIRS, FOURS, BYTES = (
    np.uint64(mask) for mask in (0x5555555555555555, 0x3333333333333333, 0x0F0F0F0F0F0F0F0F)
)
SUM, TOP = np.uint64(0x0101010101010101), np.uint64(56)
TWO, FOUR = np.uint64(2), np.uint64(4)


@part
def count_ones(word):
    """Count the bits of a word that are 1, in a way that LLVM knows to be an instruction."""
    word = word - ((word >> ONE) & PAIRS)
    word = (word & FOURS) + ((word >> TWO) & FOURS)
    return (((word + (word >> FOUR)) & BYTES) * SUM) >> TOP


def mark(rows, words, ranks):
    """Mark the rows that are in `rows` (N,), and return how many they are.

    Args:
        rows: (N,), in 0..R-1.
        words: (R / 64,), rounded up, uint64; a bit for each row after.
        ranks: (R / 64,), uint32; how many rows are marked before those of each word, after.
    """
    words[:] = 0
    for row in rows:
        words[np.uint64(row) >> SHIFT] |= ONE << (np.uint64(row) & WORD)
    count = np.uint64(0)
    for number in range(len(words)):
        ranks[number] = count
        count += count_ones(words[number])
    return np.int64(count)


def list_marked(words, touched):
    """Write the rows that are marked, (T,), in order."""
    count = np.uint64(0)
    for number in range(len(words)):
        word = words[number]
        while word:
            touched[count] = (np.uint64(number) << SHIFT) + count_ones(~word & (word - ONE))
            count += ONE
            word &= word - ONE


def find_marked(rows, words, ranks, places, first, last):
    """Write the places in `list_marked` of those of `rows` (N,) that are in first..last-1."""
    near, found = rows[first:last], places[first:last]
    for update in range(len(near)):
        row = np.uint64(near[update])
        number = row >> SHIFT
        below = (ONE << (row & WORD)) - ONE
        found[update] = np.uint64(ranks[number]) + count_ones(words[number] & below)
