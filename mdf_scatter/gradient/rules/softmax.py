"""Rules of what makes numbers along an axis probabilities."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from mdf_scatter.gradient.emitter import Emitter
from mdf_scatter.gradient.table import Call, Gradient, rule


@rule("Softmax")
def softmax(call: Call) -> Sequence[Gradient]:
    """Y = exp(x) / sum(exp(x))."""
    emit, y = call.emit, call.output

    def through() -> ir.Value:
        weighted = emit("Mul", call.grad, y)
        axis = emit.integers([call.attribute("axis", -1)])
        return emit("Sub", weighted, emit("Mul", y, emit("ReduceSum", weighted, axis, keepdims=1)))

    return [through]


@rule("LogSoftmax")
def log_softmax(call: Call) -> Sequence[Gradient]:
    """Y = x - log(sum(exp(x)))."""
    return [lambda: through_log_softmax(call.emit, call.grad, call.output, call.attribute("axis", -1))]


def through_log_softmax(emit: Emitter, grad: ir.Value, log_probabilities: ir.Value, axis: int) -> ir.Value:
    """Return the gradient of scores, from that of their LogSoftmax."""
    total = emit("ReduceSum", grad, emit.integers([axis]), keepdims=1)
    return emit("Sub", grad, emit("Mul", emit("Exp", log_probabilities), total))
