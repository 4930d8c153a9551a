"""Values of a run in the diagram."""

from __future__ import annotations

from xml.etree import ElementTree as ET

import ml_dtypes
import numpy as np
import pytest
from modeci_mdf.mdf import Edge, Function, Graph, InputPort, Model, Node, OutputPort

from mdf_scatter import run
from mdf_scatter.drawing.diagram import Diagram, draw
from mdf_scatter.drawing.results import summary
from mdf_scatter.errors import InputError

SVG = "{http://www.w3.org/2000/svg}"


def words(diagram: Diagram) -> list[str]:
    return [
        (text.text or "").replace("\xa0", " ").strip()
        for text in ET.fromstring(diagram.svg).iter(f"{SVG}text")
    ]


def relu(name: str, **port: object) -> Node:
    return Node(
        name,
        input_ports=[InputPort("X", **port)],
        functions=[Function("f", function="onnx::Relu", args={"X": "X"})],
        output_ports=[OutputPort("Y", value="f")],
    )


def two() -> Model:
    nodes = [relu("a", type="float32", default_value=[-1.0, 2.5]), relu("b")]
    return Model("m", graphs=[Graph("g", nodes=nodes, edges=[Edge("e", "a", "b", "Y", "X")])])


def test_what_a_run_gave_stands_at_its_output() -> None:
    diagram = draw(two(), values=run(two()))
    assert "[0.0, 2.5]" in words(diagram)
    assert "Graph output: Y float32[2] = [0.0, 2.5]." in diagram.alt
    assert "graph output Y: float32[2] = [0.0, 2.5]" in diagram.svg


def test_values_stand_at_ports_and_inputs_and_bring_their_type() -> None:
    values = {"X": np.arange(20, dtype=np.int32), "a.Y": np.array([[1.5, np.nan]]), "b.X": 3}
    shown = words(draw(two(), values=values))
    assert {"min 0, max 19", "int32[20]", "[[1.5, nan]]", "float64[1, 2]", "3"} <= set(shown)
    assert "default" not in shown


@pytest.mark.parametrize(
    ("array", "text"),
    [
        (np.array(2, np.int8), "2"),
        (np.array(True), "true"),
        (np.zeros((0, 3)), "[]"),
        (np.array(["a", 'b"'], object), '["a", "b\\""]'),
        (np.array(["a"] * 9, object), "9 strings"),
        (np.arange(12) % 3 == 0, "4 of 12 true"),
        (np.array([np.nan, 1.0, -np.inf] * 3), "min -inf, max 1, 3 NaN"),
        (np.full(9, np.nan), "9 NaN"),
        (np.arange(9, dtype=ml_dtypes.bfloat16), "min 0, max 8"),
        (np.full(9, 2**63, np.uint64), "min 9.22337e+18, max 9.22337e+18"),
        (np.array([1j] * 8 + [np.nan]), "9 numbers, 1 NaN"),
    ],
)
def test_a_value_in_a_line(array: np.ndarray, text: str) -> None:
    assert summary(array) == text


def test_a_name_that_is_not_there_is_refused() -> None:
    with pytest.raises(InputError) as caught:
        draw(two(), values={"a.y": 1})
    assert str(caught.value) == (
        "values: graph 'g' has nothing named 'a.y'; expected 'X' or 'Y', or a port as 'node.port'; "
        "did you mean 'a.Y'?"
    )


def test_a_long_list_of_names_is_cut() -> None:
    model = Model("m", graphs=[Graph("g", nodes=[relu(f"n{i}") for i in range(9)])])
    with pytest.raises(InputError, match=r"expected 'n0\.X', .* or 'n2\.Y' \(and 6 more\), or a port"):
        draw(model, values={"zzz": 1})


def test_what_is_no_array_is_refused() -> None:
    with pytest.raises(InputError, match=r"^values: 'Y' is of type dict; expected an array$"):
        draw(two(), values={"Y": {"a": 1}})
