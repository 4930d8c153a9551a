"""What training makes small: an output of the model, or what is put behind one."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from copy import deepcopy
from typing import Any

import numpy as np
import onnx_ir as ir
from modeci_mdf.mdf import Edge, Function, Graph, InputPort, Model, Node, OutputPort

from mdf_scatter.dtypes import name_of
from mdf_scatter.errors import InputError, listed
from mdf_scatter.gradient.reverse import has_gradient
from mdf_scatter.lower import lower
from mdf_scatter.lower.graphs import TypeOf
from mdf_scatter.lower.opsets import starting_opset
from mdf_scatter.names import Names
from mdf_scatter.wiring import GraphOutput, graph_outputs, onnx_metadata, sole_graph

LOSSES = ("mean_squared_error", "cross_entropy")
"""The losses that can be put behind a model's sole output, with the input `target`.

The mean of the squared differences from `target`, which has the output's shape; and the mean of
-log softmax(output)[target] along axis 1, where `target` holds int64 classes.
"""


def objective(model: Model, loss: str | None, types: TypeOf) -> tuple[Model, str]:
    """Return a model and the name of its output that is to become small.

    Args:
        model: The model.
        loss: Name of one of its outputs of rank 0, or in `LOSSES`; None where it has just one such output.
        types: dtype and shape of graph inputs, by name, where the ports declare none.

    Returns:
        The model itself, or a copy with the loss in it, and the output's name in the lowered graph.

    Raises:
        InputError: It is not clear what the loss is, or it is no floating-point output of rank 0.
    """
    graph = lower(model, types=types).graph
    outputs = {item.name: item for item in graph_outputs(sole_graph(model))}
    lowered = dict(zip(outputs, graph.outputs, strict=False))
    scalars = [name for name, value in lowered.items() if has_gradient(value) and _rank(value) == 0]
    if loss in scalars:
        return model, str(lowered[loss].name)
    if loss in LOSSES and len(outputs) == 1:
        (output,) = outputs.values()
        return _with_loss(model, loss, output, lowered[output.name], _names_of_sizes(graph))
    if loss is None and len(scalars) == 1:
        return model, str(lowered[scalars[0]].name)
    known = listed((*scalars, *(LOSSES if len(outputs) == 1 else ())))
    expected = f"expected {known}" if known else "it has no floating-point output of rank 0 to be one"
    if loss is None:
        raise InputError(f"which output is the loss? {expected[0].upper()}{expected[1:]}; give loss=")
    if loss in outputs:
        raise InputError(f"loss is {loss!r}, which is no floating-point number (rank 0); {expected}")
    if loss in LOSSES:
        raise InputError(
            f"loss is {loss!r}, which needs a model of one output, not {len(outputs)}; {expected}"
        )
    raise InputError(f"loss is {loss!r}; {expected}")


def check_classes(graph: ir.Graph, batches: Sequence[Mapping[str, Any]]) -> None:
    """Refuse labels of a loss that are no classes, of which onnxruntime takes negative ones from the end.

    Args:
        graph: The lowered graph.
        batches: What its inputs are given.

    Raises:
        InputError: An input that is read as labels has one that is neither a class nor ignored.
    """
    for node in graph:
        if node.domain or node.op_type not in ("SoftmaxCrossEntropyLoss", "NegativeLogLikelihoodLoss"):
            continue
        scores, labels = node.inputs[:2]
        if labels is None or scores is None or scores.shape is None:
            continue
        count = scores.shape[1]
        ignored = node.attributes.get("ignore_index")
        for batch in batches:
            given = np.asarray(batch.get(str(labels.name), 0))
            wrong = (given < 0) | (given >= (count if isinstance(count, int) else np.inf))
            if ignored is not None:
                wrong &= given != ignored.as_int()
            if wrong.any():
                last = count - 1 if isinstance(count, int) else "one less than there are"
                raise InputError(
                    f"input {labels.name!r} has the class {given[wrong][0]}; expected 0 to {last}"
                )


def _rank(value: ir.Value) -> int | None:
    return None if value.shape is None else len(value.shape)


def _names_of_sizes(graph: ir.Graph) -> set[str]:
    """Return the names of sizes that inputs have; those that only outputs have need not hold."""
    sizes = [size for value in graph.inputs if value.shape is not None for size in value.shape]
    return {size.value for size in sizes if isinstance(size, ir.SymbolicDim) and size.value}


def _with_loss(
    model: Model, loss: str, output: GraphOutput, value: ir.Value, names: Container[str]
) -> tuple[Model, str]:
    opset = starting_opset(model)[0]
    model = deepcopy(model)
    model.onnx_opset_version = str(opset)
    graph = sole_graph(model)
    node_id = Names(node.id for node in graph.nodes).take("loss")
    dtype = None if value.dtype is None else name_of(value.dtype.numpy())
    sizes = None if value.shape is None else [_size(size, names) for size in value.shape]
    if loss == "cross_entropy":
        dtype, sizes = "int64", None if sizes is None else [*sizes[:1], *sizes[2:]]
        functions = [
            Function(
                id="entropy",
                function="onnx::SoftmaxCrossEntropyLoss",
                args={"scores": "predicted", "labels": "target"},
            )
        ]
    else:
        functions = [
            Function(id="difference", function="onnx::Sub", args={"A": "predicted", "B": "target"}),
            Function(id="square", function="onnx::Mul", args={"A": "difference", "B": "difference"}),
            Function(id="mean", function="onnx::ReduceMean", args={"data": "square", "keepdims": 0}),
        ]
    target = InputPort(id="target", type=dtype)
    if sizes is not None:
        # Sizes may be names, which MDF's own field has no room for.
        target.metadata = {"onnx": {"shape": sizes}}
    graph.nodes.append(
        Node(
            id=node_id,
            input_ports=[InputPort(id="predicted"), target],
            functions=functions,
            output_ports=[OutputPort(id="loss", value=functions[-1].id)],
        )
    )
    graph.edges.append(
        Edge(
            id=Names(edge.id for edge in graph.edges).take("to_loss"),
            sender=output.node.id,
            sender_port=output.port.id,
            receiver=node_id,
            receiver_port="predicted",
        )
    )
    return model, _listed_output(graph, node_id)


def _size(size: int | ir.SymbolicDim, names: Container[str]) -> int | str | None:
    if isinstance(size, int):
        return size
    return size.value if size.value in names else None


def _listed_output(graph: Graph, node_id: str) -> str:
    """Return the name of the loss's output; a lifted graph lists its outputs, so there it is entered."""
    listed_outputs = onnx_metadata(graph).get("outputs")
    if isinstance(listed_outputs, list):
        listed_outputs.append(f"{node_id}.loss")
    return next(item.name for item in graph_outputs(graph) if item.node.id == node_id)
