"""The operators: one file each, found by name in the table `OPS`."""

from __future__ import annotations

from mdf_scatter.ops import scatter_nd as _scatter_nd  # noqa: F401  (importing it fills the table)
from mdf_scatter.ops.op import OPS, Attribute, Case, Op

__all__ = ["OPS", "Attribute", "Case", "Op"]
