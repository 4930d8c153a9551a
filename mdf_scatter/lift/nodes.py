"""One ONNX node as an MDF node."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import onnx
from google.protobuf.json_format import MessageToDict  # type: ignore[import-untyped]
from modeci_mdf.mdf import Function, Node, Parameter

from mdf_scatter.errors import FormatError, UnsupportedError
from mdf_scatter.lift.attributes import GraphId, parameter
from mdf_scatter.lift.values import documented, own_metadata, safe_id
from mdf_scatter.lower.functions import CARRIED, METADATA, POSITIONAL
from mdf_scatter.names import Names
from mdf_scatter.ops import OPS
from mdf_scatter.signatures import Signature

_LONGEST_EXPRESSION = 15_000

Attach = Callable[[Node, str, str], None]
"""Gives a node the part of an id that brings a value, by the value's ONNX name."""


@dataclass(frozen=True)
class Argument:
    """What stands for one input that an operator declares.

    Attributes:
        name: Name of the argument.
        values: ONNX names of the values.
        variadic: Whether they are given as a list.
    """

    name: str
    values: tuple[str, ...]
    variadic: bool = False


def arguments(node: onnx.NodeProto, known: Signature | None) -> list[Argument]:
    """Pair what a node's operator takes with the values given for it, those that are left out left out.

    Raises:
        FormatError: The node has more inputs than its operator.
    """
    given = list(node.input)
    last = known.inputs[-1] if known is not None and known.inputs else None
    if known is None or (last is not None and last.variadic and "" in given[len(known.inputs) - 1 :]):
        # Without a schema, or where a list has holes, positions are all there is.
        return [Argument(f"{POSITIONAL}{at}", (name,)) for at, name in enumerate(given) if name]
    if len(given) > len(known.inputs) and (last is None or not last.variadic):
        raise FormatError(
            f"{node.op_type} {node.name!r} has {len(given)} inputs; expected at most {len(known.inputs)}"
        )
    found: list[Argument] = []
    for at, formal in enumerate(known.inputs):
        if formal.variadic:
            found.append(Argument(formal.name, tuple(given[at:]), variadic=True))
        elif at < len(given) and given[at]:
            found.append(Argument(formal.name, (given[at],)))
    return found


def lifted_node(
    source: onnx.NodeProto, node_id: str, known: Signature | None, *, attach: Attach, graph_id: GraphId
) -> tuple[Node, str]:
    """Return an ONNX node as an MDF node without output ports, and the id of its function.

    Args:
        source: The ONNX node.
        node_id: Id of the MDF node.
        known: What the operator takes; None where there is no schema.
        attach: See `Attach`; it is called for every input.
        graph_id: See `GraphId`.
    """
    node = Node(id=node_id)
    where = f"{source.op_type} {source.name!r}"
    given = arguments(source, known)
    ids = Names()
    args: dict[str, Any] = {}
    for argument in given:
        names = []
        for at, value in enumerate(argument.values):
            name = ids.take(safe_id(f"{argument.name}_{at}" if argument.variadic else argument.name))
            attach(node, name, value)
            names.append(name)
        args[argument.name] = _list_text(names) if argument.variadic else names[0]
    own_ids = [ids.take(safe_id(attribute.name)) for attribute in source.attribute]
    function_id = ids.take(safe_id(source.op_type.lower()))
    kinds = known.attributes if known is not None else {}
    for attribute, own_id in zip(source.attribute, own_ids, strict=True):
        if attribute.name in args:
            raise UnsupportedError(
                f"{where}: attribute {attribute.name!r} has the name of an input, which MDF cannot tell apart"
            )
        args[attribute.name] = own_id
        node.parameters.append(
            parameter(
                attribute,
                own_id,
                kinds.get(attribute.name),
                where=where,
                names=[*own_ids, *(part.id for part in node.input_ports)],
                graph_id=graph_id,
            )
        )
    kept: dict[str, Any] = {} if source.name == node_id else {"name": source.name}
    kept |= documented(source)
    props = kept.pop("metadata_props", {})
    for name in CARRIED:
        if (text := props.pop(METADATA + name, None)) is not None:
            node.parameters.append(Parameter(id=name, value=own_metadata(METADATA + name, text)))
            if name != "specified_outputs_name":
                args[name] = name
    key = METADATA + "metadata"
    user = own_metadata(key, props.pop(key, "{}"), dict)
    if props:
        kept["metadata_props"] = props
    kept |= _shape_of_call(source)
    node.metadata = (user | {"onnx": kept}) if kept else (user or None)
    node.functions.append(Function(id=function_id, function=_function_name(source), args=args))
    return node, function_id


def _shape_of_call(source: onnx.NodeProto) -> dict[str, Any]:
    """Return what arguments and ports do not tell of how a node is written."""
    kept: dict[str, Any] = {}
    if source.overload:
        kept["overload"] = source.overload
    for part in ("input", "output"):
        names = getattr(source, part)
        if names and not names[-1]:
            kept[f"{part}s"] = len(names)
    if source.device_configurations:
        kept["device_configurations"] = [
            MessageToDict(part, preserving_proto_field_name=True) for part in source.device_configurations
        ]
    return kept


def _function_name(source: onnx.NodeProto) -> str:
    if source.domain in ("", "ai.onnx"):
        return source.op_type if source.op_type in OPS else f"onnx::{source.op_type}"
    return f"{source.domain}::{source.op_type}"


def _list_text(names: list[str]) -> str | list[str]:
    text = f"[{', '.join(names)}]"
    return text if len(text) <= _LONGEST_EXPRESSION else names
