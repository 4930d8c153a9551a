"""The colours of cells; text reaches a contrast of 4.5 to 1 on whatever it stands on."""

from __future__ import annotations

from dataclasses import dataclass

from mdf_scatter.drawing.style import THEMES, Theme, require_theme


@dataclass(frozen=True)
class Hue:
    """A colour for lines and text, and the tint of it that a cell has."""

    line: str
    tint: str


@dataclass(frozen=True)
class Palette:
    """The colours of a picture.

    Attributes:
        theme: Those that diagrams have too.
        hues: Updates take them in turn; the number beside tells apart those that share one.
        unshown: For what was written by updates that the picture leaves out.
        on_hue: Text on a hue's line colour.
    """

    theme: Theme
    hues: tuple[Hue, ...]
    unshown: Hue
    on_hue: str


_PALETTES = {
    "light": Palette(
        THEMES["light"],
        (
            Hue("#0B5FB0", "#D6E6F5"),
            Hue("#B84A00", "#FDEBDD"),
            Hue("#1B7F3B", "#E8F7ED"),
            Hue("#A3286F", "#F9DDEC"),
            Hue("#5B3A9E", "#E5DDF5"),
            Hue("#7A5C00", "#F7ECC4"),
            Hue("#00727A", "#D3EFF1"),
            Hue("#A8201A", "#FBDCDA"),
        ),
        Hue("#1F2933", "#CBD2D9"),
        "#FFFFFF",
    ),
    "dark": Palette(
        THEMES["dark"],
        (
            Hue("#6CB2FF", "#17324F"),
            Hue("#FF9D4D", "#472A12"),
            Hue("#5FD38A", "#173D27"),
            Hue("#FF8AC8", "#4A1F38"),
            Hue("#C7ABFF", "#362A58"),
            Hue("#E3C34A", "#3F3510"),
            Hue("#4FD0D8", "#123C40"),
            Hue("#FF9A92", "#4C2220"),
        ),
        Hue("#E6EDF3", "#4A5866"),
        "#0F141A",
    ),
}


def palette(theme: str) -> Palette:
    """Return the colours of a theme.

    Raises:
        InputError: There is no such theme.
    """
    require_theme(theme)
    return _PALETTES[theme]
