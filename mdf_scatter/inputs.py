"""What is given to run a graph, checked against what the graph asks for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from modeci_mdf.mdf import Graph

from mdf_scatter.dtypes import dtype_of, is_string, name_of, type_text
from mdf_scatter.errors import InputError, did_you_mean, listed
from mdf_scatter.wiring import GraphInput, declared_shape, graph_inputs, is_required


def checked_inputs(graph: Graph, given: Mapping[str, npt.ArrayLike]) -> dict[str, npt.NDArray[Any]]:
    """Return the given inputs as arrays, under the names of the graph's inputs.

    Args:
        graph: The graph.
        given: Arrays, or what becomes one, by input name or `node.port`.

    Raises:
        InputError: One is missing, unknown, given twice, or of the wrong dtype or shape.
    """
    inputs = {item.name: item for item in graph_inputs(graph)}
    names = {f"{item.node.id}.{item.port.id}": name for name, item in inputs.items()} | {
        name: name for name in inputs
    }
    found: dict[str, npt.NDArray[Any]] = {}
    sizes: dict[str, tuple[int, str]] = {}
    for called, value in given.items():
        name = names.get(called)
        if name is None:
            known = f"its inputs are {listed(inputs)}" if inputs else "it has no inputs"
            raise InputError(
                f"graph {graph.id!r} has no input {called!r}; {known}{did_you_mean(str(called), inputs)}"
            )
        if name in found:
            raise InputError(f"input {name!r} is given twice, also as {called!r}")
        found[name] = _checked(inputs[name], value, sizes)
    missing = [item for name, item in inputs.items() if name not in found and is_required(item)]
    if missing:
        asked = ", ".join(f"{item.name!r} ({_expected(item)})" for item in missing)
        raise InputError(f"graph {graph.id!r} needs {'inputs' if len(missing) > 1 else 'input'} {asked}")
    return found


def _checked(item: GraphInput, value: npt.ArrayLike, sizes: dict[str, tuple[int, str]]) -> npt.NDArray[Any]:
    dtype = dtype_of(item.port.type) if item.port.type else None
    try:
        array = np.asarray(value)
    except (ValueError, TypeError) as error:
        raise InputError(f"input {item.name!r} is not an array: {error}") from error
    if array.dtype.kind not in "biufcOTUV" or (array.dtype.kind == "O" and not _all_text(array)):
        raise InputError(f"input {item.name!r} has dtype {array.dtype}; expected {_expected(item)}")
    if dtype is not None:
        array = _as_declared(item, array, dtype, isinstance(value, (np.ndarray, np.generic)))
    elif is_string(array.dtype):
        array = array.astype(object)
    shape = declared_shape(item.port)
    if shape is not None:
        _check_shape(item, array.shape, shape, sizes)
    return array.astype(array.dtype.newbyteorder("="), copy=False)


def _as_declared(
    item: GraphInput, array: npt.NDArray[Any], dtype: np.dtype[Any], typed: bool
) -> npt.NDArray[Any]:
    if is_string(dtype) and is_string(array.dtype):
        return array.astype(object)
    if array.dtype == dtype:
        return array
    plain = not typed and not is_string(array.dtype) and not is_string(dtype)
    if plain and (array.size == 0 or _fits(array, dtype)):
        return array.astype(dtype)
    raise InputError(f"input {item.name!r} has dtype {name_of(array.dtype)}; expected {_expected(item)}")


def _fits(array: npt.NDArray[Any], dtype: np.dtype[Any]) -> bool:
    """Tell whether plain Python numbers may become `dtype`: floats are rounded, nothing else is lost."""
    if dtype.kind == "b" or array.dtype.kind == "b":
        return array.dtype.kind == dtype.kind
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        return array.dtype.kind in "iu" and limits.min <= int(array.min()) and int(array.max()) <= limits.max
    return dtype.kind == "c" or array.dtype.kind != "c"


def _check_shape(
    item: GraphInput,
    found: tuple[int, ...],
    declared: Sequence[int | str | None],
    sizes: dict[str, tuple[int, str]],
) -> None:
    fits = len(found) == len(declared)
    for axis, size in enumerate(declared if fits else ()):
        if isinstance(size, str) and size:
            known, first = sizes.setdefault(size, (found[axis], item.name))
            if known != found[axis]:
                raise InputError(
                    f"input {item.name!r} has {size} = {found[axis]} (axis {axis}), but input {first!r} has "
                    f"{size} = {known}"
                )
        elif isinstance(size, int):
            fits = fits and size == found[axis]
    if not fits:
        raise InputError(f"input {item.name!r} has shape {found}; expected {_expected(item)}")


def _expected(item: GraphInput) -> str:
    shape = declared_shape(item.port)
    dtype = dtype_of(item.port.type) if item.port.type else None
    if dtype is None:
        return "an array" if shape is None else f"an array of shape {tuple(shape)}"
    return type_text(item.port.type or "", shape) if shape is not None else f"{name_of(dtype)} of any shape"


def _all_text(array: npt.NDArray[Any]) -> bool:
    return all(isinstance(text, str) for text in array.ravel())
