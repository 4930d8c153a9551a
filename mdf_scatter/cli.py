"""The command line: `mdf-scatter run | export | import | draw | extract | explain | check | bench | demo`.

The only module that prints. What is wrong with a file or an argument is one line and exit code 2;
findings of `check` that are errors, and results that differ, are exit code 1.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from mdf_scatter.progress import working

if TYPE_CHECKING:
    import numpy.typing as npt
    from modeci_mdf.mdf import Model

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    help="Run, check, export and draw MDF and ONNX graphs with a ScatterND that can be trusted.",
)

ModelFile = Annotated[
    Path, typer.Argument(help="A model: .yaml, .json, .bson or .onnx, or a picture that holds one.")
]
InputOption = Annotated[
    list[str] | None,
    typer.Option("-i", "--input", metavar="NAME=FILE", help="An input: NAME=FILE.npy, or FILE.npz by names."),
]
EngineOption = Annotated[str, typer.Option(help="auto, onnx or mdf.")]
ThemeOption = Annotated[str, typer.Option(help="light or dark.")]
EmbedOption = Annotated[bool, typer.Option("--embed", help="Keep large arrays in the file itself.")]

USAGE, DIFFERENT = 2, 1


def main() -> NoReturn:
    """Run the command line and exit; an error of ours is one line."""
    from mdf_scatter.errors import MdfScatterError

    debug = "--debug" in sys.argv
    arguments = [argument for argument in sys.argv[1:] if argument != "--debug"]
    try:
        with working(" ".join(["mdf-scatter", *arguments[:2]])):
            app(arguments, prog_name="mdf-scatter", standalone_mode=True)
    except MdfScatterError as error:
        if debug:
            raise
        _fail(str(error))
    except (OSError, MemoryError, RecursionError) as error:
        if debug:
            raise
        _fail(f"{type(error).__name__}: {error}")
    raise SystemExit(0)


@app.callback()
def _options(
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
) -> None:
    """Take the options that every command has; `main` has read them already."""


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
        _print_array(name, array)
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
    agrees, lines = _export(loaded, output, opset, read_inputs(input_))
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
def draw(
    model: ModelFile,
    output: Annotated[Path, typer.Option("-o", "--output", help="A .svg, .png, .pdf, .html or .gv file.")],
    theme: ThemeOption = "light",
    depth: Annotated[int | None, typer.Option(help="Levels of subgraphs to draw; 0 folds them all.")] = None,
    values: Annotated[bool, typer.Option("--values", help="Run the model and draw its values.")] = False,
    input_: InputOption = None,
    no_embed: Annotated[bool, typer.Option("--no-embed", help="Leave the model out of the picture.")] = False,
) -> None:
    """Draw a model as a block diagram that holds the model, or as a page (.html)."""
    import mdf_scatter
    from mdf_scatter.array_files import read_inputs
    from mdf_scatter.drawing.page import drawn_page

    loaded = mdf_scatter.load(model)
    results = mdf_scatter.run(loaded, read_inputs(input_)) if values or input_ else None
    if output.suffix == ".html":
        picture = drawn_page(loaded, depth=depth, values=results).encode()
    else:
        diagram = mdf_scatter.draw(loaded, theme=theme, depth=depth, values=results)  # type: ignore[arg-type]
        if no_embed or output.suffix in (".gv", ".dot"):
            diagram.save(output)
            print(f"{output}: drawn, without the model")
            return
        from mdf_scatter.drawing.embed import drawn

        picture = drawn(diagram, output.suffix)
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
    """Say, and draw cell by cell, what a node does with the values that reach it."""
    import mdf_scatter
    from mdf_scatter.array_files import read_inputs
    from mdf_scatter.drawing.cells.node import explain_node

    picture = explain_node(mdf_scatter.load(model), node, read_inputs(input_), theme=theme)
    print(picture.alt)
    if output is not None:
        picture.save(output)
        print(f"{output}: drawn")


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


@app.command()
def bench(
    words: Annotated[list[str] | None, typer.Argument(help="Only workloads with one of these words.")] = None,
    rounds: Annotated[int, typer.Option(help="How often each call is timed.")] = 5,
) -> None:
    """Measure our operators beside NumPy, onnxruntime and what else is installed, and check the answers."""
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
    """Run, export and draw every example graph, and say where the files are."""
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
            _print_array(name, array, indent="  ")
        agrees, lines = _export(model, output / f"{stem}.onnx", None, {})
        for line in lines:
            print(f"  {line}")
        for suffix in (".svg", ".png"):
            mdf_scatter.save(model, output / f"{stem}{suffix}")
        wrong += not right or agrees is False
    print(f"{len(files)} graphs run, exported and drawn; the files are in {output.resolve()}")
    if wrong:
        print(f"{wrong} of them gave another result than expected")
        raise typer.Exit(DIFFERENT)


def _export(
    model: Model, output: Path, opset: int | None, given: dict[str, npt.NDArray[Any]]
) -> tuple[bool | None, list[str]]:
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


def _print_array(name: str, array: npt.NDArray[Any], indent: str = "") -> None:
    import numpy as np

    from mdf_scatter.dtypes import type_text

    text = np.array2string(array, threshold=200, edgeitems=3, max_line_width=100, separator=", ")
    print(f"{indent}{name}: {type_text(array.dtype, array.shape)}")
    print("\n".join(f"{indent}{line}" for line in text.splitlines()))


def _fail(message: str) -> NoReturn:
    print(f"mdf-scatter: {' '.join(message.split())}", file=sys.stderr)
    raise SystemExit(USAGE)
