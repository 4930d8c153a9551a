"""MDF models as ONNX models."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from numbers import Integral

import onnx
import onnx_ir as ir
from google.protobuf.json_format import ParseDict  # type: ignore[import-untyped]
from modeci_mdf.mdf import Graph, Model

from mdf_scatter.checks import refuse
from mdf_scatter.collector import collector_paused
from mdf_scatter.errors import UnsupportedError
from mdf_scatter.lower.evaluation import Evaluation, Key
from mdf_scatter.lower.graphs import TypeOf, lower_graph
from mdf_scatter.lower.opsets import (
    FIRST_OPSET,
    LAST_OPSET,
    lowest_opset,
    move_to_opset,
    needed_opset,
    opset_imports,
    starting_opset,
    with_int64_indices,
)
from mdf_scatter.lower.protos import model_proto, note
from mdf_scatter.lower.scoping import Graphs
from mdf_scatter.lower.steps import explicit
from mdf_scatter.ops.settings import described
from mdf_scatter.wiring import onnx_metadata, sole_graph

_INSIDE_A_BODY = re.compile(
    r"^\[\w+\] Inference error\(s\): \(op_type:[^)]*\): \[\w+\] Inference error\(s\):"
)
KEPT = ("producer_name", "producer_version", "domain", "model_version", "doc_string")
"""Fields of an ONNX model that an MDF model keeps in its metadata."""


@collector_paused()
def lower(model: Model, *, types: TypeOf | None = None, held: Collection[Key] = ()) -> ir.Model:
    """Return an MDF model as a typed ONNX model, at the operator set it was written for.

    Where the graph keeps state, each state is an input, whose default is where it starts, and an output,
    to be fed to it next; `metadata_props` say which, under `mdf_scatter.states`. Time derivatives need
    the input `time_increment`; with its default, 0, the graph is the first evaluation.

    Args:
        model: The model; its first graph is lowered.
        types: dtype and shape of graph inputs, by name, where the ports declare none.
        held: Ids of nodes and their parameters that stay initializers of their own, numbers too: nothing
            is computed from them beforehand.

    Raises:
        UnsupportedError: Something in the model has no form in ONNX; the message names it.
        ModelError: The model has no graph.
    """
    return explicit(sole_graph(model), lambda evaluation: lower_evaluation(model, types, evaluation, held))


def lower_evaluation(
    model: Model,
    types: TypeOf | None = None,
    evaluation: Evaluation | None = None,
    held: Collection[Key] = (),
) -> ir.Model:
    """Return an MDF model as a typed ONNX model of one of its evaluations.

    Args:
        model: See `lower`.
        types: See `lower`.
        evaluation: Which one. The graph has further inputs and outputs for what it reads of the one
            before, and leaves to the next; left out, it is the only one.
        held: See `lower`.

    Raises:
        UnsupportedError: See `lower`.
        ModelError: See `lower`.
    """
    graphs = Graphs(model.graphs[1:])
    graph = lower_graph(
        sole_graph(model), opset_imports(model), types or {}, graphs=graphs, evaluation=evaluation, held=held
    )
    kept = onnx_metadata(model)
    return ir.Model(
        graph,
        functions=[_function(part, graphs) for part in graphs.function_graphs],
        ir_version=int(kept.get("ir_version", 0)) or _ir_version(graph.opset_imports),
        metadata_props={str(k): str(v) for k, v in kept.get("metadata_props", {}).items()},
        **{name: kept[name] for name in KEPT if name in kept},
    )


def _function(graph: Graph, graphs: Graphs) -> ir.Function:
    said = onnx_metadata(graph)["function"]
    imports = {str(domain): int(version) for domain, version in said.get("opset_imports", {}).items()}
    lowered = lower_graph(graph, imports, {}, graphs=graphs)
    defaults = [ParseDict(part, onnx.AttributeProto()) for part in said.get("defaults", ())]
    if defaults:
        note(lowered, attribute_proto=defaults)
    return ir.Function(
        str(said.get("domain", "")),
        str(said.get("name", graph.id)),
        str(said.get("overload", "")),
        graph=lowered,
        attributes=[ir.Attr(name, ir.AttributeType.UNDEFINED, None) for name in said.get("attributes", ())],
    )


@collector_paused()
def to_onnx(model: Model, *, opset: int | None = None) -> onnx.ModelProto:
    """Write an MDF model as an ONNX model.

    Graph inputs and outputs keep their names; only an output that has the name of an input is called
    `node.port`, as a name stands for one value in ONNX. Parameters become initializers, and what ONNX has
    no attribute for (`training`, `lda_coeff`, `specified_outputs_name`) stands in the nodes'
    `metadata_props`, from where `from_onnx` brings it back.

    Args:
        model: The model; its first graph is written.
        opset: Operator set version. Left out, it is the one the model declares, or else the lowest
            that can express it.

    Returns:
        A model that passes onnx's full check.

    Raises:
        UnsupportedError: Something has no form in ONNX, or none in this opset, or there is no such opset;
            the message names it.
        ModelError: `check` finds an error in the model.
    """
    if opset is not None and (not isinstance(opset, Integral) or isinstance(opset, bool)):
        raise UnsupportedError(
            f"opset is {described(opset)}; expected a whole number, {FIRST_OPSET}..{LAST_OPSET}"
        )
    refuse(model)
    lowered = lower(model)
    with_int64_indices(lowered)
    for kind, values in (("input", lowered.graph.inputs), ("output", lowered.graph.outputs)):
        for value in values:
            if value.shape is None and isinstance(value.type, ir.TensorType):
                raise UnsupportedError(
                    f"graph {kind} {value.name!r} has no known rank, which ONNX asks for; "
                    "give its port a shape"
                )
    if opset is None:
        binding = starting_opset(model)[1]
        opset = needed_opset(lowered) if binding else lowest_opset(lowered)
    kept_version = int(onnx_metadata(model).get("ir_version", 0))
    is_foreign = model.onnx_opset_version is None and bool(kept_version) and _needs_no_default(lowered)
    as_it_was = kept_version and (is_foreign or opset == lowered.opset_imports[""])
    moved = move_to_opset(lowered, opset)
    oldest = _ir_version(moved.opset_imports)
    given = {value.name for value in moved.graph.inputs}
    if as_it_was and (kept_version > 3 or all(name in given for name in moved.graph.initializers)):
        oldest = kept_version
    moved.ir_version = max(kept_version, oldest)
    if is_foreign:
        del moved.opset_imports[""]
    proto = model_proto(moved)
    for name, message in (
        ("training_info", onnx.TrainingInfoProto),
        ("configuration", onnx.DeviceConfigurationProto),
    ):
        getattr(proto, name).extend(ParseDict(part, message()) for part in onnx_metadata(model).get(name, ()))
    try:
        _check(proto)
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError) as error:
        reason = str(error).strip().splitlines()[0]
        raise UnsupportedError(f"model {model.id!r} is not valid ONNX: {reason}") from error
    return proto


def _check(proto: onnx.ModelProto) -> None:
    try:
        onnx.checker.check_model(proto, full_check=True)
    except onnx.shape_inference.InferenceError as error:
        if not (_INSIDE_A_BODY.search(str(error)) or proto.graph.sparse_initializer):
            raise
        # Inference of a body knows less than what runs it, fails for some of ONNX's own functions, and
        # takes a sparse initializer for a sparse tensor.
        onnx.checker.check_model(proto)


def _needs_no_default(model: ir.Model) -> bool:
    return all(node.domain != "" for node in model.graph.all_nodes()) and not model.functions


def _ir_version(imports: Mapping[str, int]) -> int:
    # Old readers refuse newer IR versions, so the oldest that knows the operator sets is written.
    known = [onnx.helper.make_opsetid(domain, version) for domain, version in imports.items() if domain == ""]
    return max(int(onnx.helper.find_min_ir_version_for(known)), 4)
