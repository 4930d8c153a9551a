"""Typed ONNX models as ONNX's own messages, with what the typed form has nothing for.

`onnx_ir` holds no map types, no sparse tensors, no bytes that are not UTF-8, and no empty names at a list's
end. Lowering notes those beside the values, nodes and graphs they belong to; here they are put in.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import onnx
import onnx_ir as ir

_KEY = "mdf_scatter.proto"


@dataclass
class NodeExtras:
    """What a node has beside its typed form.

    Attributes:
        attributes: Attributes, as messages.
        order: Names of all attributes, in order.
        inputs: How many inputs are listed, the last ones without a name.
        outputs: How many outputs are listed, the last ones without a name.
        devices: Its device configurations.
    """

    attributes: list[onnx.AttributeProto] = field(default_factory=list)
    order: list[str] = field(default_factory=list)
    inputs: int = 0
    outputs: int = 0
    devices: list[Any] = field(default_factory=list)


def extras_of(node: ir.Node) -> NodeExtras:
    """Return what is noted of a node, to be added to."""
    extras: NodeExtras = node.meta.setdefault(_KEY, NodeExtras())
    return extras


def note(part: ir.Value | ir.Graph, **messages: Any) -> None:
    """Note messages that belong to a value (`type`) or a graph.

    Of a graph, `outputs` are the types of its outputs, and everything else is added to its message's
    field of that name.
    """
    part.meta.setdefault(_KEY, {}).update(messages)


def noted(part: ir.Value | ir.Graph, name: str) -> Any:
    """Return a message that is noted of a value or graph; None where there is none."""
    return part.meta.get(_KEY, {}).get(name)


def model_proto(model: ir.Model) -> onnx.ModelProto:
    """Return a typed model as ONNX's message."""
    proto = ir.serde.serialize_model(model)
    _fill_graph(proto.graph, model.graph, must_have_types=True)
    _fill_functions(proto, model)
    return proto


def function_protos(model: ir.Model) -> list[onnx.FunctionProto]:
    """Return a typed model's functions as ONNX's messages."""
    proto = onnx.ModelProto(functions=[ir.to_proto(function) for function in model.functions.values()])
    _fill_functions(proto, model)
    return list(proto.functions)


def node_proto(node: ir.Node) -> onnx.NodeProto:
    """Return a typed node as ONNX's message."""
    proto = ir.serde.serialize_node(node)
    _fill_node(proto, node)
    return proto


def value_proto(value: ir.Value) -> onnx.ValueInfoProto:
    """Return a typed value's name and type as ONNX's message."""
    proto = ir.serde.serialize_value(value)
    _fill_value(proto, value)
    return proto


def _fill_functions(proto: onnx.ModelProto, model: ir.Model) -> None:
    for function, typed in zip(proto.functions, model.functions.values(), strict=True):
        for node, own in zip(function.node, typed, strict=True):
            _fill_node(node, own)
        function.attribute_proto.extend(noted(typed.graph, "attribute_proto") or [])


def _fill_graph(proto: onnx.GraphProto, graph: ir.Graph, *, must_have_types: bool = False) -> None:
    for values, messages in ((graph.inputs, proto.input), (graph.outputs, proto.output)):
        for value, message in zip(values, messages, strict=True):
            _fill_value(message, value)
    for node, own in zip(proto.node, graph, strict=True):
        _fill_node(node, own)
    extras = dict(graph.meta.get(_KEY, {}))
    for value, kind in zip(proto.output, extras.pop("outputs", ()), strict=False):
        if not must_have_types or kind.tensor_type.HasField("shape"):
            value.type.CopyFrom(kind)
        if not value.type.WhichOneof("value"):
            value.ClearField("type")
    for name, messages in extras.items():
        getattr(proto, name).extend(messages)


def _fill_value(proto: onnx.ValueInfoProto, value: ir.Value) -> None:
    kind = noted(value, "type")
    if kind is not None:
        proto.type.CopyFrom(kind)


def _fill_node(proto: onnx.NodeProto, node: ir.Node) -> None:
    for attribute in proto.attribute:
        if attribute.type == onnx.AttributeProto.GRAPH and not attribute.ref_attr_name:
            _fill_graph(attribute.g, node.attributes[attribute.name].as_graph())
        elif attribute.type == onnx.AttributeProto.GRAPHS and not attribute.ref_attr_name:
            inner = node.attributes[attribute.name].as_graphs()
            for message, graph in zip(attribute.graphs, inner, strict=True):
                _fill_graph(message, graph)
    extras: NodeExtras | None = node.meta.get(_KEY)
    if extras is None:
        return
    if extras.attributes:
        known = {attribute.name: attribute for attribute in (*proto.attribute, *extras.attributes)}
        ordered = [known.pop(name) for name in extras.order if name in known]
        written = onnx.NodeProto(attribute=[*ordered, *known.values()])
        del proto.attribute[:]
        proto.attribute.extend(written.attribute)
    proto.input.extend([""] * (extras.inputs - len(proto.input)))
    proto.output.extend([""] * (extras.outputs - len(proto.output)))
    proto.device_configurations.extend(extras.devices)
