"""ScatterElements: a copy of a tensor with elements replaced, or reduced with, by index along an axis."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from mdf_scatter.dtypes import HALVES
from mdf_scatter.errors import OperatorError
from mdf_scatter.kernels import buckets
from mdf_scatter.kernels.along import frame_of, scatter_along, suits
from mdf_scatter.ops.arguments import (
    check_out,
    check_reduction,
    read_array,
    read_indices,
    read_like,
)
from mdf_scatter.ops.elements import check_elements, resolve_elements
from mdf_scatter.ops.onnx_forms import scatter_form
from mdf_scatter.ops.op import Attribute, Case, Op, Pullback, add_op
from mdf_scatter.ops.rows import Names, scatter, scatter_far, written
from mdf_scatter.ops.scatter_nd import WIDE_ATTRIBUTES, check_wide_reduction
from mdf_scatter.ops.settings import read_axis
from mdf_scatter.ops.small import scatter_small_along
from mdf_scatter.ops.vjp import scatter_pullback

Array = npt.NDArray[Any]

NAME = "ScatterElements"
_NAMES = Names(NAME)


def scatter_elements(
    data: npt.ArrayLike,
    indices: npt.ArrayLike,
    updates: npt.ArrayLike,
    axis: int = 0,
    reduction: str = "none",
    *,
    out: npt.NDArray[Any] | None = None,
) -> npt.NDArray[Any]:
    """Return `data` with each of `updates` written, or reduced, where its index along an axis says.

    With axis 1 of three, for each position of `indices`, in row-major order:
    `output[i, indices[i, j, k], k] = updates[i, j, k]` under "none", and the sum, product, maximum or
    minimum of both under "add", "mul", "max" and "min". Duplicates, dtypes, NaN and zeros are as in
    `scatter_nd`.

    Args:
        data: T[d0..dr-1], r >= 1. T is bool, an integer, float or complex type, bfloat16 or string
            (`str` objects, fixed-width or StringDType), and under "none" also float8, float4, int4, ...
        indices: int[i0..ir-1] of any integer dtype. Negative ones count from the end. No size is larger
            than data's, but along `axis` any is right.
        updates: T[i0..ir-1].
        axis: -r..r-1.
        reduction: "none", "add", "mul", "max" or "min".
        out: Where the result goes: an array of data's shape and dtype, which may be `data` itself or
            overlap any other argument.

    Returns:
        `out`, or a new C-contiguous array of data's shape and dtype in native byte order; fixed-width
        strings are as wide as they need to be.

    Raises:
        OperatorError: An argument is wrong. `out` has not been written to.

    Source: ONNX ScatterElements (opset 18).

    >>> scatter_elements([[1, 2, 3, 4, 5]], [[1, 3]], [[11, 21]], axis=1)
    array([[ 1, 11,  3, 21,  5]])
    """
    result = scatter_small_along(data, indices, updates, axis, reduction, out)
    if result is not None:
        return result
    data = read_array(NAME, "data", data)
    check_reduction(NAME, reduction, data)
    return _scatter(data, indices, updates, axis, reduction, out=out)


def _forward(
    data: npt.ArrayLike,
    indices: npt.ArrayLike,
    updates: npt.ArrayLike,
    axis: int = 0,
    reduction: str = "none",
    include_self: bool = True,
) -> npt.NDArray[Any]:
    """Compute what `scatter_elements` does, with what nodes and functions have beyond ONNX."""
    if include_self is True:
        result = scatter_small_along(data, indices, updates, axis, reduction)
        if result is not None:
            return result
    data = read_array(NAME, "data", data)
    check_wide_reduction(NAME, reduction, include_self, data)
    return _scatter(data, indices, updates, axis, reduction, include_self)


def _pullback(
    data: npt.ArrayLike,
    indices: npt.ArrayLike,
    updates: npt.ArrayLike,
    axis: int = 0,
    reduction: str = "none",
    include_self: bool = True,
    *,
    output: npt.NDArray[Any] | None = None,
) -> Pullback:
    data = read_array(NAME, "data", data)
    check_wide_reduction(NAME, reduction, include_self, data)
    if output is None and reduction in ("max", "min"):
        output = _forward(data, indices, updates, axis, reduction, include_self)
    indices, updates, axis = _read(data, indices, updates, axis)
    positions = resolve_elements(NAME, indices, data.shape, axis).reshape(-1)
    shapes = data.shape, None, updates.shape
    return scatter_pullback(NAME, shapes, data, positions, 1, updates, output, reduction, include_self)


def _scatter(
    data: Array,
    indices: npt.ArrayLike,
    updates: npt.ArrayLike,
    axis: int,
    reduction: str,
    include_self: bool = True,
    out: Array | None = None,
) -> Array:
    indices, updates, axis = _read(data, indices, updates, axis)
    is_wide = reduction == "mean" or not include_self
    spread = math.prod(data.shape[axis:])
    if not is_wide and buckets.suits(data, indices, updates, reduction, spread=spread):
        frame = frame_of(indices.shape, data.shape, axis)
        result = scatter_far(NAME, data, indices, updates, reduction, frame, out)
        if result is not None:
            return result
    is_half = reduction != "none" and data.dtype in HALVES
    if is_wide or is_half or not suits(data.dtype, indices, data.shape[axis]):
        positions = resolve_elements(NAME, indices, data.shape, axis).reshape(-1)
        _check_out(out, data)
        return scatter(_NAMES, data, positions, 1, updates, reduction, include_self, out)
    _check_out(out, data)
    if out is not None and np.may_share_memory(out, indices):
        indices = indices.copy()

    def write(result: Array, start: Array | None, terms: Array) -> None:
        scatter_along(result, start, indices, terms, axis, reduction)

    return written(data, np.ascontiguousarray(updates), out, write)


def _check_out(out: Array | None, data: Array) -> None:
    if out is not None:
        check_out(NAME, out, data)


def _read(data: Array, indices: npt.ArrayLike, updates: npt.ArrayLike, axis: int) -> tuple[Array, Array, int]:
    """Return indices, updates, and the axis along which indices look, counted from the start."""
    indices = read_indices(NAME, indices)
    updates = read_like(NAME, "updates", updates, "data", data)
    if not data.ndim:
        raise OperatorError(NAME, "data is a scalar; expected rank 1 or more")
    axis = read_axis(NAME, axis, "data", data.ndim)
    check_elements(NAME, data.shape, indices.shape, axis)
    if updates.shape != indices.shape:
        raise OperatorError(
            NAME, f"updates has shape {updates.shape}; expected {indices.shape}, the shape of indices"
        )
    return indices, updates, axis


_ZEROS = np.zeros((3, 3), np.float32)
_PLACES = np.array([[1, 0, 2], [0, 2, 1]])
_VALUES = np.array([[1.0, 1.1, 1.2], [2.0, 2.1, 2.2]], np.float32)
_ROW = np.array([[1, 2, 3, 4, 5]], np.float32)
_TWICE = np.array([[1, 1]])
_PAIR = np.array([[10, -2]], np.float32)


def _row(*values: float) -> npt.NDArray[np.float32]:
    return np.array([values], np.float32)


CASES = (
    Case(
        "along axis 0",
        (_ZEROS, _PLACES, _VALUES),
        expected=np.array([[2.0, 1.1, 0], [1.0, 0, 2.2], [0, 2.1, 1.2]], np.float32),
    ),
    Case(
        "along axis 1",
        (_ROW, np.array([[1, 3]]), _row(1.1, 2.1)),
        {"axis": 1},
        _row(1, 1.1, 3, 2.1, 5),
    ),
    Case(
        "negative indices and axis",
        (_ROW, np.array([[1, -3]]), _row(1.1, 2.1)),
        {"axis": -1},
        _row(1, 1.1, 2.1, 4, 5),
    ),
    Case("duplicates, none", (_ROW, _TWICE, _PAIR), {"axis": 1}, _row(1, -2, 3, 4, 5)),
    Case("duplicates, add", (_ROW, _TWICE, _PAIR), {"axis": 1, "reduction": "add"}, _row(1, 10, 3, 4, 5)),
    Case("duplicates, mul", (_ROW, _TWICE, _PAIR), {"axis": 1, "reduction": "mul"}, _row(1, -40, 3, 4, 5)),
    Case("duplicates, max", (_ROW, _TWICE, _PAIR), {"axis": 1, "reduction": "max"}, _row(1, 10, 3, 4, 5)),
    Case("duplicates, min", (_ROW, _TWICE, _PAIR), {"axis": 1, "reduction": "min"}, _row(1, -2, 3, 4, 5)),
    Case(
        "more indices than data along the axis",
        (np.array([1, 2]), np.array([0, 0, 1, 0]), np.array([10, 20, 30, 40])),
        {"reduction": "add"},
        np.array([71, 32]),
    ),
    Case("no index", (_ROW, np.zeros((1, 0), np.int64), _row()), {"axis": 1}, _ROW),
    Case(
        "index out of range",
        (_ROW, np.array([[1, 5]]), _PAIR),
        {"axis": 1},
        error="ScatterElements: indices[0, 1] is 5; expected -5..4 (axis 1 of data)",
    ),
    Case(
        "index into nothing",
        (np.zeros((1, 0)), np.array([[0]]), np.zeros((1, 1))),
        {"axis": 1},
        error="ScatterElements: indices[0, 0] is 0, but axis 1 of data has size 0: no index into it is valid",
    ),
    Case(
        "rank of indices",
        (_ROW, np.array([1, 3]), _row(1, 2)[0]),
        error="ScatterElements: indices has shape (2,); expected rank 2, as data has shape (1, 5)",
    ),
    Case(
        "shape of indices",
        (_ROW, np.zeros((2, 2), np.int64), np.zeros((2, 2), np.float32)),
        {"axis": 1},
        error="ScatterElements: indices has shape (2, 2); expected at most 1 along axis 0,"
        " as data has shape (1, 5) and axis is 1",
    ),
    Case(
        "shape of updates",
        (_ROW, _TWICE, _PAIR.T),
        error="ScatterElements: updates has shape (2, 1); expected (1, 2), the shape of indices",
    ),
    Case(
        "axis out of range",
        (_ROW, _TWICE, _PAIR),
        {"axis": -3},
        error="ScatterElements: axis is -3; expected -2..1, as data has rank 2",
    ),
    Case(
        "scalar data",
        (np.float32(1), np.int64(0), np.float32(2)),
        error="ScatterElements: data is a scalar; expected rank 1 or more",
    ),
    Case(
        "dtype of indices",
        (_ROW, _PAIR, _PAIR),
        error="ScatterElements: indices has dtype float32; expected an integer dtype, such as int64",
    ),
    Case(
        "dtype of updates",
        (_ROW, _TWICE, _TWICE),
        error="ScatterElements: updates has dtype int64 and data has float32;"
        " expected the same dtype: cast one of them first, with astype",
    ),
    Case(
        "no order",
        (np.array([1j]), np.array([0]), np.array([2j])),
        {"reduction": "min"},
        error="ScatterElements: reduction is 'min' and data has dtype complex128,"
        " but complex numbers have no order; expected 'none', 'add' or 'mul'",
    ),
)

SCATTER_ELEMENTS = add_op(
    Op(
        name=NAME,
        inputs=("data", "indices", "updates"),
        attributes={"axis": Attribute(0, (), "The axis along which the indices look.")} | WIDE_ATTRIBUTES,
        versions={
            11: "The operator: updates replace what they meet.",
            13: "Adds bfloat16.",
            16: "Adds the attribute reduction, with 'none', 'add' and 'mul'.",
            18: "Adds the reductions 'max' and 'min'.",
        },
        forward=_forward,
        onnx_form=partial(scatter_form, NAME),
        cases=CASES,
        doc="A copy of a tensor with elements replaced, or reduced with, by index along an axis.",
        pullback=_pullback,
    )
)
