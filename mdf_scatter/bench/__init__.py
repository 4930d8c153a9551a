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
from mdf_scatter.bench.graphs import BOUND, HOST, NUMPY, ONNXRUNTIME, OURS, TORCH, Contest, GraphWorkload
from mdf_scatter.bench.workloads import WORKLOADS, AnyWorkload, Inputs, Workload, floor_bytes
from mdf_scatter.dtypes import HALVES
from mdf_scatter.kernels.rows import copy
from mdf_scatter.kernels.threads import num_threads, set_num_threads
from mdf_scatter.ops import OPS
from mdf_scatter.ops.scatter_nd import scatter_nd
from mdf_scatter.ops.vjp import vjp

Array = npt.NDArray[Any]
Call = Callable[..., Any]

ALONE = "ours, one thread"
PEERS = (NUMPY, ONNXRUNTIME, BOUND, TORCH, "jax", "tensorflow", HOST)

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
        seconds: Median time of a call or step, by whose it is.
        wrong: Whose answer is not right.
        floor: Seconds that the memory needs at least; 0 where that tells nothing.
    """

    workload: AnyWorkload
    seconds: dict[str, float]
    wrong: frozenset[str]
    floor: float

    def ratio(self, other: str) -> float | None:
        """Return the time of ours over that of another, None where it has none."""
        return self.seconds[OURS] / self.seconds[other] if other in self.seconds else None


def measure(workloads: Iterable[AnyWorkload] = WORKLOADS, *, rounds: int = 7) -> Iterator[Row]:
    """Measure workloads, one after the other.

    Args:
        workloads: What is measured.
        rounds: How often each call is timed; all calls of a workload take turns.

    Yields:
        A row for each workload, when it is done.
    """
    bandwidth = copy_bandwidth()
    for workload in workloads:
        rng = np.random.default_rng(1)
        contest = (
            workload.contest(rng)
            if isinstance(workload, GraphWorkload)
            else _contest(workload, workload.make(rng))
        )
        wrong = _wrong(contest)
        repeats = {whose: _repeats(call) for whose, call in contest.calls.items()}
        times: dict[str, list[float]] = {whose: [] for whose in contest.calls}
        calls = list(contest.calls.items())
        for _ in range(rounds):
            calls.reverse()  # so that none always comes after the same one, whose threads may still spin
            for whose, call in calls:
                time.sleep(PAUSE)
                times[whose].append(_time(call, repeats[whose]) / contest.evaluations)
        seconds = {whose: statistics.median(values) for whose, values in times.items()}
        yield Row(workload, seconds, wrong, contest.floor / bandwidth)


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
        floor = f"{row.seconds[OURS] / row.floor:.2f}" if row.floor and row.seconds[OURS] > SHORT else ""
        cells = [row.workload.name, f"{row.seconds[OURS] * 1e3:.4g}", *ratios, gain, floor]
        lines.append(f"| {' | '.join(cells)} |")
    means = [_mean_text(rows, name) for name in others if name not in (BOUND, HOST)]
    if means:
        lines += ["", *means]
    wrong = [f"{name} on `{row.workload.name}`" for row in rows for name in sorted(row.wrong)]
    if wrong:
        lines += ["", f"Wrong answers: {'; '.join(wrong)}."]
    return "\n".join(lines) + "\n"


def machine() -> str:
    """Return what the numbers depend on: processor, cores, versions."""
    names = ("numpy", "numba", "onnxruntime", "torch", "jax", "tensorflow", "tensorflow-cpu")
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
    grad = peers.grad_of(workload, inputs)
    return lambda: vjp(workload.op, grad, *inputs, **attributes)


def _with_one_thread(call: Call, threads: int) -> Call:
    def alone() -> Any:
        set_num_threads(1)
        try:
            return call()
        finally:
            set_num_threads(threads)

    return alone


def _contest(workload: Workload, inputs: Inputs) -> Contest:
    before = inputs[0].copy()
    right = _parts(peers.expected(workload, inputs))

    def is_right(whose: str, result: Any) -> bool:
        """Tell whether ours is right to the bit, and the others', who may add in any order, by and large."""
        is_same = _is_equal if whose in (OURS, ALONE) and workload.way != "vjp" else _is_close
        found = [np.asarray(part) for part in _parts(result)]
        is_so = len(found) == len(right) and all(map(is_same, found, right))
        if workload.way == "out":
            inputs[0][...] = before
        return is_so

    return Contest(_calls(workload, inputs), is_right, floor_bytes(workload, inputs))


def _wrong(contest: Contest) -> frozenset[str]:
    return frozenset(
        whose
        for whose, call in contest.calls.items()
        if not all(contest.is_right(whose, call()) for _ in range(TRIES))
    )


def _parts(result: Any) -> list[Any]:
    """Return a result, or the gradients that there are, as a list."""
    return [part for part in result if part is not None] if isinstance(result, tuple) else [result]


def _is_equal(result: Array, right: Array) -> bool:
    return result.tobytes() == right.tobytes()


def _is_close(result: Array, right: Array) -> bool:
    if right.dtype.kind in "biu":
        return bool(np.array_equal(result, right))
    is_half = right.dtype in HALVES
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
    text = f"{ratio:.2f}" if ratio >= 0.1 else f"{ratio:.2g}"
    return f"{text} (wrong)" if name in row.wrong else text


def _mean_text(rows: Iterable[Row], name: str) -> str:
    fresh = [row for row in rows if isinstance(row.workload, Workload) and row.workload.way == "fresh"]
    ratios = [row.ratio(name) for row in fresh if name not in row.wrong]
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
