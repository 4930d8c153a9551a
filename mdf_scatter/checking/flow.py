"""Where the texts of a model go: modeci-mdf evaluates a text that comes out of an expression once more."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from modeci_mdf.mdf import Graph, Parameter

from mdf_scatter.checking.calls import implicit, options
from mdf_scatter.checking.scope import Scope, args_of, conditions_of, texts_in, variables
from mdf_scatter.expressions import literal


def text_names(graph: Graph, by_id: Mapping[str, Scope]) -> dict[str, set[str]]:
    """Return, for each node, the names that may hold a text of the file that a call could be made of.

    Two harmless halves of a call become one when an expression of any node joins them. An operator
    that reads text is taken to give text.
    """
    starts = [(node, name) for node, scope in by_id.items() for name in _sources(scope)]
    if not starts:
        return {}
    readers = {node: _readers(scope) for node, scope in by_id.items()}
    sent: dict[tuple[str, str], list[tuple[str, str]]] = {}
    for edge in graph.edges:
        sent.setdefault((edge.sender, edge.sender_port), []).append((edge.receiver, edge.receiver_port))
    found: dict[str, set[str]] = {}
    stack = starts
    while stack:
        node, name = stack.pop()
        if node not in by_id or name in found.setdefault(node, set()):
            continue
        found[node].add(name)
        inside, outputs = readers[node].get(name, ([], []))
        stack += [(node, reader) for reader in inside]
        for output in outputs:
            stack += sent.get((node, output), [])
    return found


def may_call(value: object) -> bool:
    """Tell whether a value is, or quotes, text that part of a call could be made of.

    An expression quotes nothing, and what it may call is known.
    """
    texts = texts_in(literal(value) if isinstance(value, str) else value)
    return any("(" in text for text in texts)


def _sources(scope: Scope) -> list[str]:
    words = options(scope)
    values: list[tuple[tuple[str, ...], Any]]
    values = [((port.id,), port.default_value) for port in scope.node.input_ports]
    for parameter in scope.node.parameters:
        values += [((parameter.id,), value) for _, _, value in conditions_of(parameter)]
        values += [((parameter.id,), parameter.value), ((parameter.id,), parameter.default_initial_value)]
    for part in (*scope.node.parameters, *scope.node.functions):
        values += [((part.id, str(name)), value) for name, value in args_of(part).items()]
    values += [((function.id,), function.value) for function in scope.node.functions]
    return [where[0] for where, value in values if where not in words and may_call(value)]


def _readers(scope: Scope) -> dict[str, tuple[list[str], list[str]]]:
    """Map each name to the parts of the node that read it, and to the output ports that do."""
    readers: dict[str, tuple[list[str], list[str]]] = {}
    for part in (*scope.node.parameters, *scope.node.functions):
        values = [part.value, *args_of(part).values(), *implicit(scope, part)]
        if isinstance(part, Parameter):
            values += [part.default_initial_value, part.time_derivative]
            values += [value for _, _, value in conditions_of(part)]
        for name in {name for value in values for name in variables(value, scope.names)}:
            readers.setdefault(name, ([], []))[0].append(part.id)
    for port in scope.node.output_ports:
        for name in variables(port.value, scope.names):
            readers.setdefault(name, ([], []))[1].append(port.id)
    return readers
