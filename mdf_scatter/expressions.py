"""Expressions of MDF files, read as syntax trees and never evaluated as text.

modeci-mdf hands every text of a model to Python's `eval`. Only what `parse` accepts may get that far:
arithmetic on names, and calls of functions that are listed here.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Iterator
from types import MappingProxyType
from typing import Any

from mdf_scatter.checking.powers import huge_power
from mdf_scatter.errors import ModelError, did_you_mean

MAX_LENGTH = 20_000
MAX_DEPTH = 200

_MANY = 255
_UNARY = (
    "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sqrt", "square",
    "sin", "cos", "tan", "arcsin", "arccos", "arctan",
    "sinh", "cosh", "tanh", "arcsinh", "arccosh", "arctanh",
    "abs", "sign", "floor", "ceil", "trunc", "isnan", "isinf", "logical_not", "zeros_like", "ones_like",
)  # fmt: skip
_BINARY = ("maximum", "minimum", "power", "heaviside", "logical_and", "logical_or", "dot", "matmul")
_REDUCTIONS = ("sum", "mean", "prod", "max", "min")
_BARE = ("exp", "sin", "cos", "tan", "sinh", "cosh", "tanh", "arcsin", "arccos", "arctan", "maximum")

_ARITY = MappingProxyType(
    dict.fromkeys(_UNARY, (1, 1))
    | dict.fromkeys(_BINARY, (2, 2))
    | dict.fromkeys(_REDUCTIONS, (1, 2))
    | {"round": (1, 2), "transpose": (1, 2), "where": (3, 3), "clip": (3, 3), "array": (1, 1)}
    | dict.fromkeys(
        ("builtins.len", "builtins.int", "builtins.float", "builtins.sum", "builtins.round"), (1, 1)
    )
    | dict.fromkeys(("builtins.max", "builtins.min"), (1, _MANY))
    | dict.fromkeys(("math.floor", "math.ceil", "math.trunc"), (1, 1))
)
"""How many arguments a function takes; a ufunc's next one would be an array that it writes into."""

FUNCTIONS = MappingProxyType(
    {f"numpy.{name}": name for name in _ARITY if "." not in name}
    | {"numpy.absolute": "abs"}
    | {name: name for name in _BARE}
    | {f"math.{name}": name for name in ("exp", "expm1", "log", "log2", "log10", "log1p", "sqrt")}
    | {f"math.{name}": name for name in ("sin", "cos", "tan", "sinh", "cosh", "tanh", "isnan", "isinf")}
    | {f"math.{name}": f"arc{name[1:]}" for name in ("asin", "acos", "atan", "asinh", "acosh", "atanh")}
    | {"math.fabs": "abs", "math.pow": "power", "math.prod": "prod"}
    | {f"math.{name}": f"math.{name}" for name in ("floor", "ceil", "trunc")}
    | {name: f"builtins.{name}" for name in ("max", "min", "sum", "len", "int", "float", "round")}
    | {"abs": "abs", "pow": "power"}
)
"""Functions that an expression may call, as it writes them, to what they are: NumPy's name where the
meaning is NumPy's, a dotted name where it is Python's own (`math.floor` and `round` give integers,
`max` takes any number of values)."""

CONSTANTS = MappingProxyType(
    {
        f"{module}.{name}": getattr(math, name)
        for module in ("numpy", "math")
        for name in ("pi", "e", "inf", "nan")
    }
    | {"math.tau": math.tau}
)
"""Attributes that stand for a number."""

KEYWORDS = MappingProxyType(dict.fromkeys(_REDUCTIONS, ("axis", "keepdims")))
"""Keyword arguments that a function (by what it is) may be given, with literal values."""

EXPECTED = "arithmetic on known names, numpy.* functions such as numpy.exp"

_ALLOWED = frozenset(
    {
        ast.Name, ast.Load, ast.Constant, ast.List, ast.Tuple, ast.Subscript, ast.Slice, ast.IfExp,
        ast.BinOp, ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod, ast.Pow, ast.MatMult,
        ast.UnaryOp, ast.UAdd, ast.USub, ast.Not, ast.BoolOp, ast.And, ast.Or,
        ast.Compare, ast.Eq, ast.NotEq, ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.Call, ast.Attribute,
    }
)  # fmt: skip
_REFUSED: dict[type[ast.AST], str] = {
    ast.LShift: "uses the operator <<", ast.RShift: "uses the operator >>", ast.Invert: "uses the operator ~",
    ast.BitOr: "uses the operator |", ast.BitXor: "uses the operator ^", ast.BitAnd: "uses the operator &",
    ast.Is: "uses the operator is", ast.IsNot: "uses the operator is not",
    ast.In: "uses the operator in", ast.NotIn: "uses the operator not in",
    ast.Lambda: "holds a lambda", ast.Dict: "holds a dict", ast.Set: "holds a set",
    ast.JoinedStr: "holds an f-string", ast.ListComp: "holds a comprehension",
    ast.SetComp: "holds a comprehension", ast.DictComp: "holds a comprehension",
    ast.GeneratorExp: "holds a comprehension", ast.NamedExpr: "holds an assignment",
    ast.Await: "holds an await", ast.Yield: "holds a yield", ast.YieldFrom: "holds a yield",
    ast.Starred: "holds a starred part",
}  # fmt: skip


class ExpressionError(ModelError):
    """A text in a model is more than arithmetic on names.

    Attributes:
        text: The text.
        problem: What in it is refused, without the text.
        hint: What may have been meant, as `did_you_mean` writes it.
    """

    def __init__(self, text: str, problem: str, hint: str = "") -> None:
        super().__init__(text, problem, hint)
        self.text = text
        self.problem = problem
        self.hint = hint

    def __str__(self) -> str:
        return f'expression "{shorten(self.text)}" {self.problem}; expected {EXPECTED}{self.hint}'


def shorten(text: str, limit: int = 60) -> str:
    """Write a text in one printable line of at most `limit` characters.

    >>> shorten("a   +   b"), shorten("x" * 20, limit=10)
    ('a + b', 'xxxxxxx...')
    """
    line = " ".join(text[: 4 * limit].split())
    line = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in line)
    return line if len(line) <= limit else line[: limit - 3] + "..."


def parse(text: str) -> ast.expr:
    """Read an expression, and refuse everything that is not listed as allowed.

    Allowed are numbers, names, arithmetic, comparisons, `and`, `or`, `not`, `x if c else y`, lists,
    tuples, subscripts, and calls of `FUNCTIONS`. The tree is at most `MAX_DEPTH` deep, so that it can
    be read by recursion.

    Args:
        text: The expression; space around it does not count.

    Raises:
        ExpressionError: The text is not such an expression.

    >>> ast.unparse(parse(" 2*x + numpy.exp(-y) "))
    '2 * x + numpy.exp(-y)'
    """
    if len(text) > MAX_LENGTH:
        raise ExpressionError(text, f"is {len(text)} characters long, more than {MAX_LENGTH}")
    stripped = text.strip()
    too_deep = f"is nested more than {MAX_DEPTH} deep"
    try:
        tree = ast.parse(stripped, mode="eval").body
    except (RecursionError, MemoryError) as error:
        raise ExpressionError(text, too_deep) from error
    except (SyntaxError, ValueError) as error:
        raise ExpressionError(text, "cannot be read" if stripped else "is empty") from error
    if _is_deep(tree):
        raise ExpressionError(text, too_deep)
    for node in _walk(tree):
        refusal = _refusal(node, stripped)
        if refusal is not None:
            raise ExpressionError(text, *refusal)
    if (power := huge_power(tree)) is not None:
        raise ExpressionError(text, f"computes a number too large: {_source(stripped, power)}")
    return tree


def names(expr: ast.expr) -> list[str]:
    """List the variables of an expression, in order of first use and without functions.

    >>> names(parse("b*numpy.exp(a) + a if c > 0 else max(b, d[0])"))
    ['b', 'a', 'c', 'd']
    """
    return list(dict.fromkeys(node.id for node in _by_place(expr) if isinstance(node, ast.Name)))


def literal(text: str) -> Any:
    """Return what a text stands for that is a number, a quoted text, or a list of these; None otherwise.

    Bytes, as modeci-mdf's importer writes texts, are given as text.

    >>> literal("'add'"), literal("b'add'"), literal("['_18', '_20']"), literal("add")
    ('add', 'add', ['_18', '_20'], None)
    """
    try:
        value = ast.literal_eval(text.strip())
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return None
    return _plain(value)


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    if isinstance(value, (list, tuple)):
        items = [_plain(item) for item in value]
        return None if any(item is None for item in items) else type(value)(items)
    return value if isinstance(value, (bool, int, float, complex, str)) else None


def _is_deep(tree: ast.expr) -> bool:
    level: list[ast.AST] = [tree]
    for _ in range(MAX_DEPTH):
        level = [child for node in level for child in ast.iter_child_nodes(node)]
        if not level:
            return False
    return True


def _walk(tree: ast.expr) -> Iterator[ast.AST]:
    """Give a node, then its parts, without the names of functions and the values of keywords."""
    stack: list[ast.AST] = [tree]
    while stack:
        node = stack.pop()
        yield node
        if isinstance(node, ast.Call):
            stack.extend(reversed(node.args))
        elif not isinstance(node, ast.Attribute):
            stack.extend(reversed(list(ast.iter_child_nodes(node))))


def _by_place(tree: ast.expr) -> list[ast.expr]:
    parts = [node for node in _walk(tree) if isinstance(node, ast.expr)]
    return sorted(parts, key=lambda node: (node.lineno, node.col_offset))


def _refusal(node: ast.AST, text: str) -> tuple[str, str] | None:
    """Say what is refused about a node itself, with a hint; its parts are looked at one by one."""
    if type(node) not in _ALLOWED:
        return _REFUSED.get(type(node), f"holds {type(node).__name__}"), ""
    match node:
        case ast.Name(id=name) if name.startswith("__") and name.endswith("__"):
            return f"uses the name {name}", ""
        case ast.Constant(value=value) if not isinstance(value, (bool, int, float, complex)):
            return f"holds {_source(text, node)}", ""
        case ast.Attribute():
            name = _dotted(node, text)
            return None if name in CONSTANTS else (f"reads {name}", did_you_mean(name, CONSTANTS))
        case ast.BinOp(left=left, op=ast.Add() | ast.Mult(), right=right) if _repeats(left, right):
            return f"joins or repeats a list: {_source(text, node)}", ""
        case ast.Call():
            return _call_refusal(node, text)
    return None


def _call_refusal(node: ast.Call, text: str) -> tuple[str, str] | None:
    name = _dotted(node.func, text)
    if name not in FUNCTIONS:
        return f"calls {name}", did_you_mean(name, FUNCTIONS)
    canonical = FUNCTIONS[name]
    least, most = _ARITY[canonical]
    if not least <= len(node.args) <= most:
        wanted = str(least) if least == most else f"{least} to {most}"
        return f"gives {name} {len(node.args)} arguments, not {wanted}", ""
    for keyword in node.keywords:
        if keyword.arg not in KEYWORDS.get(canonical, ()):
            return f"gives {name} the argument {_source(text, keyword)}", ""
        if literal(ast.get_source_segment(text, keyword.value) or "") is None:
            return f"gives {name} a computed {keyword.arg}", ""
    return None


def _dotted(node: ast.AST, text: str) -> str:
    """Write a function's name; for a method of a result, that of the function called first."""
    while True:
        match node:
            case ast.Attribute(value=ast.Call(func=func)) | ast.Call(func=func):
                node = func
            case ast.Attribute(value=ast.Name(id=module), attr=attr):
                return f"{module}.{attr}"
            case _:
                return _source(text, node)


def _source(text: str, node: ast.AST) -> str:
    return shorten(ast.get_source_segment(text, node) or "", 40)


def _repeats(left: ast.expr, right: ast.expr) -> bool:
    # `[0] * n` repeats in Python and multiplies in NumPy; with an array beside it only the latter is meant.
    lists = [isinstance(side, (ast.List, ast.Tuple)) for side in (left, right)]
    return all(lists) or (any(lists) and not (names(left) or names(right)))
