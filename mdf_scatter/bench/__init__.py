"""Ours beside its peers: the same arrays, in turns, medians, and every answer checked.

A ratio is ours over the other's: under 1 ours is faster. The memory floor is the time in which the bytes
that must move can be copied.
"""

from __future__ import annotations

import os
import platform
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from mdf_scatter.bench import peers
from mdf_scatter.bench.workloads import WORKLOADS, Inputs, Workload, floor_bytes
from mdf_scatter.kernels.rows import copy
from mdf_scatter.kernels.threads import num_threads, set_num_threads
from mdf_scatter.ops import OPS
from mdf_scatter.ops.scatter_nd import scatter_nd
from mdf_scatter.ops.vjp import vjp

Array = npt.NDArray[Any]
Call = Callable[..., Any]

OURS, ALONE = "ours", "ours, one thread"
PEERS = ("numpy", "onnxruntime", "torch", "jax", "tensorflow")

PAUSE = 0.05
"""Seconds of rest before each measurement: threads of the one before may still spin, waiting for work."""

TRIES = 3
"""Answers that are checked of each: threads that race may be right by luck."""

SHORT = 1e-3
"""Seconds below which a call is repeated for one measurement."""


@dataclass(frozen=True)
class Row:
    """What was measured of one workload.

    Attributes:
        workload: The workload.
        seconds: Median time of a call, by whose it is.
        wrong: Whose answer is not right.
        floor: Seconds that the memory needs at least.
    """

    workload: Workload
    seconds: dict[str, float]
    wrong: frozenset[str]
    floor: float

    def ratio(self, other: str) -> float | None:
        """Return the time of ours over that of another, None where it has none."""
        return self.seconds[OURS] / self.seconds[other] if other in self.seconds else None


def measure(workloads: Iterable[Workload] = WORKLOADS, *, rounds: int = 7) -> Iterator[Row]:
    """Measure workloads, one after the other.

    Args:
        workloads: What is measured.
        rounds: How often each call is timed; all calls of a workload take turns.

    Yields:
        A row for each workload, when it is done.
    """
    bandwidth = copy_bandwidth()
    for workload in workloads:
        inputs = workload.make(np.random.default_rng(1))
        calls = _calls(workload, inputs)
        wrong = _wrong(workload, inputs, calls)
        repeats = {whose: _repeats(call) for whose, call in calls.items()}
        times: dict[str, list[float]] = {whose: [] for whose in calls}
        for _ in range(rounds):
            for whose, call in calls.items():
                time.sleep(PAUSE)
                times[whose].append(_time(call, repeats[whose]))
        seconds = {whose: statistics.median(values) for whose, values in times.items()}
        yield Row(workload, seconds, wrong, floor_bytes(workload, inputs) / bandwidth)


def copy_bandwidth(rounds: int = 9) -> float:
    """Return bytes a second that a copy of a large array moves, read and written, with all threads."""
    source = np.ones(1 << 25, np.float32)
    target = np.empty_like(source)
    return 2 * source.nbytes / min(_time(lambda: copy(target, source), 1) for _ in range(rounds))


def table(rows: Iterable[Row]) -> str:
    """Return rows as a Markdown table, of the peers that had an answer, and what is wrong, in words."""
    rows = list(rows)
    others = [name for name in PEERS if any(name in row.seconds for row in rows)]
    heads = ["workload", "ours, ms", *(f"/ {name}" for name in others), "2nd thread gives", "/ floor"]
    lines = [f"| {' | '.join(heads)} |", f"|---|{'---:|' * (len(heads) - 1)}"]
    for row in rows:
        ratios = [_ratio_text(row, name) for name in others]
        gain = f"{row.seconds[ALONE] / row.seconds[OURS]:.2f}" if ALONE in row.seconds else ""
        floor = f"{row.seconds[OURS] / row.floor:.2f}" if row.seconds[OURS] > SHORT else ""
        cells = [row.workload.name, f"{row.seconds[OURS] * 1e3:.4g}", *ratios, gain, floor]
        lines.append(f"| {' | '.join(cells)} |")
    lines += ["", *(_mean_text(rows, name) for name in others)]
    wrong = [f"{name} on `{row.workload.name}`" for row in rows for name in sorted(row.wrong)]
    if wrong:
        lines += ["", f"Wrong answers: {'; '.join(wrong)}."]
    return "\n".join(lines) + "\n"


def machine() -> str:
    """Return what the numbers depend on: processor, cores, versions."""
    names = ("numpy", "numba", "onnxruntime", "torch", "jax", "tensorflow")
    found = [f"{name} {_version(name)}" for name in names if _version(name)]
    python = f"Python {'.'.join(map(str, sys.version_info[:3]))}"
    return f"{_processor()}, {os.cpu_count()} cores; {python}, {', '.join(found)}"


def _calls(workload: Workload, inputs: Inputs) -> dict[str, Call]:
    ours = _our_call(workload, inputs)
    threads = num_threads()
    calls: dict[str, Call | None] = {OURS: ours}
    if threads > 1 and sum(array.nbytes for array in inputs) > 1 << 20:
        calls[ALONE] = _with_one_thread(ours, threads)
    calls["numpy"] = peers.numpy_call(workload, inputs)
    calls["onnxruntime"] = peers.onnxruntime_call(workload, inputs, threads)
    calls["torch"] = peers.torch_call(workload, inputs, threads)
    calls["jax"] = peers.jax_call(workload, inputs)
    calls["tensorflow"] = peers.tensorflow_call(workload, inputs)
    return {whose: call for whose, call in calls.items() if call is not None}


def _our_call(workload: Workload, inputs: Inputs) -> Call:
    forward, attributes = OPS[workload.op].forward, workload.attributes
    if workload.way == "fresh":
        return lambda: forward(*inputs, **attributes)
    if workload.way == "out":
        data, indices, updates = inputs
        return lambda: scatter_nd(data, indices, updates, attributes["reduction"], out=data)
    grad = np.ones_like(forward(*inputs, **attributes))
    return lambda: vjp(workload.op, grad, *inputs, **attributes)


def _with_one_thread(call: Call, threads: int) -> Call:
    def alone() -> Any:
        set_num_threads(1)
        try:
            return call()
        finally:
            set_num_threads(threads)

    return alone


def _wrong(workload: Workload, inputs: Inputs, calls: dict[str, Call]) -> frozenset[str]:
    """Return whose answers differ: ours in a bit, the others', who may add in any order, by much."""
    if workload.way == "vjp":
        return frozenset()
    wrong = set()
    before = inputs[0].copy()
    for whose, call in calls.items():
        right = peers.expected(workload, inputs)
        is_same = _is_equal if whose in (OURS, ALONE) else _is_close
        for _ in range(TRIES):
            result = np.asarray(call())
            if right is None or not is_same(result, right):
                wrong.add(whose)
            if workload.way == "out":
                inputs[0][...] = before
    return frozenset(wrong)


def _is_equal(result: Array, right: Array) -> bool:
    return result.tobytes() == right.tobytes()


def _is_close(result: Array, right: Array) -> bool:
    if right.dtype.kind in "biu":
        return bool(np.array_equal(result, right))
    is_half = right.dtype in peers.HALVES
    wide = np.complex128 if right.dtype.kind == "c" else np.float64
    return bool(np.allclose(result.astype(wide), right.astype(wide), rtol=2e-2 if is_half else 1e-3))


def _repeats(call: Call) -> int:
    return max(1, int(SHORT / max(_time(call, 1), 1e-7))) if _time(call, 1) < SHORT else 1


def _time(call: Call, repeats: int) -> float:
    start = time.perf_counter()
    for _ in range(repeats):
        call()
    return (time.perf_counter() - start) / repeats


def _ratio_text(row: Row, name: str) -> str:
    ratio = row.ratio(name)
    if ratio is None:
        return ""
    return f"{ratio:.2f} (wrong)" if name in row.wrong else f"{ratio:.2f}"


def _mean_text(rows: Iterable[Row], name: str) -> str:
    ratios = [row.ratio(name) for row in rows if row.workload.way == "fresh" and name not in row.wrong]
    known = [ratio for ratio in ratios if ratio is not None]
    if not known:
        return f"- / {name}: no right answer to a new result"
    mean = statistics.geometric_mean(known)
    return f"- / {name}, geometric mean of {len(known)} right answers to new results: {mean:.2f}"


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return ""


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
