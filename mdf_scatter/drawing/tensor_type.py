"""What is known of a tensor's type: dtype and shape, either of which may be missing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from mdf_scatter.drawing.values import as_array
from mdf_scatter.dtypes import is_string, name_of, type_text
from mdf_scatter.wiring import declared_shape


@dataclass(frozen=True)
class TensorType:
    """A tensor's dtype and shape, as far as they are known.

    Attributes:
        dtype: Name of the element type, or None.
        shape: Sizes (a text is symbolic, None unknown), or None where not even the rank is known.
    """

    dtype: str | None = None
    shape: tuple[int | str | None, ...] | None = None

    def __str__(self) -> str:
        """Write what is known: `float32[8, 4]`, `float32`, `[8, 4]`, or nothing."""
        if self.shape is None:
            return self.dtype or ""
        return (self.dtype or "") + type_text("bool", self.shape).removeprefix("bool")

    def or_else(self, other: TensorType) -> TensorType:
        """Fill in from `other` what is not known here."""
        return TensorType(
            other.dtype if self.dtype is None else self.dtype,
            other.shape if self.shape is None else self.shape,
        )


UNKNOWN = TensorType()


def declared(port: Any) -> TensorType:
    """Return the type that an input or output port declares."""
    return TensorType(port.type or None, declared_shape(port))


def of_value(value: object) -> TensorType:
    """Return the type of a number, a bool, or an array of them or of strings.

    >>> str(of_value([[4], [3], [1], [7]])), str(of_value(1.5)), str(of_value({"a": 1}))
    ('int64[4, 1]', 'float64[]', '')
    """
    array = as_array(value)
    if array is None:
        return UNKNOWN
    # Which string dtype holds the text is NumPy's business; MDF and ONNX know one.
    dtype = "string" if is_string(array.dtype) else name_of(array.dtype)
    return TensorType(dtype, array.shape)


def is_array(value: object) -> bool:
    """Tell whether a value is an array of rank 1 or more."""
    return isinstance(value, (list, tuple, np.ndarray)) and bool(of_value(value).shape)
