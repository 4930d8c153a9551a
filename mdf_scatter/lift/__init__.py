"""ONNX models as MDF models.

Each ONNX node becomes an MDF node of one function; its initializers and attributes become parameters.
A graph input becomes the port it feeds where it feeds just one and has its name, else a node of its
own that passes it on. Names are kept: ids are made safe for MDF's expressions, and where that changes
a name, the original stands in the metadata under `onnx`.
"""

from __future__ import annotations

from typing import Any

import onnx
import onnx_ir as ir
from modeci_mdf.mdf import Model

from mdf_scatter.errors import FormatError, UnsupportedError
from mdf_scatter.lift.graphs import GraphLifting

_KEPT = ("producer_name", "producer_version", "domain", "model_version", "doc_string")


def from_onnx(proto: onnx.ModelProto) -> Model:
    """Read an ONNX model as an MDF model.

    Args:
        proto: The model.

    Returns:
        A model with one graph, which `to_onnx` writes back with the same operators, attributes,
        initializers, names and operator sets.

    Raises:
        FormatError: The model is not one that ONNX can mean.
        UnsupportedError: A part of it cannot be held in MDF yet; the message names it.
    """
    try:
        model = ir.from_proto(proto)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise FormatError(f"not a valid ONNX model: {str(error).splitlines()[0]}") from error
    return lift(model)


def lift(model: ir.Model) -> Model:
    """Return a typed ONNX model as an MDF model; see `from_onnx`."""
    if model.functions:
        name = next(iter(model.functions.values())).name
        raise UnsupportedError(f"model-local function {name!r} cannot be held in an MDF graph yet")
    kept: dict[str, Any] = {name: getattr(model, name) for name in _KEPT if getattr(model, name)}
    kept["ir_version"] = model.ir_version
    others = {domain: version for domain, version in model.opset_imports.items() if domain != ""}
    if others:
        kept["opset_imports"] = others
    if model.metadata_props:
        kept["metadata_props"] = dict(model.metadata_props)
    graph = GraphLifting(model.graph, model.opset_imports).graph()
    return Model(
        id=graph.id,
        graphs=[graph],
        onnx_opset_version=str(model.opset_imports.get("", 1)),
        metadata={"onnx": kept},
    )
