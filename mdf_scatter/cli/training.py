"""Commands that differentiate and train models."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mdf_scatter.cli.app import EmbedOption, InputOption, ModelFile, app, counted, require_writable


@app.command()
def grad(
    model: ModelFile,
    output: Annotated[
        Path, typer.Option("-o", "--output", help="Where the gradient graph goes: .yaml, .onnx, ...")
    ],
    of: Annotated[list[str] | None, typer.Option(metavar="NAME", help="An output; all if left out.")] = None,
    wrt: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="An input or parameter; all if left out.")
    ] = None,
    embed: EmbedOption = False,
) -> None:
    """Write the model that computes another's outputs and gradients."""
    import mdf_scatter
    from mdf_scatter.formats import SUFFIXES

    require_writable(output, SUFFIXES)
    found = mdf_scatter.grad(mdf_scatter.load(model), of=of or None, wrt=wrt or None)
    mdf_scatter.save(found, output, embed=embed)
    graph = found.graphs[0]
    said = (graph.metadata or {})["gradient"]
    print(f"{output}: graph {graph.id!r}, {counted(len(graph.nodes), 'node')}")
    for name, outside in said["of"].items():
        print(f"  of {name}; its gradient from outside is {'1' if outside is None else f'input {outside}'}")
    for name, result in said["wrt"].items():
        print(f"  with respect to {name}: output {result}")
    for stop in said["stopped"]:
        print(f"  stopped at {stop['node']}: {stop['reason']}")


@app.command()
def fit(
    model: ModelFile,
    output: Annotated[Path, typer.Option("-o", "--output", help="Where the trained model goes.")],
    input_: InputOption = None,
    loss: Annotated[
        str | None, typer.Option(help="An output of rank 0, or mean_squared_error or cross_entropy.")
    ] = None,
    optimizer: Annotated[str, typer.Option(help="adam or sgd.")] = "adam",
    steps: Annotated[int, typer.Option(help="How many steps.")] = 1000,
    learning_rate: Annotated[float | None, typer.Option(help="0.001 for adam, 0.01 for sgd.")] = None,
    wrt: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="A parameter; all if left out.")
    ] = None,
    curve: Annotated[Path | None, typer.Option(help="Draw the loss: a .svg or .png file.")] = None,
    embed: EmbedOption = False,
) -> None:
    """Train a model's parameters on data, so that a loss becomes small."""
    import mdf_scatter
    from mdf_scatter.array_files import read_inputs
    from mdf_scatter.formats import SUFFIXES

    require_writable(output, SUFFIXES)
    require_writable(curve, [".svg", ".png"])
    loaded = mdf_scatter.load(model)
    trained = mdf_scatter.fit(
        loaded,
        read_inputs(input_),
        loss=loss,
        optimizer=optimizer,
        steps=steps,
        learning_rate=learning_rate,
        wrt=wrt or None,
    )
    mdf_scatter.save(loaded, output, embed=embed)
    parameters = counted(len(trained.parameters), "parameter")
    print(f"{output}: {parameters} after {counted(steps, 'step')} of {optimizer}")
    print(f"  loss: {trained.losses[0]:.6g} before, {trained.loss:.6g} after")
    for stop in trained.stops:
        print(f"  gradients stopped at {stop.node}: {stop.reason}")
    if curve is not None:
        trained.curve.save(curve)
        print(f"{curve}: drawn")
