"""Arrays in expressions that would fill the memory: `numpy.ones(10**12)`."""

from __future__ import annotations

import ast
import math
from collections.abc import Sequence

from mdf_scatter.vocabulary import called

MAX_ELEMENTS = 2**28
"""How many elements an array may have whose size an expression writes out."""

_BITS = 64
_MOST = 2.0**_BITS
_SHAPED = ("zeros", "ones", "full")


def huge_array(tree: ast.expr) -> ast.expr | None:
    """Return a call that makes more than `MAX_ELEMENTS` elements, or None.

    A call whose sizes are computed cannot be judged.

    >>> huge_array(ast.parse("numpy.zeros(n) + numpy.arange(0, 1, 0.1)", mode="eval").body)
    >>> ast.unparse(huge_array(ast.parse("1 + numpy.ones((10, 10**9))", mode="eval").body))
    'numpy.ones((10, 10 ** 9))'
    """
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and (call := called(node)) is not None:
            sizes = [[_number(part) for part in _items(operand)] for operand in call.operands]
            if elements(call.name, sizes) > MAX_ELEMENTS:
                return node
    return None


def elements(name: str, operands: Sequence[Sequence[float | None]]) -> float:
    """Return how many elements a function makes, or how many times as many as it is given.

    Args:
        name: The function.
        operands: The numbers in each argument; None for those that are not known.
    """
    match name, operands:
        case _, [sizes, *_] if name in _SHAPED:
            return _product(sizes)
        case (("tile" | "repeat"), [_, sizes]):
            return _product(sizes)
        case "eye", [[rows], columns]:
            return _product([rows, *(columns or [rows])])
        case "identity", [[rows]]:
            return _product([rows, rows])
        case "linspace", [_, _, sizes]:
            return _product(sizes)
        case "arange", [[start], [], []]:
            return start or 0
        case "arange", [[start], [stop], step]:
            known = None not in (start, stop, *step)
            return (stop - start) / (step or [1])[0] if known and step != [0] else 0  # type: ignore[operator]
    return 0


def _items(operand: ast.expr | None) -> list[ast.expr]:
    if operand is None:
        return []
    return operand.elts if isinstance(operand, (ast.List, ast.Tuple)) else [operand]


def _number(part: ast.expr) -> float | None:
    match part:
        case ast.Constant(value=int(value) | float(value)):
            return max(-_MOST, min(value, _MOST))
        case ast.UnaryOp(op=ast.USub(), operand=operand) if (size := _number(operand)) is not None:
            return -size
        case ast.BinOp(left=left, op=ast.Pow(), right=right):
            base, exponent = _number(left), _number(right)
            if base is not None and exponent is not None and base > 0:
                return math.exp2(min(exponent * math.log2(base), _BITS))
    return None


def _product(sizes: Sequence[float | None]) -> float:
    return math.prod(size for size in sizes if size is not None)
