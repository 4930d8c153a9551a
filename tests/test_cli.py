"""The command line, from the outside."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import onnx
import pytest

import mdf_scatter
from mdf_scatter.array_files import read_inputs
from mdf_scatter.cli.app import require_writable
from mdf_scatter.errors import FormatError, InputError, ModelError
from mdf_scatter.examples import example_files

ELEMENTS = next(path for path in example_files() if path.name == "scatter_nd_elements.yaml")

UNREADABLE = "is not a readable .npy or .npz file"
PICKLED = "it holds Python objects, which are not read as they can run code; expected numbers or text"
NONE_OF_NUMPYS = "is no .npy or .npz file; expected one as numpy.save or numpy.savez writes it"


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
        ("data=no.npy", "'no.npy' is not a readable .npy or .npz file: No such file or directory"),
        ("no.npz", "'no.npz' is not a readable .npy or .npz file: No such file or directory"),
        ("a.npy", "which input is it? write -i NAME=a.npy"),
        ("=a.npy", "which input is it? write -i NAME=a.npy"),
        ("data=b.npz", "'b.npz' holds updates; write -i b.npz"),
        ("data=none.npz", "'none.npz' holds no arrays; write -i none.npz"),
        ("data=pickled.npy", f"'pickled.npy' {UNREADABLE}: {PICKLED}"),
        ("pickled.npz", f"'pickled.npz' {UNREADABLE}: {PICKLED}"),
        ("cut.npz", f"'cut.npz' {UNREADABLE}: File is not a zip file"),
        ("mixed.npz", "'mixed.npz' holds 'notes.txt', which is no array; expected only arrays"),
        ("data=words.npy", f"'words.npy' {NONE_OF_NUMPYS}"),
        ("data=empty.npy", f"'empty.npy' {NONE_OF_NUMPYS}"),
        ("data=brace.npy", f"'brace.npy' {UNREADABLE}: "),
    ],
)
def test_arrays_that_are_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, option: str, message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    np.save("a.npy", np.zeros(8, np.float32))
    np.savez("b.npz", updates=np.full(4, 5, np.float32))
    np.savez("none.npz")
    np.save("pickled.npy", np.array([{}]), allow_pickle=True)
    np.savez("pickled.npz", data=np.array([{}]))
    with zipfile.ZipFile("mixed.npz", "w") as archive:
        archive.write("a.npy", "data.npy")
        archive.writestr("notes.txt", "what the arrays are")
    Path("cut.npz").write_bytes(Path("b.npz").read_bytes()[:40])
    Path("words.npy").write_text("1 2 3\n")
    Path("empty.npy").touch()
    Path("brace.npy").write_bytes(Path("a.npy").read_bytes().replace(b"}", b" "))
    with pytest.raises(InputError) as caught:
        read_inputs([option])
    expected = f"-i {option}: {message}"
    found = str(caught.value)
    assert found == expected or (expected.endswith(": ") and found.startswith(expected))
    assert "\n" not in found


def test_a_wrong_input_is_one_line(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.zeros(8, np.float32))
    for option, message in (
        ("a.npy", "-i a.npy: which input is it? write -i NAME=a.npy"),
        (
            "sink=a.npy",
            "graph 'scatter_nd_elements' has no input 'sink'; its inputs are 'data', 'indices' or 'updates'",
        ),
    ):
        done = command("run", ELEMENTS, "-i", option, cwd=tmp_path)
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr == f"mdf-scatter: {message}\n"


def test_inputs_are_named_up_to_the_first_equals_sign_and_once(tmp_path: Path) -> None:
    path = tmp_path / "step=2.npy"
    np.save(path, np.arange(3))
    assert {name: array.tolist() for name, array in read_inputs([f"data={path}"]).items()} == {
        "data": [0, 1, 2]
    }
    with pytest.raises(InputError) as caught:
        read_inputs([f"data={path}", f"data={path}"])
    assert str(caught.value) == f"-i data={path}: input 'data' is given twice"


def test_export_checks_and_compares_with_onnxruntime(tmp_path: Path) -> None:
    done = command("export", ELEMENTS, "-o", tmp_path / "m.onnx")
    assert done.returncode == 0, done.stderr
    first, second = done.stdout.splitlines()
    assert first.endswith("m.onnx: opset 11, 1 node, passes onnx's full check")
    assert second.endswith(" gives the same")
    onnx.checker.check_model(onnx.load(tmp_path / "m.onnx"), full_check=True)
    done = command("export", ELEMENTS, "-o", tmp_path / "M.ONNX")
    assert done.returncode == 0, done.stderr
    done = command("export", ELEMENTS, "-o", tmp_path / "m.txt")
    assert done.returncode == 2
    assert done.stderr.endswith("m.txt: the suffix is '.txt'; expected '.onnx'\n")


def test_export_of_what_runs_nowhere_here(tmp_path: Path) -> None:
    text = """<ir_version: 8, opset_import: ["own": 1]>
    g (float[1] x) => (float[1] y) <float[1] x = {1}> { [magic] y = own.Magic(x) }"""
    onnx.save(onnx.parser.parse_model(text), tmp_path / "in.onnx")
    done = command("export", tmp_path / "in.onnx", "-o", tmp_path / "m.onnx")
    assert done.returncode == 0, done.stderr
    first, second = done.stdout.splitlines()
    assert first.endswith("m.onnx: opset own 1, 1 node, passes onnx's full check")
    assert second.startswith("not compared with onnxruntime: Magic 'magic': no engine here has an operator")


def test_export_of_a_wrong_model_says_what_is_wrong(tmp_path: Path) -> None:
    model = mdf_scatter.load(next(path for path in example_files() if path.name == "scatter_nd_diamond.yaml"))
    model.graphs[0].edges[0].sender = "nowhere"
    mdf_scatter.save(model, tmp_path / "m.yaml")
    done = command("export", tmp_path / "m.yaml", "-o", tmp_path / "m.onnx")
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert "sender 'nowhere' is not a node of the graph" in line
    with pytest.raises(ModelError, match="sender 'nowhere' is not a node of the graph"):
        mdf_scatter.save(model, tmp_path / "m.onnx")
    assert not (tmp_path / "m.onnx").exists()


def test_import_draw_and_check(tmp_path: Path) -> None:
    command("export", ELEMENTS, "-o", tmp_path / "m.onnx", "--opset", 18)
    done = command("import", tmp_path / "m.onnx", "-o", tmp_path / "m.yaml")
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("m.yaml: graph 'scatter_nd_elements', 1 node, 0 edges\n")
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
    text = ELEMENTS.read_text().replace("value: scatter,", "value: 'scatter.view()',")
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


@pytest.mark.parametrize("words", [["run"], ["check"], ["import", "-o", "again.yaml"]])
def test_a_model_that_may_not_be_read_is_one_line(tmp_path: Path, words: list[str]) -> None:
    path = tmp_path / "m.yaml"
    path.touch()
    code = (
        "import os, pathlib, sys\n"
        "def refuse(path): raise PermissionError(13, 'Permission denied')\n"
        "os.access, pathlib.Path.read_bytes = (lambda *_, **__: False), refuse\n"  # as for who is not root
        "from mdf_scatter.cli import main\n"
        "main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *words, path], capture_output=True, text=True, cwd=tmp_path, check=False
    )
    assert done.returncode == 2
    assert done.stderr == f"mdf-scatter: {path}: cannot be read: Permission denied\n"


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


def test_version_is_the_packages() -> None:
    done = command("--version")
    assert done.returncode == 0
    assert done.stdout == f"mdf-scatter {mdf_scatter.__version__}\n"


def test_help_says_what_each_command_does_in_full() -> None:
    commands = command("--help").stdout.partition("Commands:")[2].split("\n")
    names = [line.split()[0] for line in commands if line.strip()]
    assert names == [
        "run", "export", "import", "check", "draw", "extract", "explain", "grad", "fit", "bench", "demo"
    ]  # fmt: skip
    assert not any(line.endswith("...") for line in commands)


def test_a_shell_completes_commands() -> None:
    found = subprocess.run(
        [sys.executable, "-c", "from mdf_scatter.cli import main; main()"],
        env={
            **os.environ,
            "_MDF_SCATTER_COMPLETE": "complete_bash",
            "COMP_WORDS": "mdf-scatter ex",
            "COMP_CWORD": "1",
        },
        capture_output=True,
        text=True,
        check=True,
    )
    assert found.stdout.split() == ["export", "extract", "explain"]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("o.txt", "the suffix is '.txt'; expected '.npz'"),
        ("o", "there is no suffix; expected '.npz'"),
        ("folder.npz", "is a directory; expected a file to write"),
        ("no/o.npz", "there is no folder 'no'; make it first"),
        ("O.NPZ", None),
    ],
)
def test_files_that_can_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, message: str | None
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("folder.npz").mkdir()
    if message is None:
        require_writable(Path(name), [".npz"])
        return
    with pytest.raises(FormatError) as refused:
        require_writable(Path(name), [".npz"])
    assert str(refused.value) == f"{name}: {message}"


@pytest.mark.parametrize(
    ("order", "message"),
    [
        (["run", ELEMENTS, "-o", "o.txt"], "o.txt: the suffix is '.txt'; expected '.npz'"),
        (
            ["draw", ELEMENTS, "-o", "m.yaml"],
            "m.yaml: the suffix is '.yaml'; expected '.svg', '.png', '.pdf', '.html', '.gv' or '.dot'",
        ),
        (
            ["fit", ELEMENTS, "-o", "f.yaml", "--curve", "no/c.svg"],
            "no/c.svg: there is no folder 'no'; make it first",
        ),
    ],
)
def test_a_file_that_cannot_be_written_is_refused_before_the_work(
    tmp_path: Path, order: list[object], message: str
) -> None:
    done = command(*order, cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"mdf-scatter: {message}\n")
    assert not list(tmp_path.iterdir())


def test_what_the_system_refuses_is_one_line_that_names_the_file(tmp_path: Path) -> None:
    done = command("demo", "-o", ELEMENTS, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (2, f"mdf-scatter: {ELEMENTS}: File exists\n")


def test_a_graph_without_outputs_says_so(tmp_path: Path) -> None:
    (tmp_path / "m.yaml").write_text("m: {graphs: {g: {nodes: {n: {parameters: {p: {value: 1}}}}}}}")
    done = command("run", tmp_path / "m.yaml")
    assert done.returncode == 0, done.stderr
    assert done.stdout == "the graph has no outputs: no node has an output port that no edge leaves\n"


def test_names_that_the_terminal_lacks_letters_for(tmp_path: Path) -> None:
    text = "m: {graphs: {g: {nodes: {n: {parameters: {p: {value: 1}}, output_ports: {ü: {value: p}}}}}}}"
    (tmp_path / "m.yaml").write_text(text, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-c", "from mdf_scatter.cli import main; main()", "run", tmp_path / "m.yaml"],
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
        capture_output=True,
        check=True,
    )
    assert done.stdout.splitlines()[0] == rb"\xfc: int64[]"


def test_a_reader_that_goes_away_is_no_error() -> None:
    writing = [sys.executable, "-c", "from mdf_scatter.cli import main; main()", "run", ELEMENTS]
    with subprocess.Popen(writing, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as writer:
        assert writer.stdout is not None
        assert writer.stderr is not None
        writer.stdout.close()
        assert writer.stderr.read() == b""


def test_a_theme_that_is_none_is_refused_for_a_page_too(tmp_path: Path) -> None:
    done = command("draw", ELEMENTS, "-o", tmp_path / "m.html", "--theme", "neon")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "mdf-scatter: theme is 'neon'; expected 'light' or 'dark'\n"
    assert not (tmp_path / "m.html").exists()


def test_missing_inputs_come_with_how_to_give_them(tmp_path: Path) -> None:
    text = """<ir_version: 8, opset_import: ["": 18]>
    g (float[2] x, float[2] z) => (float[2] y) { y = Add(x, z) }"""
    onnx.save(onnx.parser.parse_model(text), tmp_path / "m.onnx")
    done = command("run", tmp_path / "m.onnx")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "mdf-scatter: graph 'g' needs inputs 'x' (float32[2]), 'z' (float32[2]); "
        "give -i x=FILE.npy -i z=FILE.npy\n"
    )
    done = command("draw", tmp_path / "m.onnx", "--values", "-o", tmp_path / "m.gv")
    assert done.stderr.endswith("; give -i x=FILE.npy -i z=FILE.npy\n")
