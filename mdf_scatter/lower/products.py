"""NumPy's products in expressions: dot, inner and outer."""

from __future__ import annotations

import operator
from collections.abc import Callable

import numpy as np

from mdf_scatter.errors import UnsupportedError
from mdf_scatter.lower.arithmetic import Arithmetic, rank_of, scale
from mdf_scatter.lower.builder import Operand
from mdf_scatter.lower.making import strong
from mdf_scatter.lower.shaping import expanded, raveled, swapped


def dot(a: Arithmetic, left: Operand, right: Operand) -> Operand:
    """Return `numpy.dot`."""
    if 0 in (rank_of(a, left), rank_of(a, right)):
        return scale(a, strong(a, left), strong(a, right))
    if rank_of(a, right) > 2:
        raise UnsupportedError(f"{a.name}: numpy.dot with an array of rank above 2 has no form in ONNX")
    return a.python(operator.matmul, np.matmul, "MatMul", left, right)


def inner(a: Arithmetic, left: Operand, right: Operand) -> Operand:
    """Return `numpy.inner`: of the last axes of both."""
    is_number = 0 in (rank_of(a, left), rank_of(a, right))
    return dot(a, left, right if is_number or rank_of(a, right) == 1 else swapped(a, right, -1, -2))


def outer(a: Arithmetic, left: Operand, right: Operand) -> Operand:
    """Return `numpy.outer`: of all elements of both."""
    column = expanded(a, raveled(a, strong(a, left)), 1)
    return scale(a, column, raveled(a, strong(a, right)))


PRODUCTS: dict[str, Callable[..., Operand]] = {"dot": dot, "inner": inner, "outer": outer}
"""Functions of two arrays, by what they are: see `vocabulary.FUNCTIONS`."""
