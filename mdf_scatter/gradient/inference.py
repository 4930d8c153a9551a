"""Types of a graph's values, as far as they can be known: more than ONNX's own inference finds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy.typing as npt
import onnx
import onnx_ir as ir

from mdf_scatter.errors import UnsupportedError
from mdf_scatter.gradient.branches import settle_branches
from mdf_scatter.gradient.known import known_value
from mdf_scatter.gradient.sequences import settle_sequences


def typed(proto: onnx.ModelProto, name: str) -> ir.Model:
    """Return a model with the types of its values, without branches and sequences that are known.

    ONNX's inference follows sizes through few operators, so that what is reshaped or split by computed ones
    has no rank. Here integers that are the same in every run are computed, and it is told of them.

    Args:
        proto: The model.
        name: Its name, for messages.

    Raises:
        UnsupportedError: Its types contradict each other.
    """
    told: set[str] = set()
    while True:
        model = ir.from_proto(inferred(proto, name))
        if settle_branches(model.graph) or settle_sequences(model.graph):
            proto = ir.to_proto(model)
            # Types of what a branch gave were those of both branches.
            del proto.graph.value_info[:]
            continue
        if all(value.shape is not None for node in model.graph for value in node.outputs):
            return model
        known = _known_integers(model.graph)
        if known.keys() <= told:
            return model
        told.update(known)
        proto = ir.to_proto(model)
        found = _types_knowing(proto, known)
        del proto.graph.value_info[:]
        proto.graph.value_info.extend(found)


def inferred(proto: onnx.ModelProto, name: str) -> onnx.ModelProto:
    """Return a model with the types of its values that ONNX's own inference finds; see `typed`."""
    for node in proto.graph.node:
        if node.op_type == "Loop" and node.domain == "":
            _type_carried(proto.graph, node)
    try:
        return onnx.shape_inference.infer_shapes(proto, data_prop=True)
    except onnx.shape_inference.InferenceError as error:
        raise UnsupportedError(f"model {name!r}: {str(error).splitlines()[0]}") from error


def _known_integers(graph: ir.Graph) -> dict[str, npt.NDArray[Any]]:
    opset = graph.opset_imports[""]
    found = {}
    for node in graph:
        for value in node.outputs:
            is_integer = value.dtype in (ir.DataType.INT64, ir.DataType.INT32)
            known = known_value(value, opset) if is_integer and not value.is_graph_output() else None
            if known is not None:
                found[str(value.name)] = known
    return found


def _types_knowing(
    proto: onnx.ModelProto, known: Mapping[str, npt.NDArray[Any]]
) -> list[onnx.ValueInfoProto]:
    """Return what inference finds where known values are constants."""
    told = onnx.ModelProto()
    told.CopyFrom(proto)
    kept = [
        node for node in proto.graph.node if not node.output or not all(name in known for name in node.output)
    ]
    del told.graph.node[:], told.graph.value_info[:]
    told.graph.node.extend(kept)
    still_made = {name for node in kept for name in node.output}
    told.graph.initializer.extend(
        onnx.numpy_helper.from_array(array, name) for name, array in known.items() if name not in still_made
    )
    return list(onnx.shape_inference.infer_shapes(told, data_prop=True).graph.value_info)


def _type_carried(graph: onnx.GraphProto, node: onnx.NodeProto) -> None:
    """Give what a Loop carries the rank that its body declares; inference gives it none where sizes vary."""
    body = next(attribute.g for attribute in node.attribute if attribute.name == "body")
    known = {
        value.name for value in (*graph.value_info, *graph.output) if value.type.tensor_type.HasField("shape")
    }
    for name, declared in zip(node.output, body.input[2:], strict=False):
        if name and name not in known and declared.type.tensor_type.HasField("shape"):
            value = graph.value_info.add(name=name, type=declared.type)
            for size in value.type.tensor_type.shape.dim:
                size.ClearField("value")
