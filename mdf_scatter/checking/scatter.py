"""Calls of our operators: their tensors against each other, as far as a model says what they are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from mdf_scatter.checking.calls import attribute_problems, attribute_value, operator
from mdf_scatter.checking.finding import Finding, error, warning
from mdf_scatter.checking.lists import no_tensor, uneven
from mdf_scatter.checking.scope import Call, Feeding, Scope
from mdf_scatter.checking.tensors import (
    Shape,
    as_array,
    dtype_declared,
    may_be_equal,
    shape_declared,
    shape_text,
)
from mdf_scatter.dtypes import is_string, name_of, type_name
from mdf_scatter.errors import OperatorError
from mdf_scatter.expressions import literal
from mdf_scatter.ops import Op
from mdf_scatter.ops.arguments import resolve_rows
from mdf_scatter.ops.plain import alike, as_integers, fitted, of_one_dtype
from mdf_scatter.wiring import is_backward


@dataclass(frozen=True)
class Known:
    """What a model says of a tensor before it runs.

    Attributes:
        dtype: Its dtype; None where it is not said, or a plain number or list has that of what it meets.
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
        where = scope.where(call.id)
        if problems := list(_no_tensors(scope, call, op, feeding)):
            yield from (error(where, problem) for problem in problems)
            continue
        tensors = {name: _known(scope, scope.argument(call, name), by_id, feeding) for name in op.inputs}
        attributes = _attributes(scope, call, op)
        try:
            if all(tensor.value is not None for tensor in tensors.values()):
                with np.errstate(all="ignore"):
                    op.forward(*_values(op, tensors), **attributes)
            else:
                _check_dtypes(op, tensors)
                if op.name == "ScatterND":
                    _check_scatter_nd(op.name, **tensors)
        except OperatorError as problem:
            yield error(where, str(problem))
            continue
        reduction = attributes.get("reduction", "none" if scope.argument(call, "reduction") is None else None)
        is_overwriting = "reduction" in op.attributes and reduction == "none"
        # A backward pass finds out which of several updates is the last by writing their numbers so.
        if is_overwriting and not is_backward(scope.node):
            yield from _check_duplicates(where, op, tensors["data"], tensors["indices"], **attributes)


def _no_tensors(scope: Scope, call: Call, op: Op, feeding: Feeding) -> Iterator[str]:
    for name in op.inputs:
        value = scope.argument(call, name)
        port = scope.ports.get(value) if isinstance(value, str) else None
        if port is None:
            constant = scope.constant(value)
        elif dtype_declared(port) is None and (scope.node.id, port.id) not in feeding:
            constant = port.default_value
        else:
            continue
        problem = no_tensor(constant) if as_array(constant) is None else None
        # An uneven list is reported where it stands.
        is_reported = isinstance(value, str) and value in scope.parameters and uneven(constant) is not None
        if problem is not None and not is_reported:
            yield f"{op.name}: {name} {problem}; expected a tensor"


def _attributes(scope: Scope, call: Call, op: Op) -> dict[str, Any]:
    wrong = attribute_problems(scope, call, op)
    given = {name: attribute_value(scope, call, name) for name in op.attributes if name not in wrong}
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
    if found.dtype is None and found.value is not None and not isinstance(constant, (int, float)):
        # What goes through a port is an array, whose dtype is its own.
        found = replace(found, dtype=found.value.dtype)
    # What does not fit its own port is reported there.
    is_of_port = found.shape is not None and (shape is None or may_be_equal(found.shape, shape))
    is_of_port = is_of_port and (bool(edges) or dtype is None or found.dtype == dtype)
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
    if array.dtype.kind == "c" and dtype.kind != "c":
        return Known(dtype, array.shape)
    with np.errstate(all="ignore"):
        cast = array.astype(dtype)
    is_kept = dtype.kind not in "iu" or np.array_equal(cast, array)
    return Known(dtype, array.shape, cast if is_kept else None)


def _values(op: Op, tensors: Mapping[str, Known]) -> list[npt.NDArray[Any]]:
    """Return the inputs of a call that are all constant, with the dtypes that they have in a run."""
    arrays = {name: tensor.value for name, tensor in tensors.items() if tensor.value is not None}
    given = {name: arrays[name] for name in of_one_dtype(op) if name in arrays}
    arrays |= alike(given, [name for name in given if tensors[name].dtype is None])
    lists = [name for name in op.integers if name in arrays and tensors[name].dtype is None]
    arrays |= {name: as_integers(arrays[name]) for name in lists}
    return list(arrays.values())


def _check_dtypes(op: Op, tensors: Mapping[str, Known]) -> None:
    for name in op.integers:
        value, dtype = tensors[name].value, tensors[name].dtype
        dtype = value.dtype if value is not None and dtype is None else dtype
        is_empty = value is not None and not value.size
        if dtype is not None and not is_empty and dtype.kind not in "iu" and "int" not in name_of(dtype):
            raise OperatorError(
                op.name, f"{name} has dtype {type_name(dtype)}; expected an integer dtype, such as int64"
            )
    names = of_one_dtype(op)
    typed = [dtype for name in names if (dtype := tensors[name].dtype) is not None]
    dtypes = [tensors[name].dtype or _dtype_beside(tensors[name].value, typed) for name in names]
    first, *others = dtypes
    for name, dtype in zip(names[1:], others, strict=True):
        if first is None or dtype is None or first == dtype or (is_string(first) and is_string(dtype)):
            continue
        raise OperatorError(
            op.name,
            f"{name} has dtype {type_name(dtype)} and {names[0]} has {type_name(first)};"
            " expected the same dtype: cast one of them first, with astype",
        )


def _dtype_beside(value: npt.NDArray[Any] | None, typed: list[np.dtype[Any]]) -> np.dtype[Any] | None:
    """Return the dtype that a number or list gets beside tensors; None where that is not known."""
    return fitted(value, typed[0]).dtype if value is not None and typed else None


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


def _check_duplicates(
    where: str, op: Op, data: Known, indices: Known, axis: int = 0, **others: Any
) -> Iterator[Finding]:
    array = indices.value
    if array is None or not array.size or not array.ndim or array.dtype.kind not in "iu":
        return
    if op.name == "ScatterND":
        found, kind = _repeated_row(array, data.shape), "row"
    elif -array.ndim <= axis < array.ndim:
        found, kind = _repeated_element(array, data.shape, axis % array.ndim), "element"
    else:
        return
    if found is not None:
        place, count = found
        name = place[0] if len(place) == 1 else place
        yield warning(
            where,
            f"indices repeat ({kind} {name} is written {count} times, the last one wins);"
            " if updates should accumulate set reduction: add",
        )


def _repeated_row(indices: npt.NDArray[Any], shape: Shape | None) -> tuple[tuple[int, ...], int] | None:
    """Return what the last axis of indices holds more than once, and how often."""
    rows = indices.reshape(-1, indices.shape[-1])
    if shape is not None and rows.dtype.kind == "i":
        sizes = np.array([size or 0 for size in shape[: rows.shape[1]]], np.int64)
        rows = np.where(rows < 0, rows + sizes, rows)
    found, counts = np.unique(rows, axis=0, return_counts=True)
    repeated = np.flatnonzero(counts > 1)
    return (tuple(found[repeated[0]].tolist()), int(counts[repeated[0]])) if repeated.size else None


def _repeated_element(
    indices: npt.NDArray[Any], shape: Shape | None, axis: int
) -> tuple[tuple[int, ...], int] | None:
    """Return the place in data that indices along an axis name more than once, and how often."""
    if shape is not None and len(shape) == indices.ndim and indices.dtype.kind == "i":
        indices = np.where(indices < 0, indices + (shape[axis] or 0), indices)
    lanes = np.sort(np.moveaxis(indices, axis, -1))
    repeated = np.argwhere(lanes[..., 1:] == lanes[..., :-1])
    if not len(repeated):
        return None
    *lane, position = repeated[0].tolist()
    number = int(lanes[(*lane, position)])
    return (*lane[:axis], number, *lane[axis:]), int((lanes[tuple(lane)] == number).sum())
