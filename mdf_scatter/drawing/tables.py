"""Blocks as Graphviz's HTML-like tables."""

from __future__ import annotations

from collections.abc import Iterable

from mdf_scatter.drawing.blocks import SOURCES, Block, Kind, Terminal
from mdf_scatter.drawing.calls import is_onnx_operator
from mdf_scatter.drawing.markup import VALUE_CHARACTERS, run, short_code, short_name, title
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

_WORDS: dict[Kind, str] = {"input": "graph input", "outer": "from outside", "constant": "constant"}

_LINE_END = '<BR ALIGN="RIGHT"/>'


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
    name = _KIND_WIDTH + TEXT_SIZE * sum(_letter_width(letter) for letter in short_name(block.name))
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
        lines.append(default + run(short_code(block.text, VALUE_CHARACTERS), code=True, size=SMALL_SIZE))
    if str(tensor):
        lines.append(_type(block.outputs[0], theme))
    words = "".join(line + _LINE_END for line in lines)
    box = f'<TD WIDTH="{width}" CELLPADDING="5" ALIGN="RIGHT"{title(block.tip)}>{words}</TD>'
    ground = theme.constant[kind] if block.kind == "constant" else theme.box
    return _framed([_filled(box, ground), _bar("o0", theme.dtype[kind])], theme.dtype[kind])


def _output(block: Block, theme: Theme, width: int) -> str:
    colour = theme.dtype[dtype_class(block.inputs[0].tensor.dtype)]
    words = run(short_name(block.name), bold=True)
    words += run("  graph output", size=SMALL_SIZE, colour=theme.muted)
    if block.text:
        words += (
            '<BR ALIGN="LEFT"/>' + _value(short_code(block.text, VALUE_CHARACTERS)) + '<BR ALIGN="LEFT"/>'
        )
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
        rows.append(
            f"<TD>{plain_table((_band(n, row, theme) for n, row in enumerate(block.rows)), theme.band)}</TD>"
        )
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
    if terminal.value:
        left = '<BR ALIGN="LEFT"/>'
        words += left + _value(short_code(terminal.value, VALUE_CHARACTERS)) + left
    label = f'<TD ROWSPAN="2" ALIGN="LEFT" CELLPADDING="4"{title(terminal.tip)}>{words}</TD>'
    return _nub(key, terminal, theme, "LEFT") + label


def _output_port(key: str, terminal: Terminal, theme: Theme) -> str:
    words = run(short_name(terminal.name), bold=True)
    if terminal.note:
        words = run(f"{terminal.note}  ", size=SMALL_SIZE, colour=theme.muted) + words
    words += _LINE_END
    if str(terminal.tensor):
        words += _type(terminal, theme) + _LINE_END
    if terminal.value:
        words += _value(short_code(terminal.value, VALUE_CHARACTERS)) + _LINE_END
    label = f'<TD ROWSPAN="2" ALIGN="RIGHT" CELLPADDING="4"{title(terminal.tip)}>{words}</TD>'
    return label + _nub(key, terminal, theme, "RIGHT")


def _nub(key: str, terminal: Terminal, theme: Theme, align: str) -> str:
    colour = theme.dtype[dtype_class(terminal.tensor.dtype)]
    # Aligned, as a wide band stretches every column of the table over it.
    nub = patch(TERMINAL_WIDTH, TERMINAL_HEIGHT, colour, port=key, align=align)
    return f'<TD ROWSPAN="2">{nub}</TD>'


def _type(terminal: Terminal, theme: Theme) -> str:
    return run(short_code(str(terminal.tensor)), code=True, size=SMALL_SIZE, colour=theme.muted)


def _value(text: str) -> str:
    return run(text, code=True, size=SMALL_SIZE)


def _band(position: int, row: Row, theme: Theme) -> str:
    colour = theme.text if row.dtype is None else theme.dtype[row.dtype]
    name = run(short_name(row.name), size=SMALL_SIZE)
    text = run(short_code(row.text), code=True, size=SMALL_SIZE, colour=colour)
    tip = title(row.tip)
    place = f' PORT="r{position}"' if row.frame else ""
    return (
        f'<TD ALIGN="LEFT" CELLPADDING="3"{tip}>{name}</TD>'
        f'<TD ALIGN="RIGHT" CELLPADDING="3"{place}{tip}>{text}</TD>'
    )
