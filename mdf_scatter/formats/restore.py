"""Arrays of a model that modeci-mdf itself has read: lists, with their types in the metadata."""

from __future__ import annotations

import copy
from typing import Any, TypeVar

from modeci_mdf.mdf import Node

from mdf_scatter.errors import FormatError
from mdf_scatter.formats.arrays import from_plain
from mdf_scatter.formats.paths import parse_path
from mdf_scatter.formats.to_tree import ARRAYS

_Part = TypeVar("_Part")


def restored_node(node: Node) -> Node:
    """Return a node whose values are arrays again where its file says so; the node itself where nothing is.

    Raises:
        FormatError: A type does not fit its value, or the values stand in a side file, which only `load`
            reads.
    """
    restored = copy.copy(node)
    changed = False
    for name in ("input_ports", "functions", "parameters"):
        old = getattr(node, name)
        new = [_restored(part, node.id) for part in old]
        if any(a is not b for a, b in zip(new, old, strict=True)):
            setattr(restored, name, new)
            changed = True
    return restored if changed else node


def _restored(part: _Part, node_id: str) -> _Part:
    types = (getattr(part, "metadata", None) or {}).get(ARRAYS)
    if not isinstance(types, dict):
        return part
    part = copy.copy(part)
    for text, type_text in types.items():
        where = f"{node_id}.{part.id}.{text}"  # type: ignore[attr-defined]
        path = parse_path(text)
        if path is None or not hasattr(part, str(path[0])):
            raise FormatError(f"{where}: metadata says the type of a value that is not there")
        field = path[0]
        root = {field: copy.deepcopy(getattr(part, str(field)))}
        holder: Any = root
        try:
            for step in path[:-1]:
                holder = holder[step]
            plain = holder[path[-1]]
        except (KeyError, IndexError, TypeError) as error:
            raise FormatError(f"{where}: metadata says the type of a value that is not there") from error
        if isinstance(plain, dict):
            raise FormatError(f"{where} stands in a side file; read the model with mdf_scatter.load")
        holder[path[-1]] = from_plain(plain, type_text, where)
        setattr(part, str(field), root[field])
    return part
