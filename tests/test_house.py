"""What holds for every module of the package."""

from __future__ import annotations

import ast
import doctest
import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

import mdf_scatter

PACKAGE = Path(mdf_scatter.__file__).parent
MODULES = sorted(PACKAGE.rglob("*.py"))
LAYERS = [
    {"errors"},
    {"dtypes", "collector"},
    {"kernels", "names", "onnx_types", "signatures", "structured"},
    {"ops"},
    {"tensors", "wiring", "vocabulary", "expressions", "checking", "checks", "attributes"},
    {
        "lower",
        "lift",
        "formats",
        "node",
        "drawing",
        "plugin",
        "inputs",
        "plan",
        "segment",
        "stretches",
        "fixed",
        "buffers",
        "own_steps",
        "runner",
        "verify",
        "examples",
        "host_nodes",
        "host_onnx",
        "host_values",
        "onnx_plugin",
        "evaluator_ops",
        "operator_node",
        "array_files",
        "progress",
        "bench",
        "gradient",
        "training",
    },
    {"cli"},
]
RANK = {name: rank for rank, names in enumerate(LAYERS) for name in names}


def name_of(path: Path) -> str:
    return ".".join(path.relative_to(PACKAGE).with_suffix("").parts).removesuffix(".__init__")


def module_of(path: Path) -> str:
    return f"mdf_scatter.{name_of(path)}".removesuffix(".__init__")


def imports(tree: ast.AST) -> list[str]:
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            found.append(node.module or "")
            found += [f"{node.module}.{alias.name}" for alias in node.names]
    return found


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_modules_are_small_and_safe(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    tree = ast.parse(text)
    assert len(text.splitlines()) <= 330, "a module is read in one sitting; split it"
    calls = {
        node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
    }
    assert not calls & {"eval", "exec", "compile"} - ({"compile"} if "import re\n" in text else set())
    assert "print" not in calls or path.parent.name == "cli"
    assert not [node for node in ast.walk(tree) if isinstance(node, ast.Assert)]
    assert "pickle" not in imports(tree)


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_imports_point_one_way(path: Path) -> None:
    own = name_of(path).split(".")[0]
    if own == "__init__":
        return
    for imported in imports(ast.parse(path.read_text(encoding="utf-8"))):
        parts = imported.split(".")
        if parts[0] == "mdf_scatter" and len(parts) > 1 and parts[1] in RANK and parts[1] != own:
            assert RANK[parts[1]] <= RANK[own], f"{own} imports {imported}"


def test_only_the_plugin_touches_private_parts_of_modeci_mdf() -> None:
    private = "modeci_mdf.execution_engine"
    users = {
        name_of(path)
        for path in MODULES
        if any(name.startswith(private) for name in imports(ast.parse(path.read_text(encoding="utf-8"))))
        or "from modeci_mdf import execution_engine" in path.read_text(encoding="utf-8")
    }
    assert users <= {"plugin", "runner", "bench.graphs"}


def test_public_names() -> None:
    assert len(set(mdf_scatter.__all__)) == len(mdf_scatter.__all__)
    for name in mdf_scatter.__all__:
        value = getattr(mdf_scatter, name)
        assert name == "OPS" or value.__doc__, name
    assert set(dir(mdf_scatter)) == {*mdf_scatter.__all__, "__version__"}
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        mdf_scatter.nothing  # noqa: B018


def test_importing_the_package_imports_nothing_slow() -> None:
    code = "import sys, mdf_scatter; sys.exit(int('numpy' in sys.modules or 'modeci_mdf' in sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_examples_in_docstrings(path: Path) -> None:
    if ">>>" not in path.read_text(encoding="utf-8"):
        return
    module = importlib.import_module(module_of(path))
    result = doctest.testmod(module, optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS)
    assert result.failed == 0


def test_no_word_of_where_or_how_it_is_made() -> None:
    root = Path(__file__).parents[1]
    if not (root / "pyproject.toml").exists():
        return
    listed = subprocess.run(["git", "ls-files"], cwd=root, capture_output=True, text=True, check=False).stdout
    for name in listed.split():
        path = root / name
        if path.suffix in (".py", ".md", ".toml", ".yaml") and path.name != "test_house.py":
            text = path.read_text(encoding="utf-8")
            assert not re.search(r"/work/|/opt/venv|/root/|\bTODO\b|\bFIXME\b", text), name
