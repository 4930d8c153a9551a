"""Makes the models of this folder and the data that they are trained on: `python graphs/training/make.py`.

Each model has its loss in it, and its parameters start from small random numbers. What the data comes from
is known, so that how well a model has learned can be said in numbers.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from modeci_mdf.mdf import Edge, Function, Graph, InputPort, Model, Node, OutputPort, Parameter

from mdf_scatter import GatherND, ScatterND, save

HERE = Path(__file__).parent

CONSTANT = ("age",)
"""Parameters that are not trained."""


def node(
    graph: Graph,
    name: str,
    inputs: dict[str, InputPort | str],
    parameters: dict[str, Any],
    functions: dict[str, tuple[str, dict[str, Any]]],
    **outputs: str,
) -> Node:
    """Add a node: an input is a port, or "node.port" to be wired to; a function its name and arguments."""
    made = Node(
        id=name,
        input_ports=[
            port if isinstance(port, InputPort) else InputPort(id=key) for key, port in inputs.items()
        ],
        parameters=[
            Parameter(id=key, value=value, metadata={"trainable": False} if key in CONSTANT else None)
            for key, value in parameters.items()
        ],
        functions=[Function(id=key, function=call, args=args) for key, (call, args) in functions.items()],
        output_ports=[OutputPort(id=key, value=value) for key, value in outputs.items()],
    )
    graph.nodes.append(made)
    for key, source in inputs.items():
        if isinstance(source, str):
            sender, port = source.split(".")
            graph.edges.append(
                Edge(
                    id=f"{sender}_{port}_{name}_{key}",
                    sender=sender,
                    sender_port=port,
                    receiver=name,
                    receiver_port=key,
                )
            )
    return made


def mean_squared_error(graph: Graph, predicted: str, shape: tuple[int, ...]) -> None:
    """Add the loss."""
    node(
        graph,
        "error",
        {"predicted": predicted, "target": InputPort(id="target", shape=shape, type="float32")},
        {},
        {
            "difference": ("onnx::Sub", {"A": "predicted", "B": "target"}),
            "square": ("onnx::Mul", {"A": "difference", "B": "difference"}),
            "mean": ("onnx::ReduceMean", {"data": "square", "keepdims": 0}),
        },
        loss="mean",
    )


def embedding(rng: np.random.Generator) -> None:
    """Ratings of things by people: both are rows of tables, and a rating is the product of two rows."""
    people, things, width, count = 24, 30, 3, 400
    model, graph = new("embedding")
    graph.nodes.append(table("person", people, width, rng))
    graph.nodes.append(table("thing", things, width, rng))
    for kind in ("person", "thing"):
        row = GatherND(f"{kind}_row").add_to(graph, data=f"{kind}.table")
        row.input_ports[1] = InputPort(id="indices", shape=(count, 1), type="int64")
        row.input_ports[1].metadata = {"onnx": {"name": kind}}
    node(
        graph,
        "rating",
        {"a": "person_row.output", "b": "thing_row.output"},
        {},
        {
            "product": ("onnx::Mul", {"A": "a", "B": "b"}),
            "total": ("onnx::ReduceSum", {"data": "product", "axes": [1], "keepdims": 0}),
        },
        predicted="total",
    )
    mean_squared_error(graph, "rating.predicted", (count,))
    tastes, traits = rng.standard_normal((people, width)), rng.standard_normal((things, width))
    person, thing = rng.integers(0, people, count), rng.integers(0, things, count)
    target = (tastes[person] * traits[thing]).sum(axis=1)
    write(model, person=person[:, np.newaxis], thing=thing[:, np.newaxis], target=target.astype(np.float32))


def table(name: str, rows: int, width: int, rng: np.random.Generator) -> Node:
    """Return a node that holds a table of small random rows."""
    values = small(rng, rows, width)
    return Node(
        id=name,
        parameters=[Parameter(id="rows", value=values)],
        output_ports=[OutputPort(id="table", value="rows", shape=(rows, width), type="float32")],
    )


def message_passing(rng: np.random.Generator) -> None:
    """A layer that sends messages along the edges of a graph; each node takes their sum and maximum."""
    nodes, edges, width, hidden = 40, 120, 4, 8
    model, graph = new("message_passing")
    state = InputPort(id="state", shape=(nodes, width), type="float32")
    node(graph, "states", {"state": state}, {}, {}, state="state")
    sent = GatherND("sent").add_to(graph, data="states.state")
    sent.input_ports[1] = InputPort(id="sender", shape=(edges, 1), type="int64")
    sent.functions[0].args["indices"] = "sender"
    node(
        graph,
        "message",
        {"rows": "sent.output"},
        {"weights": small(rng, width, hidden, scale=0.5)},
        {
            "product": ("onnx::MatMul", {"A": "rows", "B": "weights"}),
            "bent": ("onnx::Tanh", {"input": "product"}),
        },
        message="bent",
    )
    receiver = InputPort(id="receiver", shape=(edges, 1), type="int64")
    node(graph, "receivers", {"receiver": receiver}, {}, {}, receiver="receiver")
    empty = np.zeros((nodes, hidden), np.float32)
    for name, reduction, start in (("sum", "add", empty), ("maximum", "max", empty - 1)):
        scatter = ScatterND(name, reduction=reduction).add_to(
            graph, data=start, indices="receivers.receiver", updates="message.message"
        )
        scatter.get_parameter("data").metadata = {"trainable": False}
    node(
        graph,
        "update",
        {"state": "states.state", "total": "sum.output", "largest": "maximum.output"},
        {
            "own": small(rng, width, 1, scale=0.5),
            "of_sum": small(rng, hidden, 1, scale=0.5),
            "of_maximum": small(rng, hidden, 1, scale=0.5),
        },
        {
            "a": ("onnx::MatMul", {"A": "state", "B": "own"}),
            "b": ("onnx::MatMul", {"A": "total", "B": "of_sum"}),
            "c": ("onnx::MatMul", {"A": "largest", "B": "of_maximum"}),
            "ab": ("onnx::Add", {"A": "a", "B": "b"}),
            "abc": ("onnx::Add", {"A": "ab", "B": "c"}),
        },
        predicted="abc",
    )
    mean_squared_error(graph, "update.predicted", (nodes, 1))
    values = rng.standard_normal((nodes, width)).astype(np.float32)
    sender, to = rng.integers(0, nodes, (edges, 1)), rng.integers(0, nodes, (edges, 1))
    messages = np.tanh(values @ rng.standard_normal((width, hidden)))[sender[:, 0]]
    total, largest = np.zeros((nodes, hidden)), np.full((nodes, hidden), -1.0)
    np.add.at(total, to[:, 0], messages)
    np.maximum.at(largest, to[:, 0], messages)
    target = values @ rng.standard_normal((width, 1)) + total @ rng.standard_normal((hidden, 1)) * 0.5
    target = (target + largest @ rng.standard_normal((hidden, 1))).astype(np.float32)
    write(model, state=values, sender=sender, receiver=to, target=target)


def spiking_readout(rng: np.random.Generator) -> None:
    """Which of two currents drives a group of leaky neurons, read from their spikes.

    The neurons are simulated here; what is trained is how fast spikes are forgotten, and what they weigh.
    """
    trials, neurons, times = 60, 12, 50
    model, graph = new("spiking_readout")
    spikes = InputPort(id="spikes", shape=(trials, times, neurons), type="float32")
    node(
        graph,
        "trace",
        {"spikes": spikes},
        {
            "age": np.arange(times, dtype=np.float32)[::-1].copy(),
            "tau": 5.0,
            "kernel": "numpy.exp(-age / tau)",
        },
        {"filtered": ("onnx::MatMul", {"A": "kernel", "B": "spikes"})},
        trace="filtered",
    )
    node(
        graph,
        "readout",
        {"trace": "trace.trace"},
        {"weights": small(rng, neurons), "bias": 0.0, "gain": 1.0},
        {
            "drive": ("onnx::MatMul", {"A": "trace", "B": "weights"}),
            "chance": ("logistic", {"variable0": "drive", "gain": "gain", "bias": "bias", "offset": 0}),
        },
        predicted="chance",
    )
    mean_squared_error(graph, "readout.predicted", (trials,))
    label = rng.integers(0, 2, trials)
    tuned = rng.random((2, neurons)) * 0.1 + 0.05
    voltage, trains = np.zeros((trials, neurons)), np.zeros((trials, times, neurons), np.float32)
    for time in range(times):
        voltage += (-voltage * 0.1) + tuned[label] + 0.05 * rng.standard_normal((trials, neurons))
        trains[:, time] = fired = voltage > 1
        voltage[fired] = 0
    write(model, spikes=trains, target=label.astype(np.float32))


def new(name: str) -> tuple[Model, Graph]:
    """Return a model of one empty graph."""
    graph = Graph(id=name)
    return Model(id=name, graphs=[graph]), graph


def small(rng: np.random.Generator, *shape: int, scale: float = 0.3) -> np.ndarray[Any, Any]:
    """Return numbers to start from, of three digits, so that the file stays readable."""
    return (rng.standard_normal(shape) * scale).round(3).astype(np.float32)


def write(model: Model, **data: np.ndarray[Any, Any]) -> None:
    """Write a model and its data."""
    save(model, HERE / f"{model.id}.yaml")
    np.savez_compressed(HERE / f"{model.id}.npz", **data)


if __name__ == "__main__":
    for make in (embedding, message_passing, spiking_readout):
        make(np.random.default_rng(7))
