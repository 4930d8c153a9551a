"""Conditions under which nodes run: of a kind that the scheduler has, on nodes that are there."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping
from typing import Any

from modeci_mdf.mdf import Condition, ConditionSet, Graph

from mdf_scatter.checking.finding import Finding, error, near, place
from mdf_scatter.checking.scope import Scope
from mdf_scatter.errors import did_you_mean

_ON_NODES = ("dependency", "dependencies")
_SCALE = re.compile(r"(?:TimeScale)?\.(.*)")


def check_conditions(graph: Graph, by_id: Mapping[str, Scope]) -> Iterator[Finding]:
    """Find conditions of no known kind, of missing arguments, or on nodes that do not exist."""
    if graph.conditions is None:
        return
    where = place(graph.id, "conditions")
    if not isinstance(graph.conditions, ConditionSet):
        yield error(
            where, f"is of type {type(graph.conditions).__name__}; expected node_specific and termination"
        )
        return
    for node, condition in (graph.conditions.node_specific or {}).items():
        if node not in by_id:
            yield error(where, f"{node!r} is not a node of the graph{near(str(node), by_id)}")
        yield from _check(place(graph.id, "conditions", node), condition, by_id)
    for scale, condition in (graph.conditions.termination or {}).items():
        yield from _check_scale(where, str(scale))
        yield from _check(place(graph.id, "conditions", scale), condition, by_id)


def _check(where: str, condition: Any, by_id: Mapping[str, Scope]) -> Iterator[Finding]:
    stack = [condition]
    while stack:
        item = stack.pop()
        kind, kwargs = _read(item)
        if not isinstance(kind, str) or not isinstance(kwargs, Mapping):
            yield error(
                where, f"is of type {type(item).__name__}; expected a condition: a type and its kwargs"
            )
            continue
        yield from _check_kind(where, kind, kwargs)
        for name, value in kwargs.items():
            parts = value if isinstance(value, list) else [value]
            stack += [part for part in parts if isinstance(part, Condition) or _is_condition(part)]
            if name in _ON_NODES:
                yield from _check_nodes(where, kind, parts, by_id)
        if kind == "Threshold":
            yield from _check_threshold(where, kwargs, by_id)


def _read(item: Any) -> tuple[Any, Any]:
    if isinstance(item, Condition):
        return item.type, item.kwargs or {}
    if _is_condition(item):
        return item["type"], item.get("kwargs") or {}
    return None, None


def _is_condition(value: Any) -> bool:
    return isinstance(value, Mapping) and "type" in value


def _check_kind(where: str, kind: str, kwargs: Mapping[str, Any]) -> Iterator[Finding]:
    kinds = _kinds()
    if kind not in kinds:
        yield error(where, f"condition type {kind!r} is not known{did_you_mean(kind, kinds)}")
        return
    parameters = inspect.signature(kinds[kind]).parameters
    given = {"dependency" if n == "dependencies" and n not in parameters else n for n in kwargs}
    for name, parameter in parameters.items():
        is_needed = parameter.default is parameter.empty and parameter.kind in (
            parameter.POSITIONAL_OR_KEYWORD,
            parameter.KEYWORD_ONLY,
        )
        if is_needed and name not in given:
            yield error(where, f"condition {kind} is missing its argument {name!r}")
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()):
        return
    for name in given - set(parameters):
        yield error(where, f"condition {kind} has no argument {name!r}{did_you_mean(str(name), parameters)}")


def _check_nodes(where: str, kind: str, parts: list[Any], by_id: Mapping[str, Scope]) -> Iterator[Finding]:
    for part in parts:
        if isinstance(part, str) and part not in by_id:
            yield error(
                where,
                f"condition {kind} depends on {part!r}, which is not a node of the graph{near(part, by_id)}",
            )


def _check_threshold(where: str, kwargs: Mapping[str, Any], by_id: Mapping[str, Scope]) -> Iterator[Finding]:
    node, name = kwargs.get("dependency", kwargs.get("dependencies")), kwargs.get("parameter")
    if not isinstance(node, str) or node not in by_id or not isinstance(name, str):
        return
    known = [*by_id[node].names, *(port.id for port in by_id[node].node.output_ports)]
    if name not in known:
        yield error(
            where,
            f"condition Threshold watches {name!r}, which is not a port, parameter or function of node"
            f" {node!r}{near(name, known)}",
        )


def _check_scale(where: str, scale: str) -> Iterator[Finding]:
    from graph_scheduler import TimeScale

    named = _SCALE.match(scale)
    name = (named[1] if named else scale).upper()
    if not hasattr(TimeScale, name):
        yield error(where, f"{scale!r} is not a time scale{did_you_mean(name, TimeScale.__members__)}")


def _kinds() -> dict[str, type]:
    from graph_scheduler import condition

    return {
        name: kind
        for name, kind in vars(condition).items()
        if isinstance(kind, type) and issubclass(kind, condition.Condition)
    }
