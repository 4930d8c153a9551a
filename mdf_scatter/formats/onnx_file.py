"""ONNX files: bytes <-> `onnx.ModelProto`; what the graph means is the business of lift and lower."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path, PureWindowsPath
from typing import TYPE_CHECKING

import onnx
from google.protobuf.message import DecodeError, EncodeError  # type: ignore[import-untyped]
from onnx.external_data_helper import load_external_data_for_tensor

from mdf_scatter.errors import FormatError
from mdf_scatter.formats.arrays import shown

if TYPE_CHECKING:
    from modeci_mdf.mdf import Model


def read(data: bytes, path: Path) -> Model:
    """Read a model from the bytes of an ONNX file, and its external data from the file's own folder.

    Raises:
        FormatError: The bytes are not an ONNX model, or its external data is missing or elsewhere.
    """
    from mdf_scatter.lift import from_onnx

    return from_onnx(read_proto(data, path.parent))


def write(model: Model) -> bytes:
    """Return an MDF model as the bytes of an ONNX file, weights included.

    Raises:
        FormatError: It is larger than the 2 GiB that one ONNX file holds.
        ModelError: `check` finds an error in the model.
        UnsupportedError: The model cannot be expressed in ONNX.
    """
    from mdf_scatter.lower import to_onnx

    proto = to_onnx(model)
    try:
        return bytes(proto.SerializeToString())
    except (EncodeError, ValueError) as error:  # what protobuf raises depends on its version
        raise FormatError("the model is larger than the 2 GiB that one ONNX file holds") from error


def read_proto(data: bytes, folder: Path) -> onnx.ModelProto:
    """Read an ONNX model with its external data, which may only lie in the model's own folder.

    Raises:
        FormatError: As for `read`.
    """
    proto = onnx.ModelProto()
    try:
        proto.ParseFromString(data)
    except DecodeError as error:
        raise FormatError("is not an ONNX model, or is cut off") from error
    # most short texts are valid protobuf of unknown fields
    if not proto.HasField("graph") or proto.ir_version < 1:
        raise FormatError("is not an ONNX model: it has no graph or no IR version")
    for tensor in _tensors(proto):
        if tensor.data_location == onnx.TensorProto.EXTERNAL:
            _fetch(tensor, folder)
    return proto


def _fetch(tensor: onnx.TensorProto, folder: Path) -> None:
    location = next((entry.value for entry in tensor.external_data if entry.key == "location"), "")
    name = f"tensor {shown(tensor.name)}: its external data {shown(location)}"
    parts = PureWindowsPath(location)  # knows both kinds of separators, and drives
    if (
        not location
        or "\0" in location
        or parts.is_absolute()
        or parts.drive
        or parts.root
        or ".." in parts.parts
    ):
        raise FormatError(f"{name} is not in the model's own folder; expected a relative path without '..'")
    path = folder / location
    try:
        inside = path.resolve().is_relative_to(folder.resolve())
        found = path.is_file()
    except (OSError, RuntimeError) as error:  # a name too long, or a loop of links
        raise FormatError(f"{name} cannot be looked up in {folder}") from error
    if not inside:
        raise FormatError(f"{name} is a link that leaves the model's own folder")
    if not found:
        raise FormatError(f"{name} is not in {folder}")
    try:
        load_external_data_for_tensor(tensor, str(folder))
    except (OSError, ValueError, RuntimeError, onnx.checker.ValidationError) as error:
        raise FormatError(f"{name} cannot be read: {str(error).splitlines()[0][:120]}") from error
    tensor.data_location = onnx.TensorProto.DEFAULT
    del tensor.external_data[:]


def _tensors(proto: onnx.ModelProto) -> Iterator[onnx.TensorProto]:
    yield from _tensors_of_graph(proto.graph)
    for function in proto.functions:
        yield from _tensors_of_nodes(function.node)
    for training in proto.training_info:
        yield from _tensors_of_graph(training.initialization)
        yield from _tensors_of_graph(training.algorithm)


def _tensors_of_graph(graph: onnx.GraphProto) -> Iterator[onnx.TensorProto]:
    yield from graph.initializer
    for sparse in graph.sparse_initializer:
        yield sparse.values
        yield sparse.indices
    yield from _tensors_of_nodes(graph.node)


def _tensors_of_nodes(nodes: Iterator[onnx.NodeProto]) -> Iterator[onnx.TensorProto]:
    for node in nodes:
        for attribute in node.attribute:
            for sparse in (attribute.sparse_tensor, *attribute.sparse_tensors):
                yield sparse.values
                yield sparse.indices
            yield attribute.t
            yield from attribute.tensors
            for graph in (attribute.g, *attribute.graphs):
                yield from _tensors_of_graph(graph)
