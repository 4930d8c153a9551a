"""Rules of the recurrent operators: each is written out as the Scan that it is, which then goes backwards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import onnx_ir as ir

from mdf_scatter.errors import listed
from mdf_scatter.gradient.emitter import Emitter
from mdf_scatter.gradient.reverse import through_others
from mdf_scatter.gradient.rules.cells import CELLS, Activation, Cell, Weights
from mdf_scatter.gradient.table import Call, Gradient, rule

_ACTIVATIONS: dict[str, tuple[float | None, ...]] = {
    "Affine": (None, None), "Elu": (1.0,), "HardSigmoid": (0.2, 0.5), "LeakyRelu": (0.01,), "Relu": (),
    "ScaledTanh": (None, None), "Sigmoid": (), "Softplus": (), "Softsign": (), "Tanh": (),
    "ThresholdedRelu": (1.0,),
}  # fmt: skip
"""Activation functions, and their alpha and beta where a model gives none: those of ONNX's operators."""

_BY_NAME = {name.lower(): name for name in _ACTIVATIONS}
_DIRECTIONS = {"forward": (0,), "reverse": (1,), "bidirectional": (0, 1)}
_W, _R, _B, _LENGTHS, _H, _C, _P = range(1, 8)
"""Positions of the inputs."""


@rule("RNN", "GRU", "LSTM")
def recurrent(call: Call) -> Sequence[Gradient]:
    """Y = the state h after each step, Y_h and Y_c = the states after the last; see `cells` for a step."""
    cell = CELLS["LinearGRU" if call.attribute("linear_before_reset", 0) else call.node.op_type]
    for name in ("clip", "input_forget"):
        if call.attribute(name):
            raise call.refusal(f"{name} is {call.attribute(name)}; leave it out")
    before: dict[ir.Node, ir.Value] = {}
    found = through_others(call, lambda: _written_out(call, cell, before))
    for node, states in before.items():
        _look_up(node, states)
    return found


def _written_out(call: Call, cell: Cell, before: dict[ir.Node, ir.Value]) -> list[ir.Value]:
    """Write the operator as a Scan for each direction, and return its outputs.

    Args:
        call: The operator.
        cell: How it works.
        before: Gets each Scan, and the state h before each turn, which stands in the operator's own output.
    """
    emit = call.emit
    by_batch = bool(call.attribute("layout", 0))
    ways = _DIRECTIONS[call.attribute("direction", "forward")]
    x = emit.transpose(call.input(0), [1, 0, 2]) if by_batch else call.input(0)
    _check_lengths(call, x)
    parts: list[dict[int, ir.Value]] = [{} for _ in ways]
    for at in (_W, _R, _B, _H, _C, _P):
        value = call.optional(at)
        if value is not None:
            turned = emit.transpose(value, [1, 0, 2]) if by_batch and at in (_H, _C) else value
            for part, own in zip(parts, _each(emit, turned, len(ways)), strict=True):
                part[at] = own
    activations = _activations(call, cell, len(ways))
    given = call.further(0, ir.DataType.from_numpy(emit.dtype(x)), None)
    given = emit.transpose(given, [1, 2, 0, 3]) if by_batch else given
    ends = []
    for at, (part, functions, way) in enumerate(zip(parts, activations, ways, strict=True)):
        part.setdefault(_H, _zeros(emit, x, _hidden(call)))
        states = _before(emit, part[_H], emit("Gather", given, emit.integers(at), axis=1), way)
        ends.append(_scan(call, cell, x, part, functions, way))
        before[emit.builder.nodes[-1]] = states
    *last, y = (
        _joined(emit, values, axis)
        for values, axis in zip(zip(*ends, strict=True), (*(0 for _ in range(cell.states)), 1), strict=True)
    )
    if not by_batch:
        return [y, *last]
    return [emit.transpose(y, [2, 0, 1, 3]), *(emit.transpose(state, [1, 0, 2]) for state in last)]


def _scan(
    call: Call,
    cell: Cell,
    x: ir.Value,
    parts: Mapping[int, ir.Value],
    functions: Sequence[Activation],
    way: int,
) -> list[ir.Value]:
    """Write the Scan of one direction, and return the last states, and the state h after each step."""
    emit = call.emit
    given = emit("MatMul", x, emit.transpose(parts[_W], [1, 0]))
    hidden = _hidden(call)
    bias = None
    if _B in parts:
        outer, bias = emit.several("Split", parts[_B], outputs=2, axis=0, num_outputs=2)
        if not cell.adds_bias:
            outer, bias = emit("Add", outer, bias), None
        given = emit("Add", given, outer)
    weights = Weights(
        [
            emit.transpose(part, [1, 0])
            for part in _rows(emit, parts[_R], [n * hidden for n in cell.recurrent])
        ],
        bias,
        _rows(emit, parts[_P], [hidden] * 3) if _P in parts else (),
        functions,
    )
    starts = [parts[at] if at in parts else _zeros(emit, x, hidden) for at in (_H, _C)[: cell.states]]
    inside = emit.inner()
    sizes = ir.Shape([1]) if x.shape is None else x.shape
    slots = [
        ir.Value(name=inside.builder.free_name(name), type=x.type, shape=ir.Shape([sizes[1], size]))
        for name, size in (
            *(("h", hidden), ("c", hidden))[: cell.states],
            ("x", sum(cell.recurrent) * hidden),
        )
    ]
    after = cell.step(inside, weights, slots[-1], slots[:-1])
    body = ir.Graph(
        slots,
        [*after, inside("Identity", after[0])],
        nodes=inside.builder.nodes,
        initializers=list(inside.builder.initializers.values()),
        name=f"{emit.name}_step",
    )
    *ends, y = emit.several(
        "Scan",
        *starts,
        given,
        outputs=cell.states + 1,
        body=body,
        num_scan_inputs=1,
        scan_input_directions=[way] if way else None,
        scan_output_directions=[way] if way else None,
    )
    for end in ends:
        end.type, end.shape = x.type, slots[0].shape
    y.type, y.shape = x.type, ir.Shape([sizes[0], sizes[1], hidden])
    return [*ends, y]


def _before(emit: Emitter, start: ir.Value, states: ir.Value, way: int) -> ir.Value:
    """Return the state before each turn of a direction, from the one after each step."""
    end, first = emit.integers([0]), emit.integers([-1])
    earlier = emit("Slice", states, first, end, end, first) if way else emit("Slice", states, end, first)
    return emit("Concat", emit.unsqueeze(start, [0]), earlier, axis=0)


def _look_up(scan: ir.Node, states: ir.Value) -> None:
    """Let what reads the states h that a Scan keeps read those that its operator has given."""
    body = scan.attributes["body"].as_graph()
    for end, kept in zip(body.outputs, scan.outputs, strict=True):
        maker = end.producer()
        if maker is not None and maker.op_type == "Identity" and maker.inputs[0] is body.inputs[0]:
            kept.replace_all_uses_with(states)


def _hidden(call: Call) -> int:
    shape = call.input(_R).shape
    hidden = call.attribute("hidden_size") or (None if shape is None else shape[-1])
    if not isinstance(hidden, int):
        raise call.refusal("hidden_size is not known; give it, or R a fixed shape")
    return hidden


def _check_lengths(call: Call, x: ir.Value) -> None:
    lengths = call.optional(_LENGTHS)
    if lengths is None:
        return
    known, whole = call.emit.known(lengths), None if x.shape is None else x.shape[0]
    if known is None or not isinstance(whole, int) or (known != whole).any():
        raise call.refusal(
            f"sequence_lens is {'not constant' if known is None else known.tolist()}, and has to be the "
            f"length of X, {whole}, for every sequence; leave it out"
        )


def _activations(call: Call, cell: Cell, directions: int) -> list[list[Activation]]:
    """Return the activation functions of each direction."""
    names = call.attribute("activations") or list(cell.activations) * directions
    alphas, betas = (iter(call.attribute(f"activation_{name}") or []) for name in ("alpha", "beta"))
    found: list[Activation] = []
    for given in names:
        name = _BY_NAME.get(given.lower())
        if name is None:
            raise call.refusal(f"activation {given!r}; expected {listed(_ACTIVATIONS)}")
        # An activation takes the next alpha, and beta, if it has one at all.
        pairs = zip((alphas, betas), _ACTIVATIONS[name], strict=False)
        numbers = [number for own, default in pairs if (number := next(own, default)) is not None]
        if len(numbers) < len(_ACTIVATIONS[name]):
            raise call.refusal(
                f"activation {name!r} has no default; give activation_alpha and activation_beta"
            )
        found.append(partial(_activated, name=name, numbers=numbers))
    each = len(cell.activations)
    return [found[at * each : (at + 1) * each] for at in range(directions)]


def _activated(emit: Emitter, x: ir.Value, *, name: str, numbers: Sequence[float]) -> ir.Value:
    if name == "Affine":
        return emit("Add", emit("Mul", x, numbers[0]), numbers[1])
    if name == "ScaledTanh":
        return emit("Mul", emit("Tanh", emit("Mul", x, numbers[1])), numbers[0])
    given: dict[str, Any] = dict(zip(("alpha", "beta"), numbers, strict=False))
    return emit(name, x, **given)


def _zeros(emit: Emitter, x: ir.Value, hidden: int) -> ir.Value:
    """Return zeros, [batch, hidden]."""
    shape = emit("Concat", emit.size(x, 1), emit.integers([hidden]), axis=0)
    return emit("Expand", emit.constant(0, x), shape)


def _each(emit: Emitter, value: ir.Value, directions: int) -> list[ir.Value]:
    """Return the part of each direction of a value, without the axis of directions, the first one."""
    return [emit("Squeeze", part, emit.integers([0])) for part in _rows(emit, value, [1] * directions)]


def _rows(emit: Emitter, value: ir.Value, sizes: Sequence[int]) -> list[ir.Value]:
    """Return a value in parts along its first axis."""
    if len(sizes) == 1:
        return [value]
    return emit.several("Split", value, emit.integers(sizes), outputs=len(sizes), axis=0)


def _joined(emit: Emitter, values: Sequence[ir.Value], axis: int) -> ir.Value:
    """Return what each direction gives along a new axis of directions."""
    parts = [emit.unsqueeze(value, [axis]) for value in values]
    return parts[0] if len(parts) == 1 else emit("Concat", *parts, axis=axis)
