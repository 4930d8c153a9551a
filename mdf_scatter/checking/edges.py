"""Edges: that both ends are there, and that a graph wired so ever starts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
from modeci_mdf.mdf import Edge, Graph

from mdf_scatter.checking.finding import Finding, chain, error, near, place, warning
from mdf_scatter.checking.scope import Scope
from mdf_scatter.errors import listed
from mdf_scatter.ops.settings import described
from mdf_scatter.wiring import edges_in_order

REDUCE = ("overwrite", "add", "multiply")
"""What an input port may do with several edges."""


def check_edges(graph: Graph, by_id: Mapping[str, Scope]) -> Iterator[Finding]:
    """Find edges from or to nowhere, and ports that more than one edge writes."""
    feeding: dict[tuple[str, str], list[str]] = {}
    outputs = {name: {port.id for port in scope.node.output_ports} for name, scope in by_id.items()}
    for edge in graph.edges:
        where = place(graph.id, edge.id)
        yield from _end(where, "sender", edge.sender, edge.sender_port, outputs, "output")
        inputs = {name: by_id[name].ports for name in (edge.receiver,) if name in by_id}
        yield from _end(where, "receiver", edge.receiver, edge.receiver_port, inputs, "input", by_id)
        yield from _parameters(where, edge)
    for edge in edges_in_order(graph):
        feeding.setdefault((edge.receiver, edge.receiver_port), []).append(edge.id)
    for scope in by_id.values():
        for port in scope.node.input_ports:
            edges = feeding.get((scope.node.id, port.id), [])
            if port.reduce not in (None, *REDUCE):
                yield error(
                    scope.where(port.id),
                    f"reduce is {described(port.reduce)}; expected {listed(REDUCE)}"
                    f"{near(port.reduce, REDUCE)}",
                )
            elif len(edges) > 1 and port.reduce in (None, "overwrite"):
                yield warning(
                    scope.where(port.id),
                    f"{len(edges)} edges write this port ({_some(edges)}) and the last that brings a value"
                    " wins; set reduce to 'add' or 'multiply', or give each edge a port of its own",
                )


def check_circles(graph: Graph, by_id: Mapping[str, Scope]) -> Iterator[Finding]:
    """Find nodes that wait for each other, or that no start of the graph leads to."""
    order = {name: position for position, name in enumerate(by_id)}
    senders: dict[str, list[str]] = {name: [] for name in by_id}
    waits: dict[str, list[str]] = {name: [] for name in by_id}
    for edge in graph.edges:
        if edge.sender not in by_id or edge.receiver not in by_id:
            continue
        senders[edge.receiver].append(edge.sender)
        port = by_id[edge.receiver].ports.get(edge.receiver_port)
        if port is not None and port.default_value is None:
            waits[edge.receiver].append(edge.sender)
    circles = find_circles(waits, order)
    for circle in circles:
        yield error(
            place(graph.id),
            f"nodes wait for each other: {chain(circle)}; give an input port on the way a default_value",
        )
    if circles:
        return
    roots = [name for name in by_id if not senders[name]]
    roots = roots or [
        name
        for name, scope in by_id.items()
        if any(p.default_value is not None for p in scope.ports.values())
    ]
    unreached = set(by_id) - _reached(roots, senders)
    lost = {name: [s for s in senders[name] if s in unreached] for name in by_id if name in unreached}
    for circle in find_circles(lost, order):
        yield error(
            place(graph.id),
            f"nodes never start: {chain(circle)}; no node without incoming edges leads to them:"
            " add an edge from one, or move them to a graph of their own",
        )


def find_circles(before: Mapping[str, Iterable[str]], order: Mapping[str, int]) -> list[list[str]]:
    """Find circles in a graph, in linear time: one at least of each knot.

    Args:
        before: The names that each name comes after.
        order: Position of each name; a circle starts with its first.

    >>> find_circles({"a": ["c"], "b": ["a"], "c": ["b"], "d": ["c"]}, {"a": 0, "b": 1, "c": 2, "d": 3})
    [['a', 'b', 'c']]
    """
    left = {name: {n for n in names if n in before} for name, names in before.items()}
    after: dict[str, list[str]] = {name: [] for name in left}
    for name, names in left.items():
        for earlier in names:
            after[earlier].append(name)
    free = [name for name, names in left.items() if not names]
    while free:
        done = free.pop()
        del left[done]
        for name in after[done]:
            left[name].discard(done)
            if not left[name]:
                free.append(name)
    circles = []
    visited: set[str] = set()
    for start in sorted(left, key=order.__getitem__):
        walk: dict[str, int] = {}
        name = start
        # Every name that is left has one before it that is left, so the walk ends in a circle.
        while name not in visited:
            visited.add(name)
            walk[name] = len(walk)
            name = min(left[name], key=order.__getitem__)
        if name in walk:
            circle = list(walk)[walk[name] :][::-1]
            first = circle.index(min(circle, key=order.__getitem__))
            circles.append(circle[first:] + circle[:first])
    return circles


def _reached(roots: list[str], senders: Mapping[str, list[str]]) -> set[str]:
    receivers: dict[str, list[str]] = {name: [] for name in senders}
    for name, names in senders.items():
        for sender in names:
            receivers[sender].append(name)
    reached, stack = set(roots), list(roots)
    while stack:
        for name in receivers[stack.pop()]:
            if name not in reached:
                reached.add(name)
                stack.append(name)
    return reached


def _end(
    where: str,
    end: str,
    node: str,
    port: str,
    ports: Mapping[str, Iterable[str]],
    kind: str,
    nodes: Mapping[str, Any] | None = None,
) -> Iterator[Finding]:
    if node not in ports:
        yield error(where, f"{end} {node!r} is not a node of the graph{near(node, nodes or ports)}")
    elif port not in ports[node]:
        yield error(
            where, f"{end}_port {port!r} is not an {kind} port of node {node!r}{_instead(port, ports[node])}"
        )


def _instead(name: str, known: Iterable[str]) -> str:
    names = list(known)
    return near(name, names) or (f"; it has {_some(names)}" if names else "; it has none")


def _parameters(where: str, edge: Edge) -> Iterator[Finding]:
    for name, value in (edge.parameters or {}).items():
        if name != "weight":
            yield warning(
                where,
                f"parameter {name!r} has no effect; expected 'weight'{near(str(name), ['weight'])}",
            )
        elif not _is_numeric(value):
            yield error(where, "weight is not a number; expected a number, or an array of numbers")


def _is_numeric(value: Any) -> bool:
    try:
        return np.asarray(value).dtype.kind in "biufcV" and not isinstance(value, (str, dict))
    except (ValueError, TypeError, OverflowError):
        return False


def _some(names: list[str]) -> str:
    return ", ".join(repr(name) for name in names[:5]) + (f" and {len(names) - 5} more" * (len(names) > 5))
