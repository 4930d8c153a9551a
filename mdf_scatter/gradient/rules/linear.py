"""Rules of products of matrices."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from mdf_scatter.gradient.emitter import Emitter
from mdf_scatter.gradient.table import Call, Gradient, rule


@rule("MatMul")
def matmul(call: Call) -> Sequence[Gradient]:
    """Z = a b, over the last two axes; a vector is a row on the left and a column on the right."""
    emit, a, b = call.emit, call.input(0), call.input(1)
    is_row, is_column = emit.rank(a) == 1, emit.rank(b) == 1
    if is_row and is_column:
        return [lambda: emit("Mul", call.grad, b), lambda: emit("Mul", call.grad, a)]
    rows = emit.unsqueeze(a, [0] if is_row else [])
    columns = emit.unsqueeze(b, [1] if is_column else [])
    grad = emit.unsqueeze(call.grad, [-2] if is_row else [-1] if is_column else [])
    return [
        lambda: emit.like(_grad_of_left(emit, grad, rows, columns), a),
        lambda: emit.like(_grad_of_right(emit, grad, rows, columns), b),
    ]


def _grad_of_left(emit: Emitter, grad: ir.Value, a: ir.Value, b: ir.Value) -> ir.Value:
    if emit.rank(grad) == 2:
        return emit("Gemm", grad, b, transB=1)
    return emit.sum_to(emit("MatMul", grad, _swapped(emit, b)), a)


def _grad_of_right(emit: Emitter, grad: ir.Value, a: ir.Value, b: ir.Value) -> ir.Value:
    if emit.rank(b) == 2:
        # One matrix for all of a batch: the sum over the batch is part of one product.
        return emit("Gemm", _flat(emit, a), _flat(emit, grad), transA=1)
    return emit.sum_to(emit("MatMul", _swapped(emit, a), grad), b)


def _flat(emit: Emitter, value: ir.Value) -> ir.Value:
    """Return a batch of matrices as one, with the rows of all below each other."""
    rank = emit.rank(value)
    return value if rank == 2 else emit("Flatten", value, axis=rank - 1)


def _swapped(emit: Emitter, value: ir.Value) -> ir.Value:
    rank = emit.rank(value)
    return emit.transpose(value, [*range(rank - 2), rank - 1, rank - 2])


@rule("Gemm")
def gemm(call: Call) -> Sequence[Gradient]:
    """Y = alpha a' b' + beta c, where a' and b' are a and b, or transposed."""
    emit, a, b = call.emit, call.input(0), call.input(1)
    trans_a, trans_b = (int(call.attribute(name, 0)) for name in ("transA", "transB"))
    alpha, beta = call.attribute("alpha", 1.0), call.attribute("beta", 1.0)

    def grad_of_a() -> ir.Value:
        if trans_a:
            return emit("Gemm", b, call.grad, alpha=alpha, transA=trans_b, transB=1)
        return emit("Gemm", call.grad, b, alpha=alpha, transB=1 - trans_b)

    def grad_of_b() -> ir.Value:
        if trans_b:
            return emit("Gemm", call.grad, a, alpha=alpha, transA=1, transB=trans_a)
        return emit("Gemm", a, call.grad, alpha=alpha, transA=1 - trans_a)

    def grad_of_c() -> ir.Value:
        scaled = call.grad if beta == 1 else emit("Mul", call.grad, beta)
        return emit.sum_to(scaled, call.input(2))

    return [grad_of_a, grad_of_b, grad_of_c]
