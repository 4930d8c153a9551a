"""A ScatterND of what a GatherND finds, as in an embedding bag: its rows are reduced where they are found."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from mdf_scatter.kernels.large import is_large, zeros
from mdf_scatter.kernels.rows import copied, reduce_found_rows, suits_found_rows
from mdf_scatter.ops import gather_nd, scatter_nd
from mdf_scatter.ops.arguments import check_reduction, read_array, read_gathered
from mdf_scatter.ops.rows import Names, read_slices

Array = npt.NDArray[Any]

_NAMES = Names(scatter_nd.NAME)


def scatter_found(
    data: Any, indices: Any, table: Any, places: Any, reduction: str = "none", *, in_place: bool = False
) -> Array | None:
    """Return `scatter_nd(data, indices, gather_nd(table, places), reduction)`.

    Args:
        data: See `scatter_nd`, as `indices` and `reduction`.
        indices: Which slices of `data` are written.
        table: T[...], sharing no memory with `data` where that is written.
        places: int[..., k], which slices of `table` are found; see `gather_nd`.
        reduction: One of `REDUCTIONS`.
        in_place: Whether the result is to be `data`, an array of native byte order.

    Returns:
        The result; None, with nothing written, where it is made as fast by one after the other.

    Raises:
        OperatorError: An argument is wrong. Nothing has been written.
    """
    is_given = all(isinstance(array, np.ndarray) for array in (data, indices, table, places))
    if not is_given or not places.ndim or not is_large(_size(table, places)):
        return None
    table = read_gathered(gather_nd.NAME, table)
    sources, rows_of_table, shape = gather_nd.read_found(table, places, share=True)
    data = read_array(scatter_nd.NAME, "data", data)
    check_reduction(scatter_nd.NAME, reduction, data)
    rows, width, _ = read_slices(_NAMES, data, indices, zeros(shape, table.dtype), share=True)
    table, target = table.reshape(rows_of_table), data.reshape(-1, width)
    if not suits_found_rows(target, rows, table, sources, reduction):
        return None
    result = data if in_place else copied(data)
    reduce_found_rows(result.reshape(-1, width), rows, table, sources, reduction)
    return result


def _size(table: Array, places: Array) -> int:
    return math.prod(places.shape[:-1]) * math.prod(table.shape[places.shape[-1] :])
