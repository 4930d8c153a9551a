"""Scenes as one graph in Graphviz's language, a frame each."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from types import MappingProxyType
from typing import NamedTuple

import graphviz

from mdf_scatter.drawing.blocks import Block, End, Scene, Wire
from mdf_scatter.drawing.headings import backward_heading, heading, legend
from mdf_scatter.drawing.markup import tooltip
from mdf_scatter.drawing.style import FONT, TEXT_SIZE, Theme, line_attributes
from mdf_scatter.drawing.tables import box_width, plain_table, table

SMALL = 60
"""Boxes of a diagram whose columns may stand further apart than usual."""

_GAP = 0.7
"""How far apart columns stand, in inches."""

_MARGIN = 14
_BEND_MARGIN = 36
_PER_COLUMN = 6
_MOST_MARGIN = 70
"""How far a frame stands around its boxes, in points; wide where wires bend outwards."""

_AIR = 6
"""How far what runs back stays away from boxes, in points."""


def dot(scenes: list[Scene], theme: Theme) -> str:
    """Write scenes in Graphviz's language.

    Data flows from left to right. Where there is a backward pass, Graphviz is told so the other way round:
    from right to left, each line from its target to its source. It orders boxes from those that no line
    leads to, there the gradients, and stacks them from the bottom: the forward pass comes over them.
    """
    is_turned = any(block.is_backward for scene in scenes for block in scene.blocks)
    diagram = graphviz.Digraph(
        graph_attr={
            "rankdir": "RL" if is_turned else "LR",
            "splines": "spline",
            "nodesep": "0.22",
            "ranksep": f"{_GAP if is_turned else _gap(scenes):g}",
            "pad": "0.2",
            "compound": "true",
            "outputorder": "edgesfirst",
            "bgcolor": theme.page,
            "fontname": FONT,
            "fontsize": str(TEXT_SIZE),
            "fontcolor": theme.text,
            "labelloc": "b",
            "labeljust": "l",
            "label": f"<{legend(scenes, theme)}>",
            # Wires over a whole long graph would keep it busy for a minute with straightening them.
            **({"nslimit": "5"} if is_turned else {}),
        },
        node_attr={"shape": "plain", "fontname": FONT, "fontsize": str(TEXT_SIZE), "fontcolor": theme.text},
        edge_attr={"arrowhead": "none"},
    )
    writer = _Writer(theme, is_turned)
    # Graphviz stacks what comes first at the bottom, and the model's first graph belongs on top.
    for scene in reversed(scenes):
        writer.frame(diagram, scene, _apart(scene))
    # An edge in a frame would draw the node at its other end into it.
    for scene in scenes:
        for part in scene.all():
            writer.wires(diagram, (wire for wire in part.wires if wire.crosses))
            writer.ties(diagram, part)
    return str(diagram.source)


def _gap(scenes: list[Scene]) -> float:
    """Return how far apart what feeds a node stands from it, in inches.

    Wires from few terminals to many cross each other between the columns, and need space for it; so do the
    many wires on one side of a node, whose boxes stand further apart than its terminals.
    """
    parts = [part for scene in scenes for part in scene.all()]
    if sum(len(part.blocks) for part in parts) > SMALL:
        return _GAP
    wires = [wire for part in parts for wire in part.wires]
    crowd = sum(count for count in Counter(wire.source for wire in wires).values() if count > 2)
    sides = Counter(wire.source.block for wire in wires), Counter(wire.target.block for wire in wires)
    beside_one = max((count for side in sides for count in side.values()), default=0)
    return min(_GAP + 0.13 * crowd + 0.04 * max(beside_one - 8, 0), 2.0)


class _Room(NamedTuple):
    """How far a frame stands around its boxes, and wires away from them, in points."""

    margin: int
    air: int = 0


def _room(scene: Scene) -> _Room:
    """Return the room that the wires of a scene need.

    A wire past whole columns bends outwards there, further the more there are, and one that runs back bends
    around its ends: it would cross the frame, or lie on the edges of boxes.
    """
    pairs = {(wire.source.block, wire.target.block) for wire in scene.wires if not wire.crosses}
    before: dict[str, set[str]] = defaultdict(set)
    after: dict[str, set[str]] = defaultdict(set)
    for source, target in pairs:
        before[target].add(source)
        after[source].add(target)
    try:
        from_left, from_right = _columns(before), _columns(after)
    except CycleError:
        return _Room(_MOST_MARGIN, _AIR)
    # Boxes that can, stand beside what they feed or what feeds them: only room on both sides is a column.
    passed = max(
        (
            min(from_left[target] - from_left[source], from_right[source] - from_right[target]) - 1
            for source, target in pairs
        ),
        default=0,
    )
    return _Room(min(_BEND_MARGIN + _PER_COLUMN * (passed - 1), _MOST_MARGIN) if passed > 0 else _MARGIN)


def _columns(before: Mapping[str, Collection[str]]) -> dict[str, int]:
    """Count the boxes on the longest way to each box.

    Raises:
        CycleError: A way leads from a box to itself.
    """
    found: dict[str, int] = {}
    for key in TopologicalSorter(before).static_order():
        found[key] = max((found[other] + 1 for other in before.get(key, ())), default=0)
    return found


def _apart(scene: Scene) -> dict[int, set[str]]:
    """Return the keys of what stands in a frame of its own: each backward pass, its inputs and outputs.

    The last pass is the first, since within a frame Graphviz stacks what comes first at the bottom.
    """
    passes = sorted({block.backward_pass for block in scene.blocks if block.is_backward}, reverse=True)
    return {
        number: {block.key for block in scene.blocks if block.backward_pass == number} for number in passes
    }


@dataclass(frozen=True)
class _Writer:
    """Writes frames, boxes and lines.

    Attributes:
        theme: Their colours.
        is_turned: Whether lines are written from their targets to their sources.
    """

    theme: Theme
    is_turned: bool

    def frame(
        self, diagram: graphviz.Digraph, scene: Scene, apart: Mapping[int, set[str]] = MappingProxyType({})
    ) -> None:
        """Write a graph, and the blocks of some keys, by backward pass, in frames of their own within it."""
        room = _room(scene)
        with diagram.subgraph(name=f"cluster_{scene.key}") as frame:
            frame.attr(
                label=f"<{heading(scene, self.theme)}>",
                labelloc="t",
                labeljust="r" if self.is_turned else "l",  # it turns with the graph
                style="rounded",
                color=self.theme.frame,
                bgcolor=self.theme.ground,
                margin=f"{room.margin}",
            )
            if not scene.blocks:  # a frame around nothing would not be drawn
                frame.node(f"{scene.key}none", label="", style="invis")
            for number, keys in apart.items():
                name = f"cluster_{scene.key}_backward{number if number > 1 else ''}"
                with frame.subgraph(name=name) as within:
                    title = backward_heading(scene, number, self.theme)
                    within.attr(label=f"<{title}>", bgcolor=self.theme.band)
                    self._boxes(within, scene, keys, room.air)
            rest = {block.key for block in scene.blocks}.difference(*apart.values())
            self._boxes(frame, scene, rest, room.air)
            self.wires(frame, (wire for wire in reversed(scene.wires) if not wire.crosses))

    def _boxes(self, frame: graphviz.Digraph, scene: Scene, keys: Collection[str], air: int) -> None:
        widths = _edge_box_widths(scene)
        # Within a frame Graphviz stacks what comes first at the bottom.
        for block in reversed(scene.blocks):
            if block.key in keys:
                label = table(block, self.theme, widths.get(block.key, 0))
                if air:
                    label = plain_table([f"<TD>{label}</TD>"], padding=air)
                frame.node(block.key, label=f"<{label}>")
        for block, _, inner in _held(scene):
            if block.key in keys:
                self.frame(frame, inner)

    def wires(self, diagram: graphviz.Digraph, wires: Iterable[Wire]) -> None:
        """Write wires."""
        for wire in wires:
            ends = _place(wire.source, "o", "e"), _place(wire.target, "i", "w")
            diagram.edge(
                *(reversed(ends) if self.is_turned else ends),
                tooltip=tooltip(wire.tip),
                **line_attributes(wire.tensor, self.theme, crosses=wire.crosses),
            )

    def ties(self, diagram: graphviz.Digraph, scene: Scene) -> None:
        """Tie each frame to the row of the node that it belongs to."""
        for block, at, inner in _held(scene):
            if inner.blocks:
                ends = f"{block.key}:r{at}:e", inner.blocks[0].key
                diagram.edge(
                    *(reversed(ends) if self.is_turned else ends),
                    **{"ltail" if self.is_turned else "lhead": f"cluster_{inner.key}"},
                    color=self.theme.muted,
                    penwidth="1",
                    tooltip=tooltip(inner.what),
                )


def _held(scene: Scene) -> Iterator[tuple[Block, int, Scene]]:
    """Give each graph inside a scene, after the block that holds it and the row that names it."""
    rows = ((block, at) for block in scene.blocks for at, row in enumerate(block.rows) if row.frame)
    for (block, at), inner in zip(rows, scene.inner, strict=True):
        yield block, at, inner


def _place(end: End, side: str, compass: str) -> str:
    return f"{end.block}:{side}{end.terminal}:{compass}"


def _edge_box_widths(scene: Scene) -> dict[str, int]:
    """Give the boxes around one node the same width on each side, so that their terminals align."""
    boxes = {block.key: box_width(block) for block in scene.blocks if _is_edge_box(block)}
    pairs = [(wire.source.block, wire.target.block) for wire in scene.wires]
    # On the left of a node stand what feeds it, on its right the graph's outputs.
    beside = [(near, (far, "left")) for near, far in pairs if near in boxes]
    beside += [(near, (far, "right")) for far, near in pairs if near in boxes]
    widest: dict[tuple[str, str], int] = {}
    for box, side in beside:
        widest[side] = max(boxes[box], widest.get(side, 0))
    return {box: widest[side] for box, side in beside}


def _is_edge_box(block: Block) -> bool:
    return block.kind not in ("node", "run", "missing")
