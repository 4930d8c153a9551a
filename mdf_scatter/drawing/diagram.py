"""A model as a block diagram."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from os import PathLike
from typing import Literal

from modeci_mdf.mdf import Model

from mdf_scatter.drawing import render
from mdf_scatter.drawing.describe import description
from mdf_scatter.drawing.frames import dot
from mdf_scatter.drawing.inference import all_known
from mdf_scatter.drawing.lowered import lowered_types
from mdf_scatter.drawing.markup import short_name
from mdf_scatter.drawing.outline import outline
from mdf_scatter.drawing.results import placed
from mdf_scatter.drawing.scene import Content
from mdf_scatter.drawing.style import THEMES, require_theme
from mdf_scatter.errors import FormatError, ModelError, listed
from mdf_scatter.formats import as_path, why_not
from mdf_scatter.wiring import require_model

SUFFIXES = (".svg", ".png", ".pdf", ".dot", ".gv")


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

        Its font has Latin, Greek and Cyrillic letters; others are boxes, which they are not in the SVG.

        Raises:
            RenderError: The command `graphviz-pure` is not installed, or takes too long.
        """
        return render.png(self.dot, render.size(self.svg))

    @cached_property
    def pdf(self) -> bytes:
        """The diagram as PDF of one page, drawn in lines and text.

        Text that is not Latin is not in the fonts that every viewer has: with it, the page holds a picture
        of the diagram, at 300 dots per inch where it is not too large for that.

        Raises:
            RenderError: The command `graphviz-pure` is not installed, or takes too long.
        """
        return render.pdf(self.dot, self.svg, self.title, self.alt)

    def save(self, path: str | PathLike[str]) -> None:
        """Write the diagram in the format of the path's suffix: `.svg`, `.png`, `.pdf`, `.dot` or `.gv`.

        What other formats and fonts there are, Graphviz makes of a `.dot`: `dot -Tpdf:cairo d.dot`.

        Raises:
            FormatError: The suffix is another one, or the file cannot be written.
            RenderError: The command `graphviz-pure` is not installed, or takes too long.
        """
        target = as_path(path)
        suffix = target.suffix.lower()
        if suffix not in SUFFIXES:
            raise FormatError(
                f"diagram {str(path)!r}: the suffix is {target.suffix!r}; expected {listed(SUFFIXES)}"
            )
        if suffix in (".png", ".pdf"):
            data = self.png if suffix == ".png" else self.pdf
        else:
            data = (self.svg if suffix == ".svg" else self.dot).encode()
        try:
            target.write_bytes(data)
        except OSError as error:
            raise FormatError(f"{path}: cannot be written: {why_not(error, target)}") from error

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        return {
            "image/svg+xml": self.svg,
            "image/png": b64encode(self.png).decode("ascii"),
            "text/plain": self.alt,
        }


def draw(
    model: Model,
    *,
    theme: Literal["light", "dark"] = "light",
    depth: int | None = None,
    values: Mapping[str, object] | None = None,
) -> Diagram:
    """Draw a model as a block diagram, each of its graphs in a frame.

    Nodes show their ports, parameters, states, conditions and functions; colour is dtype and line is
    rank, as far as they are declared, follow from constants, are carried along the edges, or are found by
    ONNX's inference.

    Args:
        model: The model; it is not changed, and nothing in it is evaluated.
        theme: `light` or `dark`.
        depth: How many levels of subgraphs are drawn inside their nodes' frames: 0 folds each into a row
            of its node. Left out, they are drawn as long as that is readable, and in a graph of more than
            100 nodes constants go to their terminals, and nodes in a row into boxes that list them.
        values: What a run gave, to be drawn into the diagram, by the name of a graph output or input, or
            by `node.port`: small arrays themselves, large ones as shape, least, greatest and NaN.

    Raises:
        ModelError: It is no model, or has no graph.
        InputError: The theme is another one, the depth is negative, or `values` names what is not there.

    >>> from modeci_mdf.mdf import Graph, InputPort, Model, Node, OutputPort
    >>> node = Node("given", input_ports=[InputPort("x")], output_ports=[OutputPort("y", value="x")])
    >>> draw(Model("small", graphs=[Graph("g", nodes=[node])])).alt
    'Block diagram of the MDF graph g. Graph input: x. Graph output: y. Wire: x to y.'
    """
    require_model(model)
    if not model.graphs:
        raise ModelError(f"model {model.id!r} has no graph to draw; expected one")
    require_theme(theme)
    shown = outline(model, depth)
    content = Content(
        outline=shown,
        inferred={} if all(map(all_known, shown.graphs())) else lowered_types(model),
        seen=placed(model.graphs[0], values or {}),
        ran=model.graphs[0],
        folds=depth is None,
    )
    scenes = content.scenes()
    return Diagram(dot(scenes, THEMES[theme]), short_name(model.id), description(scenes))
