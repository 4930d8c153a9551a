"""TensorFlow's scatter_nd: updates added up in a tensor of zeros."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from mdf_scatter.dtypes import STANDARD, is_string, type_text
from mdf_scatter.errors import OperatorError
from mdf_scatter.kernels.large import LARGE, zeros
from mdf_scatter.kernels.rows import added_rows
from mdf_scatter.ops.arguments import check_dtype, read_array, read_indices
from mdf_scatter.ops.op import Case, Emit, Op, Pullback, add_op
from mdf_scatter.ops.rows import Names, read_slices, scatter_slices
from mdf_scatter.ops.settings import MOST_AXES
from mdf_scatter.ops.small import scatter_small
from mdf_scatter.ops.vjp import zeros_pullback

NAME = "tf::scatter_nd"
_NAMES = Names(NAME, data="the result", shape="shape")


def tf_scatter_nd(indices: npt.ArrayLike, updates: npt.ArrayLike, shape: npt.ArrayLike) -> npt.NDArray[Any]:
    """Return a tensor of zeros with `updates` added to the slices that `indices` name.

    Every duplicate counts. Strings are added to empty ones.

    Args:
        indices: int[i0..iq-2, k] of any integer dtype, q >= 1, 0 <= k <= r. Negative ones count from the
            end. With k = 0 each update is added to all of the result.
        updates: T[i0..iq-2, dk..dr-1]. T is bool, an integer, float or complex type, bfloat16 or string.
        shape: int[r] of any integer dtype, r >= 1: d0..dr-1, the sizes of the result, 0 or more.

    Returns:
        T[d0..dr-1], a new C-contiguous array in native byte order.

    Raises:
        OperatorError: An argument is wrong, or a tensor of that shape is too large to be had.

    Source: TensorFlow `tf.scatter_nd`, which has neither negative indices nor k = 0.

    >>> tf_scatter_nd([[4], [3], [1], [7]], [9, 10, 11, 12], [8])
    array([ 0, 11,  0, 10,  9,  0,  0, 12])
    """
    updates = read_array(NAME, "updates", updates)
    check_dtype(NAME, "updates", updates, STANDARD)
    sizes = _read_shape(shape)
    if math.prod(sizes) < LARGE and not is_string(updates.dtype):
        start = np.zeros(sizes, updates.dtype)
        result = scatter_small(start, indices, updates, "add", start)
        if result is not None:
            return result
    is_text = is_string(updates.dtype)
    try:
        start = np.full(sizes, "", updates.dtype) if is_text else zeros(sizes, updates.dtype)
    except (MemoryError, ValueError) as error:
        raise _too_large(sizes, updates.dtype) from error
    if is_text:
        return scatter_slices(_NAMES, start, indices, updates, "add")
    rows, width, terms = read_slices(_NAMES, start, indices, updates, share=True)
    if not start.size:
        return start.copy()
    try:
        sums = added_rows(start.size // width, rows, np.ascontiguousarray(terms).reshape(-1, width))
    except MemoryError as error:
        raise _too_large(sizes, updates.dtype) from error
    return sums.reshape(sizes)


def _too_large(sizes: tuple[int, ...], dtype: np.dtype[Any]) -> OperatorError:
    result = type_text(dtype, sizes)
    return OperatorError(NAME, f"shape is {sizes}; a result of {result} does not fit into memory")


def _pullback(
    indices: npt.ArrayLike,
    updates: npt.ArrayLike,
    shape: npt.ArrayLike,
    *,
    output: npt.NDArray[Any] | None = None,
) -> Pullback:
    if output is None:
        output = tf_scatter_nd(indices, updates, shape)
    updates = read_array(NAME, "updates", updates)
    rows, width, _ = read_slices(_NAMES, output, indices, updates)
    return zeros_pullback(NAME, (None, updates.shape, None), rows, width, output)


def _read_shape(value: npt.ArrayLike) -> tuple[int, ...]:
    shape = read_indices(NAME, value, "shape")
    if shape.ndim != 1 or not shape.size:
        raise OperatorError(
            NAME,
            f"shape has shape {shape.shape}; expected a list of one size or more, as in [8]",
        )
    if len(shape) > MOST_AXES:
        raise OperatorError(
            NAME, f"shape has {len(shape)} sizes; expected {MOST_AXES} at most, as NumPy has no more axes"
        )
    sizes = tuple(int(size) for size in shape)
    for axis, size in enumerate(sizes):
        if size < 0:
            raise OperatorError(NAME, f"shape[{axis}] is {size}; expected 0 or more")
    return sizes


def _onnx_form(emit: Emit, indices: Any, updates: Any, shape: Any) -> Any:
    dtype = emit.dtype(updates)
    zero = np.array("", object) if is_string(dtype) else np.zeros((), dtype)
    sizes = shape if emit.dtype(shape) == np.int64 else emit("Cast", shape, to=np.dtype(np.int64))
    return emit("ScatterND", emit("Expand", emit.constant(zero), sizes), indices, updates, reduction="add")


_FOUR = np.array([[4], [3], [1], [7]], np.int32)
_VALUES = np.array([9, 10, 11, 12], np.float32)
_SLICE = np.array([[5, 5, 5, 5], [6, 6, 6, 6], [7, 7, 7, 7], [8, 8, 8, 8]])

CASES = (
    Case(
        "elements",
        (_FOUR, _VALUES, np.array([8], np.int32)),
        expected=np.array([0, 11, 0, 10, 9, 0, 0, 12], np.float32),
    ),
    Case(
        "slices",
        (np.array([[0], [2]]), np.stack([_SLICE] * 2), np.array([4, 4, 4])),
        expected=np.stack([_SLICE, _SLICE * 0, _SLICE, _SLICE * 0]),
    ),
    Case(
        "duplicates",
        (np.array([[1], [3], [1], [-1]]), _VALUES, np.array([4])),
        expected=np.array([0, 20, 0, 22], np.float32),
    ),
    Case("whole tensors, k = 0", (np.zeros((2, 0), np.int64), _SLICE[:2], [4]), expected=_SLICE[0] * 2 + 1),
    Case("no index", (np.zeros((0, 1), np.int64), _VALUES[:0], [2]), expected=np.zeros(2, np.float32)),
    Case("no element", (np.zeros((2, 0), np.int64), np.zeros((2, 3, 0)), [3, 0]), expected=np.zeros((3, 0))),
    Case(
        "strings",
        (np.array([[0], [2], [0]]), np.array(["a", "b", "c"], object), np.array([3], np.uint8)),
        expected=np.array(["ac", "", "b"], object),
    ),
    Case(
        "index out of range",
        (_FOUR, _VALUES, np.array([7])),
        error="tf::scatter_nd: indices[3, 0] is 7; expected -7..6 (axis 0 of the result)",
    ),
    Case(
        "index into nothing",
        (_FOUR, _VALUES, np.array([0])),
        error="tf::scatter_nd: indices[0, 0] is 4, but axis 0 of the result has size 0:"
        " no index into it is valid",
    ),
    Case(
        "shape of updates",
        (_FOUR, _VALUES, np.array([8, 2])),
        error="tf::scatter_nd: updates has shape (4,); expected indices.shape[:-1] + shape[1:]"
        " = (4,) + (2,) = (4, 2)",
    ),
    Case(
        "index too deep",
        (np.array([[4, 0]]), _VALUES[:1], np.array([8])),
        error="tf::scatter_nd: indices has shape (1, 2), so that an index has 2 numbers;"
        " expected at most 1, the rank of the result",
    ),
    Case(
        "negative size",
        (_FOUR, _VALUES, np.array([8, -1])),
        error="tf::scatter_nd: shape[1] is -1; expected 0 or more",
    ),
    Case(
        "rank of shape",
        (_FOUR, _VALUES, np.array([[8]])),
        error="tf::scatter_nd: shape has shape (1, 1); expected a list of one size or more, as in [8]",
    ),
    Case(
        "no rank",
        (_FOUR, _VALUES, []),
        error="tf::scatter_nd: shape has shape (0,); expected a list of one size or more, as in [8]",
    ),
    Case(
        "dtype of shape",
        (_FOUR, _VALUES, np.array([8.0])),
        error="tf::scatter_nd: shape has dtype float64; expected an integer dtype, such as int64",
    ),
    Case(
        "too large",
        (_FOUR, _VALUES, np.array([8, 2**62])),
        error="tf::scatter_nd: shape is (8, 4611686018427387904); a result of"
        " float32[8, 4611686018427387904] does not fit into memory",
    ),
    Case(
        "dtype of indices",
        (_VALUES[:, np.newaxis], _VALUES, np.array([8])),
        error="tf::scatter_nd: indices has dtype float32; expected an integer dtype, such as int64",
    ),
)

TF_SCATTER_ND = add_op(
    Op(
        name=NAME,
        inputs=("indices", "updates", "shape"),
        attributes={},
        versions={},
        forward=tf_scatter_nd,
        cases=CASES,
        doc="Updates added up in a tensor of zeros, by index.",
        integers=("indices", "shape"),
        dtype_from="updates",
        shape_from="",
        onnx_form=_onnx_form,
        pullback=_pullback,
    )
)
