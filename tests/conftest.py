"""What holds for all tests."""

from __future__ import annotations

from hypothesis import settings

# A busy machine is no failure (what has to be fast is measured in benchmarks/), and a run is the same every
# time: examples are drawn from a fixed seed; take derandomize out to search further.
settings.register_profile("tests", deadline=None, derandomize=True)
settings.load_profile("tests")
