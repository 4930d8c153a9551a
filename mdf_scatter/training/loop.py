"""`fit`: parameters moved, step by step, so that a loss becomes small."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from modeci_mdf.mdf import Model

from mdf_scatter.checks import refuse
from mdf_scatter.drawing.cells.picture import Picture
from mdf_scatter.drawing.curve import loss_curve
from mdf_scatter.errors import EvaluationError, InputError, listed
from mdf_scatter.gradient.model import GradientGraph, gradient_graph
from mdf_scatter.gradient.parameters import Places, is_trained, parameters_of
from mdf_scatter.gradient.table import Stop
from mdf_scatter.inputs import check_steps, checked_inputs, leaves_open, types_of
from mdf_scatter.plan import Plan
from mdf_scatter.progress import stepping
from mdf_scatter.training.objective import check_classes, objective
from mdf_scatter.training.optimizers import optimizer_of
from mdf_scatter.wiring import graph_inputs, sole_graph

Array = npt.NDArray[Any]
Batch = Mapping[str, npt.ArrayLike]


@dataclass(frozen=True)
class Fit:
    """What training did.

    Attributes:
        losses: The loss before each step, float64 (steps,).
        loss: The loss after the last step, on the batch that would come next.
        parameters: Names of the parameters that were trained.
        stops: Where gradients stopped, because a node's `training` is false.
    """

    losses: npt.NDArray[np.float64]
    loss: float
    parameters: tuple[str, ...]
    stops: tuple[Stop, ...]

    @property
    def curve(self) -> Picture:
        """The loss at each step, as a picture that saves itself as SVG or PNG."""
        return loss_curve([*self.losses, self.loss])


def fit(
    model: Model,
    data: Batch | Sequence[Batch],
    *,
    loss: str | None = None,
    optimizer: str = "adam",
    steps: int = 1000,
    learning_rate: float | None = None,
    wrt: str | Sequence[str] | None = None,
    progress: bool = True,
) -> Fit:
    """Train a model's parameters, and write them back into it.

    Each step evaluates the model's gradient graph (see `grad`) on one batch, and moves every parameter
    against its gradient. So `lda_coeff` and `training` of nodes count. Parameters keep their dtype; float16
    and bfloat16 ones are moved in float32.

    Args:
        model: The model. Its parameters are changed when all steps are done, and not at all after an error.
        data: An array for each graph input that has no default, by name; or a list of such mappings, the
            batches, which take turns, one for each step.
        loss: Name of an output of rank 0, which becomes small; or "mean_squared_error" or
            "cross_entropy" of the model's sole output against `data["target"]`: of the output's shape, or
            int64 classes along axis 1. May be left out where the model has just one output of rank 0.
        optimizer: "adam" or "sgd".
        steps: How many steps.
        learning_rate: 0.001 for "adam" and 0.01 for "sgd" if left out.
        wrt: Names of the parameters that are trained, as in `grad`. Left out, all that `grad` takes
            then, but no inputs.
        progress: Whether to show a progress bar, with the loss, where standard error is a terminal.

    Returns:
        The losses, and a picture of them.

    Raises:
        InputError: An argument or an array of the data is wrong, or there is nothing to train.
        UnsupportedError: See `grad`.
        EvaluationError: The loss, or a parameter, is not finite after a step.
    """
    check_steps(steps)
    refuse(model, trust=False)
    batches = _batches(data)
    places = parameters_of(model)
    names = _to_train(model, places, wrt)
    left_open = [item for item in graph_inputs(sole_graph(model)) if leaves_open(item)]
    first = {item.name: np.asarray(batches[0][item.name]) for item in left_open if item.name in batches[0]}
    types = types_of(left_open, first)
    whole, output = objective(model, loss, types)
    checked = [checked_inputs(sole_graph(whole), batch) for batch in batches]
    graph = gradient_graph(whole, of=output, wrt=names, types=types, is_fed=True, with_inputs=False)
    check_classes(graph.model.graph, checked)
    start = {name: _start(places[name][0][1].value, graph, name) for name in graph.wrt}
    losses, last, trained = _trained(graph, output, checked, start, optimizer, learning_rate, steps, progress)
    for name, array in trained.items():
        for _, parameter in places[name]:
            parameter.value = _as_before(array, parameter.value)
    return Fit(losses, last, tuple(trained), tuple(graph.stops))


def _trained(
    graph: GradientGraph,
    output: str,
    batches: Sequence[Mapping[str, Any]],
    start: Mapping[str, Array],
    optimizer: str,
    learning_rate: float | None,
    steps: int,
    progress: bool,
) -> tuple[npt.NDArray[np.float64], float, dict[str, Array]]:
    plan = Plan(graph.model)
    optimizers = {name: optimizer_of(optimizer, learning_rate) for name in start}
    # What is moved by less than half a float16's last digit would never move.
    wide = {name: array.astype(_wide(array.dtype)) for name, array in start.items()}
    current = dict(start)
    losses = np.empty(steps)
    with stepping("fit", steps, shown=progress) as advance:
        for step in range(steps):
            results = plan.run({**batches[step % len(batches)], **current})
            losses[step] = results[output]
            _refuse_infinite(f"the loss is {losses[step]}", losses[step], step, learning_rate)
            for name, gradient in graph.wrt.items():
                moved = optimizers[name].step(wide[name], results[gradient].astype(wide[name].dtype))
                wide[name] = np.asarray(moved, wide[name].dtype)
                _refuse_infinite(f"parameter {name!r} is not finite", moved, step + 1, learning_rate)
                current[name] = wide[name].astype(start[name].dtype)
            advance(f"loss {losses[step]:.4g}")
    last = plan.run({**batches[steps % len(batches)], **current})[output]
    return losses, float(last), current


def _batches(data: Any) -> list[Batch]:
    if isinstance(data, Mapping):
        return [data]
    batches = list(data) if isinstance(data, Iterable) else [data]
    if not batches:
        raise InputError("data has no batches; expected one or more")
    for batch in batches:
        if not isinstance(batch, Mapping):
            raise InputError(
                f"data has a batch of type {type(batch).__name__}; "
                "expected an array for each input, by name, or a list of such mappings"
            )
    return batches


def _to_train(model: Model, places: Places, wrt: str | Sequence[str] | None) -> list[str] | None:
    """Return the names that are given, if they are right; None where the gradient graph is to choose."""
    if wrt is not None and not isinstance(wrt, Iterable):
        raise InputError(f"wrt is {wrt!r}; expected names of parameters")
    names = [wrt] if isinstance(wrt, str) else list(wrt or ())
    if wrt is None and any(is_trained(places, name) for name in places):
        return None
    known = f"expected floating-point parameters: {listed(places)}" if places else "it has none"
    if not names and places and wrt is not None:
        raise InputError(f"wrt has no names; {known}")
    if not names:
        raise InputError(f"model {model.id!r} has no floating-point parameter to train")
    for name in names:
        if name not in places:
            raise InputError(
                f"wrt has {name!r}, which is no floating-point parameter of model {model.id!r}; {known}"
            )
    return names


def _start(value: Any, graph: GradientGraph, name: str) -> Array:
    kept = graph.model.graph.initializers[name]
    return np.asarray(value, None if kept.dtype is None else kept.dtype.numpy())


def _wide(dtype: np.dtype[Any]) -> np.dtype[Any]:
    return np.dtype(np.float32) if dtype.itemsize < 4 else dtype


def _refuse_infinite(what: str, value: Any, steps: int, learning_rate: float | None) -> None:
    if np.all(np.isfinite(value)):
        return
    if steps == 0:
        raise EvaluationError(f"fit: {what} before the first step; look at the data, and at the parameters")
    rate = "the default" if learning_rate is None else f"{learning_rate:g}"
    raise EvaluationError(
        f"fit: {what} after {steps} step{'s' * (steps != 1)}; "
        f"look at the data, or make learning_rate, now {rate}, smaller"
    )


def _as_before(array: Array, value: Any) -> Any:
    """Return a parameter's new value in the form of its old one: an array, a list or a number."""
    return array.copy() if isinstance(value, np.ndarray) else array.tolist()
