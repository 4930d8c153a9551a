"""What a gradient graph says of itself: where gradients come in and stop, in each backward pass."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from modeci_mdf.mdf import Graph, Node, OutputPort

from mdf_scatter.wiring import onnx_metadata


@dataclass(frozen=True)
class Gradients:
    """What `grad` wrote into a graph's metadata; empty for any other graph.

    Attributes:
        of: What each graph input that is a gradient from outside is the gradient of, by its name.
        wrt: What each graph output that is a gradient belongs to, by its name.
        passes: Which backward pass each of these inputs and outputs is part of, from 1 on, by its name.
        losses: The outputs that each backward pass differentiates.
    """

    of: Mapping[str, str] = field(default_factory=dict)
    wrt: Mapping[str, str] = field(default_factory=dict)
    passes: Mapping[str, int] = field(default_factory=dict)
    losses: tuple[tuple[str, ...], ...] = ()
    _stopped: Mapping[str, str] = field(default_factory=dict)

    def stop(self, node: Node) -> str:
        """Return why a node of the graph, or inside it, sends no gradient back; nothing where it does."""
        training = node.get_parameter("training")
        if training is not None and training.value is True:
            # Names of nodes are unique within a graph only.
            return ""
        name = onnx_metadata(node).get("name", node.id)
        first = "" if name or not node.output_ports else _value_name(node.output_ports[0])
        return self._stopped.get(str(name or first), "")


def gradients(graph: Graph) -> Gradients:
    """Read what a graph's metadata says of gradients."""
    last = _mapping((graph.metadata or {}).get("gradient"))
    said = [*map(_mapping, _items(last.get("earlier"))), last] if last else []
    of = [_mapping(one.get("of")) for one in said]
    wrt = [_mapping(one.get("wrt")) for one in said]
    stops = [_mapping(stop) for one in said for stop in _items(one.get("stopped"))]
    return Gradients(
        {str(name): str(loss) for one in of for loss, name in one.items() if name is not None},
        {str(name): str(target) for one in wrt for target, name in one.items()},
        {
            str(name): number
            for number, parts in enumerate(zip(of, wrt, strict=True), 1)
            for part in parts
            for name in part.values()
        },
        tuple(tuple(map(str, one)) for one in of),
        {str(stop.get("node")): str(stop.get("reason")) for stop in stops},
    )


def _value_name(port: OutputPort) -> str:
    return str(onnx_metadata(port).get("name", port.id))


# Metadata is anyone's to write.
def _items(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}
