"""How the ways between the forms of a graph grow with the number of its nodes.

python benchmarks/scaling.py [nodes ...]
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from mdf_scatter import from_onnx, run, to_onnx
from mdf_scatter.lower import lower
from mdf_scatter.plan import Plan

SIZES = (1_000, 10_000, 50_000)


def model_of(count: int) -> onnx.ModelProto:
    """Return a model of `count` unnamed nodes in a chain, with an initializer at every third."""
    nodes, initializers, last = [], [], "x"
    for at in range(count):
        out = f"v{at}" if at < count - 1 else "y"
        if at % 3 == 0:
            initializers.append(numpy_helper.from_array(np.full(4, at, np.float32), f"w{at}"))
            nodes.append(helper.make_node("Add", [last, f"w{at}"], [out]))
        else:
            nodes.append(helper.make_node("Relu" if at % 3 == 1 else "Neg", [last], [out]))
        last = out
    graph = helper.make_graph(
        nodes,
        "chain",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [4])],
        initializer=initializers,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)


def seconds(work: Callable[[], Any]) -> tuple[float, Any]:
    """Return how long some work takes, and what it gives."""
    start = time.perf_counter()
    result = work()
    return time.perf_counter() - start, result


def measured(count: int) -> dict[str, float]:
    """Return the seconds that each way takes for a model of `count` nodes."""
    proto = model_of(count)
    taken: dict[str, float] = {}
    taken["from_onnx"], model = seconds(lambda: from_onnx(proto))
    taken["lower"], lowered = seconds(lambda: lower(model))
    taken["Plan"], _ = seconds(lambda: Plan(lowered))
    taken["to_onnx"], _ = seconds(lambda: to_onnx(model))
    taken["run"], _ = seconds(lambda: run(model, {"x": np.zeros(4, np.float32)}))
    return taken


def main(sizes: list[int]) -> None:
    """Write a table of seconds."""
    from_onnx(model_of(10))
    sys.stdout.write(f"{'nodes':>8}" + "".join(f"{name:>12}" for name in measured(10)) + "\n")
    for count in sizes:
        row = "".join(f"{value:>12.2f}" for value in measured(count).values())
        sys.stdout.write(f"{count:>8}{row}\n")


if __name__ == "__main__":
    main([int(text) for text in sys.argv[1:]] or list(SIZES))
