"""Gradients of other people's models, and of ONNX's node tests, against central differences."""

from __future__ import annotations

import re
from typing import Any

import onnx
import pytest
from conformance import cases, plain
from gradient_sweep import outcome
from test_corpus import CORPUS, MODELS, arrays

SAMPLE = 12
"""Every so many of the models is run by default, and all of them with `-m slow`."""

NOTHING = (
    "the model has no floating-point output, so there is nothing to differentiate",
    "the model has no floating-point input or parameter, so there is nothing to differentiate",
    "its outputs are not finite",
)
"""Why there is nothing to compare."""

WITHOUT = {
    "Col2Im": "a block shape that is not constant",
    "CumProd": "an axis that is not constant",
    "DFT": "no rule",
    "DeformConv": "no rule",
    "DequantizeLinear": "no rule",
    "Det": "no rule",
    "GridSample": "cubic",
    "LSTM": "clip and input_forget",
    "MaxUnpool": "no rule",
    "MelWeightMatrix": "no rule",
    "OptionalGetElement": "no rule",
    "Resize": "crops, and sizes that keep the aspect ratio",
    "RoiAlign": "no rule",
    "STFT": "no rule",
    "Unique": "no rule",
}
"""ONNX's operators whose gradient is refused, at least in some form, and why; other domains have no rules."""

EXCEPTIONS = {
    "affine_grid": "ONNX infers no rank behind an If whose branches have different ones",
    "attention_24_qk_matmul_output_mode3_softmax_precision": "the test's own function is in float32",
    "attention_4d_causal_padded_kv_bf16": "ONNX's evaluator, which alone pads bfloat16, takes nothing off",
    "attention_4d_padded_kv_bf16": "ONNX's evaluator, which alone pads bfloat16, takes nothing off",
    "bernoulli": "draws random numbers",
    "dynamicquantizelinear": "the test's own function is in float32",
    "linear_attention": "the test's own function is in float32",
    "mvn": "ONNX's full check refuses the test's own model",
    "pow": "near a base of 0",
    "range_float": "the number of turns jumps with the input",
    "range_bfloat16": "the number of turns jumps with the input",
    "scan_sum": "Scan of opset 8 has a batch axis, which ONNX's version converter drops",
}
"""What starts the names of ONNX's tests that cannot be held to differences, and why."""


def check(entry: dict[str, Any]) -> None:
    found = outcome(onnx.load(CORPUS / entry["model"]), arrays(entry["inputs"]))
    assert found == "right" or found.removeprefix("without: ") in NOTHING


@pytest.mark.parametrize("entry", MODELS[::SAMPLE], ids=[entry["name"] for entry in MODELS[::SAMPLE]])
def test_a_sample_of_models(entry: dict[str, Any]) -> None:
    check(entry)


@pytest.mark.slow
@pytest.mark.parametrize("entry", MODELS, ids=[entry["name"] for entry in MODELS])
def test_every_model(entry: dict[str, Any]) -> None:
    check(entry)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(40))
def test_onnx_node_tests(part: int) -> None:
    wrong = {}
    for name, case in list(cases().items())[part::40]:
        short = name.removeprefix("test_")
        if any(short.startswith(start) for start in EXCEPTIONS):
            continue
        names = [value.name for value in case.model.graph.input]
        inputs, _ = case.data_sets[0]
        found = outcome(case.model, dict(zip(names, map(plain, inputs), strict=False)))
        refused = re.match(r"without: ([\w.]+::)?(\w+) '[^']*': (?:there is no rule|no gradient)", found)
        is_other = refused is not None and (refused[1] is not None or refused[2] in WITHOUT)
        is_known = found.removeprefix("without: ") in NOTHING or is_other
        if found != "right" and not is_known:
            wrong[name] = found
    assert not wrong
