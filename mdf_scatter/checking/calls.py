"""Calls of functions: that there is such a function, and that it is given what it takes."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
from modeci_mdf.mdf import Function, Parameter

from mdf_scatter.attributes import is_reference
from mdf_scatter.checking.edges import find_circles
from mdf_scatter.checking.finding import Finding, chain, error, near, warning
from mdf_scatter.checking.scope import Call, Scope, args_of, variables
from mdf_scatter.errors import OperatorError, did_you_mean, listed
from mdf_scatter.expressions import ExpressionError, parse, shorten
from mdf_scatter.ops import OPS, Op
from mdf_scatter.ops.arguments import check_choice
from mdf_scatter.ops.settings import check_lda_coeff, described, is_flag

STANDARD = {
    "linear": ("variable0", "slope", "intercept"),
    "logistic": ("variable0", "gain", "bias", "offset"),
    "exponential": ("variable0", "scale", "rate", "bias", "offset"),
    **dict.fromkeys(
        ("sin", "cos", "tan", "sinh", "cosh", "tanh", "arcsin", "arccos", "arctan"), ("variable0", "scale")
    ),
    "MatMul": ("A", "B"),
    "Relu": ("A",),
}
"""MDF's standard functions; those of ACT-R and DDM are asked of modeci-mdf, which is slow to import."""

SETTINGS = ("training", "lda_coeff", "specified_outputs_name")
"""What every node of ours may be given beside its operator's attributes."""


_TEXT_KINDS = ("STRING", "STRINGS", "TYPE_PROTO", "TYPE_PROTOS")


@dataclass(frozen=True)
class Signature:
    """What a function takes.

    Attributes:
        required: Arguments it cannot do without.
        known: Every argument; None where any name will do.
        texts: Arguments that are words or texts, not tensors.
        inputs: Arguments that are tensors.
    """

    required: tuple[str, ...]
    known: frozenset[str] | None
    texts: frozenset[str] = field(default_factory=frozenset)
    inputs: frozenset[str] = field(default_factory=frozenset)


def operator(call: Call) -> Op | None:
    """Return the operator of ours that is called, with or without `onnx::`."""
    return OPS.get(call.function.removeprefix("onnx::")) if isinstance(call.function, str) else None


@cache
def signature(function: str) -> Signature | None:
    """Return what a function takes; None where there is no such function."""
    family = OPS.get(function.removeprefix("onnx::"))
    if family is not None:
        return _family_signature(family)
    if "::" in function:
        domain, _, name = function.rpartition("::")
        return _onnx_signature("" if domain == "onnx" else domain, name)
    arguments = STANDARD.get(function) or _host_functions().get(function)
    return None if arguments is None else Signature(tuple(arguments), frozenset(arguments))


def options(scope: Scope) -> set[tuple[str, ...]]:
    """Name the places of a node where a text is a word or a text, not an expression."""
    words: set[tuple[str, ...]] = {("specified_outputs_name",)}
    for call in scope.calls:
        taken = signature(call.function) if isinstance(call.function, str) else None
        args = args_of(call)
        texts = taken.texts if taken is not None else frozenset(args) | frozenset(scope.parameters)
        for name in texts:
            given = args.get(name, name)
            words |= {(call.id, name), (name,)}
            if isinstance(given, str):
                words.add((given,))
    return words


def implicit(scope: Scope, call: Call) -> list[str]:
    """Return the arguments that a call leaves out and the node has under their own names."""
    taken = signature(call.function) if isinstance(call.function, str) else None
    args = args_of(call)
    known = () if taken is None else taken.known or ()
    return [name for name in known if name not in args and scope.argument(call, name) is not None]


def check_calls(scope: Scope, own: Collection[str]) -> Iterator[Finding]:
    """Find functions that are not known, and arguments that are missing, unknown or wrong.

    Args:
        scope: The node.
        own: Functions that the model itself defines, whose arguments are not looked at.
    """
    for call in scope.calls:
        where = scope.where(call.id)
        if call.args is not None and not isinstance(call.args, dict):
            yield error(where, f"args is of type {type(call.args).__name__}; expected names and values")
        if not isinstance(call.function, str):
            yield error(where, f"function is of type {type(call.function).__name__}; expected a name")
            continue
        if call.value is not None:
            wins, other = ("function", "value") if isinstance(call, Function) else ("value", "function")
            yield warning(where, f"has a function and a value; the {wins} counts: remove the {other}")
        if call.function in own:
            continue
        taken = signature(call.function)
        if taken is None:
            yield _unknown(where, call.function)
            continue
        yield from _check_arguments(scope, call, taken)
        if (op := operator(call)) is not None:
            for problem in attribute_problems(scope, call, op).values():
                yield error(where, problem)


def check_order(scope: Scope) -> Iterator[Finding]:
    """Find functions, and parameters without state, that wait for each other."""
    parts = (*scope.node.parameters, *scope.node.functions)
    before = {part.id: [] if _has_state(part, scope) else _reads(part, scope) for part in parts}
    order = {name: position for position, name in enumerate(before)}
    for circle in find_circles(before, order):
        itself = next((part for part in parts if [part.id] == circle), None)
        own = [name for name, value in args_of(itself).items() if value == itself.id] if itself else []
        yield error(
            scope.where(),
            f"argument {own[0]!r} of {circle[0]!r} is {circle[0]!r} itself: give the function another id"
            if own
            else f"values wait for each other: {chain(circle)};"
            " what is kept from step to step is a parameter with a default_initial_value",
        )


def _has_state(part: Call, scope: Scope) -> bool:
    return isinstance(part, Parameter) and (
        part.default_initial_value is not None
        or part.time_derivative is not None
        or part.id in _reads(part, scope)
    )


def _reads(part: Call, scope: Scope) -> list[str]:
    args = args_of(part)
    # A function's value reads its own args first; a parameter with a value does not call its function.
    values = list(args.values()) if isinstance(part, Function) or part.value is None else []
    named = [name for name in variables(part.value, scope.names) if name not in args]
    for value in values:
        named += [name for name in variables(value, scope.names) if name not in args or name == value]
    return named


def attribute_value(scope: Scope, call: Call, name: str) -> Any:
    """Return the number or text that an attribute or setting always is; None where that is open.

    A list of one text, as MDF files have it for ONNX's operators, is that text.
    """
    value = scope.constant(scope.argument(call, name))
    if is_reference(value):  # the graph is the body of a function, whose attribute it is
        return None
    items = value.tolist() if isinstance(value, np.ndarray) else value
    return items[0] if isinstance(items, list) and len(items) == 1 and isinstance(items[0], str) else value


def attribute_problems(scope: Scope, call: Call, op: Op) -> dict[str, str]:
    """Say what is wrong with the attributes and settings of one of our operators that are constant."""
    problems = {}
    for name, attribute in op.attributes.items():
        value = attribute_value(scope, call, name)
        if value is not None and attribute.choices:
            try:
                check_choice(op.name, name, value, attribute.choices)
            except OperatorError as found:
                problems[name] = str(found)
    training = attribute_value(scope, call, "training")
    if training is not None and not is_flag(training):
        problems["training"] = f"{op.name}: training is {described(training)}; expected true or false"
    factor = attribute_value(scope, call, "lda_coeff")
    if factor is not None:
        try:
            check_lda_coeff(op.name, factor)
        except OperatorError as found:
            problems["lda_coeff"] = str(found)
    return problems


def _check_arguments(scope: Scope, call: Call, taken: Signature) -> Iterator[Finding]:
    where = scope.where(call.id)
    args = args_of(call)
    for name in taken.required:
        if scope.argument(call, name) is None:
            hint = near(name, [str(given) for given in args if given not in (taken.known or ())])
            yield error(
                where,
                f"{call.function} is missing its argument {name!r}; give it in args, or as a port or"
                f" parameter of that name{hint}",
            )
    read = {name for value in args.values() for name in variables(value, frozenset(args))}
    for name, value in args.items():
        if taken.known is not None and name not in taken.known and name not in read:
            # modeci-mdf passes over it; one of ours may be a misspelt attribute, whose default would count.
            report = warning if operator(call) is None else error
            yield report(
                where,
                f"{call.function} has no argument {name!r}; expected {listed(sorted(taken.known))}"
                f"{did_you_mean(str(name), taken.known)}",
            )
        for text in value if isinstance(value, list) and name in taken.inputs else ():
            if isinstance(text, str) and text not in scope.names:
                yield error(
                    scope.where(call.id, name),
                    f"names {text!r}, which is not a port, parameter or function of the node"
                    f"{near(text, scope.names)}",
                )


def _unknown(where: str, function: str) -> Finding:
    domain = function.rpartition("::")[0]
    if domain and domain not in _domains():
        return warning(
            where,
            f"function {shorten(function)!r} is of a domain that is not known here;"
            " it can be carried, not run",
        )
    return error(
        where, f"unknown function {shorten(function)!r}{_meant(function) or _near_functions(function)}"
    )


def _meant(function: str) -> str:
    try:
        is_expression = not isinstance(parse(function), ast.Name)
    except ExpressionError:
        return ""
    return "; write an expression as the value, not as the function" if is_expression else ""


@cache
def _near_functions(function: str) -> str:
    known = [*STANDARD, *OPS, *_host_functions()]
    known += [f"{domain or 'onnx'}::{name}" for domain, name in _schemas()]
    if f"onnx::{function}" in known:
        return f"; did you mean 'onnx::{function}'?"
    return did_you_mean(function, dict.fromkeys(known)) or (
        "; expected a standard function such as 'linear', an operator such as 'ScatterND', or an ONNX"
        " operator such as 'onnx::Add'"
    )


def _family_signature(op: Op) -> Signature:
    known = (*op.inputs, *op.attributes, *SETTINGS)
    optional = {
        value.name
        for schema in _schemas().get(("", op.name), ())
        for value in schema.inputs
        if value.option == value.option.Optional
    }
    texts = [name for name, attribute in op.attributes.items() if isinstance(attribute.default, str)]
    return Signature(
        tuple(name for name in op.inputs if name not in optional),
        frozenset(known),
        frozenset([*texts, "specified_outputs_name"]),
        frozenset(op.inputs),
    )


def _onnx_signature(domain: str, name: str) -> Signature | None:
    versions = _schemas().get((domain, name))
    if not versions:
        return None
    # A file need not say its opset: what any version takes is known, what every one needs is required.
    required = [_required(schema) for schema in versions]
    inputs = [value for schema in versions for value in schema.inputs]
    attributes = [attribute for schema in versions for attribute in schema.attributes.values()]
    is_variadic = any(value.option == value.option.Variadic for value in inputs)
    known = {part.name for part in (*inputs, *attributes)} | set(SETTINGS)
    return Signature(
        tuple(name for name in required[-1] if all(name in other for other in required)),
        None if is_variadic else frozenset(known),
        frozenset(a.name for a in attributes if a.type.name in _TEXT_KINDS),
        frozenset(value.name for value in inputs),
    )


def _required(schema: Any) -> list[str]:
    inputs = [value.name for value in schema.inputs if value.option == value.option.Single]
    return inputs + [attribute.name for attribute in schema.attributes.values() if attribute.required]


@cache
def _schemas() -> dict[tuple[str, str], list[Any]]:
    import onnx.defs

    found: dict[tuple[str, str], list[Any]] = {}
    for schema in onnx.defs.get_all_schemas_with_history():
        found.setdefault((schema.domain, schema.name), []).append(schema)
    for versions in found.values():
        versions.sort(key=lambda schema: schema.since_version)
    return found


@cache
def _domains() -> frozenset[str]:
    own = {name.rpartition("::")[0] for name in OPS}
    return frozenset(own | {domain for domain, _ in _schemas()} | {"onnx"})


@cache
def _host_functions() -> dict[str, list[str]]:
    from modeci_mdf.functions.standard import mdf_functions

    return {name: known["arguments"] for name, known in mdf_functions.items() if "::" not in name}
