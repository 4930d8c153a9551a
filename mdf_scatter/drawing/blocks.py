"""What a graph's diagram is made of: blocks with terminals, and the wires between them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

from modeci_mdf.mdf import Graph

from mdf_scatter.drawing.rows import Row
from mdf_scatter.drawing.tensor_type import TensorType

Kind = Literal["node", "input", "constant", "output", "missing"]


@dataclass(frozen=True)
class Terminal:
    """Where a wire ends on a block.

    Attributes:
        name: The port's id.
        tensor: What is known of its type.
        note: What happens to a value as it arrives, for example `× 0.5`.
        tip: Tooltip.
    """

    name: str
    tensor: TensorType
    note: str = ""
    tip: str = ""


@dataclass(frozen=True)
class Block:
    """A box: a node, or something that stands at the graph's edge.

    Attributes:
        key: Generated id, unique in the diagram.
        kind: What the box stands for. A `missing` node is one that only edges speak of.
        name: Id of the node, or name of the graph input, output or constant.
        functions: Names of the functions that the node calls.
        tip: Tooltip.
        inputs: Terminals on the left.
        outputs: Terminals on the right.
        rows: Parameters and expressions of a node.
        text: Value of a constant or default, as it is written in the box.
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


class End(NamedTuple):
    """One terminal of a block, by the block's key and the terminal's position on its side."""

    block: str
    terminal: int


@dataclass(frozen=True)
class Wire:
    """A line from an output terminal to an input terminal."""

    source: End
    target: End
    tensor: TensorType
    tip: str


@dataclass(frozen=True)
class Scene:
    """One graph's blocks and wires."""

    graph: Graph
    blocks: tuple[Block, ...]
    wires: tuple[Wire, ...]
