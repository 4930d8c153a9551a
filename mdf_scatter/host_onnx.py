"""ONNX operators for modeci-mdf's engine, one at a time, with ONNX's versions and dtypes."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnx_ir as ir

from mdf_scatter.attributes import attribute
from mdf_scatter.errors import MdfScatterError, OperatorError
from mdf_scatter.host_nodes import Versioned
from mdf_scatter.host_values import texts
from mdf_scatter.lower.builder import Builder
from mdf_scatter.plan import Plan
from mdf_scatter.signatures import signature

Types = tuple[tuple[str, str, int], ...]
"""Name, dtype and rank of each input."""


def evaluate_onnx(operator: Versioned, scope: Mapping[str, Any]) -> Any:
    """Compute an ONNX operator from the names that the engine gives to an expression.

    Returns:
        The result, or a list of results where they are read by position.

    Raises:
        OperatorError: The operator does not take what it is given.
    """
    schema = onnx.defs.get_schema(operator.op_type, max_inclusive_version=operator.opset)
    inputs: dict[str, npt.NDArray[Any]] = {}
    order: list[str] = []
    for formal in schema.inputs:
        value = scope.get(formal.name)
        variadic = formal.option == onnx.defs.OpSchema.FormalParameterOption.Variadic
        values = [] if value is None else list(value) if variadic else [value]
        for position, part in enumerate(values):
            order.append(f"{formal.name}_{position}" if variadic else formal.name)
            inputs[order[-1]] = np.asarray(part)
        if not values:
            order.append("")
    attributes = {name: scope[name] for name in schema.attributes if scope.get(name) is not None}
    attributes |= texts(schema.attributes, attributes)
    if "sparse_value" in attributes:
        # The parameter holds a dense array by now.
        attributes = {"value": attributes["sparse_value"]}
    try:
        results = _plan(operator, order, inputs, attributes).run(inputs)
    except OperatorError:
        raise
    except MdfScatterError as error:
        raise OperatorError(f"onnx::{operator.op_type}", str(error)) from error
    arrays = list(results.values())
    return arrays[0] if operator.results is None else arrays


def _plan(
    operator: Versioned,
    order: list[str],
    inputs: Mapping[str, npt.NDArray[Any]],
    attributes: Mapping[str, Any],
) -> Plan:
    known = signature(operator.op_type, "", operator.opset)
    kinds = {} if known is None else known.attributes
    written = []
    for name, value in attributes.items():
        typed = attribute(name, value, kinds[name])
        proto = typed if isinstance(typed, onnx.AttributeProto) else ir.to_proto(typed)
        written.append(proto.SerializeToString())
    types = tuple((name, str(array.dtype), array.ndim) for name, array in inputs.items())
    return _cached_plan(operator, tuple(order), types, tuple(written))


@lru_cache(maxsize=1024)
def _cached_plan(
    operator: Versioned, order: tuple[str, ...], types: Types, written: tuple[bytes, ...]
) -> Plan:
    builder = Builder({"": operator.opset})
    values = {name: ir.val(name, _type(dtype), [None] * rank) for name, dtype, rank in types}
    builder.reserve(list(values))
    attributes = [ir.from_proto(onnx.AttributeProto.FromString(data)) for data in written]
    given = [values.get(name) for name in order]
    while given and given[-1] is None:
        given.pop()
    outputs = builder.op(
        operator.op_type,
        given,
        {item.name: item for item in attributes},
        name=operator.op_type,
        outputs=operator.results or 1,
    )
    graph = ir.Graph(
        list(values.values()), outputs, nodes=builder.nodes, opset_imports=builder.opset_imports, name="one"
    )
    return Plan(ir.Model(graph, ir_version=8))


def _type(dtype: str) -> ir.DataType:
    return (
        ir.DataType.STRING
        if dtype in ("object", "StringDType()") or dtype.startswith("<U")
        else (ir.DataType.from_numpy(np.dtype(dtype)))
    )
