"""Builds a typed ONNX graph node by node: every value knows its dtype and, where possible, its shape."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnx_ir as ir

from mdf_scatter.errors import ModelError, UnsupportedError
from mdf_scatter.lower.protos import extras_of, node_proto, value_proto
from mdf_scatter.names import Names
from mdf_scatter.ops import OPS
from mdf_scatter.signatures import schema_of
from mdf_scatter.tensors import ir_tensor

WORKING_OPSET = 18
"""The first operator set that has every reduction of ScatterND."""

# Larger constants cannot be shapes or axes, which is all that shape inference reads values for.
_READ_BY_INFERENCE = 1024


@dataclass(frozen=True)
class Literal:
    """A value written in the model as plain Python: it takes the dtype of what it meets.

    Attributes:
        value: A Python number, or an array made from a list (`listed`).
        listed: True for a list; MDF's engine turns it into an array of NumPy's default dtype.
        name: The name its initializer should get.
    """

    value: Any
    listed: bool = False
    name: str | None = None


Operand = ir.Value | Literal

WEAK = "mdf_scatter.weak"
"""Key of `Value.meta`: the Python type of a value that takes the dtype of what it meets."""

HELD = "mdf_scatter.held"
"""Key of `Value.meta` of a plain Python number or list that is an initializer of its own all the same."""


class Builder:
    """Collects the nodes and initializers of one ONNX graph.

    Args:
        opset_imports: Operator set version of each domain.
        outer: The builder of the enclosing graph, whose values may be used here.
        functions: Domain and name of each model-local function.

    Attributes:
        values: The values that have their final names, by name.
        sparse: The initializers that are sparse, and what they hold.
        subgraph: Gives the graph that an id in the model stands for, with this one around it.
        trusts_types: Whether the types that ports declare need no inference beside them.
        is_lifted: Whether the graph was lifted from ONNX, and its operators mean what they mean there.
    """

    def __init__(
        self,
        opset_imports: Mapping[str, int],
        *,
        outer: Builder | None = None,
        functions: Collection[tuple[str, str]] = (),
    ) -> None:
        self.opset_imports = dict(opset_imports)
        self.nodes: list[ir.Node] = []
        self.initializers: dict[str, ir.Value] = {}
        self.values: dict[str, ir.Value] = {}
        self.sparse: list[tuple[ir.Value, Mapping[str, Any]]] = []
        self.functions = functions
        self.subgraph: Callable[[str], ir.Graph] | None = None
        self.trusts_types = self.is_lifted = False
        self._outer = outer
        self._arrays: dict[str, npt.NDArray[Any]] = {}
        self._taken = Names()
        self._node_names = Names()

    def inner(self) -> Builder:
        """Return a builder of a graph inside this one; no two values or nodes of both get one name."""
        inner = Builder(self.opset_imports, outer=self, functions=self.functions)
        inner._taken, inner._node_names = self._taken, self._node_names
        return inner

    def reserve(self, names: Sequence[str], nodes: Sequence[str] = ()) -> None:
        """Keep names of values, and of nodes, for others: none gets one of them by itself."""
        self._taken.add(names)
        self._node_names.add(nodes)

    def free_name(self, wanted: str) -> str:
        """Return `wanted`, or the first of `wanted_1`, `wanted_2`, ... that no value seen here has."""
        name = self._taken.take(wanted)
        while self._outer is not None and self._outer.value(name) is not None:
            name = self._taken.take(wanted)
        return name

    def value(self, name: str) -> ir.Value | None:
        """Return the value of a name, here or in the graphs around; None where there is none."""
        builder: Builder | None = self
        while builder is not None:
            found = builder.values.get(name) or builder.initializers.get(name)
            if found is not None:
                return found
            builder = builder._outer
        return None

    def outer_value(self, name: str) -> ir.Value:
        """Return the value of a name in the graphs around.

        Raises:
            ModelError: There is none.
        """
        found = None if self._outer is None else self._outer.value(name)
        if found is None:
            raise ModelError(f"no enclosing graph has a value {name!r}")
        return found

    def constant(self, array: npt.ArrayLike, name: str) -> ir.Value:
        """Add an initializer; one that is there already under this name with this value is used."""
        array = np.asarray(array)
        if name in self._arrays and _same(self._arrays[name], array):
            return self.initializers[name]
        name = self.free_name(name)
        self._arrays[name] = array
        self.initializers[name] = ir.val(name, const_value=ir_tensor(array, name))
        return self.initializers[name]

    def held_constant(self, value: Any, name: str) -> ir.Value:
        """Add an initializer that stays as it is, though the file gives a number or a list for it."""
        is_plain = not isinstance(value, np.ndarray)
        constant = self.constant(np.asarray(value, np.float64) if is_plain else value, name)
        if is_plain:
            constant.meta[HELD] = True
        if isinstance(value, (int, float)):
            constant.meta[WEAK] = float
        return constant

    def sparse_constant(self, value: Mapping[str, Any], name: str) -> ir.Value:
        """Add a sparse initializer, which stands for a dense tensor; it gets its final name by `rename`."""
        dtype = ir.DataType.from_numpy(np.asarray(value["values"]).dtype)
        constant = ir.val(self.free_name(name), dtype, list(value["dims"]))
        self.sparse.append((constant, value))
        return constant

    def input_with_default(
        self, name: str, array: npt.NDArray[Any], shape: Sequence[int | str | None] | None
    ) -> ir.Value:
        """Add a graph input of a reserved name whose default is an initializer of that name."""
        value = self.initializers[name] = ir.val(name, const_value=ir_tensor(array, name))
        if shape is not None:
            value.shape = ir.Shape(shape)
        return value

    def rename(self, value: ir.Value, name: str, *, reserved: bool) -> None:
        """Give a value its final name; a reserved name is taken as it is."""
        self._taken.free(str(value.name))
        initializer = self.initializers.pop(str(value.name), None)
        value.name = name if reserved else self.free_name(name)
        if initializer is not None:
            self.initializers[value.name] = initializer

    def rename_node(self, node: ir.Node, name: str) -> None:
        """Give a node its final name, or the next free one."""
        self._node_names.free(str(node.name))
        node.name = self._node_name(name)

    def materialise(self, operand: Operand, dtype: npt.DTypeLike | None = None) -> ir.Value:
        """Return an operand as a value; a literal becomes an initializer of `dtype`."""
        if isinstance(operand, ir.Value):
            return operand
        array = np.asarray(operand.value)
        if dtype is not None and array.dtype != dtype:
            array = array.astype(dtype)
        return self.constant(array, operand.name or "constant")

    def op(
        self,
        op_type: str,
        inputs: Sequence[ir.Value | None],
        attributes: Mapping[str, Any] | None = None,
        *,
        name: str,
        domain: str = "",
        outputs: Sequence[str] | int = 1,
        metadata_props: dict[str, str] | None = None,
        doc_string: str | None = None,
    ) -> list[ir.Value]:
        """Add a node and return its outputs, typed by ONNX's own inference.

        Args:
            op_type: The operator.
            inputs: Values in the operator's order; None for an optional input that is left out.
            attributes: Python values, `ir.Attr`, or messages for what that has no form for.
            name: Name of the node; a number is added where another node has it.
            domain: The operator's domain.
            outputs: Names of the outputs, or how many there are to be named after the node.
            metadata_props: Texts to keep with the node.
            doc_string: Documentation to keep with the node.

        Raises:
            UnsupportedError: The operator's inference refuses the inputs.
        """
        names = outputs if not isinstance(outputs, int) else [f"{name}_{i}" for i in range(outputs)]
        values = [ir.Value(name=self.free_name(text) if text else "") for text in names]
        messages = [part for part in (attributes or {}).values() if isinstance(part, onnx.AttributeProto)]
        typed = {
            key: part for key, part in (attributes or {}).items() if not isinstance(part, onnx.AttributeProto)
        }
        node = ir.node(
            op_type,
            list(inputs),
            typed,
            domain=domain,
            outputs=values,
            name=self._node_name(name),
            metadata_props=metadata_props or {},
            doc_string=doc_string,
        )
        if messages:
            extras_of(node).attributes = messages
            extras_of(node).order = list(attributes or {})
        self.nodes.append(node)
        if not self.trusts_types and (domain, op_type) not in self.functions:
            self._infer(node)
        return values

    def cast(self, value: ir.Value, dtype: np.dtype[Any], name: str) -> ir.Value:
        """Return the value in another dtype."""
        if value.dtype is not None and value.dtype.numpy() == dtype:
            return value
        return self.op("Cast", [value], {"to": int(ir.DataType.from_numpy(dtype))}, name=f"{name}.cast")[0]

    def _node_name(self, wanted: str) -> str:
        return self._node_names.take(wanted) if wanted else ""

    def _infer(self, node: ir.Node) -> None:
        opset = self.opset_imports.get(node.domain)
        if opset is not None and node.domain == "" and node.op_type in OPS:
            # A reduction may be newer than the model; `move_to_opset` settles that at the end.
            opset = max(opset, WORKING_OPSET)
        schema = schema_of(node.op_type, node.domain, opset)
        if schema is None:
            return
        read = [value for value in node.inputs if value is not None]
        if any(value.type is None for value in read) or any(map(ir.Attr.is_ref, node.attributes.values())):
            # What an attribute of the function around holds, only a call of it says.
            return
        constants = {
            str(value.name): ir.to_proto(value.const_value)
            for value in read
            if value.const_value is not None and value.const_value.size <= _READ_BY_INFERENCE
        }
        try:
            found = onnx.shape_inference.infer_node_outputs(
                schema,
                node_proto(node),
                _types(node),
                constants,
                opset_imports=[onnx.helper.make_opsetid(d, v) for d, v in self.opset_imports.items()],
            )
        except (onnx.shape_inference.InferenceError, onnx.checker.ValidationError) as error:
            if _has_graphs(node):
                # Inference of one node sees no value around the graphs inside it.
                return
            reason = str(error).strip().splitlines()[-1]
            raise UnsupportedError(f"{node.op_type} {node.name!r}: {reason}") from error
        if node.op_type == "GatherND":
            _scalar_result(node)
        for value in node.outputs:
            if value.name in found:
                value.type = ir.serde.deserialize_type_proto_for_type(found[value.name])
                shape = ir.serde.deserialize_type_proto_for_shape(found[value.name])
                # A scalar's shape is empty, and as false as none.
                value.shape = value.shape if shape is None else shape


def _has_graphs(node: ir.Node) -> bool:
    kinds = (ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS)
    return any(attribute.type in kinds for attribute in node.attributes.values())


def _scalar_result(node: ir.Node) -> None:
    """ONNX's inference knows no shape for a GatherND of one element; it is a scalar."""
    data, indices = node.inputs[:2]
    if data is None or indices is None or data.shape is None or indices.shape is None:
        return
    if len(indices.shape) == 1 and indices.shape[0] == len(data.shape):
        node.outputs[0].shape = ir.Shape([])


def _same(a: npt.NDArray[Any], b: npt.NDArray[Any]) -> bool:
    # Bits, not values: -0.0 is not 0.0, and NaN is NaN.
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    return a is b or (bool((a == b).all()) if a.dtype == object else a.tobytes() == b.tobytes())


def _types(node: ir.Node) -> dict[str, onnx.TypeProto]:
    """Return what inference is to know of a node's inputs.

    Our operators take indices of any integer dtype, ONNX's schemas only int64; export casts them.
    """
    op = OPS.get(node.op_type) if node.domain == "" else None
    names = op.inputs if op is not None else ()
    types: dict[str, onnx.TypeProto] = {}
    for position, value in enumerate(node.inputs):
        if value is None:
            continue
        proto = value_proto(value).type
        if op is not None and position < len(names) and names[position] in op.integers:
            proto.tensor_type.elem_type = onnx.TensorProto.INT64
        types[str(value.name)] = proto
    return types
