"""Commands that run, check and convert models."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mdf_scatter.cli.app import DIFFERENT, EmbedOption, EngineOption, InputOption, ModelFile, app, print_array

if TYPE_CHECKING:
    import numpy.typing as npt
    from modeci_mdf.mdf import Model


@app.command()
def run(
    model: ModelFile,
    input_: InputOption = None,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Write the outputs to an .npz file.")
    ] = None,
    engine: EngineOption = "auto",
    steps: Annotated[int, typer.Option(help="How many times the graph is evaluated.")] = 1,
    time_increment: Annotated[float | None, typer.Option(help="Step of time in seconds.")] = None,
    trust: Annotated[
        bool, typer.Option("--trust", help="Let modeci-mdf evaluate any text of the model as Python.")
    ] = False,
) -> None:
    """Run a model and print each output: name, type, values."""
    import mdf_scatter
    from mdf_scatter.array_files import read_inputs, write_arrays

    loaded = mdf_scatter.load(model)
    results = mdf_scatter.run(
        loaded,
        read_inputs(input_),
        engine=engine,  # type: ignore[arg-type]
        steps=steps,
        time_increment=time_increment,
        trust=trust,
    )
    for name, array in results.items():
        print_array(name, array)
    if output is not None:
        write_arrays(output, results)
        print(f"written to {output}")


@app.command()
def export(
    model: ModelFile,
    output: Annotated[Path, typer.Option("-o", "--output", help="The .onnx file to write.")],
    opset: Annotated[
        int | None, typer.Option(help="ONNX operator set; the lowest that fits if left out.")
    ] = None,
    input_: InputOption = None,
) -> None:
    """Write a model as ONNX, check it, and compare it with onnxruntime."""
    import mdf_scatter
    from mdf_scatter.array_files import read_inputs
    from mdf_scatter.errors import FormatError

    if output.suffix != ".onnx":
        raise FormatError(f"{output}: the suffix is {output.suffix!r}; expected '.onnx'")
    loaded = mdf_scatter.load(model)
    agrees, lines = exported(loaded, output, opset, read_inputs(input_))
    for line in lines:
        print(line)
    if agrees is False:
        raise typer.Exit(DIFFERENT)


@app.command(name="import")
def import_(
    model: Annotated[Path, typer.Argument(help="An .onnx file.")],
    output: Annotated[Path, typer.Option("-o", "--output", help="A .yaml, .yml, .json or .bson file.")],
    embed: EmbedOption = False,
) -> None:
    """Write an ONNX model as an MDF file."""
    import mdf_scatter

    loaded = mdf_scatter.load(model)
    mdf_scatter.save(loaded, output, embed=embed)
    graph = loaded.graphs[0]
    print(f"{output}: graph {graph.id!r}, {len(graph.nodes)} nodes, {len(graph.edges)} edges")


@app.command()
def check(model: ModelFile) -> None:
    """Say what is wrong with a model, without running it."""
    import mdf_scatter

    findings = mdf_scatter.check(mdf_scatter.load(model))
    for finding in findings:
        print(finding)
    errors = sum(finding.level == "error" for finding in findings)
    if errors:
        print(f"{model}: {errors} error{'s' * (errors > 1)}, {len(findings) - errors} warnings")
        raise typer.Exit(DIFFERENT)
    print(f"{model}: no errors, {len(findings)} warnings")


def exported(
    model: Model, output: Path, opset: int | None, given: dict[str, npt.NDArray[Any]]
) -> tuple[bool | None, list[str]]:
    """Write a model as ONNX; return whether onnxruntime agrees, None where that is open, and what to say."""
    import mdf_scatter
    from mdf_scatter.errors import InputError
    from mdf_scatter.inputs import checked_inputs
    from mdf_scatter.verify import against_onnxruntime, example_inputs
    from mdf_scatter.wiring import sole_graph

    proto = mdf_scatter.to_onnx(model, opset=opset)
    output.write_bytes(proto.SerializeToString())
    version = next(item.version for item in proto.opset_import if item.domain == "")
    nodes = len(proto.graph.node)
    lines = [f"{output}: opset {version}, {nodes} node{'s' * (nodes != 1)}, passes onnx's full check"]
    try:
        inputs = checked_inputs(sole_graph(model), example_inputs(sole_graph(model), given))
    except InputError as error:
        return None, [*lines, f"not compared with onnxruntime: {error}"]
    comparison = against_onnxruntime(proto, inputs, mdf_scatter.run(model, inputs))
    return comparison.agrees, [*lines, comparison.message]
