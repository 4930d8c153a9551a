"""Commands that run, check and convert models."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mdf_scatter.cli.app import (
    DIFFERENT,
    EmbedOption,
    EngineOption,
    InputOption,
    ModelFile,
    app,
    counted,
    print_array,
    require_writable,
)

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

    require_writable(output, [".npz"])
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
    if not results:
        print("the graph has no outputs: no node has an output port that no edge leaves")
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

    require_writable(output, [".onnx"])
    loaded = mdf_scatter.load(model)
    agrees, lines = exported(loaded, output, opset, read_inputs(input_))
    for line in lines:
        print(line)
    if agrees is False:
        raise typer.Exit(DIFFERENT)


@app.command(name="import")
def import_(
    model: Annotated[Path, typer.Argument(help="An .onnx file.", readable=False)],
    output: Annotated[Path, typer.Option("-o", "--output", help="A .yaml, .yml, .json or .bson file.")],
    embed: EmbedOption = False,
) -> None:
    """Write an ONNX model as an MDF file."""
    import mdf_scatter

    loaded = mdf_scatter.load(model)
    mdf_scatter.save(loaded, output, embed=embed)
    graph = loaded.graphs[0]
    nodes, edges = counted(len(graph.nodes), "node"), counted(len(graph.edges), "edge")
    print(f"{output}: graph {graph.id!r}, {nodes}, {edges}")


@app.command()
def check(model: ModelFile) -> None:
    """Say what is wrong with a model, without running it."""
    import mdf_scatter

    findings = mdf_scatter.check(mdf_scatter.load(model))
    for finding in findings:
        print(finding)
    errors = sum(finding.level == "error" for finding in findings)
    warnings = counted(len(findings) - errors, "warning")
    print(f"{model}: {counted(errors, 'error') if errors else 'no errors'}, {warnings}")
    if errors:
        raise typer.Exit(DIFFERENT)


def exported(
    model: Model, output: Path, opset: int | None, given: dict[str, npt.NDArray[Any]]
) -> tuple[bool | None, list[str]]:
    """Write a model as ONNX; return whether onnxruntime agrees, None where that is open, and what to say."""
    import mdf_scatter
    from mdf_scatter.errors import InputError, NoEngineError
    from mdf_scatter.inputs import checked_inputs
    from mdf_scatter.verify import against_onnxruntime, example_inputs
    from mdf_scatter.wiring import sole_graph

    proto = mdf_scatter.to_onnx(model, opset=opset)
    output.write_bytes(proto.SerializeToString())
    opsets = ", ".join(f"{entry.domain} {entry.version}".lstrip() for entry in proto.opset_import)
    nodes = counted(len(proto.graph.node), "node")
    lines = [f"{output}: opset {opsets}, {nodes}, passes onnx's full check"]
    try:
        inputs = checked_inputs(sole_graph(model), example_inputs(sole_graph(model), given))
        results = mdf_scatter.run(model, inputs)
    except (InputError, NoEngineError) as error:
        return None, [*lines, f"not compared with onnxruntime: {error}"]
    comparison = against_onnxruntime(proto, inputs, results)
    return comparison.agrees, [*lines, comparison.message]
