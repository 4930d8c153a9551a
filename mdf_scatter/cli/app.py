"""The command line's application, what its commands share, and how it starts and fails."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Collection
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from mdf_scatter.progress import working

if TYPE_CHECKING:
    import numpy.typing as npt

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    help="Run, check, export and draw MDF and ONNX graphs with a ScatterND that can be trusted.",
)

ModelFile = Annotated[
    Path,
    typer.Argument(
        help="A model: .yaml, .json, .bson or .onnx, or a picture that holds one.",
        readable=False,  # `load` says in one line what is wrong with a file, as with all that it reads
    ),
]
InputOption = Annotated[
    list[str] | None,
    typer.Option("-i", "--input", metavar="NAME=FILE", help="An input: NAME=FILE.npy, or FILE.npz by names."),
]
EngineOption = Annotated[str, typer.Option(help="auto, onnx or mdf.")]
ThemeOption = Annotated[str, typer.Option(help="light or dark; a page has both.")]
EmbedOption = Annotated[bool, typer.Option("--embed", help="Keep large arrays in the file itself.")]

USAGE, DIFFERENT = 2, 1


def main() -> NoReturn:
    """Run the command line and exit; an error of ours is one line."""
    from mdf_scatter.errors import MdfScatterError

    if isinstance(sys.stdout, TextIOWrapper):
        # A terminal that lacks a letter of a name shows its number, as it does for errors.
        sys.stdout.reconfigure(errors="backslashreplace")
    debug = "--debug" in sys.argv
    arguments = [argument for argument in sys.argv[1:] if argument != "--debug"]
    try:
        with working(" ".join(["mdf-scatter", *arguments[:2]])):
            app(arguments, prog_name="mdf-scatter", standalone_mode=True)
    except (MdfScatterError, OSError, MemoryError, RecursionError) as error:
        if debug:
            raise
        _fail(_in_a_line(error))
    raise SystemExit(0)


def _in_a_line(error: BaseException) -> str:
    from mdf_scatter.errors import MissingInputError

    match error:
        case MissingInputError():
            return f"{error}; give {' '.join(f'-i {shlex.quote(name)}=FILE.npy' for name in error.missing)}"
        case OSError(filename=name, strerror=reason) if name:
            return f"{name}: {reason}"
        case MemoryError() | RecursionError():
            return f"{type(error).__name__}: {error}"
    return str(error)


def _say_version(is_asked: bool) -> None:
    if is_asked:
        from importlib.metadata import version

        print(f"mdf-scatter {version('mdf-scatter')}")
        raise typer.Exit


@app.callback()
def _options(
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
    version: Annotated[
        bool,
        typer.Option("--version", callback=_say_version, is_eager=True, help="Say the version and exit."),
    ] = False,
) -> None:
    """Take the options that every command has; `main` has read `--debug` already."""


def require_writable(path: Path | None, suffixes: Collection[str]) -> None:
    """Refuse a file that could not be written, before any work is done for it.

    Raises:
        FormatError: Its suffix is none of those, or its folder is not there, or it is a folder itself.
    """
    from mdf_scatter.errors import FormatError, listed
    from mdf_scatter.formats import no_folder

    if path is None:
        return
    if path.suffix.lower() not in suffixes:
        what = f"the suffix is {path.suffix!r}" if path.suffix else "there is no suffix"
        raise FormatError(f"{path}: {what}; expected {listed(suffixes)}")
    if not path.parent.is_dir():
        raise FormatError(f"{path}: {no_folder(path)}")
    if path.is_dir():
        raise FormatError(f"{path}: is a directory; expected a file to write")


def counted(number: int, what: str) -> str:
    """Write a number of things.

    >>> counted(1, "node"), counted(2, "node")
    ('1 node', '2 nodes')
    """
    return f"{number} {what}{'s' * (number != 1)}"


def print_array(name: str, array: npt.NDArray[Any], indent: str = "") -> None:
    """Print an output: its name, type and values."""
    import numpy as np

    from mdf_scatter.dtypes import type_text

    text = np.array2string(array, threshold=200, edgeitems=3, max_line_width=100, separator=", ")
    print(f"{indent}{name}: {type_text(array.dtype, array.shape)}")
    print("\n".join(f"{indent}{line}".rstrip() for line in text.splitlines()))


def _fail(message: str) -> NoReturn:
    print(f"mdf-scatter: {' '.join(message.split())}", file=sys.stderr)
    raise SystemExit(USAGE)
