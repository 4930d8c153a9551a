"""ScatterND as a node: parameters and named outputs, on its own or wired into an MDF graph."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt
from modeci_mdf.mdf import Edge, Function, Graph, InputPort, Node, OutputPort, Parameter

from mdf_scatter.dtypes import name_of
from mdf_scatter.errors import ModelError, OperatorError, did_you_mean
from mdf_scatter.ops import OPS
from mdf_scatter.ops.arguments import check_choice, check_lda_coeff, check_outputs_name, check_training

_OUTPUT = "output"


class ScatterND:
    """A copy of `data` with `updates` written, or combined, at `indices`.

    Args:
        name: Name of the node. Left out, the node is named when it is put into a graph.
        reduction: How an update meets what is there: "none" (the last one wins), "add", "mul", "max"
            or "min".
        training: Whether the node keeps what its backward pass needs.
        lda_coeff: What the loss derivative is multiplied by before it goes to the previous layer.
        specified_outputs_name: Your own name for the output; a text, or a list of one.

    Raises:
        OperatorError: A parameter has a value it may not have.

    Source: ONNX ScatterND (opset 18), and the ScatterND node of LabVIEW's deep learning toolkit.

    >>> node = ScatterND("scatter_1", reduction="add")
    >>> node.forward([1.0, 2.0, 3.0], [[2], [2]], [10.0, 20.0])
    array([ 1.,  2., 33.])
    """

    op = OPS["ScatterND"]

    def __init__(
        self,
        name: str | None = None,
        *,
        reduction: str = "none",
        training: bool = True,
        lda_coeff: float = 1.0,
        specified_outputs_name: str | Sequence[str] | None = None,
    ) -> None:
        op = self.op.name
        if name is not None and (not isinstance(name, str) or not name):
            raise OperatorError(op, f"name is {name!r}; expected a text, or None")
        names = (
            [specified_outputs_name] if isinstance(specified_outputs_name, str) else specified_outputs_name
        )
        with _naming(name):
            check_choice(op, "reduction", reduction, self.op.attributes["reduction"].choices)
            check_training(op, training)
            check_lda_coeff(op, lda_coeff)
            check_outputs_name(op, names)
        self.name = name
        self.reduction = reduction
        self.training = bool(training)
        self.lda_coeff = float(lda_coeff)
        self.specified_outputs_name = None if names is None else list(names)

    def __repr__(self) -> str:
        return (
            f"{self.op.name}({self.name!r}, reduction={self.reduction!r}, training={self.training!r}, "
            f"lda_coeff={self.lda_coeff!r}, specified_outputs_name={self.specified_outputs_name!r})"
        )

    def forward(
        self, data: npt.ArrayLike, indices: npt.ArrayLike, updates: npt.ArrayLike
    ) -> npt.NDArray[Any]:
        """Compute the output.

        Args:
            data: T[d0, ..., dr-1], r >= 1.
            indices: Any integer dtype, shape [i0, ..., iq-2, k], k <= r; negative ones count from the end.
            updates: T[i0, ..., iq-2, dk, ..., dr-1].

        Returns:
            A new array of data's shape and dtype.

        Raises:
            OperatorError: The inputs do not fit; the message names the node, the place and what may stand
                there.
        """
        with _naming(self.name):
            return self.op.forward(data, indices, updates, reduction=self.reduction)

    def to_mdf(self) -> Node:
        """Return the node as an MDF node, whose three input ports nothing feeds yet.

        Its id is the node's name, or `scatter_nd`.
        """
        node = Node(id=self.name or "scatter_nd")
        node.input_ports += [InputPort(id=name) for name in self.op.inputs]
        settings: dict[str, Any] = {
            "reduction": self.reduction,
            "training": self.training,
            "lda_coeff": self.lda_coeff,
        }
        node.parameters += [Parameter(id=name, value=value) for name, value in settings.items()]
        if self.specified_outputs_name:
            node.parameters.append(
                Parameter(id="specified_outputs_name", value=list(self.specified_outputs_name))
            )
        arguments = {name: name for name in (*self.op.inputs, *settings)}
        node.functions.append(Function(id="scatter", function=self.op.name, args=arguments))
        node.output_ports.append(OutputPort(id=_OUTPUT, value="scatter"))
        return node

    def add_to(
        self,
        graph: Graph,
        data: str | npt.ArrayLike | None = None,
        indices: str | npt.ArrayLike | None = None,
        updates: str | npt.ArrayLike | None = None,
    ) -> Node:
        """Put the node into an MDF graph and wire it.

        Args:
            graph: The graph; it is left as it was if anything is wrong.
            data: Where the input comes from: `"node.port"`, an output port to draw an edge from; an
                array, which becomes a constant of the node; or nothing, for a graph input.
            indices: Likewise.
            updates: Likewise.

        Returns:
            The new MDF node.

        Raises:
            ModelError: The graph has a node of this name, or a port named does not exist.
            OperatorError: Constants do not fit each other.
        """
        if not isinstance(graph, Graph):
            raise ModelError(f"{self.op.name}: graph is {type(graph).__name__}; expected an MDF Graph")
        node = self.to_mdf()
        node.id = self._id_in(graph)
        edges: list[Edge] = []
        constants: dict[str, npt.NDArray[Any]] = {}
        for port, source in zip(list(node.input_ports), (data, indices, updates), strict=True):
            if source is None:
                continue
            if isinstance(source, str):
                sender, sent = _output_port(graph, source, f"{self.op.name} {node.id!r}: {port.id}")
                port.type, port.shape = sent.type, sent.shape
                edges.append(_edge(graph, sender, sent, node, port))
            else:
                constants[port.id] = np.asarray(source)
                node.input_ports.remove(port)
                node.parameters.append(Parameter(id=port.id, value=constants[port.id]))
        if len(constants) == len(self.op.inputs):
            ScatterND(node.id, reduction=self.reduction).forward(**constants)
        _describe_output(node, constants)
        graph.nodes.append(node)
        graph.edges += edges
        return node

    def _id_in(self, graph: Graph) -> str:
        taken = {node.id for node in graph.nodes}
        if self.name is None:
            return next(
                name for count in range(len(taken) + 1) if (name := f"scatter_nd_{count + 1}") not in taken
            )
        if self.name in taken:
            raise ModelError(
                f"{self.op.name} {self.name!r}: graph {graph.id!r} has a node of this name; choose another"
            )
        return self.name


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


def _describe_output(node: Node, constants: dict[str, npt.NDArray[Any]]) -> None:
    """The output has data's type and shape, where they are known."""
    output = node.output_ports[0]
    if "data" in constants:
        output.type, output.shape = name_of(constants["data"].dtype), constants["data"].shape
    elif (port := node.get_input_port("data")) is not None:
        output.type, output.shape = port.type, port.shape
