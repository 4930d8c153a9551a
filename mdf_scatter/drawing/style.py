"""Every colour, font and size of a diagram, in one table.

On every ground that text stands on, the text's contrast is 4.5 to 1 or better (WCAG 2.1 AA), and 5.5 or
better in the dark theme, where thin lines glow less than they do on white.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from mdf_scatter.drawing.tensor_type import TensorType
from mdf_scatter.dtypes import ALIASES
from mdf_scatter.errors import InputError, listed

DtypeClass = Literal["float", "int", "bool", "string", "complex", "unknown"]

LineStyle = Literal["scalar", "vector", "matrix", "tensor", "unknown"]
"""How a wire is drawn, by rank: 0, 1, 2, 3 and more, unknown."""

FONT = "Arial"
MONOSPACE = "Courier New"
FALLBACKS = {
    FONT: "Arial, 'Liberation Sans', Arimo, Helvetica, sans-serif",
    MONOSPACE: "'Courier New', 'Liberation Mono', Cousine, Courier, monospace",
}
"""The first after each name have that font's widths: text set in them stays inside its box."""

TEXT_SIZE = 11
SMALL_SIZE = 9
HEADER_SIZE = 12

TERMINAL_WIDTH = 6
TERMINAL_HEIGHT = 16


@dataclass(frozen=True)
class Theme:
    """The colours of a diagram."""

    page: str
    ground: str
    frame: str
    box: str
    band: str
    text: str
    muted: str
    header: str
    header_text: str
    header_id: str
    missing: str
    dtype: dict[DtypeClass, str]
    constant: dict[DtypeClass, str]
    """Ground of a constant's box: a tint of its dtype's colour."""


LIGHT = Theme(
    page="#FFFFFF",
    ground="#F7F9FB",
    frame="#9AA5B1",
    box="#FFFFFF",
    band="#F0F4F8",
    text="#1F2933",
    muted="#52606D",
    header="#334E68",
    header_text="#FFFFFF",
    header_id="#D9E2EC",
    missing="#52606D",
    dtype={
        "float": "#B84A00",
        "int": "#0B5FB0",
        "bool": "#1B7F3B",
        "string": "#B0307A",
        "complex": "#6B3FA0",
        "unknown": "#52606D",
    },
    constant={
        "float": "#FCEEE3",
        "int": "#E6EFF8",
        "bool": "#E5F3E9",
        "string": "#FAE8F2",
        "complex": "#EFE9F7",
        "unknown": "#E9EDF1",
    },
)

DARK = Theme(
    page="#0F141A",
    ground="#161D25",
    frame="#5B6B7B",
    box="#1D2630",
    band="#232D38",
    text="#E6EDF3",
    muted="#A9B8C6",
    header="#3A5A7D",
    header_text="#FFFFFF",
    header_id="#E3EBF3",
    missing="#4A5866",
    dtype={
        "float": "#FF9D4D",
        "int": "#6CB2FF",
        "bool": "#5FD38A",
        "string": "#FF8AC8",
        "complex": "#C7ABFF",
        "unknown": "#A9B8C6",
    },
    constant={
        "float": "#33261B",
        "int": "#1A2C40",
        "bool": "#1A3325",
        "string": "#3A2031",
        "complex": "#2C2442",
        "unknown": "#28323D",
    },
)

THEMES = {"light": LIGHT, "dark": DARK}


def require_theme(name: str) -> None:
    """Refuse a name that is no theme's.

    Raises:
        InputError: It is none.
    """
    if name not in THEMES:
        raise InputError(f"theme is {name!r}; expected {listed(THEMES)}")


_PREFIXES: tuple[tuple[str, DtypeClass], ...] = (
    ("float", "float"),
    ("bfloat", "float"),
    ("int", "int"),
    ("uint", "int"),
    ("bool", "bool"),
    ("str", "string"),
    ("complex", "complex"),
)


def dtype_class(dtype: str | None) -> DtypeClass:
    """Return the class of a dtype's name that decides its colour.

    >>> dtype_class("bfloat16"), dtype_class("uint8"), dtype_class("Tensor")
    ('float', 'int', 'unknown')
    """
    name = ALIASES.get(dtype or "", dtype or "").lower()
    return next((found for prefix, found in _PREFIXES if name.startswith(prefix)), "unknown")


def line_style(tensor: TensorType) -> LineStyle:
    """Return how a wire that carries such a tensor is drawn.

    >>> line_style(TensorType("float32", (8, 4))), line_style(TensorType("float32", None))
    ('matrix', 'unknown')
    """
    if tensor.shape is None:
        return "unknown"
    by_rank: tuple[LineStyle, ...] = ("scalar", "vector", "matrix", "tensor")
    return by_rank[min(len(tensor.shape), 3)]


def line_attributes(tensor: TensorType, theme: Theme, *, crosses: bool = False) -> dict[str, str]:
    """Return the DOT attributes of a wire that carries such a tensor, dotted where it crosses a frame."""
    colour = theme.dtype[dtype_class(tensor.dtype)]
    # A colour list draws parallel lines; the ground between them makes crossings read as bridges.
    several = f"{colour}:{theme.ground}:{colour}"
    by_style: dict[LineStyle, dict[str, str]] = {
        "scalar": {"color": colour, "penwidth": "1"},
        "vector": {"color": colour, "penwidth": "2.4"},
        "matrix": {"color": several, "penwidth": "1.4"},
        "tensor": {"color": f"{several}:{theme.ground}:{colour}", "penwidth": "1.3"},
        "unknown": {"color": colour, "penwidth": "1.2", "style": "dashed"},
    }
    return by_style[line_style(tensor)] | ({"style": "dotted"} if crosses else {})
