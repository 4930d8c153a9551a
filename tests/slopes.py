"""Gradients in float32 in onnxruntime, which has many operators in no other dtype, against its forward pass.

Of a function that is linear in an input, differences are exact for any length of step: float32 is enough.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from central import node_model, onnxruntime_session

from mdf_scatter import grad, to_onnx

Array = npt.NDArray[Any]

DIRECTIONS = 3


def check_slopes(
    op_type: str,
    inputs: Sequence[Array | None],
    attributes: Mapping[str, Any] | None = None,
    *,
    wrt: Collection[str] | None = None,
    step: float = 1.0,
    rtol: float = 2e-4,
    **options: Any,
) -> None:
    """Hold the rule of an operator against differences in onnxruntime.

    Args:
        op_type: The operator.
        inputs: What it is given; float32 where it is differentiated.
        attributes: Its attributes.
        wrt: Which inputs, `x0`, `x1`, ...; all of float32, if left out.
        step: How far an input is moved to either side.
        rtol: Tolerance, relative to the sum of what the outputs contribute without their signs.
        **options: See `central.node_model`.
    """
    model, given = node_model(op_type, inputs, attributes, **options)
    names = list(wrt) if wrt is not None else [n for n, a in given.items() if a.dtype == np.float32]
    backward = grad(model, of="y0", wrt=names)
    said = backward.graphs[0].metadata["gradient"]
    forward, session = onnxruntime_session(to_onnx(model)), onnxruntime_session(to_onnx(backward))
    rng = np.random.default_rng(1)
    y = forward.run(["y0"], given)[0]
    coming = rng.standard_normal(y.shape).astype(np.float32)
    outputs = [said["wrt"][name] for name in names]
    again, *gradients = session.run(["y0", *outputs], given | {said["of"]["y0"]: coming})
    np.testing.assert_array_equal(again, y)
    for name, gradient in zip(names, gradients, strict=True):
        assert (gradient.shape, gradient.dtype) == (given[name].shape, given[name].dtype)
        for _ in range(DIRECTIONS):
            direction = rng.standard_normal(gradient.shape).astype(np.float32)
            above, below = (
                forward.run(["y0"], given | {name: given[name] + np.float32(way * step) * direction})[0]
                for way in (1, -1)
            )
            terms = (above.astype(np.float64) - below) * coming / (2 * step)
            found = (gradient.astype(np.float64) * direction).sum()
            np.testing.assert_allclose(found, terms.sum(), rtol=0, atol=rtol * (np.abs(terms).sum() + 1e-2))
