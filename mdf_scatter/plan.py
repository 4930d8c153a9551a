"""How a lowered graph runs: our operators in our kernels, the stretches between them in onnxruntime.

onnxruntime splits a scatter's updates among threads without order, so repeated indices lose updates
there; our operators therefore never reach it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import onnx
import onnx_ir as ir

from mdf_scatter.errors import EvaluationError, OperatorError, UnsupportedError
from mdf_scatter.lower.functions import NODE
from mdf_scatter.ops import OPS
from mdf_scatter.tensors import array_of

Arrays = dict[str, npt.NDArray[Any]]


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

    def __init__(self, model: ir.Model) -> None:
        graph = model.graph
        self.inputs = {str(value.name) for value in graph.inputs}
        self.outputs = [str(value.name) for value in graph.outputs]
        self._constants: Arrays = {
            name: array_of(value.const_value)
            for name, value in graph.initializers.items()
            if value.const_value is not None
        }
        self._steps: list[_Step] = _steps(model, self._constants)
        self._last_reader: dict[str, int] = {}
        for position, step in enumerate(self._steps):
            self._last_reader.update(dict.fromkeys(step.reads, position))

    def run(self, inputs: Mapping[str, npt.NDArray[Any]]) -> Arrays:
        """Compute the graph's outputs.

        Args:
            inputs: An array for each graph input that has no default.

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


class _Segment:
    """A stretch of other operators: one onnxruntime session, or ONNX's reference evaluator."""

    def __init__(self, model: onnx.ModelProto) -> None:
        self.reads = tuple(value.name for value in model.graph.input)
        self._writes = [value.name for value in model.graph.output]
        self._operators = ", ".join(sorted({node.op_type for node in model.graph.node}))
        self._session = _session(model)
        self._model = model
        self._reference: Any = None

    def run(self, values: Arrays) -> None:
        feed = {name: values[name] for name in self.reads}
        try:
            results = self._run(feed)
        except Exception as error:  # onnxruntime and the reference evaluator raise what they please
            reason = str(error).strip().splitlines()[-1]
            raise EvaluationError(f"operators {self._operators}: {reason}") from error
        values.update(zip(self._writes, map(np.asarray, results), strict=True))

    def _run(self, feed: Arrays) -> list[Any]:
        if self._session is not None and all(array.dtype.kind != "V" for array in feed.values()):
            feed = {name: np.require(array, requirements="C") for name, array in feed.items()}
            return list(self._session.run(self._writes, feed))
        if self._reference is None:
            from onnx.reference import ReferenceEvaluator

            self._reference = ReferenceEvaluator(self._model)
        return list(self._reference.run(self._writes, feed))


def _session(model: onnx.ModelProto) -> Any:
    """Return an onnxruntime session, or None where it has no kernel for a type or operator."""
    import onnxruntime
    from onnxruntime.capi import onnxruntime_pybind11_state as refusals

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    try:
        return onnxruntime.InferenceSession(
            model.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
    except (refusals.NotImplemented, refusals.InvalidGraph, refusals.Fail, refusals.InvalidArgument):
        return None


def _steps(model: ir.Model, constants: Arrays) -> list[_Step]:
    """Cut the graph where our operators stand.

    Nodes get a stage: even ones are for onnxruntime, odd ones for us. A node's stage is the first of its
    kind that comes after, or is, that of each node it reads from; so there are as few cuts as the
    longest alternation in the graph.
    """
    stage: dict[str, int] = {}
    others: dict[int, list[ir.Node]] = {}
    ours: dict[int, list[ir.Node]] = {}
    for node in model.graph:
        own = node.domain == "" and node.op_type in OPS
        earliest = max(
            (stage.get(str(value.name), 0) for value in node.inputs if value is not None), default=0
        )
        place = earliest if earliest % 2 == own else earliest + 1
        stage.update(dict.fromkeys((str(value.name) for value in node.outputs), place))
        (ours if own else others).setdefault(place, []).append(node)
    steps: list[_Step] = []
    for place in sorted({*ours, *others}):
        steps += [_scatter(node) for node in ours.get(place, ())]
        if place in others:
            steps.append(_Segment(_segment_model(model, others[place], constants)))
    return steps


def _scatter(node: ir.Node) -> _Scatter:
    attributes = {name: attribute.value for name, attribute in node.attributes.items()}
    return _Scatter(
        op_type=node.op_type,
        name=str(node.meta.get(NODE) or node.name or ""),
        reads=tuple(str(value.name) for value in node.inputs if value is not None),
        writes=str(node.outputs[0].name),
        attributes=attributes,
    )


def _segment_model(model: ir.Model, nodes: list[ir.Node], constants: Arrays) -> onnx.ModelProto:
    """Return nodes as a model of their own, whose inputs and outputs are what crosses its edge."""
    made = {value.name for node in nodes for value in node.outputs}
    inside = set(nodes)
    read = {value.name: value for node in nodes for value in node.inputs if value is not None}
    outside = [value for name, value in read.items() if name not in made]
    fixed = [v for v in outside if v.name in constants and not v.is_graph_input()]
    leaving = [
        value
        for node in nodes
        for value in node.outputs
        if value.name and (value.is_graph_output() or any(use.node not in inside for use in value.uses()))
    ]
    for value in outside:
        if value.type is None:
            raise UnsupportedError(f"value {value.name!r} has no known dtype; give its port a type")
    graph = onnx.helper.make_graph(
        [ir.to_proto(node) for node in nodes],
        "segment",
        [ir.to_proto(value) for value in outside if value not in fixed],
        [ir.to_proto(value) for value in leaving],
        initializer=[ir.to_proto(value.const_value) for value in fixed if value.const_value is not None],
    )
    imports = [onnx.helper.make_opsetid(domain, version) for domain, version in model.opset_imports.items()]
    return onnx.helper.make_model(graph, opset_imports=imports, ir_version=model.ir_version)
