"""Commands that draw models, and read them from pictures."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mdf_scatter.cli.app import EmbedOption, InputOption, ModelFile, ThemeOption, app, require_writable


@app.command()
def draw(
    model: ModelFile,
    output: Annotated[Path, typer.Option("-o", "--output", help="A .svg, .png, .pdf, .html or .gv file.")],
    theme: ThemeOption = "light",
    depth: Annotated[int | None, typer.Option(help="Levels of subgraphs to draw; 0 folds them all.")] = None,
    values: Annotated[bool, typer.Option("--values", help="Run the model and draw its values.")] = False,
    input_: InputOption = None,
    no_embed: Annotated[bool, typer.Option("--no-embed", help="Leave the model out of the picture.")] = False,
) -> None:
    """Draw a model as a block diagram, or a page, that holds it."""
    import mdf_scatter
    from mdf_scatter.array_files import read_inputs
    from mdf_scatter.drawing.page import drawn_page
    from mdf_scatter.drawing.style import require_theme

    require_theme(theme)
    suffix = output.suffix.lower()
    require_writable(output, [".svg", ".png", ".pdf", ".html", ".gv", ".dot"])
    loaded = mdf_scatter.load(model)
    results = mdf_scatter.run(loaded, read_inputs(input_)) if values or input_ else None
    if suffix == ".html":
        picture = drawn_page(loaded, depth=depth, values=results).encode()
    else:
        diagram = mdf_scatter.draw(loaded, theme=theme, depth=depth, values=results)  # type: ignore[arg-type]
        if suffix in (".gv", ".dot"):
            diagram.save(output)
            print(f"{output}: drawn, without the model")
            return
        from mdf_scatter.drawing.embed import drawn
        from mdf_scatter.drawing.render import boxes_in_png

        picture = drawn(diagram, suffix)
        boxes = boxes_in_png(diagram.svg) if suffix != ".svg" else ""
        if boxes:
            lacking = f"has boxes for letters that its font lacks, {boxes[:20]!r}"
            print(f"{output}: {lacking}; .svg and .html have none")
    if no_embed:
        output.write_bytes(picture)
    else:
        mdf_scatter.save(loaded, output, picture=picture)
    print(f"{output}: drawn, {'without' if no_embed else 'with'} the model")


@app.command()
def extract(
    picture: Annotated[Path, typer.Argument(help="A .png, .svg, .pdf or .html file that holds a model.")],
    output: Annotated[Path, typer.Option("-o", "--output", help="The model's file: .yaml, .json, .onnx ...")],
    accept_changed: Annotated[
        bool, typer.Option("--accept-changed", help="Also where the drawing was changed.")
    ] = False,
    embed: EmbedOption = False,
) -> None:
    """Write the model that a picture holds."""
    import mdf_scatter

    mdf_scatter.save(mdf_scatter.extract(picture, accept_changed=accept_changed), output, embed=embed)
    print(f"{output}: the model of {picture}")


@app.command()
def explain(
    model: ModelFile,
    node: Annotated[str, typer.Option("--node", help="Name of a scatter or gather node.")],
    output: Annotated[Path | None, typer.Option("-o", "--output", help="A .svg or .png file.")] = None,
    theme: ThemeOption = "light",
    input_: InputOption = None,
) -> None:
    """Say, and draw cell by cell, what a node does with its values."""
    import mdf_scatter
    from mdf_scatter.array_files import read_inputs
    from mdf_scatter.drawing.cells.node import explain_node

    require_writable(output, [".svg", ".png"])
    picture = explain_node(mdf_scatter.load(model), node, read_inputs(input_), theme=theme)
    print(picture.alt)
    if output is not None:
        picture.save(output)
        print(f"{output}: drawn")
