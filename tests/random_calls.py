"""ScatterND calls made by chance, right and wrong ones."""

from __future__ import annotations

import numpy as np
from samples import ALL_DTYPES, reductions_of, samples


def random_call(rng):
    """Make a call that is right, and what makes it wrong in about a third of all: a name or None."""
    dtype = str(rng.choice(ALL_DTYPES))
    reduction = str(rng.choice(reductions_of(dtype)))
    shape = tuple(
        int(n) for n in rng.choice([0, 1, 2, 3, 4], rng.integers(1, 5), p=[0.05, 0.2, 0.3, 0.25, 0.2])
    )
    depth = int(rng.integers(0, len(shape) + 1))
    batch = tuple(int(n) for n in rng.choice([0, 1, 2, 5], rng.integers(0, 3), p=[0.1, 0.3, 0.4, 0.2]))
    if 0 in shape[:depth]:
        batch = (0, *batch)
    index_dtype = rng.choice(["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"])
    indices = np.zeros((*batch, depth), index_dtype)
    for axis in range(depth if indices.size else 0):
        lowest = 0 if index_dtype.startswith("u") else -shape[axis]
        indices[..., axis] = rng.integers(lowest, shape[axis], batch)
    pool = samples(dtype)
    data = pool[rng.integers(0, len(pool), shape)]
    updates = np.asarray(pool[rng.integers(0, len(pool), batch + shape[depth:])], pool.dtype)

    fault = (
        str(rng.choice(["range", "shape", "depth", "dtype", "index", "reduction"]))
        if rng.random() < 0.35
        else None
    )
    if fault == "range":
        if not indices.size:
            return data, indices, updates, reduction, None
        place = tuple(rng.integers(0, indices.shape))
        indices[place] = shape[place[-1]] + rng.integers(0, 3)
    elif fault == "shape":
        updates = updates[..., np.newaxis]
    elif fault == "depth":
        indices = np.zeros((*batch, len(shape) + 1), index_dtype)
    elif fault == "dtype":
        updates = np.zeros(updates.shape, np.float64 if dtype == "float32" else np.float32)
    elif fault == "index":
        indices = indices.astype(np.float64)
    elif fault == "reduction":
        reduction = "sum"
    return data, indices, updates, reduction, fault


def disguised(rng, array):
    """Return an array equal to another, strided, reversed, in Fortran's order, byte-swapped, or as it is."""
    way = rng.integers(0, 5)
    if way == 1 and array.ndim:
        return np.repeat(array, 2, axis=-1)[..., ::2]
    if way == 2 and array.ndim:
        return np.flip(np.flip(array).copy())
    if way == 3:
        return np.array(array, order="F")
    if way == 4 and array.dtype.kind in "iufcU":
        return array.astype(array.dtype.newbyteorder(">"))
    return array
