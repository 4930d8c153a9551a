"""What the compiled loops and those who call them agree on."""

from __future__ import annotations

NONE, ADD, MUL, MAX, MIN = range(5)

CODES = {"none": NONE, "add": ADD, "mul": MUL, "max": MAX, "min": MIN}
"""Reductions, as the loops know them: one loop holds all, and LLVM takes the choice out of it."""

OUTSIDE, NEGATIVE = 1, 2
"""Flags of indices: one of them is out of range, and one of them counts from the end."""

LINE = 64
"""Bytes of a cache line."""

PIECE = 16
"""Bytes that every processor moves at once, and past its cache: pieces of a line go together."""

AHEAD = 1024
"""Updates that a loop looks through at once, to find which are its own."""

COLUMNS = 8
"""Columns of a table that are moved at once: so many indices of 8 bytes are a cache line."""
