"""MDF models as ONNX models."""

from __future__ import annotations

from collections.abc import Mapping

import onnx
import onnx_ir as ir
from modeci_mdf.mdf import Model

from mdf_scatter.errors import UnsupportedError
from mdf_scatter.lower.graphs import TypeOf, lower_graph
from mdf_scatter.lower.opsets import (
    lowest_opset,
    move_to_opset,
    needed_opset,
    opset_imports,
    starting_opset,
    with_int64_indices,
)
from mdf_scatter.wiring import onnx_metadata, sole_graph

_KEPT = ("producer_name", "producer_version", "domain", "model_version", "doc_string")


def lower(model: Model, *, types: TypeOf | None = None) -> ir.Model:
    """Return an MDF model as a typed ONNX model, at the operator set it was written for.

    Args:
        model: The model; its first graph is lowered.
        types: dtype and shape of graph inputs, by name, where the ports declare none.

    Raises:
        UnsupportedError: Something in the model has no form in ONNX; the message names it.
        ModelError: The model has no graph.
    """
    graph = lower_graph(sole_graph(model), opset_imports(model), types or {})
    kept = onnx_metadata(model)
    return ir.Model(
        graph,
        ir_version=int(kept.get("ir_version", 0)) or _ir_version(graph.opset_imports),
        metadata_props={str(k): str(v) for k, v in kept.get("metadata_props", {}).items()},
        **{name: kept[name] for name in _KEPT if name in kept},
    )


def to_onnx(model: Model, *, opset: int | None = None) -> onnx.ModelProto:
    """Write an MDF model as an ONNX model.

    Graph inputs and outputs keep their names, parameters become initializers, and what ONNX has no
    attribute for (`training`, `lda_coeff`, `specified_outputs_name`) stands in the nodes'
    `metadata_props`, from where `from_onnx` brings it back.

    Args:
        model: The model; its first graph is written.
        opset: Operator set version. Left out, it is the one the model declares, or else the lowest
            that can express it.

    Returns:
        A model that passes onnx's full check.

    Raises:
        UnsupportedError: Something has no form in ONNX, or none in this opset; the message names it.
        ModelError: The model has no graph.
    """
    lowered = lower(model)
    with_int64_indices(lowered)
    for kind, values in (("input", lowered.graph.inputs), ("output", lowered.graph.outputs)):
        for value in values:
            if value.shape is None:
                raise UnsupportedError(
                    f"graph {kind} {value.name!r} has no known rank, which ONNX asks for; "
                    "give its port a shape"
                )
    if opset is None:
        binding = starting_opset(model)[1]
        opset = needed_opset(lowered) if binding else lowest_opset(lowered)
    moved = move_to_opset(lowered, opset)
    oldest = _ir_version(moved.opset_imports)
    moved.ir_version = max(int(onnx_metadata(model).get("ir_version", 0)), oldest)
    proto: onnx.ModelProto = ir.to_proto(moved)
    try:
        onnx.checker.check_model(proto, full_check=True)
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError) as error:
        reason = str(error).strip().splitlines()[0]
        raise UnsupportedError(f"model {model.id!r} is not valid ONNX: {reason}") from error
    return proto


def _ir_version(imports: Mapping[str, int]) -> int:
    # Old readers refuse newer IR versions, so the oldest that knows the operator sets is written.
    known = [onnx.helper.make_opsetid(domain, version) for domain, version in imports.items() if domain == ""]
    return max(int(onnx.helper.find_min_ir_version_for(known)), 4)
