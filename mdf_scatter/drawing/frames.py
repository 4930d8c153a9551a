"""Scenes as one graph in Graphviz's language, a frame each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import graphviz

from mdf_scatter.drawing.blocks import Block, End, Scene, Wire
from mdf_scatter.drawing.headings import heading, legend
from mdf_scatter.drawing.markup import tooltip
from mdf_scatter.drawing.style import FONT, TEXT_SIZE, Theme, line_attributes
from mdf_scatter.drawing.tables import box_width, table

SMALL = 40
"""Boxes of a diagram whose columns may stand further apart than usual."""


def dot(scenes: list[Scene], theme: Theme) -> str:
    """Write scenes in Graphviz's language."""
    diagram = graphviz.Digraph(
        graph_attr={
            "rankdir": "LR",
            "splines": "spline",
            "nodesep": "0.22",
            "ranksep": f"{_gap(scenes):g}",
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
        },
        node_attr={"shape": "plain", "fontname": FONT, "fontsize": str(TEXT_SIZE), "fontcolor": theme.text},
        edge_attr={"arrowhead": "none"},
    )
    for scene in scenes:
        _frame(diagram, scene, theme)
    # An edge in a frame would draw the node at its other end into it.
    for scene in scenes:
        for part in scene.all():
            _wires(diagram, (wire for wire in part.wires if wire.crosses), theme)
            _ties(diagram, part, theme)
    return str(diagram.source)


def _gap(scenes: list[Scene]) -> float:
    """Return how far apart what feeds a node stands from it, in inches.

    Wires from few terminals to many cross each other between the columns, and need space for it.
    """
    parts = [part for scene in scenes for part in scene.all()]
    if sum(len(part.blocks) for part in parts) > SMALL:
        return 0.7
    leaving = Counter(wire.source for part in parts for wire in part.wires)
    crowd = sum(count for count in leaving.values() if count > 2)
    return min(0.7 + 0.13 * crowd, 2.0)


def _frame(diagram: graphviz.Digraph, scene: Scene, theme: Theme) -> None:
    with diagram.subgraph(name=f"cluster_{scene.key}") as frame:
        frame.attr(
            label=f"<{heading(scene, theme)}>",
            labelloc="t",
            labeljust="l",
            style="rounded",
            color=theme.frame,
            bgcolor=theme.ground,
            margin="14",
        )
        widths = _edge_box_widths(scene)
        # Within a frame Graphviz stacks what comes first at the bottom.
        for block in reversed(scene.blocks):
            frame.node(block.key, label=f"<{table(block, theme, widths.get(block.key, 0))}>")
        for inner in scene.inner:
            _frame(frame, inner, theme)
        _wires(frame, (wire for wire in reversed(scene.wires) if not wire.crosses), theme)


def _wires(diagram: graphviz.Digraph, wires: Iterable[Wire], theme: Theme) -> None:
    for wire in wires:
        diagram.edge(
            _place(wire.source, "o", "e"),
            _place(wire.target, "i", "w"),
            tooltip=tooltip(wire.tip),
            **line_attributes(wire.tensor, theme, crosses=wire.crosses),
        )


def _ties(diagram: graphviz.Digraph, scene: Scene, theme: Theme) -> None:
    """Tie each frame to the row of the node that it belongs to."""
    rows = ((block, at) for block in scene.blocks for at, row in enumerate(block.rows) if row.frame)
    for (block, at), inner in zip(rows, scene.inner, strict=True):
        if inner.blocks:
            diagram.edge(
                f"{block.key}:r{at}:e",
                inner.blocks[0].key,
                lhead=f"cluster_{inner.key}",
                color=theme.frame,
                penwidth="1",
                tooltip=tooltip(inner.what),
            )


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
