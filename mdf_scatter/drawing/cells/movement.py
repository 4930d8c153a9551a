"""One call of an operator, seen as rows: which row of a tensor each update goes to, or is read from."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from mdf_scatter.errors import OperatorError, did_you_mean, listed
from mdf_scatter.ops import OPS, Op
from mdf_scatter.ops.gather_elements import gather_elements
from mdf_scatter.ops.gather_nd import gather_nd

Array = npt.NDArray[Any]
Integers = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Movement:
    """What moves where. An item is what one index moves: an update, or a part of a gather's result.

    Attributes:
        op: Name of the operator.
        settings: Its attributes, but for most of those that have their default.
        data: The tensor that is read, or that a copy is made of.
        data_name: What the operator calls it.
        output: The result.
        items: T[batch + slice]: the updates, or the result of a gather.
        items_name: What the operator calls them.
        batch: Shape of the items' places among each other.
        indices: The indices as they were given; None where they were left out.
        indices_name: What the operator calls them.
        numbers: (N, m), the numbers of each item's index.
        rows: (N,), the row of data or output that each item belongs to.
        depth: How many leading axes of data a row's place names; a row is all that is below.
        is_gather: Whether items are read from data, not written to the output.
        is_stretch: Whether an index is a start and an offset from it, to be added.
        reduction: How an item meets what is there.
        include_self: Whether data takes part in that.
    """

    op: str
    settings: dict[str, Any]
    data: Array
    data_name: str
    output: Array
    items: Array
    items_name: str
    batch: tuple[int, ...]
    indices: Array | None
    indices_name: str
    numbers: Integers
    rows: Integers
    depth: int
    is_gather: bool = False
    is_stretch: bool = False
    reduction: str = "none"
    include_self: bool = True

    @property
    def target(self) -> Array:
        """The tensor that the rows are of."""
        return self.data if self.is_gather else self.output

    @property
    def row_width(self) -> int:
        """Elements in a row."""
        return math.prod(self.data.shape[self.depth :])

    @property
    def row_count(self) -> int:
        """Rows that there are."""
        return math.prod(self.data.shape[: self.depth])

    @cached_property
    def hits(self) -> Integers:
        """How many items belong to each row."""
        return np.bincount(self.rows, minlength=self.row_count)

    def place(self, row: int) -> tuple[int, ...]:
        """Return where a row is: its coordinates in the leading axes."""
        return tuple(int(number) for number in np.unravel_index(row, self.data.shape[: self.depth]))

    def item(self, number: int) -> Array:
        """Return the elements of an item."""
        found: Array = self.items.reshape(len(self.rows), self.row_width)[number]
        return found


def movement(name: str, inputs: Sequence[Any], attributes: dict[str, Any]) -> Movement:
    """Compute a call, and find what it moves where.

    Raises:
        OperatorError: There is no such operator or attribute, or the inputs do not fit.
    """
    op = _operator(name)
    given = _inputs(op, inputs)
    for attribute in attributes:
        if attribute not in op.attributes:
            known = listed(op.attributes) if op.attributes else "none"
            hint = did_you_mean(attribute, op.attributes)
            raise OperatorError(op.name, f"there is no attribute {attribute!r}; expected {known}{hint}")
    output = op.forward(*given.values(), **attributes)
    values = {key: attribute.default for key, attribute in op.attributes.items()} | attributes
    told = ("axis", "reduction")  # they matter even where they are the default
    settings = {k: value for k, value in values.items() if k in told or value != op.attributes[k].default}
    return _READERS[op.name](op.name, given, values, settings, output)


def _operator(name: str) -> Op:
    op = OPS.get(name.removeprefix("onnx::"))
    if op is None:
        raise OperatorError(
            name, f"there is no such operator; expected {listed(OPS)}{did_you_mean(name, OPS)}"
        )
    return op


def _inputs(op: Op, inputs: Sequence[Any]) -> dict[str, Any]:
    least, most = len(op.inputs) - len(op.optional), len(op.inputs)
    if not least <= len(inputs) <= most:
        wanted = str(most) if least == most else f"{least} to {most}"
        raise OperatorError(
            op.name, f"{len(inputs)} inputs were given; expected {wanted}: {', '.join(op.inputs)}"
        )
    return dict(zip(op.inputs, [*inputs, None][:most], strict=False))


def _scatter(
    name: str, given: dict[str, Any], values: dict[str, Any], settings: dict[str, Any], output: Array
) -> Movement:
    # What a gather of positions by the same indices finds is where the updates go.
    data_name, indices_name, _ = given
    data, indices = np.asarray(given[data_name]), _integers(given[indices_name])
    positions = np.arange(data.size).reshape(data.shape)
    if "axis" in values:
        depth, batch = data.ndim, indices.shape
        places, numbers = gather_elements(positions, indices, values["axis"]), indices.reshape(-1, 1)
    else:
        depth, batch = indices.shape[-1], indices.shape[:-1]
        places, numbers = gather_nd(positions, indices), indices.reshape(math.prod(batch), depth)
    return Movement(
        name, settings, data, data_name, output, np.asarray(given["updates"]), "updates", batch, indices,
        indices_name, numbers, _rows(places, numbers, data.shape, depth), depth,
        reduction=values.get("reduction", "add"), include_self=bool(values.get("include_self", True)),
    )  # fmt: skip


def _tf_scatter(
    name: str, given: dict[str, Any], values: dict[str, Any], settings: dict[str, Any], output: Array
) -> Movement:
    updates = np.asarray(given["updates"])
    is_text = output.dtype.kind in "OTU"
    zeros = np.full(output.shape, "", output.dtype) if is_text else np.zeros(output.shape, output.dtype)
    return _scatter(
        name, {"zeros": zeros, "indices": given["indices"], "updates": updates}, values, settings, output
    )


def _tensor_scatter(
    name: str, given: dict[str, Any], values: dict[str, Any], settings: dict[str, Any], output: Array
) -> Movement:
    cache, update = np.asarray(given["past_cache"]), np.asarray(given["update"])
    depth = values["axis"] % cache.ndim + 1
    batch = update.shape[:depth]
    # Positions of the update, written into an empty cache: each is found where it goes to.
    empty, positions = np.full(cache.shape, -1), np.arange(update.size).reshape(update.shape)
    found = OPS[name].forward(empty, positions, given["write_indices"], **values).reshape(-1)
    places = np.zeros(update.size, np.int64)
    is_written = found >= 0
    places[found[is_written]] = np.flatnonzero(is_written)
    starts = np.zeros(cache.shape[0], np.int64)
    if given["write_indices"] is not None:
        starts = _integers(given["write_indices"])
    count = math.prod(batch)
    item, offset, *_ = (np.indices(batch).reshape(len(batch), count)[axis] for axis in (0, -1))
    numbers = np.stack([starts[item], offset], axis=-1)
    return Movement(
        name, settings, cache, "past_cache", output, update, "update", batch,
        None if given["write_indices"] is None else starts, "write_indices", numbers,
        _rows(places, numbers, cache.shape, depth), depth, is_stretch=True,
    )  # fmt: skip


def _gather(
    name: str, given: dict[str, Any], values: dict[str, Any], settings: dict[str, Any], output: Array
) -> Movement:
    data, indices = np.asarray(given["data"]), _integers(given["indices"])
    places = OPS[name].forward(np.arange(data.size).reshape(data.shape), indices, **values)
    if "axis" in values:
        depth, batch, numbers = data.ndim, indices.shape, indices.reshape(-1, 1)
    else:
        depth, batch = values["batch_dims"] + indices.shape[-1], indices.shape[:-1]
        numbers = indices.reshape(math.prod(batch), indices.shape[-1])
    return Movement(
        name, settings, data, "data", output, output, "output", batch, indices, "indices", numbers,
        _rows(places, numbers, data.shape, depth), depth, is_gather=True,
    )  # fmt: skip


def _integers(value: Any) -> Integers:
    array = np.asarray(value)
    # An empty list is of floats; what is in the others was in range, so that int64 holds it.
    return array.astype(np.int64)


def _rows(places: Array, numbers: Integers, shape: tuple[int, ...], depth: int) -> Integers:
    width = math.prod(shape[depth:])
    if not width:
        return np.zeros(0, np.int64)  # rows without elements: there is nothing to move
    return places.reshape(len(numbers), width)[:, 0].astype(np.int64) // width


_READERS: dict[str, Callable[..., Movement]] = {
    "ScatterND": _scatter,
    "ScatterElements": _scatter,
    "paddle::scatter_nd_add": _scatter,
    "tf::scatter_nd": _tf_scatter,
    "TensorScatter": _tensor_scatter,
    "GatherND": _gather,
    "GatherElements": _gather,
}
