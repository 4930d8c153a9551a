"""NumPy arrays as ONNX tensors, and back."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnx_ir as ir

from mdf_scatter.dtypes import is_string, name_of
from mdf_scatter.errors import FormatError, UnsupportedError

_LOOSE = (onnx.TensorProto.UNDEFINED, onnx.TensorProto.STRING)


def ir_tensor(array: npt.NDArray[Any], name: str | None = None) -> ir.TensorProtocol:
    """Return an array as an ONNX tensor.

    Raises:
        UnsupportedError: ONNX has no such element type.
    """
    if is_string(array.dtype):
        if not all(isinstance(value, str) for value in array.flat):
            raise UnsupportedError(
                f"{name or 'constant'} is an array of objects; ONNX has tensors of numbers, or of texts"
            )
        encoded = np.array([bytes_of(text) for text in array.ravel()], dtype=object)
        return ir.StringTensor(encoded.reshape(array.shape), name=name)
    native = array.astype(array.dtype.newbyteorder("="), copy=False)
    try:
        return ir.tensor(np.ascontiguousarray(native).reshape(array.shape), name=name)
    except TypeError as error:
        raise UnsupportedError(f"{name or 'constant'}: ONNX has no dtype {name_of(array.dtype)}") from error


def array_of(tensor: ir.TensorProtocol) -> npt.NDArray[Any]:
    """Return a tensor as an array; strings are objects of type str."""
    array = np.asarray(tensor.numpy())
    if tensor.dtype != ir.DataType.STRING:
        # Where the dtype only equals NumPy's own object, NumPy does not take its fast loops.
        return array.view(np.dtype(array.dtype.type)) if array.dtype.isnative else array
    return np.array([text_of(bytes(text)) for text in array.ravel()], dtype=object).reshape(array.shape)


def array_of_proto(proto: onnx.TensorProto, where: str) -> npt.NDArray[Any]:
    """Return ONNX's message of a tensor as an array.

    Args:
        proto: The message.
        where: What it belongs to, for messages.

    Raises:
        FormatError: The data is in another file, or is not what type and shape say.
    """
    if proto.data_location == onnx.TensorProto.EXTERNAL:
        raise FormatError(f"{where} has its data in another file; read the model with mdf_scatter.load")
    try:
        array = array_of(ir.serde.TensorProtoTensor(proto))
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise FormatError(f"{where} holds no valid tensor: {str(error).splitlines()[0]}") from error
    if array.shape != tuple(proto.dims):
        raise FormatError(f"{where} holds {array.shape} and says {tuple(proto.dims)}")
    return array


def byte_size(proto: onnx.TensorProto) -> int:
    """Return how many bytes the elements of a tensor take, texts counted as none."""
    if proto.data_type in _LOOSE:
        return 0
    return int(prod(proto.dims)) * int(ir.DataType(proto.data_type).bitwidth) // 8


def text_of(data: bytes) -> str:
    """Return ONNX's bytes as text; those that are no UTF-8 become surrogates, and come back."""
    return data.decode("utf-8", "surrogateescape")


def bytes_of(text: str) -> bytes:
    """Return a text as ONNX's bytes; see `text_of`."""
    return text.encode("utf-8", "surrogateescape")
