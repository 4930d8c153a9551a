"""Values of parameters as text: short for the picture, in full for its tooltips."""

from __future__ import annotations

import json
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from mdf_scatter.ops.settings import described, is_wide

INLINE_ELEMENTS = 8
TOOLTIP_ELEMENTS = 1000


def as_array(value: object) -> npt.NDArray[np.generic] | None:
    """Return a number, bool or (nested) list as an array, or None where it is none.

    A text by itself is not one: MDF reads it as an expression.
    """
    if isinstance(value, (str, bytes, Mapping)) or value is None:
        return None
    try:
        array = np.asarray(value)
    except (ValueError, TypeError, OverflowError):  # ragged, or of things that are no numbers
        return None
    return array if array.dtype.kind not in "OSM" or isinstance(value, np.ndarray) else None


def short_text(value: object) -> str | None:
    """Write a value for the picture, or return None for an array that is too large to be written.

    Floats are rounded to six digits.

    >>> short_text([[4], [3]]), short_text(0.1 + 0.2), short_text(True), short_text(list(range(9)))
    ('[[4], [3]]', '0.3', 'true', None)
    """
    array = as_array(value)
    if array is not None and array.size > INLINE_ELEMENTS:
        return None
    return _text(value, digits=6)


def full_text(value: object) -> str:
    """Write a value in full, or the first thousand elements of an array that has more."""
    array = as_array(value)
    if array is None or array.size <= TOOLTIP_ELEMENTS:
        return _text(value, digits=None)
    first = ", ".join(_text(item, digits=None) for item in array.flat[:TOOLTIP_ELEMENTS])
    return f"{first}, ... ({array.size} elements)"


def _text(value: object, digits: int | None, *, quoted: bool = False) -> str:
    if value is None:
        return "null"
    if isinstance(value, np.ndarray) and not value.ndim:
        value = value[()]
    if isinstance(value, (bool, np.bool_)):
        return "true" if value else "false"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False) if quoted else value
    if isinstance(value, (float, np.floating)):
        exact = str(value)
        return exact if digits is None or len(exact) <= digits + 2 else f"{float(value):.{digits}g}"
    if isinstance(value, Mapping):
        items = (f"{key}: {_text(item, digits, quoted=True)}" for key, item in value.items())
        return "{" + ", ".join(items) + "}"
    if isinstance(value, (list, tuple, np.ndarray)):
        return "[" + ", ".join(_text(item, digits, quoted=True) for item in value) + "]"
    return described(value) if is_wide(value) else str(value)
