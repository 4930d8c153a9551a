"""Types of a graph's values, as far as they can be known: more than ONNX's own inference finds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy.typing as npt
import onnx
import onnx_ir as ir

from mdf_scatter.errors import UnsupportedError
from mdf_scatter.gradient.known import known_value


def typed(proto: onnx.ModelProto, name: str) -> ir.Model:
    """Return a model with the types of its values, and a branch in place of each If that always takes it.

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
        model = _inferred(proto, name)
        proto = ir.to_proto(model)
        if _settle_branches(model.graph):
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
        found = _types_knowing(proto, known)
        del proto.graph.value_info[:]
        proto.graph.value_info.extend(found)


def _inferred(proto: onnx.ModelProto, name: str) -> ir.Model:
    for node in proto.graph.node:
        if node.op_type == "Loop" and node.domain == "":
            _type_carried(proto.graph, node)
    try:
        return ir.from_proto(onnx.shape_inference.infer_shapes(proto, data_prop=True))
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


def _settle_branches(graph: ir.Graph) -> bool:
    """Put, for each If whose condition is known, the nodes of its branch in its place; tell whether any was.

    Exporters write such conditions on ranks; what stands in both branches has no known rank.
    """
    opset, found = graph.opset_imports[""], False
    for node in list(graph):
        condition = node.inputs[0] if node.domain == "" and node.op_type == "If" else None
        known = None if condition is None else known_value(condition, opset)
        if known is not None:
            _put(graph, node, node.attributes["then_branch" if known.item() else "else_branch"].as_graph())
            found = True
    return found


def _put(graph: ir.Graph, node: ir.Node, branch: ir.Graph) -> None:
    """Put the nodes of a branch in the place of an If."""
    results = list(branch.outputs)
    branch.outputs.clear()
    for name in list(branch.initializers):
        graph.register_initializer(branch.initializers.pop(name))
    for inner in list(branch):
        branch.remove(inner)
        graph.insert_before(node, inner)
    for old, new in zip(node.outputs, results, strict=True):
        if old.is_graph_output():
            last = ir.node("Identity", [new], name=f"{node.name}.{old.name}")
            graph.insert_before(node, last)
            last.outputs[0].type, last.outputs[0].name = old.type, old.name
            old.name, new = f"{old.name}.both", last.outputs[0]
        old.replace_all_uses_with(new, replace_graph_outputs=True)
    graph.remove(node, safe=True)
