"""One MDF node as ONNX nodes: its ports, parameters and functions, resolved by name.

MDF's engine evaluates a node in this order: its input ports; its functions, for which parameters are
what they were before; its parameters in the file's order, each seeing the new values of those above it
and the old ones of the others and of itself; its output ports.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Any

import numpy as np
from modeci_mdf.mdf import Function, Node, OutputPort, Parameter

from mdf_scatter.errors import UnsupportedError
from mdf_scatter.lower.arithmetic import scale, select
from mdf_scatter.lower.builder import Builder, Literal, Operand
from mdf_scatter.lower.evaluation import Evaluation, Key
from mdf_scatter.lower.functions import METADATA, Call, lower_call
from mdf_scatter.lower.node_reading import NodeReading, Read, results_used, whole
from mdf_scatter.lower.stateful import conditions_of, is_constant, is_stateful, names_in
from mdf_scatter.wiring import onnx_metadata

_INITIAL = 0.0
"""What MDF's engine takes for the value of a parameter that has none."""


class NodeLowering(NodeReading):
    """Lowers one node; names are resolved when they are first needed.

    Args:
        builder: Where the ONNX nodes go.
        node: The node.
        inputs: The value at each input port.
        evaluation: The evaluation of the graph that is lowered.
        held: Parameters that stay initializers of their own.
    """

    def __init__(
        self,
        builder: Builder,
        node: Node,
        inputs: Mapping[str, Operand],
        evaluation: Evaluation,
        held: Collection[Key] = (),
    ) -> None:
        super().__init__(builder, node, inputs)
        self._held = held
        self._evaluation = evaluation
        self._places = {name: place for place, name in enumerate(self._parameters)}
        self._found: dict[tuple[str, str], list[Operand]] = {}
        self._open: set[tuple[str, str]] = set()
        self._unread: list[tuple[Parameter, Any]] = []
        self._used = results_used(node)

    def output(self, port: OutputPort) -> Operand:
        """Return the value at an output port.

        Raises:
            UnsupportedError: The node cannot be expressed in ONNX.
        """
        if port.value is None:
            raise UnsupportedError(f"{self._where()}: output port {port.id!r} has no value")
        return self._one(port.value, port.id, self._new)

    def leave(self) -> None:
        """Give the graph what the next evaluation reads of the node's parameters."""
        done: set[Key] = set()
        while waiting := self._waiting(done):
            for key in waiting:
                done.add(key)
                if key[1] in self._parameters:
                    value = self._start(key[1]) if self._evaluation.gives_start else self._end(key[1])
                    if value is not None:
                        self._evaluation.leave(self._builder, key, value)

    def _waiting(self, done: Collection[Key]) -> list[Key]:
        while self._unread:
            # With a step of time one thing is read, without it another: the next evaluation may read either.
            parameter, unread = self._unread.pop()
            place = self._places[parameter.id]
            for name in names_in(unread):
                if self._places.get(name, -1) < place:
                    self._named(name, place)
                elif not is_constant(self._parameters[name], self._parameters):
                    self._keep(self._parameters[name])
        return [key for key in self._evaluation.state if key[0] == self._node.id and key not in done]

    def _end(self, name: str) -> Operand:
        return self._merged(self._after(name), name, name)

    def _start(self, name: str) -> Operand | None:
        """Return what a parameter is before the first evaluation; None where it is nothing yet."""
        parameter = self._parameters[name]
        if parameter.value is None and parameter.default_initial_value is None:
            return None
        return self._merged(self._before(name), name, name)

    def _new(self, name: str) -> list[Operand]:
        """Return what a name stands for when all of the node has been evaluated."""
        return self._named(name, len(self._places))

    def _old(self, name: str) -> list[Operand]:
        """Return what a name stands for before any parameter has been evaluated."""
        return self._named(name, 0)

    def _named(self, name: str, evaluated: int) -> list[Operand]:
        """Return what a name stands for when the first parameters have been evaluated, that many."""
        if name in self._places:
            is_new = self._places[name] < evaluated
            return self._after(name) if is_new else self._before(name)
        if name in self._functions:
            return self._once(("function", name), partial(self._function, self._functions[name]))
        if name in self._inputs:
            return [self._inputs[name]]
        raise UnsupportedError(f"{self._where()}: {name!r} is not a port, parameter or function of the node")

    def _after(self, name: str) -> list[Operand]:
        return self._once(("after", name), partial(self._evaluated, self._parameters[name]))

    def _before(self, name: str) -> list[Operand]:
        parameter = self._parameters[name]
        if is_constant(parameter, self._parameters):
            return self._after(name)
        self._keep(parameter)
        if not self._evaluation.is_first:
            return [self._evaluation.read(self._builder, (self._node.id, name))]
        return self._once(("before", name), partial(self._started, parameter))

    def _once(self, key: tuple[str, str], compute: Callable[[], list[Operand]]) -> list[Operand]:
        if key not in self._found:
            if key in self._open:
                raise UnsupportedError(f"{self._where()}: {key[1]!r} depends on itself")
            self._open.add(key)
            self._found[key] = compute()
        return self._found[key]

    def _keep(self, parameter: Parameter) -> None:
        is_state = is_stateful(parameter) or parameter.value is None
        self._evaluation.keep((self._node.id, parameter.id), is_state=is_state)

    def _started(self, parameter: Parameter) -> list[Operand]:
        """Return what a parameter is before it has been evaluated for the first time."""
        if parameter.default_initial_value is not None:
            return self._values(parameter.default_initial_value, parameter.id, self._old)
        if is_stateful(parameter):
            return [Literal(_INITIAL)]
        if parameter.value is None:
            raise UnsupportedError(
                f"{self._where()}: parameter {parameter.id!r} is read before it has a value; "
                "give it a default_initial_value"
            )
        return self._values(parameter.value, parameter.id, self._old)

    def _evaluated(self, parameter: Parameter) -> list[Operand]:
        """Return the new value of a parameter."""
        read = partial(self._named, evaluated=self._places[parameter.id])
        current: list[Operand] | None
        if parameter.value is not None:
            current = self._given(parameter, read)
        elif parameter.function is not None:
            current = self._call(parameter.id, parameter.function, parameter.args, read)
        elif parameter.time_derivative is not None:
            current = [self._moved(parameter, parameter.time_derivative, read)]
        else:
            current = self._carried(parameter)
        tests = list(conditions_of(parameter))
        if not tests:
            if current is None:
                raise UnsupportedError(f"{self._where()}: parameter {parameter.id!r} has no value")
            return current
        name = parameter.id
        value = Literal(_INITIAL) if current is None else self._merged(current, name, name)
        for test, wanted in tests:
            met, other = self._one(test, name, read), self._one(wanted, name, read)
            value = select(self._arithmetic, met, other, value)
        return [value]

    def _given(self, parameter: Parameter, read: Read) -> list[Operand]:
        if not is_stateful(parameter):
            # The engine cannot start where such a parameter reads one below it, so there is no old value.
            read = self._new
        if (self._node.id, parameter.id) in self._held:
            return [self._builder.held_constant(parameter.value, self._hint(parameter.id))]
        values = self._values(parameter.value, parameter.id, read)
        if len(values) == 1 and isinstance(values[0], Literal):
            return [Literal(values[0].value, values[0].listed, self._hint(parameter.id))]
        return values

    def _carried(self, parameter: Parameter) -> list[Operand] | None:
        self._keep(parameter)
        if self._evaluation.is_first:
            return None
        return [self._evaluation.read(self._builder, (self._node.id, parameter.id))]

    def _moved(self, parameter: Parameter, derivative: str, read: Read) -> Operand:
        """Return a parameter one step of time later; without a step, where it starts from."""
        old = self._carried(parameter)
        unread = parameter.default_initial_value if self._evaluation.time_increment else derivative
        self._unread.append((parameter, unread))
        if old is None or not self._evaluation.time_increment:
            if parameter.default_initial_value is None:
                raise UnsupportedError(
                    f"{self._where()}: parameter {parameter.id!r} has no default_initial_value to start from"
                )
            return self._one(parameter.default_initial_value, parameter.id, read)
        slope = self._one(derivative, parameter.id, read)
        step = self._evaluation.step_of_time(self._builder)
        a = self._arithmetic
        return a.apply(np.add, "Add", old[0], scale(a, slope, step))

    def _function(self, function: Function) -> list[Operand]:
        if function.function is not None:
            return self._call(function.id, function.function, function.args, self._old_or_called)
        read = self._with_arguments(function.args, self._old_or_called)
        return self._values(function.value, function.id, read)

    def _old_or_called(self, name: str) -> list[Operand]:
        # The engine cannot start where a function reads a parameter that calls one; read here, it is new.
        parameter = self._parameters.get(name)
        is_called = parameter is not None and parameter.value is None and parameter.function is not None
        return self._new(name) if is_called else self._old(name)

    def _with_arguments(self, args: Mapping[str, Any] | None, read: Read) -> Read:
        """Return how names are read where a call's arguments are known; each sees those before it."""
        given = args or {}
        places = {name: place for place, name in enumerate(given)}
        found: dict[str, list[Operand]] = {}

        def upto(limit: int) -> Read:
            def look(name: str) -> list[Operand]:
                if places.get(name, limit) >= limit:
                    return read(name)
                if name not in found:
                    read_before = upto(places[name])
                    found[name] = self._values(given[name], name, read_before, is_argument=True)
                return found[name]

            return look

        return upto(len(given))

    def _call(self, result: str, function: str, args: Mapping[str, Any] | None, read: Read) -> list[Operand]:
        given = args or {}
        sole = len(self._node.functions) + sum(p.function is not None for p in self._node.parameters) == 1
        look = self._with_arguments(given, read)

        def argument(name: str) -> Operand | list[Operand] | None:
            if name in given:
                values = None if given[name] is None else look(name)
            else:
                # MDF resolves an argument that is left out from the node's scope.
                values = read(name) if name != result and self._knows(name) else None
            return values[0] if values is not None and len(values) == 1 else values

        def kept(name: str) -> dict[str, Any]:
            value = given.get(name, name)
            parameter = self._parameters.get(value) if isinstance(value, str) else None
            return {} if parameter is None else onnx_metadata(parameter)

        def option(name: str) -> Any:
            if name in given:
                return self._constant(given[name])
            return self._constant(name) if name != result and name in self._parameters else None

        name = str(onnx_metadata(self._node).get("name", self._node.id))
        results = lower_call(
            self._builder,
            Call(
                function=function,
                where=self._where(function),
                name=name if sole else f"{name}.{result}",
                given=tuple(given),
                outputs=max(self._used.get(result, 1), self._results(result)[0]),
                argument=argument,
                option=option,
                metadata_props=_metadata_props(self._node) if sole else {},
                doc_string=onnx_metadata(self._node).get("doc_string") if sole else None,
                kept=kept,
            ),
        )
        return [whole(value) for value in results]


def _metadata_props(node: Node) -> dict[str, str]:
    kept = dict(node.metadata or {})
    onnx = kept.pop("onnx", {})
    props = {str(key): str(text) for key, text in onnx.get("metadata_props", {}).items()}
    if kept:
        props[METADATA + "metadata"] = json.dumps(kept, default=str)
    return props
