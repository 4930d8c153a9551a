"""From a graph to the blocks and wires of its diagram."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable

from modeci_mdf.mdf import Edge, Graph, InputPort, Node

from mdf_scatter import wiring
from mdf_scatter.drawing.blocks import Block, End, Kind, Scene, Terminal, Wire
from mdf_scatter.drawing.calls import calls, is_constant, names, tensor_constants
from mdf_scatter.drawing.inference import Place, is_unweighted, port_types, weight
from mdf_scatter.drawing.rows import rows, value_text
from mdf_scatter.drawing.tensor_type import UNKNOWN, TensorType, of_value
from mdf_scatter.drawing.values import full_text, short_text


def scene(graph: Graph, prefix: str) -> Scene:
    """Work out what is drawn for a graph.

    Args:
        graph: The graph.
        prefix: What the blocks' generated ids begin with.
    """
    return _Builder(graph, prefix).build()


class _Builder:
    """Collects the blocks of one graph, and where each port has its terminal."""

    def __init__(self, graph: Graph, prefix: str) -> None:
        self.graph = graph
        self.prefix = prefix
        self.input_types, self.output_types = port_types(graph)
        self.edges = wiring.incoming(graph)
        self.given = {Place(item.node.id, item.port.id): item.name for item in wiring.graph_inputs(graph)}
        self.conditions = (graph.conditions and graph.conditions.node_specific) or {}
        self.blocks: list[Block] = []
        self.wires: list[Wire] = []
        self.sources: dict[Place, End] = {}
        self.targets: dict[Place, End] = {}

    def build(self) -> Scene:
        undeclared = _undeclared_ports(self.graph)
        for node in self.graph.nodes:
            self._add(node, *undeclared.pop(node.id, ([], [])))
        for name, (inputs, outputs) in undeclared.items():
            self._add_missing(name, inputs, outputs)
        for output in wiring.graph_outputs(self.graph):
            self._add_output(output)
        for edge in self.graph.edges:
            self._connect(edge)
        return Scene(self.graph, tuple(self.blocks), tuple(self.wires))

    def _key(self) -> str:
        return f"{self.prefix}b{len(self.blocks)}"

    def _add(self, node: Node, undeclared_inputs: list[str], undeclared_outputs: list[str]) -> None:
        if node.id in self.conditions or undeclared_inputs or undeclared_outputs:
            self._add_node(node, undeclared_inputs, undeclared_outputs)
        elif wiring.is_pass_through(node) and Place(node.id, node.input_ports[0].id) in self.given:
            end = self._add_input(node, node.input_ports[0])
            self.sources[Place(node.id, node.output_ports[0].id)] = end
        elif _only_holds_constants(node):
            for port in node.output_ports:
                value = node.get_parameter(port.value).value
                name = node.id if len(node.output_ports) == 1 else f"{node.id}.{port.id}"
                place = Place(node.id, port.id)
                self.sources[place] = self._add_constant(name, value, self.output_types[place])
        else:
            self._add_node(node, [], [])

    def _add_node(self, node: Node, undeclared_inputs: list[str], undeclared_outputs: list[str]) -> None:
        constants = tensor_constants(node)
        inputs = [self._input_terminal(node, port) for port in node.input_ports]
        inputs += [_terminal(name, of_value(value)) for name, value in constants.items()]
        if constants:
            inputs.sort(key=_position_among_arguments(node))
        inputs += [_undeclared(name) for name in undeclared_inputs]
        outputs = [_terminal(p.id, self.output_types[Place(node.id, p.id)]) for p in node.output_ports]
        outputs += [_undeclared(name) for name in undeclared_outputs]

        # What feeds a node comes before it: that is the order in which Graphviz stacks them.
        feeders: dict[str, End] = {}
        for terminal in inputs:
            port = node.get_input_port(terminal.name)
            if terminal.name in constants:
                value = constants[terminal.name]
                feeders[terminal.name] = self._add_constant(terminal.name, value, terminal.tensor)
            elif port is not None and Place(node.id, port.id) in self.given:
                feeders[terminal.name] = self._add_input(node, port)

        key = self._key()
        called = calls(node)
        self.blocks.append(
            Block(
                key=key,
                kind="node",
                name=node.id,
                tip="; ".join([f"node {node.id}", *(f"{call.id} = {call}" for call in called)]),
                functions=tuple(call.function for call in called),
                inputs=tuple(inputs),
                outputs=tuple(outputs),
                rows=tuple(rows(node, constants, self.conditions.get(node.id))),
            )
        )
        for position, terminal in enumerate(inputs):
            self.targets[Place(node.id, terminal.name)] = End(key, position)
            if terminal.name in feeders:
                self._wire(feeders[terminal.name], End(key, position), terminal.tensor, terminal.name)
        for position, terminal in enumerate(outputs):
            self.sources[Place(node.id, terminal.name)] = End(key, position)

    def _input_terminal(self, node: Node, port: InputPort) -> Terminal:
        feeding = self.edges.get((node.id, port.id), [])
        weights = [edge for edge in feeding if not is_unweighted(edge)]
        notes = [f"× {value_text(weight(edge))}" for edge in weights]
        tips = [f"× {full_text(weight(edge))} from {edge.sender}.{edge.sender_port}" for edge in weights]
        if len(feeding) > 1:
            notes.insert(0, f"{port.reduce} of {len(feeding)}")
            tips.insert(0, f"{len(feeding)} edges, reduce: {port.reduce}")
        tensor = self.input_types[Place(node.id, port.id)]
        return Terminal(port.id, tensor, ", ".join(notes), "; ".join([port.id + _typed(tensor), *tips]))

    def _add_input(self, node: Node, port: InputPort) -> End:
        place = Place(node.id, port.id)
        name, tensor, default = self.given[place], self.input_types[place], port.default_value
        tip, text = f"graph input {name}{_typed(tensor)}", ""
        if default is not None:
            tip += f", default {full_text(default)}"
            text = value_text(default)
        return self._add_source("input", name, tensor, tip, text)

    def _add_constant(self, name: str, value: object, tensor: TensorType) -> End:
        # A large array is its type only, which the box shows anyhow.
        tip = f"constant {name}{_typed(tensor)} = {full_text(value)}"
        return self._add_source("constant", name, tensor, tip, short_text(value) or "")

    def _add_source(self, kind: Kind, name: str, tensor: TensorType, tip: str, text: str) -> End:
        key = self._key()
        self.blocks.append(Block(key, kind, name, tip, outputs=(_terminal(name, tensor),), text=text))
        return End(key, 0)

    def _add_missing(self, name: str, inputs: list[str], outputs: list[str]) -> None:
        key = self._key()
        tip = f"{name} is not a node of the graph; edges lead to it or from it"
        left, right = (tuple(_undeclared(port) for port in ports) for ports in (inputs, outputs))
        self.blocks.append(Block(key, "missing", name, tip, inputs=left, outputs=right))
        self.targets |= {Place(name, port): End(key, position) for position, port in enumerate(inputs)}
        self.sources |= {Place(name, port): End(key, position) for position, port in enumerate(outputs)}

    def _add_output(self, output: wiring.GraphOutput) -> None:
        place = Place(output.node.id, output.port.id)
        tensor, key = self.output_types[place], self._key()
        tip = f"graph output {output.name}{_typed(tensor)}"
        self.blocks.append(Block(key, "output", output.name, tip, inputs=(_terminal(output.name, tensor),)))
        self._wire(self.sources[place], End(key, 0), tensor, output.name)

    def _connect(self, edge: Edge) -> None:
        source, target = Place(edge.sender, edge.sender_port), Place(edge.receiver, edge.receiver_port)
        tensor = self.output_types.get(source, UNKNOWN)
        extra = "".join(f", {name} {full_text(value)}" for name, value in (edge.parameters or {}).items())
        tip = f"{'.'.join(source)} to {'.'.join(target)}"
        self._wire(self.sources[source], self.targets[target], tensor, tip, extra)

    def _wire(self, source: End, target: End, tensor: TensorType, tip: str, extra: str = "") -> None:
        self.wires.append(Wire(source, target, tensor, tip + _typed(tensor) + extra))


def _terminal(name: str, tensor: TensorType) -> Terminal:
    return Terminal(name, tensor, tip=name + _typed(tensor))


def _undeclared(name: str) -> Terminal:
    return Terminal(
        name, UNKNOWN, "missing", f"{name}: an edge names this port, the node does not declare it"
    )


def _typed(tensor: TensorType) -> str:
    return f": {tensor}" if str(tensor) else ""


def _undeclared_ports(graph: Graph) -> dict[str, tuple[list[str], list[str]]]:
    """Map each node's id to the input and output ports that edges name but it does not declare."""
    inputs = {(node.id, port.id) for node in graph.nodes for port in node.input_ports}
    outputs = {(node.id, port.id) for node in graph.nodes for port in node.output_ports}
    found: dict[str, tuple[list[str], list[str]]] = defaultdict(lambda: ([], []))
    for edge in graph.edges:
        for side, node, port, known in (
            (0, edge.receiver, edge.receiver_port, inputs),
            (1, edge.sender, edge.sender_port, outputs),
        ):
            if (node, port) not in known and port not in found[node][side]:
                found[node][side].append(port)
    return found


def _only_holds_constants(node: Node) -> bool:
    """Tell whether all a node does is to give out the values of its parameters."""
    known = names(node)
    return (
        bool(node.output_ports)
        and not node.input_ports
        and not node.functions
        and all(is_constant(parameter, known) for parameter in node.parameters)
        and {port.value for port in node.output_ports} == {parameter.id for parameter in node.parameters}
    )


def _position_among_arguments(node: Node) -> Callable[[Terminal], int]:
    """Return a key that sorts terminals as the node's functions take them."""
    place: dict[str, int] = {}
    for call in calls(node):
        for argument, value in call.args.items():
            place.setdefault(value if isinstance(value, str) else argument, len(place))
    return lambda terminal: place.get(terminal.name, len(place))
