"""Long graphs made shorter: constants go to the terminals they feed, nodes in a row into one box."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace
from itertools import pairwise

from mdf_scatter.drawing.blocks import Block, End, Scene, Terminal, Wire
from mdf_scatter.drawing.rows import Row, counted

LONG = 300
"""Graphs of more nodes than this are folded, where no depth is asked for."""

LONGEST_RUN = 12
"""Nodes in one box: each has a row, so nothing is hidden."""


def folded(scene: Scene) -> Scene:
    """Return a scene with fewer boxes, or the same if it is not long.

    Nodes are folded where each hands its only result to the next one and that takes nothing else.
    """
    if sum(block.kind == "node" for block in scene.blocks) <= LONG:
        return scene
    scene = _without_constants(scene)
    crossing = {wire.source.block for inner in scene.inner for part in inner.all() for wire in part.wires}
    runs = _runs(scene, crossing)
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
    return replace(scene, blocks=tuple(blocks), wires=tuple(wires), folded=count)


def _without_constants(scene: Scene) -> Scene:
    """Move what constants say to the terminals that they feed."""
    constants = {block.key: block for block in scene.blocks if block.kind == "constant"}
    noted: dict[str, dict[int, Block]] = defaultdict(dict)
    outputs = {block.key for block in scene.blocks if block.kind == "output"}
    for wire in scene.wires:
        if wire.source.block in constants and wire.target.block not in outputs:
            noted[wire.target.block][wire.target.terminal] = constants[wire.source.block]
    kept = {wire.source.block for wire in scene.wires if wire.target.block in outputs}
    blocks = [
        replace(block, inputs=tuple(_noted(block.inputs, noted[block.key])))
        for block in scene.blocks
        if block.key not in constants or block.key in kept
    ]
    present = {block.key for block in blocks}
    inside = {wire.source.block for wire in scene.wires} - set(constants)
    wires = [wire for wire in scene.wires if wire.source.block in present | inside]
    return replace(scene, blocks=tuple(blocks), wires=tuple(wires))


def _noted(terminals: Iterable[Terminal], constants: dict[int, Block]) -> list[Terminal]:
    return [
        replace(item, note=_joined(item.note, constants[at]), tip=constants[at].tip)
        if at in constants
        else item
        for at, item in enumerate(terminals)
    ]


def _joined(note: str, constant: Block) -> str:
    value = constant.text or str(constant.outputs[0].tensor)
    return f"= {value}, {note}" if note else f"= {value}"


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
        and not any(row.frame or row.name == "runs when" for row in block.rows)
    }
    following: dict[str, str] = {}
    for key in plain:
        targets = {wire.target.block for wire in out_of[key]}
        if len(targets) == 1:
            [target] = targets
            if target in plain and into[target] == {key} and target != key:
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
