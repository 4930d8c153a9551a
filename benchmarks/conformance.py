"""Writes docs/conformance.md: how ONNX's node tests and other people's models go through MDF.

python benchmarks/conformance.py
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))

import onnx  # noqa: E402
import onnxruntime  # noqa: E402
from conformance import cases, problems  # noqa: E402
from test_corpus import MODELS, through_everything  # noqa: E402

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


def main() -> None:
    """Write the page."""
    lines = ["# Conformance", "", "Written by `python benchmarks/conformance.py`.", "", *suite(), *corpus()]
    (ROOT / "docs" / "conformance.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
