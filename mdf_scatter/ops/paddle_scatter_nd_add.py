"""Paddle's scatter_nd_add: ScatterND's sum, under its own names."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from mdf_scatter.dtypes import STANDARD
from mdf_scatter.ops.arguments import check_dtype, read_array
from mdf_scatter.ops.op import Case, Emit, Op, Pullback, add_op
from mdf_scatter.ops.rows import Names, read_slices, scatter_slices
from mdf_scatter.ops.small import scatter_small
from mdf_scatter.ops.vjp import scatter_pullback

NAME = "paddle::scatter_nd_add"
_NAMES = Names(NAME, data="ref", shape="ref.shape", indices="index")


def paddle_scatter_nd_add(
    ref: npt.ArrayLike, index: npt.ArrayLike, updates: npt.ArrayLike
) -> npt.NDArray[Any]:
    """Return `ref` with `updates` added to the slices that `index` names; every duplicate counts.

    It is `scatter_nd(ref, index, updates, "add")`.

    Args:
        ref: T[d0..dr-1], r >= 1. T is bool, an integer, float or complex type, bfloat16 or string.
        index: int[i0..iq-2, k] of any integer dtype, q >= 1, 0 <= k <= r. Negative ones count from the
            end. With k = 0 each update is added to all of ref.
        updates: T[i0..iq-2, dk..dr-1].

    Returns:
        A new C-contiguous array of ref's shape and dtype in native byte order.

    Raises:
        OperatorError: An argument is wrong.

    Source: Paddle `paddle.scatter_nd_add`.

    >>> paddle_scatter_nd_add([0, 1, 2, 3, 4, 5], [[1], [2], [3], [1]], [9, 10, 11, 12])
    array([ 0, 22, 12, 14,  4,  5])
    """
    result = scatter_small(ref, index, updates, "add")
    if result is not None:
        return result
    ref = read_array(NAME, "ref", ref)
    check_dtype(NAME, "ref", ref, STANDARD)
    return scatter_slices(_NAMES, ref, index, updates, "add")


def _pullback(
    ref: npt.ArrayLike,
    index: npt.ArrayLike,
    updates: npt.ArrayLike,
    *,
    output: npt.NDArray[Any] | None = None,
) -> Pullback:
    ref = read_array(NAME, "ref", ref)
    check_dtype(NAME, "ref", ref, STANDARD)
    rows, width, updates = read_slices(_NAMES, ref, index, updates)
    return scatter_pullback(NAME, (ref.shape, None, updates.shape), ref, rows, width, updates, output, "add")


def _onnx_form(emit: Emit, ref: Any, index: Any, updates: Any) -> Any:
    return emit("ScatterND", ref, index, updates, reduction="add")


_RAMP = np.arange(6, dtype=np.float32)
_SUMMED = np.zeros((3, 5, 9, 10), np.float32)
_SUMMED[1, 1] = 2
_SUMMED[0, 2] = 1

CASES = (
    Case(
        "duplicates",
        (_RAMP, np.array([[1], [2], [3], [1]]), np.array([9, 10, 11, 12], np.float32)),
        expected=np.array([0, 22, 12, 14, 4, 5], np.float32),
    ),
    Case(
        "whole tensors, k = 0",
        (
            np.array([[65, 17], [-14, -25]]),
            np.zeros((2, 0), np.int32),
            np.array([[[-1, -2], [1, 2]], [[3, 4], [-3, -4]]]),
        ),
        expected=np.array([[67, 19], [-16, -27]]),
    ),
    Case(
        "slices",
        (
            np.zeros((3, 5, 9, 10), np.float32),
            np.array([[1, 1], [0, 2], [1, 1]]),
            np.ones((3, 9, 10), np.float32),
        ),
        expected=_SUMMED,
    ),
    Case("negative index", (_RAMP, np.array([[-1]]), _RAMP[1:2]), expected=_RAMP + _RAMP // 5),
    Case("no index", (_RAMP, np.zeros((0, 1), np.int64), _RAMP[:0]), expected=_RAMP),
    Case(
        "index out of range",
        (_RAMP, np.array([[1], [6]]), _RAMP[:2]),
        error="paddle::scatter_nd_add: index[1, 0] is 6; expected -6..5 (axis 0 of ref)",
    ),
    Case(
        "index into nothing",
        (_RAMP[:0], np.array([[1]]), _RAMP[:1]),
        error="paddle::scatter_nd_add: index[0, 0] is 1, but axis 0 of ref has size 0:"
        " no index into it is valid",
    ),
    Case(
        "shape of updates",
        (np.zeros((4, 5)), np.array([[0], [1]]), np.zeros((2, 4))),
        error="paddle::scatter_nd_add: updates has shape (2, 4);"
        " expected index.shape[:-1] + ref.shape[1:] = (2,) + (5,) = (2, 5)",
    ),
    Case(
        "index too deep",
        (_RAMP, np.array([[0, 0]]), _RAMP[:1]),
        error="paddle::scatter_nd_add: index has shape (1, 2), so that an index has 2 numbers;"
        " expected at most 1, the rank of ref",
    ),
    Case(
        "scalar ref",
        (np.float32(1), np.array([[0]]), _RAMP[:1]),
        error="paddle::scatter_nd_add: ref is a scalar; expected rank 1 or more",
    ),
    Case(
        "scalar index",
        (_RAMP, np.int64(1), np.float32(1)),
        error="paddle::scatter_nd_add: index is a scalar; expected rank 1 or more:"
        " the last axis holds one index, as in [[4]]",
    ),
    Case(
        "dtype of index",
        (_RAMP, np.array([[1.0]]), _RAMP[:1]),
        error="paddle::scatter_nd_add: index has dtype float64; expected an integer dtype, such as int64",
    ),
    Case(
        "dtype of updates",
        (_RAMP, np.array([[1]]), np.array([1])),
        error="paddle::scatter_nd_add: updates has dtype int64 and ref has float32;"
        " expected the same dtype: cast one of them first, with astype",
    ),
)

PADDLE_SCATTER_ND_ADD = add_op(
    Op(
        name=NAME,
        inputs=("ref", "index", "updates"),
        attributes={},
        versions={},
        forward=paddle_scatter_nd_add,
        cases=CASES,
        doc="A copy of a tensor with updates added to slices of it, by index.",
        integers=("index",),
        dtype_from="ref",
        shape_from="ref",
        onnx_form=_onnx_form,
        pullback=_pullback,
    )
)
