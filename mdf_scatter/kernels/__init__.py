"""How the numbers move: updates reduced into rows, in order.

An operator brings its arguments to one form, rows, and everything below works on that form alone.
All checks are done before; a kernel trusts what it is given.
"""

from __future__ import annotations

from mdf_scatter.kernels.rows import scatter_rows

__all__ = ["REDUCTIONS", "WIDE_REDUCTIONS", "scatter_rows"]

REDUCTIONS = ("none", "add", "mul", "max", "min")
"""What becomes of an element that an update meets, in ONNX."""

WIDE_REDUCTIONS = (*REDUCTIONS, "mean")
"""What becomes of it where ONNX's bounds do not hold: in nodes, MDF functions and graphs."""
