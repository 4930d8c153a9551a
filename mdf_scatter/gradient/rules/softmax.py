"""Rules of what makes numbers along an axis probabilities."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from mdf_scatter.gradient.emitter import Emitter
from mdf_scatter.gradient.table import Call, Gradient, rule


@rule("Softmax")
def softmax(call: Call) -> Sequence[Gradient]:
    """Y = exp(x) / sum(exp(x)).

    Where all x are -inf, y is NaN, and attention puts zeros in its place: then nothing comes back, and
    nothing is sent.
    """
    emit, y = call.emit, call.output
    if _is_replaced(y):
        is_gone = emit("And", emit("IsNaN", y), emit("Equal", call.grad, 0))
        y = emit("Where", is_gone, emit.constant(0, y), y)

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


def _is_replaced(value: ir.Value) -> bool:
    """Tell whether elements of a value are replaced by others, as they are or in another dtype."""
    readers = [use.node for use in value.uses() if use.node.domain == ""]
    return any(
        node.op_type == "Where" or (node.op_type in ("Cast", "CastLike") and _is_replaced(node.outputs[0]))
        for node in readers
    )
