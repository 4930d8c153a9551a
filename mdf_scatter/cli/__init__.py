"""The command line, `mdf-scatter run | export | import | check | draw | ... | demo`; only it prints.

What is wrong with a file or an argument is one line and exit code 2; findings of `check` that are errors, and
results that differ, are exit code 1.
"""

from __future__ import annotations

# In this order the help lists their commands.
from mdf_scatter.cli import models, pictures, training, showing  # isort: skip
from mdf_scatter.cli.app import app, main

__all__ = ["app", "main", "models", "pictures", "showing", "training"]
