"""What holds for all tests."""

from __future__ import annotations

from hypothesis import settings

# A busy machine is no failure; what has to be fast is measured in benchmarks/.
settings.register_profile("tests", deadline=None)
settings.load_profile("tests")
