"""TensorScatter: a cache with a stretch of it written anew, at its own place for each batch item."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from mdf_scatter.errors import OperatorError
from mdf_scatter.kernels.rows import gather_rows
from mdf_scatter.ops.arguments import (
    check_choice,
    check_dtype,
    check_out,
    read_array,
    read_indices,
    read_like,
)
from mdf_scatter.ops.op import Attribute, Case, Op, Pullback, add_op, row_shape
from mdf_scatter.ops.rows import Names, scatter
from mdf_scatter.ops.settings import read_axis
from mdf_scatter.ops.vjp import scatter_pullback

NAME = "TensorScatter"
MODES = ("linear", "circular")
_NAMES = Names(NAME, data="past_cache", shape="past_cache.shape", indices="write_indices", updates="update")


def tensor_scatter(
    past_cache: npt.ArrayLike,
    update: npt.ArrayLike,
    write_indices: npt.ArrayLike | None = None,
    axis: int = -2,
    mode: str = "linear",
    *,
    out: npt.NDArray[Any] | None = None,
) -> npt.NDArray[Any]:
    """Return `past_cache` with `update` written along an axis, from an index on that each batch item has.

    For each batch item b and n in 0..length-1, along `axis`:
    `output[b, .., write_indices[b] + n, ..] = update[b, .., n, ..]`.

    Args:
        past_cache: T[batch, .., size, ..], rank r >= 2, size being that along `axis`. T is bool, an
            integer, float or complex type, bfloat16, float8, float4, int4, ... or string.
        update: T[batch, .., length, ..]: the shape of past_cache, but length <= size along `axis`.
        write_indices: int[batch] of any integer dtype, 0 or more; zeros if left out. Negative ones are
            an error: a cache is written from its start on.
        axis: -r..r-1, but not the batch axis, 0.
        mode: "linear", where all of update has to fit, or "circular", where what goes over the end goes
            on at the start: places are modulo size.
        out: Where the result goes: an array of past_cache's shape and dtype, which may be `past_cache`
            itself or overlap any other argument.

    Returns:
        `out`, or a new C-contiguous array of past_cache's shape and dtype in native byte order.

    Raises:
        OperatorError: An argument is wrong. `out` has not been written to.

    Source: ONNX TensorScatter (opset 24), which writes the keys and values of attention.

    >>> tensor_scatter([[0, 0, 0, 0], [0, 0, 0, 0]], [[1, 2], [3, 4]], [1, 3], axis=1, mode="circular")
    array([[0, 1, 2, 0],
           [4, 0, 0, 3]])
    """
    cache = read_array(NAME, "past_cache", past_cache)
    check_dtype(NAME, "past_cache", cache)
    rows, width, update = _read(cache, update, write_indices, axis, mode)
    if out is not None:
        check_out(NAME, out, cache)
    return scatter(_NAMES, cache, rows, width, update, "none", out=out)


def overwritten(
    past_cache: npt.ArrayLike,
    update: npt.ArrayLike,
    write_indices: npt.ArrayLike | None = None,
    axis: int = -2,
    mode: str = "linear",
) -> npt.NDArray[Any]:
    """Return what `tensor_scatter` overwrites in `past_cache`, a new array of the shape of `update`."""
    cache = read_array(NAME, "past_cache", past_cache)
    rows, width, update = _read(cache, update, write_indices, axis, mode)
    return gather_rows(cache.reshape(row_shape(cache, width)), rows).reshape(update.shape)


def _pullback(
    past_cache: npt.ArrayLike,
    update: npt.ArrayLike,
    write_indices: npt.ArrayLike | None = None,
    axis: int = -2,
    mode: str = "linear",
    *,
    output: npt.NDArray[Any] | None = None,
) -> Pullback:
    cache = read_array(NAME, "past_cache", past_cache)
    check_dtype(NAME, "past_cache", cache)
    rows, width, update = _read(cache, update, write_indices, axis, mode)
    shapes = cache.shape, update.shape, None
    return scatter_pullback(NAME, shapes, cache, rows, width, update, output, "none")


def _read(
    cache: npt.NDArray[Any],
    update: npt.ArrayLike,
    write_indices: npt.ArrayLike | None,
    axis: int,
    mode: str,
) -> tuple[npt.NDArray[np.int64], int, npt.NDArray[Any]]:
    """Return the rows of `cache` that are written, (N,), their width, and what is written there."""
    update = read_like(NAME, "update", update, "past_cache", cache)
    check_choice(NAME, "mode", mode, MODES)
    axis = _read_axis(axis, cache)
    length = _read_length(cache.shape, update.shape, axis)
    starts = _read_starts(write_indices, cache.shape, axis, length, mode)
    width = math.prod(cache.shape[axis + 1 :])
    rows = _rows(cache.shape[: axis + 1], starts, length) if update.size else np.zeros(0, np.int64)
    return rows, width, update


def _rows(sizes: tuple[int, ...], starts: npt.NDArray[np.int64], length: int) -> npt.NDArray[np.int64]:
    """Number the places that are written, of an array of these sizes, in row-major order of update."""
    batch, size = sizes[0], sizes[-1]
    places = (starts[:, np.newaxis] + np.arange(length)) % size
    before = np.arange(math.prod(sizes[:-1])) * size
    rows: npt.NDArray[np.int64] = before.reshape(batch, -1, 1) + places[:, np.newaxis]
    return rows.reshape(-1)


def _read_axis(value: Any, cache: npt.NDArray[Any]) -> int:
    rank = cache.ndim
    if rank < 2:
        raise OperatorError(
            NAME, f"past_cache has rank {rank}; expected 2 or more: the batch axis, and the one written along"
        )
    axis = read_axis(NAME, value, "past_cache", rank)
    if axis == 0:
        raise OperatorError(
            NAME,
            f"axis is {value}, the batch axis of past_cache, which has rank {rank};"
            f" expected {1 - rank}..-1 or 1..{rank - 1}",
        )
    return axis


def _read_length(cache: tuple[int, ...], update: tuple[int, ...], axis: int) -> int:
    others = cache[:axis] + cache[axis + 1 :]
    if len(update) != len(cache) or update[:axis] + update[axis + 1 :] != others:
        raise OperatorError(
            NAME,
            f"update has shape {update}; expected {cache}, the shape of past_cache,"
            f" or less along axis {axis}",
        )
    if update[axis] > cache[axis]:
        raise OperatorError(
            NAME,
            f"update has shape {update}; expected at most {cache[axis]} along axis {axis},"
            f" as past_cache has shape {cache}",
        )
    return update[axis]


def _read_starts(
    value: Any, cache: tuple[int, ...], axis: int, length: int, mode: str
) -> npt.NDArray[np.int64]:
    """Return where each batch item's update starts, as a place that the cache has."""
    batch, size = cache[0], cache[axis]
    if value is None:
        return np.zeros(batch, np.int64)
    starts = read_indices(NAME, value, "write_indices")
    if starts.shape != (batch,):
        raise OperatorError(
            NAME, f"write_indices has shape {starts.shape}; expected {(batch,)}, one for each batch item"
        )
    is_wrong = starts < 0
    expected = "0 or more"
    if mode == "linear":
        is_wrong |= starts > size - length
        expected = (
            f"0..{size - length}, as update has length {length} and past_cache {size} along axis {axis}"
        )
    if is_wrong.any():
        item = int(np.argmax(is_wrong))
        raise OperatorError(NAME, f"write_indices[{item}] is {starts[item]}; expected {expected}")
    # Only uint64 holds every index there may be; what is left of it after the division fits int64.
    return (starts.astype(np.uint64) % np.uint64(max(size, 1))).astype(np.int64)


_CACHE = np.zeros((2, 4, 2), np.float32)
_ONE = np.array([[[1, 2]], [[3, 4]]], np.float32)
_TWO = np.array([[[1, 2], [3, 4]], [[5, 6], [7, 8]]], np.float32)
_NOTHING = [0, 0]


def _f32(*items: Any) -> npt.NDArray[np.float32]:
    return np.array(items, np.float32)


CASES = (
    Case(
        "prefill, from the start on",
        (_CACHE, _TWO),
        expected=_f32([[1, 2], [3, 4], _NOTHING, _NOTHING], [[5, 6], [7, 8], _NOTHING, _NOTHING]),
    ),
    Case(
        "decode, one place for each batch item",
        (_CACHE, _ONE, np.array([1, 3])),
        expected=_f32([_NOTHING, [1, 2], _NOTHING, _NOTHING], [_NOTHING, _NOTHING, _NOTHING, [3, 4]]),
    ),
    Case(
        "circular, over the end",
        (_CACHE, _TWO, np.array([1, 3])),
        {"mode": "circular"},
        _f32([_NOTHING, [1, 2], [3, 4], _NOTHING], [[7, 8], _NOTHING, _NOTHING, [5, 6]]),
    ),
    Case(
        "circular, any number of times round",
        (_CACHE, _ONE, np.array([9, 2**64 - 1], np.uint64)),
        {"mode": "circular"},
        _f32([_NOTHING, [1, 2], _NOTHING, _NOTHING], [_NOTHING, _NOTHING, _NOTHING, [3, 4]]),
    ),
    Case(
        "along the last axis",
        (np.array([[1, 2, 3], [4, 5, 6]]), np.array([[9], [8]]), np.array([2, 0])),
        {"axis": -1},
        np.array([[1, 2, 9], [8, 5, 6]]),
    ),
    Case(
        "heads between batch and sequence",
        (np.zeros((1, 2, 2, 1), np.int8), np.array([[[[1]], [[2]]]], np.int8), np.array([1])),
        expected=np.array([[[[0], [1]], [[0], [2]]]], np.int8),
    ),
    Case(
        "strings",
        (np.array([["a", "b"]], object), np.array([["new"]], object), np.array([1])),
        {"axis": 1},
        np.array([["a", "new"]], object),
    ),
    Case("no length", (_CACHE, _CACHE[:, :0], np.array([4, 0])), expected=_CACHE),
    Case("no batch", (_CACHE[:0], _ONE[:0], np.zeros(0, np.int64)), expected=_CACHE[:0]),
    Case(
        "over the end",
        (_CACHE, _TWO, np.array([2, 3])),
        error="TensorScatter: write_indices[1] is 3; expected 0..2,"
        " as update has length 2 and past_cache 4 along axis 1",
    ),
    Case(
        "negative write index",
        (_CACHE, _ONE, np.array([0, -1])),
        {"mode": "circular"},
        error="TensorScatter: write_indices[1] is -1; expected 0 or more",
    ),
    Case(
        "shape of write_indices",
        (_CACHE, _ONE, np.array([0])),
        error="TensorScatter: write_indices has shape (1,); expected (2,), one for each batch item",
    ),
    Case(
        "dtype of write_indices",
        (_CACHE, _ONE, np.array([0.0, 1.0])),
        error="TensorScatter: write_indices has dtype float64; expected an integer dtype, such as int64",
    ),
    Case(
        "shape of update",
        (_CACHE, _ONE[:1]),
        error="TensorScatter: update has shape (1, 1, 2); expected (2, 4, 2), the shape of past_cache,"
        " or less along axis 1",
    ),
    Case(
        "update longer than the cache",
        (_TWO, _CACHE),
        error="TensorScatter: update has shape (2, 4, 2); expected at most 2 along axis 1,"
        " as past_cache has shape (2, 2, 2)",
    ),
    Case(
        "dtype of update",
        (_CACHE, _ONE.astype(np.float64)),
        error="TensorScatter: update has dtype float64 and past_cache has float32;"
        " expected the same dtype: cast one of them first, with astype",
    ),
    Case(
        "batch axis",
        (_CACHE, _ONE),
        {"axis": -3},
        error="TensorScatter: axis is -3, the batch axis of past_cache, which has rank 3;"
        " expected -2..-1 or 1..2",
    ),
    Case(
        "axis out of range",
        (_CACHE, _ONE),
        {"axis": 3},
        error="TensorScatter: axis is 3; expected -3..2, as past_cache has rank 3",
    ),
    Case(
        "rank of past_cache",
        (np.zeros(3), np.zeros(1)),
        error="TensorScatter: past_cache has rank 1; expected 2 or more:"
        " the batch axis, and the one written along",
    ),
    Case(
        "unknown mode",
        (_CACHE, _ONE),
        {"mode": "cyclic"},
        error="TensorScatter: mode is 'cyclic'; expected 'linear' or 'circular'",
    ),
)

TENSOR_SCATTER = add_op(
    Op(
        name=NAME,
        inputs=("past_cache", "update", "write_indices"),
        attributes={
            "axis": Attribute(-2, (), "The axis that is written along; not the batch axis, 0."),
            "mode": Attribute("linear", MODES, "Whether an update may go over the end, on to the start."),
        },
        versions={24: "The operator."},
        forward=tensor_scatter,
        cases=CASES,
        doc="A cache with a stretch of it written anew, at its own place for each batch item.",
        optional=("write_indices",),
        integers=("write_indices",),
        dtype_from="past_cache",
        shape_from="past_cache",
        pullback=_pullback,
    )
)
