"""Gradients: of an operator, by its name; and what the operators make their pullbacks with."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from mdf_scatter.errors import OperatorError, did_you_mean, listed
from mdf_scatter.kernels.pullback import GatherPullback, ZerosPullback, remember
from mdf_scatter.ops.arguments import check_choice
from mdf_scatter.ops.op import OPS, Op, Pullback, has_gradient, row_shape

Array = npt.NDArray[Any]
Rows = npt.NDArray[np.int64]
Shapes = tuple[tuple[int, ...] | None, ...]


def vjp(
    op: str, grad: npt.ArrayLike, *inputs: npt.ArrayLike | None, **attributes: Any
) -> tuple[npt.NDArray[Any] | None, ...]:
    """Return the gradients of an operator's inputs: the vector-Jacobian product with `grad`.

    Where several updates meet one element: under "none" the last one has the gradient; under "max" and
    "min" all that equal the result, data and updates alike, have the same share of it, and where the
    result is NaN all have NaN. Products need no quotients, so that zeros are exact. Complex gradients
    are conjugated as torch does it: `Re(conj(gradient) * d)` is what a step `d` of an input changes.
    float16 and bfloat16 are computed in float32 and rounded once.

    Args:
        op: A name in `OPS`, such as "ScatterND".
        grad: T[...]: the gradient of the output, of its shape and dtype. T is float16, bfloat16,
            float32, float64, complex64 or complex128.
        inputs: The operator's inputs, in order.
        attributes: Its attributes, by name.

    Returns:
        One gradient for each input of the operator, in order: a new array of the input's shape and
        dtype; None for an integer input, such as indices.

    Raises:
        OperatorError: There is no such operator or attribute, an input is wrong, the dtype has no
            gradient, or `grad` does not fit the output.

    >>> data, indices, updates = [1.0, 2.0, 3.0], [[2], [2]], [5.0, 7.0]
    >>> vjp("ScatterND", [0.1, 0.2, 1.0], data, indices, updates, reduction="mul")
    (array([ 0.1,  0.2, 35. ]), None, array([21., 15.]))
    """
    check_choice("vjp", "op", op, tuple(OPS))
    operator = OPS[op]
    _check_call(operator, len(inputs), attributes)
    if operator.pullback is None:
        raise OperatorError(op, "there is no gradient of this operator")
    return operator.pullback(*inputs, **attributes)(grad)


def scatter_pullback(
    op: str,
    inputs: Shapes,
    data: Array,
    rows: Rows,
    width: int,
    updates: Array,
    output: Array | None,
    reduction: str,
    include_self: bool = True,
) -> Pullback:
    """Keep what the way back through a scatter needs.

    Args:
        op: Name of the operator.
        inputs: Shape of each of its inputs, data before updates; None for one that has no gradient.
        data: T[...], as it was before.
        rows: The row each update went to, (N,), a new array.
        width: Elements in a row.
        updates: T[...], N * width elements.
        output: T[...], the result; only "max" and "min" need it.
        reduction: One of `WIDE_REDUCTIONS`.
        include_self: Whether data took part on touched rows.
    """
    kept = None
    if has_gradient(data.dtype):
        rows = rows if updates.size else np.zeros(0, np.int64)
        tall = row_shape(data, width)
        needed = None if output is None or reduction not in ("max", "min") else output.reshape(tall)
        kept = remember(
            data.reshape(tall),
            rows,
            updates.reshape(len(rows), width),
            needed,
            reduction,
            include_self,
        )
    return Pullback(op, data.shape, data.dtype, inputs, width, kept)


def gather_pullback(
    op: str, inputs: Shapes, data: Array, rows: Rows, width: int, shape: tuple[int, ...]
) -> Pullback:
    """Keep what the way back through a gather needs.

    Args:
        op: Name of the operator.
        inputs: Shape of each of its inputs; None for one that has no gradient.
        data: T[...], of which the shape is kept.
        rows: The row each of N results came from, (N,), a new array.
        width: Elements in a row.
        shape: Shape of the result, of N * width elements.
    """
    kept = None
    if has_gradient(data.dtype):
        kept = GatherPullback(rows if math.prod(shape) else np.zeros(0, np.int64), row_shape(data, width)[0])
    return Pullback(op, shape, data.dtype, inputs, width, kept)


def zeros_pullback(op: str, inputs: Shapes, rows: Rows, width: int, output: Array) -> Pullback:
    """Keep what the way back through a sum of updates alone needs.

    Args:
        op: Name of the operator.
        inputs: Shape of each of its inputs; None for one that has no gradient.
        rows: The row each update went to, (N,), a new array.
        width: Elements in a row.
        output: T[...], the result.
    """
    kept = None
    if has_gradient(output.dtype):
        kept = ZerosPullback(rows if width else np.zeros(0, np.int64), row_shape(output, width)[0])
    return Pullback(op, output.shape, output.dtype, inputs, width, kept)


def _check_call(op: Op, count: int, attributes: dict[str, Any]) -> None:
    if not len(op.inputs) - len(op.optional) <= count <= len(op.inputs):
        optional = f"; {listed(op.optional)} may be left out" if op.optional else ""
        raise OperatorError(
            op.name,
            f"{count} inputs are given after grad; expected {', '.join(op.inputs)}, in this order{optional}",
        )
    for name in attributes:
        if name not in op.attributes:
            expected = f"expected {listed(op.attributes)}" if op.attributes else "it has no attributes"
            raise OperatorError(
                op.name, f"there is no attribute {name!r}; {expected}{did_you_mean(name, op.attributes)}"
            )
