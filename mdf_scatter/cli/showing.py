"""Commands that show what this package does, and how fast."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mdf_scatter.cli.app import DIFFERENT, app, print_array
from mdf_scatter.cli.models import exported


@app.command()
def bench(
    words: Annotated[list[str] | None, typer.Argument(help="Only workloads with one of these words.")] = None,
    rounds: Annotated[int, typer.Option(min=1, help="How often each call is timed.")] = 5,
) -> None:
    """Measure our operators beside NumPy and onnxruntime.

    What else is installed is measured too (torch, jax, tensorflow), and every answer is checked.
    """
    from mdf_scatter.bench import machine, measure, table
    from mdf_scatter.bench.workloads import WORKLOADS
    from mdf_scatter.errors import InputError

    chosen = [load for load in WORKLOADS if not words or any(word in load.name for word in words)]
    if not chosen:
        raise InputError(f"no workload has {' or '.join(words or [])} in its name")
    print(machine())
    print(table(measure(chosen, rounds=rounds)), end="")


@app.command()
def demo(
    output: Annotated[Path, typer.Option("-o", "--output", help="The folder to write to.")] = Path(
        "mdf-scatter-demo"
    ),
) -> None:
    """Run, export and draw every example graph."""
    import mdf_scatter
    from mdf_scatter.examples import example_files, expected_outputs, same_outputs

    output.mkdir(parents=True, exist_ok=True)
    wrong = 0
    files = example_files()
    for path in files:
        model = mdf_scatter.load(path)
        results = mdf_scatter.run(model)
        right = same_outputs(results, expected_outputs(path))
        stem = path.name.split(".")[0]
        print(f"{path.name}: {'outputs as expected' if right else 'OUTPUTS DIFFER FROM WHAT IS EXPECTED'}")
        for name, array in results.items():
            print_array(name, array, indent="  ")
        agrees, lines = exported(model, output / f"{stem}.onnx", None, {})
        for line in lines:
            print(f"  {line}")
        for suffix in (".svg", ".png"):
            mdf_scatter.save(model, output / f"{stem}{suffix}")
        wrong += not right or agrees is False
    print(f"{len(files)} graphs run, exported and drawn; the files are in {output.resolve()}")
    if wrong:
        print(f"{wrong} of them gave another result than expected")
        raise typer.Exit(DIFFERENT)
