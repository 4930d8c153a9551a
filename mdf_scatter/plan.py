"""How a lowered graph runs: our operators in our kernels, the stretches between them in onnxruntime.

onnxruntime splits a scatter's updates among threads without order, so repeated indices lose updates
there; our operators therefore never reach it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Mapping, Sequence
from functools import partial
from typing import Any

import onnx_ir as ir

from mdf_scatter.attributes import sparse_array
from mdf_scatter.buffers import Step, Values, endings, in_order
from mdf_scatter.collector import collector_paused
from mdf_scatter.errors import MdfScatterError
from mdf_scatter.fixed import fixed, is_small
from mdf_scatter.lower.functions import NODE
from mdf_scatter.lower.protos import noted
from mdf_scatter.ops import OPS
from mdf_scatter.own_steps import Lookup, Operator, SecondName, with_lookups
from mdf_scatter.segment import Segment
from mdf_scatter.stretches import Stretches, holds_family, values_read
from mdf_scatter.tensors import array_of

Arrays = dict[str, Any]
"""Values by name: arrays, and lists, dicts or None for what is no tensor."""

Cut = Callable[[Sequence[ir.Node]], list[Step]]
"""Cuts nodes of a graph into steps."""

_START = -1
"""The stage of what is there from the start; as one of ours, it makes no cut."""


class Plan:
    """A graph, ready to run any number of times.

    Args:
        model: The lowered model.

    Raises:
        UnsupportedError: A stretch of the graph runs in neither onnxruntime nor ONNX's reference
            evaluator.
    """

    @collector_paused()
    def __init__(self, model: ir.Model) -> None:
        graph = model.graph
        self.inputs = {str(value.name) for value in graph.inputs}
        self.outputs = [str(value.name) for value in graph.outputs]
        self._constants: Arrays = {
            name: array_of(value.const_value)
            for name, value in graph.initializers.items()
            if value.const_value is not None
        }
        for tensor in noted(graph, "sparse_initializer") or ():
            self._constants[tensor.values.name] = sparse_array(tensor)
        told, early = fixed(graph, self._constants)
        self._constants |= told
        # It sees what the constants gain.
        cut = partial(_steps, model, Stretches(model, self._constants), holds_family(model))
        self._constants |= _computed(cut, self._constants, early)
        nodes = _left(graph, self._constants, early)
        steps = with_lookups(cut(nodes), self.outputs)
        self._roots = _roots(steps)
        self._steps = in_order(steps, self._roots)
        self._endings = endings(self._steps, self._roots, self.outputs)
        self._let_overwrite()
        asked = self.inputs.union(self.outputs, *(step.reads for step in steps))
        self._constants = {name: array for name, array in self._constants.items() if name in asked}

    def run(self, inputs: Mapping[str, Any]) -> Arrays:
        """Compute the graph's outputs.

        Args:
            inputs: A value for each graph input that has no default. Their arrays are not changed.

        Returns:
            A value for each output, in memory of its own.

        Raises:
            OperatorError: One of our operators cannot work on what reaches it.
            EvaluationError: Another operator fails.
        """
        return self.values(inputs).take(self.outputs)

    def values(self, inputs: Mapping[str, Any], kept: Collection[str] = ()) -> Values:
        """Compute the graph's outputs, which may share memory with each other, inputs and constants.

        Args:
            inputs: See `run`.
            kept: Names of inputs whose arrays, each in memory of its own, may be overwritten: nobody else
                reads them. If the run fails, they are as they were.

        Raises:
            OperatorError: See `run`.
            EvaluationError: See `run`.
        """
        values = Values(self._constants | dict(inputs), kept, self._roots)
        try:
            for step, ending in zip(self._steps, self._endings, strict=True):
                step.run(values)
                for name in ending:
                    del values[name]
        except BaseException:
            values.undo()
            raise
        return values

    def _let_overwrite(self) -> None:
        """Tell the operators that are the last to read their first input that its memory is free."""
        able = [place for place, step in enumerate(self._steps) if not isinstance(step, SecondName)]
        for place in able:
            step = self._steps[place]
            if isinstance(step, Operator | Lookup) and step.overwritable in self._endings[place]:
                first, *others = (self._roots.get(name, name) for name in step.reads)
                if first not in others:
                    self._steps[place] = step.in_place(is_last=place == able[-1])


def _roots(steps: Sequence[Step]) -> dict[str, str]:
    """Return for each second name the first one."""
    roots: dict[str, str] = {}
    for step in steps:
        if isinstance(step, SecondName):
            roots[step.writes[0]] = roots.get(step.reads[0], step.reads[0])
    return roots


def _computed(cut: Cut, constants: Arrays, nodes: Sequence[ir.Node]) -> Arrays:
    """Return what nodes compute from constants alone, by name, where it is not large."""
    if not nodes:
        return {}
    names = [str(value.name) for node in nodes for value in node.outputs]
    values = Values(constants)
    try:
        for step in in_order(cut(nodes), {}):
            step.run(values)
    except MdfScatterError:
        return {}  # what is wrong is told when the graph runs, if it comes so far
    return {name: values[name] for name in names if is_small(values.get(name))}


def _left(graph: ir.Graph, constants: Arrays, early: Collection[ir.Node]) -> list[ir.Node]:
    """Return the nodes that have something to compute still, in order.

    Args:
        graph: The graph.
        constants: What is there already, by name.
        early: Nodes whose results that are asked for may all be among it.
    """
    early = set(early)
    asked = {str(value.name) for value in graph.outputs}
    left = []
    for node in reversed(graph):
        names = {str(value.name) for value in node.outputs}
        missing = names.difference(constants)
        if missing & asked if node in early else missing:
            left.append(node)
            asked.update(str(value.name) for value in values_read(node))
    return left[::-1]


def _steps(
    model: ir.Model, stretches: Stretches, inside: Container[ir.Node], nodes: Sequence[ir.Node]
) -> list[Step]:
    """Cut nodes of the graph where our operators stand.

    Nodes get a stage: even ones are for onnxruntime, odd ones, from -1 on, for us. A node's stage is the
    first of its kind that comes after, or is, that of each node it reads from; so there are as few cuts as
    the longest alternation in the graph. A node with our operators inside it, in a subgraph or a function,
    runs in ONNX's reference evaluator, where they are ours too. An Identity of what onnxruntime has not
    made is ours: it moves nothing here.
    """
    stage: dict[str, int] = {}
    others: dict[int, list[ir.Node]] = {}
    ours: dict[int, list[ir.Node]] = {}
    for node in nodes:
        earliest = max((stage.get(name, _START) for name in stretches.reads(node)), default=_START)
        names_ours = _is_of(model, node, ("Identity",)) and earliest % 2 == 1
        own = names_ours or _is_of(model, node, OPS) or node in inside
        place = earliest if earliest % 2 == own else earliest + 1
        stage.update(dict.fromkeys((str(value.name) for value in node.outputs), place))
        (ours if own else others).setdefault(place, []).append(node)
    steps: list[Step] = []
    for place in sorted({*ours, *others}):
        for node in ours.get(place, ()):
            if node in inside:
                steps.append(Segment(stretches.model([node]), by_reference=True))
            else:
                steps.append(_step(node))
        if place in others:
            steps += stretches.segments(others[place])
    return steps


def _is_of(model: ir.Model, node: ir.Node, op_types: Collection[str]) -> bool:
    return node.domain == "" and node.op_type in op_types and ("", node.op_type, "") not in model.functions


def _step(node: ir.Node) -> SecondName | Operator:
    reads = tuple(str(value.name) for value in node.inputs if value is not None)
    writes = (str(node.outputs[0].name),)
    if node.op_type == "Identity":
        return SecondName(reads, writes)
    attributes = {name: attribute.value for name, attribute in node.attributes.items()}
    name = str(node.meta.get(NODE) or node.name or "")
    return Operator(node.op_type, name, reads, writes, attributes)
