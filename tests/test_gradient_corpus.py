"""Gradients of other people's models, and of ONNX's node tests, against central differences."""

from __future__ import annotations

from typing import Any

import onnx
import pytest
from conformance import cases, plain
from gradient_sweep import outcome
from test_corpus import CORPUS, MODELS, arrays

SAMPLE = 12
"""Every so many of the models is run by default, and all of them with `-m slow`."""

WITHOUT = {
    "the model has no floating-point output, so there is nothing to differentiate": "integers and booleans",
}
"""Why models have no gradient, by the message."""


def check(entry: dict[str, Any]) -> None:
    found = outcome(onnx.load(CORPUS / entry["model"]), arrays(entry["inputs"]))
    assert found == "right" or found.removeprefix("without: ") in WITHOUT


@pytest.mark.parametrize("entry", MODELS[::SAMPLE], ids=[entry["name"] for entry in MODELS[::SAMPLE]])
def test_a_sample_of_models(entry: dict[str, Any]) -> None:
    check(entry)


@pytest.mark.slow
@pytest.mark.parametrize("entry", MODELS, ids=[entry["name"] for entry in MODELS])
def test_every_model(entry: dict[str, Any]) -> None:
    check(entry)
