"""Any text, made safe and visible, as Graphviz's HTML-like markup.

Graphviz measures text by the width of each character in Arial and Courier New, but knows ASCII
only: for any other character it counts one space for every UTF-8 byte.
"""

from __future__ import annotations

import re
from html import escape
from unicodedata import category, east_asian_width

from mdf_scatter.drawing.style import MONOSPACE

NAME_CHARACTERS = 32
CODE_CHARACTERS = 40
VALUE_CHARACTERS = 52
TOOLTIP_CHARACTERS = 20_000

# Controls, bidirectional overrides, invisible spaces, and what XML or UTF-8 cannot hold.
_INVISIBLE = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069"
    "\ud800-\udfff\ufdd0-\ufdef\ufeff\ufffe\uffff]"
)

# Scripts of two bytes a letter that Arial's stand-in in PNG shows as boxes, which are wider than two spaces.
_WIDER = re.compile("[\u0530-\u058f\u0600-\u07ff]")

# Letters of two bytes that are as wide as an m.
_WIDE = frozenset("\u0436\u043c\u0444\u0448\u0449\u044b\u044e\u0153\u03c9")

_CYRILLIC = re.compile("[\u0400-\u052f]")


def visible(text: str) -> str:
    r"""Write characters that cannot be seen, or reorder others, as Python escapes.

    >>> visible("a\nb\x07\u202ec")
    'a\\nb\\x07\\u202ec'
    """
    return _INVISIBLE.sub(lambda match: ascii(match[0])[1:-1], text)


def short_name(text: str, limit: int = NAME_CHARACTERS) -> str:
    """Shorten a name in the middle: generated names differ in their ends.

    >>> short_name("/model/layers.0/attention/self/query/MatMul")
    '/model/layers.0/att…query/MatMul'
    """
    shown = visible(text)
    if len(shown) <= limit:
        return shown or '""'
    tail = limit * 3 // 8
    return f"{shown[: limit - tail - 1]}…{shown[-tail:]}"


def short_code(text: str, limit: int = CODE_CHARACTERS) -> str:
    """Shorten a value, an expression or a type at its end."""
    shown = visible(text) or '""'
    # Three dots, as Graphviz gives the single character three times its width in Courier New.
    return shown if len(shown) <= limit else shown[: limit - 3].rstrip(" ,.") + "..."


def tooltip(text: str) -> str:
    """Return a text as the value of a DOT attribute `tooltip`; at most 20,000 characters."""
    # Graphviz substitutes `\N` and the like twice, so a backslash needs four.
    return _escaped(_bounded(text)).replace("\\", "\\\\" * 2)


def title(text: str) -> str:
    """Return a tooltip as an attribute of a cell, or nothing for an empty one."""
    return f' TITLE="{_substitution_safe(_bounded(text))}"' if text else ""


def run(
    text: str, *, bold: bool = False, code: bool = False, size: int | None = None, colour: str = ""
) -> str:
    """Return a run of text in one font; the text may not be empty."""
    # Spaces in Courier New are so wide that other text than ASCII would stand in the middle of nowhere.
    code = code and text.isascii()
    safe = _substitution_safe(text) + " " * _missing_spaces(text)
    fonts = {"FACE": MONOSPACE if code else "", "POINT-SIZE": size and str(size), "COLOR": colour}
    attributes = "".join(f' {name}="{value}"' for name, value in fonts.items() if value)
    marked = f"<FONT{attributes}>{safe}</FONT>" if attributes else safe
    return f"<B>{marked}</B>" if bold else marked


def _bounded(text: str) -> str:
    shown = visible(text)
    if len(shown) <= TOOLTIP_CHARACTERS:
        return shown
    return f"{shown[:TOOLTIP_CHARACTERS]}... ({len(shown)} characters)"


def _escaped(text: str) -> str:
    return escape(text, quote=False).replace('"', "&quot;")


def _substitution_safe(text: str) -> str:
    # In markup, too, `\N` stands for the node's name, and `\\` for a backslash.
    return _escaped(text).replace("\\", "\\\\")


def _missing_spaces(text: str) -> int:
    """Return by how many spaces of Arial a text is wider than Graphviz takes it to be."""
    missing = 0.0
    for character in filter(lambda character: character > "\u00ff", text):
        if east_asian_width(character) in "WF" or category(character)[0] in "SP":
            missing += 0.6
        elif character.lower() in _WIDE:
            missing += 1.6 if character.isupper() else 1.0
        elif character.isupper():
            missing += 0.6
        elif _CYRILLIC.match(character):
            missing += 0.2
        elif _WIDER.match(character):
            missing += 0.7
    return round(missing)
