"""What the texts and values of one MDF node stand for."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from modeci_mdf.mdf import Node

from mdf_scatter import expressions
from mdf_scatter.attributes import is_sparse
from mdf_scatter.errors import UnsupportedError
from mdf_scatter.lower.arithmetic import Arithmetic
from mdf_scatter.lower.builder import Builder, Literal, Operand
from mdf_scatter.lower.expressions import ExpressionLowering
from mdf_scatter.lower.making import stacked
from mdf_scatter.lower.stateful import conditions_of, is_number
from mdf_scatter.ops import OPS
from mdf_scatter.ops.settings import WIDEST, described, is_wide
from mdf_scatter.signatures import schema_of
from mdf_scatter.wiring import onnx_metadata

Read = Callable[[str], list[Operand]]
"""Gives the values of a name: several for a list, or a function with several results."""


class NodeReading:
    """Tells what a node's values stand for: constants, names of its parts, or expressions.

    Args:
        builder: Where the ONNX nodes go.
        node: The node.
        inputs: The value at each input port.
    """

    def __init__(self, builder: Builder, node: Node, inputs: Mapping[str, Operand]) -> None:
        self._builder = builder
        self._node = node
        self._inputs = inputs
        self._parameters = {parameter.id: parameter for parameter in node.parameters}
        self._functions = {function.id: function for function in node.functions}
        self._arithmetic = Arithmetic(builder, node.id)

    def _knows(self, name: str) -> bool:
        return name in self._inputs or name in self._parameters or name in self._functions

    def _is_call(self, name: str) -> bool:
        """Tell whether a name stands for the results of a function."""
        part = self._functions.get(name) or self._parameters.get(name)
        return part is not None and part.function is not None

    def _results(self, name: str) -> tuple[int, int]:
        """Return how many results what a name stands for has to have, and how many it may have."""
        part = self._functions.get(name) or self._parameters.get(name)
        domain, _, op_type = str(part and part.function).rpartition("::")
        if domain != "onnx" or op_type in OPS or self._builder.is_lifted:
            return 1, 1
        schema = schema_of(op_type, "", self._builder.opset_imports.get(""))
        return (1, 1) if schema is None else (schema.min_output, len(schema.outputs))

    def _expressions(self, read: Read) -> ExpressionLowering:
        def resolve(name: str) -> Operand | list[Operand]:
            values = read(name)
            if (len(values) != 1 and self._is_call(name)) or self._results(name)[1] > 1:
                return values
            return self._merged(values, name, name)

        return ExpressionLowering(self._builder, resolve, self._node.id)

    def _values(self, value: Any, name: str, read: Read, *, is_argument: bool = False) -> list[Operand]:
        """Return what a value in the file stands for: a constant, a name, or an expression."""
        if isinstance(value, np.ndarray):
            return [self._builder.constant(value, self._hint(name))]
        if isinstance(value, list):
            if value and all(isinstance(part, str) and self._knows(part) for part in value):
                return [operand for part in value for operand in read(part)]
            return [Literal(self._array(value, name), listed=True, name=f"{self._node.id}.{name}")]
        if isinstance(value, str):
            return self._of_text(value, name, read, is_argument)
        if is_wide(value):
            raise UnsupportedError(
                f"{self._where()}: {name!r} is {described(value)}; ONNX has no more than {WIDEST}"
            )
        if isinstance(value, (bool, int, float, complex, np.generic)):
            return [Literal(value, name=f"{self._node.id}.{name}")]
        if is_sparse(value):
            return [self._builder.sparse_constant(value, self._hint(name))]
        raise UnsupportedError(
            f"{self._where()}: {name!r} is {type(value).__name__}; "
            "expected a number, array, name or expression"
        )

    def _array(self, value: list[Any], name: str) -> npt.NDArray[Any]:
        try:
            array = np.array(value)
        except ValueError as error:
            raise UnsupportedError(f"{self._where()}: {name!r} is uneven; expected a tensor") from error
        if array.dtype.kind not in "biufcU":
            raise UnsupportedError(
                f"{self._where()}: {name!r} holds more than numbers of at most {WIDEST} bits, or than texts;"
                " ONNX has no form for it"
            )
        return array.astype(object) if array.dtype.kind == "U" else array

    def _of_text(self, text: str, name: str, read: Read, is_argument: bool) -> list[Operand]:
        if self._knows(text):
            return read(text)
        if is_number(text):
            return [Literal(_number(text), name=f"{self._node.id}.{name}")]
        constant = expressions.literal(text)
        if isinstance(constant, list) and constant:
            return self._values(constant, name, read)
        value = self._expressions(read).lower(expressions.parse(text))
        if not isinstance(value, list):
            return [whole(value)]
        # A list of one is an array of one, but as an argument all that an operator joins.
        return value if is_argument or len(value) != 1 else [stacked(self._arithmetic, value)]

    def _hint(self, name: str) -> str:
        parameter = self._parameters.get(name)
        known = None if parameter is None else onnx_metadata(parameter).get("name")
        return str(known or f"{self._node.id}.{name}")

    def _one(self, value: Any, name: str, read: Read) -> Operand:
        """Return what a value in the file stands for as one value."""
        return self._merged(self._values(value, name, read), value, name)

    def _merged(self, values: list[Operand], source: Any, name: str) -> Operand:
        """Return several values as one: of a list, the array that NumPy makes of it."""
        if len(values) == 1:
            return values[0]
        if isinstance(source, str) and self._is_call(source):
            raise UnsupportedError(f"{self._where()}: {name!r} gets {len(values)} values; expected one")
        return stacked(self._arithmetic, values)

    def _constant(self, value: Any) -> Any:
        """Return the Python value of an option: a literal, or a parameter that holds one."""
        seen: set[str] = set()
        while isinstance(value, str) and value in self._parameters and value not in seen:
            seen.add(value)
            value = self._parameters[value].value
        if isinstance(value, str):
            text = expressions.literal(value)
            value = value if text is None else text
        if isinstance(value, bytes):
            return value.decode()
        return value

    def _where(self, function: str | None = None) -> str:
        names = [f.function for f in (*self._node.functions, *self._node.parameters) if f.function]
        return f"{function or ', '.join(map(str, names)) or 'node'} {self._node.id!r}"


def results_used(node: Node) -> dict[str, int]:
    """Count how many results of each function the node reads: `f[2]` reads three."""
    texts: list[Any] = [port.value for port in node.output_ports]
    for part in (*node.functions, *node.parameters):
        texts += [part.value, *(part.args or {}).values()]
    for parameter in node.parameters:
        texts.append(parameter.time_derivative)
        texts += [text for pair in conditions_of(parameter) for text in pair]
    used: dict[str, int] = {}
    for text in texts:
        if not isinstance(text, str) or "[" not in text:
            continue
        try:
            parts = list(ast.walk(expressions.parse(text)))
        except expressions.ExpressionError:
            # A text that is no expression reads nothing.
            continue
        for tree in parts:
            match tree:
                case ast.Subscript(value=ast.Name(id=name), slice=ast.Constant(value=int(position))):
                    used[name] = max(used.get(name, 1), position + 1)
    functions = {f.id for f in node.functions} | {p.id for p in node.parameters if p.function}
    return {name: count for name, count in used.items() if name in functions}


def whole(operand: Operand) -> Operand:
    """MDF's engine makes an integer of a whole Python number that an expression gives."""
    if isinstance(operand, Literal) and type(operand.value) is float and operand.value.is_integer():
        return Literal(int(operand.value), name=operand.name)
    return operand


def _number(text: str) -> int | float:
    try:
        return int(text)
    except ValueError:
        return float(text)
