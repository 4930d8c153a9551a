"""The sign that work goes on: on a terminal, after a second, and nowhere else."""

from __future__ import annotations

import io
import time

import pytest

from mdf_scatter import progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def shown(monkeypatch: pytest.MonkeyPatch, stream: io.StringIO, seconds: float) -> str:
    monkeypatch.setattr("sys.stderr", stream)
    monkeypatch.setattr(progress, "DELAY", 0.1)
    monkeypatch.setenv("TERM", "xterm")
    with progress.working("loading"):
        time.sleep(seconds)
    return stream.getvalue()


def test_a_bar_is_shown_on_a_terminal_for_work_that_takes_long(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "loading" in shown(monkeypatch, Terminal(), 0.5)


def test_nothing_is_shown_for_short_work(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "loading" not in shown(monkeypatch, Terminal(), 0)


def test_nothing_is_shown_where_there_is_no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    assert shown(monkeypatch, io.StringIO(), 0.5) == ""
