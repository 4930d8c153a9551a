"""Scatters in place: a graph gives what its operators give one by one, and changes nothing it was lent."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnx_ir as ir
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from modeci_mdf.mdf import Function, InputPort, Model, Node, OutputPort, Parameter
from models import FLOAT, INT64, chain, onnx_model
from onnx import helper, numpy_helper

from mdf_scatter import OPS, Runner, tensor_scatter
from mdf_scatter.buffers import Values
from mdf_scatter.errors import OperatorError
from mdf_scatter.kernels import large, machine
from mdf_scatter.own_steps import SMALL, Operator
from mdf_scatter.plan import Plan
from mdf_scatter.segment import Segment

Array = npt.NDArray[Any]

HEIGHT, WIDTH = 80, 64
assert HEIGHT * WIDTH > SMALL, "smaller arrays are not worth it"

INDICES = {
    "rows": np.array([[3], [-1], [3]]),
    "cells": np.stack([np.arange(20) % 7, np.arange(20) * 3], axis=1),
    "columns": np.arange(HEIGHT * 5).reshape(HEIGHT, 5) % WIDTH,
    "starts": np.arange(HEIGHT) % WIDTH,
    "places": np.tile(np.arange(5), (WIDTH, 1)).T % HEIGHT,
}

OTHERS: dict[str, Callable[..., Array]] = {
    "Identity": lambda x: x,
    "Neg": np.negative,
    "Add": np.add,
    "Transpose": lambda x: x.T,
    "Reshape": lambda x: x.reshape(HEIGHT, WIDTH),
}


class Calls:
    """A graph that is being written, and what its operators give one by one, each from copies."""

    def __init__(self, starts: dict[str, Array], constants: dict[str, Array]) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.starts, self.constants = starts, INDICES | constants | {"shape": np.array([HEIGHT, WIDTH])}
        self.right = self.starts | self.constants
        self.arrays = [*starts, *constants]

    def call(self, op_type: str, *names: str, **attributes: Any) -> str:
        output = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(op_type, names, [output], name=output, **attributes))
        inputs = [self.right[name].copy() for name in names if name != "shape"]
        function = OPS[op_type].forward if op_type in OPS else OTHERS[op_type]
        self.right[output] = np.ascontiguousarray(function(*inputs, **attributes))
        if self.right[output].shape == (HEIGHT, WIDTH):
            self.arrays.append(output)
        return output

    def plan(self, outputs: list[str]) -> Plan:
        def info(name: str) -> onnx.ValueInfoProto:
            array = self.right[name]
            return helper.make_tensor_value_info(
                name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape
            )

        graph = helper.make_graph(
            self.nodes,
            "g",
            [info(name) for name in self.starts],
            [info(name) for name in outputs],
            [numpy_helper.from_array(array, name) for name, array in self.constants.items()],
            value_info=[info(node.output[0]) for node in self.nodes if node.output[0] not in outputs],
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 24)], ir_version=11)
        return Plan(ir.serde.deserialize_model(model))


@st.composite
def random_calls(draw: st.DrawFn) -> tuple[Calls, list[str]]:
    dtype = draw(st.sampled_from([np.float32, np.complex64]))  # onnxruntime has no operator on the second
    values = np.arange(HEIGHT * WIDTH, dtype=dtype).reshape(HEIGHT, WIDTH)
    calls = Calls({"x": values, "y": -values}, {"c": values / 3})
    for _ in range(draw(st.integers(1, 12))):
        data = draw(st.sampled_from(calls.arrays))
        other = draw(st.sampled_from(calls.arrays))
        kind = draw(st.sampled_from(["scatter", "scatter", "elements", "stretch", "gather", *OTHERS]))
        reduction = draw(st.sampled_from(["none", "add"]))
        if kind == "scatter":
            where = draw(st.sampled_from(["rows", "cells"]))
            terms = calls.call("GatherND", other, where)
            calls.call("ScatterND", data, where, terms, reduction=reduction)
        elif kind == "elements":
            terms = calls.call("GatherElements", other, "places")
            calls.call("ScatterElements", data, "places", terms, reduction=reduction)
        elif kind == "stretch":
            terms = calls.call("GatherElements", other, "columns", axis=1)
            calls.call("TensorScatter", data, terms, "starts", axis=1, mode="circular")
        elif kind == "gather":
            calls.call("GatherND", data, "cells")
        elif kind == "Add":
            calls.call("Add", data, other)
        elif kind == "Transpose":
            calls.call("Transpose", calls.call("Transpose", data))
        elif kind == "Reshape":
            calls.call("Reshape", data, "shape")
        else:
            calls.call(kind, data)
    names = [name for name in calls.right if name.startswith("v")]
    return calls, draw(st.lists(st.sampled_from(names), min_size=1, max_size=4, unique=True))


def same(results: dict[str, Any], right: dict[str, Array]) -> None:
    for name, array in results.items():
        assert array.dtype == right[name].dtype
        assert array.shape == right[name].shape
        assert array.tobytes() == right[name].tobytes(), name


@settings(max_examples=100, deadline=None)
@given(random_calls())
def test_random_graphs_give_what_their_operators_give_one_by_one(case: tuple[Calls, list[str]]) -> None:
    calls, outputs = case
    plan = calls.plan(outputs)
    inputs = {name: array.copy() for name, array in calls.starts.items()}
    first = plan.run(inputs)
    same(first, calls.right)
    same(inputs, calls.right)
    same(plan._constants, calls.right)
    memory = [*first.values(), *inputs.values(), *plan._constants.values()]
    for place, array in enumerate(first.values()):
        assert not any(np.shares_memory(array, other) for other in memory[place + 1 :])
    before = {name: array.copy() for name, array in first.items()}
    same(plan.run({name: array.copy() for name, array in inputs.items()}), calls.right)
    same(first, before)
    # What a run is given to keep it may overwrite; what comes of it is the same.
    kept = {name: array.copy() for name, array in inputs.items()}
    same(plan.values(kept, kept=["x"]).take(outputs), calls.right)
    same({"y": kept["y"]}, calls.right)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(large, "LARGE", 1)
        same(plan.run(inputs), calls.right)


@settings(max_examples=40, deadline=None)
@given(random_calls())
def test_a_run_that_fails_leaves_what_it_keeps_as_it_was(case: tuple[Calls, list[str]]) -> None:
    calls, outputs = case
    last = [name for name in calls.right if name.startswith("v")][-1]
    rank = calls.right[last].ndim
    calls.nodes.append(helper.make_node("GatherND", [last, "far"], ["v"], name="late"))
    calls.constants["far"] = np.full((1, rank), 10**6)
    calls.right["v"] = np.zeros(1, calls.right[last].dtype)
    plan = calls.plan([*outputs, "v"])
    kept = {name: array.copy() for name, array in calls.starts.items()}
    for size in (large.LARGE, 1):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(large, "LARGE", size)
            with pytest.raises(OperatorError, match="GatherND 'late': indices"):
                plan.values(kept, kept=["x", "y"])
        same(kept, calls.right)


def in_place(plan: Plan) -> list[str]:
    steps = [getattr(step, "scatter", step) for step in plan._steps]
    return [step.writes[0] for step in steps if getattr(step, "is_in_place", False)]


def start() -> Calls:
    values = np.arange(HEIGHT * WIDTH, dtype=np.float32).reshape(HEIGHT, WIDTH)
    return Calls({"x": values}, {"u": np.ones((3, WIDTH), np.float32)})


def test_a_chain_of_scatters_is_copied_once() -> None:
    calls = start()
    made = calls.call("Neg", "x")
    made = calls.call("ScatterND", made, "rows", "u", reduction="add")
    made = calls.call("Identity", made)
    made = calls.call("ScatterND", made, "rows", "u", reduction="add")
    plan = calls.plan([made])
    assert in_place(plan) == ["v1", "v3"]
    same(plan.run(calls.starts), calls.right)


def test_a_scatter_waits_for_the_others_that_read_its_data() -> None:
    calls = start()
    changed = calls.call("ScatterND", "x", "rows", "u")
    read = calls.call("GatherND", "x", "cells")
    plan = calls.plan([changed, read])
    assert in_place(plan) == [changed]
    kept = {"x": calls.starts["x"].copy()}
    values = plan.values(kept, kept=["x"])
    assert values[changed] is kept["x"]
    same(values.take([changed, read]), calls.right)


def test_what_is_wanted_or_read_later_or_twice_is_not_overwritten() -> None:
    calls = start()
    first = calls.call("ScatterND", "x", "rows", "u")
    second = calls.call("ScatterND", first, "rows", "u", reduction="add")
    assert in_place(calls.plan([second])) == [first, second]
    assert in_place(calls.plan([first, second])) == [first]
    calls.call("Add", first, second)
    assert in_place(calls.plan([second])) == [first]
    calls = start()
    calls.constants["turns"] = calls.right["turns"] = np.array([[2], [1], [0]])
    calls.call("ScatterElements", "turns", "turns", "turns")
    assert in_place(calls.plan(["v0"])) == []


def test_views_that_the_reference_evaluator_gives_are_not_overwritten() -> None:
    calls = Calls({"x": np.ones((HEIGHT, WIDTH), np.complex64)}, {"u": np.ones((3, WIDTH), np.complex64)})
    first = calls.call("ScatterND", "x", "rows", "u", reduction="add")
    turned = calls.call("Transpose", first)
    second = calls.call("ScatterND", first, "rows", "u", reduction="add")
    same(calls.plan([turned, second]).run(calls.starts), calls.right)


def test_what_onnxruntime_gives_is_in_memory_of_its_own() -> None:
    def body(name: str, source: str) -> onnx.GraphProto:
        node = helper.make_node("Identity", [source], [name])
        return helper.make_graph([node], name, [], [helper.make_tensor_value_info(name, FLOAT, [4])])

    loop = helper.make_graph(
        [helper.make_node("Identity", ["going"], ["on"]), helper.make_node("Identity", ["old"], ["new"])],
        "loop",
        [
            helper.make_tensor_value_info("at", INT64, []),
            helper.make_tensor_value_info("going", onnx.TensorProto.BOOL, []),
            helper.make_tensor_value_info("old", FLOAT, [4]),
        ],
        [
            helper.make_tensor_value_info("on", onnx.TensorProto.BOOL, []),
            helper.make_tensor_value_info("new", FLOAT, [4]),
        ],
    )
    nodes = [
        helper.make_node("If", ["yes"], ["if"], then_branch=body("t", "c"), else_branch=body("e", "x")),
        helper.make_node("If", ["no"], ["else"], then_branch=body("t", "c"), else_branch=body("e", "x")),
        helper.make_node("Loop", ["zero", "", "x"], ["loop"], body=loop),
        helper.make_node("SequenceConstruct", ["x", "c"], ["sequence"]),
        helper.make_node("SequenceAt", ["sequence", "zero"], ["item"]),
        helper.make_node("Optional", ["x"], ["optional"]),
        helper.make_node("OptionalGetElement", ["optional"], ["element"]),
        helper.make_node("Reshape", ["x", "shape"], ["square"]),
        helper.make_node("Flatten", ["square"], ["flat"], axis=2),
        helper.make_node("Split", ["c"], ["whole"], num_outputs=1),
        *(helper.make_node("Identity", [name], [f"{name}2"]) for name in ("x", "c", "flat")),
        *(helper.make_node(op_type, ["x"], [op_type]) for op_type in ("Dropout", "Sum", "Max")),
    ]
    outputs = [node.output[0] for node in nodes if node.output[0] not in ("sequence", "optional")]
    constants = {"c": np.arange(4, dtype=np.float32), "yes": np.array(True), "no": np.array(False)}
    constants |= {"zero": np.array(0), "shape": np.array([2, 2])}
    shapes = {"square": [2, 2], "flat": [4, 1], "flat2": [4, 1]}
    proto = onnx_model(
        nodes, {"x": (FLOAT, [4])}, {name: (FLOAT, shapes.get(name, [4])) for name in outputs}, constants
    )
    segment = Segment(proto)
    x = np.full(4, 5, np.float32)
    values = Values({"x": x})
    segment.run(values)
    assert all(map(values.is_own, outputs)), "onnxruntime ran it"
    before = {name: values[name].copy() for name in outputs}
    for place, name in enumerate(outputs):
        assert not any(np.shares_memory(values[name], values[other]) for other in ["x", *outputs[:place]])
        values[name][...] = 77
    assert (x == 5).all()
    again = Values({"x": x})
    segment.run(again)
    same({name: again[name] for name in outputs}, before)


@pytest.mark.skipif(not machine.available(), reason="numba is not installed")
def test_a_lookup_gathers_nothing_and_says_which_index_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    def bag(**constants: Array) -> Calls:
        calls = Calls({"x": np.ones((HEIGHT, WIDTH), np.float32)}, {})
        calls.constants |= {"rows": np.arange(50)[::-1, np.newaxis], "bags": np.arange(50)[:, np.newaxis] % 7}
        calls.right |= calls.constants
        calls.call("ScatterND", "x", "bags", calls.call("GatherND", "x", "rows"), reduction="add")
        calls.constants |= constants
        return calls

    monkeypatch.setattr(large, "LARGE", 1)
    calls = bag()
    with monkeypatch.context() as context:
        context.delattr(Operator, "run")
        same(calls.plan(["v1"]).run(calls.starts), calls.right)
    wrong = np.arange(50)[:, np.newaxis] * 2
    for name, message in (
        ("rows", "GatherND 'v0': indices[40, 0] is 80; expected -80..79 (axis 0 of data)"),
        ("bags", "ScatterND 'v1': indices[40, 0] is 80; expected -80..79 (axis 0 of data)"),
    ):
        calls = bag(**{name: wrong})
        with pytest.raises(OperatorError) as caught:
            calls.plan(["v1"]).run(calls.starts)
        assert str(caught.value) == message
        assert (calls.starts["x"] == 1).all()


def test_tensor_scatter_writes_where_it_is_told_or_not_at_all() -> None:
    cache, update = np.zeros((2, 4, 3), np.float32), np.ones((2, 1, 3), np.float32)
    right = tensor_scatter(cache, update, [1, 3])
    with pytest.raises(OperatorError):
        tensor_scatter(cache, update, [1, 4], out=cache)
    assert not cache.any()
    assert tensor_scatter(cache, update, [1, 3], out=cache) is cache
    assert cache.tolist() == right.tolist()
    with pytest.raises(OperatorError) as caught:
        tensor_scatter(cache, update, out=cache[:1])
    assert str(caught.value) == (
        "TensorScatter: out has shape (1, 4, 3); expected (2, 4, 3), the shape of data"
    )


SIZE = 2 * SMALL


def cache_model(*shown: str, initial: Any = None, reads: str | None = None) -> Model:
    """Return a node whose cache gets updates; it shows values, and reads the old or the new cache."""
    node = Node(id="memory")
    node.input_ports += [
        InputPort(id="indices", type="int64", shape=(4, 1)),
        InputPort(id="updates", type="float32", shape=(4,)),
        InputPort(id="asked", type="int64", shape=(1, 1)),
    ]
    args = {"data": "cache", "indices": "indices", "updates": "updates", "reduction": "add"}
    node.functions.append(Function(id="scattered", function="ScatterND", args=args))
    read = {"data": reads or "cache", "indices": "asked"}
    node.functions.append(Function(id="read", function="GatherND", args=read))
    start = np.zeros(SIZE, np.float32) if initial is None else initial
    node.parameters.append(Parameter(id="cache", default_initial_value=start, value="scattered"))
    node.output_ports += [OutputPort(id=f"{name}_out", value=name) for name in ("read", *shown)]
    graph = chain(node)
    graph.metadata = {"onnx": {"outputs": [f"memory.{port.id}" for port in node.output_ports]}}
    return Model(id="m", graphs=[graph])


def call(place: int, value: float = 1, asked: int = 0) -> dict[str, Array]:
    return {
        "indices": np.array([[place], [place], [place + 1], [5]]),
        "updates": np.full(4, value, np.float32),
        "asked": np.array([[asked]]),
    }


def state_of(runner: Runner) -> Array:
    (array,) = runner._engine._state.values()  # type: ignore[union-attr]
    return array


@pytest.mark.parametrize("shown", [(), ("cache",), ("scattered", "cache")])
@pytest.mark.parametrize("reads", ["cache", "scattered"])
def test_a_cache_stays_where_it_is_and_says_the_same_as_in_mdfs_engine(
    shown: tuple[str, ...], reads: str
) -> None:
    initial = np.arange(SIZE, dtype=np.float32)
    model = cache_model(*shown, initial=initial, reads=reads)
    runner, other = Runner(model, engine="onnx"), Runner(model, engine="mdf")
    addresses, handed_out = set(), []
    for place in (0, 3, 0, 7):
        given = call(place, asked=place)
        results, right = runner(given, steps=3), other(given, steps=3)
        same(results, right)
        handed_out.append((results, right))
        addresses.add(state_of(runner).ctypes.data)
    for results, right in handed_out:
        same(results, right)
    assert len(addresses) == 1
    assert initial.tolist() == list(range(SIZE))


def test_the_state_is_not_where_callers_can_write() -> None:
    runner = Runner(cache_model("scattered", "cache"))
    results = runner(call(0))
    assert results["cache_out"][0] == 2
    for array in results.values():
        array[...] = 99
    assert runner(call(0))["cache_out"][:3].tolist() == [4, 2, 0]


def test_an_evaluation_that_fails_leaves_the_state_as_it_was() -> None:
    runner = Runner(cache_model("cache", reads="scattered"))
    assert runner(call(0))["read_out"] == 2
    with pytest.raises(OperatorError) as caught:
        runner(call(0, asked=SIZE))
    assert str(caught.value) == (
        f"GatherND 'memory.read': indices[0, 0] is {SIZE}; expected -{SIZE}..{SIZE - 1} (axis 0 of data)"
    )
    with pytest.raises(OperatorError, match=r"ScatterND 'memory\.scattered'"):
        runner(call(SIZE))
    assert runner(call(0))["read_out"] == 4
