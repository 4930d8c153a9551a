"""What is given to run a graph, checked against what the graph asks for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import onnx
from modeci_mdf.mdf import Graph

from mdf_scatter.dtypes import dtype_of, is_string, name_of, type_name, type_text
from mdf_scatter.errors import InputError, MissingInputError, did_you_mean, listed
from mdf_scatter.onnx_types import element_name, sizes_of
from mdf_scatter.structured import read_structured, structured_type
from mdf_scatter.wiring import GraphInput, declared_shape, graph_inputs, is_required


def checked_inputs(graph: Graph, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the given inputs as arrays, under the names of the graph's inputs; see `Inputs.checked`."""
    return Inputs(graph).checked(given)


def check_steps(steps: object) -> None:
    """Check how many steps a caller asks for.

    Raises:
        InputError: They are no whole number from 1 on.
    """
    if not isinstance(steps, Integral) or isinstance(steps, bool) or steps < 1:
        raise InputError(f"steps is {steps!r}; expected a whole number from 1 on")


class Inputs:
    """What a graph asks for, read once to check any number of calls.

    Args:
        graph: The graph. Later changes of it are not seen.
    """

    def __init__(self, graph: Graph) -> None:
        items = graph_inputs(graph)
        self._graph = graph.id
        self._asked = {item.name: _asked(item) for item in items}
        self._known = f"its inputs are {listed(self._asked)}" if items else "it has no inputs"
        self._names = {f"{item.node.id}.{item.port.id}": item.name for item in items} | {
            name: name for name in self._asked
        }
        self._required = [item.name for item in items if is_required(item)]

    def checked(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return the given inputs as arrays, under the names of the graph's inputs.

        What a port calls a sequence, an optional or a map is a list, None or the value, or a dict.

        Args:
            given: Arrays, or what becomes one, by input name or `node.port`.

        Raises:
            InputError: One is missing, unknown, given twice, or of the wrong dtype or shape; or what is
                given is no mapping.
        """
        asked = self._asked
        if not isinstance(given, Mapping):
            raise InputError(
                f"graph {self._graph!r}: inputs is of type {type(given).__name__};"
                f" expected a mapping of names to arrays; {self._known}"
            )
        found: dict[str, Any] = {}
        sizes: dict[str, tuple[int, str]] = {}
        for called, value in given.items():
            name = self._names.get(called)
            if name is None:
                hint = did_you_mean(str(called), asked)
                raise InputError(f"graph {self._graph!r} has no input {called!r}; {self._known}{hint}")
            if name in found:
                raise InputError(f"input {name!r} is given twice, also as {called!r}")
            found[name] = _checked(f"input {name!r}", asked[name], value, sizes)
        missing = {name: str(asked[name]) for name in self._required if name not in found}
        if missing:
            raise MissingInputError(self._graph, missing)
        return found


class _Tensor(NamedTuple):
    """What a tensor has to be.

    Attributes:
        type: Its type, as a port says it; None for any.
        dtype: Its dtype, where the type has one.
        shape: Its shape; None for any.
    """

    type: str | None
    dtype: np.dtype[Any] | None
    shape: Sequence[int | str | None] | None

    def __str__(self) -> str:
        if self.dtype is None:
            return "an array" if self.shape is None else f"an array of shape {tuple(self.shape)}"
        if self.shape is None:
            return f"{name_of(self.dtype)} of any shape"
        return type_text(self.type or "", self.shape)


class _Structured(NamedTuple):
    """What has to be a sequence, an optional or a map.

    Attributes:
        type: Its type, as a port says it.
        proto: That type as ONNX has it.
    """

    type: str
    proto: onnx.TypeProto

    def __str__(self) -> str:
        return self.type


def _asked(item: GraphInput) -> _Tensor | _Structured:
    proto = structured_type(item.port.type)
    if proto is not None:
        return _Structured(str(item.port.type), proto)
    return _tensor(item.port.type, declared_shape(item.port))


def _tensor(type_: str | None, shape: Sequence[int | str | None] | None) -> _Tensor:
    return _Tensor(type_, dtype_of(type_) if type_ else None, shape)


def types_of(
    items: Iterable[GraphInput], arrays: Mapping[str, Any], *, fixed_shapes: bool = False
) -> dict[str, tuple[np.dtype[Any], tuple[int, ...] | None]]:
    """Return dtype and shape of what is given for inputs, by name.

    Args:
        items: The inputs.
        arrays: By input name; what is missing, or no array, is passed over.
        fixed_shapes: Whether to give also the shapes that ports declare.
    """
    return {
        item.name: (array.dtype, array.shape if fixed_shapes or declared_shape(item.port) is None else None)
        for item in items
        if isinstance(array := arrays.get(item.name), np.ndarray)
    }


def leaves_open(item: GraphInput) -> bool:
    """Tell whether a graph input's port leaves its type, or the shape of its default, to what is given."""
    if structured_type(item.port.type) is not None:
        return False
    is_untyped = item.port.type is None or dtype_of(item.port.type) is None
    return is_untyped or (declared_shape(item.port) is None and not is_required(item))


def _checked(where: str, asked: _Tensor | _Structured, value: Any, sizes: dict[str, tuple[int, str]]) -> Any:
    if isinstance(asked, _Tensor):
        return _array(where, value, asked, sizes)

    def read_tensor(inside: str, part: Any, inner: onnx.TypeProto) -> npt.NDArray[Any]:
        name, shape = element_name(inner.tensor_type.elem_type), sizes_of(inner.tensor_type)
        return _array(inside, part, _tensor(name, shape), {})

    return read_structured(where, value, asked.proto, read_tensor)


def _array(
    where: str, value: npt.ArrayLike, asked: _Tensor, sizes: dict[str, tuple[int, str]]
) -> npt.NDArray[Any]:
    try:
        array = np.asarray(value)
    except (ValueError, TypeError) as error:
        raise InputError(f"{where} is not an array: {error}") from error
    if array.dtype.kind not in "biufcOTUV" or (array.dtype.kind == "O" and not _all_text(array)):
        raise InputError(f"{where} has dtype {array.dtype}; expected {asked}")
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    if asked.dtype is not None:
        array = _as_declared(where, asked, array, asked.dtype, isinstance(value, (np.ndarray, np.generic)))
    elif is_string(array.dtype):
        array = array.astype(object)
    if asked.shape is not None:
        _check_shape(where, asked, array.shape, asked.shape, sizes)
    return array


def _as_declared(
    where: str, asked: _Tensor, array: npt.NDArray[Any], dtype: np.dtype[Any], typed: bool
) -> npt.NDArray[Any]:
    if is_string(dtype) and is_string(array.dtype):
        return array.astype(object)
    if array.dtype == dtype:
        return array
    plain = not typed and not is_string(array.dtype) and not is_string(dtype)
    if plain and (array.size == 0 or _fits(array, dtype)):
        return array.astype(dtype)
    raise InputError(f"{where} has dtype {type_name(array.dtype)}; expected {asked}")


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
    asked: _Tensor,
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
        raise InputError(f"{where} has shape {found}; expected {asked}")


def _all_text(array: npt.NDArray[Any]) -> bool:
    return all(isinstance(text, str) for text in array.ravel())
