"""From a model to the frames of its diagram, one a graph, subgraphs inside those they belong to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from modeci_mdf.mdf import Graph

from mdf_scatter.drawing.blocks import Scene
from mdf_scatter.drawing.builder import Builder, Seen, Source
from mdf_scatter.drawing.fold import folded, without_constants
from mdf_scatter.drawing.inference import port_types
from mdf_scatter.drawing.outline import Outline, function_of
from mdf_scatter.drawing.passes import gradients
from mdf_scatter.drawing.tensor_type import TensorType, of_value


@dataclass(frozen=True)
class Content:
    """What a diagram shows.

    Attributes:
        outline: Which graphs.
        inferred: Types that inference found, by value name.
        seen: Values of a run.
        ran: The graph that ran.
        folds: Whether long graphs are folded.
    """

    outline: Outline
    inferred: Mapping[str, TensorType]
    seen: Seen
    ran: Graph
    folds: bool

    def scenes(self) -> list[Scene]:
        """Work out what is drawn."""
        return [
            self._scene(graph, f"g{position}", "function" if function_of(graph) else "MDF graph", {})
            for position, graph in enumerate(self.outline.roots)
        ]

    def _scene(self, graph: Graph, key: str, what: str, outer: Mapping[str, Source]) -> Scene:
        seen = self.seen if graph is self.ran else {}
        types = port_types(graph, self.inferred, {place: of_value(array) for place, array in seen.items()})
        builder = Builder(graph, key, types, self.outline, seen, outer, gradients(self.ran))
        builder.build()
        visible = {**outer, **builder.named_sources()}
        held = [(node, item) for node in graph.nodes for item in self.outline.inner(node) if item.here]
        inner = [
            self._scene(item.graph, f"{key}s{position}", f"{item.label} of {node.id}", visible)
            for position, (node, item) in enumerate(held)
            if item.graph is not None
        ]
        scene = Scene(graph, key, what, tuple(builder.blocks), tuple(builder.wires), tuple(inner))
        # A backward pass is full of shapes and axes, which as boxes would hide what flows.
        scene = without_constants(scene, {block.key for block in scene.blocks if block.is_backward})
        return folded(scene) if self.folds else scene
