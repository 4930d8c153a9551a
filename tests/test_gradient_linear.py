"""Rules of MatMul, Gemm and Einsum."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from central import check_model, check_node, node_model
from hypothesis import given, settings
from hypothesis import strategies as st

from mdf_scatter import grad, run, to_onnx

RNG = np.random.default_rng(0)


def normal(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape)


def backward_operators(op_type: str, *shapes: tuple[int, ...], **attributes: Any) -> list[str]:
    model, _ = node_model(op_type, [normal(*shape) for shape in shapes], attributes)
    operators = [node.op_type for node in to_onnx(grad(model)).graph.node]
    operators.remove(op_type)
    return [operator for operator in operators if operator != "Identity"]


# --- MatMul ----------------------------------------------------------------------------------------

PAIRS = [
    ((3,), (3,)),
    ((2, 3), (3,)),
    ((3,), (3, 4)),
    ((2, 3), (3, 4)),
    ((5, 2, 3), (3, 4)),
    ((2, 3), (5, 3, 4)),
    ((5, 2, 3), (1, 3, 4)),
    ((5, 1, 2, 3), (4, 3, 2)),
    ((3,), (5, 3, 2)),
    ((5, 2, 3), (3,)),
    ((2, 2, 3), (3, 1)),
    ((0, 3), (3, 2)),
    ((2, 0), (0, 3)),
]


@pytest.mark.parametrize("symbolic", [False, True])
@pytest.mark.parametrize("pair", PAIRS, ids=str)
def test_matmul(pair: tuple[tuple[int, ...], tuple[int, ...]], symbolic: bool) -> None:
    check_node("MatMul", [normal(*shape) for shape in pair], symbolic=symbolic)


@settings(max_examples=20)
@given(
    batch=st.lists(st.integers(1, 3), max_size=2),
    alone=st.lists(st.booleans(), min_size=4, max_size=4),
    sizes=st.tuples(*[st.integers(1, 3)] * 3),
    shorter=st.integers(0, 2),
)
def test_matmul_of_batches(batch: list[int], alone: list[bool], sizes: tuple[int, ...], shorter: int) -> None:
    m, k, n = sizes
    left = [1 if lone else size for size, lone in zip(batch, alone[:2], strict=False)]
    right = [1 if lone else size for size, lone in zip(batch, alone[2:], strict=False)][shorter:]
    check_node("MatMul", [normal(*left, m, k), normal(*right, k, n)])


def test_a_layer_is_two_products():
    assert backward_operators("MatMul", (2, 3), (3, 4)) == ["Gemm", "Gemm"]


def test_the_weights_of_a_batch_are_one_product():
    operators = backward_operators("MatMul", (5, 2, 3), (3, 4))
    assert sorted(operators) == ["Flatten", "Flatten", "Gemm", "MatMul", "Transpose"]


# --- Gemm ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("c", [None, (), (1,), (4,), (2, 1), (1, 4), (2, 4)], ids=str)
@pytest.mark.parametrize("trans_b", [0, 1])
@pytest.mark.parametrize("trans_a", [0, 1])
def test_gemm(trans_a: int, trans_b: int, c: tuple[int, ...] | None) -> None:
    a = normal(3, 2) if trans_a else normal(2, 3)
    b = normal(4, 3) if trans_b else normal(3, 4)
    inputs = [a, b] if c is None else [a, b, normal(*c)]
    check_node("Gemm", inputs, {"transA": trans_a, "transB": trans_b, "alpha": 0.5, "beta": -0.25})


def test_gemm_of_any_sizes():
    check_node("Gemm", [normal(3, 2), normal(4, 3), normal(4)], {"transA": 1, "transB": 1}, symbolic=True)


def test_gemm_without_its_addend():
    gradients = check_node("Gemm", [normal(2, 3), normal(3, 4), normal(4)], {"beta": 0.0})
    assert not gradients["x2"].any()


def test_gemm_is_two_products_and_a_sum():
    assert sorted(backward_operators("Gemm", (2, 3), (3, 4), (4,))) == ["Gemm", "Gemm", "ReduceSum"]


# --- Einsum ----------------------------------------------------------------------------------------

EQUATIONS: list[tuple[str, *tuple[tuple[int, ...], ...]]] = [
    ("ij,jk->ik", (2, 3), (3, 4)),
    ("ij,jk", (2, 3), (3, 4)),
    (" i j , j k -> i k ", (2, 3), (3, 4)),
    ("Ab,bC->AC", (2, 3), (3, 2)),
    ("ba", (2, 3)),
    ("ij->ji", (2, 3)),
    ("ij->", (2, 3)),
    ("ij->j", (2, 3)),
    (",ij->ij", (), (2, 3)),
    ("i,j->ij", (2,), (3,)),
    ("ij,kl->k", (2, 3), (3, 2)),
    ("ij,ji", (2, 3), (3, 2)),
    ("ij,ij,jk->k", (2, 3), (2, 3), (3, 2)),
    ("bhid,bhjd->bhij", (2, 2, 3, 4), (2, 2, 5, 4)),
    ("...ij,...jk->...ik", (5, 2, 3), (5, 3, 4)),
    ("...ij,jk", (5, 2, 3), (3, 4)),
    ("b...,b->...", (2, 3, 4), (2,)),
    ("i...j->...", (2, 3, 4)),
    ("...->...", (2, 3)),
    ("...ii->...i", (2, 3, 3)),
    ("...ii->...", (2, 3, 3)),
    ("ii->i", (3, 3)),
    ("ii->", (3, 3)),
    ("iii", (2, 2, 2)),
    ("iij->j", (3, 3, 2)),
    ("iij,jk->ik", (2, 2, 3), (3, 2)),
    ("ijij->ij", (2, 3, 2, 3)),
]


@pytest.mark.parametrize("symbolic", [False, True])
@pytest.mark.parametrize(("equation", "shapes"), [(e, s) for e, *s in EQUATIONS], ids=str)
def test_einsum(equation: str, shapes: list[tuple[int, ...]], symbolic: bool) -> None:
    check_node("Einsum", [normal(*shape) for shape in shapes], {"equation": equation}, symbolic=symbolic)


BROADCAST: list[tuple[str, *tuple[tuple[int, ...], ...]]] = [
    ("ij,jk->ik", (2, 1), (3, 4)),
    ("ij,jk->ik", (2, 3), (1, 4)),
    ("...ij,...jk->...ik", (5, 1, 2, 3), (1, 4, 3, 2)),
]


@pytest.mark.parametrize(("equation", "shapes"), [(e, s) for e, *s in BROADCAST], ids=str)
def test_einsum_of_an_axis_of_size_one(equation: str, shapes: list[tuple[int, ...]]) -> None:
    check_node("Einsum", [normal(*shape) for shape in shapes], {"equation": equation})


SIZES = {"a": 2, "b": 3, "c": 1, "d": 2}


@settings(max_examples=25)
@given(st.data())
def test_any_einsum(data: st.DataObject) -> None:
    terms = data.draw(st.lists(st.text("abcd", max_size=3), min_size=1, max_size=3))
    labels = sorted(set("".join(terms)))
    output = "".join(data.draw(st.permutations(labels))[: data.draw(st.integers(0, len(labels)))])
    operands = [normal(*(SIZES[label] for label in term)) for term in terms]
    check_node("Einsum", operands, {"equation": f"{','.join(terms)}->{output}"})


def test_einsum_on_its_own_label_is_one_number_repeated():
    model, given_values = node_model("Einsum", [normal(2, 3), normal(4)], {"equation": "ij,k->k"})
    results = run(grad(model, wrt="x0"), given_values | {"y0_grad": np.ones(4)})
    np.testing.assert_allclose(results["x0_grad"], np.full((2, 3), given_values["x1"].sum()), rtol=1e-12)


def test_a_product_by_einsum_is_two():
    assert backward_operators("Einsum", (2, 3), (3, 4), equation="ij,jk->ik") == ["Einsum", "Einsum"]


# --- all -------------------------------------------------------------------------------------------

CALLS: list[tuple[str, list[tuple[int, ...]], dict[str, Any]]] = [
    ("MatMul", [(2, 2, 3), (3, 2)], {}),
    ("MatMul", [(2, 2, 3), (2, 3, 2)], {}),
    ("Gemm", [(2, 3), (3, 2), (2,)], {"alpha": 0.5}),
    ("Einsum", [(2, 3), (3, 2)], {"equation": "ij,jk->ik"}),
    ("Einsum", [(2, 2, 3)], {"equation": "iij->j"}),
]


@pytest.mark.parametrize(("op_type", "shapes", "attributes"), CALLS, ids=str)
def test_second_derivative(op_type: str, shapes: list[tuple[int, ...]], attributes: dict[str, Any]) -> None:
    model, given_values = node_model(op_type, [normal(*shape) for shape in shapes], attributes)
    first = grad(model)
    seed = normal(*run(model, given_values)["y0"].shape)
    check_model(first, given_values | {"y0_grad": seed})


@pytest.mark.parametrize(("op_type", "shapes", "attributes"), CALLS, ids=str)
def test_half_precision(op_type: str, shapes: list[tuple[int, ...]], attributes: dict[str, Any]) -> None:
    inputs = [normal(*shape).astype(np.float16) for shape in shapes]
    model, given_values = node_model(op_type, inputs, attributes)
    y = run(model, given_values)["y0"]
    results = run(grad(model), given_values | {"y0_grad": np.ones_like(y)})
    wide, wide_values = node_model(op_type, [part.astype(np.float64) for part in inputs], attributes)
    expected = run(grad(wide), wide_values | {"y0_grad": np.ones(y.shape)})
    for name in given_values:
        assert results[f"{name}_grad"].dtype == np.float16
        np.testing.assert_allclose(results[f"{name}_grad"], expected[f"{name}_grad"], rtol=1e-2, atol=1e-2)


def test_the_gradient_graph_is_valid():
    model, _ = node_model("Einsum", [normal(2, 2), normal(2)], {"equation": "ii,i->i"})
    onnx.checker.check_model(to_onnx(grad(model)), full_check=True)
