"""What a function named in an MDF file means as ONNX nodes: ours, ONNX's own, or a standard function.

A standard function (linear, logistic, ...) means the expression that modeci-mdf registers for it, so
there is one definition of each and it is not here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnx_ir as ir

from mdf_scatter import expressions
from mdf_scatter.attributes import attribute, is_reference, kind_of
from mdf_scatter.dtypes import name_of
from mdf_scatter.errors import UnsupportedError
from mdf_scatter.lower.builder import HELD, Builder, Operand
from mdf_scatter.lower.expressions import ExpressionLowering
from mdf_scatter.lower.plain import as_mdf_gives, as_tensor, dtype_beside, dtype_of_integers, is_plain
from mdf_scatter.ops import OPS, Op
from mdf_scatter.ops.plain import of_one_dtype
from mdf_scatter.signatures import Signature, signature

METADATA = "mdf_scatter."
"""What starts the keys of `metadata_props` that this package writes."""

NODE = "mdf_scatter.node"
"""Key of `Node.meta`: the name of the MDF node that an ONNX node is a part of."""

CARRIED = ("training", "lda_coeff", "specified_outputs_name")
"""Parameters of our nodes that ONNX has no attribute for; they travel in `metadata_props`."""

POSITIONAL = "input_"
"""What the arguments of operators without a schema are called, before their position."""

_DOMAINS = frozenset(schema.domain for schema in onnx.defs.get_all_schemas())
"""Domains whose operators are all known."""


@dataclass(frozen=True)
class Call:
    """One use of a function in a node.

    Attributes:
        function: The function's name in the file.
        where: Names the node, for messages.
        name: Name of the ONNX node.
        given: Names of the arguments that the file writes, in its order.
        outputs: How many results of it are used.
        argument: Gives the operand, or operands, of an argument; None where it is left out.
        option: Gives the constant Python value of an argument; None where it is left out.
        metadata_props: Texts to keep with the ONNX node.
        doc_string: Documentation to keep with the ONNX node.
        kept: Gives what the metadata keeps of ONNX for the parameter that an argument names.
    """

    function: str
    where: str
    name: str
    given: tuple[str, ...]
    outputs: int
    argument: Callable[[str], Operand | list[Operand] | None]
    option: Callable[[str], Any]
    metadata_props: dict[str, str]
    doc_string: str | None
    kept: Callable[[str], Mapping[str, Any]] = field(default=lambda name: {})


def lower_call(builder: Builder, call: Call) -> list[Operand]:
    """Add the nodes of a function and return its results.

    Raises:
        UnsupportedError: The function has no form in ONNX.
    """
    domain, _, op_type = call.function.rpartition("::")
    family = call.function.removeprefix("onnx::")
    if family in OPS and ("", family) not in builder.functions:
        return [_family(builder, call, OPS[family])]
    if domain or ("", op_type) in builder.functions:
        return list(_onnx(builder, call, "" if domain == "onnx" else domain, op_type))
    return [_standard(builder, call)]


def _family(builder: Builder, call: Call, op: Op) -> ir.Value:
    inputs = _tensors(builder, call, op)
    known = (*op.attributes, *CARRIED)
    written = [name for name in call.given if name in known]
    given = {name: call.option(name) for name in dict.fromkeys((*written, *known))}
    given = {name: value for name, value in given.items() if value is not None}
    attributes = {
        name: _referred(call, name, value) for name, value in given.items() if name in op.attributes
    }
    emit = _Emit(builder, call)
    if op.onnx_form is None:
        while inputs[-1] is None:
            inputs.pop()
        result = emit(op.name, *inputs, **attributes)
    else:
        result = op.onnx_form(emit, *inputs, **attributes)
    node = result.producer()
    for name in written:
        # The order in which they stand is that of the file, not that of the operator's table.
        if node is not None and name in node.attributes:
            node.attributes[name] = node.attributes.pop(name)
    carried = {METADATA + name: _written(given[name]) for name in CARRIED if name in given}
    return emit.finish(result, call.metadata_props | carried)


def _written(value: Any) -> str:
    return json.dumps(value.tolist() if isinstance(value, (np.ndarray, np.generic)) else value, default=str)


def _referred(call: Call, name: str, value: Any) -> Any:
    """Return an attribute's value, or what stands for one that the function around decides."""
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    if isinstance(value, (str, int, np.integer, np.bool_)):
        return value
    if not is_reference(value):
        raise UnsupportedError(
            f"{call.where}: attribute {name!r} is of type {type(value).__name__};"
            " expected a text or an integer"
        )
    kind = {"reduction": ir.AttributeType.STRING, "mode": ir.AttributeType.STRING}
    return attribute(name, value, kind.get(name, ir.AttributeType.INT))


class _Emit:
    """Writes the nodes of one call of one of our operators."""

    def __init__(self, builder: Builder, call: Call) -> None:
        self._builder = builder
        self._call = call

    def __call__(self, op_type: str, *inputs: ir.Value | None, **attributes: Any) -> ir.Value:
        if op_type == "Cast":
            attributes = {"to": int(ir.DataType.from_numpy(attributes["to"]))}
        name = f"{self._call.name}.{op_type}"
        value = self._builder.op(op_type, inputs, attributes, name=name)[0]
        node = value.producer()
        if node is not None:
            node.meta[NODE] = self._call.name
        return value

    def constant(self, array: npt.ArrayLike) -> ir.Value:
        return self._builder.constant(array, f"{self._call.name}.constant")

    def dtype(self, value: ir.Value) -> np.dtype[Any]:
        if value.dtype is None:
            raise UnsupportedError(
                f"{self._call.where}: the dtype of {value.name!r} is not known; give its port a type"
            )
        return np.dtype(object) if value.dtype == ir.DataType.STRING else value.dtype.numpy()

    def finish(self, result: ir.Value, metadata_props: dict[str, str]) -> ir.Value:
        """Give the node that makes the result the name and the texts of the call."""
        node = result.producer()
        if node is not None:
            self._builder.rename_node(node, self._call.name)
            node.metadata_props.update(metadata_props)
            node.doc_string = self._call.doc_string
        return result


def _tensors(builder: Builder, call: Call, op: Op) -> list[ir.Value | None]:
    given = {name: operand for name in op.inputs if (operand := _operand(call, op, name)) is not None}
    alike = [name for name in of_one_dtype(op) if name in given]
    dtype = dtype_beside([given[name] for name in alike])
    values: dict[str, ir.Value] = {}
    for name, operand in given.items():
        beside = dtype if name in alike else dtype_of_integers(operand)
        values[name] = as_tensor(builder, operand, beside if is_plain(operand) else None, call.name)
    found = {name: _dtype_name(value.dtype) for name, value in values.items() if value.dtype is not None}
    for name in op.integers:
        if name in found and "int" not in found[name]:
            raise UnsupportedError(f"{call.where}: {name} has dtype {found[name]}; expected an integer dtype")
    for name in alike[1:]:
        if name in found and found.get(alike[0], found[name]) != found[name]:
            problem = f"{name} has dtype {found[name]} and {alike[0]} has {found[alike[0]]}"
            raise UnsupportedError(
                f"{call.where}: {problem}; expected the same dtype: cast one of them first, with astype"
            )
    return [values.get(name) for name in op.inputs]


def _operand(call: Call, op: Op, name: str) -> Operand | None:
    operand = call.argument(name)
    if operand is None and name in op.optional:
        return None
    if operand is None or isinstance(operand, list):
        problem = "is missing" if operand is None else "is a list of values; expected one"
        raise UnsupportedError(f"{call.where}: argument {name!r} {problem}")
    return operand


def _dtype_name(dtype: ir.DataType) -> str:
    return "string" if dtype == ir.DataType.STRING else name_of(dtype.numpy())


def _onnx(builder: Builder, call: Call, domain: str, op_type: str) -> list[ir.Value]:
    known, opset = None, builder.opset_imports.get(domain)
    if (domain, op_type) not in builder.functions:
        known = signature(op_type, domain, opset)
        if known is None and domain in _DOMAINS:
            raise UnsupportedError(
                f"{call.where}: {call.function} is not in opset {opset} of domain {domain!r}"
            )
        builder.opset_imports.setdefault(domain, 1)
    formal = _formal(builder, call, op_type, known)
    kinds = {
        kind: value.dtype
        for kind, value in formal
        if kind and isinstance(value, ir.Value) and HELD not in value.meta
    }
    inputs = [_beside(builder, value, kinds.get(kind), call.name) for kind, value in formal]
    while inputs and inputs[-1] is None:
        inputs.pop()
    if known is not None and len(inputs) < known.least:
        missing = known.inputs[len(inputs)]
        hint = f"; give all of them as one list, as in {missing.name}: [a, b]" if missing.variadic else ""
        raise UnsupportedError(f"{call.where}: argument {missing.name!r} of {call.function} is missing{hint}")
    return builder.op(
        op_type,
        inputs,
        _attributes(builder, call, known),
        name=call.name,
        domain=domain,
        outputs=call.outputs,
        metadata_props=call.metadata_props,
        doc_string=call.doc_string,
    )


def _formal(
    builder: Builder, call: Call, op_type: str, known: Signature | None
) -> list[tuple[str, Operand | None]]:
    """Return what is given for each input, and what inputs of one type share."""
    if known is not None and not any(map(_position, call.given)):
        return [
            (part.type_str, value)
            for part in known.inputs
            for value in as_mdf_gives(builder, op_type, part.name, _flat(call.argument(part.name)))
        ]
    places = {int(match[1]): name for name in call.given if (match := _position(name))}
    found: list[tuple[str, Operand | None]] = []
    for place in range(max(places, default=-1) + 1):
        operand = call.argument(places[place]) if place in places else None
        if isinstance(operand, list):
            raise UnsupportedError(
                f"{call.where}: argument {places[place]!r} is a list of values; expected one"
            )
        found.append(("", operand))
    return found


def _position(name: str) -> re.Match[str] | None:
    return re.fullmatch(POSITIONAL + r"(\d{1,6})", name)


def _attributes(
    builder: Builder, call: Call, known: Signature | None
) -> dict[str, ir.Attr | onnx.AttributeProto]:
    declared = {} if known is None else known.attributes
    inputs = {part.name for part in known.inputs} if known is not None else set()
    found: dict[str, ir.Attr | onnx.AttributeProto] = {}
    for name in dict.fromkeys((*call.given, *declared)):
        if name in inputs or (_position(name) and name not in declared):
            continue
        kept = call.kept(name)
        kind = _kind(kept.get("kind")) or declared.get(name)
        if kind is None and known is not None:
            # What an operator has no attribute for is a setting of ours, or nothing.
            continue
        value = call.option(name)
        if value is None:
            continue
        kind = kind or kind_of(value)
        if kind is None:
            raise UnsupportedError(
                f"{call.where}: attribute {name!r} is {value!r}, which may be of several kinds; "
                "say which one in the parameter's metadata, as in onnx: {kind: ints}"
            )
        try:
            found[name] = attribute(name, value, kind, subgraph=builder.subgraph, kept=kept)
        except UnsupportedError as error:
            raise UnsupportedError(f"{call.where}: {error}") from error
    return found


def _kind(name: Any) -> ir.AttributeType | None:
    return ir.AttributeType.__members__.get(str(name).upper()) if name is not None else None


def _flat(operand: Operand | list[Operand] | None) -> list[Operand | None]:
    return list(operand) if isinstance(operand, list) else [operand]


def _beside(
    builder: Builder, operand: Operand | None, dtype: ir.DataType | None, name: str
) -> ir.Value | None:
    if operand is None or (isinstance(operand, ir.Value) and HELD not in operand.meta):
        return operand
    return as_tensor(builder, operand, None if dtype is None else dtype.numpy(), name)


def _standard(builder: Builder, call: Call) -> Operand:
    from modeci_mdf.functions.standard import mdf_functions

    known = mdf_functions.get(call.function)
    if known is None or "actr." in known["expression_string"] or "ddm." in known["expression_string"]:
        raise UnsupportedError(f"{call.where}: function {call.function!r} has no form in ONNX")

    def resolve(name: str) -> Operand | list[Operand]:
        operand = call.argument(name)
        if operand is None:
            raise UnsupportedError(f"{call.where}: argument {name!r} of {call.function} is missing")
        return operand

    lowering = ExpressionLowering(builder, resolve, call.name)
    result = lowering.lower(expressions.parse(known["expression_string"]))
    if isinstance(result, list):
        raise UnsupportedError(f"{call.where}: function {call.function!r} gives a list of values")
    return result
