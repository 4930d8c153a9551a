"""What GatherElements and ScatterElements share: one index, along one axis, for each element."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from mdf_scatter.errors import OperatorError
from mdf_scatter.kernels.along import number_elements, offsets, suits
from mdf_scatter.ops.arguments import resolve_axis


def check_elements(op: str, data: tuple[int, ...], indices: tuple[int, ...], axis: int) -> None:
    """Check that `data` and `indices` have shapes that go together: no longer, but along `axis`."""
    if len(indices) != len(data):
        raise OperatorError(
            op, f"indices has shape {indices}; expected rank {len(data)}, as data has shape {data}"
        )
    for other, (size, most) in enumerate(zip(indices, data, strict=True)):
        if other != axis and size > most:
            raise OperatorError(
                op,
                f"indices has shape {indices}; expected at most {most} along axis {other},"
                f" as data has shape {data} and axis is {axis}",
            )


def resolve_elements(
    op: str, indices: npt.NDArray[Any], shape: tuple[int, ...], axis: int
) -> npt.NDArray[np.int64]:
    """Turn indices along an axis into positions in a flat tensor.

    Args:
        op: Name of the operator, for messages.
        indices: int[...], each in -shape[axis]..shape[axis]-1, of a shape that `check_elements` passed.
        shape: Shape of the indexed tensor.
        axis: The axis that is indexed; along all others an element stays at its own place.

    Returns:
        A new array of the shape of `indices`.
    """
    if suits(np.dtype(np.int64), indices, shape[axis]):
        return number_elements(indices, shape, axis)
    positions = resolve_axis(op, indices, shape[axis], axis)
    if not positions.size or len(shape) == 1:
        return positions
    before, step, after = offsets(indices.shape, shape, axis)
    blocks = positions.reshape(len(before), -1, len(after))
    blocks *= step
    blocks += before[:, np.newaxis, np.newaxis] + after
    return positions
