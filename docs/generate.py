"""Writes the generated parts of the documentation: `python docs/generate.py`.

operators.md comes from the table `OPS`, gradients.md from the rules, gallery.md and the pictures from the
files in graphs/. The tests check that what stands here is what this would write.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from modeci_mdf.mdf import Model

import mdf_scatter
from mdf_scatter import OPS, node  # noqa: F401  (importing the nodes makes them known)
from mdf_scatter.drawing.cells.node import explain_node
from mdf_scatter.dtypes import type_text
from mdf_scatter.examples import example_files
from mdf_scatter.gradient.model import grad
from mdf_scatter.gradient.table import CONSTANT, RULES
from mdf_scatter.operator_node import OperatorNode
from mdf_scatter.ops.op import Attribute, Case, Op

HERE = Path(__file__).parent
FUNCTIONS = {
    "ScatterND": "scatter_nd",
    "ScatterElements": "scatter_elements",
    "GatherND": "gather_nd",
    "GatherElements": "gather_elements",
    "TensorScatter": "tensor_scatter",
    "tf::scatter_nd": "tf_scatter_nd",
    "paddle::scatter_nd_add": "paddle_scatter_nd_add",
}
MOST_SHOWN = 24
DIFFERENTIATED = "scatter_nd_parameters"
"""The example whose gradient graph is drawn."""


def main() -> None:
    """Write every generated file."""
    for path, content in generated().items():
        path.parent.mkdir(exist_ok=True)
        path.write_text(content, encoding="utf-8")


def generated() -> dict[Path, str]:
    """Return the content of every generated file."""
    pages = {"operators": operators(), "gradients": gradients(), "gallery": gallery()}
    files = {HERE / f"{name}.md": "\n".join(lines) for name, lines in pages.items()}
    for path in example_files():
        model = mdf_scatter.load(path)
        files[HERE / "pictures" / f"{path.stem}.svg"] = mdf_scatter.draw(model).svg
        for name in scatters(model):
            files[HERE / "pictures" / _cells(path, name)] = explain_node(model, name).svg
        if path.stem == DIFFERENTIATED:
            files[HERE / "pictures" / f"{path.stem}.grad.svg"] = mdf_scatter.draw(grad(model)).svg
    return files


def gradients() -> Iterator[str]:
    """Give the lines of the page on the rules."""
    yield "# Rules of gradients"
    yield ""
    yield "What operators with a gradient compute; `grad` writes what they send back, at opset 18 and newer;"
    yield "older models are moved there first. Written by `python docs/generate.py`."
    yield ""
    yield "| operator | rule |"
    yield "|---|---|"
    for (domain, op_type), found in sorted(RULES.items()):
        text = " ".join((found.__doc__ or "").split("\n\n")[0].split()).replace("|", "\\|")
        yield f"| {f'{domain}::' if domain else ''}{op_type} | {text} |"
    yield ""
    yield f"Constant, so that nothing comes back through them: {', '.join(sorted(CONSTANT))}."
    yield ""


def scatters(model: Model) -> list[str]:
    """Return the names of the nodes of a model that are scatters or gathers."""
    return [
        each.id
        for each in model.graphs[0].nodes
        if any((function.function or "").removeprefix("onnx::") in OPS for function in each.functions)
    ]


def operators() -> Iterator[str]:
    """Write the reference of the operators."""
    yield "# Operators"
    yield ""
    yield "Generated from the table `OPS` by `python docs/generate.py`. Every operator is a Python function,"
    yield "a node object, and an MDF function of the name in the heading (and with `onnx::` before it, for"
    yield "ONNX's own). As an MDF function it also has the parameters `training` and `lda_coeff`. Nodes and"
    yield "MDF functions have `mean` and `include_self`, which ONNX lacks; Python functions have ONNX's own."
    nodes = {kind.op.name: kind for kind in OperatorNode.__subclasses__()}
    for name in sorted(OPS, key=list(FUNCTIONS).index):
        op = OPS[name]
        yield from ["", f"## {name}", "", op.doc, ""]
        yield f"Function `{FUNCTIONS[name]}`, node `{nodes[name].__name__}`."
        yield from _inputs(op)
        if op.attributes:
            yield from ["", "| attribute | default | may be | what it does |", "|---|---|---|---|"]
            for key, attribute in op.attributes.items():
                yield f"| `{key}` | `{attribute.default}` | {_choices(attribute)} | {attribute.doc} |"
        if op.versions:
            yield from ["", "| ONNX opset | what it brings |", "|---|---|"]
            yield from (f"| {opset} | {text} |" for opset, text in op.versions.items())
        yield from ["", "| case | inputs | attributes | result |", "|---|---|---|---|"]
        yield from (_row(case) for case in op.cases)
    yield ""


def _choices(attribute: Attribute) -> str:
    values = (True, False) if isinstance(attribute.default, bool) else attribute.choices
    return ", ".join(f"`{value}`" for value in values) or "any integer that fits"


def gallery() -> Iterator[str]:
    """Write the page of the example graphs."""
    yield "# Gallery"
    yield ""
    yield "Each file of `graphs/` with its diagram, and its scatters cell by cell. What it gives stands"
    yield "beside it in `<name>.expected.json`; `mdf-scatter demo` runs, exports and draws them all."
    yield "Generated by `python docs/generate.py`."
    for path in example_files():
        yield from ["", f"## {path.name}", "", f"[{path.name}](../graphs/{path.name}): {_about(path)}", ""]
        yield f"![{_about(path)}](pictures/{path.stem}.svg)"
        yield from ["", f"    mdf-scatter draw graphs/{path.name} -o {path.stem}.svg"]
        model = mdf_scatter.load(path)
        for name in scatters(model):
            yield from ["", f"![{explain_node(model, name).alt}](pictures/{_cells(path, name)})"]
            yield from ["", f"    mdf-scatter explain graphs/{path.name} --node {name} -o {name}.svg"]
    yield ""


def _cells(path: Path, name: str) -> str:
    return f"{path.stem}.{name}.svg"


def _inputs(op: Op) -> Iterator[str]:
    yield from ["", "| input | holds |", "|---|---|"]
    for name in op.inputs:
        holds = "integers of any dtype" if name in op.integers else "any dtype"
        yield f"| `{name}` | {holds}{', may be left out' if name in op.optional else ''} |"


def _row(case: Case) -> str:
    inputs = ", ".join(_shown(value) for value in case.inputs)
    attributes = ", ".join(f"{key}={value!r}" for key, value in case.attributes.items())
    result = f"error: {case.error}" if case.error is not None else _shown(case.expected)
    return f"| {case.name} | {inputs} | {attributes} | {result.replace('|', '&#124;')} |"


def _shown(value: object) -> str:
    if not hasattr(value, "dtype"):
        return f"`{value!r}`"
    if value.size > MOST_SHOWN or not value.size:
        return f"`{type_text(value.dtype, value.shape)}`"
    return f"`{value.tolist()}`"


def _about(path: Path) -> str:
    if path.suffix == ".onnx":
        return "An ONNX file, run and drawn as it is."
    return path.read_text(encoding="utf-8").splitlines()[0].removeprefix("# ")


if __name__ == "__main__":
    main()
