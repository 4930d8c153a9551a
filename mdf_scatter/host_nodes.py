"""A node as modeci-mdf's engine needs it, without a change of meaning.

The engine takes every text for an expression and every list for float64 or int64. So arrays get the
types that the file keeps for them, our functions are told which of their tensors are lists, and a text
that is a text (`reduction: add`) is put into a list, which the engine hands on as it is.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from modeci_mdf.mdf import Function, Node, Parameter

from mdf_scatter import expressions
from mdf_scatter.attributes import graphs_in, is_sparse, sparse_array, sparse_proto
from mdf_scatter.dtypes import dtype_of
from mdf_scatter.errors import OperatorError, UnsupportedError
from mdf_scatter.formats.restore import restored_node
from mdf_scatter.lower.node_reading import results_used
from mdf_scatter.ops import OPS, Op
from mdf_scatter.ops.arguments import read_array
from mdf_scatter.ops.plain import alike, as_integers, of_one_dtype

_LISTS = "mdf_scatter_lists"
"""Argument of our functions while the engine runs: the names of those that are lists in the file."""


@dataclass(frozen=True)
class Versioned:
    """An ONNX operator as a graph lifted from ONNX means it.

    Attributes:
        op_type: The operator.
        opset: The operator set of the graph.
        results: How many results are read by position; None where the result is read as it is.
    """

    op_type: str
    opset: int
    results: int | None

    def __str__(self) -> str:
        """The name it has as an MDF function while the engine runs."""
        return f"onnx::{self.op_type} {self.opset} {self.results}"


def prepared(node: Node, opset: int | None) -> tuple[Node, list[Versioned]]:
    """Return a copy of a node for the engine.

    Args:
        node: The node; it is not changed.
        opset: The operator set of the graph, where it was lifted from ONNX. Its `onnx::` functions then
            mean that version, with ONNX's dtypes; in other graphs they are the engine's own.

    Returns:
        The copy, and the versioned operators that it calls by their names.

    Raises:
        FormatError: A type that the file keeps does not fit its value.
        UnsupportedError: A function of a graph that was lifted from ONNX is none that the engine can have.
    """
    own = copy.copy(restored_node(node))
    own.input_ports = [_typed_port(port) for port in own.input_ports]
    own.functions = [copy.copy(function) for function in own.functions]
    own.parameters = [copy.copy(parameter) for parameter in own.parameters]
    for parameter in own.parameters:
        if is_sparse(parameter.value):
            parameter.value = sparse_array(sparse_proto(parameter.value))
    for call in (*own.functions, *own.parameters):
        if call.function:
            _quote_options(own, call)
            _tell_lists(own, call)
    names = own.get_parameter("specified_outputs_name")
    if names is not None and isinstance(names.value, str):
        names.value = [names.value]
    return own, [] if opset is None else _with_versions(own, opset)


def _with_versions(node: Node, opset: int) -> list[Versioned]:
    used = results_used(node)
    found: list[Versioned] = []
    has_graphs = any(graphs_in(parameter.value) for parameter in node.parameters)
    for call in (*node.functions, *node.parameters):
        name = (call.function or "").removeprefix("onnx::")
        lacking = _lacking(call, name, has_graphs)
        if lacking is not None:
            raise UnsupportedError(
                f"{call.function} {node.id!r}: MDF's engine has no {lacking}; run the model in engine 'onnx'"
            )
        if call.function == f"onnx::{name}" and name not in OPS:
            found.append(Versioned(name, opset, used.get(call.id)))
            call.function = str(found[-1])
    return found


def _lacking(call: Function | Parameter, name: str, has_graphs: bool) -> str | None:
    """Return what a call asks for that MDF's engine has not; None where it has all."""
    if "::" in name and name not in OPS:
        return "functions of this domain"
    if call.function != f"onnx::{name}":
        return None
    if has_graphs:
        return "graphs inside a graph"
    kinds = onnx.defs.get_schema(name).type_constraints if onnx.defs.has(name) else []
    is_of_sequences = any(all(text.startswith("seq(") for text in kind.allowed_type_strs) for kind in kinds)
    return "sequences" if is_of_sequences else None


def text_options(function: str) -> frozenset[str]:
    """Return the names of the arguments of a function that are texts, not expressions."""
    name = function.removeprefix("onnx::")
    if name in OPS:
        attributes = OPS[name].attributes
        return frozenset(key for key, attribute in attributes.items() if isinstance(attribute.default, str))
    if function.startswith("onnx::") and onnx.defs.has(name):
        kinds = onnx.defs.OpSchema.AttrType
        texts = (kinds.STRING, kinds.STRINGS)
        declared = onnx.defs.get_schema(name).attributes
        return frozenset(key for key, attribute in declared.items() if attribute.type in texts)
    return frozenset()


def tensors(op: Op, scope: Mapping[str, Any]) -> list[Any]:
    """Return the inputs of one of our operators; plain numbers and lists are as the tensors beside them.

    Args:
        op: The operator.
        scope: The names that the engine would give to an expression in a node that is prepared.

    Raises:
        OperatorError: An input is missing.
    """
    for name in op.inputs:
        if name not in scope and name not in op.optional:
            raise OperatorError(op.name, f"argument {name!r} is missing; give it in the function's args")
    given = {name: scope[name] for name in of_one_dtype(op) if scope.get(name) is not None}
    lists = scope.get(_LISTS, ())
    plain = [name for name, value in given.items() if name in lists or type(value) in (bool, int, float)]
    if plain:
        given = alike({name: read_array(op.name, name, value) for name, value in given.items()}, plain)
    given |= {
        name: as_integers(read_array(op.name, name, scope[name])) for name in op.integers if name in lists
    }
    return [given.get(name, scope.get(name)) for name in op.inputs]


def _typed_port(port: Any) -> Any:
    dtype = dtype_of(port.type) if port.type else None
    is_number = dtype is not None and isinstance(port.default_value, (int, float))
    if not is_number and not isinstance(port.default_value, list):
        return port
    typed = copy.copy(port)
    typed.default_value = np.asarray(port.default_value, dtype)
    return typed


def _quote_options(node: Node, call: Function | Parameter) -> None:
    parts = {part.id for part in (*node.input_ports, *node.functions)}
    parameters = {parameter.id: parameter for parameter in node.parameters}
    args = dict(call.args or {})
    for option in text_options(call.function or ""):
        value = args.get(option, option)
        if not isinstance(value, str) or value in parts:
            continue
        if value in parameters:
            parameter = parameters[value]
            if isinstance(parameter.value, str) and parameter.value not in parts | parameters.keys():
                parameter.value = [_meant(parameter.value)]
        elif option in args:
            args[option] = [_meant(value)]
    call.args = args


def _tell_lists(node: Node, call: Function | Parameter) -> None:
    op = OPS.get((call.function or "").removeprefix("onnx::"))
    args = dict(call.args or {})
    lists = [name for name in (op.inputs if op else ()) if _is_list(node, args.get(name, name))]
    if lists:
        call.args = {**args, _LISTS: lists}


def _is_list(node: Node, value: Any) -> bool:
    """Tell whether what an argument stands for is a list in the file."""
    parts = {part.id for part in (*node.input_ports, *node.functions)}
    parameters = {part.id: part.value for part in node.parameters if not part.conditions}
    while isinstance(value, str) and value in parameters.keys() - parts:
        value = parameters.pop(value)
    return isinstance(expressions.literal(value) if isinstance(value, str) else value, list)


def _meant(text: str) -> Any:
    literal = expressions.literal(text)
    if isinstance(literal, bytes):
        return literal.decode("utf-8", "replace")
    return literal if isinstance(literal, str) else text
