"""ONNX graphs as MDF graphs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import onnx
from google.protobuf.json_format import MessageToDict  # type: ignore[import-untyped]
from modeci_mdf.mdf import Edge, Graph, InputPort, Node, OutputPort, Parameter

from mdf_scatter.errors import FormatError
from mdf_scatter.lift.attributes import sparse_value
from mdf_scatter.lift.nodes import arguments, lifted_node
from mdf_scatter.lift.scoping import captured_by, first_uses
from mdf_scatter.lift.sources import Infos, Source, Waiting, function_source
from mdf_scatter.lift.values import constant_of, declared, documented, keep, own_metadata, properties, safe_id
from mdf_scatter.lower.functions import METADATA
from mdf_scatter.names import Names
from mdf_scatter.signatures import Signature, signature
from mdf_scatter.wiring import graph_inputs, graph_outputs, onnx_metadata


def lifted_graphs(
    proto: onnx.ModelProto, imports: Mapping[str, int], types: Sequence[onnx.ValueInfoProto]
) -> list[Graph]:
    """Return a model's graphs: the main one, its functions, and all subgraphs.

    Args:
        proto: The model.
        imports: Operator set version of each domain.
        types: What inference found of the main graph's values.

    Raises:
        FormatError: A node has more inputs than its operator, or reads what is not there.
        UnsupportedError: A part cannot be held in MDF; the message names it.
    """
    waiting = Waiting(proto.functions)
    inferred = Infos({info.name: info for info in types})
    main = Source(proto.graph, waiting.ids.take(proto.graph.name or "graph"), imports, inferred)
    if not proto.graph.name:
        main.kept["name"] = ""
    waiting.sources.append(main)
    for function in proto.functions:
        waiting.sources.append(function_source(function, waiting))
    graphs: list[Graph] = []
    while waiting.sources:
        graphs.append(_GraphLifting(waiting.sources.popleft(), waiting).graph())
    return graphs


class _GraphLifting:
    """Lifts one graph."""

    def __init__(self, source: Source, waiting: Waiting) -> None:
        self._proto = source.proto
        self._source = source
        self._waiting = waiting
        own = {
            info.name: info for info in (*source.proto.value_info, *source.proto.output, *source.proto.input)
        }
        self._infos: Infos = source.infos.new_child(
            {name: info for name, info in own.items() if info.HasField("type")}
        )
        self._said = own
        self._initializers = {tensor.name: tensor for tensor in source.proto.initializer}
        self._sparse = {tensor.values.name: tensor for tensor in source.proto.sparse_initializer}
        self._captured = captured_by(source.proto.node)
        self._ids = Names()
        self._ports = Names()
        self._places: dict[str, tuple[str, str]] = {}
        self._held: set[str] = set()
        self._readers: list[tuple[tuple[str, str] | None, str, str, str]] = []
        self._outer: list[Node] = []

    def graph(self) -> Graph:
        """Return the MDF graph."""
        source = self._proto
        inputs = {value.name for value in source.input}
        self._inline = self._inline_inputs()
        nodes = [self._input_node(value) for value in source.input if value.name not in self._inline]
        nodes += self._constant_nodes(inputs)
        made = {name for node in source.node for name in node.output}
        self._made = made
        body = [self._node(node) for node in source.node]
        graph = Graph(id=self._source.id, nodes=nodes + self._outer + body, edges=self._edges())
        key = METADATA + "metadata"
        text = next((entry.value for entry in source.metadata_props if entry.key == key), None)
        graph.metadata = (own_metadata(key, text, dict) if text else {}) | {"onnx": self._metadata()}
        return self._with_order(graph)

    def _metadata(self) -> dict[str, Any]:
        source = self._proto
        kept: dict[str, Any] = {"opset": self._source.imports.get("", 1), **self._source.kept}
        if source.name != self._source.id and "name" not in kept and "function" not in kept:
            kept["name"] = source.name
        if source.doc_string:
            kept["doc_string"] = source.doc_string
        props = properties(source).get("metadata_props", {})
        props.pop(METADATA + "metadata", None)
        if props:
            kept["metadata_props"] = props
        if source.quantization_annotation:
            kept["quantization_annotation"] = [
                MessageToDict(part, preserving_proto_field_name=True)
                for part in source.quantization_annotation
            ]
        return kept

    def _signature(self, node: onnx.NodeProto) -> Signature | None:
        if (node.domain, node.op_type, node.overload) in self._waiting.functions:
            return None
        domain = "" if node.domain == "ai.onnx" else node.domain
        return signature(node.op_type, domain, self._source.imports.get(domain))

    def _inline_inputs(self) -> set[str]:
        """Return the inputs that need no node of their own: each feeds one port, which has its name."""
        uses = first_uses(self._proto.node)
        outputs = {value.name for value in self._proto.output}
        found = set()
        for value in self._proto.input:
            use = uses.get(value.name)
            if use is None or use.count > 1 or value.name in outputs or value.name in self._captured:
                continue
            given = arguments(use.node, self._signature(use.node))
            if any(
                part.name == value.name and not part.variadic and part.values == (value.name,)
                for part in given
            ):
                found.add(value.name)
        return found

    def _input_node(self, value: onnx.ValueInfoProto) -> Node:
        port_id = safe_id(value.name)
        self._ports.add([port_id])
        node = Node(id=self._ids.take(port_id))
        said = declared(self._infos.get(value.name))
        port = InputPort(id=port_id, **said)
        self._name(port, value.name, port_id)
        if value.name in self._initializers:
            port.default_value = constant_of(self._initializers[value.name])
        node.input_ports.append(port)
        node.output_ports.append(OutputPort(id=port_id, value=port_id, **said))
        self._places[value.name] = (node.id, port_id)
        return node

    def _outer_node(self, name: str) -> None:
        port_id = self._ports.take(safe_id(name))
        node = Node(id=self._ids.take(port_id))
        said = declared(self._infos.get(name))
        port = InputPort(id=port_id, **said)
        keep(port, outer=name)
        node.input_ports.append(port)
        node.output_ports.append(OutputPort(id=port_id, value=port_id, **said))
        self._places[name] = (node.id, port_id)
        self._outer.append(node)

    def _constant_nodes(self, inputs: set[str]) -> list[Node]:
        """Return the initializers that no single node can hold as its parameter."""
        read = {name for node in self._proto.node for name in node.input}
        shown = {value.name for value in self._proto.output}
        self._held = {name for name in self._initializers if name in read} - inputs - shown - self._captured
        nodes = []
        for name, tensor in (*self._initializers.items(), *self._sparse.items()):
            if name in self._held or name in inputs:
                continue
            port_id = self._ports.take(safe_id(name))
            node = Node(id=self._ids.take(port_id))
            value = (
                sparse_value(tensor, f"initializer {name!r}") if name in self._sparse else constant_of(tensor)
            )
            node.parameters.append(Parameter(id=port_id, value=value, metadata={"onnx": {"name": name}}))
            port = OutputPort(id=port_id, value=port_id, **declared(self._infos.get(name)))
            self._name(port, name, port_id)
            node.output_ports.append(port)
            self._places[name] = (node.id, port_id)
            nodes.append(node)
        return nodes

    def _node(self, source: onnx.NodeProto) -> Node:
        node_id = self._ids.take(safe_id(source.name or source.op_type))

        def graph_id(proto: onnx.GraphProto, attribute: str) -> str:
            name = self._waiting.ids.take(f"{node_id}.{attribute}")
            inner = Source(
                proto, name, self._source.imports, self._infos, inner=True, kept={"name": proto.name}
            )
            self._waiting.sources.append(inner)
            return name

        known = self._signature(source)
        node, function = lifted_node(source, node_id, known, attach=self._attach, graph_id=graph_id)
        self._outputs(node, source, function)
        return node

    def _attach(self, node: Node, port_id: str, name: str) -> None:
        if name in self._held:
            tensor = self._initializers[name]
            kept = {"name": name} if name != f"{node.id}.{port_id}" else {}
            kept |= documented(tensor)
            value = constant_of(tensor)
            node.parameters.append(
                Parameter(id=port_id, value=value, metadata={"onnx": kept} if kept else None)
            )
            return
        port = InputPort(id=port_id, **declared(self._infos.get(name)))
        node.input_ports.append(port)
        if name in self._inline:
            self._document(port, name)
            if name in self._initializers:
                port.default_value = constant_of(self._initializers[name])
            return
        if name not in self._places:
            if self._source.inner:
                self._outer_node(name)
            elif name not in self._made:
                raise FormatError(f"node {node.id!r} reads {name!r}, which nothing gives")
        self._readers.append((self._places.get(name), name, node.id, port_id))

    def _edges(self) -> list[Edge]:
        edges = []
        for place, name, receiver, receiver_port in self._readers:
            # A model need not list its nodes in order; what comes later has its place by now.
            sender, port = place or self._places[name]
            edges.append(
                Edge(
                    id=f"{sender}.{port}-{receiver}.{receiver_port}",
                    sender=sender,
                    sender_port=port,
                    receiver=receiver,
                    receiver_port=receiver_port,
                )
            )
        return edges

    def _outputs(self, node: Node, source: onnx.NodeProto, function: str) -> None:
        last = max((at for at, name in enumerate(source.output) if name), default=0)
        renamed = last == 0 and node.get_parameter("specified_outputs_name") is not None
        own_ids = Names()
        for at, name in enumerate(source.output):
            if not name:
                continue
            own = name.removeprefix(f"{node.id}.")
            if renamed:
                port_id = "output"
            elif own != name and own.isidentifier() and own not in own_ids:
                port_id = own
            else:
                # Output ports that share no id keep the names of ONNX's values without metadata.
                port_id = self._ports.take(safe_id(name))
            own_ids.add([port_id])
            port = OutputPort(
                id=port_id,
                value=f"{function}[{at}]" if last else function,
                **declared(self._infos.get(name)),
            )
            if renamed:
                self._document(port, name)
            else:
                self._name(port, name, port_id)
            node.output_ports.append(port)
            self._places[name] = (node.id, port_id)

    def _name(self, port: InputPort | OutputPort, name: str, port_id: str) -> None:
        """Note a value's ONNX name in its port, unless lowering will give it that name by itself."""
        self._document(port, name)
        if name != port_id:
            keep(port, name=name)

    def _document(self, port: InputPort | OutputPort, name: str) -> None:
        info = self._said.get(name)
        if info is not None and (kept := documented(info)):
            keep(port, **kept)

    def _with_order(self, graph: Graph) -> Graph:
        """Note the order of inputs and outputs where it is not the one MDF gives them."""
        noted: dict[str, Any] = {}
        wanted = [value.name for value in self._proto.input]
        if [item.name for item in graph_inputs(graph)] != wanted:
            noted["inputs"] = wanted
        for value in self._proto.output:
            if value.name not in self._places and self._source.inner:
                self._outer_node(value.name)
                graph.nodes.append(self._outer[-1])
            if value.name not in self._places:
                raise FormatError(
                    f"graph {self._proto.name!r} has the output {value.name!r}, which nothing gives"
                )
        outputs = [self._places[value.name] for value in self._proto.output]
        if [(item.node.id, item.port.id) for item in graph_outputs(graph)] != outputs:
            noted["outputs"] = [f"{node}.{port}" for node, port in outputs]
        if noted:
            graph.metadata = (graph.metadata or {}) | {"onnx": onnx_metadata(graph) | noted}
        return graph
