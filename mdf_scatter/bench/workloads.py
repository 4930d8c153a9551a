"""What is measured: calls of the operators, from the tiniest to what fills the memory."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from mdf_scatter.bench.graphs import GRAPHS, GraphWorkload
from mdf_scatter.dtypes import BFLOAT16

Array = npt.NDArray[Any]
Inputs = tuple[Array, ...]

LINE = 64
"""Bytes of a cache line: memory moves no less."""


@dataclass(frozen=True)
class Workload:
    """One call to be measured.

    Attributes:
        name: What it is, for the table.
        op: A name in `OPS`.
        make: `make(rng)` returns its inputs.
        attributes: Attributes of the operator.
        way: "fresh" for a new result, "out" for one in place of data, "vjp" for the gradients.
        is_light: Whether it moves much memory and computes little, so that threads should pay.
    """

    name: str
    op: str
    make: Callable[[np.random.Generator], Inputs]
    attributes: dict[str, Any] = field(default_factory=dict)
    way: str = "fresh"
    is_light: bool = False


AnyWorkload = Workload | GraphWorkload


def floor_bytes(workload: Workload, inputs: Inputs) -> int:
    """Return the bytes that must at least be moved between memory and processor, read and written.

    A new result costs reading data and writing the result once; elements that are scattered or gathered,
    whole cache lines, each once.
    """
    data, indices = inputs[:2]
    updates = inputs[2] if len(inputs) > 2 else None
    if updates is not None and workload.way != "out":
        return 2 * data.nbytes + indices.nbytes + updates.nbytes
    lines = _lines(workload, data, indices)
    if updates is None:
        moved = (
            indices.size if "Elements" in workload.op else _rows(data, indices).size * _width(data, indices)
        )
        return lines + indices.nbytes + moved * data.itemsize
    return 2 * lines + indices.nbytes + updates.nbytes


def _lines(workload: Workload, data: Array, indices: Array) -> int:
    if "Elements" in workload.op:
        return data.nbytes
    width = _width(data, indices) * data.itemsize
    if width >= LINE:
        return len(np.unique(_rows(data, indices))) * width
    return len(np.unique(_rows(data, indices) * width // LINE)) * LINE


def _width(data: Array, indices: Array) -> int:
    return math.prod(data.shape[indices.shape[-1] :])


def _rows(data: Array, indices: Array) -> Array:
    depth = indices.shape[-1]
    rows: Array = np.ravel_multi_index(tuple(np.moveaxis(indices, -1, 0)), data.shape[:depth]).reshape(-1)
    return rows


def _values(rng: np.random.Generator, shape: tuple[int, ...], dtype: npt.DTypeLike) -> Array:
    dtype = np.dtype(dtype)
    if dtype.kind in "biu":
        return rng.integers(0, 2 if dtype.kind == "b" else 100, shape, np.int8).astype(dtype)
    return rng.random(shape, np.float32).astype(dtype)


def _elements(
    count: int,
    size: int,
    dtype: npt.DTypeLike = np.float32,
    *,
    distinct: bool = False,
    in_order: bool = False,
) -> Callable[[np.random.Generator], Inputs]:
    def make(rng: np.random.Generator) -> Inputs:
        numbers = rng.permutation(size)[:count] if distinct else rng.integers(0, size, count)
        numbers = np.sort(numbers) if in_order else numbers
        return _values(rng, (size,), dtype), numbers[:, np.newaxis], _values(rng, (count,), dtype)

    return make


def _rows_of(
    count: int, height: int, width: int, dtype: npt.DTypeLike = np.float32, *, only: int | None = None
) -> Callable[[np.random.Generator], Inputs]:
    def make(rng: np.random.Generator) -> Inputs:
        numbers = rng.permutation(height)[:count] if only is None else np.full(count, only)
        return (
            _values(rng, (height, width), dtype),
            numbers[:, np.newaxis],
            _values(rng, (count, width), dtype),
        )

    return make


def _triples(rng: np.random.Generator) -> Inputs:
    return (
        _values(rng, (256,) * 3, np.float32),
        rng.integers(0, 256, (10**6, 3)),
        _values(rng, (10**6,), "f4"),
    )


def _slices(rng: np.random.Generator) -> Inputs:
    shape = (8, 32, 512)
    places = np.stack(np.unravel_index(rng.permutation(math.prod(shape))[:4096], shape), axis=-1)
    return _values(rng, (*shape, 128), np.float32), places, _values(rng, (4096, 128), np.float32)


def _columns(rng: np.random.Generator) -> Inputs:
    shape = (2 * 10**5, 80)
    return _values(rng, shape, np.float32), rng.integers(0, shape[0], shape), _values(rng, shape, np.float32)


def _stretches(rng: np.random.Generator) -> Inputs:
    cache, update = ((8, 32, length, 128) for length in (512, 16))
    return _values(rng, cache, np.float32), _values(rng, update, np.float32), rng.integers(0, 496, 8)


def _without_updates(
    make: Callable[[np.random.Generator], Inputs],
) -> Callable[[np.random.Generator], Inputs]:
    return lambda rng: make(rng)[:2]


_ADD = {"reduction": "add"}
_RANDOM = _elements(10**6, 10**7)
_WIDE = _rows_of(5 * 10**4, 10**5, 256)

_OPERATORS = (
    Workload("tiny: 4 into 8", "ScatterND", _elements(4, 8)),
    Workload("tiny: 4 into 8, add", "ScatterND", _elements(4, 8), _ADD),
    Workload("1e6 distinct into 1e7", "ScatterND", _elements(10**6, 10**7, distinct=True)),
    Workload("1e6 random into 1e7, add", "ScatterND", _RANDOM, _ADD),
    Workload("the same, sorted", "ScatterND", _elements(10**6, 10**7, in_order=True), _ADD),
    Workload("5e4 rows of 256 into 1e5", "ScatterND", _WIDE, is_light=True),
    Workload("5e4 rows of 256 into 1e5, add", "ScatterND", _WIDE, _ADD, is_light=True),
    Workload("5e4 rows of 256 into one row, add", "ScatterND", _rows_of(5 * 10**4, 10**5, 256, only=7), _ADD),
    Workload("1e6 triples into 256^3, add", "ScatterND", _triples, _ADD),
    Workload("5e6 into 1000 bins, add", "ScatterND", _elements(5 * 10**6, 1000), _ADD),
    Workload("4096 slices of 128 into (8, 32, 512, 128)", "ScatterND", _slices, is_light=True),
    *(
        Workload(
            f"1e6 random into 1e7, add, {np.dtype(dtype)}", "ScatterND", _elements(10**6, 10**7, dtype), _ADD
        )
        for dtype in (np.float64, np.float16, BFLOAT16, np.int8, np.bool, np.complex64)
    ),
    Workload("1e6 random into 1e7, max", "ScatterND", _RANDOM, {"reduction": "max"}),
    Workload("ScatterElements (2e5, 80), axis 0", "ScatterElements", _columns, {"reduction": "none"}),
    Workload("ScatterElements (2e5, 80), axis 0, add", "ScatterElements", _columns, _ADD),
    Workload("GatherND 1e6 of 1e7", "GatherND", _without_updates(_RANDOM)),
    Workload("GatherND 5e4 rows of 256 of 1e5", "GatherND", _without_updates(_WIDE), is_light=True),
    Workload("GatherElements (2e5, 80), axis 0", "GatherElements", _without_updates(_columns)),
    Workload("TensorScatter, 16 of 512 of (8, 32, 512, 128)", "TensorScatter", _stretches, is_light=True),
    Workload("out=data: 1e6 random into 1e7, add", "ScatterND", _RANDOM, _ADD, "out"),
    Workload("out=data: 5e4 rows of 256 into 1e5, add", "ScatterND", _WIDE, _ADD, "out", is_light=True),
    Workload(
        "out=data: 5e4 rows of 256 into 1e5", "ScatterND", _WIDE, {"reduction": "none"}, "out", is_light=True
    ),
    Workload("out=data: 4096 slices of 128", "ScatterND", _slices, {"reduction": "none"}, "out"),
    Workload("vjp: 1e6 random into 1e7, add", "ScatterND", _RANDOM, _ADD, "vjp"),
    Workload("vjp: 5e4 rows of 256 into 1e5, add", "ScatterND", _WIDE, _ADD, "vjp"),
    Workload("vjp: 5e4 rows of 256 into 1e5", "ScatterND", _WIDE, {"reduction": "none"}, "vjp"),
    Workload("vjp: 1e6 random into 1e7, mul", "ScatterND", _RANDOM, {"reduction": "mul"}, "vjp"),
    Workload("vjp: GatherND 5e4 rows of 256 of 1e5", "GatherND", _without_updates(_WIDE), {}, "vjp"),
    Workload("vjp: ScatterElements (2e5, 80), axis 0, add", "ScatterElements", _columns, _ADD, "vjp"),
    Workload(
        "vjp: GatherElements (2e5, 80), axis 0", "GatherElements", _without_updates(_columns), {}, "vjp"
    ),
    Workload("vjp: TensorScatter, 16 of 512", "TensorScatter", _stretches, {}, "vjp"),
)

WORKLOADS: tuple[AnyWorkload, ...] = (*_OPERATORS, *GRAPHS)
