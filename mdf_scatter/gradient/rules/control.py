"""Rules of operators that hold graphs: the gradient of each is one of its kind that goes backwards."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import onnx_ir as ir

from mdf_scatter.gradient.bodies import Body, Carried, Product, State
from mdf_scatter.gradient.table import Call, Gradient, rule

_SET = 2
"""Inputs of a Loop, and of its body, before those that it carries: the count or number, and the condition."""


@rule("If")
def if_(call: Call) -> Sequence[Gradient]:
    """Y = then(around) if cond else otherwise(around): an If of the branches, each with its way back.

    A value that only the branch not taken reads gets zeros.
    """
    emit = call.emit
    bodies, found = [], []
    positions: dict[ir.Value, int] = {}
    for branch in ("then_branch", "else_branch"):
        graph = call.attribute(branch)
        body = Body(call, graph)
        captured = body.compute()
        coming = [
            (end, grad) for end, grad in zip(graph.outputs, call.grads, strict=True) if grad is not None
        ]
        bodies.append(body)
        found.append(body.gradients(coming, captured))
        positions |= {value: at for value, at in captured.items() if value in found[-1]}
    if not positions:
        return []
    graphs = [
        body.finish(
            [gradients[value] if value in gradients else body.emit.zeros_like(value) for value in positions],
            f"{emit.name}_{branch}",
        )
        for body, gradients, branch in zip(bodies, found, ("then", "else"), strict=True)
    ]
    results = emit.several(
        "If", call.input(0), outputs=len(positions), then_branch=graphs[0], else_branch=graphs[1]
    )
    return _by_input(call, list(positions.values()), results)


@rule("Scan")
def scan(call: Call) -> Sequence[Gradient]:
    """S, y_t = body(s, x_t) for each slice x_t: a Scan over the same slices from the other end.

    The states before each turn are kept, as further outputs of the forward Scan.
    """
    node, graph = call.node, call.attribute("body")
    first = len(node.inputs) - call.attribute("num_scan_inputs")
    axes_in, back_in = _settings(call, "input", len(node.inputs) - first)
    axes_out, back_out = _settings(call, "output", len(graph.outputs) - first)
    body = Body(call, graph)
    slices: dict[ir.Value, tuple[ir.Value, int, int]] = {}
    for at, value in enumerate(graph.inputs):
        source = call.input(at)
        shape = source.shape if at < first else _without(source.shape, axes_in[at - first])
        body.now[value] = body.slot(value.name, source, shape)
        if at >= first:
            slices[body.now[value]] = source, axes_in[at - first], 1 - back_in[at - first]
    written = []
    for at, grad in enumerate(call.grads[first:]):
        if grad is not None:
            end = graph.outputs[first + at]
            slot = body.slot(end.name, grad, _without(grad.shape, axes_out[at]))
            slices[slot] = grad, axes_out[at], 1 - back_out[at]
            written.append((end, slot))
    states = [State(graph.inputs[at], graph.outputs[at], at, call.grads[at]) for at in range(first)]
    wanted = [at for at in sorted(call.wanted) if first <= at < len(node.inputs)]
    carried, found, products = body.turn_back(states, written, [graph.inputs[at] for at in wanted])
    if not carried and not found and not products:
        return []
    stacked = [value for part in products for value in (part.left, part.grad)]
    ends = [*(part.made for part in carried), *found.values(), *stacked]
    sweep = body.finish(ends, f"{call.emit.name}_body")
    read = [value for value in graph.inputs[:first] if body.now[value].uses()]
    slices |= {body.now[value]: (kept, 0, 1) for value, kept in zip(read, _keep(call, read), strict=True)}
    used = [slot for slot in slices if slot.uses()] or [body.now[graph.inputs[first]]]
    sweep.inputs.extend([*(part.given for part in carried), *used])
    positions = [at for at in wanted if graph.inputs[at] in found]
    results = call.emit.several(
        "Scan",
        *_starts(call, carried),
        *(slices[slot][0] for slot in used),
        outputs=len(ends),
        body=sweep,
        num_scan_inputs=len(used),
        scan_input_axes=_unless_zero(slices[slot][1] for slot in used),
        scan_input_directions=_unless_zero(slices[slot][2] for slot in used),
        scan_output_axes=_unless_zero([*(axes_in[at - first] for at in positions), *(0 for _ in stacked)]),
        scan_output_directions=_unless_zero(
            [*(1 - back_in[at - first] for at in positions), *(0 for _ in stacked)]
        ),
    )
    summed = len(ends) - len(stacked)
    positions = [*(part.position for part in carried), *positions, *(part.position for part in products)]
    return _by_input(call, positions, [*results[:summed], *_multiplied(call, products, results[summed:])])


@rule("Loop")
def loop(call: Call) -> Sequence[Gradient]:
    """S, y_t = body(t, s), while it goes on: a Loop of as many turns, from the last one to the first.

    The states before each turn are kept, as further outputs of the forward Loop; so they have one shape.
    """
    emit, node, graph = call.emit, call.node, call.attribute("body")
    count = len(node.inputs) - _SET
    before, after = graph.inputs[_SET:], graph.outputs[1:]
    (numbers,) = _keep(call, [graph.inputs[0]])
    turns = emit("Size", numbers)
    last = emit("Sub", turns, 1)
    body = Body(call, graph)
    number = body.slot(f"{emit.name}_number", turns, ir.Shape([]))
    going = body.slot(graph.inputs[1].name, ir.val("", ir.DataType.BOOL), ir.Shape([]))
    turn = body.emit("Sub", last, number)
    body.now |= {graph.inputs[0]: turn, graph.inputs[1]: going}
    kept = {}
    for at, value in enumerate(before):
        source = call.input(_SET + at)
        kept[value] = body.now[value] = body.slot(value.name, source, source.shape)
        if isinstance(source.type, ir.TensorType):
            kept[value].shape = None if source.shape is None else ir.Shape([None, *source.shape.dims])
            body.now[value] = body.emit("Gather", kept[value], turn)
            body.now[value].type, body.now[value].shape = source.type, source.shape
    written = [
        (end, body.emit("Gather", grad, turn))
        for end, grad in zip(after[count:], call.grads[count:], strict=False)
        if grad is not None
    ]
    states = [State(before[at], after[at], _SET + at, call.grads[at]) for at in range(count)]
    carried, _, products = body.turn_back(states, written, [])
    if not carried and not products:
        return []
    stacked = [value for part in products for value in (part.left, part.grad)]
    sweep = body.finish([going, *(part.made for part in carried), *stacked], f"{emit.name}_body")
    sweep.inputs.extend([number, going, *(part.given for part in carried)])
    read = [value for value in before if kept[value].uses()]
    for state in states:
        if state.before in read:
            body.check_stacks(state)
            state.before.type, state.before.shape = body.now[state.before].type, body.now[state.before].shape
    for value, output in zip(read, _keep(call, read), strict=True):
        kept[value].replace_all_uses_with(output)
    summed = len(carried)
    results = emit.several(
        "Loop", turns, None, *_starts(call, carried), outputs=summed + len(stacked), body=sweep
    )
    positions = [*(part.position for part in carried), *(part.position for part in products)]
    return _by_input(call, positions, [*results[:summed], *_multiplied(call, products, results[summed:])])


def _settings(call: Call, of: str, count: int) -> tuple[list[int], list[int]]:
    """Return the axes and directions of a Scan's inputs or outputs."""
    axes, directions = (call.attribute(f"scan_{of}_{what}") or [0] * count for what in ("axes", "directions"))
    return axes, directions


def _unless_zero(numbers: Iterable[int]) -> list[int] | None:
    listed = list(numbers)
    return listed if any(listed) else None


def _without(shape: ir.Shape | None, axis: int) -> ir.Shape | None:
    """Return the shape of a slice."""
    if shape is None:
        return None
    return ir.Shape([size for at, size in enumerate(shape.dims) if at != axis % len(shape)])


def _starts(call: Call, carried: Iterable[Carried]) -> list[ir.Value]:
    """Return what the carried gradients are before the first of the turns that go back."""
    return [
        call.emit.zeros_like(call.input(part.position)) if part.start is None else part.start
        for part in carried
    ]


def _multiplied(call: Call, products: Sequence[Product], stacks: Sequence[ir.Value]) -> Iterator[ir.Value]:
    """Give the sums over all turns of products, from the stacks of their two sides."""
    emit = call.emit
    for at, part in enumerate(products):
        sides = []
        for side, stack in zip((part.left, part.grad), stacks[2 * at : 2 * at + 2], strict=True):
            stack.type = side.type
            stack.shape = None if side.shape is None else ir.Shape([None, *side.shape.dims])
            sides.append(emit("Flatten", stack, axis=-1))
        yield emit("MatMul", emit.transpose(sides[0], [1, 0]), sides[1])


def _keep(call: Call, values: Sequence[ir.Value]) -> list[ir.Value]:
    """Let the forward node stack inputs of its body, turn by turn, and return what it stacks."""
    node, graph, builder = call.node, call.attribute("body"), call.emit.builder
    outside, named = len(graph.outputs) - (node.op_type == "Loop"), len(node.outputs)
    node.resize_outputs(outside)
    for output in node.outputs[named:]:
        output.name = builder.free_name(f"{call.emit.name}_unread")
    stacks = []
    for value in values:
        source = builder.inner()
        (copy,) = source.op("Identity", [value], name=f"{value.name}_kept")
        graph.append(source.nodes[0])
        graph.outputs.append(copy)
        outside += 1
        node.resize_outputs(outside)
        stack = node.outputs[-1]
        stack.name = builder.free_name(f"{value.name}_before")
        stack.type = copy.type
        stack.shape = None if copy.shape is None else ir.Shape([None, *copy.shape.dims])
        stacks.append(stack)
    for name in ("scan_output_axes", "scan_output_directions"):
        if name in node.attributes:
            node.attributes[name] = ir.AttrInt64s(name, [*call.attribute(name), *(0 for _ in values)])
    return stacks


def _by_input(call: Call, positions: Iterable[int], grads: Iterable[ir.Value]) -> list[ir.Value | None]:
    """Return gradients in the order of the call's inputs; an input may have several."""
    found: list[ir.Value | None] = [None] * len(call.inputs)
    for at, grad in zip(positions, grads, strict=True):
        value, other = call.input(at), found[at]
        grad.type, grad.shape = value.type, value.shape
        found[at] = grad if other is None else call.emit("Add", other, grad)
    return found
