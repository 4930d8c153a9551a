"""Writes docs/conformance.md: how ONNX's node tests and other people's models go through MDF, and back.

python benchmarks/conformance.py
"""

from __future__ import annotations

import re
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))

import onnx  # noqa: E402
import onnxruntime  # noqa: E402
from conformance import cases, plain, problems  # noqa: E402
from gradient_sweep import outcome  # noqa: E402
from test_corpus import CORPUS, MODELS, arrays, through_everything  # noqa: E402
from test_gradient_corpus import EXCEPTIONS, NOTHING  # noqa: E402

OPERATOR = re.compile(r"without: (?:[\w.]+::)?(\w+) '")

REASONS = (
    ("bernoulli", "draws random numbers, and ONNX fixes no generator"),
    ("resize_downsample_scales", "onnxruntime aligns the corners of a downsampled tensor in another way"),
    (
        "test_mvn",
        "ONNX's full check refuses the test's own model: the operator's function cannot be inferred",
    ),
)


def reason(name: str) -> str:
    """Return why a test fails, as far as it is known."""
    return next((text for part, text in REASONS if part in name), "")


def suite() -> list[str]:
    """Return the lines on ONNX's node tests."""
    failing = {name: found for name, case in cases().items() if (found := problems(case))}
    lines = [
        "## ONNX's node tests",
        "",
        f"{len(cases()) - len(failing)} of {len(cases())} (onnx {onnx.__version__}, onnxruntime "
        f"{onnxruntime.__version__}) go from ONNX to MDF, through a JSON file, run with the values and "
        "dtypes that the tests ask for, and are exported with "
        "the same operators, attributes, names and opset.",
        "",
        "| fails | where | why |",
        "|---|---|---|",
    ]
    for name, found in failing.items():
        text = found[0].replace("|", "/")
        lines.append(f"| {name} | {text[:120]} | {reason(name)} |")
    return lines


def corpus() -> list[str]:
    """Return the lines on other people's models, none where they are not there."""
    failing = {}
    for entry in MODELS:
        with tempfile.TemporaryDirectory() as folder:
            try:
                through_everything(entry, Path(folder))
            except Exception as error:  # whatever goes wrong is what the page is about
                failing[entry["name"]] = str(error).strip().splitlines()[0]
    if not MODELS:
        return []
    lines = [
        "",
        "## Models of exporters",
        "",
        f"{len(MODELS) - len(failing)} of {len(MODELS)} models with scatters and gathers, made by the "
        "exporters of PyTorch, TensorFlow, Paddle and others, are read, saved as YAML and JSON, read "
        "again, run, exported, and run in onnxruntime with the expected values.",
    ]
    return lines + [f"- {name}: {text}" for name, text in failing.items()]


def gradients() -> list[str]:
    """Return the lines on gradients against central differences."""
    lines = [
        "",
        "## Gradients",
        "",
        "The gradient graph of the sum of a model's outputs, with respect to all floating-point inputs and "
        "parameters, is exported and passes onnx's check, runs, and is held, in float64, against central "
        "differences along three random directions, to 1e-3.",
        "",
        "| models | right | nothing to differentiate | refused | else |",
        "|---|---:|---:|---:|---:|",
    ]
    notes = []
    models = {
        "ONNX's node tests": {name: test_outcome(name) for name in cases()},
        "models of exporters": {entry["name"]: model_outcome(entry) for entry in MODELS},
    }
    for kind, found in models.items():
        nothing = [name for name, text in found.items() if text.removeprefix("without: ") in NOTHING]
        refused = {name: text for name, text in found.items() if "without: " in text and name not in nothing}
        right = sum(text == "right" for text in found.values())
        left = {name: text for name, text in found.items() if text != "right" and "without: " not in text}
        counts = (right, len(nothing), len(refused), len(left))
        lines.append(f"| {len(found)} {kind} | {' | '.join(map(str, counts))} |")
        operators = sorted({match[1] for text in refused.values() if (match := OPERATOR.match(text))})
        if operators:
            notes.append(f"- {kind}, refused at least in some form: {', '.join(operators)}.")
        notes += [f"- {kind}, {name}: {text[:120]}{_why(name)}" for name, text in left.items()]
    return [*lines, "", *notes]


def test_outcome(name: str) -> str:
    """Return how the gradients of one of ONNX's node tests fare."""
    case = cases()[name]
    names = [value.name for value in case.model.graph.input]
    return _outcome(case.model, dict(zip(names, map(plain, case.data_sets[0][0]), strict=False)))


def model_outcome(entry: dict[str, Any]) -> str:
    """Return how the gradients of a model of an exporter fare."""
    return _outcome(onnx.load(CORPUS / entry["model"]), arrays(entry["inputs"]))


def _outcome(model: onnx.ModelProto, inputs: dict[str, Any]) -> str:
    try:
        return outcome(model, inputs)
    except Exception as error:  # whatever goes wrong is what the page is about
        return (str(error).strip() or type(error).__name__).splitlines()[0]


def _why(name: str) -> str:
    short = name.removeprefix("test_")
    return next((f" ({reason})" for start, reason in EXCEPTIONS.items() if short.startswith(start)), "")


def main() -> None:
    """Write the page."""
    lines = ["# Conformance", "", "Written by `python benchmarks/conformance.py`.", ""]
    lines += [*suite(), *corpus(), *gradients()]
    (ROOT / "docs" / "conformance.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
