"""Gradients of whole models: each in float64 against central differences along random directions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from modeci_mdf.mdf import Model

import mdf_scatter
from mdf_scatter.errors import InputError, UnsupportedError
from mdf_scatter.gradient.model import gradient_graph
from mdf_scatter.gradient.parameters import parameters_of
from mdf_scatter.gradient.prepare import prepared
from mdf_scatter.plan import Plan

Array = npt.NDArray[Any]

STEPS = (1e-6, 1e-5, 1e-4, 1e-8, 1e-9)
"""Lengths to move by, until one agrees: engines compute some operators to float32 only, and some bend."""
AWAY = 1e-3
DIRECTIONS = 3
TOLERANCE = 1e-3
FLOAT32_SCALES = ("Resize", "Upsample")
HALVES = (onnx.TensorProto.FLOAT16, onnx.TensorProto.BFLOAT16, onnx.TensorProto.FLOAT)


def outcome(proto: onnx.ModelProto, inputs: Mapping[str, Array]) -> str:
    """Say how the gradients of the sum of a model's outputs fare.

    Returns:
        "right"; or "without: ..." where the model has nothing to differentiate, or an operator has no rule;
        or what is wrong.
    """
    model = mdf_scatter.from_onnx(proto)
    try:
        gradient = mdf_scatter.grad(model)
    except InputError as error:
        return f"without: {error}"
    except UnsupportedError as error:
        return f"without: {error}"
    onnx.checker.check_model(mdf_scatter.to_onnx(gradient))
    outside = gradient.graphs[0].metadata["gradient"]["of"]
    forward = mdf_scatter.run(model, inputs)
    given = {seed: np.ones_like(forward[name]) for name, seed in outside.items() if seed is not None}
    mdf_scatter.run(gradient, {**inputs, **given})
    if not all(np.isfinite(as_wide(forward[name])).all() for name in outside):
        return "without: its outputs are not finite"
    widened = as_float64(proto)
    kept = {value.name for value in widened.graph.input if value.type.tensor_type.elem_type in HALVES}
    wide = {name: array if name in kept else as_wide(array) for name, array in inputs.items()}
    return _against_differences(mdf_scatter.from_onnx(widened), wide)


def _against_differences(model: Model, inputs: Mapping[str, Array]) -> str:
    graph = gradient_graph(model, is_fed=True)
    plan = Plan(graph.model)
    places = parameters_of(model)
    rng = np.random.default_rng(0)
    current = {
        name: _moved(
            np.asarray(inputs[name] if name in inputs else places[name][0][1].value, np.float64), rng
        )
        for name in graph.wrt
        if name in inputs or name in places
    }
    forward = mdf_scatter.run(model, inputs)
    seeds = {seed: np.ones_like(forward[name]) for name, seed in graph.of.items() if seed is not None}
    results = plan.run({**inputs, **current, **seeds})

    changed = _fed(model, list(current))

    def loss(point: Mapping[str, Array]) -> float:
        values = changed.run({**inputs, **point})
        return float(sum(values[name].sum() for name in graph.of))

    worst = 0.0
    for _ in range(DIRECTIONS):
        direction = {name: rng.standard_normal(array.shape) for name, array in current.items()}
        found = float(sum((results[graph.wrt[name]] * d).sum() for name, d in direction.items()))
        error = np.inf
        for step in STEPS:
            up, down = (
                loss(
                    {
                        name: np.asarray(array + sign * step * direction[name])
                        for name, array in current.items()
                    }
                )
                for sign in (1, -1)
            )
            expected = (up - down) / (2 * step)
            size = max(abs(expected), abs(found), 1e-6 * max(1.0, abs(up)))
            error = min(error, abs(found - expected) / size if np.isfinite(found) else np.inf)
            if error <= TOLERANCE:
                break
        worst = max(worst, error)
    return "right" if worst <= TOLERANCE else f"differs by {worst:.2g}"


def _fed(model: Model, names: list[str]) -> Plan:
    """Return the forward pass, with parameters as inputs."""
    places = parameters_of(model)
    held = [(node.id, parameter.id) for name in names for node, parameter in places.get(name, ())]
    lowered = prepared(model, held)
    given = {value.name for value in lowered.graph.inputs}
    lowered.graph.inputs.extend(lowered.graph.initializers[name] for name in names if name not in given)
    return Plan(lowered)


def _moved(array: Array, rng: np.random.Generator) -> Array:
    """Return a point near by: at zeros and ties, where exporters like to be, functions may have a kink."""
    factor, term = 1 + AWAY * rng.standard_normal(array.shape), AWAY * rng.standard_normal(array.shape)
    return np.asarray(array * factor + term)


def as_float64(proto: onnx.ModelProto) -> onnx.ModelProto:
    """Return a model whose floating-point numbers are all float64, but for what ONNX has in float32 only."""
    wide = onnx.ModelProto()
    wide.CopyFrom(proto)
    for graph in (wide.graph, *wide.functions):
        _widen(graph)
    return wide


def as_wide(array: Array) -> Array:
    """Return floating-point numbers as float64, and all else as it is."""
    is_floating = array.dtype.kind == "f" or array.dtype.name == "bfloat16"
    return np.asarray(array, np.float64) if is_floating else array


def _widen(graph: Any) -> None:
    fixed = {name for node in graph.node if node.op_type in FLOAT32_SCALES for name in node.input[1:]}
    for values in ("input", "output", "value_info"):
        for value in getattr(graph, values, ()):
            is_half = hasattr(value, "type") and value.type.tensor_type.elem_type in HALVES
            if is_half and value.name not in fixed:
                value.type.tensor_type.elem_type = onnx.TensorProto.DOUBLE
    for tensor in getattr(graph, "initializer", ()):
        if tensor.name not in fixed:
            _widen_tensor(tensor)
    for node in graph.node:
        if not fixed.intersection(node.output):
            _widen_node(node)


def _widen_node(node: onnx.NodeProto) -> None:
    for attribute in node.attribute:
        if attribute.HasField("t"):
            _widen_tensor(attribute.t)
        if attribute.HasField("g"):
            _widen(attribute.g)
        is_type = attribute.name == "to" or (attribute.name == "dtype" and attribute.HasField("i"))
        if is_type and attribute.i in HALVES:
            attribute.i = onnx.TensorProto.DOUBLE
        if node.op_type == "Constant" and attribute.name in ("value_float", "value_floats"):
            numbers = attribute.f if attribute.name == "value_float" else list(attribute.floats)
            tensor = onnx.numpy_helper.from_array(np.asarray(numbers, np.float64))
            attribute.CopyFrom(onnx.helper.make_attribute("value", tensor))
    if node.op_type == "ConstantOfShape" and not node.attribute:
        zero = onnx.numpy_helper.from_array(np.zeros(1))
        node.attribute.append(onnx.helper.make_attribute("value", zero))


def _widen_tensor(tensor: onnx.TensorProto) -> None:
    if tensor.data_type in HALVES:
        array = onnx.numpy_helper.to_array(tensor).astype(np.float64)
        tensor.CopyFrom(onnx.numpy_helper.from_array(array, tensor.name))
