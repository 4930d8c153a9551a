"""Values of a run, as they are drawn into a diagram: small ones themselves, large ones in numbers."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
from modeci_mdf.mdf import Graph

from mdf_scatter.drawing.lowered import Place
from mdf_scatter.drawing.values import INLINE_ELEMENTS, as_array, short_text
from mdf_scatter.dtypes import is_string
from mdf_scatter.errors import InputError, did_you_mean, listed
from mdf_scatter.wiring import graph_inputs, graph_outputs

NAMED = 12


def placed(graph: Graph, values: Mapping[str, object]) -> dict[Place, npt.NDArray[np.generic]]:
    """Find the port that each value of a run belongs to.

    Args:
        graph: The graph that ran.
        values: Values by the name of a graph output or input, or by `node.port`.

    Raises:
        InputError: A name is none of these, or a value is no array.
    """
    known = {
        f"{node.id}.{port.id}": Place(node.id, port.id) for node in graph.nodes for port in node.input_ports
    }
    known |= {
        f"{node.id}.{port.id}": Place(node.id, port.id) for node in graph.nodes for port in node.output_ports
    }
    edge = [(item.name, Place(item.node.id, item.port.id)) for item in graph_inputs(graph)]
    edge += [(item.name, Place(item.node.id, item.port.id)) for item in graph_outputs(graph)]
    known |= dict(edge)
    found: dict[Place, npt.NDArray[np.generic]] = {}
    for name, value in values.items():
        if name not in known:
            at_edge = list(dict.fromkeys(name for name, _ in edge))
            more = f" (and {len(at_edge) - NAMED} more)" if len(at_edge) > NAMED else ""
            raise InputError(
                f"values: graph {graph.id!r} has nothing named {name!r}; "
                f"expected {listed(at_edge[:NAMED])}{more}, or a port as 'node.port'"
                f"{did_you_mean(name, known)}"
            )
        # A text is a value here, not an expression.
        array = np.asarray(value, object) if isinstance(value, str) else as_array(value)
        if array is None:
            raise InputError(f"values: {name!r} is of type {type(value).__name__}; expected an array")
        found[known[name]] = array
    return found


def summary(array: npt.NDArray[np.generic]) -> str:
    """Write an array: itself where it is small, else its least and greatest value and its NaN.

    >>> summary(np.array([1.0, 2.5])), summary(np.array([1.0] * 20 + [np.nan]))
    ('[1.0, 2.5]', 'min 1, max 1, 1 NaN')
    """
    if array.size <= INLINE_ELEMENTS:
        return short_text(array) or "[]"
    if is_string(array.dtype):
        return f"{array.size} strings"
    if array.dtype.kind == "b":
        return f"{int(np.count_nonzero(array))} of {array.size} true"
    if array.dtype.kind == "c":
        return f"{array.size} numbers{_nan(np.isnan(array))}"
    wide = array if array.dtype.kind in "iuf" else array.astype(np.float64)
    nan = np.isnan(wide) if wide.dtype.kind == "f" else np.zeros(wide.shape, bool)
    numbers = wide[~nan]
    if not numbers.size:
        return f"{array.size} NaN"
    return f"min {numbers.min():.6g}, max {numbers.max():.6g}{_nan(nan)}"


def _nan(nan: npt.NDArray[np.bool_]) -> str:
    count = int(np.count_nonzero(nan))
    return f", {count} NaN" if count else ""
