"""A picture, as SVG and PNG from one list of shapes."""

from __future__ import annotations

from base64 import b64encode
from dataclasses import dataclass
from functools import cached_property
from os import PathLike
from pathlib import Path

from mdf_scatter.drawing.cells import as_dot, as_svg
from mdf_scatter.drawing.cells.shapes import Shape
from mdf_scatter.errors import FormatError, listed

SUFFIXES = (".svg", ".png")


@dataclass(frozen=True)
class Picture:
    """A picture of what an operator does, cell by cell; it shows itself in a notebook.

    Attributes:
        shapes: What it is made of.
        size: Its width and height, in points.
        ground: The colour of the page.
        title: The operator and its settings.
        alt: What the picture shows, in words.
    """

    shapes: tuple[Shape, ...]
    size: tuple[float, float]
    ground: str
    title: str
    alt: str

    @cached_property
    def svg(self) -> str:
        """The picture as SVG, the same text on every platform."""
        return as_svg.svg(self.shapes, self.size, self.ground, self.title, self.alt)

    @cached_property
    def png(self) -> bytes:
        """The picture as PNG, at 192 dots per inch.

        Raises:
            RenderError: The command `graphviz-pure` is not installed, or takes too long.
        """
        return as_dot.png(self.shapes, self.size, self.ground)

    def save(self, path: str | PathLike[str]) -> None:
        """Write the picture in the format of the path's suffix: `.svg` or `.png`.

        Raises:
            FormatError: The suffix is another one.
            RenderError: It is `.png`, and the command `graphviz-pure` is not installed.
        """
        target = Path(path)
        suffix = target.suffix.lower()
        if suffix not in SUFFIXES:
            raise FormatError(
                f"picture {str(path)!r}: the suffix is {target.suffix!r}; expected {listed(SUFFIXES)}"
            )
        if suffix == ".png":
            target.write_bytes(self.png)
        else:
            target.write_text(self.svg, encoding="utf-8", newline="\n")

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        return {
            "image/svg+xml": self.svg,
            "image/png": b64encode(self.png).decode("ascii"),
            "text/plain": self.alt,
        }
