"""README, tutorial, examples and pictures say what the code does now."""

from __future__ import annotations

import doctest
import importlib.util
import re
from pathlib import Path

import numpy as np
import pytest

import mdf_scatter
from mdf_scatter.examples import example_files, expected_outputs, same_outputs

ROOT = Path(__file__).parents[1]
FILES = example_files()


@pytest.fixture
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.usefixtures("_elsewhere")
@pytest.mark.parametrize(
    "page", ["tutorial", "training", "onnx", "pytorch", "tensorflow", "paddle", "labview"]
)
def test_the_pages_run(page: str) -> None:
    result = doctest.testfile(str(ROOT / "docs" / f"{page}.md"), module_relative=False)
    assert result.attempted >= 3
    assert result.failed == 0


@pytest.mark.parametrize("page", ["onnx", "pytorch", "tensorflow", "paddle", "labview"])
def test_a_page_for_users_of_another_system_is_one_screen(page: str) -> None:
    text = (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 50
    assert "pictures/" in text


@pytest.mark.usefixtures("_elsewhere")
def test_the_readmes_example_runs(capsys: pytest.CaptureFixture[str]) -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    exec(code, {})
    assert capsys.readouterr().out == "[0. 2. 0. 1.]\n"
    assert "It prints `[0. 2. 0. 1.]`" in text
    assert Path("counts.svg").exists()


def test_links_in_the_documentation_lead_somewhere() -> None:
    for page in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]:
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_every_example_graph_gives_what_stands_beside_it(path: Path) -> None:
    model = mdf_scatter.load(path)
    assert not [finding for finding in mdf_scatter.check(model) if finding.level == "error"]
    expected = expected_outputs(path)
    assert same_outputs(mdf_scatter.run(model, engine="onnx"), expected)
    if path.suffix != ".onnx":
        assert same_outputs(mdf_scatter.run(model, engine="mdf"), expected)
    assert same_outputs(mdf_scatter.run(mdf_scatter.from_onnx(mdf_scatter.to_onnx(model))), expected)


def test_what_is_generated_is_current() -> None:
    spec = importlib.util.spec_from_file_location("generate", ROOT / "docs" / "generate.py")
    generate = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(generate)
    generated = generate.generated()
    for path, content in generated.items():
        assert path.read_text(encoding="utf-8") == content, f"{path.name}: run python docs/generate.py"
    assert {*(ROOT / "docs" / "pictures").iterdir()} == {p for p in generated if p.suffix == ".svg"}
    assert len(FILES) <= sum(path.suffix == ".svg" for path in generated)


def test_the_readmes_table_holds_for_our_side() -> None:
    data, indices = np.arange(1, 9), np.array([[4], [3], [1], [4]])
    updates = np.arange(9, 13)
    for dtype in (np.int32, np.float16, np.float64):
        result = mdf_scatter.scatter_nd(data.astype(dtype), indices, updates.astype(dtype), "add")
        assert result.dtype == dtype
        assert result.tolist() == [1, 13, 3, 14, 26, 6, 7, 8]
