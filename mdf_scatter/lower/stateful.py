"""Which parameters of a node keep a value from one evaluation to the next."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from modeci_mdf.mdf import Parameter

from mdf_scatter import expressions


def is_stateful(parameter: Parameter) -> bool:
    """Tell whether a parameter is stateful in MDF's sense: its new value depends on its old one."""
    return (
        parameter.time_derivative is not None
        or parameter.default_initial_value is not None
        or parameter.id in names_in(parameter.value)
    )


def is_constant(parameter: Parameter, others: Mapping[str, Parameter]) -> bool:
    """Tell whether a parameter has the same value in every evaluation.

    Args:
        parameter: The parameter.
        others: All parameters of its node, by id.
    """
    seen: set[str] = set()
    stack = [parameter]
    while stack:
        part = stack.pop()
        if part.id in seen:
            continue
        seen.add(part.id)
        if part.value is None or is_stateful(part) or part.conditions:
            return False
        names = names_in(part.value)
        if any(name not in others for name in names):
            return False
        stack += [others[name] for name in names]
    return True


def conditions_of(parameter: Parameter) -> Iterator[tuple[Any, Any]]:
    """Give the test and the value of each condition; a file gives them as mappings or objects."""
    for condition in parameter.conditions:
        if isinstance(condition, Mapping):
            yield condition["test"], condition["value"]
        else:
            yield condition.test, condition.value


def names_in(value: Any) -> list[str]:
    """Return the names that a value reads; none where it is no expression."""
    if isinstance(value, list):
        return [name for part in value if isinstance(part, str) for name in names_in(part)]
    if not isinstance(value, str) or is_number(value):
        return []
    try:
        return expressions.names(expressions.parse(value))
    except expressions.ExpressionError:
        return []


def is_number(text: str) -> bool:
    """Tell whether a text is a number, which is read before it is taken for an expression."""
    try:
        np.float64(text)
    except ValueError:
        return False
    return True
