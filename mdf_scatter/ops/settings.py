"""What an operator or node is told beside its tensors: read, checked, and written in messages."""

from __future__ import annotations

import math
from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any, TypeGuard

import numpy as np

from mdf_scatter.errors import OperatorError, did_you_mean

WIDEST = 64
"""Bits of the widest integers that arrays hold."""

MOST_AXES = 64
"""Axes of an array at most: NumPy's limit."""

_LONG = 60
"""Characters of a value that are written in a message."""

_MANY = 8
"""Elements of an array that are written in a message."""

_OTHER_NAMES = {
    "sum": "add",
    "prod": "mul",
    "multiply": "mul",
    "amax": "max",
    "maximum": "max",
    "amin": "min",
    "minimum": "min",
    "update": "none",
    "assign": "none",
    "replace": "none",
    "overwrite": "none",
}
"""What other libraries call reductions."""


def described(value: object) -> str:
    """Write a value in a message: in one line, and what is long as what it is.

    >>> described("add"), described(np.ones((8, 4))), described(10**30)
    ("'add'", 'an array of shape (8, 4)', 'an integer of 100 bits')
    """
    if isinstance(value, np.ndarray) and value.size > _MANY:
        return f"an array of shape {value.shape}"
    if is_wide(value):
        return f"an integer of {value.bit_length()} bits"
    try:
        text = " ".join(repr(value).split())
    except ValueError:  # Python writes no integer of more than 4300 digits
        return f"a {type(value).__name__} of integers too long to write"
    return text if len(text) <= _LONG else f"{text[: _LONG - 3]}..."


def is_wide(value: object) -> TypeGuard[int]:
    """Tell whether a value is an integer that no dtype holds."""
    return isinstance(value, int) and value.bit_length() > WIDEST


def read_integer(op: str, name: str, value: Any) -> int:
    """Return an attribute that is an integer."""
    if not isinstance(value, Integral) or isinstance(value, bool):
        raise OperatorError(op, f"{name} is {described(value)}; expected an integer")
    return int(value)


def read_axis(op: str, value: Any, name: str, rank: int) -> int:
    """Return the attribute `axis`, counted from the start, of an argument `name` of some rank >= 1."""
    axis = read_integer(op, "axis", value)
    if not -rank <= axis < rank:
        raise OperatorError(op, f"axis is {axis}; expected {-rank}..{rank - 1}, as {name} has rank {rank}")
    return axis % rank


def meant(value: str, choices: Sequence[str]) -> str:
    """Hint at the choice that a text may have been meant for, also one that other libraries call so."""
    other = _OTHER_NAMES.get(value.lower())
    return f"; did you mean {other!r}?" if other in choices else did_you_mean(value, choices)


def is_flag(value: Any) -> bool:
    """Tell whether a value is true or false, or 1 or 0 as ONNX writes them."""
    return isinstance(value, (bool, np.bool_, int, np.integer)) and value in (0, 1)


def is_finite_number(value: object) -> TypeGuard[float]:
    """Tell whether a value is a real number that a float holds, and neither infinite nor NaN."""
    if not isinstance(value, Real) or isinstance(value, (bool, np.bool_)):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:  # an integer that is larger than any float
        return False


def check_training(op: str, value: Any) -> None:
    """Check that a node's `training` is true or false."""
    if not is_flag(value):
        raise OperatorError(op, f"training is {described(value)}; expected True or False")


def check_lda_coeff(op: str, value: Any) -> None:
    """Check that a node's `lda_coeff` is a finite number."""
    if not is_finite_number(value):
        raise OperatorError(op, f"lda_coeff is {described(value)}; expected a finite number")


def check_outputs_name(op: str, value: Any) -> None:
    """Check that a node's `specified_outputs_name` is None, or a list of one name."""
    if value is None:
        return
    is_list = isinstance(value, (list, tuple)) and len(value) == 1
    if not is_list or not isinstance(value[0], str) or not value[0]:
        raise OperatorError(
            op, f"specified_outputs_name is {described(value)}; expected one name, for the one output"
        )
