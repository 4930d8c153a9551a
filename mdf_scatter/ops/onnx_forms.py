"""What ONNX's scatters have no attribute for, written as ONNX nodes with exactly the same meaning."""

from __future__ import annotations

from typing import Any

import numpy as np

from mdf_scatter.dtypes import BFLOAT16, HALVES
from mdf_scatter.ops.op import Emit

_NEUTRAL = {"add": 0, "mul": 1, "max": -np.inf, "min": np.inf}


def scatter_form(
    op_type: str,
    emit: Emit,
    data: Any,
    indices: Any,
    updates: Any,
    reduction: str | None = None,
    include_self: bool = True,
    **attributes: Any,
) -> Any:
    """Write a scatter, with `mean` and `include_self=False` where they are asked for.

    `mean` is a sum divided by a count, rounded towards minus infinity for integers; float16 and
    bfloat16 are summed and divided in float32. Without `self`, touched elements first become what the
    reduction leaves unchanged: for max and min an infinity, which ties with no finite update, or any of the
    updates where the dtype has none.

    Args:
        op_type: "ScatterND" or "ScatterElements".
        emit: Writes the nodes.
        data: The operator's input; so are `indices` and `updates`.
        indices: See `data`.
        updates: See `data`.
        reduction: None where the attribute is not written.
        include_self: Whether data takes part on touched elements.
        attributes: The operator's other attributes.

    Returns:
        The value of the output.
    """
    if reduction == "mean":
        return _mean(emit, op_type, data, indices, updates, include_self, attributes)
    if not include_self and reduction in ("max", "min") and not _has_infinity(emit.dtype(data)):
        data = emit(op_type, data, indices, updates, **attributes)
    elif not include_self and reduction in _NEUTRAL:
        data = _overwritten(emit, op_type, data, indices, updates, _NEUTRAL[reduction], attributes)
    written = {} if reduction is None else {"reduction": reduction}
    return emit(op_type, data, indices, updates, **attributes, **written)


def _mean(
    emit: Emit,
    op_type: str,
    data: Any,
    indices: Any,
    updates: Any,
    include_self: bool,
    attributes: dict[str, Any],
) -> Any:
    dtype = emit.dtype(data)
    if dtype in HALVES:
        wide, terms = (emit("Cast", value, to=np.dtype(np.float32)) for value in (data, updates))
        mean = _mean(emit, op_type, wide, indices, terms, include_self, attributes)
        return emit("Cast", mean, to=dtype)
    ones = emit("Expand", emit.constant(np.ones((), dtype)), emit("Shape", data))
    start = data
    if not include_self:
        start = _overwritten(emit, op_type, data, indices, updates, 0, attributes)
        ones = _overwritten(emit, op_type, ones, indices, updates, 0, attributes)
    one_each = emit("Expand", emit.constant(np.ones((), dtype)), emit("Shape", updates))
    total = emit(op_type, start, indices, updates, reduction="add", **attributes)
    count = emit(op_type, ones, indices, one_each, reduction="add", **attributes)
    quotient = emit("Div", total, count)
    if dtype.kind not in "iu":
        return quotient
    # ONNX rounds integers towards zero; one less where that was upwards.
    rest = emit("Sub", total, emit("Mul", quotient, count))
    down = emit("Less", rest, emit.constant(np.zeros((), dtype)))
    return emit("Sub", quotient, emit("Cast", down, to=dtype))


def _overwritten(
    emit: Emit,
    op_type: str,
    data: Any,
    indices: Any,
    updates: Any,
    value: float,
    attributes: dict[str, Any],
) -> Any:
    """Write `value` where there are updates."""
    dtype = emit.dtype(data)
    neutral = np.array("" if dtype.kind == "O" else value, dtype)
    if dtype.kind in "fcV" and value == 0:
        # -0.0 is what every sum leaves as it is; 0.0 + -0.0 is 0.0.
        neutral = np.negative(neutral)
    filled = emit("Expand", emit.constant(neutral), emit("Shape", updates))
    return emit(op_type, data, indices, filled, **attributes)


def _has_infinity(dtype: np.dtype[Any]) -> bool:
    return dtype.kind == "f" or dtype == BFLOAT16
