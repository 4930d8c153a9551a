"""Which parameters of an MDF model are trainable, and what they are called in the lowered graph."""

from __future__ import annotations

from typing import Any

import numpy as np
from modeci_mdf.mdf import Model, Node, Parameter

from mdf_scatter.attributes import is_sparse
from mdf_scatter.lower.functions import CARRIED
from mdf_scatter.lower.stateful import is_stateful
from mdf_scatter.wiring import onnx_metadata, sole_graph

Places = dict[str, list[tuple[Node, Parameter]]]
"""Parameters, by name; several where nodes of a model lifted from ONNX share an initializer."""


def parameters_of(model: Model) -> Places:
    """Return the parameters of a model's first graph that hold floating-point numbers.

    They are called `node.parameter`, or as the ONNX initializer that they were lifted from.
    """
    found: Places = {}
    for node in sole_graph(model).nodes:
        for parameter in node.parameters:
            if parameter.id not in CARRIED and _is_floating(parameter.value) and _is_plain(parameter):
                name = str(onnx_metadata(parameter).get("name") or f"{node.id}.{parameter.id}")
                found.setdefault(name, []).append((node, parameter))
    return found


def is_trained(places: Places, name: str) -> bool:
    """Tell whether a parameter is trained where nobody says which are.

    Not if it is `trainable: false`, nor if it is a mask or the start of a maximum: no step moves infinity.
    """
    return all(
        (parameter.metadata or {}).get("trainable", True) and _is_finite(parameter.value)
        for _, parameter in places[name]
    )


def _is_finite(value: Any) -> bool:
    return bool(np.isfinite(np.asarray(value).astype(np.complex128)).all())


def _is_floating(value: Any) -> bool:
    if isinstance(value, (str, dict)) or value is None or is_sparse(value):
        return False
    try:
        dtype = np.asarray(value).dtype
    except ValueError:
        return False
    # Of the types that NumPy does not know itself, bfloat16 and the float8s are the floating ones.
    return dtype.kind in "fc" or "float" in dtype.name


def _is_plain(parameter: Parameter) -> bool:
    return not is_stateful(parameter) and not parameter.conditions and parameter.function is None
