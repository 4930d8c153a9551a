"""The types of a model's values, by ONNX's own inference."""

from __future__ import annotations

import onnx

from mdf_scatter.tensors import byte_size

_READ_BY_INFERENCE = 16_384
"""Larger constants, in bytes, are no shapes or axes; they are not copied for inference to read."""


def inferred_types(proto: onnx.ModelProto) -> list[onnx.ValueInfoProto]:
    """Return the types that inference finds of the main graph's values; none where it refuses the model."""
    bare = onnx.ModelProto(ir_version=proto.ir_version, opset_import=proto.opset_import)
    bare.functions.extend(proto.functions)
    graph = bare.graph
    graph.name = proto.graph.name or "graph"
    for part in ("node", "input", "output", "value_info"):
        getattr(graph, part).extend(getattr(proto.graph, part))
    for sparse in proto.graph.sparse_initializer:
        # It stands for a dense tensor, which inference takes for a sparse one.
        values = sparse.values
        graph.input.append(
            onnx.helper.make_tensor_value_info(values.name, values.data_type, list(sparse.dims))
        )
    given = {value.name for value in graph.input}
    for tensor in proto.graph.initializer:
        if byte_size(tensor) <= _READ_BY_INFERENCE:
            graph.initializer.add().CopyFrom(tensor)
        elif tensor.name not in given:
            graph.input.append(
                onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, list(tensor.dims))
            )
    try:
        found = onnx.shape_inference.infer_shapes(bare, data_prop=True)
    except (onnx.shape_inference.InferenceError, onnx.checker.ValidationError, RuntimeError, ValueError):
        # What is wrong with the model is said where it is lowered, with the node's name.
        return []
    return list(found.graph.value_info)
