"""Expressions of MDF files, read as syntax trees and never evaluated as text.

modeci-mdf hands every text of a model to Python's `eval`. Only what `parse` accepts may get that far:
arithmetic on names, and calls of functions that are listed here.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from typing import Any

from mdf_scatter.checking.powers import huge_power
from mdf_scatter.checking.sizes import MAX_ELEMENTS, huge_array
from mdf_scatter.errors import ModelError, did_you_mean
from mdf_scatter.vocabulary import (
    ATTRIBUTES,
    CONSTANTS,
    DTYPES,
    FUNCTIONS,
    INSTEAD,
    METHODS,
    MODULES,
    TAKES,
    called,
    dotted,
    dtype_named,
    is_none,
    method_of,
)

MAX_LENGTH = 20_000
MAX_DEPTH = 200

EXPECTED = "arithmetic on known names, numpy.* functions such as numpy.exp"

_ALLOWED = frozenset(
    {
        ast.Name, ast.Load, ast.Constant, ast.List, ast.Tuple, ast.Subscript, ast.Slice, ast.IfExp,
        ast.BinOp, ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod, ast.Pow, ast.MatMult,
        ast.UnaryOp, ast.UAdd, ast.USub, ast.Not, ast.BoolOp, ast.And, ast.Or,
        ast.BitAnd, ast.BitOr, ast.BitXor, ast.Invert,
        ast.Compare, ast.Eq, ast.NotEq, ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.Call, ast.Attribute,
    }
)  # fmt: skip
_REFUSED: dict[type[ast.AST], str] = {
    ast.LShift: "uses the operator <<", ast.RShift: "uses the operator >>",
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
        hint: What may have been meant, or what to write in its place, as `did_you_mean` writes it.
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
    if not line.isprintable():
        line = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in line)
    return line if len(line) <= limit else line[: limit - 3] + "..."


def parse(text: str) -> ast.expr:
    """Read an expression, and refuse everything that is not listed as allowed.

    Allowed are numbers, names, arithmetic, comparisons, `and`, `or`, `not`, `x if c else y`, lists,
    tuples, subscripts, calls of `FUNCTIONS` and `METHODS`, and `ATTRIBUTES`. The tree is at most
    `MAX_DEPTH` deep, so that it can be read by recursion.

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
    if (array := huge_array(tree)) is not None:
        raise ExpressionError(text, f"makes more than {MAX_ELEMENTS} elements: {_source(stripped, array)}")
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
    """Give a node, then its parts: no names of functions, no options, no open places of subscripts."""
    stack: list[ast.AST] = [tree]
    while stack:
        node = stack.pop()
        yield node
        stack.extend(reversed(_parts(node)))


def _parts(node: ast.AST) -> list[ast.AST]:
    match node:
        case ast.Call():
            call = called(node)
            parts = node.args if call is None else [part for part in call.operands if part is not None]
            return list(parts)
        case ast.Attribute(value=value):
            return [] if dotted(node) in CONSTANTS else [value]
        case ast.Subscript(value=value, slice=index):
            places = index.elts if isinstance(index, ast.Tuple) else [index]
            return [value, *(place for place in places if not _is_open(place))]
    return list(ast.iter_child_nodes(node))


def _is_open(place: ast.expr) -> bool:
    """Tell whether a subscript is `None` or `...`, which are nothing elsewhere."""
    return isinstance(place, ast.Constant) and place.value in (None, ...)


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
            return _attribute_refusal(node, text)
        case ast.BinOp(left=left, op=ast.Add() | ast.Mult(), right=right) if _repeats(left, right):
            return f"joins or repeats a list: {_source(text, node)}", ""
        case ast.Call():
            return _call_refusal(node, text)
    return None


def _attribute_refusal(node: ast.Attribute, text: str) -> tuple[str, str] | None:
    name = _called_name(node, text)
    is_of_array = not (isinstance(node.value, ast.Name) and node.value.id in MODULES)
    if dotted(node) in CONSTANTS or (is_of_array and node.attr in ATTRIBUTES):
        return None
    before = name.rpartition(".")[0]
    return f"reads {name}", _hint(name, [*CONSTANTS, *(f"{before}.{known}" for known in ATTRIBUTES)])


def _call_refusal(node: ast.Call, text: str) -> tuple[str, str] | None:
    spelled, name = dotted(node.func), _called_name(node.func, text)
    known = FUNCTIONS.get(spelled) or method_of(node.func)
    if known is None:
        before = name.rpartition(".")[0]
        methods = [f"{before}.{method}" for method in METHODS] if before not in MODULES else []
        return f"calls {name}", _hint(name, [*FUNCTIONS, *methods])
    takes = TAKES[known]
    # A method has its first argument in front of it.
    in_front = int(spelled not in FUNCTIONS)
    placed = takes.names[: in_front + len(node.args)]
    for keyword in node.keywords:
        if keyword.arg not in takes.named or keyword.arg in placed:
            return f"gives {name} the argument {_source(text, keyword)}", ""
    call = called(node)
    if call is None:
        least, most = takes.least - in_front, takes.most - in_front
        wanted = str(least) if least == most else f"{least} to {most}"
        return f"gives {name} {len(node.args)} arguments, not {wanted}", ""
    for option, value in call.options.items():
        written = ast.get_source_segment(text, value) or ""
        if option == "dtype" and dtype_named(value) is None:
            return f"gives {name} the dtype {_source(text, value)}", did_you_mean(written, DTYPES)
        if option != "dtype" and literal(written) is None and not is_none(value):
            return f"gives {name} a computed {option}", ""
    return None


def _hint(name: str, known: Iterable[str]) -> str:
    if name.startswith("numpy.random."):
        return ", and random numbers from an input port"
    before, _, own = name.rpartition(".")
    instead = INSTEAD.get(name) or (INSTEAD.get(own) if before and before not in MODULES else None)
    return did_you_mean(name, known) if instead is None else f"; write {instead}"


def _called_name(node: ast.AST, text: str) -> str:
    """Write a function's name; for a method of what a refused function gives, that function's."""
    while True:
        match node:
            case ast.Attribute(value=ast.Call(func=func)) | ast.Call(func=func):
                if dotted(func) in FUNCTIONS or method_of(func) is not None:
                    return _source(text, node)
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
