"""The values of graphs by their names, and the types that lowering to ONNX finds for them."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import NamedTuple

import onnx_ir as ir
from modeci_mdf.mdf import Graph, Model

from mdf_scatter.drawing.tensor_type import TensorType
from mdf_scatter.onnx_types import element_name
from mdf_scatter.wiring import graph_inputs, graph_outputs, is_pass_through, onnx_metadata


class Place(NamedTuple):
    """A port, by the ids of its node and itself."""

    node: str
    port: str


def value_names(graph: Graph) -> dict[Place, str]:
    """Return the name by which graphs inside a graph, and ONNX, know the value at each output port."""
    shared = Counter(port.id for node in graph.nodes for port in node.output_ports)
    named = {
        Place(node.id, port.id): str(
            onnx_metadata(port).get("name") or (port.id if shared[port.id] == 1 else f"{node.id}.{port.id}")
        )
        for node in graph.nodes
        for port in node.output_ports
    }
    named |= {Place(item.node.id, item.port.id): item.name for item in graph_outputs(graph)}
    return named | {
        Place(item.node.id, item.node.output_ports[0].id): item.name
        for item in graph_inputs(graph)
        if is_pass_through(item.node)
    }


def lowered_types(model: Model) -> dict[str, TensorType]:
    """Return the types that ONNX's inference finds, by the values' names.

    Args:
        model: The model; where it has no form in ONNX, nothing is found.
    """
    from mdf_scatter.lower import lower

    try:
        lowered = lower(model)
    except Exception:  # whatever is wrong with a model, its picture is what helps to find it
        return {}
    found: dict[str, set[TensorType]] = defaultdict(set)
    for node in lowered.graph.all_nodes():
        for value in node.outputs:
            if value.name:
                found[value.name].add(_of_ir(value))
    # Graphs side by side may use one name for different values.
    return {name: types.pop() for name, types in found.items() if len(types) == 1}


def _of_ir(value: ir.Value) -> TensorType:
    dtype = None if value.dtype is None else element_name(int(value.dtype))
    if value.shape is None:
        return TensorType(dtype)
    return TensorType(dtype, tuple(n if isinstance(n, int) else n.value for n in value.shape))
