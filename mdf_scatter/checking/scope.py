"""What the names in a node stand for, read so that nothing in a file can break the reading."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, TypeAlias

import numpy as np
from modeci_mdf.mdf import Edge, Function, Graph, InputPort, Node, Parameter

from mdf_scatter import expressions
from mdf_scatter.checking.finding import place

Call: TypeAlias = Function | Parameter
"""A part of a node that may call a function."""

Feeding: TypeAlias = Mapping[tuple[str, str], list[Edge]]
"""The edges that feed each port, as `wiring.incoming` gives them."""

_CONSTANT = "onnx::Constant"

# Floats and texts in a file have not the dtype that the function gives them.
_EXACT = ("value", "value_int", "value_ints")


@dataclass(frozen=True)
class Scope:
    """A node, and what its names stand for.

    Attributes:
        graph: Id of the graph.
        node: The node.
    """

    graph: str
    node: Node

    def where(self, *parts: Any) -> str:
        """Name a part of the node."""
        return place(self.graph, self.node.id, *parts)

    @cached_property
    def ports(self) -> dict[str, InputPort]:
        """The input ports, by id."""
        return {port.id: port for port in self.node.input_ports}

    @cached_property
    def parameters(self) -> dict[str, Parameter]:
        """The parameters, by id."""
        return {parameter.id: parameter for parameter in self.node.parameters}

    @cached_property
    def functions(self) -> dict[str, Function]:
        """The functions, by id."""
        return {function.id: function for function in self.node.functions}

    @cached_property
    def names(self) -> frozenset[str]:
        """Every name that an expression of the node may use."""
        return frozenset(self.ports) | frozenset(self.parameters) | frozenset(self.functions)

    @cached_property
    def calls(self) -> list[Call]:
        """The functions and parameters that call a function."""
        return [part for part in (*self.node.functions, *self.node.parameters) if part.function is not None]

    def constant(self, value: Any) -> Any:
        """Return the number, text, list or array that an argument always is; None where that is open.

        The name of a parameter stands for what the parameter holds, that of an `onnx::Constant` for what
        it gives, a text for the literal it quotes.
        """
        seen: set[str] = set()
        while isinstance(value, str) and value in self.names and value not in self.ports:
            name = value
            value = None if name in seen else self._held(name)
            seen.add(name)
        if isinstance(value, str):
            read = expressions.literal(value)
            return read if read is not None else None if value in self.names else value
        return value

    def _held(self, name: str) -> Any:
        """Return what a parameter or a constant's function always is, or the name of what it is; or None."""
        if name in self.parameters:
            parameter = self.parameters[name]
            return None if is_computed(parameter) else parameter.value
        function = self.functions[name]
        if function.function != _CONSTANT:
            return None
        return next((held for kind in _EXACT if (held := self.argument(function, kind)) is not None), None)

    def argument(self, call: Call, name: str) -> Any:
        """Return what is given for an argument: the node's own name where a call leaves it out; or None."""
        own = name if name in self.names and name != call.id else None
        return args_of(call).get(name, own)


def scopes(graph: Graph) -> list[Scope]:
    """Return the scopes of a graph's nodes."""
    return [Scope(graph.id, node) for node in graph.nodes]


def is_computed(parameter: Parameter) -> bool:
    """Tell whether a parameter is anything but a value that stays."""
    others = (parameter.default_initial_value, parameter.time_derivative)
    return (
        any(other is not None for other in others)
        or bool(parameter.conditions)
        or (parameter.value is None and parameter.function is not None)
    )


def args_of(call: Call) -> dict[str, Any]:
    """Return the arguments of a call, none where what the file gives is not a mapping."""
    return dict(call.args) if isinstance(call.args, Mapping) else {}


def conditions_of(parameter: Parameter) -> Iterator[tuple[str, Any, Any]]:
    """Give the id, test and value of each condition; a file gives them as mappings or objects."""
    for condition in parameter.conditions:
        read = condition.get if isinstance(condition, Mapping) else partial(getattr, condition)
        yield str(read("id", None)), read("test", None), read("value", None)


def variables(text: Any, known: frozenset[str] | set[str]) -> list[str]:
    """List the names that a value reads: itself where it is a name, or those of the expression.

    A list of texts, as the arguments of ONNX's variadic operators, reads each of them.
    """
    if isinstance(text, list):
        return [part for part in text if isinstance(part, str) and part in known]
    if not isinstance(text, str):
        return []
    if text in known:
        return [text]
    value = expressions.literal(text)
    if value is not None:
        return variables(value, known) if isinstance(value, list) else []
    try:
        return expressions.names(expressions.parse(text))
    except expressions.ExpressionError:
        return []


def texts_in(value: Any) -> Iterator[str]:
    """Give every text inside a value: a list, a mapping or an array of them."""
    stack = [value]
    while stack:
        item = stack.pop()
        if isinstance(item, str):
            yield item
        elif isinstance(item, np.ndarray) and item.dtype.kind in "OTU":
            stack.extend(reversed(item.ravel().tolist()))
        elif isinstance(item, Mapping):
            stack.extend(reversed([*item.keys(), *item.values()]))
        elif isinstance(item, (list, tuple, set)):
            stack.extend(reversed(list(item)))
