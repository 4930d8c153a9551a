"""The reduction `mean` and `include_self=False`, which nodes, MDF functions and graphs have beyond ONNX."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from samples import ALL_DTYPES, FIXED, VARIABLE, reductions_of, same, samples
from test_kernels import KERNEL_DTYPES, rows_calls

from mdf_scatter.dtypes import BFLOAT16, NARROW
from mdf_scatter.errors import OperatorError
from mdf_scatter.kernels import REDUCTIONS, WIDE_REDUCTIONS, reference, scatter_rows, vectorized
from mdf_scatter.ops import OPS
from mdf_scatter.ops.scatter_elements import scatter_elements
from mdf_scatter.ops.scatter_nd import scatter_nd

NO_MEAN = ("bool", "string", FIXED, VARIABLE, *NARROW)
SCATTERS = ("ScatterND", "ScatterElements")
TWICE = np.array([[1], [3], [1]])


def wide_reductions_of(dtype):
    return reductions_of(dtype) + (() if dtype in NO_MEAN else ("mean",))


WIDE_CALLS = [
    (dtype, reduction, include_self)
    for dtype in KERNEL_DTYPES
    for reduction in wide_reductions_of(dtype)
    for include_self in (True, False)
    if not (include_self and reduction in REDUCTIONS)
]


@pytest.mark.parametrize(("dtype", "reduction", "include_self"), WIDE_CALLS)
@settings(max_examples=20, deadline=None)
@given(data=st.data(), wide_row=st.sampled_from([1, 1024]), movable_row=st.sampled_from([0, 1 << 16]))
def test_kernel_equals_reference(dtype, reduction, include_self, data, wide_row, movable_row):
    out, rows, updates = data.draw(rows_calls(dtype))
    expected = reference.scatter_nd(out, rows[:, np.newaxis], updates, reduction, include_self)
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("error")
        patch.setattr(vectorized, "WIDE_ROW", wide_row)
        patch.setattr(vectorized, "MOVABLE_ROW", movable_row)
        patch.setattr(vectorized, "BLOCK", 7)
        scatter_rows(out, None, rows, updates, reduction, include_self)
    assert same(out, expected, computed=reduction != "none")


@pytest.mark.parametrize("op", SCATTERS)
def test_mean(op):
    data = np.array([1.0, 2, 3, 4])
    indices = TWICE if op == "ScatterND" else TWICE[:, 0]
    updates = np.array([4.0, 10, 6])
    forward = OPS[op].forward
    assert forward(data, indices, updates, reduction="mean").tolist() == [1, 4, 3, 7]
    assert forward(data, indices, updates, reduction="mean", include_self=False).tolist() == [1, 5, 3, 10]


def one(data, updates, reduction, include_self, dtype):
    """Reduce updates into a single element."""
    indices = np.zeros((len(updates), 1), np.int64)
    return OPS["ScatterND"].forward(
        np.array([data], dtype), indices, np.array(updates, dtype), reduction, include_self
    )[0]


def test_mean_of_integers_is_floored_and_its_sum_wraps():
    assert one(1, [-2], "mean", True, np.int32) == -1
    assert one(-7, [-2, 1], "mean", True, np.int8) == -3
    assert one(0, [-7, 2], "mean", False, np.int64) == -3
    assert one(100, [100, 1], "mean", True, np.int8) == (201 - 256) // 3
    assert one(2**64 - 1, [3], "mean", True, np.uint64) == 1
    assert one(0, [-128] * 255, "mean", True, np.int8) == -1, "sum -32640 wraps to -128, count 256 does not"


@pytest.mark.parametrize("dtype", [np.float16, BFLOAT16])
def test_mean_of_halves_is_rounded_once(dtype):
    largest = float(np.array(np.finfo(np.float16).max, dtype))
    assert one(largest, [largest, largest], "mean", True, dtype) == largest
    assert one(0.0, [1.0] * 4096, "mean", False, dtype) == 1
    assert one(0.0, [1.0] * 2, "mean", True, dtype) == np.array(2 / 3, np.float32).astype(dtype)


def test_mean_of_complex_numbers():
    assert one(1 + 1j, [3 - 5j], "mean", True, np.complex64) == 2 - 2j
    result = one(complex(np.inf, 1), [0j], "mean", True, np.complex128)
    assert (result.real, result.imag) == (np.inf, 0.5), "a real divisor makes no NaN of infinity"


@pytest.mark.parametrize("dtype", [np.float32, np.float16, BFLOAT16])
def test_without_self_data_leaves_no_trace(dtype):
    for reduction in ("add", "mul", "max", "min", "mean"):
        for data in (np.nan, np.inf, -np.inf, 0.0, -0.0):
            assert one(data, [2.0, 2.0], reduction, False, dtype) == {"add": 4, "mul": 4}.get(reduction, 2)
            for zero in (0.0, -0.0):
                result = one(data, [zero], reduction, False, dtype)
                assert result == 0
                assert np.signbit(result) == np.signbit(zero)


def test_without_self_for_strings_bool_and_unsigned():
    assert one("long text", ["b", "a", "c"], "add", False, object) == "bac"
    assert one("z", ["b", "a"], "max", False, object) == "b"
    assert one("", ["b", "a"], "min", False, "U9") == "a"
    assert not one(True, [False, False], "add", False, bool)
    assert one(False, [True, True], "mul", False, bool)
    assert one(255, [3, 7], "max", False, np.uint8) == 7


def test_none_has_no_use_for_self():
    for include_self in (True, False, np.bool_(False)):
        assert one(5.0, [1.0, 2.0], "none", include_self, np.float64) == 2


def test_untouched_rows_keep_their_bits():
    signalling = np.array([[0x7D01], [0x7D01]], np.uint16).view(np.float16)
    for reduction in WIDE_REDUCTIONS:
        for include_self in (True, False):
            scatter_rows(
                signalling, None, np.array([0]), np.ones((1, 1), np.float16), reduction, include_self
            )
            assert signalling.view(np.uint16)[1, 0] == 0x7D01


# --- errors ------------------------------------------------------------------------------------


def problem(forward, *arguments, **keywords):
    with pytest.raises(OperatorError) as caught:
        forward(*arguments, **keywords)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    ("dtype", "reason", "left"),
    [
        ("bool", "truth values have no quotient", "'none', 'add', 'mul', 'max' or 'min'"),
        ("string", "strings have no quotient", "'none', 'add', 'max' or 'min'"),
        (FIXED, "strings have no quotient", "'none', 'add', 'max' or 'min'"),
        ("int4", "it is a type without arithmetic", "'none'"),
        ("float8_e5m2", "it is a type without arithmetic", "'none'"),
    ],
)
@pytest.mark.parametrize("op", SCATTERS)
def test_dtypes_without_a_mean(op, dtype, reason, left):
    data = samples(dtype)[:2]
    named = "string" if dtype == FIXED else dtype
    indices = np.zeros((1, 1) if op == "ScatterND" else 1, np.int64)
    assert problem(OPS[op].forward, data, indices, data[:1], reduction="mean") == (
        f"{op}: reduction is 'mean' and data has dtype {named}, but {reason}; expected {left}"
    )


def test_every_dtype_has_a_mean_or_an_error():
    for dtype in ALL_DTYPES:
        data = samples(dtype)[:2]
        arguments = data, np.zeros((1, 1), np.int64), data[:1], "mean"
        if dtype in NO_MEAN:
            problem(OPS["ScatterND"].forward, *arguments)
        else:
            assert OPS["ScatterND"].forward(*arguments).dtype == data.dtype


@pytest.mark.parametrize("op", SCATTERS)
def test_attributes_of_nodes_and_functions(op):
    forward = OPS[op].forward
    arguments = np.zeros(4), np.zeros((1, 1) if op == "ScatterND" else 1, np.int64), np.zeros(1)
    assert OPS[op].attributes["reduction"].choices == ("none", "add", "mul", "max", "min", "mean")
    assert OPS[op].attributes["include_self"].default is True
    assert problem(forward, *arguments, reduction="men") == (
        f"{op}: reduction is 'men'; expected 'none', 'add', 'mul', 'max', 'min' or 'mean';"
        " did you mean 'mean'?"
    )
    rows = np.zeros((2, 2))
    assert problem(forward, *arguments, include_self=rows) == (
        f"{op}: include_self is array([[0., 0.], [0., 0.]]); expected True or False"
    )
    for value in (1, 0, None, "false", np.array(True)):
        assert problem(forward, *arguments, include_self=value) == (
            f"{op}: include_self is {value!r}; expected True or False"
        )
    complex_data = np.zeros(4, complex), arguments[1], np.zeros(1, complex)
    for reduction in ("max", "min"):
        assert problem(forward, *complex_data, reduction=reduction) == (
            f"{op}: reduction is {reduction!r} and data has dtype complex128,"
            " but complex numbers have no order; expected 'none', 'add', 'mul' or 'mean'"
        )
    assert forward(*complex_data, reduction="mean").dtype == complex
    texts = np.array(["a"] * 4), arguments[1], np.array(["b"])
    assert problem(forward, *texts, reduction="mul") == (
        f"{op}: reduction is 'mul' and data has dtype string,"
        " but strings have no product; expected 'none', 'add', 'max' or 'min'"
    )


def test_public_functions_do_not_offer_the_mean_that_they_lack():
    for function, indices in ((scatter_nd, [[0]]), (scatter_elements, [0])):
        name = OPS["ScatterND" if function is scatter_nd else "ScatterElements"].name
        assert problem(function, [1j], indices, [2j], reduction="max") == (
            f"{name}: reduction is 'max' and data has dtype complex128,"
            " but complex numbers have no order; expected 'none', 'add' or 'mul'"
        )


def test_public_functions_are_onnx_s():
    for function, indices in ((scatter_nd, [[0]]), (scatter_elements, [0])):
        name = OPS["ScatterND" if function is scatter_nd else "ScatterElements"].name
        assert problem(function, [1.0], indices, [1.0], reduction="mean") == (
            f"{name}: reduction is 'mean'; expected 'none', 'add', 'mul', 'max' or 'min';"
            f" the node {name}(reduction='mean') has it"
        )
        with pytest.raises(TypeError, match="include_self"):
            function([1.0], indices, [1.0], include_self=False)
