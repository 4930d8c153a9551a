"""Plain trees -> models. The fields of each object, and their kinds, are read from modeci-mdf's classes."""

from __future__ import annotations

import re
from collections.abc import Callable
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Any, Optional, get_args, get_origin

import attrs
import numpy as np
from modeci_mdf.mdf import Condition, Function, Model, Parameter
from modelspec.base_types import Base, ValueExprType

from mdf_scatter.errors import FormatError
from mdf_scatter.formats.arrays import from_plain, read_type, shown
from mdf_scatter.formats.paths import parse_path
from mdf_scatter.formats.tensors_file import TensorsFile
from mdf_scatter.formats.to_tree import ARRAYS, TENSORS, label_of, names_side_file
from mdf_scatter.formats.yaml_text import MAX_DEPTH, Unquoted, meaning

_ALIKE = 0.85
"""From where on two names count as one misspelt; "notes" and "nodes", both in use, are 0.8."""

_MANY = 100


class _Reader:
    """Builds a model from a plain tree, checking every field on the way."""

    def __init__(self) -> None:
        self.side: TensorsFile | None = None

    def build(self, cls: type[Any], tree: Any, where: str, **known: Any) -> Any:
        """Build one object; what is no field is left out, as modelspec does, or refused as misspelt."""
        tree = _settled(tree) if isinstance(tree, str) else tree
        tree = {} if tree is None else tree
        if not isinstance(tree, dict):
            raise FormatError(f"{where} is {shown(tree)}; expected a mapping of its fields")
        if cls is Function and isinstance(tree.get("function"), dict) and tree["function"]:
            name, arguments = next(iter(tree["function"].items()))
            tree = {**tree, "function": name, "args": arguments}
        if cls is Parameter and isinstance(tree.get("conditions"), list):  # as modelspec writes them
            tree["conditions"] = _keyed_by_id(tree["conditions"], where)
        if "metadata" in attrs.fields_dict(cls):
            self._consume_types(tree, where)
        values = dict(known)
        for name, read_field, required in _fields(cls):  # type: ignore[arg-type]  # a class is hashable
            if name in tree and name not in known:
                values[name] = read_field(self, tree[name], where, name)
            elif required and name not in known:
                raise FormatError(f"{where} has no {name!r}")
        _refuse_misspelt(cls, tree, where)
        return _condition(values) if cls is Condition else cls(**values)

    def _consume_types(self, tree: dict[str, Any], where: str) -> None:
        metadata = tree.get("metadata")
        if not isinstance(metadata, dict) or not isinstance(metadata.get(ARRAYS), dict):
            return
        types = metadata[ARRAYS]
        tree["metadata"] = {key: value for key, value in metadata.items() if key != ARRAYS} or None
        for text, type_ in types.items():
            self._put_array(tree, text, type_, where)

    def _put_array(self, tree: dict[str, Any], text: str, type_: Any, where: str) -> None:
        path = parse_path(text)
        if path is None:
            raise FormatError(f"{where}: the metadata {ARRAYS!r} names {shown(text)}, which is not a path")
        name = f"{where}: {text if len(text) <= 60 else text[:57] + '...'}"
        dtype, shape = read_type(type_, name)
        parent: Any = tree
        for step in path[:-1]:
            parent = _child(parent, step)
        present = _child(parent, path[-1])
        if present is None and isinstance(parent, dict) and 0 in shape:
            present = []  # plain modeci-mdf leaves an empty list out when it saves a parameter
        if present is None:
            raise FormatError(f"{name} has a type in the metadata, but nothing stands there")
        if isinstance(present, dict) and list(present) == ["tensor"]:
            if self.side is None:
                raise FormatError(f"{name} is kept in a side file, and the model's metadata names none")
            array = self.side.get(present["tensor"], dtype, shape, name)
        else:
            array = from_plain(_settled(present), str(type_), name)
        parent[path[-1]] = array


def _refuse_misspelt(cls: type[Any], tree: dict[str, Any], where: str) -> None:
    """Refuse a key that is a field's name but for its spelling: what it holds would be lost in silence."""
    fields = {name: name.casefold() for name, _, _ in _fields(cls)}  # type: ignore[arg-type]
    unknown = [key for key in tree if key not in fields]
    missing = {folded: name for name, folded in fields.items() if name not in tree}
    for key in unknown[:_MANY]:  # comparing names takes long
        near = get_close_matches(key.casefold(), missing, 1, _ALIKE)
        if near:
            meant = missing[near[0]]
            raise FormatError(f"{where} has {shown(key)}, which is no field; did you mean {meant!r}?")


def _child(parent: Any, step: str | int) -> Any:
    if isinstance(parent, dict) and isinstance(step, str):
        return parent.get(step)
    if isinstance(parent, list) and isinstance(step, int) and step < len(parent):
        return parent[step]
    return None


def _settled(tree: Any, depth: int = 0) -> Any:
    """Return a tree in which every unquoted YAML scalar has become what it means."""
    kind = type(tree)
    if kind is Unquoted:
        return meaning(tree)
    if kind in (str, int, float, bool, type(None), np.ndarray):
        return tree
    if depth > MAX_DEPTH:
        raise FormatError(f"is nested deeper than {MAX_DEPTH} levels")
    if kind is list:
        return [_settled(item, depth + 1) for item in tree]
    if kind is dict:
        return {key: _settled(item, depth + 1) for key, item in tree.items()}
    raise FormatError(
        f"holds a {kind.__name__}; a model holds numbers, text, true, false, null, lists and mappings"
    )


_VALUE = Optional[ValueExprType]  # noqa: UP045 - compared with modeci-mdf's own annotation

FieldReader = Callable[[_Reader, Any, str, str], Any]


@cache
def _fields(cls: type[Any]) -> list[tuple[str, FieldReader, bool]]:
    return [(f.name, _field_reader(f.type), f.default is attrs.NOTHING) for f in attrs.fields(cls)]


def _field_reader(annotation: Any) -> FieldReader:
    arguments = get_args(annotation)
    if get_origin(annotation) is list and isinstance(arguments[0], type) and issubclass(arguments[0], Base):
        return lambda reader, tree, where, name: _read_children(reader, arguments[0], tree, where, name)
    inner = arguments[0] if len(arguments) == 2 and arguments[1] is type(None) else annotation
    if isinstance(inner, type) and issubclass(inner, Base):
        return lambda reader, tree, where, name: (
            None if _is_null(tree) else reader.build(inner, tree, f"{where}, {name}")
        )
    if get_origin(inner) is dict and get_args(inner)[1] is Condition:
        return _read_conditions
    if get_origin(inner) is dict:
        return _read_mapping
    if get_origin(inner) is tuple:
        return _read_shape
    if annotation == _VALUE:
        return lambda _, tree, where, name: _read_value(tree, where, name)
    return _read_reference if annotation is str else _read_text


def _read_children(reader: _Reader, cls: type[Any], tree: Any, where: str, name: str) -> list[Any]:
    if _is_null(tree) or tree == []:
        return []
    if not isinstance(tree, dict):
        raise FormatError(f"{where}: {name} is {shown(_settled(tree))}; expected a mapping from ids")
    label = label_of(cls)
    return [reader.build(cls, body, f"{where}, {label} {shown(id_)}", id=id_) for id_, body in tree.items()]


def _keyed_by_id(conditions: list[Any], where: str) -> dict[str, Any]:
    keyed: dict[str, Any] = {}
    for condition in conditions:
        if not isinstance(condition, dict) or not isinstance(condition.get("id"), str):
            raise FormatError(
                f"{where}: conditions holds {shown(condition)} without an id; expected a mapping from ids"
            )
        if condition["id"] in keyed:
            raise FormatError(f"{where} has two conditions {shown(condition['id'])}")
        keyed[str(condition["id"])] = condition
    return keyed


def _is_null(tree: Any) -> bool:
    return tree is None or (type(tree) is Unquoted and meaning(tree) is None)


def _read_reference(_: _Reader, tree: Any, where: str, name: str) -> str:
    """Read a text that may name an id: it is what was typed, also where that looks like a number."""
    if not isinstance(tree, (str, int, float)):
        raise FormatError(f"{where}: {name} is {shown(tree)}; expected text")
    return str(tree)


def _read_text(_: _Reader, tree: Any, where: str, name: str) -> str | None:
    if _is_null(tree):
        return None
    if type(tree) is Unquoted and isinstance(meaning(tree), bool) and tree.lower() in ("true", "false"):
        return str(meaning(tree))
    if not isinstance(tree, (str, int, float)):
        raise FormatError(f"{where}: {name} is {shown(tree)}; expected text")
    return str(tree)


def _read_value(tree: Any, where: str, name: str) -> Any:
    try:
        return _settled(tree)
    except FormatError as error:
        raise FormatError(f"{where}: {name} {error}") from error


def _read_mapping(_: _Reader, tree: Any, where: str, name: str) -> dict[str, Any] | None:
    value = _read_value(tree, where, name)
    if value is not None and not isinstance(value, dict):
        raise FormatError(f"{where}: {name} is {shown(value)}; expected a mapping")
    return value


_SIZE = re.compile(r"-?\d{1,18}", re.ASCII)
_SHAPE = re.compile(rf"[(\[]?\s*(?:{_SIZE.pattern}(?:\s*,\s*{_SIZE.pattern})*)?\s*,?\s*[)\]]?", re.ASCII)
_MAX_SHAPE_TEXT = 1000


def _read_shape(_: _Reader, tree: Any, where: str, name: str) -> tuple[int, ...] | None:
    if _is_null(tree):
        return None
    if isinstance(tree, str) and len(tree) <= _MAX_SHAPE_TEXT and _SHAPE.fullmatch(tree.strip()):
        return tuple(int(size) for size in _SIZE.findall(tree))
    sizes = _settled(tree) if isinstance(tree, list) else tree
    if isinstance(sizes, list) and all(type(size) is int for size in sizes):
        return tuple(sizes)
    raise FormatError(f"{where}: {name} is {_sizes_shown(sizes)}; expected whole numbers such as [8, 4]")


def _sizes_shown(sizes: Any) -> str:
    if not isinstance(sizes, list):
        return shown(sizes)
    return f"[{', '.join(shown(size) for size in sizes[:4])}{', ...' if len(sizes) > 4 else ''}]"


def _read_conditions(reader: _Reader, tree: Any, where: str, name: str) -> dict[str, Condition] | None:
    if _is_null(tree):
        return None
    if not isinstance(tree, dict):
        raise FormatError(f"{where}: {name} is {shown(_settled(tree))}; expected a mapping to conditions")
    return {key: _read_condition(reader, body, f"{where}, {name} {shown(key)}") for key, body in tree.items()}


def _read_condition(reader: _Reader, tree: Any, where: str) -> Condition:
    condition = reader.build(Condition, tree, where)
    condition.kwargs = {
        key: _read_argument(reader, value, f"{where}, {shown(key)}")
        for key, value in condition.kwargs.items()
    }
    return condition


def _read_argument(reader: _Reader, value: Any, where: str) -> Any:
    """Read an argument of a condition, in which conditions stand as mappings with a type."""
    if isinstance(value, list):
        return [_nested(reader, item, where) for item in value]
    if isinstance(value, dict) and "id" in value:
        return value["id"]
    return _nested(reader, value, where)


def _nested(reader: _Reader, value: Any, where: str) -> Any:
    if not isinstance(value, dict) or not isinstance(value.get("type"), str):
        return value
    fields = {"type", "kwargs", "metadata"}
    arguments = {key: item for key, item in value.items() if key not in fields}
    own = value.get("kwargs")
    body = {key: item for key, item in value.items() if key in fields}
    return _read_condition(
        reader, {**body, "kwargs": {**arguments, **(own if isinstance(own, dict) else {})}}, where
    )


def _condition(values: dict[str, Any]) -> Condition:
    # its __init__ loses metadata, and takes arguments of some names for fields
    condition = Condition(values["type"])
    condition.kwargs = values.get("kwargs") or {}
    condition.metadata = values.get("metadata")
    return condition


def model_of(tree: Any, folder: Path) -> Model:
    """Build the model of a tree; its side file is looked for in `folder`.

    Raises:
        FormatError: The tree is not a model's.
    """
    id_, body = _model_body(tree)
    reader = _Reader()
    metadata = body.get("metadata")
    if isinstance(metadata, dict) and names_side_file(metadata):
        reference = {
            key: str(value) if isinstance(value, str) else value for key, value in metadata[TENSORS].items()
        }
        reader.side = TensorsFile(reference, folder)
        rest = {key: value for key, value in metadata.items() if key != TENSORS}
        body = {**body, "metadata": rest or None}
    return reader.build(Model, body, f"model {shown(id_)}", id=id_)


def _model_body(tree: Any) -> tuple[str, dict[str, Any]]:
    if not isinstance(tree, dict) or not tree:
        held = "an empty mapping" if tree == {} else shown(_settled(tree))
        raise FormatError(f"holds {held}; expected a mapping from the model's id to the model")
    id_, body = (tree["id"], tree) if isinstance(tree.get("id"), str) else next(iter(tree.items()))
    # "version" stands in NeuroMLlite's files, which modeci-mdf reads as models without graphs.
    if not isinstance(body, dict) or not body.keys() & {"graphs", "format", "version"}:
        raise FormatError(f"is not an MDF model: {shown(id_)} has no 'graphs'")
    models = [key for key, other in tree.items() if isinstance(other, dict) and "graphs" in other]
    if body is not tree and len(models) > 1:
        raise FormatError(
            f"holds {len(models)} models, {shown(models[0])} and {shown(models[1])}; expected one"
        )
    return str(id_), body
