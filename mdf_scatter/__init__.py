"""A ScatterND that MDF and ONNX graphs can trust: run, checked, exported and drawn.

Names are imported when they are first used, so that importing the package costs almost nothing.
"""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mdf_scatter.checks import check
    from mdf_scatter.drawing.diagram import draw
    from mdf_scatter.formats import load, save
    from mdf_scatter.lift import from_onnx
    from mdf_scatter.lower import to_onnx
    from mdf_scatter.node import ScatterND
    from mdf_scatter.ops import OPS
    from mdf_scatter.ops.scatter_nd import scatter_nd
    from mdf_scatter.plugin import register, unregister
    from mdf_scatter.runner import Runner, run

_HOME = {
    "OPS": "mdf_scatter.ops",
    "Runner": "mdf_scatter.runner",
    "ScatterND": "mdf_scatter.node",
    "check": "mdf_scatter.checks",
    "draw": "mdf_scatter.drawing.diagram",
    "from_onnx": "mdf_scatter.lift",
    "load": "mdf_scatter.formats",
    "register": "mdf_scatter.plugin",
    "run": "mdf_scatter.runner",
    "save": "mdf_scatter.formats",
    "scatter_nd": "mdf_scatter.ops.scatter_nd",
    "to_onnx": "mdf_scatter.lower",
    "unregister": "mdf_scatter.plugin",
}

__all__ = [
    "OPS",
    "Runner",
    "ScatterND",
    "check",
    "draw",
    "from_onnx",
    "load",
    "register",
    "run",
    "save",
    "scatter_nd",
    "to_onnx",
    "unregister",
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
