"""What a node computes: the functions it calls and the expressions it evaluates."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

import onnx.defs
from modeci_mdf.mdf import Node, Parameter

from mdf_scatter.attributes import graphs_in
from mdf_scatter.drawing.tensor_type import is_array
from mdf_scatter.drawing.values import full_text
from mdf_scatter.ops import OPS

SETTINGS = ("reduction", "training", "lda_coeff")
"""Arguments that decide what a node does to values and gradients."""

_NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?")
_NAMES = re.compile(r"\[[^\W\d]\w*(, [^\W\d]\w*)*\]")
_NAME = re.compile(r"[^\W\d]\w*")


@dataclass(frozen=True)
class Call:
    """A function, called under an id by a node's function or by one of its parameters."""

    id: str
    function: str
    args: Mapping[str, object]

    @property
    def operator(self) -> str:
        """The function's name without ONNX's prefix."""
        return self.function.removeprefix("onnx::")

    def __str__(self) -> str:
        """Write the call: `linear(variable0=input_port1, slope, intercept)`."""
        written = (
            name if _is_name(value, name) else f"{name}={full_text(value)}"
            for name, value in self.args.items()
        )
        return f"{self.function}({', '.join(written)})"

    def given(self, node: Node) -> dict[str, object]:
        """Return the arguments that are neither ports nor parameters of the node, nor lists of them.

        A setting is among them even where a parameter of another name holds it.
        """
        known = names(node)
        return {
            name: value
            for name, value in self.args.items()
            if not (isinstance(value, str) and _named(value) <= known)
            or (name in SETTINGS and not _is_name(value, name))
        }


def _is_name(value: object, name: str) -> bool:
    return isinstance(value, str) and value == name


def _named(argument: str) -> set[str]:
    return set(_NAME.findall(argument)) if _NAMES.fullmatch(argument) else {argument}


def calls(node: Node) -> list[Call]:
    """List a node's function calls, its parameters' before its functions'."""
    return [
        Call(part.id, part.function, part.args or {})
        for part in (*node.parameters, *node.functions)
        if part.function and isinstance(part.function, str)
    ]


def names(node: Node) -> set[str]:
    """Return what an expression of the node may refer to."""
    return {part.id for part in (*node.input_ports, *node.parameters, *node.functions)}


def is_expression(value: object, known: set[str]) -> bool:
    """Tell whether a value is a text that refers to something of its node, or that is a number."""
    if not isinstance(value, str):
        return False
    return _NUMBER.fullmatch(value) is not None or not known.isdisjoint([value, *_NAME.findall(value)])


def is_constant(parameter: Parameter, known: set[str]) -> bool:
    """Tell whether a parameter is nothing but a value."""
    return (
        parameter.value is not None
        and parameter.function is None
        and parameter.default_initial_value is None
        and parameter.time_derivative is None
        and not parameter.conditions
        and not is_expression(parameter.value, known)
    )


def constants_given(node: Node) -> dict[str, object]:
    """Return the value at each output port of a node that only gives constants; empty for any other."""
    known = names(node)
    values = {part.id: part.value for part in node.parameters if is_constant(part, known)}
    holds_graphs = any(graphs_in(part.value) for part in node.parameters)
    if node.input_ports or holds_graphs or len(values) < len(node.parameters):
        return {}
    wanted = {port.id: port.value for port in node.output_ports}
    if [function.function for function in node.functions] == ["onnx::Constant"]:
        [function], names_given = node.functions, list(values)
        alone = len(names_given) == 1 and function.args == {names_given[0]: names_given[0]}
        if not alone or set(wanted.values()) != {function.id}:
            return {}
        return dict.fromkeys(wanted, values[names_given[0]])
    if node.functions or set(wanted.values()) != set(values):
        return {}
    return {port_id: values[name] for port_id, name in wanted.items()}


def tensor_constants(node: Node) -> dict[str, object]:
    """Return the arrays that stand for an operator's tensor inputs, by name.

    An operator's tensor inputs are those of ours, or of the ONNX operator, of its name; what it takes
    besides them are options.
    """
    known = names(node)
    arrays = {p.id: p.value for p in node.parameters if is_constant(p, known) and is_array(p.value)}
    found: dict[str, object] = {}
    for call in calls(node):
        for name, value in call.args.items():
            if name not in operator_inputs(call.operator):
                continue
            if isinstance(value, str) and value in arrays:
                found[value] = arrays[value]
            elif is_array(value):
                found[name] = value
    return found


@cache
def operator_inputs(operator: str) -> frozenset[str]:
    """Return the names of an operator's inputs, or an empty set for any other function."""
    if operator in OPS:
        return frozenset(OPS[operator].inputs)
    if not is_onnx_operator(operator):
        return frozenset()
    return frozenset(item.name for item in onnx.defs.get_schema(operator).inputs)


def is_onnx_operator(operator: str) -> bool:
    """Tell whether a function has the name of an operator of ONNX."""
    return operator.isascii() and onnx.defs.has(operator)  # it refuses text that UTF-8 cannot hold
