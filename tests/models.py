"""Small models that tests make."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import onnx
from modeci_mdf.mdf import Edge, Function, Graph, InputPort, Model, Node, OutputPort, Parameter
from onnx import TensorProto, helper, numpy_helper


def calculation(
    value: Any = None,
    *,
    function: str | None = None,
    args: dict[str, Any] | None = None,
    inputs: dict[str, str] | None = None,
    parameters: dict[str, Any] | None = None,
) -> Model:
    """Return a model of one node that computes `y` from typed input ports and parameters."""
    node = Node(id="n")
    node.input_ports += [InputPort(id=name, type=kind) for name, kind in (inputs or {"x": "float32"}).items()]
    node.parameters += [Parameter(id=name, value=given) for name, given in (parameters or {}).items()]
    node.functions.append(Function(id="f", value=value, function=function, args=args))
    node.output_ports.append(OutputPort(id="y", value="f"))
    return Model(id="m", graphs=[Graph(id="g", nodes=[node])])


def chain(*nodes: Node) -> Graph:
    """Return a graph in which each node's only output feeds the next one's first input."""
    graph = Graph(id="g", nodes=list(nodes))
    for before, after in pairwise(nodes):
        graph.edges.append(
            Edge(
                id=f"{before.id}_{after.id}",
                sender=before.id,
                sender_port=before.output_ports[0].id,
                receiver=after.id,
                receiver_port=after.input_ports[0].id,
            )
        )
    return graph


def onnx_model(
    nodes: list[onnx.NodeProto],
    inputs: dict[str, tuple[int, Any]],
    outputs: dict[str, tuple[int, Any]],
    initializers: dict[str, np.ndarray] | None = None,
    *,
    opset: int = 18,
    name: str = "g",
) -> onnx.ModelProto:
    """Return an ONNX model that passes onnx's full check."""
    graph = helper.make_graph(
        nodes,
        name,
        [helper.make_tensor_value_info(key, *given) for key, given in inputs.items()],
        [helper.make_tensor_value_info(key, *given) for key, given in outputs.items()],
        initializer=[numpy_helper.from_array(array, key) for key, array in (initializers or {}).items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    onnx.checker.check_model(model, full_check=True)
    return model


FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64
