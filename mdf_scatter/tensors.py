"""NumPy arrays as ONNX tensors, and back."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from mdf_scatter.dtypes import is_string, name_of
from mdf_scatter.errors import UnsupportedError


def ir_tensor(array: npt.NDArray[Any], name: str | None = None) -> ir.TensorProtocol:
    """Return an array as an ONNX tensor.

    Raises:
        UnsupportedError: ONNX has no such element type.
    """
    if is_string(array.dtype):
        encoded = np.array([text.encode() for text in array.ravel()], dtype=object)
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
        return array
    return np.array([bytes(text).decode() for text in array.ravel()], dtype=object).reshape(array.shape)
