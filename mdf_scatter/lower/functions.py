"""What a function named in an MDF file means as ONNX nodes: ours, ONNX's own, or a standard function.

A standard function (linear, logistic, ...) means the expression that modeci-mdf registers for it, so
there is one definition of each and it is not here.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnx_ir as ir

from mdf_scatter import expressions
from mdf_scatter.dtypes import name_of
from mdf_scatter.errors import UnsupportedError
from mdf_scatter.lower.builder import Builder, Operand
from mdf_scatter.lower.expressions import ExpressionLowering
from mdf_scatter.ops import OPS, Op
from mdf_scatter.tensors import ir_tensor

METADATA = "mdf_scatter."
"""What starts the keys of `metadata_props` that this package writes."""

NODE = "mdf_scatter.node"
"""Key of `Node.meta`: the name of the MDF node that an ONNX node is a part of."""

CARRIED = ("training", "lda_coeff", "specified_outputs_name")
"""Parameters of our nodes that ONNX has no attribute for; they travel in `metadata_props`."""


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


def lower_call(builder: Builder, call: Call) -> list[Operand]:
    """Add the nodes of a function and return its results.

    Raises:
        UnsupportedError: The function has no form in ONNX.
    """
    family = call.function.removeprefix("onnx::")
    if family in OPS:
        return [_family(builder, call, OPS[family])]
    if "::" in call.function:
        return list(_onnx(builder, call))
    return [_standard(builder, call)]


def _family(builder: Builder, call: Call, op: Op) -> ir.Value:
    inputs = [_tensor(builder, call, op, name) for name in op.inputs]
    given = {name: call.option(name) for name in (*op.attributes, *CARRIED)}
    given = {name: value for name, value in given.items() if value is not None}
    attributes = {name: value for name, value in given.items() if name in op.attributes}
    emit = _Emit(builder, call)
    if op.onnx_form is None:
        while inputs[-1] is None:
            inputs.pop()
        result = emit(op.name, *inputs, **attributes)
    else:
        result = op.onnx_form(emit, *inputs, **attributes)
    carried = {METADATA + name: json.dumps(given[name]) for name in CARRIED if name in given}
    return emit.finish(result, call.metadata_props | carried)


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


def _tensor(builder: Builder, call: Call, op: Op, name: str) -> ir.Value | None:
    operand = call.argument(name)
    if operand is None and name in op.optional:
        return None
    if operand is None or isinstance(operand, list):
        problem = "is missing" if operand is None else "is a list of values; expected one"
        raise UnsupportedError(f"{call.where}: argument {name!r} {problem}")
    value = builder.materialise(operand)
    if name in op.integers and value.dtype is not None and not value.dtype.is_integer():
        found = "string" if value.dtype == ir.DataType.STRING else name_of(value.dtype.numpy())
        raise UnsupportedError(f"{call.where}: {name} has dtype {found}; expected an integer dtype")
    return value


def _onnx(builder: Builder, call: Call) -> list[ir.Value]:
    domain, _, op_type = call.function.rpartition("::")
    domain = "" if domain == "onnx" else domain
    opset = builder.opset_imports.get(domain)
    if opset is None or not onnx.defs.has(op_type, max_inclusive_version=opset, domain=domain):
        raise UnsupportedError(f"{call.where}: {call.function} is not in opset {opset} of domain {domain!r}")
    schema = onnx.defs.get_schema(op_type, max_inclusive_version=opset, domain=domain)
    formal = [
        (parameter.type_str, value)
        for parameter in schema.inputs
        for value in _flat(call.argument(parameter.name))
    ]
    kinds = {kind: value.dtype for kind, value in formal if isinstance(value, ir.Value)}
    inputs = [_weak(builder, value, kinds.get(kind)) for kind, value in formal]
    while inputs and inputs[-1] is None:
        inputs.pop()
    if len(inputs) < schema.min_input:
        missing = schema.inputs[len(inputs)].name
        raise UnsupportedError(f"{call.where}: argument {missing!r} of {call.function} is missing")
    attributes = {
        name: attribute(name, value, attribute_type(schema, name))
        for name in dict.fromkeys((*call.given, *schema.attributes))
        if name in schema.attributes and (value := call.option(name)) is not None
    }
    return builder.op(
        op_type,
        inputs,
        attributes,
        name=call.name,
        domain=domain,
        outputs=call.outputs,
        metadata_props=call.metadata_props,
        doc_string=call.doc_string,
    )


def attribute_type(schema: onnx.defs.OpSchema, name: str) -> ir.AttributeType:
    """Return the kind that an operator declares for an attribute."""
    return ir.AttributeType[str(schema.attributes[name].type).rpartition(".")[2]]


def _flat(operand: Operand | list[Operand] | None) -> list[Operand | None]:
    return list(operand) if isinstance(operand, list) else [operand]


def _weak(builder: Builder, operand: Operand | None, dtype: ir.DataType | None) -> ir.Value | None:
    # A plain number or list beside a typed tensor takes that tensor's dtype: ONNX promotes nothing.
    if operand is None or isinstance(operand, ir.Value):
        return operand
    return builder.materialise(operand, None if dtype is None else dtype.numpy())


def attribute(name: str, value: Any, kind: ir.AttributeType) -> ir.Attr:
    """Return a Python value as an ONNX attribute of the kind that the operator declares."""
    if kind is ir.AttributeType.TENSOR:
        return ir.Attr(name, kind, ir_tensor(np.asarray(value)))
    if kind in (ir.AttributeType.INTS, ir.AttributeType.FLOATS, ir.AttributeType.STRINGS):
        item = {
            ir.AttributeType.INTS: int,
            ir.AttributeType.FLOATS: float,
            ir.AttributeType.STRINGS: str,
        }[kind]
        return ir.Attr(name, kind, [item(part) for part in np.atleast_1d(np.asarray(value)).tolist()])
    single: Mapping[ir.AttributeType, Callable[[Any], Any]] = {
        ir.AttributeType.INT: int,
        ir.AttributeType.FLOAT: float,
        ir.AttributeType.STRING: str,
    }
    if kind not in single:
        raise UnsupportedError(f"attribute {name!r} of kind {kind.name} cannot be written from an MDF value")
    return ir.Attr(name, kind, single[kind](value))


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
