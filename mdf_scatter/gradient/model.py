"""`grad`: a model that computes what another one does, and its gradients."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import onnx_ir as ir
from modeci_mdf.mdf import Model

from mdf_scatter.checks import refuse
from mdf_scatter.collector import collector_paused
from mdf_scatter.errors import InputError, listed
from mdf_scatter.gradient import rules
from mdf_scatter.gradient.emitter import Emitter, static_shape
from mdf_scatter.gradient.parameters import Places, is_trained, parameters_of
from mdf_scatter.gradient.prepare import prepared
from mdf_scatter.gradient.pruning import needed
from mdf_scatter.gradient.reverse import backward, has_gradient
from mdf_scatter.gradient.table import Stop
from mdf_scatter.lift import lift
from mdf_scatter.lower.builder import Builder
from mdf_scatter.lower.functions import METADATA
from mdf_scatter.lower.graphs import TypeOf
from mdf_scatter.lower.steps import STATES, TIME
from mdf_scatter.names import Names

SETTINGS = frozenset(
    {
        ("BatchNormalization", 3), ("BatchNormalization", 4), ("Clip", 1), ("Clip", 2), ("Dropout", 1),
        ("OneHot", 1), ("Pad", 2), ("Pow", 1), ("Range", 0), ("Range", 1), ("Range", 2), ("Resize", 1),
        ("Resize", 2),
    }
)  # fmt: skip
"""Inputs of operators that set how they work, by position: what is read only there is not trained."""

_KEY = METADATA + "metadata"

rules.load()


@collector_paused()
def grad(
    model: Model, of: str | Iterable[str] | None = None, wrt: str | Iterable[str] | None = None
) -> Model:
    """Return a model that computes what another one does, and its gradients by reverse mode.

    It keeps the inputs, outputs and nodes of the forward pass, and adds:

    - an input `<output>_grad` for each output in `of`, of that output's shape and dtype: the gradient that
      comes from outside. An output of rank 0 is a loss and gets 1 instead;
    - an output `<name>_grad` for each name in `wrt`, of its shape and dtype; zeros where nothing comes back.

    A name that is taken gets a number. Which is which, and where gradients stopped, stands in the graph's
    metadata under `gradient`; what stood there of the backward pass of a gradient graph, under `earlier` in
    it. A node multiplies what it sends back by its `lda_coeff`, and sends nothing where its `training` is
    false. Of complex values the gradients are conjugated, as in torch.

    Args:
        model: The model; its first graph is differentiated, as lowered to ONNX (see `to_onnx`). Where it
            keeps state, this is one evaluation, whose states are inputs and outputs.
        of: Names of floating-point outputs. Left out, all of them.
        wrt: Names of floating-point inputs and parameters; a parameter is called `node.parameter`, or as
            the ONNX initializer that it was lifted from. Left out, all inputs and parameters, but those that
            only set how an operator works, such as the bounds of Clip, those whose metadata says
            `trainable: false`, and those that hold infinite numbers.

    Returns:
        A model that runs, is saved, drawn, exported and differentiated like any other. Its backward nodes
        say so in their metadata: `mdf_scatter.pass` is `backward`, in a second pass `backward 2`.

    Raises:
        InputError: A name is none of those that it may be.
        ModelError: `check` finds an error in the model.
        UnsupportedError: A node on the way has no rule, or the model has no form in ONNX.

    >>> import onnx
    >>> from mdf_scatter import from_onnx, run
    >>> text = 'g (float[2] x) => (float[2] y) { y = Mul(x, x) }'
    >>> model = from_onnx(onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": 18]> {text}'))
    >>> run(grad(model), {"x": [1.0, 2.0], "y_grad": [1.0, 1.0]})["x_grad"]
    array([2., 4.], dtype=float32)
    """
    refuse(model, trust=False)
    return lift(gradient_graph(model, of=of, wrt=wrt).model)


@dataclass(frozen=True)
class GradientGraph:
    """A lowered model with its backward pass.

    Attributes:
        model: The model.
        of: The input for the gradient from outside of each output; None where that is 1.
        wrt: The output that is the gradient of each input and parameter.
        stops: Where gradients stopped.
    """

    model: ir.Model
    of: Mapping[str, str | None]
    wrt: Mapping[str, str]
    stops: Sequence[Stop]


def gradient_graph(
    model: Model,
    *,
    of: str | Iterable[str] | None = None,
    wrt: str | Iterable[str] | None = None,
    types: TypeOf | None = None,
    is_fed: bool = False,
    with_inputs: bool = True,
) -> GradientGraph:
    """Lower a model and add its backward pass; see `grad`.

    Args:
        model: See `grad`.
        of: See `grad`.
        wrt: See `grad`.
        types: dtype and shape of graph inputs, by name, where the ports declare none.
        is_fed: Whether the parameters in `wrt` become inputs with a default.
        with_inputs: Whether inputs are among them where `wrt` is left out.
    """
    parameters = parameters_of(model)
    asked = None if wrt is None else _names(wrt)
    held = [
        (node.id, parameter.id)
        for name, places in parameters.items()
        if asked is None or name in asked
        for node, parameter in places
    ]
    lowered = prepared(model, held, types)
    graph = lowered.graph
    states = {name for pair in json.loads(lowered.metadata_props.get(STATES, "[]")) for name in pair}
    states.add(lowered.metadata_props.get(TIME, ""))
    losses = _chosen("of", of, _outputs(graph), [name for name in _outputs(graph) if name not in states])
    trained = _trained(graph, parameters, states)
    if not with_inputs:
        trained = [name for name in trained if name in parameters]
        if asked is None and not trained:
            raise InputError(f"model {model.id!r} has no floating-point parameter to train")
    targets = _chosen("wrt", asked, _sources(graph, parameters), trained)
    if is_fed:
        graph.inputs.extend(value for value in targets.values() if not value.is_graph_input())
    return _differentiated(lowered, losses, targets)


def _differentiated(
    lowered: ir.Model, losses: Mapping[str, ir.Value], targets: Mapping[str, ir.Value]
) -> GradientGraph:
    graph = lowered.graph
    builder = Builder(lowered.opset_imports)
    builder.reserve(*_taken_names(graph))
    emit = Emitter(builder, number=1 + len(_passes(graph)))
    _name_sizes(graph, losses.values())
    seeds: dict[ir.Value, ir.Value] = {}
    from_outside: dict[str, str | None] = {}
    for name, value in losses.items():
        if static_shape(value) == ():
            seeds[value], from_outside[name] = emit.constant(1, value), None
        else:
            seed = ir.Value(name=builder.free_name(f"{name}_grad"), type=value.type, shape=value.shape)
            graph.inputs.append(seed)
            seeds[value], from_outside[name] = seed, str(seed.name)
    gradients, stops = backward(emit, list(graph), seeds, dict.fromkeys(targets.values()))
    results: dict[str, str] = {}
    for name, value in targets.items():
        own = emit.named(f"{name}_grad")
        result = gradients[value] if value in gradients else own.zeros_like(value)
        maker = result.producer()
        if maker is None or maker.graph is not None or result.is_graph_output():
            # It is an input, a constant or an output already, which has a name of its own.
            (result,) = own.several("Identity", result, outputs=1)
        if value.shape is not None:
            result.shape = value.shape
        builder.rename(result, f"{name}_grad", reserved=False)
        graph.outputs.append(result)
        results[name] = str(result.name)
    _add(graph, builder)
    found = GradientGraph(lowered, from_outside, results, stops)
    _describe(graph, found)
    return found


def _name_sizes(graph: ir.Graph, losses: Iterable[ir.Value]) -> None:
    """Name the sizes of outputs that are not known, so that their gradients are seen to have the same."""
    values = [*graph.inputs, *graph.outputs, *(value for node in graph for value in node.outputs)]
    sizes = [size for value in values if value.shape is not None for size in value.shape]
    names = Names(size.value for size in sizes if isinstance(size, ir.SymbolicDim) and size.value)
    for value in losses:
        if value.shape is not None:
            value.shape = ir.Shape(
                [
                    names.take(f"{value.name}_size_{axis}")
                    if isinstance(size, ir.SymbolicDim) and not size.value
                    else size
                    for axis, size in enumerate(value.shape)
                ]
            )


def _names(names: str | Iterable[str]) -> list[str]:
    return [names] if isinstance(names, str) else list(names)


def _chosen(
    what: str, names: str | Iterable[str] | None, choices: Mapping[str, ir.Value], default: Iterable[str]
) -> dict[str, ir.Value]:
    """Return the values that names stand for; those of the default where there are no names."""
    wanted = list(default) if names is None else _names(names)
    for name in wanted:
        if name not in choices:
            kinds = "outputs" if what == "of" else "inputs or parameters"
            known = listed(tuple(choices)) if choices else "there are none"
            raise InputError(f"{what} has {name!r}; expected floating-point {kinds}: {known}")
    if not wanted:
        kind = "output" if what == "of" else "input or parameter"
        raise InputError(f"the model has no floating-point {kind}, so there is nothing to differentiate")
    return {name: choices[name] for name in dict.fromkeys(wanted)}


def _outputs(graph: ir.Graph) -> dict[str, ir.Value]:
    return {str(value.name): value for value in graph.outputs if _is_floating(value)}


def _sources(graph: ir.Graph, parameters: Iterable[str]) -> dict[str, ir.Value]:
    """Return the values that gradients may be asked for, by name."""
    given = {str(value.name): value for value in graph.inputs}
    kept = {name: graph.initializers[name] for name in parameters if name in graph.initializers}
    return {name: value for name, value in (given | kept).items() if _is_floating(value)}


def _trained(graph: ir.Graph, parameters: Places, states: Iterable[str]) -> list[str]:
    """Return the names of the sources that are more than constants, settings of operators, or states."""
    left_out = {*states, *(name for name in parameters if not is_trained(parameters, name))}
    return [
        name
        for name, value in _sources(graph, parameters).items()
        if name not in left_out and not (value.uses() and all(_is_setting(use) for use in value.uses()))
    ]


def _is_setting(use: Any) -> bool:
    node, position = use
    return node.domain == "" and (node.op_type, position) in SETTINGS


def _is_floating(value: ir.Value) -> bool:
    return value.type is not None and isinstance(value.type, ir.TensorType) and has_gradient(value)


def _taken_names(graph: ir.Graph) -> tuple[list[str], list[str]]:
    """Return the names of all values, and of all nodes, in a graph and the graphs inside it."""
    values = [str(value.name) for value in (*graph.inputs, *graph.initializers.values())]
    nodes = []
    for node in graph.all_nodes():
        nodes.append(str(node.name))
        values += [str(value.name) for value in node.outputs]
    for inner in graph.subgraphs():
        values += [str(value.name) for value in (*inner.inputs, *inner.initializers.values())]
    return values, nodes


def _add(graph: ir.Graph, builder: Builder) -> None:
    """Add to a graph the nodes and constants that its outputs need."""
    graph.extend(needed(builder.nodes, graph.outputs)[0])
    for constant in builder.initializers.values():
        if constant.uses() or constant.is_graph_output():
            graph.register_initializer(constant)


def _passes(graph: ir.Graph) -> list[dict[str, Any]]:
    """Return what a graph says of the backward passes that it has already, the first one first."""
    last = json.loads(graph.metadata_props.get(_KEY, "{}")).get("gradient")
    if not isinstance(last, dict):
        return []
    earlier = last.pop("earlier", None)
    return [*(earlier if isinstance(earlier, list) else ()), last]


def _describe(graph: ir.Graph, found: GradientGraph) -> None:
    said, earlier = json.loads(graph.metadata_props.get(_KEY, "{}")), _passes(graph)
    said["gradient"] = {
        "of": dict(found.of),
        "wrt": dict(found.wrt),
        "stopped": [{"node": stop.node, "reason": stop.reason} for stop in found.stops],
        **({"earlier": earlier} if earlier else {}),
    }
    graph.metadata_props[_KEY] = json.dumps(said)
