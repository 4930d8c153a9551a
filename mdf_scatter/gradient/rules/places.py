"""Where rows of a tensor are, as a graph knows it: what gathers and scatters have in common."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import onnx_ir as ir

from mdf_scatter.gradient.emitter import Emitter, static_shape

_WRITTEN_OUT = 1024
"""Numbers in a row up to which they are a constant; a Range makes more of them faster than a file does."""


@dataclass(frozen=True, eq=False)
class Places:
    """The places of a tensor that rows are taken from, or that updates go to.

    Attributes:
        emit: Writes the nodes.
        data: The tensor, T[d0..dr-1].
        depth: How many of its axes, from the first on, say which row it is; the others are the row's own.
        look: Gathers: the rows of a tensor whose first `depth` axes are data's, in the order of updates.
    """

    emit: Emitter
    data: ir.Value
    depth: int
    look: Callable[[ir.Value], ir.Value]

    @cached_property
    def rows(self) -> ir.Value:
        """The number of each row that is looked up, int64[..]: the shape of updates without a row's axes.

        The gather itself says where it finds what, when it is given the places' own numbers.
        """
        places = self._by_row(numbers(self.emit, size_of(self.emit, self.data, 0, self.depth)))
        return folded(self.emit, self.look(places))

    @cached_property
    def row_size(self) -> ir.Value:
        """Elements in a row, int64[1]."""
        return size_of(self.emit, self.data, self.depth, self.emit.rank(self.data))

    @cached_property
    def positions(self) -> ir.Value:
        """The position in data, flat, of each element of updates, flat: int64[N * S]."""
        emit, size, shape = self.emit, self.emit.known(self.row_size), static_shape(self.data)
        if shape is not None and math.prod(shape) <= _WRITTEN_OUT:
            own = emit.constant(np.arange(math.prod(shape)).reshape(shape))
            return folded(emit, flat(emit, self.look(own)))
        if size is not None and size[0] == 1:
            return flat(emit, self.rows)
        starts = emit("Unsqueeze", emit("Mul", self.rows, self.row_size), emit.integers([-1]))
        return folded(emit, flat(emit, emit("Add", starts, numbers(emit, self.row_size))))

    @cached_property
    def is_last(self) -> ir.Value | None:
        """Whether each update is the last one to its row, bool[..]; None where all are known to be.

        Its axes of size 1 at the end are for those of a row.
        """
        emit = self.emit
        count = size_of(emit, self.rows, 0, emit.rank(self.rows))
        order = numbers(emit, count)
        nothing = emit("Expand", emit.integers(0), size_of(emit, self.data, 0, self.depth))
        last = emit("ScatterElements", nothing, flat(emit, self.rows), order, axis=0)
        latest = self.look(self._by_row(last))
        is_last = folded(emit, emit("Equal", latest, emit.like(order, self.rows)))
        known = emit.known(is_last)
        if known is not None and known.all():
            return None
        own = emit.rank(self.data) - self.depth
        return emit.unsqueeze(is_last, range(-own, 0))

    def scatter(self, start: ir.Value, updates: ir.Value, reduction: str | None = None) -> ir.Value:
        """Return a tensor of data's shape with updates written, or reduced, into it, in order.

        onnxruntime divides the updates of a ScatterND among threads, but not those of a ScatterElements, and
        of these it is fastest along a single axis.

        Args:
            start: T[d0..dr-1], or T[d0 * .. * dr-1].
            updates: T[..], one row for each row that `look` gives.
            reduction: As of ScatterElements; None to write.
        """
        emit = self.emit
        result = emit(
            "ScatterElements",
            flat(emit, start),
            self.positions,
            flat(emit, updates),
            axis=0,
            reduction=reduction,
        )
        return emit.like(result, self.data)

    def sums(self, updates: ir.Value) -> ir.Value:
        """Return updates added up where they go, in data's shape; float16 and bfloat16 in float32."""
        terms = self.emit.wide(updates)
        return self.emit.cast(self.scatter(self.filled(0, terms), terms, "add"), updates)

    def filled(self, number: float, like: ir.Value) -> ir.Value:
        """Return as many numbers as data has elements, flat, in the dtype of another value."""
        size = size_of(self.emit, self.data, 0, self.emit.rank(self.data))
        return self.emit("Expand", self.emit.constant(number, like), size)

    def _by_row(self, value: ir.Value) -> ir.Value:
        """Return a value for each row, (R,), in the shape of data's first axes."""
        if self.depth == 1:
            return value
        return self.emit.reshape(value, shape_of(self.emit, self.data, 0, self.depth))


def shape_of(emit: Emitter, value: ir.Value, start: int, end: int) -> ir.Value:
    """Return the sizes of some axes, int64[end - start]: a constant where they are known."""
    known = _known_sizes(emit, value, start, end)
    return emit("Shape", value, start=start, end=end) if known is None else emit.integers(known)


def size_of(emit: Emitter, value: ir.Value, start: int, end: int) -> ir.Value:
    """Return how many elements there are along some axes, int64[1]: a constant where it is known."""
    known = _known_sizes(emit, value, start, end)
    if known is not None:
        return emit.integers([math.prod(known)])
    if end - start == 1:
        return emit.size(value, start)
    return emit("ReduceProd", emit("Shape", value, start=start, end=end), keepdims=1)


def numbers(emit: Emitter, count: ir.Value) -> ir.Value:
    """Return 0, 1, ... up to a count, int64[1]."""
    known = emit.known(count)
    if known is not None and known[0] <= _WRITTEN_OUT:
        return emit.integers(list(range(int(known[0]))))
    return emit("Range", emit.integers(0), emit.reshape(count, []), emit.integers(1))


def folded(emit: Emitter, value: ir.Value) -> ir.Value:
    """Return a value as a constant where it is the same in every run, instead of what computes it."""
    known = emit.known(value)
    return value if known is None else emit.constant(known)


def joined(emit: Emitter, *parts: ir.Value) -> ir.Value:
    """Return sizes one after the other: a constant where they are known."""
    return folded(emit, emit("Concat", *parts, axis=0))


def flat(emit: Emitter, value: ir.Value) -> ir.Value:
    """Return the elements of a value along one axis."""
    is_flat = value.shape is not None and len(value.shape) == 1
    return value if is_flat else emit("Reshape", value, emit.integers([-1]))


def _known_sizes(emit: Emitter, value: ir.Value, start: int, end: int) -> list[int] | None:
    emit.rank(value)
    sizes = [] if value.shape is None else value.shape.dims[start:end]
    known = [size for size in sizes if isinstance(size, int)]
    return known if len(known) == len(sizes) else None
