"""The graphs of an ONNX model that are to be lifted: the main one, functions, and those inside nodes."""

from __future__ import annotations

from collections import ChainMap, deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import onnx
from google.protobuf.json_format import MessageToDict  # type: ignore[import-untyped]

from mdf_scatter.names import Names

Infos = ChainMap[str, onnx.ValueInfoProto]


@dataclass(frozen=True)
class Source:
    """A graph to be lifted.

    Attributes:
        proto: The graph; that of a function has inputs and outputs without types.
        id: Id of the MDF graph.
        imports: Operator set version of each domain.
        infos: What is known of the types of the enclosing graphs' values.
        inner: Whether values of enclosing graphs may be used.
        kept: What to note in the metadata.
    """

    proto: onnx.GraphProto
    id: str
    imports: Mapping[str, int]
    infos: Infos
    inner: bool = False
    kept: dict[str, Any] = field(default_factory=dict)


class Waiting:
    """The graphs that are still to be lifted, and what all graphs of a model share."""

    def __init__(self, functions: Iterable[onnx.FunctionProto]) -> None:
        self.ids = Names()
        self.functions = {(part.domain, part.name, part.overload) for part in functions}
        self.sources: deque[Source] = deque()


def function_source(function: onnx.FunctionProto, waiting: Waiting) -> Source:
    """Return a model-local function as a graph to be lifted."""
    imports = {entry.domain: entry.version for entry in function.opset_import}
    said: dict[str, Any] = {"domain": function.domain, "name": function.name}
    if function.overload:
        said["overload"] = function.overload
    said["opset_imports"] = imports
    if function.attribute:
        said["attributes"] = list(function.attribute)
    if function.attribute_proto:
        said["defaults"] = [
            MessageToDict(part, preserving_proto_field_name=True) for part in function.attribute_proto
        ]
    proto = onnx.GraphProto(name=function.name, doc_string=function.doc_string)
    proto.input.extend(onnx.ValueInfoProto(name=name) for name in function.input)
    proto.output.extend(onnx.ValueInfoProto(name=name) for name in function.output)
    for part in ("node", "value_info", "metadata_props"):
        getattr(proto, part).extend(getattr(function, part))
    graph_id = waiting.ids.take(f"{function.domain}::{function.name}")
    return Source(proto, graph_id, imports, Infos(), kept={"function": said})
