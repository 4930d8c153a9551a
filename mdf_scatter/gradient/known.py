"""What values of a graph are, where that depends on nothing from outside: shapes, axes, positions."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnx_ir as ir

from mdf_scatter.fixed import repeats, shape_told
from mdf_scatter.lower.protos import node_proto, value_proto
from mdf_scatter.tensors import array_of

Array = npt.NDArray[Any]

_FOUND = "mdf_scatter.known"

_LARGEST = 1024
"""Elements up to which a value is worth knowing: shapes, axes and positions have few."""


def known_value(value: ir.Value, opset: int) -> Array | None:
    """Return what a value is in every run; None where that depends on an input, or is much.

    Args:
        value: The value.
        opset: The operator set of its graph.
    """
    if _FOUND not in value.meta:
        value.meta[_FOUND] = _found(value, opset)
    found: Array | None = value.meta[_FOUND]
    return found


def _found(value: ir.Value, opset: int) -> Array | None:
    if value.is_graph_input():
        return None
    if value.const_value is not None:
        return array_of(value.const_value) if value.const_value.size <= _LARGEST else None
    node = value.producer()
    if node is None or not repeats(node):
        return None
    if node.op_type in ("Shape", "Size"):
        return shape_told(node)
    return _evaluated(node, value, opset)


def _evaluated(node: ir.Node, value: ir.Value, opset: int) -> Array | None:
    """Return what ONNX's own evaluator makes of a node whose inputs are all known."""
    feed: dict[str, Any] = {}
    for source in node.inputs:
        if source is None:
            continue
        array = known_value(source, opset)
        if array is None:
            return None
        feed[str(source.name)] = array
    if value.shape is not None and any(isinstance(size, int) and size > _LARGEST for size in value.shape):
        return None
    from onnx.reference import ReferenceEvaluator

    graph = onnx.helper.make_graph(
        [node_proto(node)],
        "known",
        [onnx.ValueInfoProto(name=name) for name in feed],
        [value_proto(value)],
    )
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", opset)])
    try:
        results: Any = ReferenceEvaluator(model).run(None, dict(feed))
        array = np.asarray(results[0])
    except Exception:  # the evaluator raises what it pleases; what it cannot do is not known
        return None
    return array if array.size <= _LARGEST else None
