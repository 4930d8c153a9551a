"""Building large graphs in linear time."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_lock = threading.Lock()
_pauses = 0


@contextmanager
def collector_paused() -> Iterator[None]:
    """Keep Python's cycle collector from running while the block, or the decorated function, runs.

    A graph's nodes and values refer to each other, and all of them are kept; the collector would walk them
    again and again as they become more, which costs more than building them.
    """
    global _pauses
    with _lock:
        if _pauses == 0 and not gc.isenabled():
            running = False
        else:
            running = True
            _pauses += 1
            gc.disable()
    try:
        yield
    finally:
        if running:
            with _lock:
                _pauses -= 1
                if _pauses == 0:
                    gc.enable()
