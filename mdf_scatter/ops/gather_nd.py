"""GatherND: slices of a tensor, by index."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from mdf_scatter.errors import OperatorError
from mdf_scatter.kernels.rows import gather_rows
from mdf_scatter.ops.arguments import read_gathered, read_indices, resolve_rows
from mdf_scatter.ops.op import Attribute, Case, Op, Pullback, add_op
from mdf_scatter.ops.rows import Names, check_index
from mdf_scatter.ops.settings import MOST_AXES, read_integer
from mdf_scatter.ops.small import gather_small
from mdf_scatter.ops.vjp import gather_pullback

NAME = "GatherND"
_NAMES = Names(NAME)


def gather_nd(data: npt.ArrayLike, indices: npt.ArrayLike, batch_dims: int = 0) -> npt.NDArray[Any]:
    """Return the slices of `data` that `indices` name.

    For each position `p` of `indices.shape[:-1]`: `output[p] = data[p[:b] + tuple(indices[p])]`, where
    b is `batch_dims`. It is the inverse of ScatterND: for distinct indices,
    `gather_nd(scatter_nd(data, indices, updates), indices)` is `updates`.

    Args:
        data: T[d0..dr-1], r >= 1. T is bool, an integer, float or complex type, bfloat16, float8,
            float4, int4, ... or string (`str` objects, fixed-width or StringDType).
        indices: int[i0..iq-2, k] of any integer dtype, q >= 1, 0 <= k <= r - b. Negative ones count from
            the end.
        batch_dims: b, 0 <= b < min(q, r): how many leading axes data and indices share. Their sizes are
            the same, and an index looks only into its own part of data.

    Returns:
        T[i0..iq-2, db+k..dr-1], a new C-contiguous array in native byte order.

    Raises:
        OperatorError: An argument is wrong.

    Source: ONNX GatherND (opset 13).

    >>> gather_nd([[0, 1], [2, 3]], [[0, 0], [1, 1]])
    array([0, 3])
    >>> gather_nd([[[0, 1], [2, 3]], [[4, 5], [6, 7]]], [[1], [0]], batch_dims=1)
    array([[2, 3],
           [4, 5]])
    """
    if type(batch_dims) is int and batch_dims == 0:
        found = gather_small(data, indices)
        if found is not None:
            return found
    data = read_gathered(NAME, data)
    rows, row_shape, shape = read_found(data, indices, batch_dims, share=batch_dims == 0)
    return gather_rows(data.reshape(row_shape), rows).reshape(shape)


def _pullback(
    data: npt.ArrayLike,
    indices: npt.ArrayLike,
    batch_dims: int = 0,
    *,
    output: npt.NDArray[Any] | None = None,
) -> Pullback:
    del output  # no gradient of a gather needs it
    data = read_gathered(NAME, data)
    rows, (_, width), shape = read_found(data, indices, batch_dims)
    return gather_pullback(NAME, (data.shape, None), data, rows, width, shape)


def read_found(
    data: npt.NDArray[Any], indices: npt.ArrayLike, batch_dims: int = 0, *, share: bool = False
) -> tuple[npt.NDArray[np.int64], tuple[int, int], tuple[int, ...]]:
    """Return the rows that are looked up, (N,), the shape of `data` as rows, and that of the result.

    With `share` the rows may be the indices themselves.
    """
    indices = read_indices(NAME, indices)
    batch_dims = read_integer(NAME, "batch_dims", batch_dims)
    check_index(_NAMES, data.shape, indices.shape, batch_dims)
    last = batch_dims + indices.shape[-1]
    batch, indexed, slice_ = data.shape[:batch_dims], data.shape[batch_dims:last], data.shape[last:]
    rows = resolve_rows(NAME, indices, indexed, first_axis=batch_dims, share=share)
    if batch_dims and rows.size:
        by_batch = rows.reshape(math.prod(batch), -1)
        by_batch += np.arange(len(by_batch))[:, np.newaxis] * math.prod(indexed)
    row_shape, shape = (math.prod(batch + indexed), math.prod(slice_)), indices.shape[:-1] + slice_
    if len(shape) > MOST_AXES:
        raise OperatorError(
            NAME,
            f"the result would have rank {len(shape)}; expected {MOST_AXES} at most, as NumPy has no more",
        )
    return rows, row_shape, shape


_SQUARE = np.array([[0, 1], [2, 3]], np.int32)
_CUBE = np.array([[[0, 1], [2, 3]], [[4, 5], [6, 7]]], np.float32)

CASES = (
    Case("elements", (_SQUARE, np.array([[0, 0], [1, 1]])), expected=np.array([0, 3], np.int32)),
    Case("rows", (_SQUARE, np.array([[1], [0]])), expected=np.array([[2, 3], [0, 1]], np.int32)),
    Case(
        "rows of a cube",
        (_CUBE, np.array([[0, 1], [1, 0]])),
        expected=np.array([[2, 3], [4, 5]], np.float32),
    ),
    Case(
        "rows, laid out by indices",
        (_CUBE, np.array([[[0, 1]], [[1, 0]]])),
        expected=np.array([[[2, 3]], [[4, 5]]], np.float32),
    ),
    Case(
        "one batch axis",
        (_CUBE, np.array([[1], [0]])),
        {"batch_dims": 1},
        np.array([[2, 3], [4, 5]], np.float32),
    ),
    Case(
        "two batch axes",
        (_CUBE, np.array([[[1], [0]], [[-1], [-2]]])),
        {"batch_dims": 2},
        np.array([[1, 2], [5, 6]], np.float32),
    ),
    Case("duplicates", (_SQUARE, np.array([[1], [1]])), expected=_SQUARE[[1, 1]]),
    Case("negative indices", (_SQUARE, np.array([[-1, -2]])), expected=np.array([2], np.int32)),
    Case("whole tensors, k = 0", (_SQUARE, np.zeros((2, 0), np.int64)), expected=np.stack([_SQUARE] * 2)),
    Case("no index", (_SQUARE, np.zeros((0, 1), np.int64)), expected=_SQUARE[:0]),
    Case("one index", (_CUBE, np.array([1, 0, 1])), expected=np.array(5, np.float32)),
    Case(
        "strings",
        (np.array(["a", "bc"], object), np.array([[1], [1], [0]])),
        expected=np.array(["bc", "bc", "a"], object),
    ),
    Case(
        "index out of range",
        (_SQUARE, np.array([[0, 0], [1, 2]])),
        error="GatherND: indices[1, 1] is 2; expected -2..1 (axis 1 of data)",
    ),
    Case(
        "index out of range in a batch",
        (_CUBE, np.array([[0], [-3]])),
        {"batch_dims": 1},
        error="GatherND: indices[1, 0] is -3; expected -2..1 (axis 1 of data)",
    ),
    Case(
        "index into nothing",
        (np.zeros((0, 3)), np.array([[0]])),
        error="GatherND: indices[0, 0] is 0, but axis 0 of data has size 0: no index into it is valid",
    ),
    Case(
        "index too deep",
        (_SQUARE, np.array([[0, 0, 0]])),
        error="GatherND: indices has shape (1, 3), so that an index has 3 numbers;"
        " expected at most 2, the rank of data",
    ),
    Case(
        "index too deep for a batch",
        (_CUBE, np.zeros((2, 3), np.int64)),
        {"batch_dims": 1},
        error="GatherND: indices has shape (2, 3), so that an index has 3 numbers;"
        " expected at most 2, the rank of data less batch_dims",
    ),
    Case(
        "too many batch axes",
        (_CUBE, np.array([[1], [0]])),
        {"batch_dims": 2},
        error="GatherND: batch_dims is 2; expected 0..1, as data has rank 3 and indices 2",
    ),
    Case(
        "batch axes of different sizes",
        (_CUBE, np.array([[1], [0], [1]])),
        {"batch_dims": 1},
        error="GatherND: indices has shape (3, 1) and data (2, 2, 2);"
        " expected the same sizes up to axis 0, as batch_dims is 1",
    ),
    Case(
        "batch_dims is no integer",
        (_CUBE, np.array([[1], [0]])),
        {"batch_dims": 1.0},
        error="GatherND: batch_dims is 1.0; expected an integer",
    ),
    Case(
        "scalar data",
        (np.float32(1), np.array([[0]])),
        error="GatherND: data is a scalar; expected rank 1 or more",
    ),
    Case(
        "scalar index",
        (_SQUARE, np.int64(1)),
        error="GatherND: indices is a scalar; expected rank 1 or more:"
        " the last axis holds one index, as in [[4]]",
    ),
    Case(
        "dtype of indices",
        (_SQUARE, np.array([[1.0]])),
        error="GatherND: indices has dtype float64; expected an integer dtype, such as int64",
    ),
)

GATHER_ND = add_op(
    Op(
        name=NAME,
        inputs=("data", "indices"),
        attributes={"batch_dims": Attribute(0, (), "How many leading axes data and indices share.")},
        versions={
            11: "The operator.",
            12: "Adds the attribute batch_dims.",
            13: "Adds bfloat16.",
        },
        forward=gather_nd,
        cases=CASES,
        doc="Slices of a tensor, by index.",
        pullback=_pullback,
        shape_from="",
    )
)
