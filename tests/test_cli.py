"""The command line, from the outside."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest

import mdf_scatter
from mdf_scatter.examples import example_files

ELEMENTS = next(path for path in example_files() if path.name == "scatter_nd_elements.yaml")


def command(*arguments: object, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", "from mdf_scatter.cli import main; main()", *map(str, arguments)],
        capture_output=True,
        text=True,
        cwd=cwd,
        timeout=120,
        check=False,
    )


def test_run_prints_name_type_and_values() -> None:
    done = command("run", ELEMENTS)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "output: float32[8]\n[ 1., 11.,  3., 10.,  9.,  6.,  7., 12.]\n"


def test_run_takes_inputs_from_files_and_writes_outputs(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.zeros(8, np.float32))
    np.savez(tmp_path / "b.npz", updates=np.full(4, 5, np.float32))
    done = command(
        "run", ELEMENTS, "-i", "data=a.npy", "-i", "b.npz", "-o", "out.npz", "--engine", "onnx", cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    assert np.load(tmp_path / "out.npz")["output"].tolist() == [0, 5, 0, 5, 5, 0, 0, 5]


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("data=missing.npy", "'missing.npy' is not a readable .npy or .npz file"),
        ("missing.npy", "'missing.npy' is not a readable .npy or .npz file"),
        ("a.npy", "which input is it? write -i NAME=a.npy"),
        ("data=b.npz", "'b.npz' holds updates; write -i b.npz"),
        ("data=pickled.npy", "'pickled.npy' is not a readable .npy or .npz file"),
        ("sink=a.npy", "has no input 'sink'"),
    ],
)
def test_wrong_inputs_are_one_line(tmp_path: Path, option: str, message: str) -> None:
    np.save(tmp_path / "a.npy", np.zeros(8, np.float32))
    np.savez(tmp_path / "b.npz", updates=np.full(4, 5, np.float32))
    np.save(tmp_path / "pickled.npy", np.array([{}]), allow_pickle=True)
    done = command("run", ELEMENTS, "-i", option, cwd=tmp_path)
    assert done.returncode == 2
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert line.startswith("mdf-scatter: ")
    assert message in line


def test_export_checks_and_compares_with_onnxruntime(tmp_path: Path) -> None:
    done = command("export", ELEMENTS, "-o", tmp_path / "m.onnx")
    assert done.returncode == 0, done.stderr
    first, second = done.stdout.splitlines()
    assert first.endswith("m.onnx: opset 11, 1 node, passes onnx's full check")
    assert second.endswith(" gives the same")
    onnx.checker.check_model(onnx.load(tmp_path / "m.onnx"), full_check=True)
    done = command("export", ELEMENTS, "-o", tmp_path / "m.txt")
    assert done.returncode == 2
    assert done.stderr.endswith("m.txt: the suffix is '.txt'; expected '.onnx'\n")


def test_import_draw_and_check(tmp_path: Path) -> None:
    command("export", ELEMENTS, "-o", tmp_path / "m.onnx", "--opset", 18)
    done = command("import", tmp_path / "m.onnx", "-o", tmp_path / "m.yaml")
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("m.yaml: graph 'scatter_nd_elements', 1 nodes, 0 edges\n")
    assert mdf_scatter.run(mdf_scatter.load(tmp_path / "m.yaml"))["output"].tolist()[1] == 11
    for suffix, magic in ((".svg", b"<svg "), (".png", b"\x89PNG")):
        done = command("draw", tmp_path / "m.yaml", "-o", tmp_path / f"m{suffix}")
        assert done.returncode == 0, done.stderr
        assert (tmp_path / f"m{suffix}").read_bytes().startswith(magic)
    done = command("check", tmp_path / "m.yaml")
    assert done.returncode == 0
    assert done.stdout.endswith("m.yaml: no errors, 0 warnings\n")


@pytest.mark.parametrize("suffix", [".svg", ".png", ".pdf", ".html"])
def test_a_picture_holds_its_model(tmp_path: Path, suffix: str) -> None:
    picture = tmp_path / f"m.mdf{suffix}"
    done = command("draw", ELEMENTS, "-o", picture, "--values")
    assert done.stdout == f"{picture}: drawn, with the model\n", done.stderr
    assert command("run", picture).stdout == command("run", ELEMENTS).stdout
    done = command("extract", picture, "-o", tmp_path / "m.yaml")
    assert done.stdout == f"{tmp_path / 'm.yaml'}: the model of {picture}\n", done.stderr
    assert mdf_scatter.load(tmp_path / "m.yaml").to_dict() == mdf_scatter.load(ELEMENTS).to_dict()
    done = command("draw", ELEMENTS, "-o", picture, "--no-embed")
    assert done.stdout == f"{picture}: drawn, without the model\n", done.stderr
    assert command("run", picture).returncode == 2


def test_explain_says_and_draws_what_a_node_does(tmp_path: Path) -> None:
    done = command("explain", ELEMENTS, "--node", "scatter_1", "-o", tmp_path / "cells.svg")
    assert done.returncode == 0, done.stderr
    assert "update 0 (9) goes to element 4" in done.stdout
    assert (tmp_path / "cells.svg").read_bytes().startswith(b"<svg ")
    done = command("explain", ELEMENTS, "--node", "scatter_2")
    assert done.returncode == 2
    assert "scatter_1" in done.stderr


def test_trust_is_asked_for_on_the_command_line(tmp_path: Path) -> None:
    text = ELEMENTS.read_text().replace("value: scatter,", "value: 'scatter.copy()',")
    (tmp_path / "m.yaml").write_text(text)
    assert command("run", tmp_path / "m.yaml").returncode == 2
    done = command("run", tmp_path / "m.yaml", "--trust", "--engine", "mdf")
    assert done.stdout == command("run", ELEMENTS).stdout, done.stderr


def test_check_lists_findings_and_fails_on_errors(tmp_path: Path) -> None:
    (tmp_path / "m.yaml").write_text(
        ELEMENTS.read_text().replace("function: ScatterND", "function: ScaterND")
    )
    done = command("check", tmp_path / "m.yaml")
    assert done.returncode == 1
    assert "did you mean 'ScatterND'?" in done.stdout
    assert done.stdout.splitlines()[-1].endswith("m.yaml: 1 error, 0 warnings")


def test_demo_runs_exports_and_draws_every_graph(tmp_path: Path) -> None:
    done = command("demo", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "DIFFER" not in done.stdout
    files = example_files()
    assert done.stdout.splitlines()[-1] == (
        f"{len(files)} graphs run, exported and drawn; the files are in {tmp_path / 'mdf-scatter-demo'}"
    )
    made = {path.name for path in (tmp_path / "mdf-scatter-demo").iterdir()}
    stems = {path.stem for path in files}
    assert made == {f"{stem}{suffix}" for stem in stems for suffix in (".onnx", ".svg", ".png")}


def test_debug_shows_the_traceback(tmp_path: Path) -> None:
    assert "Traceback" not in command("run", "missing.yaml").stderr
    assert "Traceback" in command("--debug", "run", "missing.yaml").stderr
    assert "Traceback" in command("run", "missing.yaml", "--debug").stderr


def test_wrong_usage_is_exit_code_2() -> None:
    assert command("run").returncode == 2
    assert command("fly").returncode == 2
    done = command("run", ELEMENTS, "--engine", "warp")
    assert done.returncode == 2
    assert done.stderr == "mdf-scatter: engine is 'warp'; expected 'auto', 'onnx' or 'mdf'\n"


def test_help_imports_nothing_slow() -> None:
    code = (
        "import sys; sys.argv = ['mdf-scatter', '--help']\n"
        "from mdf_scatter.cli import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "slow = {'numpy', 'onnx', 'onnx_ir', 'onnxruntime', 'modeci_mdf', 'numba'} & set(sys.modules)\n"
        "sys.exit(f'imported {slow}' if slow else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("empty.yaml", b"", "is empty"),
        ("cut.json", b'{"m": {"graphs": {"g": {"nodes"', "line 1"),
        ("notyaml.yaml", b"a: [1, 2\nb: }", "line 2"),
        ("tag.yaml", b"m: !!python/object/apply:os.system ['true']", "line 1"),
        ("number.yaml", b"5", "expected a mapping"),
        ("list.json", b"[1, 2]", "expected a mapping"),
        ("binary.yaml", bytes(range(256)) * 10, ""),
        ("cut.bson", b"\x20\x00\x00\x00\x03", ""),
        ("cut.onnx", b"\x08\x07\x12\xff\xff", ""),
        ("bomb.yaml", b"a: &a [1,1,1,1,1,1,1,1,1]\n" + b"".join(
            f"x{i}: &{chr(98 + i)} [{','.join(['*' + chr(97 + i)] * 9)}]\n".encode() for i in range(12)
        ), ""),
        ("deep.json", b"[" * 100_000, ""),
        ("model.txt", b"m: {graphs: {}}", "'.txt'"),
    ],
)  # fmt: skip
def test_a_wrong_file_is_one_line_and_exit_code_2(
    tmp_path: Path, name: str, content: bytes, says: str
) -> None:
    (tmp_path / name).write_bytes(content)
    for order in ("run", "check"):
        done = command(order, tmp_path / name)
        assert done.returncode == 2, done.stdout + done.stderr
        (line,) = done.stderr.splitlines()
        assert line.startswith("mdf-scatter: ")
        assert name in line
        assert says in line
        assert len(line) < 500


def test_a_directory_is_not_a_model(tmp_path: Path) -> None:
    (tmp_path / "folder.yaml").mkdir()
    done = command("run", tmp_path / "folder.yaml")
    assert done.returncode == 2
    assert done.stderr.endswith("folder.yaml: is a directory; expected a model file\n")
