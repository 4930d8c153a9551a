"""What the tests of all operators share: loops that judge results, cases, and ONNX's own examples."""

from __future__ import annotations

import importlib
from collections.abc import Callable

import numpy as np
import pytest
from samples import same

from mdf_scatter.dtypes import is_string
from mdf_scatter.errors import OperatorError
from mdf_scatter.kernels import reference
from mdf_scatter.ops import OPS
from mdf_scatter.ops.gather_elements import gather_elements
from mdf_scatter.ops.gather_nd import gather_nd
from mdf_scatter.ops.paddle_scatter_nd_add import paddle_scatter_nd_add
from mdf_scatter.ops.scatter_elements import scatter_elements
from mdf_scatter.ops.scatter_nd import scatter_nd
from mdf_scatter.ops.tensor_scatter import tensor_scatter
from mdf_scatter.ops.tf_scatter_nd import tf_scatter_nd

FUNCTIONS = {
    "ScatterND": scatter_nd,
    "ScatterElements": scatter_elements,
    "GatherND": gather_nd,
    "GatherElements": gather_elements,
    "TensorScatter": tensor_scatter,
    "tf::scatter_nd": tf_scatter_nd,
    "paddle::scatter_nd_add": paddle_scatter_nd_add,
}
"""The public function of each operator."""


def problem(name, *arguments, **keywords):
    """Return the whole message of the error that a call of an operator's function raises."""
    with pytest.raises(OperatorError) as caught:
        FUNCTIONS[name](*arguments, **keywords)
    error = caught.value
    assert (error.op, error.node) == (name, None)
    assert "\n" not in str(error)
    return str(error)


def cases_of(*names):
    """Return every case of some operators, with its operator's name, as pytest parameters."""
    return [pytest.param(name, case, id=f"{name}: {case.name}") for name in names for case in OPS[name].cases]


def check_case(name, case):
    assert (case.expected is None) != (case.error is None)
    if case.error is not None:
        assert problem(name, *case.inputs, **case.attributes) == case.error
    else:
        for function in (OPS[name].forward, FUNCTIONS[name]):
            assert same(function(*case.inputs, **case.attributes), case.expected)
        assert same(LOOPS[name](*map(np.asarray, case.inputs), **case.attributes), case.expected)


def node_cases(name, module):
    """Return ONNX's own examples of an operator, as pytest parameters (inputs, attributes, output)."""
    from onnx import helper

    importlib.import_module(f"onnx.backend.test.case.node.{module}")
    found = importlib.import_module("onnx.backend.test.case.node")._NodeTestCases
    parameters = {}
    for example in found:
        nodes = example.model.graph.node
        if len(nodes) == 1 and nodes[0].op_type == name:
            attributes = {a.name: helper.get_attribute_value(a) for a in nodes[0].attribute}
            attributes = {key: v.decode() if isinstance(v, bytes) else v for key, v in attributes.items()}
            inputs, outputs = example.data_sets[0]
            parameters[example.name] = pytest.param(inputs, attributes, outputs[0], id=example.name)
    return list(parameters.values())


# --- loops -------------------------------------------------------------------------------------


def loop_gather_nd(data, indices, batch_dims=0):
    result = np.empty(indices.shape[:-1] + data.shape[batch_dims + indices.shape[-1] :], data.dtype)
    for position in np.ndindex(indices.shape[:-1]):
        result[position] = data[(*position[:batch_dims], *(int(number) for number in indices[position]))]
    return result


def loop_gather_elements(data, indices, axis=0):
    result = np.empty(indices.shape, data.dtype)
    for position in np.ndindex(indices.shape):
        result[position] = data[_moved(position, axis, indices)]
    return result


def loop_scatter_elements(data, indices, updates, axis=0, reduction="none"):
    places = [_moved(position, axis, indices) for position in np.ndindex(indices.shape)]
    places = np.array(places, np.int64).reshape(indices.size, data.ndim)
    return reference.scatter_nd(data, places, updates.reshape(-1), reduction)


def loop_tensor_scatter(past_cache, update, write_indices=None, axis=-2, mode="linear"):
    result = past_cache.astype(object) if is_string(past_cache.dtype) else past_cache.copy()
    axis %= past_cache.ndim
    for position in np.ndindex(update.shape):
        start = 0 if write_indices is None else int(write_indices[position[0]])
        place = start + position[axis]
        if mode == "circular":
            place %= past_cache.shape[axis]
        result[(*position[:axis], place, *position[axis + 1 :])] = update[position]
    return result


def loop_tf_scatter_nd(indices, updates, shape):
    zeros = np.full(shape, "" if is_string(updates.dtype) else 0, updates.dtype)
    return reference.scatter_nd(zeros, indices, updates, "add")


def loop_paddle_scatter_nd_add(ref, index, updates):
    return reference.scatter_nd(ref, index, updates, "add")


def _moved(position, axis, indices):
    place = list(position)
    place[axis] = int(indices[position])
    return tuple(place)


LOOPS: dict[str, Callable[..., np.ndarray]] = {
    "ScatterND": reference.scatter_nd,
    "ScatterElements": loop_scatter_elements,
    "GatherND": loop_gather_nd,
    "GatherElements": loop_gather_elements,
    "TensorScatter": loop_tensor_scatter,
    "tf::scatter_nd": loop_tf_scatter_nd,
    "paddle::scatter_nd_add": loop_paddle_scatter_nd_add,
}
