"""ONNX models as MDF models.

Each ONNX node becomes an MDF node of one function; its initializers and attributes become parameters.
A graph input becomes the port it feeds where it feeds just one and has its name, else a node of its
own that passes it on. Subgraphs and model-local functions become further graphs of the model. Names are
kept: ids are made safe for MDF's expressions, and where that changes a name, the original stands in the
metadata under `onnx`.
"""

from __future__ import annotations

from typing import Any

import onnx
import onnx_ir as ir
from google.protobuf.json_format import MessageToDict  # type: ignore[import-untyped]
from modeci_mdf.mdf import Model

from mdf_scatter.collector import collector_paused
from mdf_scatter.errors import FormatError
from mdf_scatter.lift.graphs import lifted_graphs
from mdf_scatter.lift.inferred import inferred_types
from mdf_scatter.lift.values import properties
from mdf_scatter.lower import KEPT
from mdf_scatter.lower.protos import model_proto

_AS_WRITTEN = ("training_info", "configuration")
"""Parts of a model that MDF has nothing like; they stand in the metadata as ONNX's own JSON."""


@collector_paused()
def from_onnx(proto: onnx.ModelProto) -> Model:
    """Read an ONNX model as an MDF model.

    Args:
        proto: The model.

    Returns:
        A model whose first graph is the model's, followed by its functions and subgraphs. `to_onnx` writes
        it back with the same operators, attributes, initializers, names and operator sets.

    Raises:
        FormatError: It is no ONNX model, or not one that ONNX can mean.
        UnsupportedError: A part of it cannot be held in MDF; the message names it.
    """
    if not isinstance(proto, onnx.ModelProto):
        raise FormatError(
            f"the ONNX model is of type {type(proto).__name__}; expected an onnx.ModelProto:"
            " mdf_scatter.load reads a model from a file, onnx.load_from_string one from bytes"
        )
    imports = {_domain(entry.domain): entry.version for entry in proto.opset_import}
    if not proto.HasField("graph") or not imports:
        missing = "graph" if not proto.HasField("graph") else "operator set"
        raise FormatError(f"not a valid ONNX model: it has no {missing}")
    graphs = lifted_graphs(proto, imports, inferred_types(proto))
    return Model(
        id=graphs[0].id,
        graphs=graphs,
        onnx_opset_version=str(imports[""]) if "" in imports else None,
        metadata={"onnx": _kept(proto, imports)},
    )


def lift(model: ir.Model) -> Model:
    """Return a typed ONNX model as an MDF model; see `from_onnx`."""
    return from_onnx(model_proto(model))


def _kept(proto: onnx.ModelProto, imports: dict[str, int]) -> dict[str, Any]:
    kept: dict[str, Any] = {name: getattr(proto, name) for name in KEPT if getattr(proto, name)}
    kept["ir_version"] = proto.ir_version
    others = {domain: version for domain, version in imports.items() if domain != ""}
    if others:
        kept["opset_imports"] = others
    kept |= properties(proto)
    for name in _AS_WRITTEN:
        parts = getattr(proto, name)
        if parts:
            kept[name] = [MessageToDict(part, preserving_proto_field_name=True) for part in parts]
    return kept


def _domain(domain: str) -> str:
    return "" if domain == "ai.onnx" else domain
