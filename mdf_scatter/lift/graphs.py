"""One ONNX graph as an MDF graph."""

from __future__ import annotations

import json
from typing import Any

import onnx
import onnx_ir as ir
from modeci_mdf.mdf import Edge, Function, Graph, InputPort, Node, OutputPort, Parameter

from mdf_scatter.lift.values import (
    arguments,
    attribute_value,
    constant_of,
    declared,
    function_of,
    keep_name,
    safe_id,
    set_default,
)
from mdf_scatter.lower.functions import CARRIED, METADATA
from mdf_scatter.wiring import graph_inputs, graph_outputs, onnx_metadata


class GraphLifting:
    """Lifts one graph.

    Args:
        source: The ONNX graph.
        imports: Operator set version of each domain.
    """

    def __init__(self, source: ir.Graph, imports: dict[str, int]) -> None:
        self._source = source
        self._imports = imports
        self._ids: set[str] = set()
        self._ports: set[str] = set()
        self._places: dict[str, tuple[str, str]] = {}
        self._edges: list[Edge] = []

    def graph(self) -> Graph:
        """Return the MDF graph.

        Raises:
            FormatError: A node has more inputs than its operator.
            UnsupportedError: A part cannot be held in MDF yet; the message names it.
        """
        source = self._source
        inline = {str(value.name) for value in source.inputs if _feeds_its_namesake(value, self._imports)}
        nodes = [self._input_node(value) for value in source.inputs if value.name not in inline]
        inputs = {str(value.name) for value in source.inputs}
        shown = {str(value.name) for value in source.outputs if value.producer() is None} - inputs
        nodes += [self._constant_node(source.initializers[name]) for name in sorted(shown)]
        nodes += [self._node(node, inline) for node in source]
        metadata: dict[str, Any] = {"opset": self._imports.get("", 1)}
        text = source.metadata_props.get(METADATA + "metadata")
        user = json.loads(text) if text else {}
        if source.doc_string:
            metadata["doc_string"] = source.doc_string
        props = {k: v for k, v in source.metadata_props.items() if k != METADATA + "metadata"}
        if props:
            metadata["metadata_props"] = props
        if not source.name:
            metadata["name"] = ""
        graph = Graph(id=source.name or "graph", nodes=nodes, edges=self._edges)
        graph.metadata = user | {"onnx": metadata}
        return _with_order(graph, source, self._places)

    def _input_node(self, value: ir.Value) -> Node:
        port_id = safe_id(str(value.name), set())
        self._ports.add(port_id)
        node = Node(id=self._free_id(port_id))
        port = InputPort(id=port_id, **declared(value))
        keep_name(port, value, port_id)
        set_default(port, value)
        node.input_ports.append(port)
        node.output_ports.append(OutputPort(id=port_id, value=port_id, **declared(value)))
        self._places[str(value.name)] = (node.id, port_id)
        return node

    def _constant_node(self, value: ir.Value) -> Node:
        port_id = safe_id(str(value.name), set())
        node = Node(id=self._free_id(port_id))
        node.parameters.append(Parameter(id=port_id, value=constant_of(value)))
        port = OutputPort(id=port_id, value=port_id, **declared(value))
        keep_name(port, value, port_id)
        node.output_ports.append(port)
        self._places[str(value.name)] = (node.id, port_id)
        return node

    def _node(self, source: ir.Node, inline: set[str]) -> Node:
        node = Node(id=self._free_id(safe_id(source.name or source.op_type, set())))
        own: dict[str, Any] = {} if source.name == node.id else {"name": source.name or ""}
        if source.doc_string:
            own["doc_string"] = source.doc_string
        taken: set[str] = set()
        args: dict[str, Any] = {}
        for formal, values in arguments(source, self._imports):
            names = [self._argument(node, formal, position, value, taken, inline)
                     for position, value in enumerate(values)]  # fmt: skip
            if formal.option == onnx.defs.OpSchema.FormalParameterOption.Variadic:
                args[formal.name] = f"[{', '.join(names)}]"
            elif names:
                args[formal.name] = names[0]
        for name, attribute in source.attributes.items():
            parameter_id = safe_id(name, taken)
            taken.add(parameter_id)
            node.parameters.append(Parameter(id=parameter_id, value=attribute_value(source, attribute)))
            args[name] = parameter_id
        props = dict(source.metadata_props)
        for name in CARRIED:
            if (text := props.pop(METADATA + name, None)) is not None:
                node.parameters.append(Parameter(id=name, value=json.loads(text)))
                if name != "specified_outputs_name":
                    args[name] = name
                taken.add(name)
        user = json.loads(props.pop(METADATA + "metadata", "{}"))
        if props:
            own["metadata_props"] = props
        node.metadata = (user | {"onnx": own}) if own else (user or None)
        function = Function(
            id=safe_id(source.op_type.lower(), taken), function=function_of(source), args=args
        )
        node.functions.append(function)
        self._outputs(node, source, function.id)
        return node

    def _argument(
        self,
        node: Node,
        formal: Any,
        position: int,
        value: ir.Value,
        taken: set[str],
        inline: set[str],
    ) -> str:
        variadic = formal.option == onnx.defs.OpSchema.FormalParameterOption.Variadic
        port_id = safe_id(f"{formal.name}_{position}" if variadic else formal.name, taken)
        taken.add(port_id)
        if value.const_value is not None and not value.is_graph_input() and value.producer() is None:
            parameter = Parameter(id=port_id, value=constant_of(value))
            if value.name != f"{node.id}.{port_id}":
                parameter.metadata = {"onnx": {"name": value.name}}
            node.parameters.append(parameter)
            return port_id
        port = InputPort(id=port_id, **declared(value))
        node.input_ports.append(port)
        if value.name in inline:
            set_default(port, value)
            return port_id
        sender, sender_port = self._places[str(value.name)]
        self._edges.append(
            Edge(
                id=f"{sender}.{sender_port}-{node.id}.{port_id}",
                sender=sender,
                sender_port=sender_port,
                receiver=node.id,
                receiver_port=port_id,
            )
        )
        return port_id

    def _outputs(self, node: Node, source: ir.Node, function: str) -> None:
        renamed = node.get_parameter("specified_outputs_name") is not None and len(source.outputs) == 1
        for position, value in enumerate(source.outputs):
            if not value.name:
                continue
            own = value.name.removeprefix(f"{node.id}.")
            if renamed:
                port_id = "output"
            elif own != value.name and own.isidentifier():
                port_id = own
            else:
                # Output ports that share no id keep the names of ONNX's values without metadata.
                port_id = safe_id(value.name, self._ports)
                self._ports.add(port_id)
            text = function if len(source.outputs) == 1 else f"{function}[{position}]"
            port = OutputPort(id=port_id, value=text, **declared(value))
            if not renamed:
                keep_name(port, value, port_id)
            node.output_ports.append(port)
            self._places[value.name] = (node.id, port_id)

    def _free_id(self, wanted: str) -> str:
        name, count = wanted, 0
        while name in self._ids:
            count += 1
            name = f"{wanted}_{count}"
        self._ids.add(name)
        return name


def _feeds_its_namesake(value: ir.Value, imports: dict[str, int]) -> bool:
    uses = list(value.uses())
    if len(uses) != 1 or value.is_graph_output():
        return False
    node, index = uses[0].node, uses[0].idx
    seen = 0
    for formal, values in arguments(node, imports):
        if formal.option == onnx.defs.OpSchema.FormalParameterOption.Variadic:
            return False
        seen += len(values) or 1
        if seen > index:
            return bool(formal.name == value.name)
    return False


def _with_order(graph: Graph, source: ir.Graph, places: dict[str, tuple[str, str]]) -> Graph:
    """Note the order of inputs and outputs where it is not the one MDF gives them."""
    noted: dict[str, Any] = {}
    wanted = [str(value.name) for value in source.inputs]
    if [item.name for item in graph_inputs(graph)] != wanted:
        noted["inputs"] = wanted
    outputs = [places[str(value.name)] for value in source.outputs]
    if [(item.node.id, item.port.id) for item in graph_outputs(graph)] != outputs:
        noted["outputs"] = [f"{node}.{port}" for node, port in outputs]
    if noted:
        graph.metadata = (graph.metadata or {}) | {"onnx": onnx_metadata(graph) | noted}
    return graph
