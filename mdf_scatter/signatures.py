"""What ONNX's operators take, by name and version."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import onnx
import onnx_ir as ir


@dataclass(frozen=True)
class Formal:
    """An input that an operator declares.

    Attributes:
        name: Its name.
        type_str: What inputs of one type share, such as `T`.
        variadic: Whether it stands for any number of values.
    """

    name: str
    type_str: str
    variadic: bool


@dataclass(frozen=True)
class Signature:
    """What an operator takes.

    Attributes:
        inputs: Its inputs, in order; a variadic one is the last.
        least: How many inputs it cannot do without.
        attributes: The kind of each attribute.
        optional_outputs: Positions of the outputs that may be left out.
    """

    inputs: tuple[Formal, ...]
    least: int
    attributes: dict[str, ir.AttributeType]
    optional_outputs: frozenset[int]


@cache
def signature(op_type: str, domain: str, opset: int | None) -> Signature | None:
    """Return what an operator takes; None where ONNX has no schema of it in that operator set."""
    schema = schema_of(op_type, domain, opset)
    if schema is None:
        return None
    option = onnx.defs.OpSchema.FormalParameterOption
    return Signature(
        tuple(Formal(part.name, part.type_str, part.option == option.Variadic) for part in schema.inputs),
        schema.min_input,
        {
            name: ir.AttributeType[str(part.type).rpartition(".")[2]]
            for name, part in schema.attributes.items()
        },
        frozenset(place for place, part in enumerate(schema.outputs) if part.option == option.Optional),
    )


@cache
def schema_of(op_type: str, domain: str, opset: int | None) -> onnx.defs.OpSchema | None:
    """Return an operator's schema in an operator set; None where ONNX has none."""
    if opset is None or not onnx.defs.has(op_type, max_inclusive_version=opset, domain=domain):
        return None
    return onnx.defs.get_schema(op_type, max_inclusive_version=opset, domain=domain)
