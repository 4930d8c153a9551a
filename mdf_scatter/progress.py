"""A sign that work goes on, for work that takes longer than a moment."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

DELAY = 1.0
"""Seconds that work may take before anything is shown."""


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
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TimeElapsedColumn(),
        console=Console(stderr=True),
        transient=True,
        # Results are printed while the bar may stand; they belong to standard output.
        redirect_stdout=False,
        redirect_stderr=False,
    )
    bar.add_task(what, total=None)
    timer = threading.Timer(DELAY, bar.start)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        # The timer may be starting the bar just now.
        timer.join()
        bar.stop()
