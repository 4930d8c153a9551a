"""Blocks as Graphviz's HTML-like tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from math import fsum
from typing import Literal

from mdf_scatter.drawing.blocks import SOURCES, Block, Kind, Terminal
from mdf_scatter.drawing.calls import is_onnx_operator
from mdf_scatter.drawing.markup import (
    CODE_CHARACTERS,
    NAME_CHARACTERS,
    VALUE_CHARACTERS,
    run,
    short_code,
    short_name,
    title,
)
from mdf_scatter.drawing.rows import Row
from mdf_scatter.drawing.style import (
    HEADER_SIZE,
    SMALL_SIZE,
    TERMINAL_HEIGHT,
    TERMINAL_WIDTH,
    TEXT_SIZE,
    Theme,
    dtype_class,
)

FUNCTIONS_SHOWN = 3
_HALF = 12
"""Height of half a terminal's row."""

_KIND_WIDTH = 60
_DEFAULT_WIDTH = 34
"""Widths of the words `graph output` and `default`, in points."""

Align = Literal["LEFT", "RIGHT"]

_WORDS: dict[Kind, str] = {"input": "graph input", "outer": "from outside", "constant": "constant"}


def table(block: Block, theme: Theme, width: int) -> str:
    """Return a block as a table.

    Args:
        block: The block.
        theme: Its colours.
        width: Least width of the text of a box at the graph's edge, in points.
    """
    if block.kind in SOURCES:
        return _source(block, theme, width)
    if block.kind == "output":
        return _output(block, theme, width)
    return _node(block, theme)


def plain_table(rows: Iterable[str], ground: str = "", *, frame: int = 0, padding: int = 0) -> str:
    """Return a table without lines around its cells.

    Args:
        rows: The cells of each row.
        ground: Colour behind the cells, or nothing for none.
        frame: How far that colour shows around and between the cells, in points.
        padding: Space within the cells, in points.
    """
    coloured = f' BGCOLOR="{ground}"' if ground else ""
    body = "".join(f"<TR>{row}</TR>" for row in rows)
    spaces = f'CELLSPACING="{frame}" CELLPADDING="{padding}"'
    return f'<TABLE BORDER="0" CELLBORDER="0" {spaces}{coloured}>{body}</TABLE>'


def patch(width: int, height: int, colour: str, *, port: str = "", align: str = "CENTER") -> str:
    """Return a rectangle of one colour as a table, which no cell around it stretches."""
    size = f'FIXEDSIZE="TRUE" WIDTH="{width}" HEIGHT="{height}"'
    place = f' PORT="{port}"' if port else ""
    return (
        f'<TABLE BORDER="0" CELLBORDER="0" CELLSPACING="0" CELLPADDING="0" ALIGN="{align}" {size}>'
        f'<TR><TD {size} BGCOLOR="{colour}"{place}></TD></TR></TABLE>'
    )


def box_width(block: Block) -> int:
    """Estimate the width of the text in a box at the graph's edge, in points."""
    name = _KIND_WIDTH + TEXT_SIZE * fsum(_letter_width(letter) for letter in short_name(block.name))
    value = 0.6 * SMALL_SIZE * len(short_code(block.text, VALUE_CHARACTERS)) if block.text else 0
    if block.is_default:
        value += _DEFAULT_WIDTH
    if block.kind == "output":
        return round(max(name, value)) + 10
    tensor = 0.6 * SMALL_SIZE * len(short_code(str(block.outputs[0].tensor)))
    return round(max(name, value, tensor)) + 10


def _letter_width(letter: str) -> float:
    """Return about how wide a letter is in bold Arial, in ems."""
    if letter in "fijlrtI.,:;'|!()[]-/ ":
        return 0.33
    return 0.85 if letter in "mwMW@%" else 0.72 if letter.isupper() else 0.58


def _source(block: Block, theme: Theme, width: int) -> str:
    tensor = block.outputs[0].tensor
    kind = dtype_class(tensor.dtype)
    lines = [
        run(f"{_WORDS[block.kind]}  ", size=SMALL_SIZE, colour=theme.muted)
        + run(short_name(block.name), bold=True)
    ]
    if block.text:
        default = run("default  ", size=SMALL_SIZE, colour=theme.muted) if block.is_default else ""
        lines.append(default + _value(block.text))
    if str(tensor):
        lines.append(_type(block.outputs[0], theme))
    words = _lines(lines, "RIGHT")
    box = f'<TD WIDTH="{width}" CELLPADDING="5" ALIGN="RIGHT"{title(block.tip)}>{words}</TD>'
    ground = theme.constant[kind] if block.kind == "constant" else theme.box
    return _framed([_filled(box, ground), _bar("o0", theme.dtype[kind])], theme.dtype[kind])


def _output(block: Block, theme: Theme, width: int) -> str:
    colour = theme.dtype[dtype_class(block.inputs[0].tensor.dtype)]
    lines = [
        run(short_name(block.name), bold=True) + run("  graph output", size=SMALL_SIZE, colour=theme.muted)
    ]
    if block.text:
        lines.append(_value(block.text))
    words = _lines(lines, "LEFT")
    box = f'<TD WIDTH="{width}" CELLPADDING="5" ALIGN="LEFT"{title(block.tip)}>{words}</TD>'
    return _framed([_bar("i0", colour), _filled(box, theme.box)], colour)


def _framed(cells: list[str], colour: str) -> str:
    # The frame is this table's ground, showing around the cells' own: a border would leave a
    # hairline between itself and them.
    return plain_table(["".join(cells)], colour, frame=1)


def _filled(cell: str, ground: str) -> str:
    return f"<TD>{plain_table([cell], ground)}</TD>"


def _bar(port: str, colour: str) -> str:
    return f'<TD PORT="{port}" WIDTH="{TERMINAL_WIDTH}" BGCOLOR="{colour}" CELLPADDING="0"></TD>'


def _node(block: Block, theme: Theme) -> str:
    frame = theme.missing if block.kind == "missing" else theme.header
    rows = [_header(block, theme)]
    if block.inputs or block.outputs:
        rows.append(f"<TD>{plain_table(_ports(block, theme), theme.box)}</TD>")
    if block.rows:
        rows.append(f"<TD>{plain_table(_band(block.rows, theme), theme.band)}</TD>")
    return plain_table(rows, frame, frame=1)


def _header(block: Block, theme: Theme) -> str:
    name = short_name(block.name)
    functions = [function.removeprefix("onnx::") for function in block.functions]
    if len(functions) > FUNCTIONS_SHOWN:
        functions[FUNCTIONS_SHOWN:] = ["…"]
    if block.kind == "missing":
        words = run(name, bold=True, size=HEADER_SIZE, colour=theme.header_text)
        words += run("  not in the graph", size=SMALL_SIZE, colour=theme.header_text)
    elif block.kind == "run":
        words = run(name, bold=True, size=HEADER_SIZE, colour=theme.header_text)
        words += run("  folded", size=SMALL_SIZE, colour=theme.header_id)
    elif functions:
        called = short_name(" → ".join(functions))
        words = run(called, bold=True, size=HEADER_SIZE, colour=theme.header_text)
        if name != called:
            words += run(f"  {name}", size=SMALL_SIZE, colour=theme.header_id)
    else:
        words = run(name, bold=True, size=HEADER_SIZE, colour=theme.header_text)
    link = _link(functions[0]) if len(functions) == 1 else ""
    return f'<TD CELLPADDING="6"{link}{title(block.tip)}>{words}</TD>'


def _link(function: str) -> str:
    if not is_onnx_operator(function):
        return ""
    return f' HREF="https://onnx.ai/onnx/operators/onnx__{function}.html"'


def _ports(block: Block, theme: Theme) -> list[str]:
    """Return the rows of the terminals, both sides centred on each other.

    A terminal spans two rows, so that a side with one less stands half a terminal lower.
    """
    left = _side([_input(f"i{n}", port, theme) for n, port in enumerate(block.inputs)], len(block.outputs))
    right = _side(
        [_output_port(f"o{n}", port, theme) for n, port in enumerate(block.outputs)], len(block.inputs)
    )
    # The gap between the sides, as many columns: a band that is wider than the ports stretches
    # every column alike, so nearly all of it goes here. It also gives each row a cell of its own.
    gap = f'<TD COLSPAN="100" WIDTH="12" HEIGHT="{_HALF}"></TD>'
    return [a + gap + b for a, b in zip(left, right, strict=True)]


def _side(cells: list[str], others: int) -> list[str]:
    blank = ['<TD COLSPAN="2"></TD>'] * max(others - len(cells), 0)
    return blank + [half for cell in cells for half in (cell, "")] + blank


def _input(key: str, terminal: Terminal, theme: Theme) -> str:
    words = run(short_name(terminal.name), bold=True)
    if terminal.note:
        words += run(f"  {short_code(terminal.note)}", size=SMALL_SIZE, colour=theme.muted)
    lines = [words, _value(terminal.value)] if terminal.value else [words]
    return _nub(key, terminal, theme, "LEFT") + _port_label(terminal, lines, "LEFT")


def _output_port(key: str, terminal: Terminal, theme: Theme) -> str:
    words = run(short_name(terminal.name), bold=True)
    if terminal.note:
        words = run(f"{terminal.note}  ", size=SMALL_SIZE, colour=theme.muted) + words
    lines = [words]
    if str(terminal.tensor):
        lines.append(_type(terminal, theme))
    if terminal.value:
        lines.append(_value(terminal.value))
    return _port_label(terminal, lines, "RIGHT") + _nub(key, terminal, theme, "RIGHT")


def _port_label(terminal: Terminal, lines: list[str], align: Align) -> str:
    words = _lines(lines, align)
    return f'<TD ROWSPAN="2" ALIGN="{align}" CELLPADDING="4"{title(terminal.tip)}>{words}</TD>'


def _nub(key: str, terminal: Terminal, theme: Theme, align: Align) -> str:
    colour = theme.dtype[dtype_class(terminal.tensor.dtype)]
    # Aligned, as a wide band stretches every column of the table over it.
    nub = patch(TERMINAL_WIDTH, TERMINAL_HEIGHT, colour, port=key, align=align)
    return f'<TD ROWSPAN="2">{nub}</TD>'


def _type(terminal: Terminal, theme: Theme) -> str:
    return run(short_code(str(terminal.tensor)), code=True, size=SMALL_SIZE, colour=theme.muted)


def _value(text: str) -> str:
    return run(short_code(text, VALUE_CHARACTERS), code=True, size=SMALL_SIZE)


def _lines(lines: list[str], align: Align) -> str:
    """Return a name and smaller lines under it."""
    # A space as high as the name keeps the line under it clear of a g or y; at the end that is not aligned.
    spaced = [f" {line}" if align == "RIGHT" else f"{line} " for line in lines[1:2]]
    return "".join(f'{line}<BR ALIGN="{align}"/>' for line in [*lines[:1], *spaced, *lines[2:]])


def _band(rows: Sequence[Row], theme: Theme) -> Iterator[str]:
    # What the names leave free the texts may use, and the other way round.
    room = NAME_CHARACTERS + CODE_CHARACTERS
    name_room = max(NAME_CHARACTERS, room - max(len(row.text) for row in rows))
    text_room = max(CODE_CHARACTERS, room - max(len(row.name) for row in rows))
    for position, row in enumerate(rows):
        colour = theme.text if row.dtype is None else theme.dtype[row.dtype]
        name = run(short_name(row.name, name_room) + "  ", size=SMALL_SIZE)
        text = run(short_code(row.text, text_room), code=True, size=SMALL_SIZE, colour=colour)
        tip = title(row.tip)
        place = f' PORT="r{position}"' if row.frame else ""
        yield (
            f'<TD ALIGN="LEFT" CELLPADDING="3"{tip}>{name}</TD>'
            f'<TD ALIGN="RIGHT" CELLPADDING="3"{place}{tip}>{text}</TD>'
        )
