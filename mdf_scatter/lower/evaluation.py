"""One evaluation of a graph among several: what it is given by the one before, and what it leaves.

In MDF's engine the first evaluation differs from the later ones: nothing is there yet of what a
parameter was before, or of what comes around a circle of nodes. So a graph is lowered for one of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir as ir

from mdf_scatter.errors import UnsupportedError
from mdf_scatter.lower.arithmetic import Arithmetic, dtype_of, kind_of, shape_of
from mdf_scatter.lower.builder import WEAK, Builder, Operand

Key = tuple[str, str]
"""What names a kept value: the ids of a node and its parameter, or of a node and the edge into it."""

Shape = tuple[int | str | None, ...]


@dataclass(frozen=True)
class Kept:
    """The type of a value that is kept from one evaluation to the next.

    Attributes:
        dtype: Its dtype.
        shape: Its shape.
        weak: The Python type of a number that takes the dtype of what it meets; None for arrays.
    """

    dtype: np.dtype[Any]
    shape: Shape
    weak: type | None = None


class Evaluation:
    """The first evaluation of a graph, or a later one.

    Args:
        before: The types of what the evaluation before has left; None for the first.
        time_increment: Whether a step of time is given.
        initial: Values of the first evaluation that kept values start from. With them the graph is the
            one that stands for every evaluation, and leaves values of the types that it is given.
        gives_start: Whether the graph gives what parameters are before the first evaluation, not after.

    Attributes:
        state: Whether a kept value is a state in MDF's sense. One that is none is kept all the same
            where the engine reads what it was in the evaluation before.
        inputs: The graph inputs that stand for what is kept, where it is read.
        outputs: The graph outputs that stand for what is left.
        time: The graph input for the step of time, where it is read.
    """

    def __init__(
        self,
        before: Mapping[Key, Kept] | None = None,
        *,
        time_increment: bool = False,
        initial: Mapping[Key, np.ndarray[Any, Any]] | None = None,
        gives_start: bool = False,
    ) -> None:
        self.is_first = before is None
        self.time_increment = time_increment
        self.gives_start = gives_start
        self.state: dict[Key, bool] = {}
        self.inputs: dict[Key, ir.Value] = {}
        self.outputs: dict[Key, ir.Value] = {}
        self.time: ir.Value | None = None
        self._before = before or {}
        self._initial = initial

    @property
    def all_inputs(self) -> list[ir.Value]:
        """The graph inputs beside the graph's own."""
        return [*self.inputs.values(), *([] if self.time is None else [self.time])]

    def keep(self, key: Key, *, is_state: bool) -> None:
        """Note that the next evaluation reads a value of this one."""
        self.state[key] = self.state.get(key, False) or is_state

    def read(self, builder: Builder, key: Key) -> ir.Value:
        """Return what the evaluation before has left, as an input of the graph."""
        if key in self.inputs:
            return self.inputs[key]
        if key not in self._before:
            raise UnsupportedError(f"node {key[0]!r}: nothing is kept of {key[1]!r}")
        kept = self._before[key]
        name = builder.free_name(".".join(key))
        if self._initial is None:
            value = ir.val(name, ir.DataType.from_numpy(kept.dtype), kept.shape)
        else:
            value = builder.input_with_default(name, self._initial[key], kept.shape)
        if kept.weak is not None:
            value.meta[WEAK] = kept.weak
        self.inputs[key] = builder.values[name] = value
        return value

    def step_of_time(self, builder: Builder) -> ir.Value:
        """Return the step of time, as an input of the graph: a Python number."""
        if self.time is None:
            name = builder.free_name("time_increment")
            if self._initial is None:
                self.time = ir.val(name, ir.DataType.DOUBLE, [])
            else:
                self.time = builder.input_with_default(name, np.zeros(()), [])
            self.time.meta[WEAK] = float
            builder.values[name] = self.time
        return self.time

    def leave(self, builder: Builder, key: Key, operand: Operand) -> None:
        """Give the graph an output for what the next evaluation reads."""
        arithmetic = Arithmetic(builder, ".".join(key))
        value = arithmetic.value(operand)
        kind = kind_of(operand)
        kept = self._before.get(key)
        if self._initial is not None and kept is not None:
            value = arithmetic.cast(value, kept.dtype)
            if value.shape is None or tuple(value.shape) != kept.shape:
                value = arithmetic.op("Expand", value, _sizes(arithmetic, key, kept.shape))
        name = f"{'.'.join(key)}.next"
        left = builder.op("Identity", [value], name=name, outputs=[name])[0]
        if isinstance(kind, type):
            left.meta[WEAK] = kind
        self.outputs[key] = left

    @property
    def left(self) -> dict[Key, Kept]:
        """The types of what this evaluation leaves, as far as they are known."""
        return {
            key: Kept(dtype_of(value), _known_shape(key, value), value.meta.get(WEAK))
            for key, value in self.outputs.items()
        }


def _known_shape(key: Key, value: ir.Value) -> Shape:
    shape = shape_of(value)
    if shape is None:
        raise UnsupportedError(f"node {key[0]!r}: the rank of {key[1]!r}, which is kept, is not known")
    return tuple(size if isinstance(size, int) else getattr(size, "value", size) for size in shape)


def _sizes(arithmetic: Arithmetic, key: Key, shape: Shape) -> ir.Value:
    sizes = [size for size in shape if isinstance(size, int)]
    if len(sizes) < len(shape):
        raise UnsupportedError(f"node {key[0]!r}: the shape of {key[1]!r}, which is kept, is not known")
    return arithmetic.constant(sizes, np.int64)
