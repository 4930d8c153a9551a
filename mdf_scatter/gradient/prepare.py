"""A model as the backward pass needs it: flat, typed, and at an operator set that the rules write for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import onnx
import onnx.inliner
import onnx_ir as ir
from modeci_mdf.mdf import Model

from mdf_scatter.errors import UnsupportedError
from mdf_scatter.gradient.known import known_value
from mdf_scatter.gradient.table import CONSTANT, RULES
from mdf_scatter.lower import lower
from mdf_scatter.lower.builder import WORKING_OPSET
from mdf_scatter.lower.evaluation import Key
from mdf_scatter.lower.graphs import TypeOf
from mdf_scatter.lower.opsets import move_to_opset, needed_opset, with_int64_indices
from mdf_scatter.lower.protos import model_proto
from mdf_scatter.signatures import schema_of


def prepared(model: Model, held: list[Key], types: TypeOf | None = None) -> ir.Model:
    """Lower a model for differentiation.

    Functions, and operators without a rule that ONNX defines by others, are written out. Types are inferred
    anew with what shapes are computed from.

    Args:
        model: The model.
        held: Parameters that stay initializers of their own.
        types: dtype and shape of graph inputs, by name, where the ports declare none.

    Raises:
        UnsupportedError: See `lower`; or a node cannot be written at the operator set of the rules.
    """
    lowered = lower(model, types=types, held=held)
    with_int64_indices(lowered)
    moved = move_to_opset(lowered, max(needed_opset(lowered), WORKING_OPSET))
    proto = model_proto(moved)
    if proto.functions:
        proto = onnx.inliner.inline_local_functions(proto)
    defined = {(node.domain, node.op_type) for node in _nodes(proto.graph) if _is_defined(proto, node)}
    for operator in sorted(defined):
        try:
            proto = onnx.inliner.inline_selected_functions(proto, [operator], inline_schema_functions=True)
        except RuntimeError:
            # The inliner cannot write it out where an input is left out; then it is one without a rule.
            continue
    typed = _inferred(proto, str(model.id))
    while _settle_branches(typed.graph):
        proto = ir.to_proto(typed)
        # Types of what a branch gave were those of both branches.
        del proto.graph.value_info[:]
        typed = _inferred(proto, str(model.id))
    return typed


def _inferred(proto: onnx.ModelProto, name: str) -> ir.Model:
    for node in proto.graph.node:
        if node.op_type == "Loop" and node.domain == "":
            _type_carried(proto.graph, node)
    try:
        return ir.from_proto(onnx.shape_inference.infer_shapes(proto, data_prop=True))
    except onnx.shape_inference.InferenceError as error:
        raise UnsupportedError(f"model {name!r}: {str(error).splitlines()[0]}") from error


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


def _is_defined(proto: onnx.ModelProto, node: onnx.NodeProto) -> bool:
    """Tell whether ONNX defines an operator that has no rule by others."""
    if (node.domain, node.op_type) in RULES or (node.domain == "" and node.op_type in CONSTANT):
        return False
    opset = next((entry.version for entry in proto.opset_import if entry.domain == node.domain), None)
    schema: Any = schema_of(node.op_type, node.domain, opset)
    return schema is not None and (schema.has_function or schema.has_context_dependent_function)


def _nodes(graph: onnx.GraphProto) -> Iterator[onnx.NodeProto]:
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from _nodes(attribute.g)
            for inner in attribute.graphs:
                yield from _nodes(inner)
