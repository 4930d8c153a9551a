"""A sign that work goes on, for work that takes longer than a moment."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

DELAY = 1.0
"""Seconds that work may take before anything is shown."""

_open: list[Any] = []
"""The bars that stand, or will; a terminal has room for one, so work inside work becomes a line of it."""


@contextmanager
def working(what: str) -> Iterator[None]:
    """Show a moving bar on the terminal while the block runs, once it has run for a second.

    Nothing is shown where standard error is not a terminal, so that logs and pipes stay clean.

    Args:
        what: What is being done.
    """
    if not sys.stderr.isatty():
        yield
        return
    with _bar() as bar:
        task = bar.add_task(what, total=None)
        yield
        bar.remove_task(task)


@contextmanager
def stepping(what: str, steps: int, *, shown: bool = True) -> Iterator[Callable[[str], None]]:
    """Show a bar that fills step by step, as `working` does.

    Args:
        what: What is being done.
        steps: How many steps it takes.
        shown: Whether it is shown at all.

    Yields:
        A function that is called after each step, with what is to stand beside the bar.
    """
    if not shown or not sys.stderr.isatty():
        yield lambda text: None
        return
    with _bar() as bar:
        task = bar.add_task(what, total=steps)
        yield lambda text: bar.update(task, advance=1, description=f"{what}: {text}")
        bar.remove_task(task)


@contextmanager
def _bar() -> Iterator[Any]:
    if _open:
        yield _open[-1]
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=Console(stderr=True),
        transient=True,
        # Results are printed while the bar may stand; they belong to standard output.
        redirect_stdout=False,
        redirect_stderr=False,
    )
    _open.append(bar)
    timer = threading.Timer(DELAY, bar.start)
    timer.daemon = True
    timer.start()
    try:
        yield bar
    finally:
        timer.cancel()
        # The timer may be starting the bar just now.
        timer.join()
        bar.stop()
        _open.remove(bar)
