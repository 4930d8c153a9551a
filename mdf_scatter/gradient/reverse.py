"""Backwards through the nodes of a graph: what comes back to each, and what it sends on."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

import onnx_ir as ir

from mdf_scatter.errors import UnsupportedError
from mdf_scatter.gradient.emitter import Emitter
from mdf_scatter.gradient.table import CONSTANT, RULES, Call, Stop, node_name
from mdf_scatter.lower.functions import METADATA
from mdf_scatter.stretches import values_read

_SMOOTH = frozenset(
    {
        ir.DataType.FLOAT16,
        ir.DataType.BFLOAT16,
        ir.DataType.FLOAT,
        ir.DataType.DOUBLE,
        ir.DataType.COMPLEX64,
        ir.DataType.COMPLEX128,
    }
)
"""Types that gradients have; the narrower floating ones have no arithmetic in ONNX."""

TRAINING, LDA_COEFF = METADATA + "training", METADATA + "lda_coeff"


def backward(
    emit: Emitter,
    nodes: Sequence[ir.Node],
    seeds: Mapping[ir.Value, ir.Value],
    targets: Collection[ir.Value],
) -> tuple[dict[ir.Value, ir.Value], list[Stop]]:
    """Write the backward pass of nodes.

    Args:
        emit: Writes its nodes.
        nodes: Those of a graph or a body, each after those it reads from.
        seeds: The gradients that come from outside, of outputs of the nodes, or of targets themselves.
        targets: Values whose gradients are asked for.

    Returns:
        The gradient of each target that has one, and where gradients stopped, in graphs inside too.

    Raises:
        UnsupportedError: A node on the way has no rule; the message names it and the way.
    """
    active = active_values(nodes, targets)
    reaching = reaching_values(nodes, seeds)
    stops = [
        Stop(node_name(node), "training is false")
        for node in nodes
        if is_stopped(node) and _any_in(values_read(node), active) and _any_in(node.outputs, reaching)
    ]
    coming: dict[ir.Value, list[ir.Value]] = {value: [seed] for value, seed in seeds.items()}
    passed: dict[ir.Value, ir.Value | None] = {}
    for node in reversed(nodes):
        if not any(value in coming and value in active for value in node.outputs):
            continue
        grads = tuple(_taken(emit, coming, value) for value in node.outputs)
        passed.update(zip(node.outputs, grads, strict=True))
        inputs = _inputs(node)
        wanted = frozenset(at for at, value in enumerate(inputs) if value in active)
        call = Call(node, inputs, grads, emit.named(f"{node.name or node.op_type}_grad"), wanted)
        found = RULES.get((node.domain, node.op_type))
        if found is None:
            before, after = _way_back(node, active, targets), _way_on(node, reaching, seeds)
            raise UnsupportedError(_without_rule(node, before, after))
        coefficient = _coefficient(node)
        for at, (value, gradient) in enumerate(zip(inputs, found(call), strict=False)):
            if at not in wanted or value is None or gradient is None:
                continue
            sent = gradient() if callable(gradient) else gradient
            if sent is None:
                continue
            if sent.shape is None and sent.producer() is not None:
                sent.shape = value.shape
            if coefficient != 1:
                sent = call.emit("Mul", sent, coefficient)
            if sent.shape is None:
                # Inference knows less of what a rule computes than of the value that it is the gradient of.
                sent.shape = value.shape
            coming.setdefault(value, []).append(sent)
        stops += call.stops
    sums = {value: passed[value] if value in passed else _taken(emit, coming, value) for value in targets}
    return {value: total for value, total in sums.items() if total is not None}, stops


def through_others(call: Call, write: Callable[[], Sequence[ir.Value]]) -> list[ir.Value | None]:
    """Return the gradients of a call's inputs through operators that do what its own does.

    Args:
        call: The call.
        write: Writes these operators, and returns what they give for each of the node's outputs.
    """
    nodes = call.emit.builder.nodes
    first = len(nodes)
    pairs = zip(write(), call.grads, strict=False)
    seeds = {output: grad for output, grad in pairs if grad is not None}
    targets = dict.fromkeys(map(call.input, sorted(call.wanted)))
    found, _ = backward(call.emit, nodes[first:], seeds, targets)
    return [None if value is None else found.pop(value, None) for value in call.inputs]


def is_stopped(node: ir.Node) -> bool:
    """Tell whether a node lets no gradient pass, because its `training` is false.

    Raises:
        UnsupportedError: That is known only when the model runs.
    """
    said = _setting(node, TRAINING, default=True)
    if said not in (True, False):
        raise UnsupportedError(_open_setting(node, "training", said, "true or false"))
    return not said


def _coefficient(node: ir.Node) -> float:
    """Return what a node multiplies by what it sends back."""
    said = _setting(node, LDA_COEFF, default=1.0)
    if isinstance(said, bool) or not isinstance(said, (int, float)) or not math.isfinite(said):
        raise UnsupportedError(_open_setting(node, "lda_coeff", said, "a finite number"))
    return float(said)


def _setting(node: ir.Node, key: str, default: bool | float) -> Any:
    text = node.metadata_props.get(key)
    if text is None:
        return default
    try:
        return json.loads(text)
    except ValueError:
        # Metadata is anyone's to write.
        return text


def _open_setting(node: ir.Node, name: str, said: object, expected: str) -> str:
    return (
        f"{node.op_type} {node_name(node)!r}: {name} is {said!r}, and a gradient graph is built before"
        f" anything runs; expected {expected} that stands in the model"
    )


def has_gradient(value: ir.Value) -> bool:
    """Tell whether a value is of a type that gradients have; one that is not known may be."""
    kind = value.type
    while isinstance(kind, (ir.SequenceType, ir.OptionalType)):
        kind = kind.elem_type
    if not isinstance(kind, ir.TensorType):
        return kind is None
    return kind.dtype in _SMOOTH


def is_constant(node: ir.Node) -> bool:
    """Tell whether a node's outputs change in steps only, or not at all."""
    return node.domain == "" and node.op_type in CONSTANT


def active_values(nodes: Iterable[ir.Node], targets: Collection[ir.Value]) -> set[ir.Value]:
    """Return the targets, and the values that change smoothly with them."""
    active = set(targets)
    for node in nodes:
        if not is_stopped(node) and not is_constant(node) and _any_in(values_read(node), active):
            active.update(value for value in node.outputs if has_gradient(value))
    return active


def reaching_values(nodes: Sequence[ir.Node], seeds: Iterable[ir.Value]) -> set[ir.Value]:
    """Return the values that the seeds' values are computed from, and these."""
    reaching = set(seeds)
    for node in reversed(nodes):
        if not is_stopped(node) and _any_in(node.outputs, reaching):
            reaching.update(values_read(node))
    return reaching


def _inputs(node: ir.Node) -> tuple[ir.Value | None, ...]:
    direct = tuple(node.inputs)
    around = [value for value in dict.fromkeys(values_read(node)) if value not in direct]
    return (*direct, *around)


def _taken(emit: Emitter, coming: dict[ir.Value, list[ir.Value]], value: ir.Value) -> ir.Value | None:
    """Return the sum of what comes back to a value."""
    parts = coming.pop(value, [])
    if len(parts) < 2:
        return parts[0] if parts else None
    return emit.named(f"{value.name}_grad")("Add" if len(parts) == 2 else "Sum", *parts)


def _any_in(values: Iterable[ir.Value], those: Collection[ir.Value]) -> bool:
    return any(value in those for value in values)


def _without_rule(node: ir.Node, before: Iterable[str], after: Iterable[str]) -> str:
    domain, name = f"{node.domain}::" if node.domain else "", node_name(node)
    way = " -> ".join(map(repr, (*before, name, *after)))
    return (
        f"{domain}{node.op_type} {name!r}: there is no rule for its gradient, and it is on the way "
        f"{way}; add one with mdf_scatter.gradient.rule, or leave it out with of= and wrt="
    )


def _way_back(node: ir.Node, active: Collection[ir.Value], targets: Collection[ir.Value]) -> list[str]:
    """Return names on a way from one of the targets to a node."""
    names: list[str] = []
    while True:
        read = [value for value in values_read(node) if value in active]
        target = next((value for value in read if value in targets), None)
        if target is not None or not read:
            return [*([] if target is None else [str(target.name)]), *reversed(names)]
        maker = read[0].producer()
        if maker is None:
            return names[::-1]
        node = maker
        names.append(node_name(node))


def _way_on(node: ir.Node, reaching: Collection[ir.Value], seeds: Collection[ir.Value]) -> list[str]:
    """Return names on a way from a node to one of the values where gradients begin."""
    names: list[str] = []
    while True:
        made = [value for value in node.outputs if value in reaching]
        seed = next((value for value in made if value in seeds), None)
        if seed is not None or not made:
            return [*names, *([] if seed is None else [str(seed.name)])]
        readers = [use.node for use in made[0].uses() if _any_in(use.node.outputs, reaching)]
        if not readers:
            return names
        node = readers[0]
        names.append(node_name(node))
