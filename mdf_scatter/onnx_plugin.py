"""Our operators in ONNX's own reference evaluator, and as an ONNX Backend.

`onnx.reference.ReferenceEvaluator(model, new_ops=NEW_OPS)` runs a model with them, also inside subgraphs
and functions. `Backend` does the same behind the interface that ONNX's test suite asks for:
`onnx.backend.test.BackendTest(Backend, __name__)`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy.typing as npt
import onnx
from onnx.backend.base import Backend as BackendBase
from onnx.backend.base import BackendRep, Device, DeviceType, namedtupledict
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpRun

from mdf_scatter.evaluator_ops import CORRECTED
from mdf_scatter.ops import OPS, Op


def _op_run(op: Op, name: str = "") -> type[OpRun]:
    """Return an operator as the class that the reference evaluator asks for."""

    def _run(self: OpRun, *inputs: Any, **attributes: Any) -> tuple[npt.NDArray[Any]]:
        given = {name: value for name, value in attributes.items() if value is not None}
        return (op.forward(*inputs, **given),)

    return type(name or op.name, (OpRun,), {"op_domain": "", "_run": _run, "__doc__": op.doc})


NEW_OPS: list[type[OpRun]] = [
    *CORRECTED,
    *(_op_run(op) for op in OPS.values() if "::" not in op.name),
    _op_run(OPS["ScatterElements"], "Scatter"),  # what it was called up to opset 10
]
"""Classes for `ReferenceEvaluator(new_ops=...)`."""


class PreparedModel(BackendRep):
    """A model that is ready to run.

    Args:
        model: An ONNX model.
    """

    def __init__(self, model: onnx.ModelProto) -> None:
        self._evaluator = ReferenceEvaluator(model, new_ops=NEW_OPS)

    def run(self, inputs: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Compute the outputs.

        Args:
            inputs: An array for each graph input, in order, or by name.
            kwargs: Ignored, as the interface has it.

        Returns:
            The outputs, in order.

        Raises:
            OperatorError: One of our operators cannot work on what reaches it.
        """
        given = (
            inputs
            if isinstance(inputs, dict)
            else dict(zip(self._evaluator.input_names, inputs, strict=False))
        )
        return tuple(self._evaluator.run(None, given))


class Backend(BackendBase):
    """ONNX's backend interface; runs on the CPU."""

    @classmethod
    def prepare(cls, model: onnx.ModelProto, device: str = "CPU", **kwargs: Any) -> PreparedModel:
        """Check a model and make it ready to run; see `onnx.backend.base.Backend.prepare`."""
        super().prepare(model, device, **kwargs)
        return PreparedModel(model)

    @classmethod
    def run_node(
        cls,
        node: onnx.NodeProto,
        inputs: Sequence[Any],
        device: str = "CPU",
        outputs_info: Sequence[Any] | None = None,
        **kwargs: Any,
    ) -> tuple[Any, ...]:
        """Run a single node at the newest operator set; see `onnx.backend.base.Backend.run_node`."""
        super().run_node(node, inputs, device, outputs_info, **kwargs)
        results = ReferenceEvaluator(node, new_ops=NEW_OPS).run(
            None, dict(zip(node.input, inputs, strict=False))
        )
        return namedtupledict("Outputs", list(node.output))(*results)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """Tell whether a device is the CPU."""
        return bool(Device(device).type == DeviceType.CPU)
