"""Registration with modeci-mdf: our functions in its registry, for its own engine.

The only module that touches modeci-mdf's private parts. Facts that decide how:

- The engine evaluates a registered function as a Python expression over the node's ports, parameters
  and arguments, and swallows any exception; the user would see "Could not evaluate expression". So the
  error is kept aside here and raised when the node gives up.
- It takes bare words (`reduction: add`) for expressions, and a file that it has read has lists where
  arrays were; `host_nodes` prepares its nodes.
- Its `onnx::` functions are opset 15 and lose dtypes; `host_onnx` computes those of lifted graphs.
- It looks for the names in an expression piece by piece, and fails where a subscript stands inside
  parentheses: `(x[1] + 1)`. Here the names of such an expression come from its syntax tree.
- It writes texts of all arrays in scope for each expression; `host_values` finds plain values without.
- It prints while it is built and run, even where it was told not to.
- A port that adds or multiplies does so in place, in the array that another node's output still is.
- It keeps the edges into a node, and nodes that do not wait for each other, in sets: which edge is the
  last to write a port, and whose value an edge into a port with a default brings, changes from run to
  run. Here edges come in the order that the engine works out and then does not use, and nodes in the
  file's.
"""

from __future__ import annotations

import builtins
import copy
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache, partial
from typing import Any

import numpy as np
import numpy.typing as npt
from modeci_mdf.mdf import Graph, Node

from mdf_scatter import expressions
from mdf_scatter.dtypes import dtype_of
from mdf_scatter.errors import OperatorError
from mdf_scatter.host_nodes import Versioned, prepared, tensors
from mdf_scatter.host_onnx import evaluate_onnx
from mdf_scatter.host_values import at_a_glance, with_texts
from mdf_scatter.ops import OPS, Op
from mdf_scatter.ops.settings import check_lda_coeff, check_training
from mdf_scatter.wiring import onnx_metadata

_CALL = "__import__('mdf_scatter.plugin', fromlist=['evaluate']).evaluate({name!r}, globals())"
_VERSIONED_CALL = (
    "__import__('mdf_scatter.plugin', fromlist=['evaluate']).evaluate_versioned("
    "{operator.op_type!r}, {operator.opset}, {operator.results}, globals())"
)

_lock = threading.RLock()
_undo: list[Callable[[], None]] = []
_holders = 0
_wanted = False
_opset: ContextVar[int | None] = ContextVar("mdf_scatter_opset", default=None)
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
        return op.forward(*tensors(op, scope), **_attributes(op, scope))
    except OperatorError as error:
        _failure.set(error)
        raise


def evaluate_versioned(op_type: str, opset: int, results: int | None, scope: Mapping[str, Any]) -> Any:
    """Compute an ONNX operator of a graph that was lifted from ONNX, for modeci-mdf's engine.

    Raises:
        OperatorError: The operator does not take what it is given; see `evaluate`.
    """
    try:
        return evaluate_onnx(Versioned(op_type, opset, results), scope)
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
    # A text comes in a list, which the engine made an array of.
    return value.item() if isinstance(value, np.ndarray) and value.size == 1 else value


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
        names = [op.name] if "::" in op.name else [op.name, f"onnx::{op.name}"]
        for name in names:
            _replace(mdf_functions, name, _registration(op))
    _replace(vars(execution_engine), "print", _print_if_verbose)
    _replace(vars(execution_engine), "set", _OrderedSet)
    calls = {_CALL.format(name=name): partial(evaluate, name) for name in OPS}
    quick = at_a_glance(execution_engine.evaluate_params_modelspec, calls)
    _replace(vars(execution_engine), "evaluate_params_modelspec", quick)
    # It rewrites the text of a function, which does not change, with ten patterns at each evaluation.
    _wrap(execution_engine, "create_python_expression", cache)
    _wrap(execution_engine, "evaluate_onnx_expr", with_texts)
    _wrap(execution_engine, "get_required_variables_from_expression", _finding_names)
    _wrap(execution_engine.EvaluableInput, "set_input_value", _not_in_place)
    _wrap(execution_engine.EvaluableGraph, "__init__", _telling_opset)
    _wrap(execution_engine.EvaluableGraph, "__init__", _in_order)
    _wrap(execution_engine.EvaluableNode, "__init__", _prepared)
    _wrap(execution_engine.EvaluableNode, "evaluate", _naming_failures)


def _registration(op: Op) -> dict[str, Any]:
    return {
        "description": op.doc,
        "arguments": [*op.inputs, *op.attributes, *_CHECKS],
        "expression_string": _CALL.format(name=op.name),
        "function": op.forward,
    }


def _telling_opset(init: Callable[..., None]) -> Callable[..., None]:
    def wrapper(self: Any, graph: Graph, *args: Any, **kwargs: Any) -> None:
        opset = onnx_metadata(graph).get("opset")
        token = _opset.set(opset if isinstance(opset, int) else None)
        try:
            init(self, graph, *args, **kwargs)
        finally:
            _opset.reset(token)

    return wrapper


def _in_order(init: Callable[..., None]) -> Callable[..., None]:
    def wrapper(self: Any, graph: Graph, *args: Any, **kwargs: Any) -> None:
        init(self, graph, *args, **kwargs)
        self.graph = copy.copy(graph)
        self.graph.edges = self.ordered_edges
        place = {id(node): position for position, node in enumerate(graph.nodes)}
        run = self.scheduler.run
        self.scheduler.run = lambda **options: (
            sorted(nodes, key=lambda node: place[id(node)]) for nodes in run(**options)
        )

    return wrapper


def _not_in_place(set_value: Callable[..., None]) -> Callable[..., None]:
    def wrapper(self: Any, value: Any) -> None:
        if self.curr_value is not None and self.input_port.reduce == "add":
            value = self.curr_value + value
        elif self.curr_value is not None and self.input_port.reduce == "multiply":
            value = self.curr_value * value
        if self.verbose:
            self.curr_value = None
            set_value(self, value)
        else:
            self.curr_value = value

    return wrapper


def _finding_names(find: Callable[[str], list[str]]) -> Callable[[str], list[str]]:
    def wrapper(text: str) -> list[str]:
        try:
            return find(text)
        except SyntaxError:
            try:
                return expressions.names(expressions.parse(text))
            except expressions.ExpressionError:
                # A port may be called `in`; what else is no expression has been refused before it runs.
                return [text]

    return wrapper


class _OrderedSet(dict[Any, None]):
    """A set that is gone through in the order in which it was filled."""

    def __init__(self, items: Iterable[Any] = ()) -> None:
        super().__init__(dict.fromkeys(items))

    def add(self, item: Any) -> None:
        self[item] = None


def _prepared(init: Callable[..., None]) -> Callable[..., None]:
    def wrapper(self: Any, node: Node, *args: Any, **kwargs: Any) -> None:
        own, self.versioned = prepared(node, _opset.get())
        _register_versioned(self.versioned)
        init(self, own, *args, **kwargs)

    return wrapper


def _register_versioned(operators: Iterable[Versioned]) -> None:
    from modeci_mdf.functions.standard import mdf_functions

    for operator in operators:
        if str(operator) not in mdf_functions:
            entry: dict[str, Any] = {
                "description": f"ONNX {operator.op_type}, opset {operator.opset}.",
                "arguments": [],
                "expression_string": _VERSIONED_CALL.format(operator=operator),
                "function": None,
            }
            with _lock:
                _replace(mdf_functions, str(operator), entry)


def _naming_failures(evaluate_node: Callable[..., None]) -> Callable[..., None]:
    def wrapper(self: Any, *args: Any, **kwargs: Any) -> None:
        token = _failure.set(None)
        try:
            _give_types(self)
            # What it needs may have been removed since it was made; or it was made before anything was there.
            _register_versioned(getattr(self, "versioned", ()))
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
    """A list at a port is an array, and that or a number is of the dtype that the port declares."""
    for port in node.evaluable_inputs.values():
        dtype = dtype_of(port.input_port.type) if port.input_port.type else None
        is_number = dtype is not None and isinstance(port.curr_value, (int, float))
        if is_number or isinstance(port.curr_value, list):
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


def _wrap(owner: Any, name: str, wrapper: Callable[[Any], Any]) -> None:
    old = getattr(owner, name)
    _undo.append(lambda: setattr(owner, name, old))
    setattr(owner, name, wrapper(old))
