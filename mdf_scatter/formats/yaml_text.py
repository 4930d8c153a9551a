"""YAML <-> plain trees: events in, because what a file may do to us is decided event by event."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import yaml

from mdf_scatter.errors import FormatError
from mdf_scatter.formats.arrays import shown
from mdf_scatter.formats.json_bson import text_of

MAX_DEPTH = 100
MAX_EXPANDED = 2_000_000
MAX_YAML_LINE = 4_000_000  # a parser of events takes seconds for such a line, whatever is in it


class Unquoted(str):
    """An unquoted YAML scalar, as typed: an id keeps its text, elsewhere it may be a number."""

    __slots__ = ()


_Events: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_Dumper: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)

_MERGE = object()
_INTEGER = re.compile(r"[-+]?(0|[1-9][0-9]{0,4000})")
_OCTAL = re.compile(r"0o[0-7]{1,4000}")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_NUMBER_STARTS = frozenset("+-.0123456789")
_YAML_1_1 = yaml.SafeLoader("")


def meaning(text: str) -> Any:
    """Return what an unquoted scalar means; see `_parsed_scalar`."""
    return _short_meaning(text) if len(text) <= _LONGEST_REMEMBERED else _parsed_scalar(text)


def _parsed_scalar(text: str) -> Any:
    """Return what an unquoted YAML scalar means: to PyYAML, with the numbers of YAML 1.2 besides.

    Dates stay text, as a model has no use for them and JSON no form.
    """
    text = str(text)  # what remains text is text like any other
    if _INTEGER.fullmatch(text):
        return int(text)
    if _OCTAL.fullmatch(text):
        return int(text[2:], 8)
    tag = str(_YAML_1_1.resolve(yaml.ScalarNode, text, (True, False))).rpartition(":")[2]  # type: ignore[no-untyped-call]
    try:
        if tag in ("null", "bool", "int", "float"):
            return getattr(_YAML_1_1, f"construct_yaml_{tag}")(yaml.ScalarNode(tag, text))
    except ValueError:  # looks like a number and is none: 0x_
        return text
    return float(text) if _FLOAT.fullmatch(text) else text


_LONGEST_REMEMBERED = 50
_short_meaning = lru_cache(maxsize=10_000)(_parsed_scalar)


class _Open:
    """A YAML mapping or list whose end has not been read yet."""

    __slots__ = ("anchor", "items", "key", "lines", "merged", "size")

    def __init__(self, items: dict[str, Any] | list[Any], anchor: str | None) -> None:
        self.items = items
        self.anchor = anchor
        self.size = 1
        self.key: Any = None
        self.lines: dict[str, int] = {}
        self.merged: list[Any] = []

    def add(self, item: Any, size: int, line: int) -> None:
        self.size += size
        if isinstance(self.items, list):
            self.items.append(item)
        elif self.key is None:
            self.key = self._new_key(item, line)
        else:
            if self.key is _MERGE:
                self.merged += item if isinstance(item, list) else [item]
            else:
                self.items[self.key] = item
            self.key = None

    def _new_key(self, item: Any, line: int) -> Any:
        if not isinstance(item, str):
            raise FormatError(f"has {shown(item)} as a key in line {line}; expected a name")
        if type(item) is Unquoted and item == "<<":
            return _MERGE
        key = str(item)
        if key in self.lines:
            raise FormatError(
                f"has the key {shown(key)} twice in one mapping, in lines {self.lines[key]} and {line}"
            )
        self.lines[key] = line
        return key

    def close(self, line: int) -> dict[str, Any] | list[Any]:
        for mapping in self.merged:
            if not isinstance(mapping, dict) or isinstance(self.items, list):
                raise FormatError(f"merges {shown(mapping)} with '<<' above line {line}; expected a mapping")
            self.items = {**mapping, **self.items}
        return self.items


def read_yaml(data: bytes) -> Any:
    """Read YAML without tags, with bounded depth and bounded aliases."""
    text_of(data)
    if _has_endless_line(data):
        raise FormatError(
            f"has a line of more than {MAX_YAML_LINE} bytes; no YAML file of a model has, JSON may"
        )
    loader = _Events(data)
    try:
        return _Yaml(loader).tree()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        if mark and _is_indented_by_tab(data, mark.line):
            raise FormatError(
                f"is not YAML: line {mark.line + 1} is indented by a tab; use spaces"
            ) from error
        where = f" at line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        raise FormatError(f"is not YAML: {str(error.problem)[:120]}{where}") from error
    except yaml.reader.ReaderError as error:
        raise FormatError(f"is not YAML: {error.reason} (at byte {error.position})") from error
    except (ValueError, OverflowError) as error:  # an escape that is no character, in the pure parser
        if isinstance(error, FormatError):
            raise
        raise FormatError("is not YAML: an escape stands for no character") from error
    finally:
        loader.dispose()


def _is_indented_by_tab(data: bytes, line: int) -> bool:
    lines = data.splitlines()
    if line >= len(lines):
        return False
    text = lines[line]
    return b"\t" in text[: len(text) - len(text.lstrip())]


def _has_endless_line(data: bytes) -> bool:
    starts = range(0, len(data) - MAX_YAML_LINE, MAX_YAML_LINE)
    return any(data.find(b"\n", start, start + MAX_YAML_LINE) < 0 for start in starts)


class _Yaml:
    """Builds a tree from YAML events: no tags, bounded depth, bounded growth by aliases."""

    def __init__(self, loader: Any) -> None:
        self._loader = loader
        self._anchors: dict[str, tuple[Any, int] | None] = {}
        self._expanded = 0

    def tree(self) -> Any:
        stack = [_Open([], None)]
        for event in self._events():
            line = event.start_mark.line + 1
            if isinstance(event, (yaml.MappingStartEvent, yaml.SequenceStartEvent)):
                self._refuse_tag(event, line)
                if len(stack) > MAX_DEPTH:
                    raise FormatError(f"is nested deeper than {MAX_DEPTH} levels in line {line}")
                stack.append(_Open({} if isinstance(event, yaml.MappingStartEvent) else [], event.anchor))
                self._anchor(event.anchor, None)
            elif isinstance(event, (yaml.MappingEndEvent, yaml.SequenceEndEvent)):
                done = stack.pop()
                items = done.close(line)
                self._anchor(done.anchor, (items, done.size))
                stack[-1].add(items, done.size, line)
            elif isinstance(event, yaml.ScalarEvent):
                self._refuse_tag(event, line)
                text = event.value if event.style else Unquoted(event.value)
                self._anchor(event.anchor, (text, 1))
                stack[-1].add(text, 1, line)
            elif isinstance(event, yaml.AliasEvent):
                stack[-1].add(*self._alias(event.anchor, line), line)
        roots = stack[0].items
        if len(roots) != 1:
            raise FormatError("holds several YAML documents; expected one" if roots else "is empty")
        return roots[0]  # type: ignore[index]

    def _events(self) -> Iterator[Any]:
        while self._loader.check_event():
            yield self._loader.get_event()

    def _anchor(self, name: str | None, target: tuple[Any, int] | None) -> None:
        if name is not None:
            self._anchors[name] = target

    def _alias(self, name: str | None, line: int) -> tuple[Any, int]:
        if name is None or name not in self._anchors:
            raise FormatError(f"uses the alias {shown(name)} in line {line}, which nothing above defines")
        target = self._anchors[name]
        if target is None:
            raise FormatError(f"uses the alias {shown(name)} inside itself in line {line}")
        tree, size = target
        self._expanded += size
        if self._expanded > MAX_EXPANDED:
            raise FormatError(f"grows beyond {MAX_EXPANDED} values through its aliases in line {line}")
        return _copy(tree), size

    def _refuse_tag(self, event: Any, line: int) -> None:
        if event.tag is not None:
            raise FormatError(f"has the tag {shown(event.tag)} in line {line}; a model has no tags")


def _copy(tree: Any) -> Any:
    if isinstance(tree, dict):
        return {key: _copy(value) for key, value in tree.items()}
    return [_copy(value) for value in tree] if isinstance(tree, list) else tree


class _YamlDumper(_Dumper):  # type: ignore[misc]
    """Writes what fits on a line on one line: a port, a few arguments, a small array."""

    _WIDTH = 100
    _ALWAYS_BLOCK = 2  # the model and its fields

    def ignore_aliases(self, data: Any) -> bool:
        return True

    def represent_sequence(self, tag: str, sequence: Any, flow_style: Any = None) -> Any:
        node = super().represent_sequence(tag, sequence, flow_style=False)
        node.one_line = _line_length(node.value)
        innermost = all(isinstance(item, yaml.ScalarNode) for item in node.value)
        node.flow_style = innermost or (node.one_line <= self._WIDTH)
        return node

    def represent_mapping(self, tag: str, mapping: Any, flow_style: Any = None) -> Any:
        node = super().represent_mapping(tag, mapping, flow_style=False)
        inner = [item for pair in node.value for item in pair]
        node.one_line = _line_length(inner)
        leaf = not any(isinstance(item, yaml.MappingNode) and item.value for item in inner)
        node.flow_style = leaf and node.one_line <= self._WIDTH
        return node

    def represent_text(self, text: str) -> Any:
        # PyYAML would leave 1e-3 unquoted, which is text to YAML 1.1 and a number to YAML 1.2
        style = "'" if text[:1] in _NUMBER_STARTS and not isinstance(meaning(text), str) else None
        return self.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_YamlDumper.add_representer(str, _YamlDumper.represent_text)


def _line_length(nodes: list[Any]) -> float:
    """Return how long a line these nodes make together; infinite where one needs lines of its own."""
    total = 0.0
    for node in nodes:
        if isinstance(node, yaml.ScalarNode):
            total += math.inf if "\n" in node.value else len(node.value) + 2
        else:
            total += node.one_line + 2 if node.flow_style else math.inf
    return total


def write_yaml(tree: Any) -> bytes:
    """Write YAML, what fits on a line on one line."""
    data = yaml.dump(tree, Dumper=_YamlDumper, sort_keys=False, indent=4, width=110, encoding="utf-8")
    if _has_endless_line(data):
        raise FormatError(
            f"would have a line of more than {MAX_YAML_LINE} bytes, a text; save it as .json or .bson"
        )
    return bytes(data)
