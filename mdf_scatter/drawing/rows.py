"""The rows of a node's band: parameters, state, functions, expressions, conditions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass, replace

from modeci_mdf.mdf import Condition, Graph, Node, Parameter

from mdf_scatter.attributes import graphs_in
from mdf_scatter.drawing.calls import SETTINGS, calls, is_expression, is_onnx_operator, names
from mdf_scatter.drawing.outline import Inner
from mdf_scatter.drawing.style import DtypeClass, dtype_class
from mdf_scatter.drawing.tensor_type import of_value
from mdf_scatter.drawing.values import full_text, short_text
from mdf_scatter.onnx_types import element_name
from mdf_scatter.wiring import is_pass_through

NO_GRADIENT = "no gradient"
"""Name of the row that says why a node sends no gradient back."""

_ELEMENT_TYPES = ("to", "dtype", "output_dtype", "stash_type")
"""Attributes of ONNX's operators whose numbers stand for element types."""

ALWAYS_SHOWN = frozenset({"runs when", NO_GRADIENT, *SETTINGS})
"""Names of rows that no folding may hide."""


@dataclass(frozen=True)
class Row:
    """A line of a band: a name on the left and a text on the right, in its dtype's colour.

    Attributes:
        name: What the row is about.
        text: What is written; the picture may shorten it.
        dtype: Class of the value's dtype, or None for an expression.
        tip: Tooltip, with everything in full.
        frame: Label of the subgraph that is drawn for the row, or nothing.
    """

    name: str
    text: str
    dtype: DtypeClass | None
    tip: str
    frame: str = ""


def rows(
    node: Node, hidden: Container[str], runs_when: Condition | None, inner: list[Inner], stop: str
) -> list[Row]:
    """List the rows of a node.

    Args:
        node: The node.
        hidden: Parameters that are drawn in another way.
        runs_when: The graph's condition for the node.
        inner: The graphs that the node names.
        stop: Why the node sends no gradient back, or nothing.
    """
    found = [
        row
        for parameter in node.parameters
        if parameter.id not in hidden and not graphs_in(parameter.value)
        for row in _parameter(node, parameter)
    ]
    found += [_inner(item) for item in inner]
    called = calls(node)
    known = names(node)
    for call in called:
        given = call.given(node)
        if len(called) > 1:
            found.append(_expression(call.id, str(call)))
            given = {name: value for name, value in given.items() if name in SETTINGS}
        found += [_given(name, value, known) for name, value in given.items() if name not in hidden]
    found += [_expression(f.id, full_text(f.value)) for f in node.functions if f.value is not None]
    for position, port in enumerate(node.output_ports):
        # A function's outputs in their order are no expressions worth a row.
        in_order = node.functions and port.value == f"{node.functions[0].id}[{position}]"
        if port.value and port.value not in known and not in_order:
            found.append(_expression(port.id, port.value))
    if runs_when is not None:
        found.append(
            Row("runs when", condition_text(runs_when), None, f"runs when {condition_text(runs_when)}")
        )
    if stop:
        found.append(Row(NO_GRADIENT, stop, None, f"{NO_GRADIENT}: {stop}"))
    if any(is_onnx_operator(call.operator) for call in called):
        found = [_with_element_type(row) for row in found]
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
        # A state's value is what it becomes at each step, not what it is.
        yield _given(f"{name} each step" if _keeps_state(parameter) else name, parameter.value, known)
    for condition in parameter.conditions:
        if isinstance(condition, Mapping):  # as modeci-mdf leaves them when it reads a file
            test, value = condition.get("test"), condition.get("value")
        else:
            test, value = condition.test, condition.value
        yield _expression(f"{name} if {full_text(test)}", full_text(value))


def _keeps_state(parameter: Parameter) -> bool:
    return isinstance(parameter.value, str) and (
        parameter.default_initial_value is not None or is_expression(parameter.value, {parameter.id})
    )


def _inner(item: Inner) -> Row:
    if item.graph is None:
        return Row(item.label, "missing", None, f"{item.label}: the model has no graph {item.id}")
    # Nodes that only stand for the graph's inputs are drawn as boxes at its edge, or not at all.
    text = counted(sum(not is_pass_through(node) for node in item.graph.nodes), "node")
    tip = f"{item.label}: graph {item.id}, {text}{_functions(item.graph)}"
    return Row(item.label, text, None, tip, frame=item.label if item.here else "")


def counted(number: int, what: str) -> str:
    """Write a number of things: `1 node`, `12 nodes`, `2 boxes`."""
    if number == 1:
        return f"1 {what}"
    return f"{number} {what}{'es' if what.endswith('x') else 's'}"


def _functions(graph: Graph) -> str:
    count = Counter(call.operator for node in graph.nodes for call in calls(node))
    common = ", ".join(f"{number} {name}" for name, number in count.most_common(8))
    return f": {common}" if common else ""


def _given(name: str, value: object, known: set[str]) -> Row:
    dtype = None if is_expression(value, known) else value_class(value)
    return Row(name, value_text(value), dtype, f"{name} = {full_text(value)}")


def _with_element_type(row: Row) -> Row:
    if row.name not in _ELEMENT_TYPES or row.dtype != "int":
        return row
    try:
        name = element_name(int(row.text))
    except ValueError:  # several numbers, or one that stands for no type
        return row
    return row if name is None else replace(row, text=f"{row.text} ({name})", tip=f"{row.tip} ({name})")


def _expression(name: str, text: str) -> Row:
    return Row(name, text, None, f"{name} = {text}")
