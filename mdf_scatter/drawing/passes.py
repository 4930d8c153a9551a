"""What a gradient graph says of itself: where gradients come in and stop."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from modeci_mdf.mdf import Graph, Node

from mdf_scatter.wiring import onnx_metadata


@dataclass(frozen=True)
class Gradients:
    """What `grad` wrote into a graph's metadata; empty for any other graph.

    Attributes:
        of: What each graph input that is a gradient from outside is the gradient of, by its name.
        wrt: What each graph output that is a gradient belongs to, by its name.
        losses: Every output that is differentiated.
    """

    of: Mapping[str, str] = field(default_factory=dict)
    wrt: Mapping[str, str] = field(default_factory=dict)
    losses: tuple[str, ...] = ()
    _stopped: Mapping[str, str] = field(default_factory=dict)

    def stop(self, node: Node) -> str:
        """Return why a node sends no gradient back; nothing where it does."""
        return self._stopped.get(str(onnx_metadata(node).get("name", node.id)), "")


def gradients(graph: Graph) -> Gradients:
    """Read what a graph's metadata says of gradients."""
    said = _mapping((graph.metadata or {}).get("gradient"))
    of, wrt, stopped = _mapping(said.get("of")), _mapping(said.get("wrt")), said.get("stopped")
    stops = [_mapping(stop) for stop in stopped] if isinstance(stopped, list) else []
    return Gradients(
        {str(name): str(loss) for loss, name in of.items() if name is not None},
        {str(name): str(target) for target, name in wrt.items()},
        tuple(map(str, of)),
        {str(stop.get("node")): str(stop.get("reason")) for stop in stops},
    )


def _mapping(value: object) -> Mapping[str, Any]:
    # Metadata is anyone's to write.
    return value if isinstance(value, dict) else {}
