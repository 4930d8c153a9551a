"""What a check reports."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any, Literal

from mdf_scatter.errors import did_you_mean
from mdf_scatter.expressions import shorten

_LONG = 8
_MANY = 500


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong, or doubtful, in a model.

    Attributes:
        level: "error" where the model cannot run as it stands, "warning" where it may not do what is meant.
        where: The part, as `graph.node.part`.
        message: What is wrong, what it may be and, where known, the fix.
    """

    level: Literal["error", "warning"]
    where: str
    message: str

    def __str__(self) -> str:
        return f"{self.level}: {self.where}: {self.message}"


def place(*parts: Any) -> str:
    """Name a part of a model by the ids on the way to it."""
    return ".".join(shorten(str(part)) for part in parts)


def error(where: str, message: str) -> Finding:
    """Return a finding that stops a model from running."""
    return Finding("error", where, message)


def warning(where: str, message: str) -> Finding:
    """Return a finding that does not."""
    return Finding("warning", where, message)


def chain(names: Iterable[str]) -> str:
    """Write a circle of names as `a -> b -> a`, the middle of a long one left out.

    >>> chain(["a", "b"])
    'a -> b -> a'
    """
    shown = [shorten(name) for name in names]
    if len(shown) > _LONG:
        shown[_LONG - 2 : -1] = [f"({len(shown) - _LONG + 1} more)"]
    return " -> ".join([*shown, shown[0]])


def near(name: str, known: Collection[str]) -> str:
    """Hint at the names nearest to one that is not known; nothing among very many, which takes long."""
    return did_you_mean(name, known) if len(known) <= _MANY else ""
