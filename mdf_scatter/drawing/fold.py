"""Long graphs made shorter: constants go to the terminals they feed, nodes in a row into one box."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import replace
from itertools import pairwise

from mdf_scatter.drawing.blocks import Block, End, Scene, Wire
from mdf_scatter.drawing.rows import ALWAYS_SHOWN, Row, counted

LONG = 100
"""Graphs of more nodes than this are folded, where no depth is asked for."""

LONGEST_RUN = 12
"""Nodes in one box: each has a row, so nothing is hidden."""

Notes = dict[End, list[tuple[str, str]]]
"""What is written at terminals, short and as a tooltip."""


def folded(scene: Scene) -> Scene:
    """Return a scene with fewer boxes, or the same if it is not long.

    Nodes are folded where each hands its only result to the next one and that takes nothing else.
    """
    if sum(block.kind == "node" for block in scene.blocks) <= LONG:
        return scene
    scene = without_constants(scene, {block.key for block in scene.blocks})
    crossing = {wire.source.block for inner in scene.inner for part in inner.all() for wire in part.wires}
    into_backward = _into_backward(scene)
    scene = _without_wires(scene, into_backward)
    runs = _runs(scene, crossing | {wire.target.block for wire in into_backward})
    run_of = {block.key: run for run in runs for block in run}
    boxes = {run[0].key: _box(run, scene.wires) for run in runs}
    blocks = [
        boxes.get(block.key, block)
        for block in scene.blocks
        if block.key not in run_of or run_of[block.key][0] is block
    ]
    wires = [
        replace(wire, source=End(_head(run_of, wire.source.block), wire.source.terminal), target=target)
        for wire in scene.wires
        for target in [_moved(wire.target, run_of, boxes)]
        if target is not None
    ]
    count = sum(map(len, runs))
    return replace(scene, blocks=tuple(blocks), wires=tuple(wires), folded=count, unwired=len(into_backward))


def _into_backward(scene: Scene) -> list[Wire]:
    """List the wires of a scene from the forward pass to the backward pass.

    They are longer than any other, and in a long graph so many that nothing else would be seen.
    """
    backward = {block.key for block in scene.blocks if block.is_backward}
    beside = {block.key for block in scene.blocks if block.gradient_of} | backward
    return [
        wire
        for wire in scene.wires
        if wire.target.block in backward and wire.source.block not in beside and not wire.crosses
    ]


def _without_wires(scene: Scene, wires: Collection[Wire]) -> Scene:
    """Write at the terminals of wires where they come from, instead of them."""
    blocks = {block.key: block for block in scene.blocks}
    notes: Notes = defaultdict(list)
    for wire in wires:
        source = blocks[wire.source.block]
        port = "" if source.kind == "input" else f".{source.outputs[wire.source.terminal].name}"
        notes[wire.target].append((f"from {source.name}{port}", wire.tip))
    gone = set(wires)
    return replace(
        scene,
        blocks=tuple(_noted(block, notes) for block in scene.blocks),
        wires=tuple(wire for wire in scene.wires if wire not in gone),
    )


def without_constants(scene: Scene, takers: Collection[str]) -> Scene:
    """Move what constants say to the terminals that they feed, at blocks of some keys."""
    constants = {block.key: block for block in scene.blocks if block.kind == "constant"}
    others = {block.key for block in scene.blocks if block.kind == "output" or block.key not in takers}
    kept = {wire.source.block for wire in scene.wires if wire.target.block in others}
    notes: Notes = defaultdict(list)
    for wire in scene.wires:
        if wire.source.block in constants and wire.target.block not in others:
            constant = constants[wire.source.block]
            notes[wire.target].append((f"= {constant.text or constant.outputs[0].tensor}", constant.tip))
    blocks = tuple(
        _noted(block, notes) for block in scene.blocks if block.key not in constants or block.key in kept
    )
    gone = set(constants) - kept
    return replace(
        scene, blocks=blocks, wires=tuple(wire for wire in scene.wires if wire.source.block not in gone)
    )


def _noted(block: Block, notes: Notes) -> Block:
    """Write notes and tooltips at the inputs of a block."""
    inputs = [
        replace(
            item,
            note=", ".join([*(note for note, _ in found), *([item.note] if item.note else [])]),
            tip="; ".join([item.tip, *(tip for _, tip in found)]),
        )
        if (found := notes.get(End(block.key, at)))
        else item
        for at, item in enumerate(block.inputs)
    ]
    return replace(block, inputs=tuple(inputs))


def _runs(scene: Scene, crossing: set[str]) -> list[list[Block]]:
    into: dict[str, set[str]] = defaultdict(set)
    out_of: dict[str, list[Wire]] = defaultdict(list)
    for wire in scene.wires:
        into[wire.target.block].add(wire.source.block)
        out_of[wire.source.block].append(wire)
    plain = {
        block.key: block
        for block in scene.blocks
        if block.kind == "node"
        and block.key not in crossing
        and not any(row.frame or row.name in ALWAYS_SHOWN for row in block.rows)
    }
    following: dict[str, str] = {}
    for key, block in plain.items():
        targets = {wire.target.block for wire in out_of[key]}
        if len(targets) == 1:
            [target] = targets
            is_next = target in plain and into[target] == {key} and target != key
            if is_next and plain[target].backward_pass == block.backward_pass:
                following[key] = target
    led = set(following.values())
    runs: list[list[Block]] = []
    for key, block in plain.items():
        if key in led or key not in following:
            continue
        row = [block]
        while row[-1].key in following:
            row.append(plain[following[row[-1].key]])
        # Rows as even as can be, rather than full ones and a rest.
        parts = -(-len(row) // LONGEST_RUN)
        cuts = [round(part * len(row) / parts) for part in range(parts + 1)]
        runs += [row[a:b] for a, b in pairwise(cuts) if b - a > 1]
    return runs


def _box(run: list[Block], wires: Iterable[Wire]) -> Block:
    first, last = run[0], run[-1]
    listed = [Row(_called(block), block.name, None, block.tip) for block in run]
    return Block(
        key=first.key,
        kind="run",
        name=counted(len(run), "node") + " in a row",
        tip="; ".join(block.tip for block in run),
        functions=tuple(function for block in run for function in block.functions),
        inputs=first.inputs,
        outputs=last.outputs,
        rows=tuple(listed),
        backward_pass=first.backward_pass,
    )


def _called(block: Block) -> str:
    return " → ".join(name.removeprefix("onnx::") for name in block.functions) or "node"


def _head(run_of: dict[str, list[Block]], key: str) -> str:
    return run_of[key][0].key if key in run_of else key


def _moved(target: End, run_of: dict[str, list[Block]], boxes: dict[str, Block]) -> End | None:
    """Return where a wire ends now; None where it is inside a box."""
    if target.block not in run_of or target.block in boxes:
        return target
    return None
