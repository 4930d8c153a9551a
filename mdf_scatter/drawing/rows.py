"""The rows of a node's band: parameters, state, functions, expressions, conditions."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass

from modeci_mdf.mdf import Condition, Node, Parameter

from mdf_scatter.drawing.calls import calls, is_expression, names
from mdf_scatter.drawing.style import DtypeClass, dtype_class
from mdf_scatter.drawing.tensor_type import of_value
from mdf_scatter.drawing.values import full_text, short_text


@dataclass(frozen=True)
class Row:
    """A line of a band: a name on the left and a text on the right, in its dtype's colour.

    Attributes:
        name: What the row is about.
        text: What is written; the picture may shorten it.
        dtype: Class of the value's dtype, or None for an expression.
        tip: Tooltip, with everything in full.
    """

    name: str
    text: str
    dtype: DtypeClass | None
    tip: str


def rows(node: Node, hidden: Container[str], runs_when: Condition | None) -> list[Row]:
    """List the rows of a node.

    Args:
        node: The node.
        hidden: Parameters that are drawn in another way.
        runs_when: The graph's condition for the node.
    """
    found = [
        row
        for parameter in node.parameters
        if parameter.id not in hidden
        for row in _parameter(node, parameter)
    ]
    called = calls(node)
    found += [
        _expression(call.id, str(call)) for call in called if len(called) > 1 or not call.is_plain(node)
    ]
    known = names(node)
    found += [_expression(f.id, full_text(f.value)) for f in node.functions if f.value is not None]
    found += [_expression(p.id, p.value) for p in node.output_ports if p.value and p.value not in known]
    if runs_when is not None:
        found.append(
            Row("runs when", condition_text(runs_when), None, f"runs when {condition_text(runs_when)}")
        )
    return found


def value_text(value: object) -> str:
    """Write a value for the picture: itself, or the type of an array too large for that."""
    short = short_text(value)
    return str(of_value(value)) if short is None else short


def value_class(value: object) -> DtypeClass:
    """Return the class of a value's dtype."""
    return "string" if isinstance(value, str) else dtype_class(of_value(value).dtype)


def condition_text(condition: object) -> str:
    """Write a condition and those it is made of: `All(AfterCall(dependencies=B, n=2), ...)`."""
    if isinstance(condition, Condition):
        return _condition(condition.type, condition.kwargs)
    if isinstance(condition, Mapping) and "type" in condition:
        return _condition(condition["type"], condition.get("kwargs"))
    if isinstance(condition, (list, tuple)):
        return "[" + ", ".join(condition_text(item) for item in condition) + "]"
    return full_text(condition)


def _condition(kind: str, arguments: Mapping[str, object] | None) -> str:
    written = [f"{name}={condition_text(value)}" for name, value in (arguments or {}).items()]
    return f"{kind}({', '.join(written)})"


def _parameter(node: Node, parameter: Parameter) -> Iterator[Row]:
    name, known = parameter.id, names(node)
    if parameter.default_initial_value is not None:
        yield _given(f"{name} at start", parameter.default_initial_value, known)
    if parameter.time_derivative is not None:
        yield _expression(f"d {name} / dt", parameter.time_derivative)
    if parameter.value is not None:
        yield _given(name, parameter.value, known)
    for condition in parameter.conditions:
        if isinstance(condition, Mapping):  # as modeci-mdf leaves them when it reads a file
            test, value = condition.get("test"), condition.get("value")
        else:
            test, value = condition.test, condition.value
        yield _expression(f"{name} if {full_text(test)}", full_text(value))


def _given(name: str, value: object, known: set[str]) -> Row:
    dtype = None if is_expression(value, known) else value_class(value)
    return Row(name, value_text(value), dtype, f"{name} = {full_text(value)}")


def _expression(name: str, text: str) -> Row:
    return Row(name, text, None, f"{name} = {text}")
