"""The others that can do the same call, each where it is installed and has the dtype."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np
import numpy.typing as npt

from mdf_scatter.bench.workloads import Inputs, Workload
from mdf_scatter.dtypes import BFLOAT16

Array = npt.NDArray[Any]
Call = Callable[[], Any]

HALVES = (np.dtype(np.float16), BFLOAT16)


def numpy_call(workload: Workload, inputs: Inputs) -> Call | None:
    """Return how one writes the call in NumPy alone."""
    reduction = workload.attributes.get("reduction", "none")
    place = _place(workload, inputs)
    data = inputs[0]
    if workload.way == "vjp":
        return _numpy_vjp(workload, inputs, place)
    if len(inputs) == 2:
        return lambda: data[place]
    updates = inputs[2]

    def scatter() -> Array:
        out = data if workload.way == "out" else data.copy()
        if reduction == "none":
            out[place] = updates
        else:
            {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}[reduction].at(
                out, place, updates
            )
        return out

    return scatter


def expected(workload: Workload, inputs: Inputs) -> Array | None:
    """Return the right answer, from NumPy, in float32 for halves; None for gradients, which tests hold."""
    if workload.way == "vjp":
        return None
    dtype = inputs[0].dtype
    is_half = dtype in HALVES and workload.attributes.get("reduction", "none") != "none"
    wide = tuple(array.astype(np.float32) if is_half and array.dtype == dtype else array for array in inputs)
    if workload.way == "out":
        wide = (wide[0].copy(), *wide[1:])
    call = numpy_call(workload, wide)
    return None if call is None else np.asarray(call()).astype(dtype)


def onnxruntime_call(workload: Workload, inputs: Inputs, threads: int) -> Call | None:
    """Return the call in a prepared onnxruntime session; None where it lacks the dtype."""
    dtype, is_reduced = inputs[0].dtype, workload.attributes.get("reduction", "none") != "none"
    if dtype.kind == "c" or (is_reduced and dtype in HALVES):
        return None  # it has no such kernel, and one that it is asked for ends the process
    if workload.way != "fresh" or find_spec("onnxruntime") is None:
        return None
    import onnx
    import onnxruntime

    names = [f"input_{number}" for number in range(len(inputs))]
    types = [onnx.helper.np_dtype_to_tensor_dtype(array.dtype) for array in inputs]
    values = [
        onnx.helper.make_tensor_value_info(name, type_, array.shape)
        for name, type_, array in zip(names, types, inputs, strict=True)
    ]
    node = onnx.helper.make_node(workload.op, names, ["output"], **workload.attributes)
    result = onnx.helper.make_tensor_value_info("output", types[0], None)
    graph = onnx.helper.make_graph([node], "graph", values, [result])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 18)], ir_version=9)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    feeds = dict(zip(names, inputs, strict=True))
    return lambda: session.run(None, feeds)[0]


def torch_call(workload: Workload, inputs: Inputs, threads: int) -> Call | None:
    """Return the call in torch; None where it is not installed or has no such operator."""
    reduction = workload.attributes.get("reduction", "none")
    is_elements = "Elements" in workload.op
    if workload.way == "vjp" or find_spec("torch") is None or (reduction not in ("none", "add")):
        return None
    torch = import_module("torch")

    torch.set_num_threads(threads)
    if any(array.dtype == BFLOAT16 for array in inputs):
        return None
    data, indices, *rest = (torch.from_numpy(array) for array in inputs)
    place = indices if is_elements else tuple(indices.unbind(-1))
    axis = workload.attributes.get("axis", 0)
    if not rest:
        return lambda: (torch.gather(data, axis, place) if is_elements else data[place]).numpy()

    def scatter() -> Array:
        out = data if workload.way == "out" else data.clone()
        if not is_elements:
            out.index_put_(place, rest[0], accumulate=reduction == "add")
        elif reduction == "add":
            out.scatter_add_(axis, place, rest[0])
        else:
            out.scatter_(axis, place, rest[0])
        result: Array = out.numpy()
        return result

    return scatter


def jax_call(workload: Workload, inputs: Inputs) -> Call | None:
    """Return the call in JAX, compiled; None where it is not installed."""
    reduction = workload.attributes.get("reduction", "none")
    if workload.way != "fresh" or find_spec("jax") is None:
        return None
    jax = import_module("jax")

    jax.config.update("jax_enable_x64", True)
    given = [jax.numpy.asarray(array) for array in inputs]
    place = tuple(map(jax.numpy.asarray, _place(workload, inputs)))
    if len(given) == 2:
        gather = jax.jit(lambda data, place: data[place])
        return lambda: np.asarray(gather(given[0], place))
    method = {"none": "set", "mul": "multiply"}.get(reduction, reduction)
    scatter = jax.jit(lambda data, place, updates: getattr(data.at[place], method)(updates))
    return lambda: np.asarray(scatter(given[0], place, given[2]))


def tensorflow_call(workload: Workload, inputs: Inputs) -> Call | None:
    """Return the call in TensorFlow; None where it is not installed or has no such operator."""
    reduction = workload.attributes.get("reduction", "none")
    if workload.way != "fresh" or "Elements" in workload.op or find_spec("tensorflow") is None:
        return None
    tensorflow = import_module("tensorflow")

    given = [tensorflow.constant(array) for array in inputs]
    functions = {
        "none": tensorflow.tensor_scatter_nd_update,
        "add": tensorflow.tensor_scatter_nd_add,
        "max": tensorflow.tensor_scatter_nd_max,
        "min": tensorflow.tensor_scatter_nd_min,
    }
    if len(given) == 2:
        return lambda: tensorflow.gather_nd(*given).numpy()
    return lambda: functions[reduction](*given).numpy() if reduction in functions else None


def _numpy_vjp(workload: Workload, inputs: Inputs, place: tuple[Array, ...]) -> Call | None:
    data = inputs[0]
    reduction = workload.attributes.get("reduction", "none")
    if len(inputs) == 2:
        grad = np.ones_like(data[place])

        def gather() -> Array:
            sums = np.zeros_like(data)
            np.add.at(sums, place, grad)
            return sums

        return gather
    grad = np.ones_like(data)
    if reduction == "add":
        return lambda: (grad.copy(), grad[place])
    return None


def _place(workload: Workload, inputs: Inputs) -> tuple[Array, ...]:
    """Return the indices as NumPy takes them."""
    indices = inputs[1]
    if "Elements" not in workload.op:
        return tuple(np.ascontiguousarray(part) for part in np.moveaxis(indices, -1, 0))
    axis = workload.attributes.get("axis", 0)
    places: list[Array] = list(np.ogrid[tuple(slice(size) for size in indices.shape)])
    places[axis] = indices
    return tuple(places)
