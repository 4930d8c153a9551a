"""From one graph to the blocks and wires of its frame."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from modeci_mdf.mdf import Edge, Graph, InputPort, Node

from mdf_scatter import wiring
from mdf_scatter.drawing.blocks import Block, End, Kind, Terminal, Wire
from mdf_scatter.drawing.calls import calls, constants_given, tensor_constants
from mdf_scatter.drawing.inference import PortTypes
from mdf_scatter.drawing.lowered import Place, value_names
from mdf_scatter.drawing.outline import Outline
from mdf_scatter.drawing.passes import Gradients, gradients
from mdf_scatter.drawing.ports import (
    input_terminal,
    missing_terminal,
    position_among_arguments,
    terminal,
    typed,
    undeclared_ports,
    with_arguments,
)
from mdf_scatter.drawing.results import summary
from mdf_scatter.drawing.rows import rows, value_text
from mdf_scatter.drawing.tensor_type import TensorType, of_value
from mdf_scatter.drawing.values import as_array, full_text, short_text

Seen = Mapping[Place, npt.NDArray[np.generic]]


class Constant(NamedTuple):
    """A value that is drawn beside each node that takes it."""

    name: str
    value: object


class Source(NamedTuple):
    """Where a wire may begin.

    Attributes:
        at: The terminal, or the constant that gets one when it is used.
        tensor: What is known of the value's type.
        crosses: Whether it is a value of an enclosing graph.
    """

    at: End | Constant
    tensor: TensorType
    crosses: bool = False


class Builder:
    """Collects the blocks of one graph, and where each port has its terminal."""

    def __init__(
        self,
        graph: Graph,
        key: str,
        types: PortTypes,
        outline: Outline,
        seen: Seen,
        outer: Mapping[str, Source],
        root: Gradients,
    ) -> None:
        """Draw a graph.

        Args:
            graph: The graph.
            key: What the blocks' generated ids begin with.
            types: The types of its ports.
            outline: Which graphs are drawn inside it.
            seen: Values of a run.
            outer: Values of the enclosing graphs, by name.
            root: What the model's first graph says of gradients; where they stop inside others, too.
        """
        self.graph = graph
        self.key = key
        self.types = types
        self.outline = outline
        self.seen = seen
        self.outer = outer
        self.gradients = gradients(graph)
        self.root = root
        self.edges = wiring.incoming(graph)
        self.given = {Place(item.node.id, item.port.id): item.name for item in wiring.graph_inputs(graph)}
        self.final = {Place(item.node.id, item.port.id) for item in wiring.graph_outputs(graph)}
        self.conditions = (graph.conditions and graph.conditions.node_specific) or {}
        self.blocks: list[Block] = []
        self.wires: list[Wire] = []
        self.sources: dict[Place, Source] = {}
        self.targets: dict[Place, End] = {}

    def build(self) -> None:
        """Fill `blocks`, `wires` and `sources`."""
        undeclared = undeclared_ports(self.graph)
        nodes = [node for node in self.graph.nodes if node.id in undeclared or not self._stands_at_edge(node)]
        for node in nodes:
            self._add_node(node, *undeclared.pop(node.id, ([], [])))
        for name, (inputs, outputs) in undeclared.items():
            self._add_missing(name, inputs, outputs)
        for edge in self.graph.edges:
            source = self.sources[Place(edge.sender, edge.sender_port)]
            if isinstance(source.at, End):
                self._connect(edge, source.at)
        for output in wiring.graph_outputs(self.graph):
            self._add_output(output)

    def named_sources(self) -> dict[str, Source]:
        """Return what graphs inside this one may take, by name."""
        named = ((name, self.sources.get(place)) for place, name in value_names(self.graph).items())
        # A constant is drawn beside who takes it, so no wire comes in.
        return {
            name: source._replace(crosses=isinstance(source.at, End))
            for name, source in named
            if source is not None
        }

    def _key(self) -> str:
        return f"{self.key}b{len(self.blocks)}"

    def _stands_at_edge(self, node: Node) -> bool:
        """Draw a node as a box at the graph's edge, if that is all it is."""
        if node.id in self.conditions:
            return False
        if wiring.is_pass_through(node):
            port, place = node.input_ports[0], Place(node.id, node.output_ports[0].id)
            if Place(node.id, port.id) in self.given:
                self.sources[place] = Source(self._add_input(node, port), self.types.outputs[place])
                return True
            if wiring.outer_name(port) is not None and (node.id, port.id) not in self.edges:
                self.sources[place] = self._outer(node, port)
                return True
        given = constants_given(node)
        for out, value in given.items():
            name, place = node.id if len(given) == 1 else f"{node.id}.{out}", Place(node.id, out)
            self.sources[place] = Source(Constant(name, value), self.types.outputs[place])
        return bool(given)

    def _add_node(self, node: Node, undeclared_inputs: list[str], undeclared_outputs: list[str]) -> None:
        held = tensor_constants(node)
        inputs = [self._input_terminal(node, port) for port in node.input_ports]
        inputs += [terminal(name, of_value(value)) for name, value in held.items()]
        if held:
            inputs.sort(key=position_among_arguments(node))
        inputs = with_arguments(node, inputs)
        inputs += [missing_terminal(name) for name in undeclared_inputs]
        outputs = [self._output_terminal(Place(node.id, port.id)) for port in node.output_ports]
        outputs += [missing_terminal(name) for name in undeclared_outputs]

        # What feeds a node comes before it: that is the order in which Graphviz stacks them.
        feeders: list[tuple[int, Source]] = []
        for position, item in enumerate(inputs):
            port = node.get_input_port(item.name)
            if item.name in held:
                constant = Constant(item.name, held[item.name])
                feeders.append((position, Source(self._add_constant(constant, item.tensor), item.tensor)))
            elif port is not None and Place(node.id, port.id) in self.given:
                feeders.append((position, Source(self._add_input(node, port), item.tensor)))
            elif port is not None and wiring.outer_name(port) and (node.id, port.id) not in self.edges:
                feeders.append((position, self._outer(node, port)))
        beside = self._constants_into(node.id, inputs)

        key = self._key()
        called = calls(node)
        inner = self.outline.inner(node)
        self.blocks.append(
            Block(
                key=key,
                kind="node",
                name=node.id,
                tip="; ".join([f"node {node.id}", *(f"{call.id} = {call}" for call in called)]),
                functions=tuple(call.function for call in called),
                inputs=tuple(inputs),
                outputs=tuple(outputs),
                rows=tuple(rows(node, held, self.conditions.get(node.id), inner, self.root.stop(node))),
                backward_pass=wiring.backward_pass(node),
            )
        )
        for position, source in feeders:
            item = inputs[position]
            end = self._end(source)
            self._wire(end, End(key, position), item.tensor, item.name, crosses=source.crosses)
        self._set_terminals(node.id, key, inputs, outputs, beside)

    def _constants_into(self, node_id: str, inputs: list[Terminal]) -> list[tuple[Edge, End]]:
        """Draw the constants that edges bring to a node, each once for every node that takes it."""
        found = []
        for item in inputs:
            for edge in self.edges.get((node_id, item.name), []):
                source = self.sources.get(Place(edge.sender, edge.sender_port))
                if source is not None and isinstance(source.at, Constant):
                    found.append((edge, self._add_constant(source.at, source.tensor)))
        return found

    def _set_terminals(
        self,
        node_id: str,
        key: str,
        inputs: list[Terminal],
        outputs: list[Terminal],
        beside: list[tuple[Edge, End]],
    ) -> None:
        for position, item in enumerate(inputs):
            self.targets[Place(node_id, item.name)] = End(key, position)
        for position, item in enumerate(outputs):
            place = Place(node_id, item.name)
            self.sources[place] = Source(End(key, position), item.tensor)
        for edge, end in beside:
            self._connect(edge, end)

    def _input_terminal(self, node: Node, port: InputPort) -> Terminal:
        place = Place(node.id, port.id)
        found = input_terminal(port, self.types.inputs[place], self.edges.get(place, []))
        if place not in self.seen or place in self.given:
            return found
        array = self.seen[place]
        return replace(found, value=summary(array), tip=f"{found.tip} = {full_text(array)}")

    def _output_terminal(self, place: Place) -> Terminal:
        tensor = self.types.outputs[place]
        if place not in self.seen or place in self.final:
            return terminal(place.port, tensor)
        array = self.seen[place]
        return terminal(place.port, tensor, summary(array), full_text(array))

    def _add_input(self, node: Node, port: InputPort) -> End:
        place = Place(node.id, port.id)
        name, tensor, default = self.given[place], self.types.inputs[place], port.default_value
        gradient_of = self.gradients.of.get(name, "")
        tip, text, is_default = f"graph input {name}{_gradient(gradient_of)}{typed(tensor)}", "", False
        if place in self.seen:
            tip += f" = {full_text(self.seen[place])}"
            text = summary(self.seen[place])
        elif default is not None:
            tip += f", default {full_text(default)}"
            array = as_array(default)
            text, is_default = (value_text(default) if array is None else summary(array)), True
        return self._add_source(
            "input", name, tensor, tip, text, is_default=is_default, gradient_of=gradient_of
        )

    def _add_constant(self, constant: Constant, tensor: TensorType) -> End:
        # A large array is its type only, which the box shows anyhow.
        tip = f"constant {constant.name}{typed(tensor)} = {full_text(constant.value)}"
        return self._add_source("constant", constant.name, tensor, tip, short_text(constant.value) or "")

    def _add_source(
        self,
        kind: Kind,
        name: str,
        tensor: TensorType,
        tip: str,
        text: str = "",
        *,
        is_default: bool = False,
        gradient_of: str = "",
    ) -> End:
        box = Block(self._key(), kind, name, tip, outputs=(terminal(name, tensor),), text=text)
        self.blocks.append(replace(self._of_pass(box, gradient_of), is_default=is_default))
        return End(box.key, 0)

    def _of_pass(self, box: Block, gradient_of: str) -> Block:
        """Return a graph input or output as what it is the gradient of, in the backward pass that it is."""
        if not gradient_of:
            return box
        return replace(box, gradient_of=gradient_of, backward_pass=self.gradients.passes[box.name])

    def _outer(self, node: Node, port: InputPort) -> Source:
        """Return where a value of an enclosing graph comes from; a box of its name if it is not drawn."""
        name = str(wiring.outer_name(port))
        if name in self.outer:
            return self.outer[name]
        tensor = self.types.inputs[Place(node.id, port.id)]
        tip = f"{name}{typed(tensor)}, a value of the enclosing graph"
        return Source(self._add_source("outer", name, tensor, tip), tensor)

    def _end(self, source: Source) -> End:
        if isinstance(source.at, Constant):
            return self._add_constant(source.at, source.tensor)
        return source.at

    def _add_missing(self, name: str, inputs: list[str], outputs: list[str]) -> None:
        left, right = ([missing_terminal(port) for port in ports] for ports in (inputs, outputs))
        beside = self._constants_into(name, left)
        key = self._key()
        tip = f"{name} is not a node of the graph; edges lead to it or from it"
        self.blocks.append(Block(key, "missing", name, tip, inputs=tuple(left), outputs=tuple(right)))
        self._set_terminals(name, key, left, right, beside)

    def _add_output(self, output: wiring.GraphOutput) -> None:
        place = Place(output.node.id, output.port.id)
        source = self.sources[place]
        end = self._end(source)
        tensor, key = self.types.outputs[place], self._key()
        gradient_of = self.gradients.wrt.get(output.name, "")
        tip, text = f"graph output {output.name}{_gradient(gradient_of)}{typed(tensor)}", ""
        if place in self.seen:
            tip += f" = {full_text(self.seen[place])}"
            text = summary(self.seen[place])
        into = (terminal(output.name, tensor),)
        box = Block(key, "output", output.name, tip, inputs=into, text=text)
        self.blocks.append(self._of_pass(box, gradient_of))
        self._wire(end, End(key, 0), tensor, output.name, crosses=source.crosses)

    def _connect(self, edge: Edge, source: End) -> None:
        origin, target = Place(edge.sender, edge.sender_port), Place(edge.receiver, edge.receiver_port)
        extra = "".join(f", {name} {full_text(value)}" for name, value in (edge.parameters or {}).items())
        tip = f"{'.'.join(origin)} to {'.'.join(target)}"
        _, tensor, crosses = self.sources[origin]
        self._wire(source, self.targets[target], tensor, tip, extra, crosses=crosses)

    def _wire(
        self, source: End, target: End, tensor: TensorType, tip: str, extra: str = "", *, crosses: bool
    ) -> None:
        self.wires.append(Wire(source, target, tensor, tip + typed(tensor) + extra, crosses))


def _gradient(of: str) -> str:
    return f", the gradient of {of}" if of else ""
