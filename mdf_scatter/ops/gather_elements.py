"""GatherElements: elements of a tensor, each by an index along one axis."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from mdf_scatter.errors import OperatorError
from mdf_scatter.kernels.along import gather_along
from mdf_scatter.ops.arguments import read_gathered, read_indices
from mdf_scatter.ops.elements import check_elements, resolve_elements
from mdf_scatter.ops.op import Attribute, Case, Op, Pullback, add_op
from mdf_scatter.ops.settings import read_axis
from mdf_scatter.ops.small import gather_small_along
from mdf_scatter.ops.vjp import gather_pullback

NAME = "GatherElements"


def gather_elements(data: npt.ArrayLike, indices: npt.ArrayLike, axis: int = 0) -> npt.NDArray[Any]:
    """Return an element of `data` for each of `indices`, which look along one axis.

    With axis 1 of three: `output[i, j, k] = data[i, indices[i, j, k], k]`. It is the inverse of
    ScatterElements.

    Args:
        data: T[d0..dr-1], r >= 1. T is bool, an integer, float or complex type, bfloat16, float8,
            float4, int4, ... or string (`str` objects, fixed-width or StringDType).
        indices: int[i0..ir-1] of any integer dtype. Negative ones count from the end. No size is larger
            than data's, but along `axis` any is right.
        axis: -r..r-1.

    Returns:
        T[i0..ir-1], a new C-contiguous array in native byte order.

    Raises:
        OperatorError: An argument is wrong.

    Source: ONNX GatherElements (opset 13).

    >>> gather_elements([[1, 2], [3, 4]], [[0, 0], [1, 0]], axis=1)
    array([[1, 1],
           [4, 3]])
    """
    found = gather_small_along(data, indices, axis)
    if found is not None:
        return found
    data = read_gathered(NAME, data)
    indices, axis = _read(data, indices, axis)
    result = gather_along(data, indices, axis)
    if result is not None:
        return result
    return data.reshape(-1).take(resolve_elements(NAME, indices, data.shape, axis))


def _pullback(
    data: npt.ArrayLike,
    indices: npt.ArrayLike,
    axis: int = 0,
    *,
    output: npt.NDArray[Any] | None = None,
) -> Pullback:
    del output  # no gradient of a gather needs it
    data = read_gathered(NAME, data)
    indices, axis = _read(data, indices, axis)
    positions = resolve_elements(NAME, indices, data.shape, axis).reshape(-1)
    return gather_pullback(NAME, (data.shape, None), data, positions, 1, indices.shape)


def _read(data: npt.NDArray[Any], indices: npt.ArrayLike, axis: int) -> tuple[npt.NDArray[Any], int]:
    """Return the indices, and the axis along which they look, counted from the start."""
    indices = read_indices(NAME, indices)
    if not data.ndim:
        raise OperatorError(NAME, "data is a scalar; expected rank 1 or more")
    axis = read_axis(NAME, axis, "data", data.ndim)
    check_elements(NAME, data.shape, indices.shape, axis)
    return indices, axis


_SQUARE = np.array([[1, 2], [3, 4]], np.float32)
_NINE = np.array([[1, 2, 3], [4, 5, 6], [7, 8, 9]], np.int32)

CASES = (
    Case(
        "along axis 1",
        (_SQUARE, np.array([[0, 0], [1, 0]])),
        {"axis": 1},
        np.array([[1, 1], [4, 3]], np.float32),
    ),
    Case(
        "along axis 0, fewer rows",
        (_NINE, np.array([[1, 2, 0], [2, 0, 0]])),
        expected=np.array([[4, 8, 3], [7, 2, 3]], np.int32),
    ),
    Case(
        "negative indices",
        (_NINE, np.array([[-1, -2, 0], [-2, 0, 0]])),
        expected=np.array([[7, 5, 3], [4, 2, 3]], np.int32),
    ),
    Case(
        "negative axis, more columns, fewer rows",
        (_SQUARE, np.array([[1, 0, 1, 1]], np.int8)),
        {"axis": -1},
        np.array([[2, 1, 2, 2]], np.float32),
    ),
    Case("no index", (_NINE, np.zeros((0, 3), np.int64)), expected=_NINE[:0]),
    Case("no data, no index", (np.zeros((0, 3)), np.zeros((0, 2), np.int64)), expected=np.zeros((0, 2))),
    Case(
        "strings",
        (np.array(["a", "bc"], object), np.array([1, 1, 0])),
        expected=np.array(["bc", "bc", "a"], object),
    ),
    Case(
        "index out of range",
        (_NINE, np.array([[1, 2, 0], [2, 3, 0]])),
        error="GatherElements: indices[1, 1] is 3; expected -3..2 (axis 0 of data)",
    ),
    Case(
        "index into nothing",
        (np.zeros((0, 3)), np.array([[0]])),
        error="GatherElements: indices[0, 0] is 0, but axis 0 of data has size 0: no index into it is valid",
    ),
    Case(
        "rank of indices",
        (_NINE, np.array([0])),
        error="GatherElements: indices has shape (1,); expected rank 2, as data has shape (3, 3)",
    ),
    Case(
        "shape of indices",
        (_NINE, np.zeros((2, 4), np.int64)),
        error="GatherElements: indices has shape (2, 4); expected at most 3 along axis 1,"
        " as data has shape (3, 3) and axis is 0",
    ),
    Case(
        "axis out of range",
        (_NINE, np.array([[0]])),
        {"axis": 2},
        error="GatherElements: axis is 2; expected -2..1, as data has rank 2",
    ),
    Case(
        "axis is no integer",
        (_NINE, np.array([[0]])),
        {"axis": "1"},
        error="GatherElements: axis is '1'; expected an integer",
    ),
    Case(
        "scalar data",
        (np.float32(1), np.int64(0)),
        error="GatherElements: data is a scalar; expected rank 1 or more",
    ),
    Case(
        "dtype of indices",
        (_NINE, np.array([[1.0]])),
        error="GatherElements: indices has dtype float64; expected an integer dtype, such as int64",
    ),
)

GATHER_ELEMENTS = add_op(
    Op(
        name=NAME,
        inputs=("data", "indices"),
        attributes={"axis": Attribute(0, (), "The axis along which the indices look.")},
        versions={11: "The operator.", 13: "Adds bfloat16."},
        forward=gather_elements,
        cases=CASES,
        doc="Elements of a tensor, each by an index along one axis.",
        shape_from="indices",
        pullback=_pullback,
    )
)
