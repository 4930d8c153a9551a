"""An exported model held against onnxruntime: does another runtime get what we get?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from modeci_mdf.mdf import Graph

from mdf_scatter.dtypes import dtype_of, is_string
from mdf_scatter.errors import InputError
from mdf_scatter.wiring import declared_shape, graph_inputs, is_required

Arrays = dict[str, npt.NDArray[Any]]


@dataclass(frozen=True)
class Comparison:
    """What came of comparing.

    Attributes:
        agrees: True or False; None where onnxruntime could not run the model.
        message: The finding in a line.
    """

    agrees: bool | None
    message: str


def against_onnxruntime(
    proto: onnx.ModelProto, inputs: Mapping[str, npt.NDArray[Any]], ours: Mapping[str, npt.NDArray[Any]]
) -> Comparison:
    """Run an ONNX model in onnxruntime, on one thread, and compare its outputs with ours.

    One thread, because onnxruntime loses updates at repeated indices on several. Floating outputs may
    differ by 1e-4 of their size, the rest not at all.
    """
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    try:
        session = onnxruntime.InferenceSession(
            proto.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
        feed = {name: np.require(array, requirements="C") for name, array in inputs.items()}
        theirs = dict(zip(ours, session.run(list(ours), feed), strict=True))
    except Exception as error:  # onnxruntime raises what it pleases
        reason = str(error).strip().splitlines()[0][:200]
        return Comparison(None, f"onnxruntime {onnxruntime.__version__} cannot run it: {reason}")
    different = [name for name, array in ours.items() if not _agree(array, np.asarray(theirs[name]))]
    if different:
        names = ", ".join(repr(name) for name in different)
        return Comparison(False, f"onnxruntime {onnxruntime.__version__} gives another result for {names}")
    return Comparison(True, f"onnxruntime {onnxruntime.__version__} gives the same")


def example_inputs(graph: Graph, given: Mapping[str, npt.NDArray[Any]]) -> Arrays:
    """Return inputs to try a graph on: those given, and made-up ones for the rest that it needs.

    Made-up floats run from 0 to 1, everything else is zero, which is a valid index; symbolic sizes are 2.

    Raises:
        InputError: A port that is needed declares too little to make something up for it.
    """
    made: Arrays = dict(given)
    for item in graph_inputs(graph):
        if item.name in made or not is_required(item):
            continue
        dtype, shape = dtype_of(item.port.type or ""), declared_shape(item.port)
        if dtype is None or shape is None:
            raise InputError(
                f"input {item.name!r} declares no {'type' if dtype is None else 'shape'}; "
                f"give an array for it to compare on: -i {item.name}=FILE.npy"
            )
        sizes = tuple(size if isinstance(size, int) else 2 for size in shape)
        count = int(np.prod(sizes))
        flat = np.linspace(0, 1, count) if np.issubdtype(dtype, np.floating) else np.zeros(count)
        filled = np.full(count, "", object) if is_string(dtype) else flat.astype(dtype)
        made[item.name] = filled.reshape(sizes)
    return made


def _agree(ours: npt.NDArray[Any], theirs: npt.NDArray[Any]) -> bool:
    if ours.shape != theirs.shape or ours.dtype != theirs.dtype:
        return False
    if ours.dtype.kind not in "fc":
        return bool((ours == theirs).all())
    return bool(np.allclose(ours, theirs, rtol=1e-4, atol=1e-6, equal_nan=True))
