"""Whole models of other people's exporters: in, through files, run, and out again. Needs the models."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest

import mdf_scatter

CORPUS = Path(__file__).parents[2] / "shared" / "corpus"
MODELS: list[dict[str, Any]] = (
    json.loads((CORPUS / "manifest.json").read_text()) if (CORPUS / "manifest.json").exists() else []
)
SAMPLE = 12
"""Every so many of the models is run by default, and all of them with `-m slow`."""


def arrays(name: str) -> dict[str, np.ndarray]:
    with np.load(CORPUS / name, allow_pickle=True) as file:
        return {key: file[key] for key in file.files}


def assert_same(result: Any, expected: np.ndarray) -> None:
    result = np.asarray(result)
    if expected.dtype.kind in "OTU":
        assert (result.astype(object) == expected.astype(object)).all()
        return
    assert (result.dtype, result.shape) == (expected.dtype, expected.shape)
    if expected.dtype.kind in "biu":
        np.testing.assert_array_equal(result, expected)
    else:
        np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-5)


def through_everything(entry: dict[str, Any], folder: Path) -> None:
    given = arrays(entry["inputs"])
    expected = arrays(entry["expected"] if entry["ort_ok"] else entry["expected_framework"])
    model = mdf_scatter.load(CORPUS / entry["model"])
    for suffix in (".yaml", ".json"):
        mdf_scatter.save(model, folder / f"{suffix[1:]}_m{suffix}")
        loaded = mdf_scatter.load(folder / f"{suffix[1:]}_m{suffix}")
        results = mdf_scatter.run(loaded, given)
        for name, array in expected.items():
            assert_same(results[name], array)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    proto = mdf_scatter.to_onnx(loaded)
    session = onnxruntime.InferenceSession(proto.SerializeToString(), options)
    feed = {item.name: given[item.name] for item in session.get_inputs()}
    for item, array in zip(session.get_outputs(), session.run(None, feed), strict=True):
        assert_same(array, expected[item.name])


@pytest.mark.parametrize("entry", MODELS[::SAMPLE], ids=[entry["name"] for entry in MODELS[::SAMPLE]])
def test_a_sample_of_models(entry: dict[str, Any], tmp_path: Path) -> None:
    through_everything(entry, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("entry", MODELS, ids=[entry["name"] for entry in MODELS])
def test_every_model(entry: dict[str, Any], tmp_path: Path) -> None:
    through_everything(entry, tmp_path)
