"""What a rule is, and the table of all rules: how each operator sends gradients back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import onnx_ir as ir

from mdf_scatter.errors import UnsupportedError

if TYPE_CHECKING:
    from mdf_scatter.gradient.emitter import Emitter

Gradient = ir.Value | None | Callable[[], ir.Value | None]
"""The gradient of one input; None where it has none. A function is called only where it is asked for."""

ORIGIN = "mdf_scatter.origin"
"""Key of `Node.meta`: what the node is called that a node of the backward pass computes again."""


@dataclass(frozen=True)
class Stop:
    """A node that sends nothing back, though something comes back to it.

    Attributes:
        node: Name of the node.
        reason: Why.
    """

    node: str
    reason: str


@dataclass(frozen=True, eq=False)
class Call:
    """A node of the forward pass, and what comes back to it.

    Attributes:
        node: The node.
        inputs: The values it reads: its inputs, None where one is left out, and after them what the graphs
            inside it read of the graph around.
        grads: The gradient of each output; None where nothing comes back to it.
        emit: Writes nodes of the backward pass.
        wanted: Positions of the inputs whose gradient is asked for.
        stops: Where gradients stopped in the graphs inside the node; its rule adds them.
    """

    node: ir.Node
    inputs: tuple[ir.Value | None, ...]
    grads: tuple[ir.Value | None, ...]
    emit: Emitter
    wanted: frozenset[int]
    stops: list[Stop] = field(default_factory=list)

    @property
    def output(self) -> ir.Value:
        """The first output."""
        return self.node.outputs[0]

    @property
    def grad(self) -> ir.Value:
        """The gradient of the first output; zeros where only other outputs have one."""
        grad = self.grads[0]
        return self.emit.zeros_like(self.output) if grad is None else grad

    def grad_of(self, position: int) -> ir.Value | None:
        """Return the gradient of an output; None where nothing comes back to it, or it is left out."""
        return self.grads[position] if position < len(self.grads) else None

    def input(self, position: int) -> ir.Value:
        """Return an input that the operator cannot do without."""
        value = self.inputs[position] if position < len(self.inputs) else None
        if value is None:
            raise self.refusal(f"input {position} is missing")
        return value

    def optional(self, position: int) -> ir.Value | None:
        """Return an input; None where it is left out."""
        return self.inputs[position] if position < len(self.node.inputs) else None

    def further(self, position: int, dtype: ir.DataType, shape: ir.Shape | None) -> ir.Value:
        """Return a further output; where it is left out, the node gets it, of this dtype and shape."""
        self.node.resize_outputs(max(len(self.node.outputs), position + 1))
        for value in self.node.outputs:
            value.name = value.name or ""
        output = self.node.outputs[position]
        if not output.name:
            named = next(value.name for value in self.node.outputs if value.name)
            output.name = self.emit.builder.free_name(f"{named}_{position}")
            output.type, output.shape = ir.TensorType(dtype), shape
        return output

    def attribute(self, name: str, default: Any = None) -> Any:
        """Return an attribute's Python value, or the default."""
        found = self.node.attributes.get(name)
        if found is None:
            return default
        value = found.value
        return list(value) if isinstance(value, tuple) else value

    def refusal(self, reason: str) -> UnsupportedError:
        """Return the error that says why this node has no gradient."""
        return UnsupportedError(f"{self.node.op_type} {node_name(self.node)!r}: no gradient: {reason}")


def node_name(node: ir.Node) -> str:
    """Return what a node is called in the forward pass, if it computes again what that one does."""
    return str(node.meta.get(ORIGIN) or node.name or node.outputs[0].name)


Rule = Callable[[Call], Sequence[Gradient]]
"""Gives the gradient of each input of a call, in order; inputs at the end that have none may be left out."""

RULES: dict[tuple[str, str], Rule] = {}
"""Every rule, by domain and operator."""

CONSTANT = frozenset(
    {
        "And", "ArgMax", "ArgMin", "BitShift", "Ceil", "Constant", "ConstantOfShape", "Equal", "EyeLike",
        "Floor", "Greater", "GreaterOrEqual", "Hardmax", "IsInf", "IsNaN", "Less", "LessOrEqual", "NonZero",
        "Not", "Or", "RandomNormalLike", "RandomUniformLike", "Round", "Shape", "Sign", "Size", "Xor",
    }
)  # fmt: skip
"""ONNX's operators whose output changes in steps, or not at all: they send nothing back."""


def rule(*op_types: str, domain: str = "") -> Callable[[Rule], Rule]:
    """Enter a function into `RULES` as the rule of operators.

    Args:
        op_types: Names of the operators.
        domain: Their domain; empty for ONNX's own.

    Raises:
        ValueError: One of them has a rule.

    A rule for an operator of one's own, y = x * x:

    >>> @rule("Square", domain="com.example")
    ... def square(call):
    ...     return [call.emit("Mul", call.grad, call.emit("Mul", 2, call.input(0)))]
    >>> del RULES["com.example", "Square"]
    """

    def enter(function: Rule) -> Rule:
        for op_type in op_types:
            if (domain, op_type) in RULES:
                raise ValueError(f"operator {op_type!r} of domain {domain!r} has a rule already")
            RULES[domain, op_type] = function
        return function

    return enter
