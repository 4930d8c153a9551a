"""From what a caller gave to what a kernel needs: reading and checking an operator's arguments.

Every check here raises OperatorError, and none writes to what it is given.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from numbers import Integral
from typing import Any

import numpy as np
import numpy.typing as npt

from mdf_scatter.dtypes import NARROW, STANDARD, is_string, name_of, type_name
from mdf_scatter.errors import OperatorError, listed
from mdf_scatter.kernels import REDUCTIONS, WIDE_REDUCTIONS
from mdf_scatter.kernels.indices import number_rows
from mdf_scatter.ops.settings import WIDEST, described, is_wide, meant

Array = npt.NDArray[Any]

KNOWN = STANDARD + NARROW

NARROW_INTEGERS = ("int4", "uint4", "int2", "uint2")
"""Integer types that NumPy does not itself count as such."""


def read_array(op: str, name: str, value: Any) -> Array:
    """Return `value` as a plain array in native byte order, without a copy where it is one already."""
    if isinstance(value, np.ma.MaskedArray):
        raise OperatorError(
            op,
            f"{name} is a masked array, and {op} has no masked elements;"
            f" fill them first: {name}.filled(value)",
        )
    try:
        array = np.asarray(value)
    except (TypeError, ValueError, OverflowError, RuntimeError) as error:
        cause = " ".join(str(error).split())
        raise OperatorError(
            op, f"{name} is a {type(value).__name__} that cannot be read as an array: {cause}"
        ) from error
    if array.dtype.kind == "O" and not array.ndim and array is not value and not is_wide(value):
        # NumPy puts what it does not know into an array of objects, as a whole.
        what = "None" if value is None else f"a {type(value).__name__}"
        raise OperatorError(op, f"{name} is {what}; expected an array or a list")
    return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))


def read_gathered(op: str, value: Any) -> Array:
    """Return `value` as the array `data` of an operator that only moves what is there."""
    data = read_array(op, "data", value)
    check_dtype(op, "data", data)
    if data.dtype.kind in "OT":
        read_text(op, "data", data)  # objects, and StringDType's missing values, may be no strings
    return data


def read_indices(op: str, value: Any, argument: str = "indices") -> Array:
    """Return `value` as an array of integers; an empty list, which tells no dtype, is int64."""
    indices = read_array(op, argument, value)
    if isinstance(value, (list, tuple)) and not indices.size:
        return indices.astype(np.int64)
    if indices.dtype.kind not in "iu":
        name = type_name(indices.dtype)
        if name in NARROW_INTEGERS:
            return indices.astype(np.int64)
        if indices.dtype.kind == "O":
            _check_integers(op, argument, indices)
            name = "object"
        raise OperatorError(op, f"{argument} has dtype {name}; expected an integer dtype, such as int64")
    return indices


def _check_integers(op: str, argument: str, objects: Array) -> None:
    """Name the first object that is no integer, or one too wide for any dtype."""
    for place, value in np.ndenumerate(objects):
        where = f"{argument}{list(place)}" if place else argument
        if is_wide(value):
            raise OperatorError(op, f"{where} is {described(value)}; expected {WIDEST} or fewer")
        if not isinstance(value, Integral):
            raise OperatorError(op, f"{where} is {described(value)}; expected an integer")


def read_like(op: str, name: str, value: Any, like: str, other: Array) -> Array:
    """Return `value` as an array of the dtype of `other`, an argument named `like`.

    Strings of all kinds count as one dtype. An empty list tells no dtype and takes the other's.
    """
    array = read_array(op, name, value)
    if isinstance(value, (list, tuple)) and not array.size:
        return array.astype(other.dtype)
    if array.dtype != other.dtype and not (is_string(array.dtype) and is_string(other.dtype)):
        for argument, found in ((like, other), (name, array)):
            if found.dtype.kind == "O":
                read_text(op, argument, found)  # objects may be no strings, and that is what is wrong then
        raise OperatorError(
            op,
            f"{name} has dtype {type_name(array.dtype)} and {like} has {type_name(other.dtype)};"
            f" expected the same dtype{_how_to_cast(name, value, array, other)}",
        )
    return array


def _how_to_cast(name: str, value: Any, array: Array, other: Array) -> str:
    if isinstance(value, (np.ndarray, np.generic)):
        return ": cast one of them first, with astype"
    if is_string(array.dtype) or is_string(other.dtype):
        return ""
    return f": give numpy.asarray({name}, {name_of(other.dtype)!r})"


def check_choice(op: str, name: str, value: Any, choices: Sequence[str]) -> None:
    """Check that an attribute is one of the texts it may be."""
    if not isinstance(value, str):
        kind = type(value).__name__
        raise OperatorError(op, f"{name} is of type {kind}; expected the text {listed(choices)}")
    if value not in choices:
        raise OperatorError(
            op, f"{name} is {described(str(value))}; expected {listed(choices)}{meant(value, choices)}"
        )


def check_dtype(op: str, name: str, array: Array, known: Sequence[str] = KNOWN) -> None:
    """Check that the dtype of an array is a known one; strings of all kinds are `string`."""
    if _type_name(array) not in known:
        raise OperatorError(op, f"{name} has dtype {_type_name(array)}; expected {listed(known)}")


def _type_name(array: Array) -> str:
    return _cached_name(array.dtype)


_cached_name = cache(type_name)  # NumPy makes the name anew each time, which takes as long as a small call


def check_reduction(op: str, reduction: Any, data: Array, choices: Sequence[str] = REDUCTIONS) -> None:
    """Check that `reduction` is one there is, and one that the dtype of `data` has."""
    if isinstance(reduction, str) and reduction in WIDE_REDUCTIONS and reduction not in choices:
        node = f"the node {op}(reduction={reduction!r}) has it"
        raise OperatorError(op, f"reduction is {reduction!r}; expected {listed(choices)}; {node}")
    check_choice(op, "reduction", reduction, choices)
    own = _type_name(data)
    if own not in NARROW:
        check_dtype(op, "data", data, KNOWN if reduction == "none" else STANDARD)
    reason, lacking = "", tuple[str, ...]()
    if own in NARROW:
        reason, lacking = "it is a type without arithmetic", WIDE_REDUCTIONS[1:]
    elif own == "string":
        reason, lacking = "strings have no product", ("mul", "mean")
    elif data.dtype.kind == "c":
        reason, lacking = "complex numbers have no order", ("max", "min")
    if reduction in lacking:
        left = [name for name in choices if name not in lacking]
        raise OperatorError(
            op, f"reduction is {reduction!r} and data has dtype {own}, but {reason}; expected {listed(left)}"
        )


def check_out(op: str, out: Any, data: Array) -> None:
    """Check that `out` can take a result of the shape and dtype of `data`.

    For strings any width will do here: what fits is known when the result is.
    """
    if not isinstance(out, np.ndarray) or isinstance(out, np.ma.MaskedArray):
        raise OperatorError(op, f"out is a {type(out).__name__}; expected a NumPy array")
    if out.shape != data.shape:
        raise OperatorError(op, f"out has shape {out.shape}; expected {data.shape}, the shape of data")
    is_same_text = out.dtype.kind == data.dtype.kind and is_string(data.dtype) and out.dtype.isnative
    if out.dtype != data.dtype and not is_same_text:
        own, wanted = name_of(out.dtype), name_of(data.dtype)
        swapped = "" if out.dtype.isnative else " in the byte order of another machine"
        raise OperatorError(op, f"out has dtype {own}{swapped}; expected {wanted}, the dtype of data")
    if not out.flags.writeable:
        raise OperatorError(op, "out is read-only; expected an array that can be written")


def resolve_rows(
    op: str,
    indices: Array,
    sizes: Sequence[int],
    *,
    name: str = "indices",
    of: str = "data",
    first_axis: int = 0,
    share: bool = False,
) -> npt.NDArray[np.int64]:
    """Turn multi-dimensional indices into numbers of rows, counting in row-major order.

    Args:
        op: Name of the operator, for messages.
        indices: int[..., k], each value j of a k-tuple in -sizes[j]..sizes[j]-1.
        sizes: The k sizes of the indexed axes.
        name: What the operator calls `indices`, for messages.
        of: What it calls the indexed array.
        first_axis: The axis of it that sizes[0] is the size of.
        share: Whether the result may be `indices` itself, seen as (N,).

    Returns:
        One row number in 0..prod(sizes)-1 for each k-tuple, (N,); a new array, if not to be shared.
    """
    numbered = number_rows(indices, tuple(sizes))
    if numbered is not None:
        return numbered if share or not np.may_share_memory(numbered, indices) else numbered.copy()
    if share and len(sizes) == 1 and _are_rows(indices, sizes[0]):
        return indices.reshape(-1)
    rows = np.zeros(math.prod(indices.shape[:-1]), np.int64)
    if not rows.size:
        return rows
    for axis, size in enumerate(sizes):
        numbers = _from_start(indices[..., axis], size)
        if numbers is None:
            is_outside = [_is_outside(indices[..., axis], size) for axis, size in enumerate(sizes)]
            place = _first_place(np.stack(is_outside, axis=-1))
            axis = place[-1]
            raise OperatorError(op, _out_of_range(name, indices, place, of, first_axis + axis, sizes[axis]))
        if axis == 0:
            rows = numbers.reshape(-1)
        else:
            rows *= size
            rows += numbers.reshape(-1)
    return rows


def resolve_axis(op: str, indices: Array, size: int, axis: int) -> npt.NDArray[np.int64]:
    """Return indices into one axis of `data`, counted from its start, as a new array."""
    if not indices.size:
        return np.zeros(indices.shape, np.int64)
    numbers = _from_start(indices, size)
    if numbers is None:
        place = _first_place(_is_outside(indices, size))
        raise OperatorError(op, _out_of_range("indices", indices, place, "data", axis, size))
    return numbers


def _are_rows(indices: Array, size: int) -> bool:
    """Tell whether indices are numbers of rows as they are: new arrays cost more than all else here."""
    is_plain = indices.dtype == np.int64 and indices.dtype.isnative and indices.flags.c_contiguous
    return is_plain and indices.size > 0 and _count_from_start(indices, size)


def _from_start(indices: Array, size: int) -> npt.NDArray[np.int64] | None:
    """Return indices with the negative ones counted from the end; None where one is out of range."""
    numbers = indices.astype(np.int64, order="C")
    if _count_from_start(numbers, size):
        return numbers
    # Compared as they were given: as int64, a uint64 above 2**63 is a negative index.
    if indices.min() < -size or indices.max() >= size:
        return None
    numbers += (numbers >> 63) & size  # of a negative number all bits are 1 there, and none of another
    return numbers


def _count_from_start(numbers: npt.NDArray[np.int64], size: int) -> bool:
    # One look at all is enough: without a sign, negative numbers are greater than any size.
    return bool(numbers.view(np.uint64).max() < size)


def _is_outside(indices: Array, size: int) -> npt.NDArray[np.bool]:
    outside: npt.NDArray[np.bool] = (indices < -size) | (indices >= size)
    return outside


def _first_place(is_wrong: npt.NDArray[np.bool]) -> tuple[int, ...]:
    return tuple(int(number) for number in np.unravel_index(np.argmax(is_wrong), is_wrong.shape))


def _out_of_range(name: str, indices: Array, place: tuple[int, ...], of: str, axis: int, size: int) -> str:
    found = f"{name}{list(place)} is {indices[place]}"
    if size == 0:
        return f"{found}, but axis {axis} of {of} has size 0: no index into it is valid"
    return f"{found}; expected {-size}..{size - 1} (axis {axis} of {of})"


def read_text(op: str, name: str, array: Array) -> Array:
    """Return an array of strings of any kind as a new array of `str` objects."""
    text = np.array(array, dtype=object, order="C")
    foreign = [place for place, value in enumerate(text.flat) if not isinstance(value, str)]
    if not foreign:
        return text
    # NumPy makes objects of numbers among which one is too wide for its integers.
    wide = next((place for place in foreign if is_wide(text.flat[place])), None)
    place = foreign[0] if wide is None else wide
    value = text.flat[place]
    numbers = [int(number) for number in np.unravel_index(place, text.shape)]
    where = f"{name}{numbers}" if numbers else name
    if wide is not None:
        raise OperatorError(op, f"{where} is {described(value)}; expected {WIDEST} or fewer")
    raise OperatorError(
        op,
        f"{where} is of type {type(value).__name__}; expected str, all that an array of strings may hold",
    )


def write_text(op: str, text: Array, data: Array, out: Array | None) -> Array:
    """Write an array of `str` objects as the kind of strings that `data` holds, into `out` if given.

    A new fixed-width array is as wide as its widest string and `data` need; nothing is cut off.
    """
    dtype = data.dtype if out is None else out.dtype
    if dtype.kind == "U":
        width = max(map(len, text.flat), default=0)
        if out is None:
            dtype = np.dtype(f"U{max(width, dtype.itemsize // 4, 1)}")
        elif width > dtype.itemsize // 4:
            raise OperatorError(
                op, f"out has dtype {name_of(dtype)}; expected U{width} or wider for the result"
            )
        if any(value.endswith("\0") for value in text.flat):
            raise OperatorError(
                op, "a string of the result ends in a NUL, which a fixed-width array drops; use objects"
            )
    try:
        written = text.astype(dtype, copy=False)
    except UnicodeEncodeError as error:
        raise OperatorError(
            op, "a string of the result has a lone surrogate, which StringDType cannot hold; use objects"
        ) from error
    if out is None:
        return written
    np.copyto(out, written)
    return out
