"""ONNX models compared by what they mean and say, not by how a message happens to be written."""

from __future__ import annotations

from typing import Any

import onnx
from google.protobuf.message import Message
from onnx import numpy_helper


def said(part: Any) -> Any:
    """Return a message as plain values: without derived types, empty texts, and ways to write a tensor."""
    if isinstance(part, onnx.TensorProto):
        array = numpy_helper.to_array(part) if part.data_type != onnx.TensorProto.STRING else None
        data = list(part.string_data) if array is None else array.tobytes()
        return part.name, part.data_type, list(part.dims), data, part.doc_string
    if not isinstance(part, Message):
        return part
    found = {}
    for field, value in part.ListFields():
        if field.name == "value_info" or value == "":
            continue
        if field.name == "opset_import":
            found[field.name] = {entry.domain: entry.version for entry in value}
        elif field.name == "metadata_props":
            found[field.name] = {entry.key: entry.value for entry in value}
        elif field.is_repeated:
            items = [said(item) for item in value]
            found[field.name] = sorted(items, key=str) if field.name == "initializer" else items
        else:
            found[field.name] = said(value)
    return found


def differences(a: Any, b: Any, where: str = "") -> list[str]:
    """List where two models differ."""
    a, b = said(a) if isinstance(a, Message) else a, said(b) if isinstance(b, Message) else b
    if isinstance(a, dict) and isinstance(b, dict):
        return [
            line for key in sorted({*a, *b}) for line in differences(a.get(key), b.get(key), f"{where}.{key}")
        ]
    if isinstance(a, list) and isinstance(b, list) and len(a) == len(b):
        return [
            line
            for at, (x, y) in enumerate(zip(a, b, strict=True))
            for line in differences(x, y, f"{where}[{at}]")
        ]
    return [] if a == b else [f"{where}: {str(a)[:150]} / {str(b)[:150]}"]
