"""Gradient graphs held against central differences, in our engine and in onnxruntime."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime
from modeci_mdf.mdf import Model

import mdf_scatter
from mdf_scatter import Runner, from_onnx, grad, to_onnx

Array = npt.NDArray[Any]

STEP = 1e-6
WHOLE = 40
"""Elements up to which each is moved by itself; more are moved together, in random directions."""

DIRECTIONS = 4


def node_model(
    op_type: str,
    inputs: Sequence[Array | None],
    attributes: Mapping[str, Any] | None = None,
    *,
    outputs: int | Sequence[str] = 1,
    constant: Collection[int] = (),
    opset: int = 18,
    symbolic: bool = False,
) -> tuple[Model, dict[str, Array]]:
    """Return a model of one ONNX node, and its inputs, `x0`, `x1`, ...

    Args:
        op_type: The operator.
        inputs: What it is given; None for an input that is left out.
        attributes: Its attributes.
        outputs: How many outputs it has, `y0`, `y1`, ..., or their names; an empty one is left out.
        constant: Positions of inputs that are initializers.
        opset: The operator set.
        symbolic: Whether the inputs' sizes are left open, each by a name of its own.
    """
    names = [f"x{at}" if array is not None else "" for at, array in enumerate(inputs)]
    results = [f"y{at}" for at in range(outputs)] if isinstance(outputs, int) else list(outputs)
    given = {name: np.asarray(array) for name, array in zip(names, inputs, strict=True) if array is not None}
    fixed = {names[at] for at in constant}
    node = onnx.helper.make_node(op_type, names, results, name=op_type.lower(), **(attributes or {}))
    free = {name: array for name, array in given.items() if name not in fixed}
    graph = onnx.helper.make_graph(
        [node],
        "graph",
        [_info(name, array, symbolic) for name, array in free.items()],
        [onnx.ValueInfoProto(name=name) for name in results if name],
        initializer=[onnx.numpy_helper.from_array(given[name], name) for name in sorted(fixed)],
    )
    proto = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", opset)], ir_version=10)
    proto = onnx.shape_inference.infer_shapes(proto)
    return from_onnx(proto), free


def check_node(
    op_type: str,
    inputs: Sequence[Array | None],
    attributes: Mapping[str, Any] | None = None,
    *,
    wrt: Collection[str] | None = None,
    rtol: float = 1e-5,
    atol: float = 1e-7,
    **options: Any,
) -> dict[str, Array]:
    """Hold the rule of an operator against central differences; see `node_model` and `check_model`."""
    model, free = node_model(op_type, inputs, attributes, **options)
    return check_model(model, free, wrt=wrt, rtol=rtol, atol=atol)


def check_model(
    model: Model,
    inputs: Mapping[str, Array],
    *,
    wrt: Collection[str] | None = None,
    rtol: float = 1e-5,
    atol: float = 1e-7,
    seed: int = 0,
) -> dict[str, Array]:
    """Hold a model's gradients with respect to its inputs against central differences.

    The gradient graph runs in our engine and, where that has the operators for the dtypes, in onnxruntime on
    one thread; `to_onnx` gives it ONNX's full check. The forward outputs have to be those of the model.

    Args:
        model: Its outputs are floating, or not differentiated.
        inputs: A value for each input; those to be differentiated are float64.
        wrt: Which inputs; all of float64, if left out.
        rtol: Relative tolerance.
        atol: Absolute tolerance.
        seed: Of the gradients from outside.

    Returns:
        The gradients, by the name of the input.
    """
    rng = np.random.default_rng(seed)
    names = list(wrt) if wrt is not None else [n for n, a in inputs.items() if a.dtype == np.float64]
    forward = Runner(model)
    outputs = forward(inputs)
    losses = [name for name, array in outputs.items() if array.dtype == np.float64]
    backward = grad(model, of=losses, wrt=names)
    said = backward.graphs[0].metadata["gradient"]
    coming = {name: rng.standard_normal(outputs[name].shape) for name in losses}
    given = {said["of"][name]: array for name, array in coming.items() if said["of"][name] is not None}
    coming |= {name: np.ones(()) for name in losses if said["of"][name] is None}
    feed = {**inputs, **given}
    results = mdf_scatter.run(backward, feed)
    for name, array in outputs.items():
        np.testing.assert_array_equal(results[name], array, err_msg=f"forward output {name!r}")
    gradients = {name: results[said["wrt"][name]] for name in names}

    def loss(changed: Mapping[str, Array]) -> float:
        values = forward({**inputs, **changed})
        return float(sum((values[name] * coming[name]).sum() for name in losses))

    for name in names:
        assert gradients[name].dtype == inputs[name].dtype
        assert gradients[name].shape == inputs[name].shape
        _check_against_differences(loss, name, inputs[name], gradients[name], rtol, atol, rng)
    _check_in_onnxruntime(backward, feed, {said["wrt"][name]: gradients[name] for name in names})
    return gradients


def _check_against_differences(
    loss: Callable[[Mapping[str, Array]], float],
    name: str,
    value: Array,
    gradient: Array,
    rtol: float,
    atol: float,
    rng: np.random.Generator,
) -> None:
    if value.size <= WHOLE:
        directions = np.eye(value.size).reshape(value.size, *value.shape)
    else:
        directions = rng.standard_normal((DIRECTIONS, *value.shape))
    expected = [
        (loss({name: value + STEP * d}) - loss({name: value - STEP * d})) / (2 * STEP) for d in directions
    ]
    found = [float((gradient * d).sum()) for d in directions]
    scale = max(1.0, float(np.abs(expected).max(initial=0)))
    np.testing.assert_allclose(found, expected, rtol=rtol, atol=max(atol, rtol) * scale, err_msg=name)


def _check_in_onnxruntime(model: Model, feed: Mapping[str, Array], expected: Mapping[str, Array]) -> None:
    session = onnxruntime_session(_needed(to_onnx(model), expected))
    if session is None:
        return
    wanted = {value.name for value in session.get_inputs()}
    given = {name: np.asarray(a) for name, a in feed.items() if name in wanted}
    try:
        found = session.run(list(expected), given)
    except Exception as error:  # it has a kernel of GRU and LSTM, which refuses when it runs
        if "does not support double yet" in str(error):
            return
        raise
    for (name, array), result in zip(expected.items(), found, strict=True):
        np.testing.assert_allclose(result, array, rtol=1e-9, atol=1e-12, err_msg=f"{name} in onnxruntime")


def _needed(proto: onnx.ModelProto, outputs: Collection[str]) -> onnx.ModelProto:
    """Return what outputs need: onnxruntime may lack the dtype of an operator that only others need."""
    kept = onnx.ModelProto()
    kept.CopyFrom(proto)
    del kept.graph.output[:], kept.graph.node[:]
    kept.graph.output.extend(value for value in proto.graph.output if value.name in outputs)
    read = set(outputs)
    nodes = []
    for node in reversed(proto.graph.node):
        if read.intersection(node.output):
            nodes.append(node)
            read |= _names_read(node)
    kept.graph.node.extend(reversed(nodes))
    return kept


def _names_read(node: onnx.NodeProto) -> set[str]:
    graphs = [attribute.g for attribute in node.attribute if attribute.HasField("g")]
    inside = {name for graph in graphs for inner in graph.node for name in _names_read(inner)}
    return {*node.input, *inside, *(value.name for graph in graphs for value in graph.output)}


def onnxruntime_session(proto: onnx.ModelProto) -> Any:
    """Return a session on one thread; None where onnxruntime lacks a kernel for an operator and dtype."""
    from onnxruntime.capi import onnxruntime_pybind11_state as refusals

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    try:
        return onnxruntime.InferenceSession(
            proto.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
    except (refusals.NotImplemented, refusals.Fail) as error:
        if isinstance(error, refusals.Fail) and "layout == 1) are not supported" not in str(error):
            raise
        return None


def _info(name: str, array: Array, symbolic: bool) -> onnx.ValueInfoProto:
    shape = [f"{name}_{axis}" for axis in range(array.ndim)] if symbolic else list(array.shape)
    kind = onnx.helper.np_dtype_to_tensor_dtype(array.dtype)
    return onnx.helper.make_tensor_value_info(name, kind, shape)


def gradients_in_float32(
    op_type: str,
    inputs: Sequence[Array | None],
    attributes: Mapping[str, Any] | None = None,
    *,
    seed: int = 0,
    **options: Any,
) -> dict[str, Array]:
    """Return the gradients of an operator in float32 as onnxruntime computes them.

    Its inputs of float64 are cast; what comes from outside is what `check_node` sends. See `node_model`.
    """
    cast = [a.astype(np.float32) if a is not None and a.dtype == np.float64 else a for a in inputs]
    model, free = node_model(op_type, cast, attributes, **options)
    outputs = Runner(model)(free)
    backward = grad(model, of=[name for name, array in outputs.items() if array.dtype == np.float32])
    said = backward.graphs[0].metadata["gradient"]
    rng = np.random.default_rng(seed)
    coming = {port: rng.standard_normal(outputs[name].shape) for name, port in said["of"].items()}
    feed = free | {port: np.float32(array) for port, array in coming.items() if port is not None}
    session = onnxruntime_session(to_onnx(backward))
    assert session is not None
    wanted = {value.name for value in session.get_inputs()}
    found = session.run(list(said["wrt"].values()), {n: a for n, a in feed.items() if n in wanted})
    return dict(zip(said["wrt"], found, strict=True))
