"""Many indices looked at, and made numbers of rows, by compiled loops."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from mdf_scatter.kernels.codes import NEGATIVE
from mdf_scatter.kernels.large import is_large, run_in_parts
from mdf_scatter.kernels.memory import empty
from mdf_scatter.kernels.threads import parts_for

Array = npt.NDArray[Any]
Rows = npt.NDArray[np.int64]


def number_rows(indices: Array, sizes: tuple[int, ...]) -> Rows | None:
    """Return the row that each index (..., k) names, if all are in range and there are many.

    Args:
        indices: int64 or int32.
        sizes: The k sizes of the indexed axes.

    Returns:
        (N,), which may be `indices` itself, seen as (N,); None where NumPy is to do it.
    """
    if indices.dtype not in (np.int64, np.int32) or not is_large(indices.size, indices):
        return None
    if len(sizes) == 1 and indices.dtype == np.int64:
        found = inspect(indices, sizes[0])
        if found != NEGATIVE:
            return None if found else indices.reshape(-1)
    tuples = indices.reshape(-1, len(sizes))
    rows = empty((len(tuples),), np.dtype(np.int64))
    limits = np.array(sizes, np.int64)
    parts = parts_for(indices.nbytes)
    outside = run_in_parts("elements.number_rows", lambda: (tuples, limits, rows), len(rows), parts)
    return None if outside else rows


def inspect(indices: Array, size: int) -> int:
    """Return the flags of indices, C-contiguous: `OUTSIDE` -size..size-1, `NEGATIVE`, or both."""
    flat = indices.reshape(-1)
    return run_in_parts("elements.inspect", lambda: (flat, size), len(flat), parts_for(flat.nbytes))
