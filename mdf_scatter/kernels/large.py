"""What is for the compiled loops, and how they see it."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from operator import or_
from typing import Any

import numpy as np
import numpy.typing as npt

from mdf_scatter.kernels import machine
from mdf_scatter.kernels.codes import PIECE
from mdf_scatter.kernels.threads import together

Array = npt.NDArray[Any]

LARGE = 1 << 16
"""Elements from which on a compiled loop is worth loading: NumPy moves as many in less than 1 ms."""


_ZERO = np.zeros(1, np.complex128)
"""The only element of all arrays that `zeros` returns."""


def is_large(size: int, *arrays: Array) -> bool:
    """Tell whether so many elements of these arrays are for the compiled loops."""
    return size >= LARGE and all(map(_is_whole, arrays)) and machine.available()


def _is_whole(array: Array) -> bool:
    """Tell whether an array is C-contiguous, and aligned to its elements.

    NumPy aligns complex numbers to their parts, where loops move the two at once.
    """
    return array.flags.c_contiguous and _address(array) % (array.itemsize or 1) == 0


def run_in_parts(loop: str, arguments: Callable[[], tuple[Array | int, ...]], length: int, parts: int) -> int:
    """Run a compiled loop for equal ranges of 0..length, in several threads, and wait for all.

    Args:
        loop: Its name, "module.function".
        arguments: Returns its arguments, but the range, in each thread anew.
        length: Where the last range ends.
        parts: How many ranges. Threads, the calling one among them, take one after the other.

    Returns:
        What the loop returned: the OR of their bits.
    """
    taken = np.zeros(1, np.int64)
    found = together(lambda: machine.share(loop, arguments(), taken, length, parts), parts)
    return reduce(or_, found)


def zeros(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """Return an array of zeros that takes no memory, and that the loops know to need none of."""
    return np.broadcast_to(np.zeros((), dtype), shape)


def is_zeros(array: Array) -> bool:
    """Tell whether an array of some elements is what `zeros` returned."""
    return array.size > 1 and not any(array.strides)


def flat(array: Array) -> Array:
    """Return an array, C-contiguous or of `zeros`, as the loops take it: flat, and zeros as no elements."""
    return np.empty(0, array.dtype) if is_zeros(array) else array.reshape(-1)


def is_movable(dtype: np.dtype[Any]) -> bool:
    """Tell whether elements can be moved as what `bits` returns."""
    return dtype.itemsize in (1, 2, 4, 8, 16) and not dtype.hasobject


def bits(array: Array) -> Array:
    """Return elements as unsigned integers, or complex ones: what is moved needs no loop for each dtype."""
    return array.view("c16" if array.itemsize == 16 else f"u{array.itemsize}")


def plain(array: Array) -> Array:
    """Return truth values as 0 and 1, whose larger is their OR, and all else as it is."""
    return array.view(np.uint8) if array.dtype == np.bool else array


def reduction_of(reduction: str, dtype: np.dtype[Any]) -> str:
    """Return the reduction of what `plain` returns that is this one of what it was given."""
    return {"add": "max", "mul": "min"}.get(reduction, reduction) if dtype == np.bool else reduction


def lead_of(array: Array) -> int:
    """Return how many elements of an array are before the first that is aligned to a `PIECE`."""
    return -_address(array) % PIECE // array.itemsize


def _address(array: Array) -> int:
    address: int = array.__array_interface__["data"][0]
    return address
