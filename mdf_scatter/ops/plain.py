"""Plain numbers and lists beside tensors: they tell no dtype, and take that of the tensor they meet."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from mdf_scatter.dtypes import is_string, name_of
from mdf_scatter.ops.op import Op


def of_one_dtype(op: Op) -> tuple[str, ...]:
    """Return the names of the inputs of an operator that share a dtype."""
    return tuple(name for name in op.inputs if name not in op.integers)


def alike(arrays: Mapping[str, npt.NDArray[Any]], plain: Collection[str]) -> dict[str, npt.NDArray[Any]]:
    """Give plain numbers and lists the dtype of the first tensor beside them.

    Args:
        arrays: Inputs of one call that share a dtype, by name.
        plain: Names of those that are plain; where all are, they get one dtype that holds all.

    Returns:
        All arrays; what the dtype cannot hold is as it was.
    """
    dtypes = [array.dtype for name, array in arrays.items() if name not in plain]
    if not dtypes and len({is_string(array.dtype) for array in arrays.values()}) == 1:
        dtypes = [np.result_type(*([a for a in arrays.values() if a.size] or arrays.values()))]
    return {
        name: fitted(array, dtypes[0]) if name in plain and dtypes else array
        for name, array in arrays.items()
    }


def as_integers(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return a list where integers belong: an empty one, which NumPy makes float64, tells no dtype."""
    return array if array.size else array.astype(np.int64)


def fitted(array: npt.NDArray[Any], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """Return what a plain number or list holds in a dtype; as it is where the dtype cannot hold it.

    A float dtype holds every number that it has a finite value near, any other one only what it has
    exactly.

    >>> fitted(np.array([1, 2]), np.dtype(np.float32)), fitted(np.array([0.5]), np.dtype(np.int64))
    (array([1., 2.], dtype=float32), array([0.5]))
    """
    if array.dtype == dtype or is_string(array.dtype) or is_string(dtype):
        return array
    if array.dtype.kind == "c" and dtype.kind != "c":
        return array
    with np.errstate(all="ignore"):
        cast = array.astype(dtype)
        if dtype.kind in "biu" or "int" in name_of(dtype):
            fits = np.array_equal(cast.astype(array.dtype), array)
        else:
            fits = np.array_equal(np.isfinite(cast), np.isfinite(array))
    return cast if fits else array
