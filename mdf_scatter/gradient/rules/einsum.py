"""The rule of Einsum: each gradient is an Einsum of the others with what comes back."""

from __future__ import annotations

import string
from collections.abc import Callable, Iterator, Sequence

import onnx_ir as ir

from mdf_scatter.gradient.emitter import Emitter, static_shape
from mdf_scatter.gradient.table import Call, Gradient, rule

Term = tuple[str, ...]
"""The label of each axis of an operand."""


@rule("Einsum")
def einsum(call: Call) -> Sequence[Gradient]:
    """Y = the sum, over the labels that the output lacks, of the product of the operands."""
    terms, output = _terms(call)

    def grad_of(position: int) -> Callable[[], ir.Value]:
        return lambda: _grad_of(call, position, terms, output)

    return [grad_of(position) for position in range(len(terms))]


def _grad_of(call: Call, position: int, terms: Sequence[Term], output: Term) -> ir.Value:
    emit, value, term = call.emit, call.input(position), terms[position]
    others = [at for at in range(len(terms)) if at != position]
    factors = [(output, call.grad), *((terms[at], call.input(at)) for at in others)]
    target, diagonals = _without_repeats(emit, value, term, _unused([output, *terms]))
    factors += diagonals
    # What is in no other factor was only summed over: its gradient is the same all along.
    found = [label for label in target if any(label in labels for labels, _ in factors)]
    grad = _product(emit, factors, found)
    grad = emit.unsqueeze(grad, [axis for axis, label in enumerate(target) if label not in found])
    return _shaped(call, grad, value, agrees=len(found) == len(target))


def _without_repeats(
    emit: Emitter, value: ir.Value, term: Term, unused: Iterator[str]
) -> tuple[Term, list[tuple[Term, ir.Value]]]:
    """Return labels that are all different, and the identity matrices that hold repeated ones together."""
    target: list[str] = []
    diagonals: list[tuple[Term, ir.Value]] = []
    for axis, label in enumerate(term):
        if label not in target:
            target.append(label)
            continue
        size = emit.size(value, axis)
        square = emit("Expand", emit.constant(0, value), emit("Concat", size, size, axis=0))
        target.append(next(unused))
        diagonals.append(((label, target[-1]), emit("EyeLike", square)))
    return tuple(target), diagonals


def _product(emit: Emitter, factors: Sequence[tuple[Term, ir.Value]], labels: Sequence[str]) -> ir.Value:
    """Return the product of factors, summed over all but some labels."""
    if [tuple(labels)] == [term for term, _ in factors]:
        return factors[0][1]
    equation = ",".join("".join(term) for term, _ in factors)
    return emit("Einsum", *(value for _, value in factors), equation=f"{equation}->{''.join(labels)}")


def _shaped(call: Call, grad: ir.Value, value: ir.Value, *, agrees: bool) -> ir.Value:
    """Return a gradient in the shape of its value, both broadcast to each other.

    Args:
        call: The Einsum.
        grad: The gradient, of the value's rank.
        value: The operand.
        agrees: Whether each axis of the gradient comes from another factor.
    """
    emit = call.emit
    new, old = static_shape(grad), static_shape(value)
    if new is None or old is None:
        # Sizes of one label are the same, as far as anyone can see; only an ellipsis is there to broadcast.
        broadcasts = "..." in call.attribute("equation")
        if not agrees or broadcasts:
            grad = emit("Expand", grad, emit.shape(value))
        return emit.sum_to(grad, value) if broadcasts else grad
    if any(a == 1 != b for a, b in zip(new, old, strict=True)):
        grad = emit("Expand", grad, emit.shape(value))
    return emit.sum_to(grad, value)


def _terms(call: Call) -> tuple[list[Term], Term]:
    """Return the labels of the operands and of the output; those of an ellipsis are made up."""
    equation = call.attribute("equation").replace(" ", "")
    left, arrow, right = equation.partition("->")
    written = left.split(",")
    ranks = [
        call.emit.rank(call.input(at)) - len(term.replace("...", "")) if "..." in term else 0
        for at, term in enumerate(written)
    ]
    unused = _unused([equation])
    ellipsis = [next(unused) for _ in range(max(ranks))]
    if not arrow:
        once = sorted(label for label in set(left) - set(".,") if left.count(label) == 1)
        right = ("..." if "..." in left else "") + "".join(once)

    def labels(term: str, rank: int) -> Term:
        before, found, after = term.partition("...")
        return (*before, *(ellipsis[len(ellipsis) - rank :] if found else ()), *after)

    return [labels(term, rank) for term, rank in zip(written, ranks, strict=True)], labels(
        right, len(ellipsis)
    )


def _unused(terms: Sequence[str | Term]) -> Iterator[str]:
    used = {label for term in terms for label in term}
    return (label for label in string.ascii_letters if label not in used)
