"""The graphs of the benchmarks: everybody's answer is the same."""

from __future__ import annotations

import numpy as np
import pytest

from mdf_scatter.bench import graphs, measure, table
from mdf_scatter.bench.graphs import BOUND, GRAPHS, HOST, ONNXRUNTIME, OURS, Contest, GraphWorkload


def test_a_cache_says_the_same_step_after_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graphs, "CACHE", 1 << 14)
    monkeypatch.setattr(graphs, "STEPS", 2)
    contest = graphs.cache_contest(np.random.default_rng(0))
    assert list(contest.calls) == [OURS, ONNXRUNTIME, BOUND]
    for whose, call in contest.calls.items():
        results = [call() for _ in range(3)]
        assert all(contest.is_right(whose, result) for result in results)
        assert not contest.is_right(whose, results[0] + 1)


def test_a_node_says_the_same_in_modeci_mdfs_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graphs, "STEPS", 2)
    contest = graphs.node_contest(np.random.default_rng(0))
    assert list(contest.calls) == [OURS, HOST]
    assert all(contest.is_right(whose, call()) for whose, call in contest.calls.items())


def test_a_row_of_a_graph_tells_the_time_of_one_evaluation() -> None:
    contest = Contest({OURS: lambda: 1, HOST: lambda: 2}, lambda _, result: result == 1, evaluations=10)
    (row,) = measure([GraphWorkload("two", lambda rng: contest)], rounds=1)
    assert row.wrong == {HOST}
    row.seconds.update({OURS: 0.001, HOST: 0.1})
    assert table([row]).splitlines() == [
        "| workload | ours, ms | / modeci-mdf | 2nd thread gives | / floor |",
        "|---|---:|---:|---:|---:|",
        "| two | 1 | 0.01 (wrong) |  |  |",
        "",
        f"Wrong answers: {HOST} on `two`.",
    ]


@pytest.mark.slow
def test_every_graph_is_right() -> None:
    assert [row.wrong - {ONNXRUNTIME} for row in measure(GRAPHS, rounds=1)] == [frozenset()] * len(GRAPHS)
