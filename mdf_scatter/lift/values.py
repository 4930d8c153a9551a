"""ONNX's values, types and names as what an MDF node can hold."""

from __future__ import annotations

import json
import keyword
import re
from typing import Any

import numpy.typing as npt
import onnx
from google.protobuf.json_format import MessageToDict  # type: ignore[import-untyped]
from modeci_mdf.mdf import InputPort, OutputPort

from mdf_scatter.errors import FormatError
from mdf_scatter.expressions import shorten
from mdf_scatter.onnx_types import element_name, sizes_of, type_proto_of, type_text_of
from mdf_scatter.tensors import array_of_proto
from mdf_scatter.wiring import onnx_metadata


def properties(part: Any) -> dict[str, Any]:
    """Return the `metadata_props` of a part of an ONNX model, under that key; nothing where it has none."""
    props = {entry.key: entry.value for entry in part.metadata_props}
    return {"metadata_props": props} if props else {}


def own_metadata(key: str, text: str, kind: type = object) -> Any:
    """Return what this package wrote into a text of `metadata_props`, which is anyone's to write.

    Raises:
        FormatError: The text is no JSON, or none of that kind.
    """
    expected = "a mapping" if kind is dict else "a value"
    wrong = FormatError(f"metadata {key!r} is {shorten(text)!r}; expected {expected} in JSON")
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise wrong from error
    if not isinstance(found, kind):
        raise wrong
    return found


def documented(part: Any) -> dict[str, Any]:
    """Return the documentation and `metadata_props` of a part of an ONNX model."""
    return ({"doc_string": part.doc_string} if part.doc_string else {}) | properties(part)


def declared(info: onnx.ValueInfoProto | None) -> dict[str, Any]:
    """Return what a port says of a value's type: type and shape, and in the metadata what MDF has not."""
    if info is None or not info.HasField("type"):
        return {}
    kind = info.type.WhichOneof("value")
    if kind != "tensor_type":
        text = type_text_of(info.type)
        said: dict[str, Any] = {"type": text}
        if type_proto_of(text) != info.type:
            said["metadata"] = {"onnx": {"type": _as_written(info.type)}}
        return said
    tensor = info.type.tensor_type
    said = {}
    name = element_name(tensor.elem_type)
    if name is not None:
        said["type"] = name
    kept: dict[str, Any] = {}
    sizes = sizes_of(tensor)
    if sizes and all(isinstance(size, int) for size in sizes):
        said["shape"] = tuple(sizes)
    elif sizes is not None:
        kept["shape"] = sizes
    if info.type.denotation or any(dim.denotation for dim in tensor.shape.dim):
        kept["type"] = _as_written(info.type)
    if kept:
        said["metadata"] = {"onnx": kept}
    return said


def _as_written(proto: onnx.TypeProto) -> dict[str, Any]:
    return dict(MessageToDict(proto, preserving_proto_field_name=True))


def keep(port: InputPort | OutputPort, **kept: Any) -> None:
    """Note something of ONNX in a port's metadata, before what stands there."""
    port.metadata = {"onnx": kept | onnx_metadata(port)}


def constant_of(tensor: onnx.TensorProto) -> npt.NDArray[Any]:
    """Return an initializer's array.

    Raises:
        FormatError: Its data is not there, or not what its type says.
    """
    return array_of_proto(tensor, f"initializer {tensor.name!r}")


def safe_id(name: str) -> str:
    """Return a text that MDF's expressions can name: a Python identifier.

    >>> safe_id("/layer.1/Relu:0"), safe_id("class"), safe_id("")
    ('_layer_1_Relu_0', '_class', '_')
    """
    base = re.sub(r"\W", "_", name, flags=re.ASCII) or "_"
    return f"_{base}" if base[0].isdigit() or keyword.iskeyword(base) else base
