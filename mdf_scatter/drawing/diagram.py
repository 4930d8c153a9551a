"""A model as a block diagram."""

from __future__ import annotations

from base64 import b64encode
from dataclasses import dataclass
from functools import cached_property
from os import PathLike
from pathlib import Path

import graphviz
from modeci_mdf.mdf import Model

from mdf_scatter.drawing import render
from mdf_scatter.drawing.blocks import End, Scene
from mdf_scatter.drawing.describe import description
from mdf_scatter.drawing.headings import heading, legend
from mdf_scatter.drawing.markup import short_name, tooltip
from mdf_scatter.drawing.scene import scene
from mdf_scatter.drawing.style import FONT, LIGHT, TEXT_SIZE, Theme, line_attributes
from mdf_scatter.drawing.tables import box_width, table
from mdf_scatter.errors import FormatError, ModelError, listed

SUFFIXES = (".svg", ".png", ".dot", ".gv")


@dataclass(frozen=True)
class Diagram:
    """A picture of a model; it shows itself in a notebook.

    Attributes:
        dot: The diagram in Graphviz's language.
        title: The model's name.
        alt: What the diagram shows, in words.
    """

    dot: str
    title: str
    alt: str

    @cached_property
    def svg(self) -> str:
        """The diagram as SVG, the same text on every platform.

        Raises:
            RenderError: The command `graphviz-pure` is not installed, or takes too long.
        """
        return render.svg(self.dot, self.title, self.alt)

    @cached_property
    def png(self) -> bytes:
        """The diagram as PNG, at 192 dots per inch where it is not too large for that.

        Raises:
            RenderError: The command `graphviz-pure` is not installed, or takes too long.
        """
        return render.png(self.dot, render.size(self.svg))

    def save(self, path: str | PathLike[str]) -> None:
        """Write the diagram in the format of the path's suffix: `.svg`, `.png`, `.dot` or `.gv`.

        Raises:
            FormatError: The suffix is another one.
            RenderError: The command `graphviz-pure` is not installed, or takes too long.
        """
        target = Path(path)
        suffix = target.suffix.lower()
        if suffix not in SUFFIXES:
            raise FormatError(
                f"diagram {str(path)!r}: the suffix is {target.suffix!r}; expected {listed(SUFFIXES)}"
            )
        if suffix == ".png":
            target.write_bytes(self.png)
        else:
            text = self.svg if suffix == ".svg" else self.dot
            target.write_text(text, encoding="utf-8", newline="\n")

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        return {
            "image/svg+xml": self.svg,
            "image/png": b64encode(self.png).decode("ascii"),
            "text/plain": self.alt,
        }


def draw(model: Model) -> Diagram:
    """Draw a model as a block diagram, each of its graphs in a frame.

    Nodes show their ports, parameters and functions; colour is dtype and line is rank, as far as
    they are declared, follow from constants, or are carried along the edges.

    Args:
        model: The model; it is not changed, and nothing in it is evaluated.

    Raises:
        ModelError: The model has no graph.

    >>> from modeci_mdf.mdf import Graph, InputPort, Model, Node, OutputPort
    >>> node = Node("given", input_ports=[InputPort("x")], output_ports=[OutputPort("y", value="x")])
    >>> draw(Model("small", graphs=[Graph("g", nodes=[node])])).alt
    'Block diagram of the MDF graph g. Graph input: x. Graph output: y. Wire: x to y.'
    """
    if not model.graphs:
        raise ModelError(f"model {model.id!r} has no graph to draw; expected one")
    drawn = [scene(graph, f"g{position}") for position, graph in enumerate(model.graphs)]
    return Diagram(_dot(drawn, LIGHT), short_name(model.id), description(drawn))


def _dot(scenes: list[Scene], theme: Theme) -> str:
    diagram = graphviz.Digraph(
        graph_attr={
            "rankdir": "LR",
            "splines": "spline",
            "nodesep": "0.22",
            "ranksep": "0.7",
            "pad": "0.2",
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
    for position, drawn in enumerate(scenes):
        with diagram.subgraph(name=f"cluster_g{position}") as frame:
            frame.attr(
                label=f"<{heading(drawn.graph, theme)}>",
                labelloc="t",
                labeljust="l",
                style="rounded",
                color=theme.frame,
                bgcolor=theme.ground,
                margin="14",
            )
            widths = _edge_box_widths(drawn)
            # Within a frame Graphviz stacks what comes first at the bottom.
            for block in reversed(drawn.blocks):
                frame.node(block.key, label=f"<{table(block, theme, widths.get(block.key, 0))}>")
            for wire in reversed(drawn.wires):
                frame.edge(
                    _place(wire.source, "o", "e"),
                    _place(wire.target, "i", "w"),
                    tooltip=tooltip(wire.tip),
                    **line_attributes(wire.tensor, theme),
                )
    return str(diagram.source)


def _place(end: End, side: str, compass: str) -> str:
    return f"{end.block}:{side}{end.terminal}:{compass}"


def _edge_box_widths(scene: Scene) -> dict[str, int]:
    """Give the boxes around one node the same width on each side, so that their terminals align."""
    boxes = {block.key: box_width(block) for block in scene.blocks if block.kind not in ("node", "missing")}
    pairs = [(wire.source.block, wire.target.block) for wire in scene.wires]
    # On the left of a node stand what feeds it, on its right the graph's outputs.
    beside = [(near, (far, "left")) for near, far in pairs if near in boxes]
    beside += [(near, (far, "right")) for far, near in pairs if near in boxes]
    widest: dict[tuple[str, str], int] = {}
    for box, side in beside:
        widest[side] = max(boxes[box], widest.get(side, 0))
    return {box: widest[side] for box, side in beside}
