"""How the numbers move: updates reduced into rows, in order.

An operator brings its arguments to one form, rows, and everything below works on that form alone.
All checks are done before; a kernel trusts what it is given.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from mdf_scatter.kernels import rows as _rows

REDUCTIONS = ("none", "add", "mul", "max", "min")
"""What becomes of an element that an update meets, in ONNX."""

WIDE_REDUCTIONS = (*REDUCTIONS, "mean")
"""What becomes of it where ONNX's bounds do not hold: in nodes, MDF functions and graphs."""


def scatter_rows(
    out: npt.NDArray[Any],
    data: npt.NDArray[Any] | None,
    rows: npt.NDArray[np.int64],
    updates: npt.NDArray[Any],
    reduction: str,
    include_self: bool = True,
) -> None:
    """Reduce `updates` into the rows of `data`, in order, and write the result to `out`.

    Args:
        out: The result, (R, S), C-contiguous and aligned, any operator dtype in native byte order; strings
            are objects.
        data: (R, S), dtype of `out`, sharing no memory with it; None where `out` holds it already.
        rows: The row each update goes to, (N,), in 0..R-1.
        updates: (N, S), C-contiguous, dtype of `out`, sharing no memory with it.
        reduction: One of `WIDE_REDUCTIONS`; "mean" for numbers only.
        include_self: Whether what is in a row before takes part; if not, the first update to the row
            is what the others are reduced with. "none" has no use for it.
    """
    if updates.size:
        _rows.scatter_rows(out, data, rows, updates, reduction, include_self)
    elif data is not None:
        _rows.copy(out, data)
