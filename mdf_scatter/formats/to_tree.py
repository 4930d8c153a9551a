"""Models -> plain trees in modelspec's own shape, and what of a model no file can hold."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from enum import Enum
from typing import Any

import attrs
import numpy as np
from modeci_mdf.mdf import Model, ParameterCondition
from modelspec.base_types import Base

from mdf_scatter.errors import FormatError
from mdf_scatter.formats.arrays import INT64_MAX, Array, is_large, kept_type, shown, to_plain
from mdf_scatter.formats.paths import Way, path_text
from mdf_scatter.formats.yaml_text import MAX_DEPTH

ARRAYS = "arrays"
"""The key of an object's metadata under which its arrays' types stand."""

TENSORS = "tensors"
"""The key of the model's metadata that names the side file."""

_ROOM = 4  # for what stands around a value: the model, its body, and the metadata
_MOST_BITS = 13_000  # Python neither reads nor writes decimals of more than 4300 digits


@dataclass(frozen=True)
class _Owner:
    """The object whose metadata says the types of the arrays inside it."""

    where: str
    start: int  # how much of a path in the model leads to the object itself
    types: dict[str, str]


class TreeWriter:
    """Builds the plain tree of a model, and collects the arrays that go to the side file."""

    def __init__(self, *, int64_only: bool, embed: bool) -> None:
        self.large: dict[str, Array] = {}
        self._keys: dict[int, str] = {}
        self._int64_only = int64_only
        self._embed = embed

    def model(self, model: Model) -> dict[str, Any]:
        """Return the tree of a whole model, except what it says of a side file."""
        body = self._owner(model, f"model {shown(model.id)}", ())
        first = {key: body.pop(key) for key in ("format", "generating_application")}
        return {str(model.id): {**first, "graphs": {}, **body}}

    def _owner(self, part: Any, where: str, path: Way) -> dict[str, Any]:
        owner = _Owner(where, len(path), {})
        body = self._object(part, path, owner)
        if owner.types:
            claim(body, ARRAYS, owner.types, where)
        elif isinstance((body.get("metadata") or {}).get(ARRAYS), dict):
            raise reserved(ARRAYS, where)
        return body

    def _object(self, part: Any, path: Way, owner: _Owner) -> dict[str, Any]:
        body: dict[str, Any] = {}
        for field in attrs.fields(type(part)):
            value = getattr(part, field.name)
            if field.name == "id" or (
                field.metadata.get("omit_if_default", True) and _is_default(value, field)
            ):
                continue
            inside = (*path, field.name)
            if isinstance(field.default, attrs.Factory):  # type: ignore[arg-type]
                body[field.name] = self._children(value or [], inside, owner)
            elif isinstance(value, str) and field.type in (str, str | None):
                body[field.name] = str(value)
            else:
                body[field.name] = self._value(value, inside, owner)
        return body

    def _children(self, parts: list[Any], path: Way, owner: _Owner) -> dict[str, Any]:
        tree: dict[str, Any] = {}
        for part in parts:
            # a parameter's conditions are plain mappings where modelspec has read them
            part = ParameterCondition(**part) if isinstance(part, dict) else part
            label, id_ = label_of(type(part)), str(part.id)
            if id_ in tree:
                raise FormatError(f"{owner.where} has two {label}s {shown(id_)}; one of them would be lost")
            inside = (*path, id_)
            if isinstance(part, ParameterCondition):
                tree[id_] = self._object(part, inside, owner)
            else:
                tree[id_] = self._owner(part, f"{owner.where}, {label} {shown(id_)}", inside)
        return tree

    def _value(self, value: Any, path: Way, owner: _Owner) -> Any:
        if value is None or type(value) in (bool, int, float, str):
            return value
        if len(path) > MAX_DEPTH - _ROOM:
            raise FormatError(
                f"{owner.where}: {path_text(path[owner.start :])[:60]}... is nested too deep, or holds itself"
            )
        if isinstance(value, (np.ndarray, np.generic, complex)):
            return self._array(np.asanyarray(value), path, owner)
        if isinstance(value, Base):
            return self._part(value, path, owner)
        if isinstance(value, Enum):
            return self._value(value.value, path, owner)
        if isinstance(value, (list, tuple)):
            return [self._value(item, (*path, position), owner) for position, item in enumerate(value)]
        if isinstance(value, dict):
            return {
                key: self._value(item, (*path, key), owner)
                for key, item in ((self._key(key, path, owner), item) for key, item in value.items())
            }
        for plain in (str, int, float):
            if isinstance(value, plain):
                return plain(value)
        raise FormatError(
            f"{_name(path, owner)} is a {type(value).__name__}; "
            "a file holds numbers, text, lists, mappings and NumPy arrays"
        )

    def _key(self, key: Any, path: Way, owner: _Owner) -> str:
        if not isinstance(key, (str, Enum)):
            raise FormatError(f"{_name(path, owner)} has {shown(key)} as a key; the keys of a file are text")
        return str(key)

    def _part(self, part: Any, path: Way, owner: _Owner) -> Any:
        if hasattr(part, "id"):  # an argument of a condition that is a node stands as its id
            return part.id
        return self._owner(part, f"{owner.where}, {path_text(path[owner.start :])}", path)

    def _array(self, array: Array, path: Way, owner: _Owner) -> Any:
        name = _name(path, owner)
        owner.types[path_text(path[owner.start :])] = kept_type(array, name)
        if len(path) + array.ndim > MAX_DEPTH - _ROOM:
            raise FormatError(f"{name} is nested too deeply")
        if self._embed or not is_large(array):
            return to_plain(array, name, int64_only=self._int64_only)
        key = self._keys.setdefault(id(array), path_text(path))
        self.large[key] = array
        return {"tensor": key}


def _name(path: Way, owner: _Owner) -> str:
    return f"{owner.where}: {path_text(path[owner.start :])}"


def _is_default(value: Any, field: attrs.Attribute[Any]) -> bool:
    if isinstance(field.default, attrs.Factory):  # type: ignore[arg-type]
        return not value
    return isinstance(value, (str, tuple, type(None))) and bool(value == field.default)


def claim(body: dict[str, Any], key: str, value: dict[str, str], where: str) -> None:
    """Put what a file knows of arrays into an object's metadata, where nothing may stand yet."""
    metadata = body.get("metadata") or {}
    if key in metadata:
        raise reserved(key, where)
    body["metadata"] = {**metadata, key: value}


def reserved(key: str, where: str) -> FormatError:
    """Return the error for metadata that has a key of ours."""
    return FormatError(
        f"{where} has {key!r} in its metadata, where a file keeps what it knows of arrays; rename it"
    )


def refuse_unholdable(tree: Any, path: Way, suffix: str) -> None:
    """Raise where a tree holds text or integers that the format cannot give back."""
    if isinstance(tree, dict):
        for key, value in tree.items():
            if not key.isascii() or "\0" in key:
                _refuse_text(key, path, suffix, is_key=True)
            refuse_unholdable(value, (*path, key), suffix)
    elif isinstance(tree, list):
        for position, value in enumerate(tree):
            if type(value) is not float:
                refuse_unholdable(value, (*path, position), suffix)
    elif isinstance(tree, str):
        if not tree.isascii():
            _refuse_text(tree, path, suffix)
    elif type(tree) is int and tree.bit_length() > _MOST_BITS:
        raise FormatError(f"{path_text(path)} is {shown(tree)}; a file holds at most {_MOST_BITS}")
    elif type(tree) is int and suffix == ".bson" and not -INT64_MAX - 1 <= tree <= INT64_MAX:
        raise FormatError(f"{path_text(path)} is {shown(tree)}; BSON holds whole numbers of 64 bits")


def _refuse_text(text: str, path: Way, suffix: str, *, is_key: bool = False) -> None:
    if suffix == ".bson" and is_key and "\0" in text:
        raise FormatError(f"{path_text(path)} has the key {shown(text)}; BSON holds no NUL in a key")
    if suffix == ".json":
        # JSON reads a pair of surrogates as the one character that they encode
        held = json.loads(json.dumps(text)) == text
    else:
        held = not any("\ud800" <= character <= "\udfff" for character in text)
    if not held:
        raise FormatError(f"{path_text(path)} is {shown(text)}; {suffix} files hold no such surrogates")


def label_of(cls: type[Any]) -> str:
    """Return what messages call an object: `input port`."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", cls.__name__).lower()


def names_side_file(metadata: dict[str, Any] | None) -> bool:
    """Tell whether a model's metadata names a side file."""
    reference = (metadata or {}).get(TENSORS)
    return isinstance(reference, dict) and "file" in reference
