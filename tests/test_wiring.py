"""What graph inputs are where nothing is given for them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from modeci_mdf.mdf import Graph, InputPort, Model, Node, OutputPort

import mdf_scatter
from mdf_scatter.errors import ModelError, UnsupportedError
from mdf_scatter.wiring import default_value, graph_inputs


def relay(value: Any, type_: str | None = None) -> Model:
    port = InputPort("x", default_value=value, type=type_)
    node = Node("n", input_ports=[port], output_ports=[OutputPort("y", value="x")])
    return Model("m", graphs=[Graph("g", nodes=[node])])


def default(value: Any, type_: str | None = None) -> Any:
    (item,) = graph_inputs(relay(value, type_).graphs[0])
    return default_value(item)


@pytest.mark.parametrize(
    ("value", "type_", "expected"),
    [
        ([1, 2], "float32", np.array([1, 2], np.float32)),
        ("[1, 2]", "float32", np.array([1, 2], np.float32)),
        ("1e3", None, 1000.0),
        ("words", "string", np.array("words", object)),
        (True, "bool", np.array(True)),
    ],
)
def test_defaults_have_the_types_of_their_ports(value: Any, type_: str | None, expected: Any) -> None:
    found = default(value, type_)
    assert type(found) is type(expected)
    assert np.asarray(found).dtype == np.asarray(expected).dtype
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("type_", [None, "float", "float32"])
def test_a_default_that_is_an_expression_is_evaluated_by_mdfs_engine(type_: str | None) -> None:
    with pytest.raises(UnsupportedError) as refused:
        default("2 * 3", type_)
    assert str(refused.value) == (
        "node 'n': default_value of 'x' is the expression '2 * 3', which ONNX has no form for"
    )
    model = relay("2 * 3", type_)
    model.graphs[0].nodes[0].input_ports[0].shape = (1,)
    assert mdf_scatter.run(model)["y"] == 6


def test_defaults_that_are_no_tensors() -> None:
    with pytest.raises(ModelError) as uneven:
        default([[1], [2, 3]])
    assert str(uneven.value).startswith("node 'n': default_value of 'x' cannot be read as a tensor: ")
    with pytest.raises(ModelError) as long:
        default([10**30], "int64")
    assert str(long.value).startswith("node 'n': default_value of 'x' cannot be read as a tensor of int64: ")
    assert mdf_scatter.run(relay({"a": 1}))["y"] == {"a": 1}
