"""Running models: which engine, what goes in, what comes out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from modeci_mdf.mdf import Graph, Model

from mdf_scatter.checks import refuse
from mdf_scatter.errors import (
    EvaluationError,
    InputError,
    MdfScatterError,
    NoEngineError,
    UnsupportedError,
    listed,
)
from mdf_scatter.expressions import ExpressionError
from mdf_scatter.inputs import Inputs, check_steps, leaves_open, types_of
from mdf_scatter.lower import lower_evaluation
from mdf_scatter.lower.builder import WEAK
from mdf_scatter.lower.evaluation import Evaluation, Kept, Key
from mdf_scatter.ops.settings import described, is_finite_number
from mdf_scatter.plan import Plan
from mdf_scatter.plugin import registered
from mdf_scatter.wiring import (
    GraphOutput,
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
    trust: bool = False,
) -> Arrays:
    """Run a model once.

    Args:
        model: The model; its first graph runs.
        inputs: An array for each graph input, by input name or `node.port`.
        engine: "onnx" lowers the graph and runs our operators in our kernels and the rest in onnxruntime;
            "mdf" is modeci-mdf's own engine with our functions in it; "auto" is "onnx" where the graph can
            be expressed in ONNX, else "mdf".
        steps: How many times the graph is evaluated; state goes from one to the next.
        time_increment: Step of time in seconds, for parameters with a time derivative. The first
            evaluation sets where they start from, and later ones move on by it; without it, they start
            anew.
        trust: Whether modeci-mdf's engine may evaluate any text in the model as Python. Only for models
            from people you would take a program from.

    Returns:
        An array for each graph output, by output name, in memory of its own.

    Raises:
        ModelError: `check` finds an error in the model.
        InputError: An input is missing, unknown, or of the wrong dtype or shape; `engine`, `steps` or
            `time_increment` is not what it may be.
        OperatorError: One of our operators cannot work on what reaches it; the message names the node.
        UnsupportedError: engine is "onnx" and the graph has no form in ONNX.
        EvaluationError: Another operator, or modeci-mdf's engine, fails.
    """
    return Runner(model, engine=engine, trust=trust)(inputs, steps=steps, time_increment=time_increment)


class Runner:
    """A model that is built once and called many times; state is kept between calls.

    A state that a scatter updates is updated in place: a step costs what its updates cost. What is handed
    out is a copy where it is a state too, and no later call changes it. An evaluation that fails leaves the
    state as it was. Calls of one runner that keeps state are not to overlap.

    Args:
        model: The model; its first graph runs. Later changes of it are not seen.
        engine: See `run`. "auto" is decided at the first call, and stays.
        trust: See `run`.

    Raises:
        ModelError: `check` finds an error in the model.
        InputError: There is no such engine.
    """

    def __init__(self, model: Model, *, engine: Engine = "auto", trust: bool = False) -> None:
        if engine not in ENGINES:
            raise InputError(f"engine is {engine!r}; expected {listed(ENGINES)}")
        refuse(model, trust=trust and engine != "onnx")
        self._model = model
        self._graph = sole_graph(model)
        self._inputs = Inputs(self._graph)
        self._chosen = engine
        self._engine: _OnnxEngine | _HostEngine | None = None

    def __call__(
        self,
        inputs: Mapping[str, npt.ArrayLike] | None = None,
        *,
        steps: int = 1,
        time_increment: float | None = None,
    ) -> Arrays:
        """Evaluate the graph; see `run` for arguments, result and errors."""
        check_steps(steps)
        if time_increment is not None and not is_finite_number(time_increment):
            raise InputError(
                f"time_increment is {described(time_increment)}; expected a finite number of seconds"
            )
        time = None if time_increment is None else float(time_increment)
        arrays = self._inputs.checked({} if inputs is None else inputs)
        if self._engine is None:
            self._engine = self._start(arrays)
        return self._engine.run(arrays, steps, time)

    def __repr__(self) -> str:
        engine = self._chosen if self._engine is None else self._engine.name
        return f"<Runner of model {self._model.id!r}, engine {engine!r}>"

    def reset(self) -> None:
        """Forget all state: the next call is as the first one was."""
        if self._engine is not None:
            self._engine.reset()

    def _start(self, arrays: Arrays) -> _OnnxEngine | _HostEngine:
        if self._chosen == "mdf":
            return _HostEngine(self._graph)
        engine = _OnnxEngine(self._model)
        try:
            try:
                engine.prepare(arrays)
            except UnsupportedError:
                # With the sizes of the arrays that are given, more has a form.
                engine = _OnnxEngine(self._model, fixed_shapes=True)
                engine.prepare(arrays)
        except NoEngineError:
            raise
        except (UnsupportedError, ExpressionError) as error:
            if self._chosen == "onnx":
                raise
            try:
                return _HostEngine(self._graph)
            except UnsupportedError:
                # It asks for the other engine, which has said what it lacks.
                raise error from None
        return engine


class _OnnxEngine:
    """The lowered graph: one plan for each evaluation that differs in what it reads or its types.

    Args:
        model: The model.
        fixed_shapes: Whether each shape that inputs may have gets a plan of its own.
    """

    name = "onnx"

    def __init__(self, model: Model, *, fixed_shapes: bool = False) -> None:
        self._model = model
        self._fixed_shapes = fixed_shapes
        self._open = [item for item in graph_inputs(sole_graph(model)) if fixed_shapes or leaves_open(item)]
        self._plans: dict[tuple[Any, ...], _Planned] = {}
        self._state: dict[Key, npt.NDArray[Any]] | None = None
        self._types: dict[Key, Kept] | None = None

    def prepare(self, arrays: Arrays) -> None:
        """Lower the first evaluation and the ones after it.

        Raises:
            UnsupportedError: One of them has no form in ONNX.
        """
        first = self._planned(arrays, None, timed=False).evaluation
        if first.state:
            for timed in (True, False):
                later = Evaluation(first.left, time_increment=timed)
                lower_evaluation(self._model, self._given(arrays), later)

    def run(self, arrays: Arrays, steps: int, time_increment: float | None) -> Arrays:
        """Evaluate the graph a number of times.

        What is kept is in memory of its own, which a scatter may overwrite; so what is handed out is a copy
        where it is kept too.
        """
        for remaining in reversed(range(steps)):
            timed = time_increment is not None and self._types is not None
            planned = self._planned(arrays, self._types, timed=timed)
            values = arrays
            if self._state is not None:
                values = values | {name: self._state[key] for key, name in planned.reads.items()}
            if planned.time is not None:
                values = values | {planned.time: np.asarray(time_increment, np.float64)}
            made = planned.plan.values(values, planned.kept)
            results = made.take([*planned.leaves.values(), *(() if remaining else planned.results.values())])
            if planned.leaves:
                left = {key: results.pop(name) for key, name in planned.leaves.items()}
                self._state = (self._state or {}) | left
                self._types = (self._types or {}) | {
                    key: Kept(array.dtype, array.shape, planned.weak[key]) for key, array in left.items()
                }
        return {name: results[inside] for name, inside in planned.results.items()}

    def reset(self) -> None:
        """Forget all state."""
        self._state = self._types = None

    def _planned(self, arrays: Arrays, before: dict[Key, Kept] | None, *, timed: bool) -> _Planned:
        given = self._given(arrays)
        key = (tuple(given.items()), None if before is None else tuple(before.items()), timed)
        if key not in self._plans:
            evaluation = Evaluation(before, time_increment=timed)
            model = lower_evaluation(self._model, given, evaluation)
            names = [item.name for item in graph_outputs(sole_graph(self._model))]
            self._plans[key] = _Planned(Plan(model), evaluation, names)
        return self._plans[key]

    def _given(self, arrays: Arrays) -> dict[str, tuple[np.dtype[Any], tuple[int, ...] | None]]:
        # What ports leave open, the arrays decide; a graph whose ports leave nothing open has one plan.
        return types_of(self._open, arrays, fixed_shapes=self._fixed_shapes)


class _Planned:
    """One evaluation of the graph, ready to run.

    Args:
        plan: The lowered evaluation.
        evaluation: What it reads of the one before, and what it leaves.
        names: Names of the graph's outputs, in order.

    Attributes:
        reads: Names in the plan of what it reads.
        leaves: Names in the plan of what it leaves.
        weak: See `Kept`.
        results: Names in the plan of the graph's outputs, by name.
        kept: Names of what it reads and leaves anew, so that nobody reads the old one.
        time: Name of the step of time, where it is read.
    """

    def __init__(self, plan: Plan, evaluation: Evaluation, names: Sequence[str]) -> None:
        self.plan = plan
        self.evaluation = evaluation
        self.reads = {key: str(value.name) for key, value in evaluation.inputs.items()}
        self.leaves = {key: str(value.name) for key, value in evaluation.outputs.items()}
        self.weak = {key: value.meta.get(WEAK) for key, value in evaluation.outputs.items()}
        self.results = dict(zip(names, plan.outputs, strict=False))
        self.kept = frozenset(name for key, name in self.reads.items() if key in self.leaves)
        self.time = None if evaluation.time is None else str(evaluation.time.name)


class _HostEngine:
    """modeci-mdf's engine, quiet, with our functions in it and its failures explained."""

    name = "mdf"

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self.reset()

    def reset(self) -> None:
        """Forget all state."""
        from modeci_mdf.execution_engine import EvaluableGraph

        self._started = False
        with registered():
            try:
                self._evaluable = EvaluableGraph(self._graph)
            except MdfScatterError:
                raise
            except Exception as error:  # modeci-mdf raises what it pleases
                raise _explained(self._graph, error) from error

    def run(self, arrays: Arrays, steps: int, time_increment: float | None) -> Arrays:
        """Evaluate the graph a number of times."""
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
        try:
            array = np.array(value)
        except ValueError as error:
            raise EvaluationError(f"output {item.name!r} is an uneven list; expected an array") from error
        return array.astype(object) if array.dtype.kind == "U" else array


def _explained(graph: Graph, error: Exception, executed: Sequence[str] = ()) -> EvaluationError:
    where = f"node {executed[-1]!r}" if executed else f"graph {graph.id!r}"
    reason = " ".join(str(error).split())[:300] or type(error).__name__
    return EvaluationError(f"{where}: modeci-mdf's engine failed: {reason}")
