"""How gradients move: what the rows kernels need for the way back, and that way.

A pullback holds rows, flags and, for products alone, values; never more than there are updates. All
checks are done before; a kernel trusts what it is given.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from mdf_scatter.dtypes import HALVES
from mdf_scatter.kernels.codes import LINE
from mdf_scatter.kernels.large import is_large, run_in_parts, zeros
from mdf_scatter.kernels.machine import run
from mdf_scatter.kernels.memory import empty
from mdf_scatter.kernels.rows import (
    added_rows,
    copied,
    gather_rows,
    is_last,
    places,
    scatter_rows,
    touched_rows,
)
from mdf_scatter.kernels.threads import parts_for
from mdf_scatter.kernels.vectorized import BLOCK, divided

Array = npt.NDArray[Any]
Flags = npt.NDArray[np.bool]
Rows = npt.NDArray[np.int64]

THIN = 128
"""Elements below which a Python step for each factor of a product costs more than NumPy's own scan."""


def remember(
    data: Array, rows: Rows, updates: Array, output: Array | None, reduction: str, include_self: bool = True
) -> RowsPullback:
    """Keep what the way back through `scatter_rows` needs, as copies, and no more.

    Args:
        data: The rows before, (R, S), of a float or complex dtype.
        rows: The row each update went to, (N,); it is kept itself.
        updates: (N, S), dtype of `data`.
        output: The rows after, (R, S), dtype of `data`; None if the reduction is neither "max" nor "min".
        reduction: One of `WIDE_REDUCTIONS`.
        include_self: Whether data took part on touched rows.

    Returns:
        A pullback to the gradients of data and updates, which holds the rows and: nothing else for
        "none", "add" and "mean"; updates and the touched rows of data for "mul"; a flag for each of their
        elements for "max" and "min".
    """
    height = len(data)
    if reduction == "none":
        return NonePullback(rows, height)
    if reduction == "mean":
        return MeanPullback(rows, height, include_self)
    if reduction == "add" or not updates.size:
        return AddPullback(rows, height, include_self)
    if output is None:
        before = gather_rows(data, touched_rows(rows, height)) if include_self else None
        return MulPullback(rows, height, include_self, updates.copy(), before)
    touched, place = places(rows, height)
    reached = gather_rows(output, touched)
    with np.errstate(invalid="ignore"):  # of a NaN that signals
        update_wins = updates == gather_rows(reached, place)
        data_wins = gather_rows(data, touched) == reached if include_self else None
    return ExtremumPullback(rows, height, include_self, update_wins, data_wins)


@dataclass(frozen=True, eq=False)
class RowsPullback(ABC):
    """The way back through one call of a rows kernel.

    Attributes:
        rows: The row that each of N updates went to, or each of N results came from, (N,).
        height: R, the rows there are.
    """

    rows: Rows
    height: int

    @abstractmethod
    def __call__(self, grad: Array) -> tuple[Array, ...]:
        """Return the gradients of what went in, as new arrays, for that of what came out.

        float16 and bfloat16 are computed in float32 and rounded once.
        """

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays that are held."""
        return sum(value.nbytes for value in vars(self).values() if isinstance(value, np.ndarray))


class GatherPullback(RowsPullback):
    """`out = data[rows]`: each row of `data` is sent the sum of what its copies are."""

    def __call__(self, grad: Array) -> tuple[Array, ...]:
        """Return the gradient of data, (R, S), for that of the result, (N, S)."""
        if not grad.size:
            return (np.zeros((self.height, grad.shape[1]), grad.dtype),)
        return (added_rows(self.height, self.rows, np.ascontiguousarray(grad)),)


class ZerosPullback(RowsPullback):
    """Updates added into zeros: there is no data to send a gradient to."""

    def __call__(self, grad: Array) -> tuple[Array, ...]:
        """Return the gradient of updates, (N, S), for that of the result, (R, S)."""
        return (gather_rows(grad, self.rows),)


class NonePullback(RowsPullback):
    """Updates put in place of what they meet: the result has the last one to a row, and no data there."""

    def __call__(self, grad: Array) -> tuple[Array, ...]:
        """Return the gradients of data, (R, S), and updates, (N, S), for that of the result, (R, S)."""
        to_data, to_updates = _without(grad, self.rows), gather_rows(grad, self.rows)
        last = is_last(self.rows, self.height)
        if not last.all():
            to_updates[~last] = 0
        return to_data, to_updates


@dataclass(frozen=True, eq=False)
class AddPullback(RowsPullback):
    """A sum: all are sent the same.

    Attributes:
        include_self: Whether data took part on touched rows.
    """

    include_self: bool

    def __call__(self, grad: Array) -> tuple[Array, ...]:
        """Return the gradients of data, (R, S), and updates, (N, S), for that of the result, (R, S)."""
        to_data = copied(grad) if self.include_self else _without(grad, self.rows)
        return to_data, gather_rows(grad, self.rows)


@dataclass(frozen=True, eq=False)
class ReductionPullback(RowsPullback):
    """Updates reduced into data.

    Attributes:
        include_self: Whether data took part on touched rows.
    """

    include_self: bool

    def __call__(self, grad: Array) -> tuple[Array, ...]:
        """Return the gradients of data, (R, S), and updates, (N, S), for that of the result, (R, S)."""
        if not self.rows.size or not grad.size:
            return grad.copy(), grad[self.rows]
        touched, place = places(self.rows, self.height)
        sent = gather_rows(grad, touched)
        is_half = grad.dtype in HALVES
        with np.errstate(all="ignore"):
            touched_grad, to_updates = self._send(sent.astype(np.float32) if is_half else sent, place)
            if not self.include_self:
                to_data = _without(grad, touched)
            else:
                to_data = empty(grad.shape, grad.dtype)
                touched_grad = touched_grad.astype(grad.dtype, copy=False)
                scatter_rows(to_data, grad, touched, touched_grad, "none")
            return to_data, to_updates.astype(grad.dtype, copy=False)

    @abstractmethod
    def _send(self, sent: Array, place: Rows) -> tuple[Array, Array]:
        """Return the gradients of the touched rows of data, and of updates.

        Args:
            sent: The gradient of the touched rows of the result, (T, S).
            place: The one of them that each update went to, (N,).

        Returns:
            (T, S), of no meaning without `include_self`, and (N, S); both of the dtype of `sent`.
        """


class MeanPullback(ReductionPullback):
    """A mean: all are sent the same part."""

    def _send(self, sent: Array, place: Rows) -> tuple[Array, Array]:
        part = divided(sent, (np.bincount(place, minlength=len(sent)) + self.include_self)[:, np.newaxis])
        return part, gather_rows(part, place)


@dataclass(frozen=True, eq=False)
class ExtremumPullback(ReductionPullback):
    """A maximum or minimum: all that equal it are sent the same part, data and updates alike.

    Nothing equals NaN, not even NaN: then the part is one of none, and NaN is sent to all.

    Attributes:
        update_wins: Whether each update equals the result, (N, S).
        data_wins: Whether each touched element of data does, (T, S); None without `include_self`.
    """

    update_wins: Flags
    data_wins: Flags | None

    def _send(self, sent: Array, place: Rows) -> tuple[Array, Array]:
        winners = np.zeros(sent.shape, np.min_scalar_type(len(place) + 1))
        if self.data_wins is not None:
            winners += self.data_wins
        scatter_rows(winners, None, place, self.update_wins.astype(winners.dtype), "add")
        is_nan = winners == 0
        part = divided(sent, np.maximum(winners, 1))
        np.copyto(part, np.nan, where=is_nan)
        to_updates = gather_rows(part, place)
        _keep(to_updates, self.update_wins | gather_rows(is_nan, place))
        if self.data_wins is not None:
            _keep(part, self.data_wins | is_nan)
        return part, to_updates


def _without(grad: Array, rows: Rows) -> Array:
    """Return a copy of a gradient (R, S) with zeros in some rows."""
    result = empty(grad.shape, grad.dtype)
    nothing = zeros((len(rows), grad.shape[1]), grad.dtype)
    scatter_rows(result, grad, rows, nothing, "none")
    return result


def _keep(values: Array, kept: Flags) -> None:
    """Put 0 in place of floats that are not kept."""
    # By their bits, times 0 or 1: to choose takes ten times as long, as no processor predicts who wins.
    bits = values.view(f"u{values.itemsize}")
    np.multiply(bits, kept, out=bits)


@dataclass(frozen=True, eq=False)
class MulPullback(ReductionPullback):
    """A product: each factor is sent the product of the others, conjugated; never a quotient.

    Attributes:
        updates: (N, S).
        data: The touched rows of data, (T, S), in the order of `places`; None without `include_self`.
    """

    updates: Array
    data: Array | None

    def _send(self, sent: Array, place: Rows) -> tuple[Array, Array]:
        updates = self.updates.astype(sent.dtype, copy=False)
        before = np.ones_like(sent) if self.data is None else copied(self.data.astype(sent.dtype, copy=False))
        send = _send_by_loops if is_large(updates.size, updates, sent, place) else _send_in_blocks
        return send(sent, place, updates, before)


def _send_by_loops(sent: Array, place: Rows, updates: Array, before: Array) -> tuple[Array, Array]:
    to_updates = empty(updates.shape, sent.dtype)
    tables = updates, sent, before, to_updates
    width = sent.shape[1]
    if width == 1:
        run("products.send_to_factors", place, *(table.reshape(-1) for table in tables))
    else:
        parts = max(1, min(parts_for(updates.nbytes), width * sent.itemsize // LINE))
        run_in_parts("products.send_to_factor_rows", lambda: (place, *tables), width, parts)
    return before, to_updates


def _send_in_blocks(sent: Array, place: Rows, updates: Array, before: Array) -> tuple[Array, Array]:
    to_data, to_updates = np.empty_like(sent), np.empty_like(updates)
    for touched, members in _of_equal_length(place, len(sent), sent.shape[1]):
        factors = updates[members]
        ahead = np.concatenate([before[touched][np.newaxis], factors[:-1]])
        behind = np.concatenate([factors, np.ones_like(factors[:1])])
        _multiply_along(ahead)
        _multiply_along(behind[::-1])
        to_updates[members] = _product(sent[touched], _product(ahead, behind[1:]).conj())
        to_data[touched] = _product(sent[touched], behind[0].conj())
    return to_data, to_updates


def _of_equal_length(place: Rows, height: int, width: int) -> Iterator[tuple[Rows, Rows]]:
    """Cut the updates, by row, into blocks of rows that have equally many.

    There are at most about sqrt(2 N) different numbers of updates to a row, however they are spread.

    Yields:
        The rows of a block, (C,), and the numbers of their updates, in order, (M, C).
    """
    order = np.argsort(place, kind="stable")
    lengths = np.bincount(place, minlength=height)
    starts = np.cumsum(lengths) - lengths
    by_length = np.argsort(lengths, kind="stable")
    for same in np.split(by_length, np.flatnonzero(np.diff(lengths[by_length])) + 1):
        length = int(lengths[same[0]]) if len(same) else 0
        step = max(1, BLOCK // max(1, length * width))
        for first in range(0, len(same), step):
            block = same[first : first + step]
            yield block, order[starts[block] + np.arange(length)[:, np.newaxis]]


def _multiply_along(factors: Array) -> None:
    """Replace factors (M, ...) by their products up to each, in place and in order."""
    # Of three or more, each waits for the one before, and NumPy does not fuse: see `_product`. Tested.
    if factors[0].size < THIN and (factors.dtype.kind != "c" or len(factors) > 2):
        np.multiply.accumulate(factors, axis=0, out=factors)
        return
    for previous, factor in pairwise(factors):
        factor[...] = _product(previous, factor)


def _product(one: Array, other: Array) -> Array:
    """Return `one * other`, each step rounded: NumPy's complex product of whole arrays may fuse two."""
    if one.dtype.kind != "c":
        return one * other
    product = np.empty(np.broadcast_shapes(one.shape, other.shape), one.dtype)
    product.real = one.real * other.real - one.imag * other.imag
    product.imag = one.real * other.imag + one.imag * other.real
    return product
