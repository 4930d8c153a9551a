"""The rules, one for each operator, grouped by what the operators do."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules


def load() -> None:
    """Enter all rules into the table."""
    for module in iter_modules(__path__):
        import_module(f"{__name__}.{module.name}")
