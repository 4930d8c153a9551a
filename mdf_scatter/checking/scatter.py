"""Calls of our operators: their tensors against each other, as far as a model says what they are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from mdf_scatter.checking.calls import attribute_problems, operator
from mdf_scatter.checking.finding import Finding, error, warning
from mdf_scatter.checking.scope import Call, Feeding, Scope
from mdf_scatter.checking.tensors import (
    Shape,
    as_array,
    dtype_declared,
    may_be_equal,
    shape_declared,
    shape_text,
)
from mdf_scatter.dtypes import is_string, name_of
from mdf_scatter.errors import OperatorError
from mdf_scatter.expressions import literal
from mdf_scatter.ops import Op
from mdf_scatter.ops.arguments import resolve_rows


@dataclass(frozen=True)
class Known:
    """What a model says of a tensor before it runs.

    Attributes:
        dtype: Its dtype; None where it is not said, as for a list of numbers.
        shape: Its shape.
        value: The tensor itself, where it is constant.
    """

    dtype: np.dtype[Any] | None = None
    shape: Shape | None = None
    value: npt.NDArray[Any] | None = None


def check_operators(scope: Scope, by_id: Mapping[str, Scope], feeding: Feeding) -> Iterator[Finding]:
    """Find calls of our operators that cannot work, or that lose updates."""
    for call in scope.calls:
        op = operator(call)
        if op is None:
            continue
        tensors = {name: _known(scope, scope.argument(call, name), by_id, feeding) for name in op.inputs}
        where = scope.where(call.id)
        attributes = _attributes(scope, call, op)
        try:
            if all(tensor.value is not None for tensor in tensors.values()):
                with np.errstate(all="ignore"):
                    op.forward(*_alike(tensors), **attributes)
            else:
                _check_dtypes(op.name, tensors)
                if op.name == "ScatterND":
                    _check_scatter_nd(op.name, **tensors)
        except OperatorError as problem:
            yield error(where, str(problem))
            continue
        if op.name == "ScatterND" and attributes.get("reduction", "none") == "none":
            yield from _check_duplicates(where, tensors["data"], tensors["indices"])


def _attributes(scope: Scope, call: Call, op: Op) -> dict[str, Any]:
    wrong = attribute_problems(scope, call, op)
    given = {name: scope.constant(scope.argument(call, name)) for name in op.attributes if name not in wrong}
    return {name: value for name, value in given.items() if value is not None}


def _known(scope: Scope, value: Any, by_id: Mapping[str, Scope], feeding: Feeding) -> Known:
    if not isinstance(value, str) or value not in scope.ports:
        return _constant(value if not isinstance(value, str) else scope.constant(value), None)
    port = scope.ports[value]
    dtype, shape = dtype_declared(port), shape_declared(port)
    constant = port.default_value
    edges = feeding.get((scope.node.id, port.id), [])
    if edges:
        sender = by_id.get(edges[0].sender)
        output = sender.node.get_output_port(edges[0].sender_port) if sender is not None else None
        if len(edges) > 1 or edges[0].parameters or sender is None or output is None:
            return Known(dtype, shape)
        dtype = dtype if dtype is not None else dtype_declared(output)
        shape = shape if shape is not None else shape_declared(output)
        constant = sender.constant(output.value)
    found = _constant(literal(constant) if isinstance(constant, str) else constant, dtype)
    # What does not fit its own port is reported there.
    is_of_port = found.shape is not None and (shape is None or may_be_equal(found.shape, shape))
    return found if is_of_port else Known(dtype, shape)


def _constant(value: Any, dtype: np.dtype[Any] | None) -> Known:
    array = as_array(value)
    if array is None:
        return Known()
    if isinstance(value, (np.ndarray, np.generic)) and dtype is None:
        return Known(array.dtype, array.shape, array)
    if dtype is None or is_string(dtype) != is_string(array.dtype):
        return Known(None, array.shape, array)
    if is_string(dtype):
        return Known(dtype, array.shape, array)
    with np.errstate(all="ignore"):
        cast = array.astype(dtype)
    is_kept = dtype.kind not in "iu" or np.array_equal(cast, array)
    return Known(dtype, array.shape, cast if is_kept else None)


def _alike(tensors: Mapping[str, Known]) -> list[npt.NDArray[Any]]:
    """Give lists of numbers, which have no dtype of their own, that of the tensors they meet."""
    arrays = {name: tensor.value for name, tensor in tensors.items() if tensor.value is not None}
    free = [name for name in ("data", "updates") if name in arrays and tensors[name].dtype is None]
    others = [arrays[name] for name in ("data", "updates") if name in arrays and name not in free]
    numeric = all(array.dtype.kind in "biufc" for array in (arrays[name] for name in free))
    if free and numeric:
        dtype = others[0].dtype if others else np.result_type(*(arrays[name] for name in free))
        arrays |= {name: arrays[name].astype(dtype) for name in free}
    return list(arrays.values())


def _check_dtypes(op: str, tensors: Mapping[str, Known]) -> None:
    indices = tensors.get("indices", Known())
    dtype = indices.dtype if indices.dtype is not None or indices.value is None else indices.value.dtype
    is_empty = indices.value is not None and not indices.value.size
    if dtype is not None and not is_empty and dtype.kind not in "iu" and "int" not in name_of(dtype):
        raise OperatorError(
            op, f"indices has dtype {name_of(dtype)}; expected an integer dtype, such as int64"
        )
    data, updates = (tensors.get(name, Known()).dtype for name in ("data", "updates"))
    if data is None or updates is None or data == updates or (is_string(data) and is_string(updates)):
        return
    raise OperatorError(
        op,
        f"updates has dtype {name_of(updates)} and data has {name_of(data)};"
        " expected the same dtype: cast one of them first, with astype",
    )


def _check_scatter_nd(op: str, data: Known, indices: Known, updates: Known) -> None:
    if data.shape == ():
        raise OperatorError(op, "data is a scalar; expected rank 1 or more")
    if indices.shape == ():
        raise OperatorError(
            op, "indices is a scalar; expected rank 1 or more: the last axis holds one index, as in [[4]]"
        )
    if data.shape is None or indices.shape is None or indices.shape[-1] is None:
        return
    depth = indices.shape[-1]
    if depth > len(data.shape):
        raise OperatorError(
            op,
            f"indices has shape {shape_text(indices.shape)}, so that an index has {depth} numbers;"
            f" expected at most {len(data.shape)}, the rank of data",
        )
    batch, slice_ = indices.shape[:-1], data.shape[depth:]
    if updates.shape is not None and not may_be_equal(updates.shape, batch + slice_):
        raise OperatorError(
            op,
            f"updates has shape {shape_text(updates.shape)};"
            f" expected indices.shape[:-1] + data.shape[{depth}:]"
            f" = {shape_text(batch)} + {shape_text(slice_)} = {shape_text(batch + slice_)}",
        )
    sizes = [size for size in data.shape[:depth] if size is not None]
    if indices.value is not None and len(sizes) == depth:
        resolve_rows(op, indices.value, sizes)


def _check_duplicates(where: str, data: Known, indices: Known) -> Iterator[Finding]:
    if indices.value is None or not indices.value.ndim:
        return
    rows = indices.value.reshape(-1, indices.value.shape[-1]) if indices.value.size else indices.value[:0]
    if not rows.size or rows.dtype.kind not in "iu":
        return
    if data.shape is not None and rows.dtype.kind == "i":
        sizes = np.array([size or 0 for size in data.shape[: rows.shape[1]]], np.int64)
        rows = np.where(rows < 0, rows + sizes, rows)
    found, counts = np.unique(rows, axis=0, return_counts=True)
    repeated = np.flatnonzero(counts > 1)
    if repeated.size:
        row, count = found[repeated[0]].tolist(), counts[repeated[0]]
        name = row[0] if len(row) == 1 else tuple(row)
        yield warning(
            where,
            f"indices repeat (row {name} is written {count} times, the last one wins);"
            " if updates should accumulate set reduction: add",
        )
