"""Running models: which engine, what goes in, what comes out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from modeci_mdf.mdf import Graph, Model

from mdf_scatter.checks import refuse
from mdf_scatter.dtypes import dtype_of
from mdf_scatter.errors import (
    EvaluationError,
    InputError,
    MdfScatterError,
    UnsupportedError,
    listed,
)
from mdf_scatter.inputs import checked_inputs
from mdf_scatter.lower import lower
from mdf_scatter.plan import Plan
from mdf_scatter.plugin import registered
from mdf_scatter.wiring import (
    GraphInput,
    GraphOutput,
    declared_shape,
    default_value,
    graph_inputs,
    graph_outputs,
    sole_graph,
)

Engine = Literal["auto", "onnx", "mdf"]
ENGINES = ("auto", "onnx", "mdf")

Arrays = dict[str, npt.NDArray[Any]]


def run(
    model: Model,
    inputs: Mapping[str, npt.ArrayLike] | None = None,
    *,
    engine: Engine = "auto",
    steps: int = 1,
    time_increment: float | None = None,
) -> Arrays:
    """Run a model once.

    Args:
        model: The model; its first graph runs.
        inputs: An array for each graph input, by input name or `node.port`.
        engine: "onnx" lowers the graph and runs our operators in our kernels and the rest in onnxruntime;
            "mdf" is modeci-mdf's own engine with our functions in it; "auto" is "onnx" where the graph can
            be expressed in ONNX, else "mdf".
        steps: How many times the graph is evaluated; state goes from one to the next.
        time_increment: Step of time in seconds, for parameters with a time derivative.

    Returns:
        An array for each graph output, by output name.

    Raises:
        ModelError: `check` finds an error in the model.
        InputError: An input is missing, unknown, or of the wrong dtype or shape.
        OperatorError: One of our operators cannot work on what reaches it; the message names the node.
        UnsupportedError: engine is "onnx" and the graph has no form in ONNX.
        EvaluationError: Another operator, or modeci-mdf's engine, fails.
    """
    return Runner(model, engine=engine)(inputs, steps=steps, time_increment=time_increment)


class Runner:
    """A model that is built once and called many times; state is kept between calls.

    Args:
        model: The model; its first graph runs. Later changes of it are not seen.
        engine: See `run`.

    Raises:
        ModelError: `check` finds an error in the model.
        InputError: There is no such engine.
    """

    def __init__(self, model: Model, *, engine: Engine = "auto") -> None:
        if engine not in ENGINES:
            raise InputError(f"engine is {engine!r}; expected {listed(ENGINES)}")
        refuse(model)
        self._model = model
        self._graph = sole_graph(model)
        self._engine: Engine = engine
        self._inputs = graph_inputs(self._graph)
        self._plans: dict[tuple[Any, ...], Plan] = {}
        self._host: _HostEngine | None = None

    def __call__(
        self,
        inputs: Mapping[str, npt.ArrayLike] | None = None,
        *,
        steps: int = 1,
        time_increment: float | None = None,
    ) -> Arrays:
        """Evaluate the graph; see `run` for arguments, result and errors."""
        if not isinstance(steps, int) or steps < 1:
            raise InputError(f"steps is {steps!r}; expected a whole number from 1 on")
        arrays = checked_inputs(self._graph, inputs or {})
        if self._engine != "mdf" and self._host is None:
            try:
                # A graph that can be lowered keeps no state: every step gives the same.
                return self._plan(arrays).run(arrays)
            except UnsupportedError:
                if self._engine == "onnx":
                    raise
        if self._host is None:
            self._host = _HostEngine(self._graph)
        return self._host.run(arrays, steps, time_increment)

    def reset(self) -> None:
        """Forget all state: the next call is as the first one was."""
        self._host = None

    def _plan(self, arrays: Arrays) -> Plan:
        # What ports leave open, the arrays decide; a graph whose ports leave nothing open has one plan.
        types = {
            item.name: (
                arrays[item.name].dtype,
                arrays[item.name].shape if declared_shape(item.port) is None else None,
            )
            for item in self._inputs
            if item.name in arrays and _leaves_open(item)
        }
        key = tuple((name, str(dtype), shape) for name, (dtype, shape) in types.items())
        if key not in self._plans:
            self._plans[key] = Plan(lower(self._model, types=types))
        return self._plans[key]


def _leaves_open(item: GraphInput) -> bool:
    untyped = item.port.type is None or dtype_of(item.port.type) is None
    return untyped or (declared_shape(item.port) is None and default_value(item) is not None)


class _HostEngine:
    """modeci-mdf's engine, quiet, with our functions in it and its failures explained."""

    def __init__(self, graph: Graph) -> None:
        from modeci_mdf.execution_engine import EvaluableGraph

        self._graph = graph
        self._started = False
        with registered():
            try:
                self._evaluable = EvaluableGraph(graph)
            except Exception as error:  # modeci-mdf raises what it pleases
                raise _explained(graph, error) from error

    def run(self, arrays: Arrays, steps: int, time_increment: float | None) -> Arrays:
        inputs = {item.name: item for item in graph_inputs(self._graph)}
        with registered():
            for _ in range(steps):
                for name, array in arrays.items():
                    item = inputs[name]
                    port = self._evaluable.enodes[item.node.id].evaluable_inputs[item.port.id]
                    # A copy: ports that reduce add to the array in place.
                    port.curr_value = array.copy()
                try:
                    # The first evaluation sets initial values; there is nothing to increment yet.
                    self._evaluable.evaluate(time_increment=time_increment if self._started else None)
                except MdfScatterError:
                    raise
                except Exception as error:  # modeci-mdf raises what it pleases
                    raise _explained(self._graph, error, self._evaluable.order_of_execution) from error
                self._started = True
        return {item.name: self._value(item) for item in graph_outputs(self._graph)}

    def _value(self, item: GraphOutput) -> npt.NDArray[Any]:
        value = self._evaluable.enodes[item.node.id].evaluable_outputs[item.port.id].curr_value
        array = np.asarray(value)
        return array.astype(object) if array.dtype.kind == "U" else array


def _explained(graph: Graph, error: Exception, executed: Sequence[str] = ()) -> EvaluationError:
    where = f"node {executed[-1]!r}" if executed else f"graph {graph.id!r}"
    reason = " ".join(str(error).split())[:300] or type(error).__name__
    return EvaluationError(f"{where}: modeci-mdf's engine failed: {reason}")
