"""How a lowered graph runs: our operators in our kernels, the stretches between them in onnxruntime.

onnxruntime splits a scatter's updates among threads without order, so repeated indices lose updates
there; our operators therefore never reach it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import onnx_ir as ir

from mdf_scatter.attributes import sparse_array
from mdf_scatter.collector import collector_paused
from mdf_scatter.errors import OperatorError
from mdf_scatter.lower.functions import NODE
from mdf_scatter.lower.protos import noted
from mdf_scatter.ops import OPS
from mdf_scatter.segment import Segment
from mdf_scatter.stretches import Stretches, holds_family
from mdf_scatter.tensors import array_of

Arrays = dict[str, Any]
"""Values by name: arrays, and lists, dicts or None for what is no tensor."""


class _Step(Protocol):
    @property
    def reads(self) -> tuple[str, ...]:
        """Names of the values it computes from."""

    def run(self, values: Arrays) -> None:
        """Compute this step's values from those that are there, and add them."""


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
        self._steps: list[_Step] = _steps(model, self._constants)
        self._last_reader: dict[str, int] = {}
        for position, step in enumerate(self._steps):
            self._last_reader.update(dict.fromkeys(step.reads, position))

    def run(self, inputs: Mapping[str, Any]) -> Arrays:
        """Compute the graph's outputs.

        Args:
            inputs: A value for each graph input that has no default.

        Raises:
            OperatorError: One of our operators cannot work on what reaches it.
            EvaluationError: Another operator fails.
        """
        values = self._constants | dict(inputs)
        kept = set(self.outputs)
        for position, step in enumerate(self._steps):
            step.run(values)
            for name in step.reads:
                if self._last_reader[name] == position and name not in kept:
                    values.pop(name, None)
        return {name: values[name] for name in self.outputs}


@dataclass(frozen=True)
class _Scatter:
    """One of our operators."""

    op_type: str
    name: str
    reads: tuple[str, ...]
    writes: str
    attributes: Mapping[str, Any]

    def run(self, values: Arrays) -> None:
        try:
            values[self.writes] = OPS[self.op_type].forward(
                *(values[name] for name in self.reads), **self.attributes
            )
        except OperatorError as error:
            raise error.at(self.name) from error


def _steps(model: ir.Model, constants: Arrays) -> list[_Step]:
    """Cut the graph where our operators stand.

    Nodes get a stage: even ones are for onnxruntime, odd ones for us. A node's stage is the first of its
    kind that comes after, or is, that of each node it reads from; so there are as few cuts as the
    longest alternation in the graph. A node with our operators inside it, in a subgraph or a function,
    runs in ONNX's reference evaluator, where they are ours too.
    """
    stage: dict[str, int] = {}
    others: dict[int, list[ir.Node]] = {}
    ours: dict[int, list[ir.Node]] = {}
    inside = holds_family(model)
    stretches = Stretches(model, constants)
    for node in model.graph:
        own = _is_ours(model, node) or node in inside
        earliest = max((stage.get(name, 0) for name in stretches.reads(node)), default=0)
        place = earliest if earliest % 2 == own else earliest + 1
        stage.update(dict.fromkeys((str(value.name) for value in node.outputs), place))
        (ours if own else others).setdefault(place, []).append(node)
    steps: list[_Step] = []
    for place in sorted({*ours, *others}):
        for node in ours.get(place, ()):
            if node in inside:
                steps.append(Segment(stretches.model([node]), by_reference=True))
            else:
                steps.append(_scatter(node))
        if place in others:
            steps += stretches.segments(others[place])
    return steps


def _is_ours(model: ir.Model, node: ir.Node) -> bool:
    return node.domain == "" and node.op_type in OPS and ("", node.op_type, "") not in model.functions


def _scatter(node: ir.Node) -> _Scatter:
    attributes = {name: attribute.value for name, attribute in node.attributes.items()}
    return _Scatter(
        op_type=node.op_type,
        name=str(node.meta.get(NODE) or node.name or ""),
        reads=tuple(str(value.name) for value in node.inputs if value is not None),
        writes=str(node.outputs[0].name),
        attributes=attributes,
    )
