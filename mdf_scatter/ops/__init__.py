"""The operators: one file each, found by name in the table `OPS`."""

from __future__ import annotations

from mdf_scatter.ops import gather_elements as _gather_elements  # noqa: F401  (importing fills the table)
from mdf_scatter.ops import gather_nd as _gather_nd  # noqa: F401
from mdf_scatter.ops import paddle_scatter_nd_add as _paddle_scatter_nd_add  # noqa: F401
from mdf_scatter.ops import scatter_elements as _scatter_elements  # noqa: F401
from mdf_scatter.ops import scatter_nd as _scatter_nd  # noqa: F401
from mdf_scatter.ops import tensor_scatter as _tensor_scatter  # noqa: F401
from mdf_scatter.ops import tf_scatter_nd as _tf_scatter_nd  # noqa: F401
from mdf_scatter.ops.op import OPS, Attribute, Case, Op

__all__ = ["OPS", "Attribute", "Case", "Op"]
