"""A graph that keeps state, as one ONNX graph with its states as inputs and outputs."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnx_ir as ir
from modeci_mdf.mdf import Graph, Node, Parameter

from mdf_scatter.errors import UnsupportedError
from mdf_scatter.lower.arithmetic import is_weak, sample
from mdf_scatter.lower.builder import WEAK, Literal
from mdf_scatter.lower.evaluation import Evaluation, Kept, Key, Shape
from mdf_scatter.lower.functions import METADATA
from mdf_scatter.lower.ports import Edges, key_of, start
from mdf_scatter.lower.stateful import is_constant, names_in

STATES = METADATA + "states"
"""Key of a model's `metadata_props`: pairs of an input and the output that is fed to it next, as JSON."""

TIME = METADATA + "time_increment"
"""Key of a model's `metadata_props`: the input that is the step of time; 0 in the first evaluation."""

# A state changes its type where an integer becomes a float, or a number an array: never often.
_ROUNDS = 8

Write = Callable[[Evaluation | None], ir.Model]


def explicit(graph: Graph, write: Write) -> ir.Model:
    """Return a graph lowered for any evaluation.

    A graph without state is the first evaluation. Otherwise every state is an input, whose default is
    where it starts, and an output; the step of time is an input whose default is 0.

    Args:
        graph: The MDF graph.
        write: Lowers it for an evaluation; for None, as if there were no other.

    Raises:
        UnsupportedError: A state has no constant value or no fixed type to start from.
    """
    first = Evaluation()
    lowered = write(first)
    if not any(first.state.values()):
        return write(None) if first.state else lowered
    beginning, types = _beginning(graph, first, write)
    kept = _settled(_all_joined(first.left, types), write)
    initial = {
        key: _of_type(key, beginning.get(key, np.zeros((), kept[key].dtype)), kept[key]) for key in kept
    }
    every = Evaluation(kept, time_increment=True, initial=initial)
    model = write(every)
    pairs = [[value.name, every.outputs[key].name] for key, value in every.inputs.items()]
    model.metadata_props[STATES] = json.dumps(pairs)
    if every.time is not None:
        model.metadata_props[TIME] = str(every.time.name)
    return model


def _settled(kept: Mapping[Key, Kept], write: Write) -> Mapping[Key, Kept]:
    """Return types that every evaluation both takes and leaves."""
    for _ in range(_ROUNDS):
        later = Evaluation(kept, time_increment=True)
        write(later)
        joined = _all_joined(kept, later.left)
        if joined == kept:
            return kept
        kept = joined
    named = ", ".join(repr(".".join(key)) for key in kept)
    raise UnsupportedError(f"the types of states {named} grow with every evaluation")


def _all_joined(old: Mapping[Key, Kept], new: Mapping[Key, Kept]) -> dict[Key, Kept]:
    return {key: _joined(key, kept, new[key]) if key in new else kept for key, kept in old.items()}


def _joined(key: Key, old: Kept, new: Kept) -> Kept:
    values = [ir.val("state", ir.DataType.from_numpy(kept.dtype)) for kept in (old, new)]
    for value, kept in zip(values, (old, new), strict=True):
        if kept.weak is not None:
            value.meta[WEAK] = kept.weak
    both = old.weak is not None and new.weak is not None
    result = np.where(True, *(sample(value) for value in values))
    weak = type(result.item()) if both else None
    return Kept(result.dtype, _joined_shape(key, old.shape, new.shape), weak)


def _joined_shape(key: Key, old: Shape, new: Shape) -> Shape:
    if old == new:
        return old
    try:
        sizes = [[size for size in shape if isinstance(size, int)] for shape in (old, new)]
        if [len(sizes[0]), len(sizes[1])] == [len(old), len(new)]:
            return np.broadcast_shapes(*map(tuple, sizes))
    except ValueError:
        pass
    raise UnsupportedError(f"node {key[0]!r}: {key[1]!r} is kept as shape {old}, then as shape {new}")


def _beginning(
    graph: Graph, first: Evaluation, write: Write
) -> tuple[dict[Key, npt.NDArray[Any]], dict[Key, Kept]]:
    """Return what states are before the first evaluation, where they are something, and their types."""
    edges = Edges(graph)
    late = [key_of(edge) for edge in graph.edges if id(edge) in edges.late]
    brought = {key: start(graph, edges, key) for key in late if key in first.state}
    found = {key: np.asarray(value) for key, value in brought.items()}
    types = {
        key: Kept(found[key].dtype, found[key].shape, type(value) if is_weak(Literal(value)) else None)
        for key, value in brought.items()
    }
    starting = Evaluation(gives_start=True)
    for key, is_state in first.state.items():
        starting.keep(key, is_state=is_state)
    model = write(starting)
    found |= _computed(model, starting.outputs)
    for node in graph.nodes:
        for parameter in node.parameters:
            if (node.id, parameter.id) in found:
                _check_start(node, parameter, found[node.id, parameter.id])
    return found, types | starting.left


def _check_start(node: Node, parameter: Parameter, value: npt.NDArray[Any]) -> None:
    """Refuse a parameter whose first new value is not what it starts from, where it has to be."""
    where = f"node {node.id!r}: parameter {parameter.id!r}"
    if parameter.value is not None or parameter.function is not None:
        return
    parameters = {part.id: part for part in node.parameters}
    names = names_in(parameter.default_initial_value)
    if parameter.time_derivative is not None:
        if not all(name in parameters and is_constant(parameters[name], parameters) for name in names):
            raise UnsupportedError(
                f"{where} starts from {parameter.default_initial_value!r}, which is not constant; one ONNX "
                "graph has no form for it"
            )
    elif np.any(value != 0):
        # MDF's engine reads its default_initial_value, but carries on from 0.
        raise UnsupportedError(
            f"{where} has conditions but no value, so it starts from 0 and from its default_initial_value; "
            "give it a value"
        )


def _computed(model: ir.Model, outputs: Mapping[Key, ir.Value]) -> dict[Key, npt.NDArray[Any]]:
    needed: set[ir.Node] = set()
    for key, output in outputs.items():
        stack: list[ir.Value | None] = [output]
        while stack:
            value = stack.pop()
            if value is None or value.producer() in needed:
                continue
            if value.is_graph_input():
                raise UnsupportedError(
                    f"node {key[0]!r}: what parameter {key[1]!r} starts from depends on input "
                    f"{value.name!r}, which one ONNX graph has no form for; "
                    "give it a constant default_initial_value"
                )
            node = value.producer()
            if node is not None:
                needed.add(node)
                stack += node.inputs
    if not outputs:
        return {}
    from onnx.reference import ReferenceEvaluator

    proto = onnx.helper.make_graph(
        [ir.to_proto(node) for node in model.graph if node in needed],
        "start",
        [],
        [ir.to_proto(output) for output in outputs.values()],
        initializer=[
            ir.to_proto(value.const_value)
            for value in model.graph.initializers.values()
            if value.const_value is not None
        ],
    )
    imports = [onnx.helper.make_opsetid(domain, version) for domain, version in model.opset_imports.items()]
    results = ReferenceEvaluator(onnx.helper.make_model(proto, opset_imports=imports)).run(None, {})
    return dict(zip(outputs, map(np.asarray, results), strict=True))


def _of_type(key: Key, array: npt.NDArray[Any], kept: Kept) -> npt.NDArray[Any]:
    sizes = [size for size in kept.shape if isinstance(size, int)]
    if len(sizes) < len(kept.shape):
        raise UnsupportedError(f"node {key[0]!r}: the shape of {key[1]!r}, which is kept, is not known")
    return np.broadcast_to(array.astype(kept.dtype), sizes).copy()
