"""Calls of the operators made by chance, right and wrong ones."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from family import FUNCTIONS, LOOPS, problem
from samples import ALL_DTYPES, NARROW, reductions_of, same, samples

from mdf_scatter.dtypes import is_string
from mdf_scatter.ops import OPS

INDEX_DTYPES = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]


@dataclass
class Call:
    """A call of an operator, and the name of what is wrong with it, or None."""

    op: str
    inputs: tuple[np.ndarray, ...]
    attributes: dict[str, Any] = field(default_factory=dict)
    fault: str | None = None


# --- calls -------------------------------------------------------------------------------------


def random_call(rng):
    """Make a ScatterND call that is right, and in a third of all what makes it wrong: a name or None."""
    dtype = str(rng.choice(ALL_DTYPES))
    reduction = str(rng.choice(reductions_of(dtype)))
    shape = random_shape(rng, rng.integers(1, 5))
    depth = int(rng.integers(0, len(shape) + 1))
    batch = tuple(int(n) for n in rng.choice([0, 1, 2, 5], rng.integers(0, 3), p=[0.1, 0.3, 0.4, 0.2]))
    if 0 in shape[:depth]:
        batch = (0, *batch)
    indices = random_indices(rng, batch, shape[:depth])
    data, updates = random_values(rng, dtype, shape), random_values(rng, dtype, batch + shape[depth:])

    fault = random_fault(rng, ["range", "shape", "depth", "dtype", "index", "reduction"])
    if fault == "range":
        if not indices.size:
            return data, indices, updates, reduction, None
        put_outside(rng, indices, shape[:depth])
    elif fault == "shape":
        updates = updates[..., np.newaxis]
    elif fault == "depth":
        indices = np.zeros((*batch, len(shape) + 1), indices.dtype)
    elif fault == "dtype":
        updates = np.zeros(updates.shape, np.float64 if dtype == "float32" else np.float32)
    elif fault == "index":
        indices = indices.astype(np.float64)
    elif fault == "reduction":
        reduction = "sum"
    return data, indices, updates, reduction, fault


def _scatter_nd(rng):
    *inputs, reduction, fault = random_call(rng)
    return Call("ScatterND", tuple(inputs), {"reduction": reduction}, fault)


def _paddle_scatter_nd_add(rng):
    *inputs, _, fault = random_call(rng)
    if fault in (None, "reduction"):
        fault = "no arithmetic" if inputs[0].dtype.name in NARROW else None
    return Call("paddle::scatter_nd_add", tuple(inputs), fault=fault)


def _tf_scatter_nd(rng):
    data, indices, updates, _, fault = random_call(rng)
    shape = np.array(data.shape, rng.choice(INDEX_DTYPES))
    if fault in (None, "reduction", "dtype"):
        fault = "no arithmetic" if updates.dtype.name in NARROW else None
    if fault is None:
        fault = random_fault(rng, ["size", "rank", "dtype of shape"])
        if fault == "size":
            shape = shape.astype(np.int64)
            shape[rng.integers(0, len(shape))] = -1
        elif fault == "rank":
            shape = shape[np.newaxis]
        elif fault == "dtype of shape":
            shape = shape.astype(np.float32)
    return Call("tf::scatter_nd", (indices, updates, shape), fault=fault)


def _gather_nd(rng):
    shape = random_shape(rng, rng.integers(1, 5))
    batch_dims = int(rng.integers(0, len(shape)))
    depth = int(rng.integers(0, len(shape) - batch_dims + 1))
    sizes = shape[batch_dims : batch_dims + depth]
    batch = shape[:batch_dims] + random_shape(rng, rng.integers(0, 3))
    if 0 in sizes and 0 not in batch:
        batch = (*batch, 0)
    indices = random_indices(rng, batch, sizes)
    data = random_values(rng, str(rng.choice(ALL_DTYPES)), shape)

    fault = random_fault(rng, ["range", "depth", "batch_dims", "batch sizes", "index"])
    if fault == "range":
        fault = put_outside(rng, indices, sizes)
    elif fault == "depth":
        indices = np.zeros((*batch, len(shape) - batch_dims + 1), np.int64)
    elif fault == "batch_dims":
        batch_dims = int(rng.choice([-1, min(data.ndim, indices.ndim), 9]))
    elif fault == "batch sizes":
        if not batch_dims:
            return Call("GatherND", (data, indices))
        indices = np.zeros((shape[0] + 1, *indices.shape[1:]), np.int64)
    elif fault == "index":
        indices = indices.astype(np.float64)
    return Call("GatherND", (data, indices), {"batch_dims": batch_dims}, fault)


def _elements(rng, faults):
    shape = random_shape(rng, rng.integers(1, 5))
    axis = int(rng.integers(0, len(shape)))
    sizes = [int(rng.integers(0 if size == 0 else 1, size + 1)) for size in shape]
    sizes[axis] = 0 if shape[axis] == 0 else int(rng.choice([0, 1, 2, 6], p=[0.05, 0.35, 0.4, 0.2]))
    indices = random_indices(rng, (*sizes,), (shape[axis],))[..., 0]
    written = axis - len(shape) if rng.random() < 0.5 else axis

    fault = random_fault(rng, ["range", "size", "rank", "axis", "index", *faults])
    if fault == "range":
        fault = put_outside(rng, indices[..., np.newaxis], (shape[axis],))
    elif fault == "size":
        if len(shape) == 1:
            return shape, indices, written, None
        sizes[axis - 1] = shape[axis - 1] + 1
        indices = np.zeros(sizes, np.int64)
    elif fault == "rank":
        indices = indices[np.newaxis]
    elif fault == "axis":
        written = int(rng.choice([-len(shape) - 1, len(shape)]))
    elif fault == "index":
        indices = indices.astype(np.float64)
    return shape, indices, written, fault


def _gather_elements(rng):
    shape, indices, axis, fault = _elements(rng, [])
    data = random_values(rng, str(rng.choice(ALL_DTYPES)), shape)
    return Call("GatherElements", (data, indices), {"axis": axis}, fault)


def _scatter_elements(rng):
    dtype = str(rng.choice(ALL_DTYPES))
    reduction = str(rng.choice(reductions_of(dtype)))
    shape, indices, axis, fault = _elements(rng, ["updates", "dtype", "reduction"])
    data, updates = random_values(rng, dtype, shape), random_values(rng, dtype, indices.shape)
    if fault == "updates":
        updates = updates[..., np.newaxis]
    elif fault == "dtype":
        updates = np.zeros(updates.shape, np.float64 if dtype == "float32" else np.float32)
    elif fault == "reduction":
        reduction = "sum"
    return Call("ScatterElements", (data, indices, updates), {"axis": axis, "reduction": reduction}, fault)


def _tensor_scatter(rng):
    dtype = str(rng.choice(ALL_DTYPES))
    shape = random_shape(rng, rng.integers(2, 5))
    axis = int(rng.integers(1, len(shape)))
    size, length = shape[axis], int(rng.integers(0, shape[axis] + 1))
    mode = str(rng.choice(["linear", "circular"]))
    highest = size - length if mode == "linear" else 120
    index_dtype = rng.choice(INDEX_DTYPES)
    starts = rng.integers(0, highest + 1, shape[0]).astype(index_dtype)
    update = random_values(rng, dtype, (*shape[:axis], length, *shape[axis + 1 :]))
    written = axis - len(shape) if rng.random() < 0.5 else axis

    fault = random_fault(rng, ["start", "size", "length", "axis", "mode", "dtype", "index", "starts"])
    if fault == "start":
        if not starts.size:
            return Call("TensorScatter", (random_values(rng, dtype, shape), update), {"axis": axis})
        starts = starts.astype(np.int64)
        starts[rng.integers(0, len(starts))] = highest + 1 if mode == "linear" and rng.random() < 0.5 else -1
    elif fault == "size":
        update = random_values(rng, dtype, (shape[0] + 1, *update.shape[1:]))
    elif fault == "length":
        update = random_values(rng, dtype, (*shape[:axis], size + 1, *shape[axis + 1 :]))
    elif fault == "axis":
        written = int(rng.choice([0, -len(shape), len(shape)]))
    elif fault == "mode":
        mode = "cyclic"
    elif fault == "dtype":
        update = np.zeros(update.shape, np.float64 if dtype == "float32" else np.float32)
    elif fault == "index":
        starts = starts.astype(np.float64)
    elif fault == "starts":
        starts = starts[:, np.newaxis]
    inputs = (random_values(rng, dtype, shape), update, starts)
    if fault not in ("start", "index", "starts") and rng.random() < 0.2:
        inputs = inputs[:2]
    return Call("TensorScatter", inputs, {"axis": written, "mode": mode}, fault)


CALLS: dict[str, Callable[[np.random.Generator], Call]] = {
    "ScatterND": _scatter_nd,
    "ScatterElements": _scatter_elements,
    "GatherND": _gather_nd,
    "GatherElements": _gather_elements,
    "TensorScatter": _tensor_scatter,
    "tf::scatter_nd": _tf_scatter_nd,
    "paddle::scatter_nd_add": _paddle_scatter_nd_add,
}
"""For each operator, what makes a call of it."""


# --- parts of calls ----------------------------------------------------------------------------


def random_shape(rng, rank):
    return tuple(int(n) for n in rng.choice([0, 1, 2, 3, 4], rank, p=[0.05, 0.2, 0.3, 0.25, 0.2]))


def random_values(rng, dtype, shape):
    pool = samples(dtype)
    return np.asarray(pool[rng.integers(0, len(pool), shape)], pool.dtype)


def random_indices(rng, batch, sizes):
    """Make indices of any dtype into axes of these sizes."""
    index_dtype = rng.choice(INDEX_DTYPES)
    indices = np.zeros((*batch, len(sizes)), index_dtype)
    for axis, size in enumerate(sizes if indices.size else ()):
        indices[..., axis] = rng.integers(0 if index_dtype.startswith("u") else -size, size, batch)
    return indices


def put_outside(rng, indices, sizes):
    """Put one index out of range, in place; return the fault's name, None where there is no index."""
    if not indices.size:
        return None
    place = tuple(rng.integers(0, indices.shape))
    size = sizes[place[-1]]
    below = indices.dtype.kind == "i" and rng.random() < 0.5
    indices[place] = (-size - 1 if below else size) + rng.integers(0, 3) * (-1 if below else 1)
    return "range"


def random_fault(rng, faults):
    return str(rng.choice(faults)) if rng.random() < 0.35 else None


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


# --- outcomes ----------------------------------------------------------------------------------


def check_random_calls(name, rng, count):
    """Check that calls of an operator give what its loop gives, or an error that names what is wrong.

    Returns:
        How many calls were right, and how many wrong.
    """
    outcomes = {True: 0, False: 0}
    for _ in range(count):
        call = CALLS[name](rng)
        before = [array.copy() for array in call.inputs]
        given = [disguised(rng, array) for array in call.inputs]
        for array in given:
            array.flags.writeable = False
        outcomes[call.fault is None] += 1
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            check_call(call, given, _random_out(rng, call))
        for array, copy in zip(call.inputs, before, strict=True):
            assert same(array, copy)
    return outcomes


def check_call(call, given, out):
    op = OPS[call.op]
    keywords = {} if out is None else {"out": out}
    out_before = None if out is None else out.copy()
    if call.fault is not None:
        message = problem(call.op, *given, **call.attributes, **keywords)
        assert message.removeprefix(f"{call.op}: ").startswith((*op.inputs, *op.attributes)), message
        assert out is None or same(out, out_before)
        return
    result = FUNCTIONS[call.op](*given, **call.attributes, **keywords)
    expected = LOOPS[call.op](*call.inputs, **call.attributes)
    is_computed = call.attributes.get("reduction") not in (None, "none") or "::" in call.op
    assert same(result, expected, computed=is_computed), call
    typed = call.inputs[op.inputs.index(op.dtype_from)]
    assert result.dtype == typed.dtype or is_string(typed.dtype)
    assert type(result) is np.ndarray
    assert result.dtype.isnative
    assert result.flags.c_contiguous
    assert result.flags.writeable
    assert result is out if out is not None else not any(np.may_share_memory(result, a) for a in given)


def _random_out(rng, call):
    if call.op not in ("ScatterND", "ScatterElements") or rng.random() < 0.5:
        return None
    data = call.inputs[0]
    return np.zeros(data.shape, "U90" if data.dtype.kind == "U" else data.dtype)
