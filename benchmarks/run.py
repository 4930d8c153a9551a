"""Measure ours beside its peers, show the table, and write it into docs/benchmarks.md.

    python benchmarks/run.py [WORD ...] [--rounds N]

With words, only workloads whose name has one of them are measured, and nothing is written.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from mdf_scatter.bench import machine, measure, table
from mdf_scatter.bench.workloads import WORKLOADS

PAGE = Path(__file__).parents[1] / "docs" / "benchmarks.md"

HEAD = """# Benchmarks

Times of one call; a column `/ name` is ours over the other's, so that under 1 ours is faster. Every call of
a row gets the same arrays; the calls take turns and the median counts. Our answer has to equal, bit for bit,
that of NumPy's own sequential loops (in float32 for float16 and bfloat16); the others', who may add in any
order, and gradients have to be close. `/ floor` is ours over the time in which the bytes that must move can
be copied; elements at random places cost their whole cache line in this count only where the result is
`out=data`.

Inputs of 65,536 elements and more go through loops that numba compiles, for each dtype: that takes a second
or two, once, as their machine code is kept, in NUMBA_CACHE_DIR if that is set, else beside the package, else
in the user's cache directory. A process that finds it there does not import numba. NUMBA_DISABLE_JIT=1, or no
numba, leaves all to NumPy, with the same bits. Results of 4 to 512 MB are made in memory that earlier ones
left; at most 512 MB of it is kept, and 128 MB for what goes on between.

A row of a graph is one evaluation of it, ours in a `Runner`. In onnxruntime the same graph, exported, takes
the cache as an input and gives it as an output, which is fed back; `onnxruntime, bound` has all of them bound
to memory of its own. `modeci-mdf` is a node in its own engine: with our functions registered, and with its
own.

"""


def main() -> None:
    """Run the benchmarks that the command line asks for."""
    parser = argparse.ArgumentParser(description="Measure ours beside its peers.")
    parser.add_argument("words", nargs="*", help="measure only workloads with one of these in their name")
    parser.add_argument("--rounds", type=int, default=7, help="how often each call is timed")
    options = parser.parse_args()
    chosen = [w for w in WORKLOADS if not options.words or any(word in w.name for word in options.words)]
    rows = []
    for row in measure(chosen, rounds=options.rounds):
        rows.append(row)
        sys.stderr.write(f"{row.workload.name}: {row.seconds[next(iter(row.seconds))] * 1e3:.4g} ms\n")
    text = table(rows)
    sys.stdout.write(text)
    if not options.words:
        PAGE.write_text(f"{HEAD}{machine()}.\n\n{text}", encoding="utf-8")


if __name__ == "__main__":
    main()
