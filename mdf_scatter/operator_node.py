"""What the nodes of all our operators have in common: settings, forward, backward, and their place in MDF."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar, TypedDict

import numpy as np
import numpy.typing as npt
from modeci_mdf.mdf import Edge, Function, Graph, InputPort, Node, OutputPort, Parameter

from mdf_scatter.dtypes import name_of
from mdf_scatter.errors import ModelError, OperatorError, did_you_mean, listed
from mdf_scatter.ops import Op
from mdf_scatter.ops.arguments import check_choice
from mdf_scatter.ops.op import Attribute, Pullback
from mdf_scatter.ops.settings import (
    check_lda_coeff,
    check_outputs_name,
    check_training,
    described,
    read_integer,
)

Source = str | npt.ArrayLike | None

_OUTPUT = "output"


class Settings(TypedDict, total=False):
    """What every node has beside its operator's attributes; see `ScatterND`."""

    training: bool
    lda_coeff: float
    specified_outputs_name: str | Sequence[str] | None


class OperatorNode:
    """A node that computes one operator. Use its subclasses, such as `ScatterND`."""

    # So that `node.reduction = "add"`, which would change nothing, is an error.
    __slots__ = ("_pullback", "attributes", "lda_coeff", "name", "specified_outputs_name", "training")

    op: ClassVar[Op]
    stem: ClassVar[str]
    result: ClassVar[str] = "scatter"

    def __init__(
        self,
        name: str | None,
        attributes: Mapping[str, Any],
        *,
        training: bool = True,
        lda_coeff: float = 1.0,
        specified_outputs_name: str | Sequence[str] | None = None,
        **unknown: object,
    ) -> None:
        op = self.op.name
        if unknown:
            other, known = next(iter(unknown)), [*self.op.attributes, *Settings.__annotations__]
            raise OperatorError(
                op, f"there is no setting {other!r}; expected {listed(known)}{did_you_mean(other, known)}"
            )
        if name is not None and (not isinstance(name, str) or not name):
            raise OperatorError(op, f"name is {name!r}; expected a text, or None")
        names = (
            [specified_outputs_name] if isinstance(specified_outputs_name, str) else specified_outputs_name
        )
        with _naming(name):
            for attribute, value in attributes.items():
                _check_attribute(op, attribute, value, self.op.attributes[attribute])
            check_training(op, training)
            check_lda_coeff(op, lda_coeff)
            check_outputs_name(op, names)
        self.name = name
        self.attributes = dict(attributes)
        self.training = bool(training)
        self.lda_coeff = float(lda_coeff)
        self.specified_outputs_name = None if names is None else list(names)
        self._pullback: Pullback | None = None

    def __repr__(self) -> str:
        settings = self.attributes | {
            "training": self.training,
            "lda_coeff": self.lda_coeff,
            "specified_outputs_name": self.specified_outputs_name,
        }
        written = ", ".join(f"{name}={value!r}" for name, value in settings.items())
        return f"{type(self).__name__}({self.name!r}, {written})"

    def forward(self, *inputs: npt.ArrayLike | None, **named: npt.ArrayLike | None) -> npt.NDArray[Any]:
        """Compute the output, and with `training=True` store what `backward` needs.

        Args:
            inputs: The operator's inputs, in its order.
            named: Inputs by name.

        Returns:
            A new array.

        Raises:
            OperatorError: The inputs do not fit; the message names the node, the place and what may stand
                there.
        """
        self._pullback = None
        with _naming(self.name):
            given = self._inputs(inputs, named)
            output = self.op.forward(*given, **self.attributes)
            if self.training and self.op.pullback is not None:
                self._pullback = self.op.pullback(*given, output=output, **self.attributes)
        return output

    def backward(self, grad: npt.ArrayLike) -> tuple[npt.NDArray[Any], ...]:
        """Compute what goes to the previous layer: the gradients, each multiplied by `lda_coeff`.

        Args:
            grad: The loss derivative of the last forward's output, of its shape and dtype.

        Returns:
            One array for each input that is not of integers, in the operator's order; for ScatterND
            those of data and updates.

        Raises:
            OperatorError: Nothing was stored, the dtype has no gradient, `grad` does not fit, or
                `lda_coeff` has been set to what is no finite number.
        """
        with _naming(self.name):
            if self._pullback is None:
                raise OperatorError(
                    self.op.name,
                    "nothing was stored for backward; run forward first"
                    if self.training
                    else "nothing was stored for backward because training=False; "
                    "set training=True and run forward again",
                )
            check_lda_coeff(self.op.name, self.lda_coeff)  # which may have been set since
            gradients = [found for found in self._pullback(grad) if found is not None]
        if self.lda_coeff == 1:
            return tuple(gradients)
        return tuple((found * self.lda_coeff).astype(found.dtype, copy=False) for found in gradients)

    def to_mdf(self) -> Node:
        """Return the node as an MDF node, whose input ports nothing feeds yet.

        Its id is the node's name, or the operator's in small letters.
        """
        node = Node(id=self.name or self.stem)
        node.input_ports += [InputPort(id=name) for name in self.op.inputs]
        settings: dict[str, Any] = {
            **self.attributes,
            "training": self.training,
            "lda_coeff": self.lda_coeff,
        }
        node.parameters += [Parameter(id=name, value=value) for name, value in settings.items()]
        if self.specified_outputs_name:
            names = list(self.specified_outputs_name)
            node.parameters.append(Parameter(id="specified_outputs_name", value=names))
        arguments = {name: name for name in (*self.op.inputs, *settings)}
        node.functions.append(Function(id=self.result, function=self.op.name, args=arguments))
        node.output_ports.append(OutputPort(id=_OUTPUT, value=self.result))
        return node

    def add_to(self, graph: Graph, *sources: Source, **named: Source) -> Node:
        """Put the node into an MDF graph and wire it.

        Args:
            graph: The graph; it is left as it was if anything is wrong.
            sources: Where each input comes from, in the operator's order: `"node.port"`, an output port
                to draw an edge from; an array, which becomes a constant of the node; or None, or nothing,
                for a graph input. An optional input that is not given is left out.
            named: Sources by the input's name.

        Returns:
            The new MDF node.

        Raises:
            ModelError: The graph has a node of this name, or a port named does not exist.
            OperatorError: There is no such input, or constants do not fit each other.
        """
        if not isinstance(graph, Graph):
            raise ModelError(f"{self.op.name}: graph is {type(graph).__name__}; expected an MDF Graph")
        node = self.to_mdf()
        node.id = self._id_in(graph)
        with _naming(node.id):
            given = dict(zip(self.op.inputs, self._inputs(sources, named), strict=True))
        edges: list[Edge] = []
        constants: dict[str, npt.NDArray[Any]] = {}
        for port in list(node.input_ports):
            source = given[port.id]
            if isinstance(source, str):
                sender, sent = _output_port(graph, source, f"{self.op.name} {node.id!r}: {port.id}")
                port.type, port.shape = sent.type, sent.shape
                edges.append(_edge(graph, sender, sent, node, port))
            elif source is not None:
                constants[port.id] = np.asarray(source)
                node.input_ports.remove(port)
                node.parameters.append(Parameter(id=port.id, value=constants[port.id]))
            elif port.id in self.op.optional:
                node.input_ports.remove(port)
                del node.functions[0].args[port.id]
        if set(self.op.inputs) - set(self.op.optional) <= constants.keys():
            with _naming(node.id):
                self.op.forward(**constants, **self.attributes)
        _describe_output(self.op, node, constants)
        graph.nodes.append(node)
        graph.edges += edges
        return node

    def _inputs(self, inputs: Sequence[Any], named: Mapping[str, Any]) -> list[Any]:
        """Return the inputs in the operator's order; None for those that were not given."""
        names = self.op.inputs
        if len(inputs) > len(names):
            raise OperatorError(
                self.op.name, f"{len(inputs)} inputs were given; expected {len(names)}: {', '.join(names)}"
            )
        given = dict(zip(names, inputs, strict=False))
        for name, value in named.items():
            if name not in names:
                raise OperatorError(
                    self.op.name,
                    f"there is no input {name!r}; expected {listed(names)}{did_you_mean(name, names)}",
                )
            if name in given:
                raise OperatorError(self.op.name, f"input {name!r} was given twice")
            given[name] = value
        return [given.get(name) for name in names]

    def _id_in(self, graph: Graph) -> str:
        taken = {node.id for node in graph.nodes}
        if self.name is None:
            numbered = (f"{self.stem}_{count + 1}" for count in range(len(taken) + 1))
            return next(name for name in numbered if name not in taken)
        if self.name in taken:
            raise ModelError(
                f"{self.op.name} {self.name!r}: graph {graph.id!r} has a node of this name; choose another"
            )
        return self.name


def _check_attribute(op: str, name: str, value: object, attribute: Attribute) -> None:
    if attribute.choices and isinstance(attribute.default, str):
        check_choice(op, name, value, attribute.choices)
    elif isinstance(attribute.default, bool):
        if not isinstance(value, bool):
            raise OperatorError(op, f"{name} is {described(value)}; expected True or False")
    else:
        read_integer(op, name, value)


@contextmanager
def _naming(node: str | None) -> Iterator[None]:
    """Name the node in an operator's error."""
    try:
        yield
    except OperatorError as error:
        if node is None:
            raise
        raise error.at(node) from error


def _output_port(graph: Graph, place: str, where: str) -> tuple[Node, OutputPort]:
    """Find the output port that `node.port` names; both ids may have dots of their own."""
    ports = {f"{node.id}.{port.id}": (node, port) for node in graph.nodes for port in node.output_ports}
    if place in ports:
        return ports[place]
    raise ModelError(
        f"{where} comes from {place!r}, which graph {graph.id!r} has no output port for; "
        f"expected 'node.port'{did_you_mean(place, ports)}"
    )


def _edge(graph: Graph, sender: Node, sent: OutputPort, receiver: Node, received: InputPort) -> Edge:
    taken = {edge.id for edge in graph.edges}
    edge_id = f"{sender.id}.{sent.id}-{receiver.id}.{received.id}"
    if edge_id in taken:
        raise ModelError(
            f"graph {graph.id!r} has an edge {edge_id!r}, but no node {receiver.id!r}; remove it"
        )
    return Edge(
        id=edge_id,
        sender=sender.id,
        sender_port=sent.id,
        receiver=receiver.id,
        receiver_port=received.id,
    )


def _describe_output(op: Op, node: Node, constants: Mapping[str, npt.NDArray[Any]]) -> None:
    """Give the output port the type and shape it has from the inputs, where they are known."""
    output = node.output_ports[0]
    for part, source in (("type", op.dtype_from), ("shape", op.shape_from)):
        port = node.get_input_port(source) if source else None
        if source in constants:
            array = constants[source]
            setattr(output, part, name_of(array.dtype) if part == "type" else array.shape)
        elif port is not None:
            setattr(output, part, getattr(port, part))
