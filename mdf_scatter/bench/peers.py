"""The others that can do the same call, each where it is installed and has the dtype."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx

from mdf_scatter.bench.workloads import Inputs, Workload
from mdf_scatter.dtypes import BFLOAT16, HALVES
from mdf_scatter.ops import OPS
from mdf_scatter.segment import session_of

Array = npt.NDArray[Any]
Call = Callable[[], Any]

_UFUNCS = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}


def numpy_call(workload: Workload, inputs: Inputs) -> Call:
    """Return how one writes the call in NumPy alone."""
    reduction = workload.attributes.get("reduction", "none")
    place = _place(workload, inputs)
    data = inputs[0]
    if workload.way == "vjp":
        return _numpy_vjp(workload, inputs, place)
    if len(inputs) == 2:
        return lambda: data[place]
    updates = _updates(workload, inputs)

    def scatter() -> Array:
        out = data if workload.way == "out" else data.copy()
        if reduction == "none":
            out[place] = updates
        else:
            _UFUNCS[reduction].at(out, place, updates)
        return out

    return scatter


def expected(workload: Workload, inputs: Inputs) -> Any:
    """Return the right answer, from NumPy, in float32 for halves; for "vjp" a tuple of gradients."""
    dtype = inputs[0].dtype
    is_half = dtype in HALVES and workload.attributes.get("reduction", "none") != "none"
    wide = tuple(array.astype(np.float32) if is_half and array.dtype == dtype else array for array in inputs)
    if workload.way == "out":
        wide = (wide[0].copy(), *wide[1:])
    answer = numpy_call(workload, wide)()
    return answer if isinstance(answer, tuple) else np.asarray(answer).astype(dtype, copy=False)


def grad_of(workload: Workload, inputs: Inputs) -> Array:
    """Return a gradient of the output of a call."""
    like = inputs[0][_place(workload, inputs)] if len(inputs) == 2 else inputs[0]
    return np.linspace(-1, 1, like.size, dtype=like.dtype).reshape(like.shape)


def onnxruntime_call(workload: Workload, inputs: Inputs, threads: int) -> Call | None:
    """Return the call in a prepared onnxruntime session; None where it lacks the dtype."""
    dtype, is_reduced = inputs[0].dtype, workload.attributes.get("reduction", "none") != "none"
    if dtype.kind == "c" or (is_reduced and dtype in HALVES):
        return None  # it has no such kernel, and one that it is asked for ends the process
    if workload.way != "fresh":
        return None
    names = [f"input_{number}" for number in range(len(inputs))]
    types = [onnx.helper.np_dtype_to_tensor_dtype(array.dtype) for array in inputs]
    values = [
        onnx.helper.make_tensor_value_info(name, type_, array.shape)
        for name, type_, array in zip(names, types, inputs, strict=True)
    ]
    node = onnx.helper.make_node(workload.op, names, ["output"], **workload.attributes)
    result = onnx.helper.make_tensor_value_info("output", types[0], None)
    graph = onnx.helper.make_graph([node], "graph", values, [result])
    opset = onnx.helper.make_opsetid("", max(18, *OPS[workload.op].versions))
    session = session_of(onnx.helper.make_model(graph, opset_imports=[opset], ir_version=10), threads)
    if session is None:
        return None
    feeds = dict(zip(names, inputs, strict=True))
    return lambda: session.run(None, feeds)[0]


def torch_call(workload: Workload, inputs: Inputs, threads: int) -> Call | None:
    """Return the call in torch; None where it is not installed or has no such operator."""
    reduction = workload.attributes.get("reduction", "none")
    is_elements = "Elements" in workload.op
    if workload.way == "vjp" or find_spec("torch") is None or reduction not in ("none", "add"):
        return None
    if workload.op == "TensorScatter":
        return None
    torch = import_module("torch")

    torch.set_num_threads(threads)
    dtype = inputs[0].dtype

    def tensor(array: Array) -> Any:
        if array.dtype != BFLOAT16:
            return torch.from_numpy(array)
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)

    def array(result: Any) -> Array:
        found: Array = (result if dtype != BFLOAT16 else result.view(torch.int16)).numpy()
        return found.view(dtype)

    data, indices, *rest = map(tensor, inputs)
    place = indices if is_elements else tuple(indices.unbind(-1))
    axis = workload.attributes.get("axis", 0)
    if not rest:
        return lambda: array(torch.gather(data, axis, place) if is_elements else data[place])

    def scatter() -> Array:
        out = data if workload.way == "out" else data.clone()
        if not is_elements:
            out.index_put_(place, rest[0], accumulate=reduction == "add")
        elif reduction == "add":
            out.scatter_add_(axis, place, rest[0])
        else:
            out.scatter_(axis, place, rest[0])
        return array(out)

    return scatter


def jax_call(workload: Workload, inputs: Inputs) -> Call | None:
    """Return the call in JAX, compiled; None where it is not installed."""
    reduction = workload.attributes.get("reduction", "none")
    if workload.way != "fresh" or workload.op == "TensorScatter" or find_spec("jax") is None:
        return None
    if reduction != "none" and inputs[0].dtype == np.bool:
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
    if workload.way != "fresh" or workload.op not in ("ScatterND", "GatherND"):
        return None
    is_lacking = reduction == "mul" or (reduction != "none" and inputs[0].dtype == np.bool)
    if is_lacking or find_spec("tensorflow") is None:
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
    return lambda: functions[reduction](*given).numpy()


def _numpy_vjp(workload: Workload, inputs: Inputs, place: tuple[Array, ...]) -> Call:
    data, grad = inputs[0], grad_of(workload, inputs)
    reduction = workload.attributes.get("reduction", "none")
    if len(inputs) == 2:

        def gather() -> tuple[Array, ...]:
            sums = np.zeros_like(data)
            np.add.at(sums, place, grad)
            return (sums,)

        return gather
    updates = _updates(workload, inputs)

    def replaced() -> tuple[Array, ...]:
        left = grad.copy()
        left[place] = 0
        return left, grad[place]

    def multiplied() -> tuple[Array, ...]:
        factors = np.ones_like(data)
        np.multiply.at(factors, place, updates)
        return grad * factors, (grad * data * factors)[place] / updates

    return {"none": replaced, "add": lambda: (grad.copy(), grad[place]), "mul": multiplied}[reduction]


def _updates(workload: Workload, inputs: Inputs) -> Array:
    return inputs[1] if workload.op == "TensorScatter" else inputs[2]


def _place(workload: Workload, inputs: Inputs) -> tuple[Array, ...]:
    """Return the indices as NumPy takes them."""
    if workload.op == "TensorScatter":
        _, update, starts = inputs
        batch, heads, length, width = np.ogrid[tuple(slice(size) for size in update.shape)]
        return batch, heads, length + starts.reshape(-1, 1, 1, 1), width
    indices = inputs[1]
    if "Elements" not in workload.op:
        return tuple(np.ascontiguousarray(part) for part in np.moveaxis(indices, -1, 0))
    axis = workload.attributes.get("axis", 0)
    places: list[Array] = list(np.ogrid[tuple(slice(size) for size in indices.shape)])
    places[axis] = indices
    return tuple(places)
