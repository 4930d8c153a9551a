"""What a diagram shows, in words, for those who do not see it."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

from mdf_scatter.drawing.blocks import Block, End, Kind, Scene
from mdf_scatter.drawing.markup import short_code, short_name
from mdf_scatter.drawing.rows import NO_GRADIENT
from mdf_scatter.drawing.tensor_type import TensorType

NAMED = 12
"""More blocks of a kind than this are counted, not named."""


def description(scenes: list[Scene]) -> str:
    """Describe the graphs of a diagram in a few sentences."""
    parts = [part for scene in scenes for part in scene.all()]
    blocks = {block.key: block for part in parts for block in part.blocks}
    return " ".join(_graph(part, blocks) for part in parts)


def _graph(scene: Scene, blocks: dict[str, Block]) -> str:
    of: dict[Kind, list[Block]] = defaultdict(list)
    for block in scene.blocks:
        of[block.kind].append(block)
    sentences = [
        _beginning(scene),
        _sentence("graph input", [_typed(block, block.outputs[0].tensor) for block in of["input"]]),
        _sentence(
            "value", [_typed(block, block.outputs[0].tensor) for block in of["outer"]], " from outside"
        ),
        _sentence("constant", [_typed(block, block.outputs[0].tensor) for block in of["constant"]]),
        *_passes(of["node"], of["run"]),
        _sentence(
            "gradient stop",
            [f"{short_name(block.name)} ({why})" for block in of["node"] for why in _stops(block)],
        ),
        _sentence("missing node", [short_name(block.name) for block in of["missing"]]),
        _sentence("graph output", [_typed(block, block.inputs[0].tensor) for block in of["output"]]),
        _sentence("wire", _links(scene, blocks)),
    ]
    return " ".join(sentence for sentence in sentences if sentence)


def _passes(nodes: list[Block], runs: list[Block]) -> Iterator[str]:
    """Describe the nodes of the forward pass and of the backward pass; where there is none, all as one."""
    has_backward = any(block.is_backward for block in (*nodes, *runs))
    for is_backward in (False, True):
        way = ("backward " if is_backward else "forward ") if has_backward else ""
        of_pass = [block for block in nodes if block.is_backward is is_backward]
        yield _sentence(f"{way}node", [_called(block) for block in of_pass], _counted(of_pass))
        names = [short_name(block.name) for block in runs if block.is_backward is is_backward]
        yield _sentence(f"folded {way}run", names)


def _stops(block: Block) -> list[str]:
    return [row.text for row in block.rows if row.name == NO_GRADIENT]


def _beginning(scene: Scene) -> str:
    name = short_name(scene.graph.id)
    if scene.what == "MDF graph":
        return f"Block diagram of the MDF graph {name}."
    if scene.what == "function":
        return f"Beside it, the function {name}."
    return f"Inside it, {short_name(scene.what)}: the graph {name}."


def _sentence(what: str, items: list[str], counted: str = "") -> str:
    """Name the items, or give their number, with `counted` to say more."""
    if not items:
        return ""
    if len(items) > NAMED:
        return f"{len(items)} {what}s{counted}."
    heading = (what if len(items) == 1 else f"{what}s").capitalize()
    return f"{heading}: {', '.join(items)}."


def _typed(block: Block, tensor: TensorType) -> str:
    known = f" {short_code(str(tensor))}" if str(tensor) else ""
    value = f" = {short_code(block.text)}" if block.text and not block.is_default else ""
    gradient = f" (gradient of {short_name(block.gradient_of)})" if block.gradient_of else ""
    return short_name(block.name) + known + value + gradient


def _called(block: Block) -> str:
    functions = short_name(" → ".join(block.functions)) if block.functions else ""
    return f"{short_name(block.name)} ({functions})" if functions else short_name(block.name)


def _counted(nodes: list[Block]) -> str:
    count = Counter(function for node in nodes for function in node.functions)
    common = ", ".join(f"{number} {short_name(name)}" for name, number in count.most_common(8))
    return f", most often {common}" if common else ""


def _links(scene: Scene, blocks: dict[str, Block]) -> list[str]:
    return [
        f"{_end(blocks[wire.source.block], wire.source, outgoing=True)} to "
        f"{_end(blocks[wire.target.block], wire.target, outgoing=False)}"
        for wire in scene.wires
    ]


def _end(block: Block, end: End, *, outgoing: bool) -> str:
    name = short_name(block.name)
    if block.kind not in ("node", "run", "missing"):
        return name
    return f"{name}.{short_name((block.outputs if outgoing else block.inputs)[end.terminal].name)}"
