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

from mdf_scatter.dtypes import BFLOAT16
from mdf_scatter.kernels.rows import copied, gather_rows, is_last, places, scatter_rows
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
    touched, _ = places(rows, height)
    if output is None:
        return MulPullback(
            rows, height, include_self, updates.copy(), gather_rows(data, touched) if include_self else None
        )
    return ExtremumPullback(
        rows,
        height,
        include_self,
        updates == gather_rows(output, rows),
        gather_rows(data, touched) == gather_rows(output, touched) if include_self else None,
    )


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
        sums = np.zeros((self.height, grad.shape[1]), grad.dtype)
        if grad.size:
            scatter_rows(sums, self.rows, np.ascontiguousarray(grad), "add", include_self=True)
        return (sums,)


class ZerosPullback(RowsPullback):
    """Updates added into zeros: there is no data to send a gradient to."""

    def __call__(self, grad: Array) -> tuple[Array, ...]:
        """Return the gradient of updates, (N, S), for that of the result, (R, S)."""
        return (gather_rows(grad, self.rows),)


class NonePullback(RowsPullback):
    """Updates put in place of what they meet: the result has the last one to a row, and no data there."""

    def __call__(self, grad: Array) -> tuple[Array, ...]:
        """Return the gradients of data, (R, S), and updates, (N, S), for that of the result, (R, S)."""
        last = is_last(self.rows, self.height)
        to_data, to_updates = copied(grad), gather_rows(grad, self.rows)
        to_data[self.rows[last]] = 0
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
        to_data, to_updates = copied(grad), gather_rows(grad, self.rows)
        if not self.include_self:
            to_data[self.rows] = 0
        return to_data, to_updates


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
        is_half = grad.dtype in (np.float16, BFLOAT16)
        with np.errstate(all="ignore"):
            touched_grad, to_updates = self._send(sent.astype(np.float32) if is_half else sent, place)
            to_data = copied(grad)
            to_data[touched] = touched_grad if self.include_self else 0
            return to_data, to_updates.astype(grad.dtype, copy=False)

    @abstractmethod
    def _send(self, sent: Array, place: Rows) -> tuple[Array | None, Array]:
        """Return the gradients of the touched rows of data, and of updates.

        Args:
            sent: The gradient of the touched rows of the result, (T, S).
            place: The one of them that each update went to, (N,).

        Returns:
            (T, S), of no meaning without `include_self`, and (N, S); both of the dtype of `sent`.
        """


class MeanPullback(ReductionPullback):
    """A mean: all are sent the same part."""

    def _send(self, sent: Array, place: Rows) -> tuple[Array | None, Array]:
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

    def _send(self, sent: Array, place: Rows) -> tuple[Array | None, Array]:
        winners = np.zeros(sent.shape, np.min_scalar_type(len(place) + 1))
        if self.data_wins is not None:
            winners += self.data_wins
        scatter_rows(winners, place, self.update_wins.astype(winners.dtype), "add", include_self=True)
        is_nan = winners == 0
        part = divided(sent, np.maximum(winners, 1))
        part[is_nan] = np.nan
        to_updates = gather_rows(part, place)
        to_updates[~(self.update_wins | is_nan[place])] = 0
        if self.data_wins is not None:
            part[~(self.data_wins | is_nan)] = 0
        return part, to_updates


@dataclass(frozen=True, eq=False)
class MulPullback(ReductionPullback):
    """A product: each factor is sent the product of the others, conjugated; never a quotient.

    Attributes:
        updates: (N, S).
        data: The touched rows of data, (T, S), in the order of `places`; None without `include_self`.
    """

    updates: Array
    data: Array | None

    def _send(self, sent: Array, place: Rows) -> tuple[Array | None, Array]:
        to_data, to_updates = np.empty_like(sent), np.empty(self.updates.shape, sent.dtype)
        for touched, members in _of_equal_length(place, len(sent), sent.shape[1]):
            factors = self.updates[members].astype(sent.dtype, copy=False)
            first = np.ones_like(factors[0]) if self.data is None else self.data[touched]
            before = np.concatenate([first[np.newaxis].astype(sent.dtype), factors[:-1]])
            after = np.concatenate([factors[1:], np.ones_like(factors[:1])])
            _multiply_along(before)
            _multiply_along(after[::-1])
            to_updates[members] = sent[touched] * (before * after).conj()
            _multiply_along(factors)
            to_data[touched] = sent[touched] * factors[-1].conj()
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
    if factors[0].size < THIN:
        np.multiply.accumulate(factors, axis=0, out=factors)
        return
    for previous, factor in pairwise(factors):
        factor *= previous
