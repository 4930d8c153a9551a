"""Which ONNX operator set a graph needs, and how it is moved to another one without changing meaning."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import onnx
import onnx_ir as ir
from modeci_mdf.mdf import Model

from mdf_scatter.errors import UnsupportedError
from mdf_scatter.lower.builder import WORKING_OPSET
from mdf_scatter.lower.protos import model_proto
from mdf_scatter.lower.rewrites import as_loop
from mdf_scatter.names import Names
from mdf_scatter.ops import OPS
from mdf_scatter.wiring import onnx_metadata

HOST_OPSET = 15
"""What modeci-mdf means by `onnx::` functions where a model does not say."""

_REDUCTION_SINCE = {"add": 16, "mul": 16, "max": 18, "min": 18}

FIRST_OPSET, LAST_OPSET = 7, onnx.defs.onnx_opset_version()

# Between their versions from 7 on only dtypes, or inputs that were errors before, were added.
_SAME_MEANING = frozenset(
    {
        "Abs", "Acos", "Acosh", "Add", "And", "Asin", "Asinh", "Atan", "Atanh", "Cast", "Ceil", "Cos",
        "Cosh", "Div", "Equal", "Exp", "Expand", "Floor", "Gather", "GatherElements", "GatherND", "Greater",
        "GreaterOrEqual", "Identity", "Less", "LessOrEqual", "Log", "MatMul", "Max", "Min", "Mul", "Neg",
        "Not", "Or", "Pow", "Relu", "ScatterElements", "ScatterND", "Shape", "Sigmoid", "Sign", "Sin", "Sinh",
        "Sqrt", "Sub", "Tan", "Tanh", "Transpose", "Where",
    }
)  # fmt: skip


@dataclass(frozen=True)
class _Use:
    """All that decides whether an operator set can hold a node."""

    domain: str
    op_type: str
    attributes: frozenset[str]
    types: tuple[str | None, ...]


def starting_opset(model: Model) -> tuple[int, bool]:
    """Return the operator set a model is written for, and whether that is binding.

    A model that names a version, or uses `onnx::` functions other than ours, means that version.
    """
    if model.onnx_opset_version is not None:
        try:
            return int(model.onnx_opset_version), True
        except ValueError:
            raise UnsupportedError(
                f"model {model.id!r}: onnx_opset_version is {model.onnx_opset_version!r}; expected a number"
            ) from None
    functions = [
        part.function
        for graph in model.graphs
        for node in graph.nodes
        for part in (*node.functions, *node.parameters)
        if part.function
    ]
    ours = [OPS[name] for f in functions if (name := f.removeprefix("onnx::")) in OPS]
    since = max((min(op.versions) for op in ours if op.versions), default=FIRST_OPSET)
    if any(f.startswith("onnx::") and f.removeprefix("onnx::") not in OPS for f in functions):
        return max(HOST_OPSET, since), True
    return max(WORKING_OPSET, since), False


def opset_imports(model: Model) -> dict[str, int]:
    """Return the operator set version of each domain of a model."""
    others = onnx_metadata(model).get("opset_imports", {})
    return {"": starting_opset(model)[0]} | {str(domain): int(version) for domain, version in others.items()}


def lowest_opset(model: ir.Model) -> int:
    """Return the oldest operator set that holds every node of a model, as it is written, with its meaning."""
    start = model.opset_imports[""]
    uses = {_use(node) for node in model.graph.all_nodes()}
    for opset in range(max(FIRST_OPSET, _reductions_since(model)), start):
        if all(_obstacle(use, start, opset) is None for use in uses):
            return opset
    return start


def needed_opset(model: ir.Model) -> int:
    """Return the model's own operator set, or the first newer one where a reduction needs it."""
    return max(model.opset_imports[""], _reductions_since(model))


def _reductions_since(model: ir.Model) -> int:
    reductions = {_reduction(node) for node in model.graph.all_nodes()}
    return max((_REDUCTION_SINCE[name] for name in reductions if name), default=1)


def move_to_opset(model: ir.Model, opset: int) -> ir.Model:
    """Return the model at another operator set, meaning the same.

    Raises:
        UnsupportedError: A node cannot be written there; the message names it.
    """
    start = model.opset_imports[""]
    if opset != start and not FIRST_OPSET <= opset <= LAST_OPSET:
        raise UnsupportedError(f"opset is {opset}; expected {FIRST_OPSET}..{LAST_OPSET}")
    for node in model.graph.all_nodes():
        reduction = _reduction(node)
        if reduction is not None and node.graph is not model.graph and opset < _REDUCTION_SINCE[reduction]:
            raise UnsupportedError(
                f"{node.op_type} {node.name!r}: reduction {reduction!r} needs opset "
                f"{_REDUCTION_SINCE[reduction]} or newer; asked for opset {opset}, where it cannot be "
                "written in another way inside a subgraph"
            )
    written = _without_reductions(model, opset)
    obstacles = {
        node: reason
        for node in (model.graph.all_nodes() if opset != start else written)
        if (reason := _obstacle(_use(node), opset if node in written else start, opset)) is not None
    }
    if obstacles:
        return _converted(model, opset, obstacles)
    model.opset_imports[""] = opset
    return model


def with_int64_indices(model: ir.Model) -> None:
    """Give our operators the int64 indices that ONNX asks for, where they are of another integer dtype."""
    names = Names(str(value.name) for node in model.graph for value in node.outputs)
    for node in list(model.graph):
        if not _is_ours(node):
            continue
        for position, name in enumerate(OPS[node.op_type].inputs[: len(node.inputs)]):
            value = node.inputs[position]
            if name not in OPS[node.op_type].integers or value is None:
                continue
            if value.dtype is None or _takes_indices(node.op_type, position, value.dtype):
                continue
            attributes = {"to": int(ir.DataType.INT64)}
            own = names.take(f"{node.name or node.op_type}.{name}.int64")
            cast = ir.node("Cast", [value], attributes, name=own)
            cast.outputs[0].name = own
            cast.outputs[0].type, cast.outputs[0].shape = ir.TensorType(ir.DataType.INT64), value.shape
            model.graph.insert_before(node, cast)
            node.replace_input_with(position, cast.outputs[0])


@cache
def _takes_indices(op_type: str, position: int, dtype: ir.DataType) -> bool:
    formal = onnx.defs.get_schema(op_type).inputs[position]
    return f"tensor({dtype.name.lower()})" in formal.types


def _without_reductions(model: ir.Model, opset: int) -> set[ir.Node]:
    """Write the reductions that an operator set has no attribute for in another way.

    Returns:
        The nodes that were written for that operator set.
    """
    written: set[ir.Node] = set()
    for node in list(model.graph):
        if not _is_ours(node):
            continue
        reduction = _reduction(node)
        if reduction is not None and opset < _REDUCTION_SINCE[reduction]:
            try:
                nodes, constants, output = as_loop(node, {"": opset})
            except UnsupportedError as error:
                raise UnsupportedError(
                    f"{node.op_type} {node.name!r}: reduction {reduction!r} needs opset "
                    f"{_REDUCTION_SINCE[reduction]} or newer; asked for opset {opset}, where it cannot be "
                    f"written in another way: {error}"
                ) from error
            for constant in constants:
                model.graph.register_initializer(constant)
            model.graph.insert_before(node, nodes)
            old = node.outputs[0]
            name = old.name
            old.replace_all_uses_with(output, replace_graph_outputs=True)
            model.graph.remove(node, safe=True)
            output.name = name
            written.update(nodes)
            written.update(inner for each in nodes for inner in _inside(each))
        else:
            _drop_defaults(node, opset)
    return written


def _drop_defaults(node: ir.Node, opset: int) -> None:
    """Leave out attributes that an operator set does not have yet, where they say what it means anyway."""
    if onnx.defs.has(node.op_type, max_inclusive_version=opset):
        known = onnx.defs.get_schema(node.op_type, max_inclusive_version=opset).attributes
        for name in _defaults(node) - set(known):
            node.attributes.pop(name)


def _defaults(node: ir.Node) -> set[str]:
    """Return the attributes of one of our operators that are written, but have their default value."""
    declared = OPS[node.op_type].attributes
    return {
        name
        for name, attribute in node.attributes.items()
        if name in declared and attribute.value == declared[name].default
    }


def _inside(node: ir.Node) -> Iterator[ir.Node]:
    for attribute in node.attributes.values():
        if attribute.type == ir.AttributeType.GRAPH:
            yield from attribute.as_graph()


def _converted(model: ir.Model, opset: int, obstacles: dict[ir.Node, str]) -> ir.Model:
    for node, reason in obstacles.items():
        if _is_ours(node):
            raise UnsupportedError(f"{node.op_type} {node.name!r}: {reason}; asked for opset {opset}")
    try:
        proto = onnx.version_converter.convert_version(model_proto(model), opset)
    except (RuntimeError, IndexError, onnx.version_converter.ConvertError) as error:
        node, reason = next(iter(obstacles.items()))
        raise UnsupportedError(f"node {node.name!r}: {reason}; asked for opset {opset}") from error
    converted = ir.from_proto(proto)
    kept = {node.name: node.metadata_props for node in model.graph}
    for node in converted.graph:
        # The converter drops them.
        node.metadata_props.update(kept.get(node.name, {}))
    return converted


def _is_ours(node: ir.Node) -> bool:
    return node.domain == "" and node.op_type in OPS


def _reduction(node: ir.Node) -> str | None:
    """Return the reduction of one of our operators; None where it is "none", which every opset has."""
    if not _is_ours(node) or "reduction" not in node.attributes:
        return None
    reduction = node.attributes["reduction"].as_string()
    return reduction if reduction in _REDUCTION_SINCE else None


def _use(node: ir.Node) -> _Use:
    types = tuple(
        f"tensor({value.type.dtype.name.lower()})"
        if value is not None and isinstance(value.type, ir.TensorType)
        else None
        for value in node.inputs
    )
    attributes = frozenset(node.attributes) - (
        {"reduction", *_defaults(node)} if _is_ours(node) else frozenset()
    )
    return _Use(node.domain, node.op_type, attributes, types)


@cache
def _obstacle(use: _Use, start: int, opset: int) -> str | None:
    """Say why a node that is right at `start` is not, or may not be, the same at `opset`."""
    if use.domain != "":
        return None
    if not onnx.defs.has(use.op_type, max_inclusive_version=opset):
        return f"{use.op_type} needs opset {_first_opset(use.op_type)} or newer"
    schema = onnx.defs.get_schema(use.op_type, max_inclusive_version=opset)
    if schema.since_version != onnx.defs.get_schema(use.op_type, max_inclusive_version=start).since_version:
        if use.op_type not in _SAME_MEANING:
            return f"{use.op_type} changed between opset {min(start, opset)} and {max(start, opset)}"
        unknown = use.attributes - set(schema.attributes)
        if unknown:
            return f"{use.op_type} has no attribute {min(unknown)!r} in opset {opset}"
    for formal, found in _formal_types(schema, use.types):
        if found not in formal:
            return f"{use.op_type} does not take {found} in opset {opset}"
    return None


def _first_opset(op_type: str) -> int:
    schemas = onnx.defs.get_all_schemas_with_history()
    return min(
        int(schema.since_version) for schema in schemas if (schema.domain, schema.name) == ("", op_type)
    )


def _formal_types(
    schema: onnx.defs.OpSchema, types: tuple[str | None, ...]
) -> Iterator[tuple[frozenset[str], str]]:
    for position, found in enumerate(types):
        formal = schema.inputs[min(position, len(schema.inputs) - 1)]
        if found is not None:
            yield frozenset(formal.types), found
