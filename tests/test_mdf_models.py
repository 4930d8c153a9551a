"""Models of modeci-mdf's own kind give what modeci-mdf gives; real files do, where they are at hand."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
from modeci_mdf.mdf import Model

import mdf_scatter
from mdf_scatter import Runner, check, draw, load, run, to_onnx
from mdf_scatter.errors import MdfScatterError, UnsupportedError
from mdf_scatter.wiring import graph_outputs, sole_graph

SHARED = Path(__file__).parents[2] / "shared" / "mdf_models"
FILES = sorted(path for path in SHARED.glob("*") if path.suffix in (".json", ".yaml"))
FILES = [path for path in FILES if path.name != "manifest.json"]
EXPECTED = [path for path in FILES if path.with_name(f"{path.name}.expected").exists()]
OTHERS = [path for path in FILES if path not in EXPECTED]

# An integrate-and-fire cell, its input, a synapse that closes a loop, and a switched read-out.
NETWORK = """
network:
    format: ModECI MDF v0.4
    graphs:
        net:
            nodes:
                pulse:
                    parameters:
                        time: {default_initial_value: 0, time_derivative: '1'}
                        start: {value: [0.1, 0.2, 0.3]}
                        level:
                            value: 0
                            conditions:
                            -   {id: 'on', test: time > start, value: 40}
                            -   {id: 'off', test: time > start + 0.25, value: level * 0}
                    output_ports: {current: {value: level}}
                cell:
                    input_ports:
                        current: {shape: [3]}
                        feedback: {shape: [3], default_value: [0.0, 0.0, 0.0], reduce: add}
                    functions:
                        drive:
                            function: linear
                            args: {variable0: current + feedback, slope: 2, intercept: 1}
                    parameters:
                        rest: {value: [-60, -65, -70]}
                        tau: {value: 0.5}
                        spiking:
                            default_initial_value: '0'
                            conditions:
                            -   {id: is_spiking, test: v >= -50, value: '1'}
                            -   {id: not_spiking, test: v < -50, value: '0'}
                        v:
                            default_initial_value: rest
                            time_derivative: -1 * (v - rest) / tau + drive
                            conditions:
                            -   {id: reset, test: v > -50, value: rest}
                        count: {value: count + numpy.sum(spiking), default_initial_value: 0}
                    output_ports: {v: {value: v}, spikes: {value: spiking}, count: {value: count}}
                synapse:
                    input_ports: {spikes: {shape: [3]}}
                    parameters:
                        weights: {value: [[0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [0.5, 0.0, 0.0]]}
                        weighted: {function: MatMul, args: {A: weights, B: spikes}}
                        current:
                            default_initial_value: '0'
                            time_derivative: -4 * current
                            conditions:
                            -   {id: spike, test: spikes > 0, value: weighted}
                    output_ports: {current: {value: current}}
                readout:
                    input_ports: {v: {shape: [3]}}
                    parameters:
                        calls: {value: calls + 1}
                        odd: {value: calls % 2 == 1}
                        shown: {value: 'v[0] if odd else numpy.mean(v[1:])'}
                    output_ports: {shown: {value: shown}}
            edges:
                a: {sender: pulse, receiver: cell, sender_port: current, receiver_port: current}
                b: {sender: cell, receiver: synapse, sender_port: spikes, receiver_port: spikes}
                c:
                    {sender: synapse, receiver: cell, sender_port: current, receiver_port: feedback,
                     parameters: {weight: 30.0}}
                e: {sender: cell, receiver: readout, sender_port: v, receiver_port: v}
"""


def every_output(model: Model) -> dict[str, str]:
    """Make every port an output of the graph; return the outputs' names by node and port."""
    graph = sole_graph(model)
    places = [f"{node.id}.{port.id}" for node in graph.nodes for port in node.output_ports]
    kept = (graph.metadata or {}).get("onnx", {})
    graph.metadata = {**(graph.metadata or {}), "onnx": {**kept, "outputs": places}}
    return {f"{item.node.id}.{item.port.id}": item.name for item in graph_outputs(graph)}


def test_a_network_of_everything_goes_the_same_way_in_both_engines(tmp_path: Path) -> None:
    path = tmp_path / "network.mdf.yaml"
    path.write_text(NETWORK)
    model = load(path)
    assert [finding for finding in check(model) if finding.level == "error"] == []
    names = every_output(model)
    runners = [Runner(model, engine=engine) for engine in ("onnx", "mdf")]
    spikes = 0.0
    for number in range(40):
        ours, theirs = (runner(time_increment=0.05) for runner in runners)
        assert set(ours) == set(names.values())
        for name, array in theirs.items():
            assert ours[name].shape == array.shape, (number, name)
            np.testing.assert_allclose(ours[name], array, rtol=1e-9, err_msg=f"{number} {name}")
        spikes += ours[names["cell.spikes"]].sum()
    assert spikes > 1, "cells fire"
    assert ours[names["cell.count"]] == spikes


def compared(
    found: dict[str, np.ndarray], expected: dict[str, Any], names: dict[str, str], *, same_shape: bool = True
) -> None:
    for place, value in expected.items():
        wanted = np.asarray(value)
        array = found[names[place]]
        if same_shape:
            assert array.shape == wanted.shape, place
        wanted = np.broadcast_to(wanted, array.shape)
        is_single = array.dtype in (np.float32, np.float16)
        np.testing.assert_allclose(array, wanted, rtol=1e-5 if is_single else 1e-6, atol=1e-7 * is_single)


def expectation(path: Path) -> tuple[list[dict[str, Any]], float | None]:
    """Return what is expected after each evaluation, and the step of time."""
    graphs = json.loads(path.with_name(f"{path.name}.expected").read_text())["graphs"]
    return (graphs[0]["steps"], graphs[0].get("time_increment")) if graphs else ([], None)


@pytest.mark.parametrize("engine", ["onnx", "mdf"])
@pytest.mark.parametrize("path", EXPECTED, ids=lambda path: path.name)
def test_files_give_what_modeci_mdf_gives_over_three_evaluations(path: Path, engine: Any) -> None:
    steps, increment = expectation(path)
    if not steps:
        return
    model = load(path)
    names = every_output(model)
    if engine == "onnx" and sole_graph(model).conditions is not None:
        with pytest.raises(UnsupportedError, match="has scheduling conditions, which ONNX has no form for"):
            run(model, engine="onnx")
        return
    runner = Runner(model, engine=engine)
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        for number, expected in enumerate(steps):
            compared(runner(time_increment=increment if number else None), expected, names)


@pytest.mark.parametrize("path", EXPECTED, ids=lambda path: path.name)
def test_exported_files_give_it_too_with_their_states_fed_back(path: Path) -> None:
    steps, increment = expectation(path)
    model = load(path)
    if not steps or sole_graph(model).conditions is not None:
        return
    names = every_output(model)
    if not names:
        return
    proto = to_onnx(model)
    properties = {item.key: item.value for item in proto.metadata_props}
    pairs = json.loads(properties.get("mdf_scatter.states", "[]"))
    time = properties.get("mdf_scatter.time_increment")
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(proto.SerializeToString(), options)
    outputs = [item.name for item in proto.graph.output]
    feed: dict[str, np.ndarray] = {}
    for number, expected in enumerate(steps):
        if time is not None and number:
            feed[time] = np.array(increment)
        results = dict(zip(outputs, session.run(None, feed), strict=True))
        # One graph for every evaluation gives the shape that states have in the end from the start.
        compared(results, expected, names, same_shape=False)
        feed = {name: results[following] for name, following in pairs}


@pytest.mark.parametrize("path", OTHERS, ids=lambda path: path.name)
def test_files_that_do_not_run_say_what_is_missing(path: Path) -> None:
    model = load(path)
    assert draw(model).svg.lstrip().startswith("<")
    errors = [finding for finding in check(model) if finding.level == "error"]
    with pytest.raises(MdfScatterError) as caught:
        mdf_scatter.run(model)
    assert len(str(caught.value).splitlines()) == 1
    if errors:
        assert errors[0].message in str(caught.value)
