"""`explain_node` draws what a node of a graph does, with the values that reach it."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import numpy.typing as npt
from modeci_mdf.mdf import Graph, Model, Node, OutputPort

from mdf_scatter.checking.calls import operator
from mdf_scatter.checking.scope import Call, Scope, scopes
from mdf_scatter.drawing.cells.explain import explain_call
from mdf_scatter.drawing.cells.picture import Picture
from mdf_scatter.errors import InputError, OperatorError, UnsupportedError, did_you_mean, listed
from mdf_scatter.inputs import checked_inputs
from mdf_scatter.ops import OPS, Op
from mdf_scatter.runner import run
from mdf_scatter.wiring import default_value, graph_inputs, graph_outputs, onnx_metadata, sole_graph

_NAMED = 12


def explain_node(
    model: Model, node: str, inputs: Mapping[str, npt.ArrayLike] | None = None, *, theme: str = "light"
) -> Picture:
    """Run a model, and draw what one of its scatters or gathers does with the values that reach it.

    Args:
        model: The model; it is not changed.
        node: Id of a node in its first graph that calls an operator of `OPS`. Where it calls several, the
            first one is drawn.
        inputs: An array for each graph input, as in `run`.
        theme: "light" or "dark".

    Raises:
        InputError: There is no such node, or it calls none of the operators, an input is wrong, or there is
            no such theme.
        UnsupportedError: An attribute of the operator is computed.
        ModelError: `check` finds an error in the model.
        OperatorError: The operator cannot work on what reaches it; the message names the node.
        EvaluationError: Another operator, or modeci-mdf's engine, fails.
    """
    graph = sole_graph(model)
    scope, call, op = _find(graph, node)
    attributes = _attributes(scope, call, op)
    tensors = _tensors(model, scope, call, op, inputs)
    try:
        return explain_call(op.name, *tensors, theme=theme, **attributes)
    except OperatorError as error:
        raise error.at(node) from error


def _find(graph: Graph, node: str) -> tuple[Scope, Call, Op]:
    """Find a node, and the operator that it calls."""
    found = {scope.node.id: _first_call(scope) for scope in scopes(graph)}
    family = [name for name, call in found.items() if call is not None]
    if not family:
        raise InputError(f"graph {graph.id!r} has no node that calls {listed(OPS)}; there is none to explain")
    more = f" (and {len(family) - _NAMED} more)" if len(family) > _NAMED else ""
    expected = f"expected {listed(family[:_NAMED])}{more}"
    if node not in found:
        raise InputError(f"graph {graph.id!r} has no node {node!r}; {expected}{did_you_mean(node, family)}")
    call = found[node]
    if call is None:
        raise InputError(f"node {node!r} calls none of {listed(OPS)}; {expected}")
    return call


def _first_call(scope: Scope) -> tuple[Scope, Call, Op] | None:
    calls = ((scope, call, operator(call)) for call in scope.calls)
    return next(((scope, call, op) for scope, call, op in calls if op is not None), None)


def _attributes(scope: Scope, call: Call, op: Op) -> dict[str, Any]:
    given = {name: scope.argument(call, name) for name in op.attributes}
    values = {name: scope.constant(value) for name, value in given.items() if value is not None}
    for name, value in values.items():
        if value is None:
            raise UnsupportedError(
                f"node {scope.node.id!r}: {name} is computed from {given[name]!r}; expected a constant"
            )
    return values


def _tensors(
    model: Model, scope: Scope, call: Call, op: Op, inputs: Mapping[str, npt.ArrayLike] | None
) -> list[Any]:
    """Return the operator's inputs, in order; None for one that is left out."""
    graph = sole_graph(model)
    arrays = checked_inputs(graph, inputs or {})
    # What nothing feeds is given, not computed.
    outside = {item.port.id: item for item in graph_inputs(graph) if item.node is scope.node}
    arguments = {name: scope.argument(call, name) for name in op.inputs}
    found: dict[str, Any] = {}
    computed: dict[str, str] = {}
    for name, value in arguments.items():
        if not isinstance(value, str):
            found[name] = value
        elif value in outside:
            item = outside[value]
            found[name] = arrays[item.name] if item.name in arrays else default_value(item)
        else:
            computed[name] = value
    found |= _values(model, scope.node, computed, inputs)
    return [found[name] for name in op.inputs]


def _values(
    model: Model, node: Node, expressions: Mapping[str, str], inputs: Mapping[str, npt.ArrayLike] | None
) -> dict[str, npt.NDArray[Any]]:
    """Run the model for the values of some expressions of a node, by giving it output ports for them."""
    taken = {part.id for part in (*node.input_ports, *node.parameters, *node.functions, *node.output_ports)}
    ports = {}
    for name in expressions:
        ports[name] = name
        while ports[name] in taken:
            ports[name] += "_"
        taken.add(ports[name])
    if not ports:
        return {}
    probe = copy.copy(node)
    probe.output_ports = [
        *node.output_ports,
        *(OutputPort(id=port, value=expressions[name]) for name, port in ports.items()),
    ]
    graph = copy.copy(sole_graph(model))
    graph.nodes = [probe if part is node else part for part in graph.nodes]
    places = [f"{node.id}.{port}" for port in ports.values()]
    graph.metadata = (graph.metadata or {}) | {"onnx": onnx_metadata(graph) | {"outputs": places}}
    probing = copy.copy(model)
    probing.graphs = [graph, *model.graphs[1:]]
    results = run(probing, inputs)
    named = {item.port.id: results[item.name] for item in graph_outputs(graph) if item.node is probe}
    return {name: named[port] for name, port in ports.items()}
