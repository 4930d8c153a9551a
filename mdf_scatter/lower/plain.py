"""Plain numbers and lists beside tensors: ONNX promotes nothing, so they become tensors of the same dtype."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from mdf_scatter.lower.arithmetic import dtype_of, is_weak
from mdf_scatter.lower.builder import HELD, WEAK, Builder, Literal, Operand
from mdf_scatter.ops.plain import fitted

_SCALARS = {
    "Clip": ("min", "max"),
    "CumSum": ("axis",),
    "Dropout": ("ratio", "training_mode"),
    "OneHot": ("depth",),
    "Pad": ("constant_value",),
    "Range": ("start", "limit", "delta"),
    "Trilu": ("k",),
}
"""Inputs of ONNX's operators that are to be scalars."""


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
    filled = [operand for operand in operands if not _is_empty(operand)]
    dtypes = [dtype_of(operand) for operand in tensors or filled or operands]
    return dtypes[0] if tensors else np.result_type(*dtypes)


def dtype_of_integers(operand: Operand) -> np.dtype[Any] | None:
    """Return the dtype of an empty list where integers belong, which tells none itself."""
    return np.dtype(np.int64) if _is_empty(operand) else None


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


def as_mdf_gives(
    builder: Builder, op_type: str, name: str, operands: Iterable[Operand | None]
) -> list[Operand | None]:
    """Return what an input of an `onnx::` function is given: for MDF's engine a number is an array of one.

    Args:
        builder: Where nodes go.
        op_type: The operator.
        name: The input.
        operands: What the file gives for it.
    """
    if builder.is_lifted or name in _SCALARS.get(op_type, ()):
        return list(operands)
    return [_array_of_one(builder, operand, op_type) for operand in operands]


def _array_of_one(builder: Builder, operand: Operand | None, op_type: str) -> Operand | None:
    if isinstance(operand, Literal):
        is_number = type(operand.value) in (int, float)
        return Literal(np.array([operand.value]), True, operand.name) if is_number else operand
    if operand is None or operand.meta.get(WEAK) not in (int, float):
        return operand
    sizes = builder.constant(np.array([1]), f"{op_type}.one")
    array = builder.op("Reshape", [operand, sizes], name=f"{op_type}.array")[0]
    array.meta.update(operand.meta)
    return array


def _is_empty(operand: Operand) -> bool:
    return isinstance(operand, Literal) and operand.listed and not np.size(operand.value)
