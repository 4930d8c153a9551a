"""Machine code of loops: what it computes, where it is kept, and when it is compiled anew."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from mdf_scatter.kernels import machine
from mdf_scatter.kernels.machine import Machine

pytest.importorskip("numba")

LOOPS = """
import numpy as np

def reverse(out, data):
    for number in range(len(data)):
        out[number] = data[len(data) - 1 - number]

def add(out, number, vector, table, cube, place):
    for row in range(table.shape[0]):
        line = cube[place, row]
        for column in range(table.shape[1]):
            out[row, column] = number[()] + vector[column] + table[row, column] + line[column]

def measure(data):
    return data.shape[0] * 100 + data.shape[1]

def is_larger(first, second):
    return first > second

def count(data):
    return np.uint32(len(data))

def walk(number, steps):
    for _ in range(steps):
        number = number // 2 if number % 2 == 0 else 3 * number + 1
    return number

def square(out, factor, first, last):
    for number in range(first, last):
        out[number] += factor * number * number
    return 1 << (first & 1)

def allocate(size):
    return len(np.empty(size))

def divide(first, second):
    if second == 0:
        raise ZeroDivisionError("no")
    return first // second
"""
TRIAL = ("first.square", (np.zeros(0, np.int64), 3))
DTYPES = ["bool", "i1", "i4", "i8", "u2", "u8", "f4", "f8", "c8", "c16"]


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A package of loops, which all tests but those that change it share, with its code beside it."""
    folder = tmp_path_factory.mktemp("shared") / "little_loops"
    folder.mkdir()
    (folder / "__init__.py").touch()
    (folder / "first.py").write_text(LOOPS)
    return folder


@pytest.fixture(autouse=True)
def _only_these_loops(source, monkeypatch):
    monkeypatch.syspath_prepend(source.parent)
    for name in ("NUMBA_CACHE_DIR", "NUMBA_DISABLE_JIT", "NUMBA_BOUNDSCHECK", "NUMBA_OPT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(source.parent / "user"))
    yield
    forget()


@pytest.fixture
def loops(source) -> Machine:
    return little()


@pytest.fixture
def compilations(monkeypatch) -> list[str]:
    """Names of the loops that are compiled in a test."""
    names: list[str] = []
    compiled = machine.compiled

    def note(loop, kinds, *, is_shared):
        names.append(loop.__name__)
        return compiled(loop, kinds, is_shared=is_shared)

    monkeypatch.setattr(machine, "compiled", note)
    return names


def little() -> Machine:
    return Machine("little_loops", TRIAL)


def forget() -> None:
    for name in [name for name in sys.modules if name.split(".")[0] == "little_loops"]:
        del sys.modules[name]
    importlib.invalidate_caches()


def codes(folder: Path) -> list[Path]:
    return sorted(path for path in folder.glob("*.o*") if path.is_file())


def run_elsewhere(source: Path, code: str, **variables: str) -> subprocess.Popen[str]:
    lines = [f"import sys; sys.path.insert(0, {str(source.parent)!r})", "import numpy as np"]
    lines += ["from mdf_scatter.kernels.machine import Machine"]
    lines += ["loops = Machine('little_loops', ('first.square', (np.zeros(0, np.int64), 3)))", code]
    environment = {**os.environ, **variables}
    command = [sys.executable, "-c", "\n".join(lines)]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)


@pytest.mark.parametrize("dtype", DTYPES)
def test_dtypes(loops, dtype):
    data = np.arange(-5, 12).astype(dtype)
    out = np.zeros_like(data)
    assert loops.run("first.reverse", out, data) == 0
    assert out.tobytes() == data[::-1].tobytes()
    data.flags.writeable = False
    again = np.zeros_like(data)
    loops.run("first.reverse", again, data)
    assert again.tobytes() == out.tobytes()
    empty = np.zeros(0, dtype)
    assert loops.run("first.reverse", empty, empty) == 0


def test_ranks(loops):
    rng = np.random.default_rng(0)
    number, vector, table, cube = (rng.random(shape) for shape in ((), (4,), (3, 4), (2, 3, 4)))
    for place in range(2):
        out = np.zeros((3, 4))
        loops.run("first.add", out, number, vector, table, cube, place)
        np.testing.assert_array_equal(out, number + vector + table + cube[place])


@pytest.mark.parametrize("shape", [(3, 7), (0, 7), (3, 0)])
def test_shapes(loops, shape):
    assert loops.run("first.measure", np.zeros(shape, np.int8)) == shape[0] * 100 + shape[1]


def test_what_loops_return(loops):
    assert [loops.run("first.is_larger", 1, other) for other in (0, 1, -(2**63))] == [1, 0, 1]
    assert loops.run("first.count", np.zeros(9)) == 9
    assert loops.run("first.walk", -(2**62), 1) == -(2**61)
    assert loops.run("first.walk", np.int64(6), np.int64(1)) == 3


@pytest.mark.parametrize("threads", [1, 5])
@pytest.mark.parametrize(("length", "parts"), [(0, 1), (9, 1), (9, 9), (1000, 7), (1000, 300)])
def test_parts_are_each_run_once(loops, threads, length, parts):
    out, taken = np.zeros(length, np.int64), np.zeros(1, np.int64)

    def run(_: int) -> int:
        return loops.share("first.square", (out, 3), taken, length, parts)

    with ThreadPoolExecutor(threads) as pool:
        found = np.bitwise_or.reduce(list(pool.map(run, range(threads))))
    assert np.array_equal(out, 3 * np.arange(length) ** 2)
    assert taken[0] == parts + threads
    starts = {length * part // parts & 1 for part in range(parts)}
    assert found == sum(1 << odd for odd in starts)


@pytest.mark.parametrize(
    ("loop", "arguments", "begins"),
    [
        ("allocate", (3,), "loop allocate cannot be compiled: "),
        (
            "divide",
            (3, 2),
            "loop divide needs raise when it runs; expected one that raises nothing and calls only what is "
            "compiled into it",
        ),
    ],
)
def test_loops_that_need_numba_are_refused(loops, source, loop, arguments, begins):
    with pytest.raises(RuntimeError, match=f"^{begins}"):
        loops.run(f"first.{loop}", *arguments)
    assert not list((source / "__pycache__").glob(f"first.{loop}-*"))


def test_threads_compile_once(loops, compilations, source):
    for path in codes(source / "__pycache__"):
        path.unlink()
    together = threading.Barrier(8)

    def reverse(number: int) -> bool:
        data, out = np.arange(number, 70_000), np.zeros(70_000 - number, np.int64)
        together.wait()
        for _ in range(20):
            loops.run("first.reverse", out, data)
        return np.array_equal(out, data[::-1])

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(reverse, range(8)))
    assert compilations == ["reverse"]


def test_others_run_while_a_loop_does(loops):
    loops.run("first.walk", 27, 1)
    began, results = threading.Event(), []

    def walk() -> None:
        began.set()
        results.append(loops.run("first.walk", 27, 10**8))

    walker = threading.Thread(target=walk)
    walker.start()
    began.wait()
    for _ in range(1000):
        sum(range(10))
    assert not results
    walker.join()
    assert results[0] in (1, 2, 4)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_after_fork(loops):
    data = np.arange(5.0)
    out = np.zeros(5)
    loops.run("first.reverse", out, data)
    with machine._machine._lock:
        child = os.fork()
        if child == 0:
            again, others = np.zeros(5), np.zeros(5, np.float16)
            try:
                loops.run("first.reverse", again, data)
                loops.run("first.reverse", others.view(np.uint16), data.astype(np.float16).view(np.uint16))
                is_right = np.array_equal(again, out) and np.array_equal(others, out)
                os._exit(0 if is_right and not machine._machine._lock.locked() else 1)
            finally:
                os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_later_processes_do_not_import_numba(loops, source):
    data = np.arange(6, dtype=np.float32)
    loops.run("first.reverse", np.zeros_like(data), data)
    later = run_elsewhere(
        source,
        "data = np.arange(6, dtype=np.float32); out = np.zeros_like(data)\n"
        "print(loops.available(), loops.run('first.reverse', out, data), *out)\n"
        "print([name for name in ('numba', 'scipy', 'little_loops') if name in sys.modules])",
    )
    assert later.communicate()[0] == "True 0 5.0 4.0 3.0 2.0 1.0 0.0\n[]\n"


def test_processes_at_once(source, tmp_path):
    code = "print(loops.available(), loops.run('first.walk', 27, 3))"
    both = [run_elsewhere(source, code, NUMBA_CACHE_DIR=str(tmp_path)) for _ in range(2)]
    assert [process.communicate()[0] for process in both] == ["True 124\n"] * 2
    assert [path.name.split("-")[:3] for path in codes(tmp_path / "little_loops")] == [
        ["first.square", "shared", "i8x1"],
        ["first.walk", "i", "i"],
    ]


def test_code_is_used_again(source, compilations):
    for _ in range(2):
        little().run("first.walk", 5, 1)
        del compilations[1:]
    assert len(compilations) <= 1


@pytest.mark.parametrize(
    "damage",
    [
        lambda code: b"",
        lambda code: code[:100],
        lambda code: code[:-1],
        lambda code: code + b"\0",
        lambda code: code[:99] + bytes([code[99] ^ 1]) + code[100:],
    ],
    ids=["empty", "short", "cut", "long", "flipped"],
)
def test_damaged_code_is_compiled_anew(monkeypatch, tmp_path, compilations, damage):
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    assert little().run("first.walk", 5, 1) == 16
    [path] = codes(tmp_path / "little_loops")
    whole = path.read_bytes()
    path.write_bytes(damage(whole))
    for _ in range(2):
        assert little().run("first.walk", 5, 1) == 16
    assert compilations == ["walk"] * 2
    assert codes(tmp_path / "little_loops") == [path]


def test_code_under_another_name_is_not_taken(monkeypatch, tmp_path, compilations):
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    little().run("first.walk", 5, 1)
    [path] = codes(tmp_path / "little_loops")
    path.rename(path.with_name(path.name.replace("walk", "is_larger")))
    assert little().run("first.is_larger", 5, 1) == 1
    assert compilations == ["walk", "is_larger"]


def test_changed_sources_are_compiled(monkeypatch, tmp_path, compilations):
    folder = tmp_path / "path" / "little_loops"
    folder.mkdir(parents=True)
    (folder / "__init__.py").touch()
    (folder / "first.py").write_text(LOOPS)
    forget()
    monkeypatch.syspath_prepend(folder.parent)
    assert little().run("first.walk", 5, 1) == 16
    [old] = codes(folder / "__pycache__")
    elsewhere = old.with_name("first.walk-i-i-0123456789abcdef-0123456789abcdef.o")
    elsewhere.write_bytes(b"of another machine")
    (folder / "first.py").write_text(LOOPS.replace("3 * number + 1", "5 * number + 100"))
    forget()
    assert little().run("first.walk", 5, 1) == 125
    assert compilations == ["walk"] * 2
    assert not old.exists()
    new = set(codes(folder / "__pycache__")) - {elsewhere}
    assert elsewhere.exists()
    assert len(new) == 1


@pytest.mark.skipif(sys.platform in ("win32", "darwin"), reason="the user's cache directory is another")
def test_places_that_cannot_be_written(monkeypatch, tmp_path, compilations):
    folder = tmp_path / "path" / "little_loops"
    folder.mkdir(parents=True)
    (folder / "__init__.py").touch()
    (folder / "first.py").write_text(LOOPS)
    (folder / "__pycache__").touch()  # a file, so that not even an administrator can write there
    forget()
    monkeypatch.syspath_prepend(folder.parent)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "user"))
    for _ in range(2):
        assert little().run("first.walk", 5, 1) == 16
    assert compilations == ["walk"]
    assert len(codes(tmp_path / "user" / "little_loops")) == 1
    for name in ("XDG_CACHE_HOME", "NUMBA_CACHE_DIR"):
        monkeypatch.setenv(name, str(folder / "__pycache__"))
        assert little().run("first.walk", 5, 1) == 16
    assert compilations == ["walk"] * 3


@pytest.mark.parametrize(
    ("name", "value", "available"),
    [
        ("NUMBA_DISABLE_JIT", "1", False),
        ("NUMBA_DISABLE_JIT", "0", True),
        ("NUMBA_DISABLE_JIT", "", True),
        ("NUMBA_BOUNDSCHECK", "1", False),
        ("NUMBA_OPT", "0", False),
        ("NUMBA_OPT", "2", True),
    ],
)
def test_disabled(monkeypatch, loops, name, value, available):
    monkeypatch.setenv(name, value)
    assert loops.available() is available


def test_no_numba(monkeypatch, loops):
    monkeypatch.setitem(sys.modules, "numba", None)
    assert not loops.available()


@pytest.mark.parametrize(
    "error",
    [
        ImportError("Numba needs another NumPy"),
        OSError("no such library"),
        AttributeError("no such function"),
        TypeError("no such argument"),
    ],
)
def test_numba_that_cannot_compile(monkeypatch, tmp_path, error):
    def fail(*arguments, **settings):
        raise error

    little().run("first.walk", 5, 1)
    monkeypatch.setattr(machine, "compiled", fail)
    assert little().available(), "code of it is there"
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    loops = little()
    message = (
        "numba does not compile the loops of little_loops, and so NumPy does what they do, with the same "
        f"results in more time: {error}"
    )
    with pytest.warns(RuntimeWarning, match=f"^{message}$"):
        assert not loops.available()
    assert not loops.available(), "and is not told again"


def test_code_for_another_processor_has_another_name(monkeypatch, loops):
    where, sources = loops._stamp.split("-")
    monkeypatch.setattr(machine, "processor", lambda: ("another", "+fast"))
    others = little()._stamp.split("-")
    assert others[0] != where
    assert others[1] == sources


def test_constants_of_the_kernels_are_sources(monkeypatch, tmp_path):
    monkeypatch.setattr(machine, "__file__", str(tmp_path / "machine.py"))
    stamps = []
    for text in ("LINE = 64", "LINE = 128"):
        (tmp_path / "codes.py").write_text(text)
        stamps.append(little()._stamp.split("-"))
    assert stamps[0][0] == stamps[1][0]
    assert stamps[0][1] != stamps[1][1]


def test_a_full_disk_leaves_nothing(monkeypatch, tmp_path):
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))

    def fail(path, target):
        raise OSError("no space left")

    monkeypatch.setattr(Path, "replace", fail)
    assert little().run("first.walk", 5, 1) == 16
    assert list((tmp_path / "little_loops").iterdir()) == []


def test_importing_it_imports_nothing_slow():
    code = "import sys, mdf_scatter.kernels.machine; sys.exit(bool({'numba', 'llvmlite'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
