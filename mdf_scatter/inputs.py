"""What is given to run a graph, checked against what the graph asks for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from modeci_mdf.mdf import Graph

from mdf_scatter.dtypes import dtype_of, is_string, name_of, type_text
from mdf_scatter.errors import InputError, did_you_mean, listed
from mdf_scatter.onnx_types import element_name, sizes_of
from mdf_scatter.structured import read_structured, structured_type
from mdf_scatter.wiring import GraphInput, declared_shape, graph_inputs, is_required


def checked_inputs(graph: Graph, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the given inputs as arrays, under the names of the graph's inputs.

    What a port calls a sequence, an optional or a map is a list, None or the value, or a dict.

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
    found: dict[str, Any] = {}
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
        asked = ", ".join(f"{item.name!r} ({_asked(item)})" for item in missing)
        raise InputError(f"graph {graph.id!r} needs {'inputs' if len(missing) > 1 else 'input'} {asked}")
    return found


def _checked(item: GraphInput, value: Any, sizes: dict[str, tuple[int, str]]) -> Any:
    where = f"input {item.name!r}"
    proto = structured_type(item.port.type)
    if proto is not None:

        def read_tensor(inside: str, part: Any, inner: onnx.TypeProto) -> npt.NDArray[Any]:
            name, shape = element_name(inner.tensor_type.elem_type), sizes_of(inner.tensor_type)
            return _tensor(inside, part, name, shape, {})

        return read_structured(where, value, proto, read_tensor)
    return _tensor(where, value, item.port.type, declared_shape(item.port), sizes)


def _tensor(
    where: str,
    value: npt.ArrayLike,
    type_: str | None,
    shape: Sequence[int | str | None] | None,
    sizes: dict[str, tuple[int, str]],
) -> npt.NDArray[Any]:
    dtype = dtype_of(type_) if type_ else None
    expected = _expected(type_, shape)
    try:
        array = np.asarray(value)
    except (ValueError, TypeError) as error:
        raise InputError(f"{where} is not an array: {error}") from error
    if array.dtype.kind not in "biufcOTUV" or (array.dtype.kind == "O" and not _all_text(array)):
        raise InputError(f"{where} has dtype {array.dtype}; expected {expected}")
    if dtype is not None:
        array = _as_declared(where, expected, array, dtype, isinstance(value, (np.ndarray, np.generic)))
    elif is_string(array.dtype):
        array = array.astype(object)
    if shape is not None:
        _check_shape(where, expected, array.shape, shape, sizes)
    return array.astype(array.dtype.newbyteorder("="), copy=False)


def _as_declared(
    where: str, expected: str, array: npt.NDArray[Any], dtype: np.dtype[Any], typed: bool
) -> npt.NDArray[Any]:
    if is_string(dtype) and is_string(array.dtype):
        return array.astype(object)
    if array.dtype == dtype:
        return array
    plain = not typed and not is_string(array.dtype) and not is_string(dtype)
    if plain and (array.size == 0 or _fits(array, dtype)):
        return array.astype(dtype)
    raise InputError(f"{where} has dtype {name_of(array.dtype)}; expected {expected}")


def _fits(array: npt.NDArray[Any], dtype: np.dtype[Any]) -> bool:
    """Tell whether plain Python numbers may become `dtype`: floats are rounded, nothing else is lost."""
    if dtype.kind == "b" or array.dtype.kind == "b":
        return array.dtype.kind == dtype.kind
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        return array.dtype.kind in "iu" and limits.min <= int(array.min()) and int(array.max()) <= limits.max
    return dtype.kind == "c" or array.dtype.kind != "c"


def _check_shape(
    where: str,
    expected: str,
    found: tuple[int, ...],
    declared: Sequence[int | str | None],
    sizes: dict[str, tuple[int, str]],
) -> None:
    fits = len(found) == len(declared)
    for axis, size in enumerate(declared if fits else ()):
        if isinstance(size, str) and size:
            known, first = sizes.setdefault(size, (found[axis], where))
            if known != found[axis]:
                raise InputError(
                    f"{where} has {size} = {found[axis]} (axis {axis}), but {first} has {size} = {known}"
                )
        elif isinstance(size, int):
            fits = fits and size == found[axis]
    if not fits:
        raise InputError(f"{where} has shape {found}; expected {expected}")


def _expected(type_: str | None, shape: Sequence[int | str | None] | None) -> str:
    dtype = dtype_of(type_) if type_ else None
    if dtype is None:
        return "an array" if shape is None else f"an array of shape {tuple(shape)}"
    return type_text(type_ or "", shape) if shape is not None else f"{name_of(dtype)} of any shape"


def _asked(item: GraphInput) -> str:
    if structured_type(item.port.type) is not None:
        return str(item.port.type)
    return _expected(item.port.type, declared_shape(item.port))


def _all_text(array: npt.NDArray[Any]) -> bool:
    return all(isinstance(text, str) for text in array.ravel())
