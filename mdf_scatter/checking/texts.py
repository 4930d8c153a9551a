"""The texts that modeci-mdf evaluates as Python: nothing but arithmetic on known names may stand there."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from mdf_scatter import expressions
from mdf_scatter.checking.calls import implicit, options, signature
from mdf_scatter.checking.finding import Finding, error, near
from mdf_scatter.checking.flow import may_call
from mdf_scatter.checking.powers import huge_power
from mdf_scatter.checking.scope import Feeding, Scope, args_of, conditions_of, texts_in
from mdf_scatter.checking.tensors import dtype_declared
from mdf_scatter.dtypes import is_string
from mdf_scatter.expressions import shorten
from mdf_scatter.vocabulary import FUNCTIONS


@dataclass(frozen=True)
class Place:
    """A value in a node that modeci-mdf may evaluate.

    Attributes:
        where: The ids that name it within the node.
        value: The value.
        args: The arguments of the call it belongs to, whose names it may use.
        is_option: Whether a text here is a word with a meaning of its own, such as `add`.
        is_constant: Whether it is what the name `where[0]` stands for.
    """

    where: tuple[str, ...]
    value: Any
    args: Mapping[str, Any] = field(default_factory=dict)
    is_option: bool = False
    is_constant: bool = False


def check_texts(scope: Scope, flowing: Collection[str] = ()) -> Iterator[Finding]:
    """Find expressions that are more than arithmetic, and names that stand for nothing.

    Args:
        scope: The node.
        flowing: Names that hold text which comes from elsewhere.
    """
    places = list(_places(scope))
    holders = {spot.where[0] for spot in places if spot.is_constant and _holds_text(spot, scope)}
    holders.update(flowing)
    for spot in places:
        where = scope.where(*spot.where)
        if isinstance(spot.value, str) and not spot.is_option:
            yield from _check_text(where, spot, scope, holders)
            continue
        for text in texts_in(spot.value):
            if conceals(text):
                yield error(where, _concealed(text))


def check_joined(scope: Scope, flowing: Collection[str], feeding: Feeding) -> Iterator[Finding]:
    """Find text that modeci-mdf joins outside of expressions: in functions, and on the way to a port."""
    for call in scope.calls:
        taken = signature(call.function) if isinstance(call.function, str) else None
        if taken is None or taken.inputs:
            # An ONNX operator gives arrays, which are not evaluated.
            continue
        args = args_of(call)
        for value in (*args.values(), *implicit(scope, call)):
            if may_call(value) or (isinstance(value, str) and value in flowing):
                yield error(
                    scope.where(call.id), f"{call.function} computes with text, {value!r}; expected numbers"
                )
    for port in scope.node.input_ports:
        edges = feeding.get((scope.node.id, port.id), [])
        if port.id in flowing and (
            port.reduce not in (None, "overwrite") or any(e.parameters for e in edges)
        ):
            yield error(scope.where(port.id), "computes with text that edges bring; expected numbers")


def conceals(text: str) -> bool:
    """Tell whether a text, evaluated as often as you like, calls what expressions may not call.

    modeci-mdf evaluates texts that come out of an evaluation once more. A name that is neither a
    function here nor one of Python's cannot be called.

    >>> conceals("hello (world)"), conceals("exec('x')"), conceals("'exec(1)'"), conceals("9**9**9")
    (False, True, True, True)
    """
    if "(" not in text and "**" not in text:
        return False
    try:
        tree = ast.parse(text.strip(), mode="eval").body
        return huge_power(tree) is not None or any(_is_harmful(node) for node in ast.walk(tree))
    except (SyntaxError, ValueError):
        return False
    except (RecursionError, MemoryError):
        return True


def _is_harmful(node: ast.AST) -> bool:
    match node:
        case ast.Constant(value=str(text)):
            return conceals(text)
        case ast.Call(func=ast.Name(id=name)):
            return name not in FUNCTIONS and hasattr(builtins, name)
        case ast.Call(func=ast.Attribute(value=ast.Name(id=module), attr=name)):
            return f"{module}.{name}" not in FUNCTIONS
    return isinstance(node, ast.Call)


def _places(scope: Scope) -> Iterator[Place]:
    words = options(scope)
    for port in scope.node.input_ports:
        dtype = dtype_declared(port)
        is_data = dtype is not None and is_string(dtype)
        yield Place((port.id,), port.default_value, is_option=is_data, is_constant=True)
    for parameter in scope.node.parameters:
        args = args_of(parameter)
        is_option = (parameter.id,) in words
        yield Place((parameter.id,), parameter.value, args, is_option, is_constant=True)
        yield Place((parameter.id, "default_initial_value"), parameter.default_initial_value)
        yield Place((parameter.id, "time_derivative"), parameter.time_derivative)
        for name, test, value in conditions_of(parameter):
            yield Place((parameter.id, name, "test"), test)
            yield Place((parameter.id, name, "value"), value, is_option=is_option)
    for function in scope.node.functions:
        yield Place((function.id,), function.value, args_of(function))
    for call in (*scope.node.parameters, *scope.node.functions):
        args = args_of(call)
        for name, value in args.items():
            where = (call.id, str(name))
            yield Place(where, value, args, where in words)
    for output in scope.node.output_ports:
        yield Place((output.id,), output.value)


def _holds_text(spot: Place, scope: Scope) -> bool:
    if isinstance(spot.value, str):
        return spot.value not in scope.names and (spot.is_option or _quotes_text(spot.value))
    return any(True for _ in texts_in(spot.value))


def _quotes_text(value: Any) -> bool:
    return any(True for _ in texts_in(expressions.literal(value) if isinstance(value, str) else value))


def _check_text(where: str, spot: Place, scope: Scope, holders: set[str]) -> Iterator[Finding]:
    text = spot.value
    if text in spot.args or text in scope.names:
        return
    value = expressions.literal(text)
    if value is not None:
        for quoted in texts_in(value):
            if conceals(quoted):
                yield error(where, _concealed(quoted))
        return
    try:
        used = expressions.names(expressions.parse(text))
    except expressions.ExpressionError as problem:
        yield error(where, str(problem))
        return
    for name in used:
        if name not in spot.args and name not in scope.names:
            yield error(
                where,
                f'expression "{shorten(text)}" names {name!r}, which is not a port, parameter or function'
                f" of the node{near(name, [*scope.names, *map(str, spot.args)])}",
            )
        elif name in holders or _is_text(name, spot.args, holders):
            yield error(
                where,
                f'expression "{shorten(text)}" computes with {name!r}, which holds text; expected numbers',
            )


def _is_text(name: str, args: Mapping[str, Any], holders: set[str]) -> bool:
    """Tell whether an argument holds text: its own, or that of a name it passes on."""
    seen: set[str] = set()
    while name in args and name not in seen:
        seen.add(name)
        if _quotes_text(args[name]):
            return True
        if not isinstance(args[name], str):
            return False
        name = args[name]
    return name in holders


def _concealed(text: str) -> str:
    return (
        f'holds the text "{shorten(text)}", which modeci-mdf may run as Python;'
        " expected text that calls nothing"
    )
