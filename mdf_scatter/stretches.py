"""Cuts a graph into stretches: which nodes run together, and in what."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import onnx
import onnx_ir as ir

from mdf_scatter.errors import NoEngineError
from mdf_scatter.lower.protos import function_protos, node_proto, value_proto
from mdf_scatter.ops import OPS
from mdf_scatter.segment import DISABLED, Segment, is_typed, session_of
from mdf_scatter.signatures import schema_of
from mdf_scatter.tensors import ir_tensor

_DIFFERENT = frozenset({"Attention", "DFT", "MaxUnpool", "STFT"})
"""Operators that onnxruntime computes in another way, or to fewer digits, than ONNX defines them."""

_STATISTICS = 3
"""Outputs of a BatchNormalization that gives its running statistics, mean and variance."""

_RACING = frozenset(name for name in (*OPS, "Scatter") if "Scatter" in name)
"""Operators whose updates onnxruntime splits among threads; gathers are as right there as here."""


class Stretches:
    """Cuts stretches of nodes out of a model.

    Args:
        model: The lowered model.
        constants: Its constants, by name.
    """

    def __init__(self, model: ir.Model, constants: Mapping[str, Any]) -> None:
        self._constants = constants
        self._opsets = dict(model.opset_imports)
        self._local = {key[:2] for key in model.functions}
        self._imports = [onnx.helper.make_opsetid(*entry) for entry in model.opset_imports.items()]
        self._ir_version = max(model.ir_version, 4)
        self._functions = function_protos(model)
        self._bodies = list(model.functions.values())
        self._read = {node: values_read(node) for node in model.graph}
        self._readers: dict[ir.Value, list[ir.Node]] = {}
        for node, values in self._read.items():
            for value in values:
                self._readers.setdefault(value, []).append(node)

    def reads(self, node: ir.Node) -> list[str]:
        """Return the names of the values that a node reads, itself or in the graphs inside it."""
        return [str(value.name) for value in self._read[node]]

    def segments(self, nodes: list[ir.Node]) -> Iterator[Segment]:
        """Give the nodes of a stage as one segment, or in as few as it takes where onnxruntime refuses that.

        Raises:
            NoEngineError: An operator is none that any engine here runs.
        """
        differing = {node for node in nodes if _differs(node)}
        if not differing:
            whole = Segment(self.model(nodes))
            if whole.is_fast:
                yield whole
                return
        for node in nodes:
            self._refuse_foreign(node)
        refused = differing | {node for node in nodes if not self._runs_in_onnxruntime(node)}
        for run in _runs(nodes, refused):
            yield Segment(self.model(run), by_reference=run[0] in refused)

    def model(self, nodes: Sequence[ir.Node]) -> onnx.ModelProto:
        """Return nodes as a model of their own, whose inputs and outputs are what crosses its edge."""
        inside = set(nodes)
        made = {value for node in nodes for value in node.outputs}
        read = {str(value.name): value for node in nodes for value in self._read[node] if value not in made}
        fixed = {
            name for name, value in read.items() if name in self._constants and not value.is_graph_input()
        }
        leaving = [
            value
            for value in made
            if value.name
            and (
                value.is_graph_output()
                or _has_statistics(value.producer())
                or any(reader not in inside for reader in self._readers.get(value, ()))
            )
        ]
        graph = onnx.helper.make_graph(
            [node_proto(node) for node in nodes],
            "segment",
            [value_proto(value) for name, value in read.items() if name not in fixed],
            [value_proto(value) for value in leaving],
            initializer=[self._tensor(read[name]) for name in fixed],
        )
        model = onnx.helper.make_model(
            graph, opset_imports=self._imports, ir_version=self._ir_version, functions=self._functions
        )
        if _may_turn_vector(nodes) or any(map(_may_turn_vector, self._bodies)):
            model.metadata_props.add(key=DISABLED, value="MatmulTransposeFusion")
        return model

    def _refuse_foreign(self, node: ir.Node) -> None:
        if (node.domain, node.op_type) in self._local:
            return
        if schema_of(node.op_type, node.domain, self._opsets.get(node.domain)) is not None:
            return
        if not self._runs_in_onnxruntime(node):
            domain = f"domain {node.domain!r}" if node.domain else "ONNX's own domain"
            raise NoEngineError(
                f"{node.op_type} {node.name or node.outputs[0].name!r}: no engine here has an operator of"
                f" that name in {domain}; the model can be carried, drawn and exported, not run"
            )

    def _tensor(self, value: ir.Value) -> onnx.TensorProto:
        name = str(value.name)
        tensor = value.const_value or ir_tensor(self._constants[name], name)
        return ir.serde.serialize_tensor(tensor)

    def _runs_in_onnxruntime(self, node: ir.Node) -> bool:
        """Tell whether onnxruntime has a kernel for a node; that its types are not known is no reason."""
        alone = self.model([node])
        return not is_typed(alone) or session_of(alone) is not None


def _differs(node: ir.Node) -> bool:
    # A seed asks for the same numbers everywhere, and ONNX's reference evaluator is where they are defined.
    seeded = node.op_type == "Dropout" and "seed" in node.attributes
    partial = _has_statistics(node) and sum(bool(value.name) for value in node.outputs) < _STATISTICS
    return node.domain == "" and (seeded or partial or node.op_type in _DIFFERENT or _gives_twice(node))


def _gives_twice(node: ir.Node) -> bool:
    """Tell whether a branch in a node gives one value twice, which onnxruntime writes to one result only."""
    choices = [inner for inner in (node, *_inside(node)) if inner.op_type == "If"]
    branches = [graph for choice in choices for graph in _graphs(choice)]
    return any(len(set(graph.outputs)) < len(graph.outputs) for graph in branches)


def _may_turn_vector(nodes: Iterable[ir.Node]) -> bool:
    """Tell whether nodes may multiply a transposed matrix by a vector.

    onnxruntime leaves the transposition out of such a product; it moves transpositions on to get there.
    """
    inside = [inner for node in nodes for inner in (node, *_inside(node))]
    return any(node.op_type == "Transpose" for node in inside) and any(
        node.op_type == "MatMul" and not _is_matrix(node.inputs[1]) for node in inside
    )


def _inside(node: ir.Node) -> Iterator[ir.Node]:
    for graph in _graphs(node):
        yield from graph.all_nodes()


def _is_matrix(value: ir.Value | None) -> bool:
    return value is not None and value.shape is not None and len(value.shape) > 1


def _has_statistics(node: ir.Node | None) -> bool:
    """Tell whether a node normalizes by the statistics of the batch.

    onnxruntime does so only where it is asked for the running ones too, and takes these otherwise.
    """
    if node is None or (node.domain, node.op_type) != ("", "BatchNormalization"):
        return False
    mode = node.attributes.get("training_mode")
    return mode is not None and not mode.is_ref() and mode.as_int() == 1


def holds_family(model: ir.Model) -> set[ir.Node]:
    """Return the main graph's nodes that have our scatters inside them, in a subgraph or a function."""
    bodies = {(key[0], key[1]): function for key, function in model.functions.items()}
    holding: set[tuple[str, str]] = set()
    grew = True
    while grew:
        grew = False
        for key, function in bodies.items():
            if key not in holding and any(_is_family(node, bodies, holding) for node in function.all_nodes()):
                holding.add(key)
                grew = True
    found = set()
    for node in model.graph:
        if (node.domain, node.op_type) in holding or any(
            _is_family(inner, bodies, holding) for inner in _inside(node)
        ):
            found.add(node)
    return found


def _is_family(
    node: ir.Node, functions: Mapping[tuple[str, str], Any], holding: set[tuple[str, str]]
) -> bool:
    key = (node.domain, node.op_type)
    if key in functions:
        return key in holding
    return node.domain == "" and node.op_type in _RACING


def _graphs(node: ir.Node) -> Iterator[ir.Graph]:
    for attribute in node.attributes.values():
        if attribute.is_ref():
            continue
        if attribute.type == ir.AttributeType.GRAPH:
            yield attribute.as_graph()
        elif attribute.type == ir.AttributeType.GRAPHS:
            yield from attribute.as_graphs()


def values_read(node: ir.Node) -> list[ir.Value]:
    """Return the values that a node reads, itself or in the graphs inside it."""
    read = [value for value in node.inputs if value is not None and value.name]
    for graph in _graphs(node):
        own = {*graph.inputs, *graph.initializers.values()}
        inside: list[ir.Value] = []
        for inner in graph:
            inside += values_read(inner)
            own.update(inner.outputs)
        read += [value for value in (*inside, *graph.outputs) if value not in own]
    return read


def _runs(nodes: Iterable[ir.Node], refused: set[ir.Node]) -> list[list[ir.Node]]:
    """Cut nodes in order where those that onnxruntime refuses begin and end."""
    runs: list[list[ir.Node]] = []
    for node in nodes:
        if not runs or (runs[-1][0] in refused) != (node in refused):
            runs.append([])
        runs[-1].append(node)
    return runs
