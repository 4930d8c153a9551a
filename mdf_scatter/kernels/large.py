"""What is for the compiled loops, and how they see it."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from mdf_scatter.kernels import machine
from mdf_scatter.kernels.codes import LINE

Array = npt.NDArray[Any]

LARGE = 1 << 16
"""Elements from which on a compiled loop is worth loading: NumPy moves as many in less than 1 ms."""


def is_large(size: int, *arrays: Array) -> bool:
    """Tell whether so many elements of these arrays are for the compiled loops."""
    if size < LARGE or not all(array.flags.c_contiguous and array.flags.aligned for array in arrays):
        return False
    return machine.available()


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
    """Return how many elements of an array are before its first cache line."""
    address: int = array.__array_interface__["data"][0]
    return -address % LINE // array.itemsize
