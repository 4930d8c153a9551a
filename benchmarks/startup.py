"""What the package costs before it does anything: seconds of new processes, the best of several.

python benchmarks/startup.py
"""

from __future__ import annotations

import subprocess
import sys
import time

TRIES = 9
HELP = "import sys; sys.argv[1:] = ['--help']; from mdf_scatter.cli import main; main()"


def main() -> None:
    """Measure and print."""
    numpy = best("import numpy")
    print(f"import numpy: {numpy:.2f} s")
    print(f"import mdf_scatter, beyond that: {best('import numpy, mdf_scatter') - numpy:.2f} s")
    print(f"mdf-scatter --help: {best(HELP):.2f} s")


def best(code: str) -> float:
    """Return the shortest time that a new process takes for some code."""
    times = []
    for _ in range(TRIES):
        start = time.perf_counter()
        subprocess.run([sys.executable, "-c", code], stdout=subprocess.DEVNULL, check=True)
        times.append(time.perf_counter() - start)
    return min(times)


if __name__ == "__main__":
    main()
