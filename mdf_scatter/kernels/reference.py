"""The specification's loop, one element at a time: slow, plain, and what the fast kernels must equal.

It shares nothing with them, so that it can judge them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from mdf_scatter.dtypes import HALVES, is_string

Combine = Callable[[Any, Any], Any]


def scatter_nd(
    data: npt.NDArray[Any],
    indices: npt.NDArray[Any],
    updates: npt.NDArray[Any],
    reduction: str = "none",
    include_self: bool = True,
) -> npt.NDArray[Any]:
    """Compute ScatterND on valid arguments, as ONNX words it.

    Args:
        data: T[d0..dr-1].
        indices: int[i0..iq-2, k].
        updates: T[i0..iq-2, dk..dr-1].
        reduction: "none", "add", "mul", "max", "min" or "mean".
        include_self: Whether an element takes part in what its updates are reduced to.

    Returns:
        A new array of data's shape and dtype; for strings of any kind, an array of objects.

    >>> scatter_nd(np.array([1, 2, 3]), np.array([[0], [-1], [0]]), np.array([10, 20, 30]), "add")
    array([41,  2, 23])
    """
    result = data.astype(object) if is_string(data.dtype) else data.copy()
    through_float32 = reduction != "none" and data.dtype in HALVES
    # Halves are rounded once, at the end: 4096 ones added to a float16 zero are 4096, not 2048.
    sums = result.astype(np.float32) if through_float32 else result
    terms = updates.astype(np.float32) if through_float32 else updates
    counts = np.zeros(data.shape, np.int64)
    combine = COMBINE[reduction]
    depth = indices.shape[-1]
    with np.errstate(all="ignore"):
        for position in np.ndindex(indices.shape[:-1]):
            index = tuple(int(number) for number in indices[position])
            for offset in np.ndindex(data.shape[depth:]):
                place = (*index, *offset)
                term = terms[(*position, *offset)]
                is_alone = counts[place] == 0 and not include_self
                sums[place] = term if is_alone else combine(sums[place], term)
                counts[place] += 1
        touched = counts > 0
        if reduction == "mean":
            for place in zip(*np.nonzero(touched), strict=True):
                sums[place] = _quotient(sums[place], int(counts[place]) + include_self)
        if through_float32:
            result[touched] = sums[touched].astype(data.dtype)
    return result


def _none(_element: Any, update: Any) -> Any:
    return update


def _add(element: Any, update: Any) -> Any:
    if isinstance(element, np.bool):
        return element or update
    return element + update


def _mul(element: Any, update: Any) -> Any:
    if isinstance(element, np.bool):
        return element and update
    if isinstance(element, np.complexfloating):
        # Written out, because a processor that fuses multiply and add rounds the parts differently.
        real = element.real * update.real - element.imag * update.imag
        imag = element.real * update.imag + element.imag * update.real
        return complex(real, imag)
    return element * update


def _max(element: Any, update: Any) -> Any:
    if element != element or update != update:
        return element + update  # NaN, whichever of the two is
    if _are_zeros(element, update):
        return update if np.signbit(element) else element
    return max(element, update)


def _min(element: Any, update: Any) -> Any:
    if element != element or update != update:
        return element + update  # NaN, whichever of the two is
    if _are_zeros(element, update):
        return element if np.signbit(element) else update
    return min(element, update)


def _quotient(element: Any, count: int) -> Any:
    if isinstance(element, np.integer):
        return int(element) // count
    if isinstance(element, np.complexfloating):
        return complex(element.real / count, element.imag / count)
    return element / count


def _are_zeros(element: Any, update: Any) -> bool:
    return isinstance(element, np.floating) and bool(element == update == 0)


COMBINE: dict[str, Combine] = {
    "none": _none,
    "add": _add,
    "mul": _mul,
    "max": _max,
    "min": _min,
    "mean": _add,
}
