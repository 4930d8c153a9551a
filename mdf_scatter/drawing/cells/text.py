"""Values and other texts as they stand in cells, and how much room they take in any font."""

from __future__ import annotations

import json
from collections.abc import Sequence
from math import fsum
from typing import Any
from unicodedata import east_asian_width

import numpy as np
import numpy.typing as npt

from mdf_scatter.drawing.markup import visible

CELL_CHARACTERS = 10
TIP_CHARACTERS = 1000

_NARROW = frozenset("iljtfrI.,:;'|!()[] -/")
_WIDE = frozenset("mwMW@%")


def cell_text(value: Any) -> str:
    """Write a value so that it fits a cell: floats with four digits, texts in quotes and cut off.

    >>> [cell_text(value) for value in (0.1 + 0.2, np.float32(9), True, "a rather long text", -2**63)]
    ['0.3', '9', 'true', '"a rather…', '-9.22e+18']
    >>> cell_text(complex(1.25, -0.5)), cell_text(float("nan")), cell_text(-0.0)
    ('1.25-0.5j', 'NaN', '-0')
    """
    return shortened(_written(value, 4), CELL_CHARACTERS)


def full_text(value: Any) -> str:
    """Write a value with every digit, or the first thousand characters of a text."""
    return shortened(_written(value, None), TIP_CHARACTERS)


def shortened(text: str, limit: int) -> str:
    """Cut a text off where it is longer than `limit` characters."""
    return text if len(text) <= limit else text[: limit - 1] + "…"


def place_text(place: Sequence[int]) -> str:
    """Write where an element or slice is.

    >>> place_text((3,)), place_text((1, 0))
    ('[3]', '[1, 0]')
    """
    return f"[{', '.join(str(number) for number in place)}]"


def array_text(array: npt.NDArray[Any]) -> str:
    """Write a small array.

    >>> array_text(np.array([[1.0, 2.5], [3.0, 4.0]]))
    '[[1, 2.5], [3, 4]]'
    """
    if not array.ndim:
        return cell_text(array[()])
    return f"[{', '.join(array_text(np.asarray(part)) for part in array)}]"


def width(text: str, size: float, *, code: bool = False, bold: bool = False) -> float:
    """Return at least the width of a text in Arial or Courier New, or in what stands in for them."""
    # Since Python 3.12 `sum` rounds otherwise than before, and a picture is to be the same everywhere.
    ems = fsum(_ems(character, code) for character in text)
    return size * ems * (1.1 if bold and not code else 1)


def _written(value: Any, digits: int | None) -> str:
    if isinstance(value, (bool, np.bool_)):
        return "true" if value else "false"
    if isinstance(value, str):
        # What is not shown need not be escaped: texts may be of any length.
        return json.dumps(visible(value[: TIP_CHARACTERS + 1]), ensure_ascii=False).replace("\\\\", "\\")
    if isinstance(value, (complex, np.complexfloating)):
        real, imag = _float(value.real, 3 if digits else None), _float(value.imag, 3 if digits else None)
        return f"{real}{'' if imag.startswith('-') else '+'}{imag}j"
    if isinstance(value, (int, np.integer)):
        whole = str(int(value))
        return whole if digits is None or len(whole) < CELL_CHARACTERS else f"{float(value):.3g}"
    return _float(value, digits)


def _float(value: Any, digits: int | None) -> str:
    number = float(value)
    if np.isnan(number):
        return "NaN"
    if digits is None:
        return str(value)
    text = f"{number:.{digits}g}"
    return text if len(text) < CELL_CHARACTERS else f"{number:.{digits - 2}g}"


def _ems(character: str, code: bool) -> float:
    if east_asian_width(character) in "WF":
        return 1.4
    if not character.isascii():
        return 1.05
    if code:
        return 0.62
    if character in _NARROW:
        return 0.42
    if character in _WIDE:
        return 1.0
    return 0.8 if character.isupper() else 0.65
