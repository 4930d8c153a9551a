"""Plain numbers and lists beside tensors: ONNX promotes nothing, so they become tensors of the same dtype."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from mdf_scatter.lower.arithmetic import dtype_of, is_weak
from mdf_scatter.lower.builder import HELD, WEAK, Builder, Literal, Operand
from mdf_scatter.ops.plain import fitted


def is_plain(operand: Operand) -> bool:
    """Tell whether an operand is a number or list that tells no dtype."""
    if isinstance(operand, ir.Value):
        return bool(operand.meta.get(WEAK)) or HELD in operand.meta
    return operand.listed or is_weak(operand)


def dtype_beside(operands: Sequence[Operand]) -> np.dtype[Any] | None:
    """Return the dtype of the first tensor; where all are plain, one that holds all."""
    if any(isinstance(operand, ir.Value) and operand.dtype is None for operand in operands):
        return None
    tensors = [operand for operand in operands if not is_plain(operand)]
    dtypes = [dtype_of(operand) for operand in tensors or operands]
    return dtypes[0] if tensors else np.result_type(*dtypes)


def as_tensor(builder: Builder, operand: Operand, dtype: np.dtype[Any] | None, name: str) -> ir.Value:
    """Return a plain number or list in a dtype; in its own where that cannot hold it.

    Args:
        builder: Where nodes go.
        operand: The number or list.
        dtype: The dtype of the tensors beside it; None where there are none.
        name: Name of the node that reads it.
    """
    if dtype is None:
        return builder.materialise(operand)
    if isinstance(operand, Literal):
        return builder.materialise(operand, fitted(np.asarray(operand.value), dtype).dtype)
    if operand.const_value is not None:
        fits = fitted(operand.const_value.numpy(), dtype).dtype == dtype
    else:
        fits = np.can_cast(dtype_of(operand), dtype, "same_kind")
    return builder.cast(operand, dtype, name) if fits else operand
