"""Whole graphs that are measured: a cache as state, an embedding bag, a node in modeci-mdf's own engine."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from contextlib import redirect_stdout
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np
import numpy.typing as npt
from modeci_mdf.mdf import Edge, Function, Graph, InputPort, Model, Node, OutputPort, Parameter

from mdf_scatter.kernels.threads import num_threads
from mdf_scatter.lower import to_onnx
from mdf_scatter.plugin import registered
from mdf_scatter.runner import Runner
from mdf_scatter.segment import session_of

Array = npt.NDArray[Any]
Call = Callable[[], Any]

OURS, NUMPY, ONNXRUNTIME, BOUND, TORCH, HOST = (
    "ours",
    "numpy",
    "onnxruntime",
    "onnxruntime, bound",
    "torch",
    "modeci-mdf",
)
"""Whose calls are measured; "bound" is onnxruntime with its inputs and outputs bound to its own memory."""

CACHE, UPDATES, ASKED = 1 << 24, 1 << 12, 1 << 8
"""Elements of the cache, 64 MB, those that a step updates, and those that it gives."""

STEPS = 50
"""Evaluations in a call, so that what a call begins with, such as registering, weighs little."""


@dataclass(frozen=True)
class Contest:
    """The same work by several, ready to be timed.

    Attributes:
        calls: The work, by whose it is.
        is_right: `is_right(whose, result)` tells whether what a call returned is right.
        floor: Bytes that must at least be moved in an evaluation; 0 where that tells nothing.
        evaluations: How often a call does the work.
    """

    calls: Mapping[str, Call]
    is_right: Callable[[str, Any], bool]
    floor: int = 0
    evaluations: int = 1


@dataclass(frozen=True)
class GraphWorkload:
    """A graph to be measured.

    Attributes:
        name: What it is, for the table.
        contest: `contest(rng)` prepares it.
    """

    name: str
    contest: Callable[[np.random.Generator], Contest]


def cache_contest(rng: np.random.Generator) -> Contest:
    """Return one step of a graph whose state is a cache that a scatter updates and a gather reads."""
    start, updates = rng.random(CACHE, np.float32), rng.random(UPDATES, np.float32)
    indices, asked = rng.permutation(CACHE)[:UPDATES], np.arange(ASKED) * (CACHE // ASKED)
    given: dict[str, Array] = {
        "indices": indices[:, np.newaxis],
        "updates": updates,
        "asked": asked[:, np.newaxis],
    }
    asked[::2] = indices[: ASKED // 2]
    after = start.copy()
    after[indices] = updates
    right = after[asked]
    model = _cache_model(start)
    runner = Runner(model)
    calls: dict[str, Call] = {OURS: _repeated(lambda: runner(given)["found"])}
    session = session_of(to_onnx(model), num_threads())
    if session is not None:
        calls[ONNXRUNTIME] = _repeated(_fed_back(session, given, start))
        calls[BOUND] = _repeated(_bound(session, given, start))
    return Contest(calls, lambda _, result: bool(np.array_equal(result, right)), evaluations=STEPS)


def bag_contest(rng: np.random.Generator) -> Contest:
    """Return an embedding bag: rows of a table, looked up and added into bags."""
    table = rng.random((10**5, 64), np.float32)
    given = {"rows": rng.integers(0, 10**5, (2 * 10**5, 1)), "bags": rng.integers(0, 10**4, (2 * 10**5, 1))}
    rows, bags = (array[:, 0] for array in given.values())
    empty = np.zeros((10**4, 64), np.float32)
    model = _bag_model(table, empty)

    def numpy_bag() -> Array:
        result = empty.copy()
        np.add.at(result, bags, table[rows])
        return result

    runner, session = Runner(model), session_of(to_onnx(model), num_threads())
    calls: dict[str, Call] = {OURS: lambda: runner(given)["sums"], NUMPY: numpy_bag}
    if session is not None:
        calls[ONNXRUNTIME] = lambda: session.run(["sums"], given)[0]
    if find_spec("torch") is not None:
        torch = import_module("torch")
        tensors = [torch.from_numpy(array) for array in (table, rows, bags)]
        calls[TORCH] = lambda: torch.zeros(empty.shape).index_add_(0, tensors[2], tensors[0][tensors[1]])
    right = numpy_bag()

    def is_right(whose: str, result: Any) -> bool:
        array = np.asarray(result)
        return array.tobytes() == right.tobytes() if whose == OURS else bool(np.allclose(array, right))

    moved = rows.size * table[0].nbytes + empty.nbytes + sum(array.nbytes for array in given.values())
    return Contest(calls, is_right, floor=moved)


def node_contest(rng: np.random.Generator) -> Contest:
    """Return a ScatterND of 4 into 8 as a node in modeci-mdf's engine: ours there, and its own."""
    data, updates = rng.random(8, np.float32), rng.random(4, np.float32)
    indices = rng.permutation(8)[:4, np.newaxis]
    given: dict[str, Array] = {"data": data, "indices": indices, "updates": updates}
    right = data.copy()
    right[indices[:, 0]] = updates
    with registered():
        own = _repeated(_node("ScatterND", given))
    with _quiet():
        host = _repeated(_node("onnx::ScatterND", given))

    def ours() -> Any:
        with registered():
            return own()

    def plain() -> Any:
        with _quiet():
            return host()

    return Contest(
        {OURS: ours, HOST: plain},
        lambda _, result: bool(np.array_equal(result, right)),
        evaluations=STEPS,
    )


def _quiet() -> redirect_stdout[io.StringIO]:
    # modeci-mdf's engine prints also where it was told not to.
    return redirect_stdout(io.StringIO())


def _cache_model(start: Array) -> Model:
    node = Node(id="memory")
    node.input_ports += [
        InputPort(id="indices", type="int64", shape=(UPDATES, 1)),
        InputPort(id="updates", type="float32", shape=(UPDATES,)),
        InputPort(id="asked", type="int64", shape=(ASKED, 1)),
    ]
    args = {"data": "cache", "indices": "indices", "updates": "updates"}
    node.functions += [
        Function(id="scattered", function="ScatterND", args=args),
        Function(id="read", function="GatherND", args={"data": "scattered", "indices": "asked"}),
    ]
    node.parameters.append(Parameter(id="cache", default_initial_value=start, value="scattered"))
    node.output_ports.append(OutputPort(id="found", value="read"))
    return Model(id="cache", graphs=[Graph(id="cache", nodes=[node])])


def _fed_back(session: Any, given: Mapping[str, Array], start: Array) -> Call:
    """Return a step of a session: what it gives for the cache it is given in the next."""
    (cache,) = (item.name for item in session.get_overridable_initializers())
    names = [item.name for item in session.get_outputs()]
    state = start

    def step() -> Array:
        nonlocal state
        found = dict(zip(names, session.run(names, {**given, cache: state}), strict=True))
        state = found.pop(f"{cache}.next")
        (result,) = found.values()
        return np.asarray(result)

    return step


def _bound(session: Any, given: Mapping[str, Array], start: Array) -> Call:
    """Return a step of a session that reads and writes two caches of onnxruntime's own, in turns."""
    values = import_module("onnxruntime").OrtValue
    (cache,) = (item.name for item in session.get_overridable_initializers())
    inputs = {name: values.ortvalue_from_numpy(array) for name, array in given.items()}
    old, new = (values.ortvalue_from_numpy(start) for _ in range(2))
    result = values.ortvalue_from_numpy(np.empty(ASKED, np.float32))

    def step() -> Array:
        nonlocal old, new
        binding = session.io_binding()
        for name, value in {**inputs, cache: old}.items():
            binding.bind_ortvalue_input(name, value)
        binding.bind_ortvalue_output(f"{cache}.next", new)
        binding.bind_ortvalue_output("found", result)
        session.run_with_iobinding(binding)
        old, new = new, old
        return np.asarray(result.numpy())

    return step


def _bag_model(table: Array, empty: Array) -> Model:
    lookup, bags = Node(id="lookup"), Node(id="bags_of")
    count = 2 * 10**5
    lookup.input_ports.append(InputPort(id="rows", type="int64", shape=(count, 1)))
    lookup.parameters.append(Parameter(id="table", value=table))
    args = {"data": "table", "indices": "rows"}
    lookup.functions.append(Function(id="found", function="GatherND", args=args))
    lookup.output_ports.append(OutputPort(id="vectors", value="found"))
    bags.input_ports += [
        InputPort(id="bags", type="int64", shape=(count, 1)),
        InputPort(id="vectors", type="float32", shape=(count, table.shape[1])),
    ]
    bags.parameters.append(Parameter(id="empty", value=empty))
    args = {"data": "empty", "indices": "bags", "updates": "vectors", "reduction": "add"}
    bags.functions.append(Function(id="added", function="ScatterND", args=args))
    bags.output_ports.append(OutputPort(id="sums", value="added"))
    edge = Edge(
        id="vectors",
        sender=lookup.id,
        sender_port="vectors",
        receiver=bags.id,
        receiver_port="vectors",
    )
    return Model(id="bag", graphs=[Graph(id="bag", nodes=[lookup, bags], edges=[edge])])


def _node(function: str, given: Mapping[str, Array]) -> Call:
    """Return an evaluation of a node of modeci-mdf's engine that calls a function."""
    from modeci_mdf.execution_engine import EvaluableGraph

    node = Node(id="node")
    node.input_ports += [InputPort(id=name) for name in given]
    node.functions.append(Function(id="result", function=function, args={name: name for name in given}))
    node.output_ports.append(OutputPort(id="output", value="result"))
    evaluable = EvaluableGraph(Graph(id="graph", nodes=[node])).enodes["node"]

    def evaluate() -> Array:
        for name, array in given.items():
            evaluable.evaluable_inputs[name].set_input_value(array)
        evaluable.evaluate()
        return np.asarray(evaluable.evaluable_outputs["output"].curr_value)

    return evaluate


def _repeated(evaluate: Call) -> Call:
    """Return a call that evaluates some times and gives the last result."""
    return lambda: [evaluate() for _ in range(STEPS)][-1]


GRAPHS = (
    GraphWorkload("graph: a step of a 64 MB cache as state, 4096 updates", cache_contest),
    GraphWorkload("graph: embedding bag, 2e5 rows of 64 into 1e4 bags", bag_contest),
    GraphWorkload("graph: a node in modeci-mdf's engine, 4 into 8", node_contest),
)
