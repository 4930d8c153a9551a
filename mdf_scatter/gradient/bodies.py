"""Bodies of control flow, backwards: a new body computes what another one does, and goes back through it.

What the backward pass reads of a turn is computed again from what the body was given in that turn, so only
the body's own inputs have to be kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import onnx_ir as ir

from mdf_scatter.fixed import RANDOM
from mdf_scatter.gradient.copies import write_again
from mdf_scatter.gradient.pruning import needed
from mdf_scatter.gradient.reverse import (
    LDA_COEFF,
    TRAINING,
    active_values,
    backward,
    has_gradient,
    reaching_values,
)
from mdf_scatter.gradient.table import Call, node_name
from mdf_scatter.stretches import values_read

_DRAWING = RANDOM - {"Dropout"}
_TRAINING_MODE = 2
"""Position of the input of Dropout with which it draws."""


@dataclass(frozen=True, eq=False)
class State:
    """A value that a body hands from one turn to the next.

    Attributes:
        before: The body's input.
        after: The body's output.
        position: Which of the node's inputs it is before the first turn.
        grad: The gradient of what it is after the last turn; None where nothing comes back.
    """

    before: ir.Value
    after: ir.Value
    position: int
    grad: ir.Value | None


@dataclass(frozen=True, eq=False)
class Carried:
    """A gradient that a backward body hands from one turn to the turn before.

    Attributes:
        position: Whose it is after the last of these: one of the call's inputs.
        start: What it begins with; None for zeros.
        given: The backward body's input.
        made: The backward body's output.
    """

    position: int
    start: ir.Value | None
    given: ir.Value
    made: ir.Value


@dataclass(frozen=True, eq=False)
class Product:
    """A gradient that is a sum over the turns of products of matrices: one product of all turns' stacks.

    Attributes:
        position: Whose it is: one of the call's inputs.
        left: What it multiplied in a turn, [..., k].
        grad: The gradient of that product, [..., n].
    """

    position: int
    left: ir.Value
    grad: ir.Value


class Body:
    """A body that computes what another one does, and goes back through it.

    Args:
        call: The node that holds the other one.
        graph: The other one.

    Attributes:
        emit: Writes its nodes.
        now: What stands here for the other one's inputs and other values.
    """

    def __init__(self, call: Call, graph: ir.Graph) -> None:
        self._call = call
        self._graph = graph
        self.emit = call.emit.inner()
        self.now: dict[ir.Value, ir.Value] = {}
        self._nodes: list[ir.Node] = []

    def slot(self, name: str | None, like: ir.Value, shape: ir.Shape | None) -> ir.Value:
        """Return a value, of the dtype of another one, that nodes read and none makes."""
        return ir.Value(name=self.emit.builder.free_name(str(name)), type=like.type, shape=shape)

    def compute(self) -> dict[ir.Value, int]:
        """Write what the other one computes.

        Returns:
            The wanted values that it reads from around, and the position of each among the call's inputs.
        """
        first = len(self.emit.builder.nodes)
        write_again(self.emit, self._graph, self.now)
        self._nodes = self.emit.builder.nodes[first:]
        read = {value for node in self._nodes for value in values_read(node)}
        read.update(self.now.get(value, value) for value in self._graph.outputs)
        wanted = {self._call.inputs[at]: at for at in sorted(self._call.wanted, reverse=True)}
        return {value: at for value, at in wanted.items() if value is not None and value in read}

    def gradients(
        self, coming: Iterable[tuple[ir.Value, ir.Value]], targets: Iterable[ir.Value]
    ) -> dict[ir.Value, ir.Value]:
        """Write the way back.

        Args:
            coming: Outputs of the other one, and their gradients.
            targets: Values whose gradients are asked for.
        """
        seeds: dict[ir.Value, ir.Value] = {}
        for output, grad in coming:
            value = self.now.get(output, output)
            seeds[value] = self.emit("Add", seeds[value], grad) if value in seeds else grad
        found, stops = backward(self.emit, self._nodes, seeds, dict.fromkeys(targets))
        self._call.stops.extend(stops)
        for value, grad in found.items():
            # onnxruntime asks for the shapes of what a Scan's body gives, and infers none through a Loop.
            grad.shape = value.shape if grad.shape is None else grad.shape
        return found

    def turn_back(
        self,
        states: Sequence[State],
        written: Sequence[tuple[ir.Value, ir.Value]],
        slices: Iterable[ir.Value],
    ) -> tuple[list[Carried], dict[ir.Value, ir.Value], list[Product]]:
        """Write one turn and the way back through it.

        Args:
            states: What the other one hands on.
            written: Outputs that it gives in each turn, and their gradients in this turn.
            slices: Inputs that it is given in each turn, whose gradients are asked for.

        Returns:
            The gradients that the turns hand on, those of the slices, and those that need no handing on.
        """
        captured = self.compute()
        states = [state for state in states if has_gradient(self.now[state.before])]
        here = {value: self.now[value] for value in slices}
        first = {self.now[state.before] for state in states if state.position in self._call.wanted}
        active = self._active(states, first.union(captured, here.values()))
        reaching = self._reaching(states, {self._here(value) for value, _ in written})
        coming, given = list(written), {}
        for state in states:
            before = self.now[state.before]
            if before in active and self._here(state.after) in reaching:
                like = self._here(state.after) if self._is_written_anew(state) else before
                if like is before:
                    self.check_stacks(state)
                given[state] = self.slot(f"{state.before.name}_grad_after", before, like.shape)
                coming.append((state.after, given[state]))
        multiplied = {value: node for value in captured if (node := self._sole_product(value)) is not None}
        ends = [multiplied[value].outputs[0] if value in multiplied else value for value in captured]
        ends += [*here.values(), *(self.now[state.before] for state in given)]
        found = self.gradients(coming, ends)
        carried = [
            Carried(state.position, state.grad, grad, self._sent(found, state, grad))
            for state, grad in given.items()
        ]
        products = []
        for value, position in captured.items():
            if value in multiplied:
                node = multiplied[value]
                if node.outputs[0] in found and node.inputs[0] is not None:
                    products.append(Product(position, node.inputs[0], found[node.outputs[0]]))
            elif value in found:
                total = self.slot(f"{value.name}_grad_after", value, value.shape)
                carried.append(Carried(position, None, total, self.emit("Add", total, found[value])))
        return carried, {value: found[now] for value, now in here.items() if now in found}, products

    def check_stacks(self, state: State) -> None:
        """Refuse a state whose values of all turns are known to make no tensor.

        Raises:
            UnsupportedError: It is no tensor, or changes its shape.
        """
        name, before, after = state.before.name, self.now[state.before], self._here(state.after)
        if not isinstance(before.type, ir.TensorType):
            raise self._call.refusal(f"it carries {name!r}, a {before.type}; carry a tensor")
        if before.shape is None or after.shape is None:
            return
        sizes = zip(before.shape.dims, after.shape.dims, strict=False)
        differs = any(isinstance(a, int) and isinstance(b, int) and a != b for a, b in sizes)
        if differs or len(before.shape) != len(after.shape):
            raise self._call.refusal(
                f"it carries {name!r}, whose shape changes from {before.shape} to {after.shape} in a turn; "
                "carry a tensor of one shape, such as one that is written into place by place"
            )

    def finish(self, outputs: Iterable[ir.Value], name: str) -> ir.Graph:
        """Return the graph, as yet without inputs, of the nodes that its outputs need; others read nothing.

        Raises:
            UnsupportedError: One of them draws random numbers, which would be others the second time.
        """
        ends = self._ends(outputs)
        kept, read = needed(self.emit.builder.nodes, ends)
        for node in kept:
            if _draws(node):
                raise self._call.refusal(
                    f"{node.op_type} {node_name(node)!r} inside it draws random numbers, and the backward "
                    "pass computes again what is inside; draw them outside"
                )
        return ir.Graph(
            [],
            ends,
            nodes=kept,
            initializers=[value for value in self.emit.builder.initializers.values() if value in read],
            name=name,
        )

    def _sole_product(self, matrix: ir.Value) -> ir.Node | None:
        """Return the MatMul that alone reads a matrix, on its right; None where there is none."""
        readers = [node for node in self._nodes if matrix in values_read(node)]
        if len(readers) != 1 or matrix in map(self._here, self._graph.outputs):
            return None
        (node,) = readers
        if (node.domain, node.op_type) != ("", "MatMul") or node.metadata_props.keys() & {
            TRAINING,
            LDA_COEFF,
        }:
            return None
        left, right = (None if value is None else value.shape for value in node.inputs)
        is_matrix = node.inputs[1] is matrix and right is not None and len(right) == 2
        return node if is_matrix and left is not None and len(left) > 1 else None

    def _ends(self, outputs: Iterable[ir.Value]) -> list[ir.Value]:
        """Return outputs as values that nodes of this body make, each another one."""
        ends: list[ir.Value] = []
        made = {value for node in self.emit.builder.nodes for value in node.outputs}
        for value in outputs:
            ends.append(value if value in made and value not in ends else self.emit("Identity", value))
        return ends

    def _here(self, value: ir.Value) -> ir.Value:
        return self.now.get(value, value)

    def _is_written_anew(self, state: State) -> bool:
        """Tell whether no turn reads what a state was: then what it is at first may be of any shape."""
        before = self.now[state.before]
        return (
            not before.uses() and state.after is not state.before and state.position not in self._call.wanted
        )

    def _sent(self, found: Mapping[ir.Value, ir.Value], state: State, grad: ir.Value) -> ir.Value:
        """Return the gradient of a state before the turn, for that of the state after it."""
        before = self.now[state.before]
        if before in found:
            return found[before]
        return self.emit.zeros_like(grad if self._is_written_anew(state) else before)

    def _active(self, states: Sequence[State], targets: set[ir.Value]) -> set[ir.Value]:
        """Return the targets, and the states that change with them, in this turn or a later one."""
        while True:
            active = active_values(self._nodes, targets)
            more = {self.now[state.before] for state in states if self._here(state.after) in active} - targets
            if not more:
                return targets
            targets = targets | more

    def _reaching(self, states: Sequence[State], seeds: set[ir.Value]) -> set[ir.Value]:
        """Return what the gradients that come in, in this turn or a later one, come back to."""
        seeds = seeds | {self._here(state.after) for state in states if state.grad is not None}
        while True:
            reaching = reaching_values(self._nodes, seeds)
            more = {self._here(state.after) for state in states if self.now[state.before] in reaching} - seeds
            if not more:
                return reaching
            seeds = seeds | more


def _draws(node: ir.Node) -> bool:
    inside = [
        inner
        for attribute in node.attributes.values()
        if attribute.type == ir.AttributeType.GRAPH
        for inner in attribute.as_graph().all_nodes()
    ]
    return any(
        part.domain == ""
        and (part.op_type in _DRAWING or (part.op_type == "Dropout" and len(part.inputs) > _TRAINING_MODE))
        for part in (node, *inside)
    )
