"""ONNX's own node tests, each through MDF: read, written as JSON, read again, run and exported."""

from __future__ import annotations

import tempfile
import warnings
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from protos import differences

import mdf_scatter


@cache
def cases() -> dict[str, Any]:
    """Return ONNX's node tests, by name."""
    from onnx.backend.test.loader import load_model_tests

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {case.name: case for case in load_model_tests(kind="node")}


def problems(case: Any) -> list[str]:
    """Return what is wrong with a test's way through MDF, in a line each."""
    found = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "m.json"
        mdf_scatter.save(mdf_scatter.from_onnx(case.model), path)
        model = mdf_scatter.load(path)
    try:
        found += [f"exported {line}" for line in differences(mdf_scatter.to_onnx(model), case.model)[:1]]
    except mdf_scatter.errors.MdfScatterError as error:
        found.append(f"export: {error}")
    for inputs, outputs in case.data_sets:
        names = [value.name for value in case.model.graph.input]
        given = dict(zip(names, map(plain, inputs), strict=False))
        try:
            results = mdf_scatter.run(model, given)
        except mdf_scatter.errors.MdfScatterError as error:
            found.append(f"run: {error}")
            continue
        for value, expected in zip(case.model.graph.output, outputs, strict=True):
            problem = difference(results[value.name], plain(expected), case.rtol, case.atol)
            if problem:
                found.append(f"run: output {value.name!r} {problem}")
    return found


def plain(value: Any) -> Any:
    """Return a value of a test as this package has it."""
    return onnx.numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else value


def difference(result: Any, expected: Any, rtol: float, atol: float) -> str | None:
    """Say how a result differs from what is expected; None where it does not."""
    if expected is None or isinstance(expected, (list, tuple)):
        if expected is None or not isinstance(result, list) or len(result) != len(expected):
            return None if result is expected else f"is {result!r}; expected {expected!r}"
        parts = (difference(a, plain(b), rtol, atol) for a, b in zip(result, expected, strict=True))
        return next((part for part in parts if part), None)
    expected = np.asarray(expected)
    if expected.dtype.kind in "OTU":
        return None if np.array_equal(result.astype(object), expected.astype(object)) else "has other texts"
    if (result.dtype, result.shape) != (expected.dtype, expected.shape):
        return f"is {result.dtype}{result.shape}; expected {expected.dtype}{expected.shape}"
    wide = np.complex128 if expected.dtype.kind == "c" else np.float64
    exact = expected.dtype.kind in "biu"
    if exact and not np.array_equal(result, expected):
        return "has other values"
    close = np.isclose(result.astype(wide), expected.astype(wide), rtol, atol, equal_nan=True)
    return None if close.all() else f"has {np.count_nonzero(~close)} of {close.size} other values"
