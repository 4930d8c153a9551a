"""ScatterND: a copy of a tensor with slices of it replaced, or reduced with, by index."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from mdf_scatter.dtypes import NARROW, STANDARD, is_string, name_of
from mdf_scatter.errors import OperatorError, listed
from mdf_scatter.kernels import REDUCTIONS, WIDE_REDUCTIONS
from mdf_scatter.ops.arguments import check_choice, check_dtype, check_reduction, read_array
from mdf_scatter.ops.onnx_forms import scatter_form
from mdf_scatter.ops.op import Attribute, Case, Op, Pullback, add_op
from mdf_scatter.ops.rows import Names, read_slices, scatter_slices
from mdf_scatter.ops.settings import described
from mdf_scatter.ops.small import scatter_small
from mdf_scatter.ops.vjp import scatter_pullback

NAME = "ScatterND"
_NAMES = Names(NAME)

WIDE_ATTRIBUTES = {
    "reduction": Attribute("none", WIDE_REDUCTIONS, "What becomes of an element that an update meets."),
    "include_self": Attribute(True, (), "Whether an element takes part in what its updates are reduced to."),
}
"""The attributes of a scatter that nodes and functions have; ONNX has neither "mean" nor the second."""

_NO_MEAN = {
    "bool": ("truth values have no quotient", REDUCTIONS),
    "string": ("strings have no quotient", ("none", "add", "max", "min")),
} | dict.fromkeys(NARROW, ("it is a type without arithmetic", ("none",)))
"""Dtypes that have no mean: why, and which reductions they have."""


def scatter_nd(
    data: npt.ArrayLike,
    indices: npt.ArrayLike,
    updates: npt.ArrayLike,
    reduction: str = "none",
    *,
    out: npt.NDArray[Any] | None = None,
) -> npt.NDArray[Any]:
    """Return `data` with `updates` written, or reduced, into the slices that `indices` name.

    For each position `p` of `indices.shape[:-1]`, in row-major order:
    `output[tuple(indices[p])] = updates[p]` under "none", and the sum, product, maximum or minimum of
    both under "add", "mul", "max" and "min". Duplicate indices are well defined: the last update
    stays under "none", and every one counts, in order, under the reductions.

    Integers wrap around; for bool, add and max are OR, mul and min are AND; strings are concatenated
    by "add" and compared by code point. NaN wins "max" and "min", and +0 is greater than -0. float16
    and bfloat16 are reduced in float32 and rounded once.

    Args:
        data: T[d0..dr-1], r >= 1. T is bool, an integer, float or complex type, bfloat16 or string
            (`str` objects, fixed-width or StringDType), and under "none" also float8, float4, int4, ...
        indices: int[i0..iq-2, k] of any integer dtype, q >= 1, 0 <= k <= r. Negative ones count from
            the end.
        updates: T[i0..iq-2, dk..dr-1], exactly `indices.shape[:-1] + data.shape[k:]`.
        reduction: "none", "add", "mul", "max" or "min".
        out: Where the result goes: an array of data's shape and dtype, which may be `data` itself or
            overlap any other argument.

    Returns:
        `out`, or a new C-contiguous array of data's shape and dtype in native byte order; fixed-width
        strings are as wide as they need to be.

    Raises:
        OperatorError: An argument is wrong. `out` has not been written to.

    >>> scatter_nd([1, 2, 3, 4, 5, 6, 7, 8], [[4], [3], [1], [7]], [9, 10, 11, 12])
    array([ 1, 11,  3, 10,  9,  6,  7, 12])
    >>> scatter_nd(["a", "b"], [[0], [-1], [0]], ["x", "y", "z"], reduction="add")
    array(['axz', 'by'], dtype='<U3')
    """
    result = scatter_small(data, indices, updates, reduction, out)
    if result is not None:
        return result
    data = read_array(NAME, "data", data)
    check_reduction(NAME, reduction, data)
    return scatter_slices(_NAMES, data, indices, updates, reduction, out=out)


def _forward(
    data: npt.ArrayLike,
    indices: npt.ArrayLike,
    updates: npt.ArrayLike,
    reduction: str = "none",
    include_self: bool = True,
) -> npt.NDArray[Any]:
    """Compute what `scatter_nd` does, with what nodes and functions have beyond ONNX."""
    if include_self is True:
        result = scatter_small(data, indices, updates, reduction)
        if result is not None:
            return result
    data = read_array(NAME, "data", data)
    check_wide_reduction(NAME, reduction, include_self, data)
    return scatter_slices(_NAMES, data, indices, updates, reduction, include_self)


def _pullback(
    data: npt.ArrayLike,
    indices: npt.ArrayLike,
    updates: npt.ArrayLike,
    reduction: str = "none",
    include_self: bool = True,
    *,
    output: npt.NDArray[Any] | None = None,
) -> Pullback:
    data = read_array(NAME, "data", data)
    check_wide_reduction(NAME, reduction, include_self, data)
    if output is None and reduction in ("max", "min"):
        output = _forward(data, indices, updates, reduction, include_self)
    rows, width, updates = read_slices(_NAMES, data, indices, updates)
    shapes = data.shape, None, updates.shape
    return scatter_pullback(NAME, shapes, data, rows, width, updates, output, reduction, include_self)


def check_wide_reduction(op: str, reduction: Any, include_self: Any, data: npt.NDArray[Any]) -> None:
    """Check what nodes and functions have beyond ONNX: the reduction "mean", and `include_self`."""
    check_choice(op, "reduction", reduction, WIDE_REDUCTIONS)
    if not isinstance(include_self, (bool, np.bool_)):
        raise OperatorError(op, f"include_self is {described(include_self)}; expected True or False")
    if reduction != "mean":
        check_reduction(op, reduction, data, WIDE_REDUCTIONS)
        return
    own = "string" if is_string(data.dtype) else name_of(data.dtype)
    if own in _NO_MEAN:
        reason, left = _NO_MEAN[own]
        raise OperatorError(
            op, f"reduction is 'mean' and data has dtype {own}, but {reason}; expected {listed(left)}"
        )
    check_dtype(op, "data", data, STANDARD)


_RAMP = np.array([1, 2, 3, 4, 5, 6, 7, 8], np.float32)
_CUBE = np.array(
    [
        [[1, 2, 3, 4], [5, 6, 7, 8], [8, 7, 6, 5], [4, 3, 2, 1]],
        [[1, 2, 3, 4], [5, 6, 7, 8], [8, 7, 6, 5], [4, 3, 2, 1]],
        [[8, 7, 6, 5], [4, 3, 2, 1], [1, 2, 3, 4], [5, 6, 7, 8]],
        [[8, 7, 6, 5], [4, 3, 2, 1], [1, 2, 3, 4], [5, 6, 7, 8]],
    ],
    np.float32,
)
_SLICES = np.array(
    [
        [[5, 5, 5, 5], [6, 6, 6, 6], [7, 7, 7, 7], [8, 8, 8, 8]],
        [[1, 1, 1, 1], [2, 2, 2, 2], [3, 3, 3, 3], [4, 4, 4, 4]],
    ],
    np.float32,
)
_TWICE = np.array([[1], [3], [1]])
_THREE = np.array([10, -2, 5], np.float32)


def _f32(*values: float) -> npt.NDArray[np.float32]:
    return np.array(values, np.float32)


CASES = (
    Case(
        "elements",
        (_RAMP, np.array([[4], [3], [1], [7]]), _f32(9, 10, 11, 12)),
        expected=_f32(1, 11, 3, 10, 9, 6, 7, 12),
    ),
    Case(
        "slices",
        (_CUBE, np.array([[0], [2]]), _SLICES),
        expected=np.stack([_SLICES[0], _CUBE[1], _SLICES[1], _CUBE[3]]),
    ),
    Case("duplicates, none", (_RAMP, _TWICE, _THREE), expected=_f32(1, 5, 3, -2, 5, 6, 7, 8)),
    Case("duplicates, add", (_RAMP, _TWICE, _THREE), {"reduction": "add"}, _f32(1, 17, 3, 2, 5, 6, 7, 8)),
    Case("duplicates, mul", (_RAMP, _TWICE, _THREE), {"reduction": "mul"}, _f32(1, 100, 3, -8, 5, 6, 7, 8)),
    Case("duplicates, max", (_RAMP, _TWICE, _THREE), {"reduction": "max"}, _f32(1, 10, 3, 4, 5, 6, 7, 8)),
    Case("duplicates, min", (_RAMP, _TWICE, _THREE), {"reduction": "min"}, _f32(1, 2, 3, -2, 5, 6, 7, 8)),
    Case(
        "negative indices",
        (_RAMP, np.array([[-1], [-8]]), _f32(9, 10)),
        expected=_f32(10, 2, 3, 4, 5, 6, 7, 9),
    ),
    Case(
        "whole tensors, k = 0",
        (
            np.array([[65, 17], [-14, -25]]),
            np.zeros((2, 0), np.int64),
            np.array([[[-1, -2], [1, 2]], [[3, 4], [-3, -4]]]),
        ),
        {"reduction": "add"},
        np.array([[67, 19], [-16, -27]]),
    ),
    Case("no index", (_RAMP, np.zeros((0, 1), np.int64), _f32()), expected=_RAMP),
    Case(
        "index out of range",
        (_RAMP, np.array([[4], [3], [9]]), _f32(9, 10, 11)),
        error="ScatterND: indices[2, 0] is 9; expected -8..7 (axis 0 of data)",
    ),
    Case(
        "index into nothing",
        (np.zeros((0, 3)), np.array([[0]]), np.zeros((1, 3))),
        error="ScatterND: indices[0, 0] is 0, but axis 0 of data has size 0: no index into it is valid",
    ),
    Case(
        "shape of updates",
        (np.zeros((4, 5)), np.array([[0], [1]]), np.zeros((2, 4))),
        error="ScatterND: updates has shape (2, 4); expected indices.shape[:-1] + data.shape[1:]"
        " = (2,) + (5,) = (2, 5)",
    ),
    Case(
        "index too deep",
        (_RAMP, np.array([[0, 0]]), _f32(9)),
        error="ScatterND: indices has shape (1, 2), so that an index has 2 numbers;"
        " expected at most 1, the rank of data",
    ),
    Case(
        "scalar data",
        (np.float32(1), np.array([[0]]), _f32(9)),
        error="ScatterND: data is a scalar; expected rank 1 or more",
    ),
    Case(
        "scalar index",
        (_RAMP, np.int64(4), np.float32(9)),
        error="ScatterND: indices is a scalar; expected rank 1 or more:"
        " the last axis holds one index, as in [[4]]",
    ),
    Case(
        "dtype of indices",
        (_RAMP, np.array([[4.0]]), _f32(9)),
        error="ScatterND: indices has dtype float64; expected an integer dtype, such as int64",
    ),
    Case(
        "dtype of updates",
        (_RAMP, np.array([[4]]), np.array([9.0])),
        error="ScatterND: updates has dtype float64 and data has float32;"
        " expected the same dtype: cast one of them first, with astype",
    ),
    Case(
        "unknown reduction",
        (_RAMP, _TWICE, _THREE),
        {"reduction": "sum"},
        error="ScatterND: reduction is 'sum'; expected 'none', 'add', 'mul', 'max' or 'min'; "
        "did you mean 'add'?",
    ),
    Case(
        "no order",
        (np.array([1j]), np.array([[0]]), np.array([2j])),
        {"reduction": "max"},
        error="ScatterND: reduction is 'max' and data has dtype complex128,"
        " but complex numbers have no order; expected 'none', 'add' or 'mul'",
    ),
    Case(
        "no product",
        (np.array(["a"]), np.array([[0]]), np.array(["b"])),
        {"reduction": "mul"},
        error="ScatterND: reduction is 'mul' and data has dtype string,"
        " but strings have no product; expected 'none', 'add', 'max' or 'min'",
    ),
)

SCATTER_ND = add_op(
    Op(
        name=NAME,
        inputs=("data", "indices", "updates"),
        attributes=WIDE_ATTRIBUTES,
        versions={
            11: "The operator: updates replace what they meet.",
            13: "Adds bfloat16.",
            16: "Adds the attribute reduction, with 'none', 'add' and 'mul'.",
            18: "Adds the reductions 'max' and 'min'.",
        },
        forward=_forward,
        onnx_form=partial(scatter_form, NAME),
        cases=CASES,
        doc="A copy of a tensor with slices of it replaced, or reduced with, by index.",
        pullback=_pullback,
    )
)
