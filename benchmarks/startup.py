"""What the package costs before it does anything: seconds of new processes, the best of several.

python benchmarks/startup.py
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time

TRIES = 9
HELP = "import sys; sys.argv[1:] = ['--help']; from mdf_scatter.cli import main; main()"
ARRAYS = """
import numpy, mdf_scatter
size = 1 << 17
data, indices = numpy.zeros(size, numpy.float32), numpy.arange(size)[:, None]
"""
CALL = "mdf_scatter.scatter_nd(data, indices, data, 'add')\n"


def main() -> None:
    """Measure and print."""
    numpy = best("import numpy")
    print(f"import numpy: {numpy:.2f} s")
    print(f"import mdf_scatter, beyond that: {best('import numpy, mdf_scatter') - numpy:.2f} s")
    print(f"mdf-scatter --help: {best(HELP):.2f} s")
    before = best(ARRAYS + "mdf_scatter.scatter_nd(data[:8], indices[:8], data[:8], 'add')\n")
    print(f"import numba: {best('import numpy, numba') - numpy:.2f} s")
    with tempfile.TemporaryDirectory() as cache:
        compiling = best(ARRAYS + CALL, tries=1, NUMBA_CACHE_DIR=cache) - before
        print(f"first large call, which compiles: {compiling:.2f} s")
        print(f"the same in later processes: {best(ARRAYS + CALL, NUMBA_CACHE_DIR=cache) - before:.2f} s")


def best(code: str, tries: int = TRIES, **environment: str) -> float:
    """Return the shortest time that a new process takes for some code."""
    times = []
    for _ in range(tries):
        start = time.perf_counter()
        subprocess.run(
            [sys.executable, "-c", code],
            stdout=subprocess.DEVNULL,
            check=True,
            env=os.environ | environment,
        )
        times.append(time.perf_counter() - start)
    return min(times)


if __name__ == "__main__":
    main()
