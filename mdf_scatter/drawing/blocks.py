"""What a graph's diagram is made of: blocks with terminals, and the wires between them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple

from modeci_mdf.mdf import Graph

from mdf_scatter.drawing.rows import Row
from mdf_scatter.drawing.tensor_type import TensorType

Kind = Literal["node", "run", "input", "outer", "constant", "output", "missing"]
SOURCES: tuple[Kind, ...] = ("input", "outer", "constant")


@dataclass(frozen=True)
class Terminal:
    """Where a wire ends on a block.

    Attributes:
        name: The port's id.
        tensor: What is known of its type.
        note: What happens to a value as it arrives, for example `× 0.5`.
        tip: Tooltip.
        value: What a run gave here, as it is written in the picture.
    """

    name: str
    tensor: TensorType
    note: str = ""
    tip: str = ""
    value: str = ""


@dataclass(frozen=True)
class Block:
    """A box: a node, or something that stands at the graph's edge.

    Attributes:
        key: Generated id, unique in the diagram.
        kind: What the box stands for. A `missing` node is one that only edges speak of; a `run` is
            several nodes in a row, folded; an `outer` value is one of the enclosing graph.
        name: Id of the node, or name of the graph input, output or constant.
        functions: Names of the functions that the node calls.
        tip: Tooltip.
        inputs: Terminals on the left.
        outputs: Terminals on the right.
        rows: Parameters and expressions of a node.
        text: Value of a constant, a default, or what a run gave, as it is written in the box.
        is_default: Whether the text is what a graph input is where nothing is given.
        gradient_of: What a graph input or output is the gradient of, or nothing.
        backward_pass: Which backward pass it is part of, from 1 on; 0 for the forward pass.
    """

    key: str
    kind: Kind
    name: str
    tip: str
    functions: tuple[str, ...] = ()
    inputs: tuple[Terminal, ...] = ()
    outputs: tuple[Terminal, ...] = ()
    rows: tuple[Row, ...] = ()
    text: str = ""
    is_default: bool = False
    gradient_of: str = ""
    backward_pass: int = 0

    @property
    def is_backward(self) -> bool:
        """Whether it is a node, or nodes, of a backward pass."""
        return self.kind in ("node", "run") and self.backward_pass > 0


class End(NamedTuple):
    """One terminal of a block, by the block's key and the terminal's position on its side."""

    block: str
    terminal: int


@dataclass(frozen=True)
class Wire:
    """A line from an output terminal to an input terminal.

    Attributes:
        source: Where it begins; in an enclosing graph's scene where `crosses` is set.
        target: Where it ends.
        tensor: What is known of the type of what it carries.
        tip: Tooltip.
        crosses: Whether it comes in from an enclosing graph.
    """

    source: End
    target: End
    tensor: TensorType
    tip: str
    crosses: bool = False


@dataclass(frozen=True)
class Scene:
    """One graph's blocks and wires.

    Attributes:
        graph: The graph.
        key: Generated id of its frame.
        what: What it is, in a few words: `MDF graph`, `body of loop_1`.
        blocks: Its boxes.
        wires: Lines that end in it.
        inner: Scenes of the subgraphs that are drawn inside its frame.
        folded: How many of its nodes stand in runs.
        unwired: How many wires into the backward pass are not drawn, but named at their terminals.
    """

    graph: Graph
    key: str
    what: str
    blocks: tuple[Block, ...]
    wires: tuple[Wire, ...]
    inner: tuple[Scene, ...] = ()
    folded: int = 0
    unwired: int = 0

    def all(self) -> Iterator[Scene]:
        """Give this scene and all that are inside it."""
        yield self
        for scene in self.inner:
            yield from scene.all()
