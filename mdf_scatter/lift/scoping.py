"""Which values a graph's nodes read, and which of them only the graphs inside those nodes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import onnx


@dataclass
class Use:
    """The first node that reads a value, and how many times it is read in all."""

    node: onnx.NodeProto
    count: int


def first_uses(nodes: Iterable[onnx.NodeProto]) -> dict[str, Use]:
    """Return how the values of a graph are read by its nodes, not counting the graphs inside them."""
    found: dict[str, Use] = {}
    for node in nodes:
        for name in node.input:
            if name in found:
                found[name].count += 1
            else:
                found[name] = Use(node, 1)
    return found


def captured_by(nodes: Iterable[onnx.NodeProto]) -> set[str]:
    """Return the values that graphs inside nodes read from outside of themselves."""
    captured: set[str] = set()
    for node in nodes:
        for graph in subgraphs(node):
            captured |= _free(graph)
    return captured


def subgraphs(node: onnx.NodeProto) -> Iterator[onnx.GraphProto]:
    """Give the graphs in a node's attributes."""
    for attribute in node.attribute:
        if attribute.type == onnx.AttributeProto.GRAPH:
            yield attribute.g
        elif attribute.type == onnx.AttributeProto.GRAPHS:
            yield from attribute.graphs


def _free(graph: onnx.GraphProto) -> set[str]:
    here = {value.name for value in graph.input} | {tensor.name for tensor in graph.initializer}
    here |= {tensor.values.name for tensor in graph.sparse_initializer}
    free: set[str] = set()
    for node in graph.node:
        read = {name for name in node.input if name}
        for inner in subgraphs(node):
            read |= _free(inner)
        free |= read - here
        here.update(node.output)
    return free | {value.name for value in graph.output if value.name not in here}
