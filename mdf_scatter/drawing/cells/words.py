"""What a movement does, in words: beside its cells, in their tooltips, and for those who do not see them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mdf_scatter.drawing.cells.movement import Integers, Movement
from mdf_scatter.drawing.cells.text import array_text, cell_text, place_text
from mdf_scatter.dtypes import is_string, type_text

LISTED = 12
"""More items or rows than this are counted, not listed."""

VALUES = 16
"""An array of more elements than this is told by its type."""

_TERMS = 5
_VERBS = {"none": "writes", "add": "adds", "mul": "multiplies"}
_SIGNS = {"add": " + ", "mul": " × ", "mean": " + "}
_LOGIC = {"add": " or ", "mul": " and "}


def index_text(call: Movement, number: int) -> str:
    """Write an item's index as it was given, and the place it means where that is another."""
    numbers = [int(part) for part in call.numbers[number]]
    if call.is_stretch:
        start, offset = numbers
        written = f"{start} + {offset}" if offset else f"{start}"
    else:
        written = _bare(numbers) if numbers else "all"
    place = call.place(int(call.rows[number]))
    return written if tuple(numbers) == place and not call.is_stretch else f"{written} → {_bare(place)}"


def note(call: Movement, row: int, items: Integers) -> str:
    """Say what becomes of a row that several items belong to."""
    count = len(items)
    if call.is_gather:
        return f"read {count} times"
    if call.reduction == "none":
        return f"{count} updates: update {items[-1]}, the last, wins"
    more = " …" if call.row_width > 1 else ""
    return f"{count} updates: {combined(call, row, 0, items)}{more}{_left_out(call)}"


def combined(call: Movement, row: int, column: int, items: Integers) -> str:
    """Write what an element of a row is computed of: `4 + 10 + 70`."""
    is_long = len(items) > _TERMS
    chosen = (*items[: _TERMS - 2], items[-1]) if is_long else items
    values = [call.item(number)[column] for number in chosen]
    in_sum = call.reduction not in ("max", "min")
    terms = [_term(value) if in_sum else cell_text(value) for value in values]
    count = len(items)
    if call.include_self:
        own = call.data.reshape(-1)[row * call.row_width + column]
        terms.insert(0, cell_text(own) if not isinstance(own, (complex, np.complexfloating)) else _term(own))
        count += 1
    if is_long:
        terms.insert(-1, "…")
    if not in_sum:
        return f"{call.reduction}({', '.join(terms)})"
    is_logic = call.data.dtype.kind == "b"
    signed = (_LOGIC if is_logic else _SIGNS)[call.reduction].join(terms)
    if call.reduction != "mean":
        return signed
    divided = "//" if call.data.dtype.kind in "iu" else "/"
    return f"({signed}) {divided} {count}" if len(terms) > 1 else f"{signed} {divided} {count}"


def tip(call: Movement, position: int, items: Integers) -> str:
    """Say what an element of the output is, after its value, for a tooltip."""
    if call.is_gather:
        return f", {_read_by(items)}" if len(items) else ""
    if not len(items):
        return f", copied from {call.data_name}"
    row, column = divmod(position, call.row_width)
    if call.reduction == "none":
        return f", {note(call, row, items) if len(items) > 1 else f'written by update {items[0]}'}"
    return f" = {combined(call, row, column, items)}{_left_out(call)}"


def description(call: Movement) -> str:
    """Describe a call: every item and the result where they are few, else how many there are."""
    sentences = [_first(call)]
    several = np.flatnonzero(call.hits > 1)
    if 0 < len(several) <= LISTED and len(call.rows) <= LISTED:
        for row in several:
            name = _place(call, int(row))
            said = note(call, int(row), np.flatnonzero(call.rows == row))
            sentences.append(f"{_capital(name)} {'is ' if call.is_gather else 'gets '}{said}.")
    elif len(several):
        most = int(call.hits.argmax())
        is_one = len(several) == 1
        if call.is_gather:
            met = f"{'is' if is_one else 'are'} read by several results"
        else:
            met = f"{'gets' if is_one else 'get'} several updates"
        counted, place = _counted(call, len(several)), _place(call, most)
        sentences.append(f"{counted} {met}; {place}, the most: {call.hits[most]}.")
    left = call.row_count - int(np.count_nonzero(call.hits))
    if left and len(call.rows) and not call.is_gather:
        others = _counted(call, left)
        sentences.append(f"The other {others} {'is' if left == 1 else 'are'} copied from {call.data_name}.")
    if call.output.size <= LISTED * LISTED:
        sentences.append(f"Output: {array_text(call.output)}.")
    else:
        sentences.append(f"Output: {type_text(_dtype(call), call.output.shape)}.")
    return " ".join(sentences)


def title(call: Movement) -> str:
    """Write the operator with the settings that differ from their defaults."""
    settings = ", ".join(f"{name}: {_setting(value)}" for name, value in call.settings.items())
    return f"{call.op} ({settings})" if settings else call.op


def _term(value: Any) -> str:
    """Write a value so that it can stand behind a sign."""
    text = cell_text(value)
    return f"({text})" if text.startswith("-") or isinstance(value, (complex, np.complexfloating)) else text


def _first(call: Movement) -> str:
    count = len(call.rows)
    name, data = call.data_name, type_text(_dtype(call), call.data.shape)
    touched = int(np.count_nonzero(call.hits))
    into = f"{'all' if not call.depth else _counted(call, touched)} of {name}, {data}"
    if call.is_gather:
        said = f"{call.op} reads {into}" if count else f"{call.op} reads nothing from {name}, {data}"
        each = [
            f"result {n} ({_value(call, n)}) is {_place(call, int(call.rows[n]))}"
            for n in range(min(count, LISTED))
        ]
    else:
        verb = _VERBS.get(call.reduction, "combines")
        by = "" if call.reduction in _VERBS else f", by {call.reduction}"
        items = f"{count} update{'s' * (count != 1)}"
        said = f"{call.op} {verb} {items} into {into if count else f'{name}, {data}'}{by}{_left_out(call)}"
        each = _goings(call) if count <= LISTED else []
    return f"{said}: {', '.join(each)}." if 0 < count <= LISTED else f"{said}."


def _goings(call: Movement) -> list[str]:
    return [
        f"{'' if n else 'update '}{n} ({_value(call, n)}) {'to' if n else 'goes to'} {_place(call, int(row))}"
        for n, row in enumerate(call.rows)
    ]


def _value(call: Movement, number: int) -> str:
    item = call.item(number).reshape(call.data.shape[call.depth :])
    return array_text(item) if item.size <= VALUES else type_text(_dtype(call), item.shape)


def _dtype(call: Movement) -> Any:
    return "string" if is_string(call.data.dtype) else call.data.dtype


def _unit(call: Movement) -> str:
    if call.depth == call.data.ndim:
        return "element"
    return "row" if call.data.ndim == 2 else "slice"


def _counted(call: Movement, count: int) -> str:
    return f"{count} {_unit(call)}{'s' * (count != 1)}"


def _place(call: Movement, row: int) -> str:
    return f"{_unit(call)} {_bare(call.place(row))}" if call.depth else f"all of {call.data_name}"


def _bare(numbers: Sequence[int]) -> str:
    return str(numbers[0]) if len(numbers) == 1 else place_text(numbers)


def _read_by(items: Integers) -> str:
    first = ", ".join(str(item) for item in items[:_TERMS])
    more = f" and {len(items) - _TERMS} more" if len(items) > _TERMS else ""
    return f"read by result{'s' * (len(items) > 1)} {first}{more}"


def _left_out(call: Movement) -> str:
    return "" if call.include_self else f", without {call.data_name}"


def _setting(value: Any) -> str:
    return str(value).lower() if isinstance(value, (bool, np.bool_)) else str(value)


def _capital(text: str) -> str:
    return text[0].upper() + text[1:]
