"""What of a graph is the same in every run: constants, shapes of inputs, and what comes of these alone."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from mdf_scatter.tensors import array_of

Array = npt.NDArray[Any]

RANDOM = frozenset({"Bernoulli", "Dropout", "Multinomial", "RandomNormal", "RandomNormalLike",
                    "RandomUniform", "RandomUniformLike"})  # fmt: skip
"""Operators of ONNX whose results differ from run to run."""

LARGEST = 1 << 20
"""Bytes of a constant, and of what comes of some, up to which that is kept and not computed in every run."""

_NUMBERS = {
    "value_int": np.int64,
    "value_ints": np.int64,
    "value_float": np.float32,
    "value_floats": np.float32,
}


def is_small(value: Any) -> bool:
    """Tell whether a value is an array of few enough elements to compute with before anybody asks."""
    return isinstance(value, np.ndarray) and value.nbytes <= LARGEST


def fixed(graph: ir.Graph, constants: Mapping[str, Any]) -> tuple[dict[str, Array], list[ir.Node]]:
    """Return what the graph itself tells, by name, and the nodes that compute from what is small of it.

    Args:
        graph: The graph, sorted.
        constants: Its values that are there before it runs, by name; those of its inputs may be others.
    """
    inputs = {str(value.name) for value in graph.inputs}
    known = {name for name, value in constants.items() if is_small(value)} - inputs
    told: dict[str, Array] = {}
    nodes: list[ir.Node] = []
    for node in graph:
        array = _told(node)
        if array is not None:
            told[str(node.outputs[0].name)] = array
            if not is_small(array):
                continue
        elif (
            node.op_type != "Constant"
            and repeats(node)
            and all(str(value.name) in known for value in node.inputs if value is not None)
        ):
            nodes.append(node)
        else:
            continue
        known.update(str(value.name) for value in node.outputs)
    return told, nodes


def shape_told(node: ir.Node) -> Array | None:
    """Return what a Shape or Size gives; None where its input's sizes, as far as it asks, are not known."""
    asked = _asked(node)
    if asked is None or not all(isinstance(size, int) for size in asked):
        return None
    sizes = [int(size) for size in asked]
    return np.array(sizes if node.op_type == "Shape" else math.prod(sizes), np.int64)


def _asked(node: ir.Node) -> Sequence[Any] | None:
    """Return the sizes that a Shape or Size asks for, known or not; None where not even their number is."""
    source = node.inputs[0]
    if source is None or source.shape is None:
        return None
    start, end = (node.attributes.get(name) for name in ("start", "end"))
    return source.shape.dims[
        0 if start is None else start.as_int() : len(source.shape) if end is None else end.as_int()
    ]


def _told(node: ir.Node) -> Array | None:
    if node.domain != "" or not node.outputs or node.outputs[0].name is None:
        return None
    if node.op_type == "Constant":
        return _constant(node)
    if node.op_type not in ("Shape", "Size") or node.inputs[0] is None:
        return None
    # What is said of other values' shapes need not be true; those of inputs are checked.
    source = node.inputs[0]
    if source.is_graph_input():
        return shape_told(node)
    before = source.producer()
    is_rank = node.op_type == "Size" and before is not None and before.op_type == "Shape"
    if before is None or not is_rank or before.inputs[0] is None or not before.inputs[0].is_graph_input():
        return None
    sizes = _asked(before)
    return None if sizes is None else np.array(len(sizes), np.int64)


def _constant(node: ir.Node) -> Array | None:
    # A sparse tensor has no typed form, so the node has no attribute here.
    name, attribute = next(iter(node.attributes.items()), ("", None))
    if attribute is None or attribute.is_ref():
        return None
    if name in _NUMBERS:
        return np.array(attribute.value, _NUMBERS[name])
    return array_of(attribute.as_tensor()) if name == "value" else None


def repeats(node: ir.Node) -> bool:
    """Tell whether a node gives the same for the same inputs, and reads nothing else."""
    if node.domain != "" or node.op_type in RANDOM:
        return False
    graphs = (ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS)
    return all(not part.is_ref() and part.type not in graphs for part in node.attributes.values())
