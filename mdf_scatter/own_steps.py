"""The steps of a plan that run in our own kernels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from mdf_scatter.buffers import Step, Values
from mdf_scatter.errors import OperatorError
from mdf_scatter.ops import OPS
from mdf_scatter.ops.gather_elements import gather_elements
from mdf_scatter.ops.lookup import scatter_found
from mdf_scatter.ops.scatter_elements import scatter_elements
from mdf_scatter.ops.scatter_nd import scatter_nd
from mdf_scatter.ops.tensor_scatter import overwritten, tensor_scatter

Array = npt.NDArray[Any]

SMALL = 1 << 12
"""Elements up to which a step is as fast on a copy as in place, where it has to be checked first."""

Undo = Callable[[], object]


def _undo_scatter_nd(data: Array, indices: Array, updates: Array, **attributes: Any) -> Undo:
    # Not with our own gather, whose checks take longer: the scatter has the same, and comes next.
    place = tuple(np.moveaxis(indices.astype(np.int64, copy=False), -1, 0))
    old = data[place] if place else data.copy()
    return lambda: data.__setitem__(place, old)


def _undo_scatter_elements(
    data: Array, indices: Array, updates: Array, axis: int = 0, **attributes: Any
) -> Undo:
    old = gather_elements(data, indices, axis)
    return lambda: scatter_elements(data, indices, old, axis, out=data)


def _undo_tensor_scatter(cache: Array, update: Array, *starts: Any, **attributes: Any) -> Undo:
    old = overwritten(cache, update, *starts, **attributes)
    return lambda: tensor_scatter(cache, old, *starts, **attributes, out=cache)


_IN_PLACE: Mapping[str, tuple[Callable[..., Any], Callable[..., Undo]]] = {
    "ScatterND": (scatter_nd, _undo_scatter_nd),
    "ScatterElements": (scatter_elements, _undo_scatter_elements),
    "TensorScatter": (tensor_scatter, _undo_tensor_scatter),
}
"""Operators whose result can be where their data is, and what prepares to bring that back."""


@dataclass(frozen=True)
class SecondName:
    """An Identity that moves nothing: another name for a value."""

    reads: tuple[str, ...]
    writes: tuple[str, ...]
    overwritable: None = None

    def run(self, values: Values) -> None:
        """Add the value under its second name."""
        values[self.writes[0]] = values[self.reads[0]]


@dataclass(frozen=True)
class Operator:
    """One of our operators.

    Attributes:
        op_type: The operator.
        name: The node's name, for messages.
        reads: Names of its inputs.
        writes: Name of its output.
        attributes: Its attributes.
        is_in_place: Whether nothing reads its first input afterwards.
        is_last: Whether nothing that could fail comes after it.
    """

    op_type: str
    name: str
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    attributes: Mapping[str, Any]
    is_in_place: bool = False
    is_last: bool = False

    @property
    def overwritable(self) -> str | None:
        """See `Step`."""
        return self.reads[0] if self.op_type in _IN_PLACE else None

    def in_place(self, *, is_last: bool) -> Operator:
        """Return the operator where nothing reads its first input afterwards."""
        return replace(self, is_in_place=True, is_last=is_last)

    def run(self, values: Values) -> None:
        """Add the operator's output.

        Raises:
            OperatorError: It cannot work on its inputs.
        """
        data, (output,) = self.reads[0], self.writes
        inputs = [values[name] for name in self.reads]
        try:
            if self.is_in_place and values.is_own(data) and _is_worth_it(inputs[0]):
                values[output] = self._overwrite(values, *inputs)
                values.inherit(output, data)
            else:
                values[output] = OPS[self.op_type].forward(*inputs, **self.attributes)
                values.own(self.writes)
        except OperatorError as error:
            raise error.at(self.name) from error

    def _overwrite(self, values: Values, *inputs: Any) -> Array:
        scatter, undo = _IN_PLACE[self.op_type]
        if values.is_kept(self.reads[0]) and not self.is_last:
            # What cannot be read cannot be written: the scatter will refuse it, and say why.
            with suppress(OperatorError, IndexError):
                values.on_failure(undo(*inputs, **self.attributes))
        result: Array = scatter(*inputs, **self.attributes, out=inputs[0])
        return result


@dataclass(frozen=True)
class Lookup:
    """A ScatterND of what a GatherND finds and nobody else reads, as in an embedding bag.

    Many rows go from one to the other without memory in between.

    Attributes:
        gather: The GatherND.
        scatter: The ScatterND.
    """

    gather: Operator
    scatter: Operator

    @property
    def reads(self) -> tuple[str, ...]:
        """See `Step`."""
        return *self.scatter.reads[:2], *self.gather.reads

    @property
    def writes(self) -> tuple[str, ...]:
        """See `Step`."""
        return self.scatter.writes

    @property
    def overwritable(self) -> str | None:
        """See `Step`."""
        return self.scatter.overwritable

    def in_place(self, *, is_last: bool) -> Lookup:
        """See `Operator.in_place`."""
        return replace(self, scatter=self.scatter.in_place(is_last=is_last))

    def run(self, values: Values) -> None:
        """Add the scatter's output.

        Raises:
            OperatorError: One of the two cannot work on its inputs.
        """
        data = self.scatter.reads[0]
        if not values.is_kept(data):
            inputs = [values[name] for name in self.reads]
            is_free = self.scatter.is_in_place and values.is_own(data)
            # One by one they say at which node an index is wrong.
            with suppress(OperatorError):
                result = scatter_found(*inputs, **self.scatter.attributes, in_place=is_free)
                if result is not None:
                    values[self.writes[0]] = result
                    values.own(self.writes)
                    return
        self.gather.run(values)
        self.scatter.run(values)
        for name in self.gather.writes:
            del values[name]


def with_lookups(steps: Sequence[Step], kept: Collection[str]) -> list[Step]:
    """Return steps, each ScatterND and the GatherND that only it reads as one.

    Args:
        steps: The steps.
        kept: Names of the values that are wanted in the end.
    """
    readers = Counter(name for step in steps for name in step.reads)
    gathers = {
        step.writes[0]: step
        for step in steps
        if isinstance(step, Operator)
        and step.op_type == "GatherND"
        and not step.attributes.get("batch_dims")
        and readers[step.writes[0]] == 1
        and step.writes[0] not in kept
    }
    lookups = {
        step.writes: Lookup(gathers[step.reads[2]], step)
        for step in steps
        if isinstance(step, Operator) and step.op_type == "ScatterND" and step.reads[2] in gathers
    }
    merged = {lookup.gather.writes for lookup in lookups.values()}
    return [lookups.get(step.writes, step) for step in steps if step.writes not in merged]


def _is_worth_it(data: Array) -> bool:
    # A small array is copied sooner than it is checked, and text may need more room than data has.
    return data.size > SMALL and data.dtype.kind not in "OUT"
