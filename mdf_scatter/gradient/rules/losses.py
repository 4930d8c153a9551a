"""Rules of the losses of classification."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from mdf_scatter.gradient.emitter import Emitter
from mdf_scatter.gradient.rules.softmax import through_log_softmax
from mdf_scatter.gradient.table import Call, Gradient, rule


@rule("NegativeLogLikelihoodLoss")
def negative_log_likelihood_loss(call: Call) -> Sequence[Gradient]:
    """Loss = -weight[target] * x[target], summed, or divided by the sum of the weights."""
    emit, x = call.emit, call.input(0)
    terms = _terms(call)

    def to_x() -> ir.Value:
        return emit("Where", terms.chosen, emit("Neg", terms.grad), emit.constant(0, x))

    return [to_x, None, lambda: _to_weights(call, terms, x)]


@rule("SoftmaxCrossEntropyLoss")
def softmax_cross_entropy_loss(call: Call) -> Sequence[Gradient]:
    """Loss = -weights[label] * log_prob[label], summed or averaged so; log_prob = LogSoftmax(scores)."""
    emit, scores = call.emit, call.input(0)
    log_probabilities = call.further(1, ir.DataType.from_numpy(emit.dtype(scores)), scores.shape)
    terms = _terms(call)

    def to_scores() -> ir.Value:
        surplus = emit("Sub", emit("Exp", log_probabilities), emit.cast(terms.chosen, scores))
        sent = emit("Mul", surplus, terms.grad)
        coming = call.grad_of(1)
        if coming is not None:
            sent = emit("Add", sent, through_log_softmax(emit, coming, log_probabilities, axis=1))
        return sent

    return [to_scores, None, lambda: _to_weights(call, terms, log_probabilities)]


@dataclass(frozen=True)
class _Terms:
    """The terms of a loss, one for each label.

    Attributes:
        chosen: Which class the label is, bool (N, C, d1, ...); none where it is ignored.
        coming: What comes back to a term, but for its weight; of rank 0, or (N, 1, d1, ...).
        grad: What comes back to a term, (N, 1, d1, ...); 0 where it is ignored.
    """

    chosen: ir.Value
    coming: ir.Value
    grad: ir.Value


def _terms(call: Call) -> _Terms:
    emit, scores, reduction = call.emit, call.input(0), call.attribute("reduction", "mean")
    labels = emit.unsqueeze(emit.cast(call.input(1), np.int64), [1])
    ignored = call.attribute("ignore_index")
    is_ignored = None if ignored is None else emit("Equal", labels, ignored)
    weight = _weight(call, labels, is_ignored)
    coming = call.grad
    if reduction == "none":
        coming = emit.unsqueeze(coming, [1])
    elif reduction == "mean":
        total = emit("ReduceSum", emit.wide(weight), keepdims=0)
        coming = emit.cast(emit("Div", emit.wide(coming), total), scores)
    if is_ignored is not None:
        labels = emit("Where", is_ignored, emit.integers(-1), labels)
    classes = emit.unsqueeze(_range(emit, scores, 1), range(1, emit.rank(scores) - 1))
    return _Terms(emit("Equal", labels, classes), coming, emit("Mul", weight, coming))


def _weight(call: Call, labels: ir.Value, is_ignored: ir.Value | None) -> ir.Value:
    """Return the weight of each label, 1 if there are no others, and 0 where it is ignored."""
    emit, weights = call.emit, call.optional(2)
    one, zero = (emit.constant(number, call.input(0)) for number in (1, 0))
    if is_ignored is None:
        return emit.expand(one, labels) if weights is None else emit("Gather", weights, labels)
    if weights is not None:
        # What is ignored need not be a class.
        one = emit("Gather", weights, emit("Where", is_ignored, emit.integers(0), labels))
    return emit("Where", is_ignored, zero, one)


def _range(emit: Emitter, value: ir.Value, axis: int) -> ir.Value:
    size = emit.known(emit.size(value, axis))
    if size is not None:
        return emit.integers(range(int(size[0])))
    end = emit("Squeeze", emit.size(value, axis), emit.integers([0]))
    return emit("Range", emit.integers(0), end, emit.integers(1))


def _to_weights(call: Call, terms: _Terms, log_probabilities: ir.Value) -> ir.Value:
    """Return the gradient of the weights; a mean changes with their sum too."""
    emit = call.emit
    loss = emit("Neg", log_probabilities)
    if call.attribute("reduction", "mean") == "mean":
        loss = emit("Sub", loss, call.output)
    sent = emit("Where", terms.chosen, emit("Mul", loss, terms.coming), emit.constant(0, loss))
    return emit.sum(sent, set(range(emit.rank(sent))) - {1}, keepdims=False)
