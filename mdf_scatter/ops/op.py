"""What an operator is, and the table of all operators."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy.typing as npt


@dataclass(frozen=True)
class Attribute:
    """A setting of an operator that is not a tensor.

    Attributes:
        default: Its value where none is given.
        choices: Every value it may have; empty where that is not a list.
        doc: What it does, in a sentence.
    """

    default: Any
    choices: tuple[Any, ...] = ()
    doc: str = ""


@dataclass(frozen=True)
class Case:
    """One call of an operator and what comes of it: for tests, documentation and benchmarks alike.

    Attributes:
        name: What the case shows, unique within its operator.
        inputs: The operator's inputs, in order.
        attributes: Attributes that differ from their default.
        expected: The result; None where the call is an error.
        error: The whole message; None where the call gives a result.
    """

    name: str
    inputs: tuple[Any, ...]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    expected: npt.NDArray[Any] | None = None
    error: str | None = None


@dataclass(frozen=True)
class Op:
    """An operator, whole.

    Attributes:
        name: Its name in `OPS`; ONNX's own, or `domain::name`.
        inputs: Names of its inputs, in order; those that may be left out come last.
        attributes: Its attributes, by name.
        versions: ONNX opset -> what the operator's version of that opset brings.
        forward: `forward(*inputs, **attributes)` gives the result, an array.
        cases: Examples, right calls and wrong ones.
        doc: What it does, in a sentence.
        optional: Names of the inputs that may be left out.
    """

    name: str
    inputs: tuple[str, ...]
    attributes: Mapping[str, Attribute]
    versions: Mapping[int, str]
    forward: Callable[..., npt.NDArray[Any]]
    cases: tuple[Case, ...]
    doc: str
    optional: tuple[str, ...] = ()


OPS: dict[str, Op] = {}
"""Every operator, by name."""


def add_op(op: Op) -> Op:
    """Enter an operator into `OPS` and return it.

    Raises:
        ValueError: The table has an operator of that name.
    """
    if op.name in OPS:
        raise ValueError(f"operator {op.name!r} is in OPS already; names are unique")
    OPS[op.name] = op
    return op
