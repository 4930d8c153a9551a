"""Registration with modeci-mdf: our functions in its registry, for its own engine.

The only module that touches modeci-mdf's private parts. Facts that decide how:

- The engine evaluates a registered function as a Python expression over the node's ports, parameters
  and arguments, and swallows any exception; the user would see "Could not evaluate expression". So the
  error is kept aside here and raised when the node gives up.
- Bare words (`reduction: add`) are expressions to it, unless its list of known names has them; `max`
  and `min` arrive as Python's builtins.
- It prints while it is built and run, even where it was told not to.
- A file read by modeci-mdf has lists where arrays were; their types stand in the metadata.
"""

from __future__ import annotations

import builtins
import copy
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np
import numpy.typing as npt
from modeci_mdf.mdf import Node

from mdf_scatter.dtypes import dtype_of
from mdf_scatter.errors import OperatorError
from mdf_scatter.formats.restore import restored_node
from mdf_scatter.ops import OPS, Op
from mdf_scatter.ops.arguments import check_lda_coeff, check_training

_CALL = "__import__('mdf_scatter.plugin', fromlist=['evaluate']).evaluate({name!r}, globals())"

_lock = threading.RLock()
_undo: list[Callable[[], None]] = []
_holders = 0
_wanted = False
_failure: ContextVar[OperatorError | None] = ContextVar("mdf_scatter_failure", default=None)


def register() -> None:
    """Make our functions known to modeci-mdf, in place of its own ones of the same name.

    `ScatterND` and `onnx::ScatterND` then work from a Function and from a Parameter of any MDF model in
    `modeci_mdf.execution_engine.EvaluableGraph`. Calling it again does nothing.
    """
    global _wanted
    with _lock:
        _wanted = True
        _settle()


def unregister() -> None:
    """Put everything that `register` changed back as it was. Calling it again does nothing."""
    global _wanted
    with _lock:
        _wanted = False
        _settle()


@contextmanager
def registered() -> Iterator[None]:
    """Register for as long as the block lasts, in whichever threads, and leave all as it was before."""
    global _holders
    with _lock:
        _holders += 1
        _settle()
    try:
        yield
    finally:
        with _lock:
            _holders -= 1
            _settle()


def evaluate(name: str, scope: Mapping[str, Any]) -> npt.NDArray[Any]:
    """Compute one of our functions for modeci-mdf's engine.

    Args:
        name: The operator's name in `OPS`.
        scope: The names that the engine would give to an expression: ports, parameters, arguments.

    Raises:
        OperatorError: An argument is missing or wrong. The engine swallows it; the node raises it again.
    """
    op = OPS[name]
    try:
        for argument in op.inputs:
            if argument not in scope:
                raise OperatorError(name, f"argument {argument!r} is missing; give it in the function's args")
        inputs = [scope[argument] for argument in op.inputs]
        return op.forward(*inputs, **_attributes(op, scope))
    except OperatorError as error:
        _failure.set(error)
        raise


_CHECKS: Mapping[str, Callable[[str, Any], None]] = {
    "training": check_training,
    "lda_coeff": check_lda_coeff,
}
"""Arguments that every function of ours has beside its operator's own."""


def _attributes(op: Op, scope: Mapping[str, Any]) -> dict[str, Any]:
    given = {name: _option(scope[name]) for name in (*op.attributes, *_CHECKS) if name in scope}
    given = {name: value for name, value in given.items() if value is not None}
    for name in given.keys() & _CHECKS.keys():
        _CHECKS[name](op.name, given[name])
    return {name: value for name, value in given.items() if name in op.attributes}


def _option(value: Any) -> Any:
    """Return an attribute as it was meant, from what the engine made of it."""
    if value is builtins.max or value is builtins.min:
        return value.__name__
    if isinstance(value, np.ndarray) and value.size == 1:
        value = value.item()
    if isinstance(value, bytes):
        value = value.decode("utf-8", "replace")
    if isinstance(value, str) and len(value) > 1 and value[0] == value[-1] and value[0] in "'\"":
        return value[1:-1]
    return value


def _settle() -> None:
    """Install or remove, whichever brings about what is wanted now."""
    if (_wanted or _holders) and not _undo:
        _install()
    while _undo and not (_wanted or _holders):
        _undo.pop()()


def _install() -> None:
    from modeci_mdf import execution_engine
    from modeci_mdf.functions.standard import mdf_functions

    for op in OPS.values():
        names = [op.name] + [f"onnx::{op.name}"] * ("::" not in op.name)
        for name in names:
            _replace(mdf_functions, name, _registration(op))
    bare = [
        spelled
        for op in OPS.values()
        for attribute in op.attributes.values()
        for choice in attribute.choices
        for spelled in (choice, repr(choice))
        if spelled not in execution_engine.KNOWN_PARAMETERS
    ]
    _replace(vars(execution_engine), "KNOWN_PARAMETERS", [*execution_engine.KNOWN_PARAMETERS, *bare])
    _replace(vars(execution_engine), "print", _print_if_verbose)
    node_class = execution_engine.EvaluableNode
    _replace_attribute(node_class, "__init__", _typed_node(node_class.__init__))
    _replace_attribute(node_class, "evaluate", _naming_failures(node_class.evaluate))


def _registration(op: Op) -> dict[str, Any]:
    return {
        "description": op.doc,
        "arguments": [*op.inputs, *op.attributes, *_CHECKS],
        "expression_string": _CALL.format(name=op.name),
        "function": op.forward,
    }


def _typed_node(init: Callable[..., None]) -> Callable[..., None]:
    def wrapper(self: Any, node: Node, *args: Any, **kwargs: Any) -> None:
        init(self, typed_node(node), *args, **kwargs)

    return wrapper


def typed_node(node: Node) -> Node:
    """Return the node with its arrays as their types say; the node itself where nothing changes.

    Types are those that a file written by `save` keeps in the metadata, and those that ports declare
    for their default values.
    """
    node = restored_node(node)
    ports = []
    for port in node.input_ports:
        dtype = dtype_of(port.type) if port.type else None
        if dtype is not None and isinstance(port.default_value, (list, int, float)):
            port = copy.copy(port)
            port.default_value = np.asarray(port.default_value, dtype)
        ports.append(port)
    if any(new is not old for new, old in zip(ports, node.input_ports, strict=True)):
        node = copy.copy(node)
        node.input_ports = ports
    return node


def _naming_failures(evaluate_node: Callable[..., None]) -> Callable[..., None]:
    def wrapper(self: Any, *args: Any, **kwargs: Any) -> None:
        token = _failure.set(None)
        try:
            _give_types(self)
            evaluate_node(self, *args, **kwargs)
        except Exception:
            failure = _failure.get()
            if failure is None:
                raise
            raise failure.at(self.node.id) from failure
        finally:
            _failure.reset(token)

    return wrapper


def _give_types(node: Any) -> None:
    """A list or number given to a port that declares a dtype is of that dtype."""
    for port in node.evaluable_inputs.values():
        dtype = dtype_of(port.input_port.type) if port.input_port.type else None
        if dtype is not None and isinstance(port.curr_value, (list, int, float)):
            port.curr_value = np.asarray(port.curr_value, dtype)


def _print_if_verbose(*values: object, **options: Any) -> None:
    # Every print of the engine stands in a method of an object that knows whether it is to be verbose.
    caller = sys._getframe(1).f_locals.get("self")
    if getattr(caller, "verbose", False):
        _write(*values, **options)


_write = builtins.print


def _replace(table: Any, name: str, value: Any) -> None:
    if name in table:
        old = table[name]
        _undo.append(lambda: table.__setitem__(name, old))
    else:
        _undo.append(lambda: table.__delitem__(name))
    table[name] = value


def _replace_attribute(owner: Any, name: str, value: Any) -> None:
    old = getattr(owner, name)
    _undo.append(lambda: setattr(owner, name, old))
    setattr(owner, name, value)
