"""Values of expressions for modeci-mdf's engine, as its `onnx::` functions need them, and found in less time.

For each expression, the engine puts every array in scope into a line of text, which is shown only where it
is verbose: that takes longer than all that it computes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import onnx

Evaluate = Callable[..., Any]
"""`modelspec.utils.evaluate`, which the engine calls for whatever may be an expression."""

_NUMBERS = (int, float, np.number, np.bool)


def at_a_glance(evaluate: Evaluate, calls: Mapping[str, Callable[[Mapping[str, Any]], Any]]) -> Evaluate:
    """Return `evaluate`, quicker where an expression is a value, a name of one, or a call that is known.

    Args:
        evaluate: What gives the value of any expression.
        calls: By the text of an expression: what gives its value from the names in scope.
    """

    def wrapper(
        expr: Any,
        parameters: Mapping[str, Any] | None = None,
        *,
        array_format: str = "numpy",
        verbose: bool = False,
        **options: Any,
    ) -> Any:
        if not verbose and not options and array_format == "numpy":
            is_text = isinstance(expr, str)
            if is_text and expr in calls:
                return calls[expr](parameters or {})
            value = (parameters or {}).get(expr) if is_text else expr
            if type(value) is np.ndarray or (
                type(value) is list and all(type(part) is str for part in value)
            ):
                return np.array(value)
            if isinstance(value, _NUMBERS):
                return value
        return evaluate(expr, parameters, array_format=array_format, verbose=verbose, **options)

    return wrapper


def texts(attributes: Mapping[str, onnx.defs.OpSchema.Attribute], given: Mapping[str, Any]) -> dict[str, str]:
    """Return the attributes that are a text; each comes in a list, which the engine has made an array of.

    Args:
        attributes: What an operator declares.
        given: What it is given.
    """
    return {
        name: str(given[name].item())
        for name, declared in attributes.items()
        if declared.type == onnx.defs.OpSchema.AttrType.STRING and isinstance(given.get(name), np.ndarray)
    }


def with_texts(evaluate: Evaluate) -> Evaluate:
    """Return what computes the engine's `onnx::` functions, with attributes that are a text.

    Args:
        evaluate: The engine's `evaluate_onnx_expr`.
    """

    def wrapper(
        expr: str, base_parameters: Mapping[str, Any], evaluated_parameters: Mapping[str, Any], *rest: Any
    ) -> Any:
        from modeci_mdf.functions.onnx import get_onnx_schema

        attributes = get_onnx_schema(expr.partition("(")[0].rpartition(".")[2]).attributes
        given = {**evaluated_parameters, **texts(attributes, evaluated_parameters)}
        return evaluate(expr, base_parameters, given, *rest)

    return wrapper
