"""A ScatterND that MDF and ONNX graphs can trust: run, checked, exported and drawn.

Names are imported when they are first used, so that importing the package costs almost nothing.
"""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mdf_scatter.checks import check
    from mdf_scatter.drawing.cells.explain import explain
    from mdf_scatter.drawing.diagram import draw
    from mdf_scatter.formats import extract, load, save
    from mdf_scatter.gradient.model import grad
    from mdf_scatter.kernels.threads import set_num_threads
    from mdf_scatter.lift import from_onnx
    from mdf_scatter.lower import to_onnx
    from mdf_scatter.node import (
        GatherElements,
        GatherND,
        PaddleScatterNDAdd,
        ScatterElements,
        ScatterND,
        TensorScatter,
        TFScatterND,
    )
    from mdf_scatter.ops import OPS
    from mdf_scatter.ops.gather_elements import gather_elements
    from mdf_scatter.ops.gather_nd import gather_nd
    from mdf_scatter.ops.paddle_scatter_nd_add import paddle_scatter_nd_add
    from mdf_scatter.ops.scatter_elements import scatter_elements
    from mdf_scatter.ops.scatter_nd import scatter_nd
    from mdf_scatter.ops.tensor_scatter import tensor_scatter
    from mdf_scatter.ops.tf_scatter_nd import tf_scatter_nd
    from mdf_scatter.ops.vjp import vjp
    from mdf_scatter.plugin import register, unregister
    from mdf_scatter.runner import Runner, run
    from mdf_scatter.training.loop import fit

_HOME = {
    "GatherElements": "mdf_scatter.node",
    "GatherND": "mdf_scatter.node",
    "OPS": "mdf_scatter.ops",
    "PaddleScatterNDAdd": "mdf_scatter.node",
    "Runner": "mdf_scatter.runner",
    "ScatterElements": "mdf_scatter.node",
    "ScatterND": "mdf_scatter.node",
    "TFScatterND": "mdf_scatter.node",
    "TensorScatter": "mdf_scatter.node",
    "check": "mdf_scatter.checks",
    "draw": "mdf_scatter.drawing.diagram",
    "explain": "mdf_scatter.drawing.cells.explain",
    "extract": "mdf_scatter.formats",
    "fit": "mdf_scatter.training.loop",
    "from_onnx": "mdf_scatter.lift",
    "gather_elements": "mdf_scatter.ops.gather_elements",
    "gather_nd": "mdf_scatter.ops.gather_nd",
    "grad": "mdf_scatter.gradient.model",
    "load": "mdf_scatter.formats",
    "paddle_scatter_nd_add": "mdf_scatter.ops.paddle_scatter_nd_add",
    "register": "mdf_scatter.plugin",
    "run": "mdf_scatter.runner",
    "save": "mdf_scatter.formats",
    "scatter_elements": "mdf_scatter.ops.scatter_elements",
    "scatter_nd": "mdf_scatter.ops.scatter_nd",
    "set_num_threads": "mdf_scatter.kernels.threads",
    "tensor_scatter": "mdf_scatter.ops.tensor_scatter",
    "tf_scatter_nd": "mdf_scatter.ops.tf_scatter_nd",
    "to_onnx": "mdf_scatter.lower",
    "unregister": "mdf_scatter.plugin",
    "vjp": "mdf_scatter.ops.vjp",
}

__all__ = [
    "OPS",
    "GatherElements",
    "GatherND",
    "PaddleScatterNDAdd",
    "Runner",
    "ScatterElements",
    "ScatterND",
    "TFScatterND",
    "TensorScatter",
    "check",
    "draw",
    "explain",
    "extract",
    "fit",
    "from_onnx",
    "gather_elements",
    "gather_nd",
    "grad",
    "load",
    "paddle_scatter_nd_add",
    "register",
    "run",
    "save",
    "scatter_elements",
    "scatter_nd",
    "set_num_threads",
    "tensor_scatter",
    "tf_scatter_nd",
    "to_onnx",
    "unregister",
    "vjp",
]

__version__ = version("mdf-scatter")


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'mdf_scatter' has no attribute {name!r}")
    value = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
