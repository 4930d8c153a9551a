"""What is wrong with a model, found before it runs and without evaluating anything in it."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from modeci_mdf.mdf import Graph, Model

from mdf_scatter.checking import calls, conditions, edges, flow, form, scatter, structure, tensors, texts
from mdf_scatter.checking.finding import Finding
from mdf_scatter.checking.scope import scopes
from mdf_scatter.errors import ModelError
from mdf_scatter.wiring import incoming, onnx_metadata, require_model

__all__ = ["Finding", "check", "refuse"]

_SHOWN = 3


def check(model: Model, *, trust: bool = False) -> list[Finding]:
    """Return what is wrong or doubtful in a model, in the order of its parts.

    A part that is not in MDF's form is all that is reported, the rest being read only where the form is
    right. Nothing in the model is evaluated, and no model makes this raise. It takes time in proportion to
    the model's size.

    Args:
        model: The model.
        trust: Whether texts in it may be any Python; they are not looked at then.

    Raises:
        ModelError: What is given is no model.

    >>> check(Model("empty"))
    [Finding(level='error', where='empty', message='the model has no graph; expected one')]
    """
    require_model(model)
    findings = list(form.check_form(model))
    if findings:
        return findings
    findings += structure.check_model(model)
    own = _own_functions(model)
    for graph in model.graphs:
        findings += _check_graph(graph, own, trust=trust)
    return findings


def refuse(model: Model, *, trust: bool = False) -> None:
    """Refuse a model that `check` finds an error in.

    Args:
        model: The model.
        trust: See `check`.

    Raises:
        ModelError: The model has errors; the first ones are in the message.
    """
    errors = [finding for finding in check(model, trust=trust) if finding.level == "error"]
    if not errors:
        return
    shown = "; ".join(f"{finding.where}: {finding.message}" for finding in errors[:_SHOWN])
    more = f"; and {len(errors) - _SHOWN} more" if len(errors) > _SHOWN else ""
    raise ModelError(f"model {model.id!r} has {len(errors)} error{'s' * (len(errors) != 1)}: {shown}{more}")


def _own_functions(model: Model) -> set[str]:
    functions = [onnx_metadata(graph).get("function") for graph in model.graphs]
    return {f"{said.get('domain')}::{said.get('name')}" for said in functions if isinstance(said, dict)}


def _check_graph(graph: Graph, own: Collection[str], *, trust: bool) -> Iterator[Finding]:
    nodes = scopes(graph)
    by_id = {scope.node.id: scope for scope in nodes}
    feeding = incoming(graph)
    flowing = flow.text_names(graph, by_id)
    yield from structure.check_graph(graph)
    for scope in nodes:
        yield from structure.check_node(scope)
        yield from calls.check_calls(scope, own)
        if not trust:
            text_names = flowing.get(scope.node.id, set())
            yield from texts.check_texts(scope, text_names)
            yield from texts.check_joined(scope, text_names, feeding)
        yield from calls.check_order(scope)
        yield from tensors.check_values(scope)
        yield from scatter.check_operators(scope, by_id, feeding)
    yield from edges.check_edges(graph, by_id)
    yield from edges.check_circles(graph, by_id)
    yield from tensors.check_edge_types(graph, by_id)
    yield from conditions.check_conditions(graph, by_id)
