"""The same bits on every run, however many threads call at once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from mdf_scatter import scatter_elements, scatter_nd

RNG = np.random.default_rng(5)
DATA = RNG.normal(size=(40, 16)).astype(np.float32)
INDICES = RNG.integers(-40, 40, size=(3000, 1))
UPDATES = RNG.normal(size=(3000, 16)).astype(np.float32)


@pytest.mark.parametrize("threads", [1, 2, 4, 16])
@pytest.mark.parametrize("reduction", ["none", "add", "mul", "max", "min"])
def test_duplicates_give_the_same_bits_on_a_hundred_runs(threads: int, reduction: str) -> None:
    def once(_: int) -> bytes:
        by_rows = scatter_nd(DATA, INDICES, UPDATES, reduction)
        by_elements = scatter_elements(DATA, np.repeat(INDICES, 16, axis=1), UPDATES, 0, reduction)
        assert by_rows.tobytes() == by_elements.tobytes()
        return by_rows.tobytes()

    with ThreadPoolExecutor(threads) as pool:
        results = set(pool.map(once, range(100)))
    assert len(results) == 1
