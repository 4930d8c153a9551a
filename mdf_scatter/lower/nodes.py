"""One MDF node as ONNX nodes: its ports, parameters and functions, resolved by name."""

from __future__ import annotations

import ast
import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx_ir as ir
from modeci_mdf.mdf import Function, Node, OutputPort, Parameter

from mdf_scatter import expressions
from mdf_scatter.errors import UnsupportedError
from mdf_scatter.lower.builder import Builder, Literal, Operand
from mdf_scatter.lower.expressions import ExpressionLowering
from mdf_scatter.lower.functions import METADATA, Call, lower_call
from mdf_scatter.wiring import onnx_metadata


class NodeLowering:
    """Lowers one node; names are resolved when they are first needed.

    Args:
        builder: Where the ONNX nodes go.
        node: The node.
        inputs: The value at each input port.
    """

    def __init__(self, builder: Builder, node: Node, inputs: Mapping[str, Operand]) -> None:
        self._builder = builder
        self._node = node
        self._values: dict[str, list[Operand]] = {name: [value] for name, value in inputs.items()}
        self._parameters = {parameter.id: parameter for parameter in node.parameters}
        self._functions = {function.id: function for function in node.functions}
        self._open: set[str] = set()
        self._used = results_used(node)
        self._expressions = ExpressionLowering(builder, self._named, node.id)

    def output(self, port: OutputPort) -> Operand:
        """Return the value at an output port.

        Raises:
            UnsupportedError: The node cannot be expressed in ONNX.
        """
        if port.value is None:
            raise UnsupportedError(f"{self._where()}: output port {port.id!r} has no value")
        value = self._operand(port.value, port.id)
        if isinstance(value, list):
            if len(value) != 1:
                raise UnsupportedError(
                    f"{self._where()}: output port {port.id!r} gets {len(value)} values; expected one"
                )
            return value[0]
        return value

    def _named(self, name: str) -> Operand | list[Operand]:
        values = self._lookup(name)
        return values[0] if len(values) == 1 else values

    def _lookup(self, name: str) -> list[Operand]:
        if name in self._values:
            return self._values[name]
        if name in self._open:
            raise UnsupportedError(
                f"{self._where()}: {name!r} depends on itself; state has no form in ONNX here"
            )
        self._open.add(name)
        if name in self._functions:
            self._values[name] = self._function(self._functions[name])
        elif name in self._parameters:
            self._values[name] = self._parameter(self._parameters[name])
        else:
            raise UnsupportedError(
                f"{self._where()}: {name!r} is not a port, parameter or function of the node"
            )
        return self._values[name]

    def _parameter(self, parameter: Parameter) -> list[Operand]:
        for part in ("time_derivative", "default_initial_value", "conditions"):
            if getattr(parameter, part) not in (None, []):
                raise UnsupportedError(
                    f"{self._where()}: parameter {parameter.id!r} has {part}; ONNX has no form for it here"
                )
        if parameter.function is not None:
            return self._call(parameter.id, parameter.function, parameter.args)
        value = self._operand(parameter.value, parameter.id)
        hint = onnx_metadata(parameter).get("name") or f"{self._node.id}.{parameter.id}"
        if isinstance(value, Literal):
            return [Literal(value.value, value.listed, str(hint))]
        if isinstance(value, ir.Value) and isinstance(parameter.value, np.ndarray):
            return [value]
        return value if isinstance(value, list) else [value]

    def _function(self, function: Function) -> list[Operand]:
        if function.function is not None:
            return self._call(function.id, function.function, function.args)
        local = self._scope(function.args)
        lowering = ExpressionLowering(self._builder, local, self._node.id)
        value = lowering.lower(expressions.parse(str(function.value)))
        return value if isinstance(value, list) else [value]

    def _scope(self, args: Mapping[str, Any] | None) -> Any:
        def resolve(name: str) -> Operand | list[Operand]:
            if args and name in args and args[name] != name:
                return self._operand(args[name], name)
            return self._named(name)

        return resolve

    def _call(self, result: str, function: str, args: Mapping[str, Any] | None) -> list[Operand]:
        given = args or {}
        sole = len(self._node.functions) + sum(p.function is not None for p in self._node.parameters) == 1

        def argument(name: str) -> Operand | list[Operand] | None:
            if name in given:
                return None if given[name] is None else self._operand(given[name], name)
            # MDF resolves an argument that is left out from the node's scope.
            return self._named(name) if name != result and self._knows(name) else None

        def option(name: str) -> Any:
            if name in given:
                return self._constant(given[name])
            return self._constant(name) if name != result and name in self._parameters else None

        name = str(onnx_metadata(self._node).get("name", self._node.id))
        return lower_call(
            self._builder,
            Call(
                function=function,
                where=self._where(function),
                name=name if sole else f"{name}.{result}",
                given=tuple(given),
                outputs=self._used.get(result, 1),
                argument=argument,
                option=option,
                metadata_props=_metadata_props(self._node) if sole else {},
                doc_string=onnx_metadata(self._node).get("doc_string") if sole else None,
            ),
        )

    def _knows(self, name: str) -> bool:
        return name in self._values or name in self._parameters or name in self._functions

    def _operand(self, value: Any, name: str) -> Operand | list[Operand]:
        """Return what a value in the file stands for: a constant, a name, or an expression."""
        if isinstance(value, np.ndarray):
            hint = f"{self._node.id}.{name}"
            parameter = self._parameters.get(name)
            if parameter is not None:
                hint = str(onnx_metadata(parameter).get("name") or hint)
            return self._builder.constant(value, hint)
        if isinstance(value, list):
            if value and all(isinstance(part, str) and self._knows(part) for part in value):
                return [operand for part in value for operand in self._lookup(part)]
            array = np.array(value)
            text = array.astype(object) if array.dtype.kind == "U" else array
            return Literal(text, listed=True, name=f"{self._node.id}.{name}")
        if isinstance(value, str):
            if self._knows(value):
                return self._named(value)
            constant = expressions.literal(value)
            if isinstance(constant, list) and constant and all(isinstance(part, str) for part in constant):
                return self._operand(constant, name)
            return self._expressions.lower(expressions.parse(value))
        if isinstance(value, (bool, int, float, complex, np.generic)):
            return Literal(value, name=f"{self._node.id}.{name}")
        raise UnsupportedError(
            f"{self._where()}: {name!r} is {type(value).__name__}; "
            "expected a number, array, name or expression"
        )

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
    texts = [port.value for port in node.output_ports]
    texts += [function.value for function in node.functions]
    for part in (*node.functions, *node.parameters):
        texts += list((part.args or {}).values())
    used: dict[str, int] = {}
    for text in texts:
        if not isinstance(text, str) or "[" not in text:
            continue
        for tree in ast.walk(expressions.parse(text)):
            match tree:
                case ast.Subscript(value=ast.Name(id=name), slice=ast.Constant(value=int(position))):
                    used[name] = max(used.get(name, 1), position + 1)
    functions = {f.id for f in node.functions} | {p.id for p in node.parameters if p.function}
    return {name: count for name, count in used.items() if name in functions}


def _metadata_props(node: Node) -> dict[str, str]:
    kept = dict(node.metadata or {})
    onnx = kept.pop("onnx", {})
    props = {str(key): str(text) for key, text in onnx.get("metadata_props", {}).items()}
    if kept:
        props[METADATA + "metadata"] = json.dumps(kept, default=str)
    return props
