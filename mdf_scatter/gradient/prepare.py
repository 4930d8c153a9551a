"""A model as the backward pass needs it: flat, typed, and at an operator set that the rules write for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import onnx
import onnx.inliner
import onnx_ir as ir
from modeci_mdf.mdf import Model

from mdf_scatter.attributes import sparse_array
from mdf_scatter.gradient.inference import inferred, typed
from mdf_scatter.gradient.table import CONSTANT, RULES
from mdf_scatter.lower import lower
from mdf_scatter.lower.builder import WORKING_OPSET
from mdf_scatter.lower.evaluation import Key
from mdf_scatter.lower.graphs import TypeOf
from mdf_scatter.lower.opsets import move_to_opset, needed_opset, with_int64_indices
from mdf_scatter.lower.protos import model_proto
from mdf_scatter.names import Names
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
    _forget_sizes(proto.graph)
    _make_dense(proto.graph)
    if proto.functions:
        _say_defaults(proto)
        _copy_returned_inputs(proto)
        proto = onnx.inliner.inline_local_functions(proto)
    name = str(model.id)
    return typed(_written_out(proto, name), name)


def _make_dense(graph: onnx.GraphProto) -> None:
    """Put dense tensors in the place of sparse ones, which the typed form has nothing for."""
    for tensor in graph.sparse_initializer:
        graph.initializer.append(onnx.numpy_helper.from_array(sparse_array(tensor), tensor.values.name))
    del graph.sparse_initializer[:]
    constants = [node for inside in _graphs(graph) for node in inside.node if node.op_type == "Constant"]
    for attribute in (attribute for node in constants for attribute in node.attribute):
        if attribute.name == "sparse_value":
            dense = onnx.numpy_helper.from_array(sparse_array(attribute.sparse_tensor))
            attribute.CopyFrom(onnx.helper.make_attribute("value", dense))


def _say_defaults(proto: onnx.ModelProto) -> None:
    """Give calls the attributes that they leave to their functions' defaults, which the inliner forgets."""
    defaults = {(part.domain, part.name, part.overload): part.attribute_proto for part in proto.functions}
    for graph in (proto.graph, *proto.functions):
        for node in (node for inside in _graphs(graph) for node in inside.node):
            said = {attribute.name for attribute in node.attribute}
            left = defaults.get((node.domain, node.op_type, node.overload), ())
            node.attribute.extend(attribute for attribute in left if attribute.name not in said)


def _copy_returned_inputs(proto: onnx.ModelProto) -> None:
    """Give functions that return an input a copy of it, as the inliner forgets who reads such an output."""
    for function in proto.functions:
        names = Names([*function.input, *(name for node in function.node for name in node.output)])
        for position, name in enumerate(function.output):
            if name in function.input:
                copied = names.take(f"{name}.returned")
                function.node.append(onnx.helper.make_node("Identity", [name], [copied]))
                function.output[position] = copied


def _written_out(proto: onnx.ModelProto, name: str) -> onnx.ModelProto:
    """Put what ONNX defines operators by in the place of those that have no rule."""
    defined = {
        (node.domain, node.op_type)
        for graph in _graphs(proto.graph)
        for node in graph.node
        if _is_defined(proto, node)
    }
    if not defined:
        return proto
    told = inferred(proto, name)
    told.graph.value_info.extend(_types_inside(told.graph))
    # An input that is left out is asked for its type too; its name is empty.
    told.graph.value_info.append(onnx.helper.make_tensor_value_info("", onnx.TensorProto.FLOAT, None))
    try:
        found = onnx.inliner.inline_selected_functions(told, sorted(defined), inline_schema_functions=True)
    except RuntimeError:
        # Some definitions depend on types; where one is not known, the operators stay without a rule.
        return proto
    del found.graph.value_info[:]
    found.graph.value_info.extend(proto.graph.value_info)
    return found


def _types_inside(graph: onnx.GraphProto) -> list[onnx.ValueInfoProto]:
    """Return the types of values in bodies, which the inliner looks for in the graph around.

    Two bodies may have values of one name; where their types differ, neither is told.
    """
    _, *bodies = _graphs(graph)
    values = [value for body in bodies for value in (*body.input, *body.value_info)]
    types = {value.name: value.type for value in values}
    differing = {value.name for value in values if types[value.name] != value.type}
    return [value for value in values if value.name not in differing]


def _forget_sizes(graph: onnx.GraphProto) -> None:
    """Drop the names of sizes that only outputs have: exporters give one name to sizes that differ."""
    given = {size.dim_param for value in graph.input for size in value.type.tensor_type.shape.dim}
    for value in graph.output:
        for size in value.type.tensor_type.shape.dim:
            if size.dim_param not in given:
                size.ClearField("dim_param")


def _is_defined(proto: onnx.ModelProto, node: onnx.NodeProto) -> bool:
    """Tell whether ONNX defines an operator that has no rule by others."""
    if (node.domain, node.op_type) in RULES or (node.domain == "" and node.op_type in CONSTANT):
        return False
    opset = next((entry.version for entry in proto.opset_import if entry.domain == node.domain), None)
    schema: Any = schema_of(node.op_type, node.domain, opset)
    return schema is not None and (schema.has_function or schema.has_context_dependent_function)


def _graphs(graph: onnx.GraphProto | onnx.FunctionProto) -> Iterator[onnx.GraphProto | onnx.FunctionProto]:
    """Give a graph, or a function, and the graphs inside it."""
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            inside = [attribute.g] if attribute.HasField("g") else []
            for inner in (*inside, *attribute.graphs):
                yield from _graphs(inner)
