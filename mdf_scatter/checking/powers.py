"""Powers in expressions that would compute for hours: `9**9**9`."""

from __future__ import annotations

import ast

MAX_BITS = 2**20
"""Length of the longest integer that an expression may compute."""

_VARIABLE = 64
"""What the value of a name is taken to be at most: an int64."""

_FLOAT = 1024
"""Length of the largest float64, cut to an integer."""

_TO_INTEGER = ("int", "round", "floor", "ceil", "trunc")
_KEEP = ("abs", "fabs", "max", "min", "sum")


def huge_power(tree: ast.expr) -> ast.expr | None:
    """Return a power of integers that may be longer than `MAX_BITS`, or None.

    Python's integers grow without bound, where NumPy's wrap around and floats overflow. A power whose
    exponent is a variable cannot be judged.

    >>> huge_power(ast.parse("x**2 + 2**-y + 10**100", mode="eval").body)
    >>> ast.unparse(huge_power(ast.parse("1 + 9**9**9", mode="eval").body))
    '9 ** 9 ** 9'
    """
    powers = [node for node in ast.walk(tree) if _operands(node) is not None]
    return next((node for node in powers if isinstance(node, ast.expr) and _bits(node) > MAX_BITS), None)


def _operands(node: ast.AST) -> tuple[ast.expr, ast.expr] | None:
    match node:
        case ast.BinOp(left=base, op=ast.Pow(), right=exponent):
            return base, exponent
        case ast.Call(func=ast.Name(id="pow"), args=[base, exponent]):
            return base, exponent
    return None


def _bits(node: ast.expr) -> float:
    """Bound the length of the Python integer that an expression may give; 0 for floats."""
    if (operands := _operands(node)) is not None:
        base, exponent = operands
        return 0 if _has_name(exponent) else _bits(base) * 2.0 ** min(_bits(exponent), _FLOAT - 1)
    match node:
        case ast.Name():
            return _VARIABLE
        case ast.Constant(value=int(value)):
            return value.bit_length()
        case ast.UnaryOp(operand=part) | ast.Subscript(value=part):
            return _bits(part)
        case ast.BinOp(left=left, op=op, right=right):
            return 0 if isinstance(op, ast.Div) else _bits(left) + _bits(right) + 1
        case ast.IfExp(body=body, orelse=orelse):
            return max(_bits(body), _bits(orelse))
        case ast.BoolOp(values=parts) | ast.List(elts=parts) | ast.Tuple(elts=parts):
            return max(map(_bits, parts), default=0)
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name), args=[*parts]) if name in _KEEP:
            return sum(map(_bits, parts))
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name), args=[part]) if name in _TO_INTEGER:
            return _cut(part)
    return 0


def _cut(part: ast.expr) -> float:
    match part:
        case ast.Constant(value=float(value)) if abs(value) < 2.0**_VARIABLE:
            return int(abs(value)).bit_length()
    return _bits(part) or _FLOAT


def _has_name(node: ast.expr) -> bool:
    called = {part.func for part in ast.walk(node) if isinstance(part, ast.Call)}
    modules = {part.value for part in ast.walk(node) if isinstance(part, ast.Attribute)}
    return any(isinstance(p, ast.Name) and p not in called and p not in modules for p in ast.walk(node))
