"""What the operators that index whole rows share, whatever they call their inputs."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from mdf_scatter.dtypes import is_string
from mdf_scatter.errors import OperatorError
from mdf_scatter.kernels import buckets, scatter_rows
from mdf_scatter.kernels.memory import empty
from mdf_scatter.kernels.rows import copy
from mdf_scatter.ops.arguments import (
    check_out,
    read_indices,
    read_like,
    read_text,
    resolve_rows,
    write_text,
)

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Names:
    """What an operator calls itself and its inputs, for messages.

    Attributes:
        op: Its name in `OPS`.
        data: The tensor that is indexed.
        shape: What tells the sizes of that tensor.
        indices: The indices into it.
        updates: What is written there.
    """

    op: str
    data: str = "data"
    shape: str = "data.shape"
    indices: str = "indices"
    updates: str = "updates"


def scatter_slices(
    names: Names,
    data: Array,
    indices: npt.ArrayLike,
    updates: npt.ArrayLike,
    reduction: str,
    include_self: bool = True,
    out: Array | None = None,
) -> Array:
    """Compute ScatterND for an operator that may call the inputs by other names.

    Args:
        names: The operator's names.
        data: T[d0..dr-1], of a dtype that has the reduction, in native byte order.
        indices: As the caller gave it, to be int[i0..iq-2, k].
        updates: As the caller gave it, to be T[i0..iq-2, dk..dr-1].
        reduction: One of `WIDE_REDUCTIONS`.
        include_self: Whether data takes part in the reduction on touched rows.
        out: Where the result goes; it may be `data`.
    """
    indices, width, terms = _read_shapes(names, data, indices, updates)
    is_plain = width and indices.shape[-1] == 1 and reduction != "mean" and include_self
    if is_plain and buckets.suits(data, indices, terms, reduction, width):
        frame = buckets.rows_of(len(data), indices.size, width)
        result = scatter_far(names.op, data, indices, terms, reduction, frame, out)
        if result is not None:
            return result
    sizes = data.shape[: indices.shape[-1]]
    rows = resolve_rows(names.op, indices, sizes, name=names.indices, of=names.data, share=True)
    if out is not None:
        check_out(names.op, out, data)
    return scatter(names, data, rows, width, terms, reduction, include_self, out)


def read_slices(
    names: Names, data: Array, indices: npt.ArrayLike, updates: npt.ArrayLike, *, share: bool = False
) -> tuple[npt.NDArray[np.int64], int, Array]:
    """Return the rows of `data` that ScatterND writes, (N,), their width, and the updates; see there.

    With `share` the rows may be the indices themselves.
    """
    indices, width, updates = _read_shapes(names, data, indices, updates)
    sizes = data.shape[: indices.shape[-1]]
    rows = resolve_rows(names.op, indices, sizes, name=names.indices, of=names.data, share=share)
    return rows, width, updates


def _read_shapes(
    names: Names, data: Array, indices: npt.ArrayLike, updates: npt.ArrayLike
) -> tuple[Array, int, Array]:
    """Return indices, the width of a row that each names, and updates, all of shapes that fit."""
    op = names.op
    indices = read_indices(op, indices, names.indices)
    updates = read_like(op, names.updates, updates, names.data, data)
    check_index(names, data.shape, indices.shape)
    depth = indices.shape[-1]
    batch, slice_ = indices.shape[:-1], data.shape[depth:]
    if updates.shape != batch + slice_:
        raise OperatorError(
            op,
            f"{names.updates} has shape {updates.shape};"
            f" expected {names.indices}.shape[:-1] + {names.shape}[{depth}:]"
            f" = {batch} + {slice_} = {batch + slice_}",
        )
    return indices, math.prod(slice_), updates


def check_index(names: Names, data: tuple[int, ...], indices: tuple[int, ...], batch_dims: int = 0) -> None:
    """Check that tensors of these shapes can be indexed by each other, after some batch axes."""
    op = names.op
    if not data:
        raise OperatorError(op, f"{names.data} is a scalar; expected rank 1 or more")
    if not indices:
        raise OperatorError(
            op,
            f"{names.indices} is a scalar; expected rank 1 or more:"
            " the last axis holds one index, as in [[4]]",
        )
    if not 0 <= batch_dims < min(len(data), len(indices)):
        raise OperatorError(
            op,
            f"batch_dims is {batch_dims}; expected 0..{min(len(data), len(indices)) - 1},"
            f" as {names.data} has rank {len(data)} and {names.indices} {len(indices)}",
        )
    if data[:batch_dims] != indices[:batch_dims]:
        raise OperatorError(
            op,
            f"{names.indices} has shape {indices} and {names.data} {data};"
            f" expected the same sizes up to axis {batch_dims - 1}, as batch_dims is {batch_dims}",
        )
    if indices[-1] > len(data) - batch_dims:
        most = f"{len(data) - batch_dims}, the rank of {names.data}"
        raise OperatorError(
            op,
            f"{names.indices} has shape {indices}, so that an index has {indices[-1]} numbers;"
            f" expected at most {most}{' less batch_dims' if batch_dims else ''}",
        )


def scatter(
    names: Names,
    data: Array,
    rows: npt.NDArray[np.int64],
    width: int,
    updates: Array,
    reduction: str,
    include_self: bool = True,
    out: Array | None = None,
) -> Array:
    """Return `data`, seen as rows of `width` elements, with `updates` reduced into some of its rows.

    Args:
        names: The operator's names.
        data: T[...], in native byte order.
        rows: The row each update goes to, (N,), all of them rows that there are.
        width: Elements in a row.
        updates: N * width elements of any shape; for strings, of any kind of strings.
        reduction: One of `WIDE_REDUCTIONS`.
        include_self: Whether data takes part in the reduction on touched rows.
        out: Where the result goes, checked; it may be `data`, or overlap any argument.

    Returns:
        `out`, or a new C-contiguous array.
    """
    if is_string(data.dtype):
        text = read_text(names.op, names.data, data)
        terms = read_text(names.op, names.updates, updates)
        _scatter(text, None, rows, width, terms, reduction, include_self)
        return write_text(names.op, text, data, out)
    if out is not None and np.may_share_memory(out, rows):
        rows = rows.copy()
    terms = np.ascontiguousarray(updates)

    def write(result: Array, start: Array | None, terms: Array) -> None:
        _scatter(result, start, rows, width, terms, reduction, include_self)

    return written(data, terms, out, write)


def scatter_far(
    op: str,
    data: Array,
    indices: Array,
    updates: Array,
    reduction: str,
    frame: buckets.Frame,
    out: Array | None,
) -> Array | None:
    """Return `data` with many updates reduced into elements or short rows of it, far from each other.

    Args:
        op: Name of the operator, for messages.
        data: T[...], which `buckets.suits`, with the two below.
        indices: int[...]; whether they are in range is found on the way.
        updates: T[...], a row for each index.
        reduction: One of `REDUCTIONS`.
        frame: What indices mean.
        out: Where the result goes; it may be `data`.

    Returns:
        `out`, or a new C-contiguous array; None, with nothing written, where an index is out of range, or
        `out` is neither None nor `data`.
    """
    if out is None:
        result = empty(data.shape, data.dtype)
        return result if buckets.scatter(result, data, indices, updates, reduction, frame) else None
    check_out(op, out, data)
    if not _is_same_place(out, data):
        return None
    indices = indices.copy() if np.may_share_memory(out, indices) else indices
    updates = updates.copy() if np.may_share_memory(out, updates) else updates
    return out if buckets.scatter(np.asarray(out), None, indices, updates, reduction, frame) else None


def written(
    data: Array, updates: Array, out: Array | None, write: Callable[[Array, Array | None, Array], None]
) -> Array:
    """Return a copy of `data` to which `updates` are written.

    Args:
        data: T[...], in native byte order.
        updates: T[...].
        out: Where the result goes, checked; it may be `data`, which is then not copied, or overlap any
            argument.
        write: `write(result, start, updates)` writes `start` with the updates into an array that is
            C-contiguous and aligned, as all of them are; without `start` the array holds it already.

    Returns:
        `out`, or a new C-contiguous array.
    """
    if out is not None and np.may_share_memory(out, updates):
        updates = updates.copy()
    in_place = out is not None and out.flags.carray
    result = np.asarray(out) if in_place else empty(data.shape, data.dtype)
    start: Array | None = data
    is_plain = data.flags.c_contiguous and data.flags.aligned
    if not is_plain or (in_place and np.may_share_memory(result, data)):
        if not _is_same_place(result, data):
            copy(result, data)
        start = None
    write(result, start, updates)
    if out is None:
        return result
    if not in_place:
        np.copyto(out, result)
    return out


def _is_same_place(one: Array, other: Array) -> bool:
    """Tell whether two arrays of the same shape and dtype are the same memory, so that a copy is none."""
    if one is other:
        return True
    begin = "data"
    return one.strides == other.strides and one.__array_interface__[begin] == other.__array_interface__[begin]


def _scatter(
    result: Array,
    start: Array | None,
    rows: npt.NDArray[np.int64],
    width: int,
    updates: Array,
    reduction: str,
    include_self: bool,
) -> None:
    if not width:
        return
    start = None if start is None else start.reshape(-1, width)
    scatter_rows(result.reshape(-1, width), start, rows, updates.reshape(-1, width), reduction, include_self)
