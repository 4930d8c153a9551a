"""ScatterND: right for every dtype, reduction and shape, and clear about what is wrong."""

from __future__ import annotations

import doctest
import warnings

import ml_dtypes
import numpy as np
import pytest
from random_calls import disguised, random_call
from samples import ALL_DTYPES, DTYPES, NARROW, reductions_of, same, samples
from vectors_nd import vectors

from mdf_scatter.dtypes import BFLOAT16, dtype_of, is_string
from mdf_scatter.errors import MdfScatterError, OperatorError
from mdf_scatter.kernels import REDUCTIONS, reference
from mdf_scatter.node import OperatorNode
from mdf_scatter.ops import OPS
from mdf_scatter.ops import scatter_nd as module
from mdf_scatter.ops.op import add_op
from mdf_scatter.ops.scatter_nd import scatter_nd

OP = OPS["ScatterND"]
NAMES_PLACE = ("data", "indices", "updates", "reduction", "out")

VECTORS = vectors("ScatterND", OP.inputs, ("reduction",))
NO_ORDER = "complex numbers have no order: max and min are an error"
ZERO_ORDER = "+0 counts as greater than -0"
DECIDED_OTHERWISE = {
    "ScatterND_0744": NO_ORDER,
    "ScatterND_0747": NO_ORDER,
    "ScatterND_0748": NO_ORDER,
    "ScatterND_0749": NO_ORDER,
    "ScatterND_0760": NO_ORDER,
    "ScatterND_0761": NO_ORDER,
    "ScatterND_0762": NO_ORDER,
    "ScatterND_0763": NO_ORDER,
    "ScatterND_0793": ZERO_ORDER,
    "ScatterND_0797": ZERO_ORDER,
}
"""Vectors whose expected value the specification does not share, and why."""


def problem(*arguments, **keywords):
    """Return the whole message of the error that a call raises."""
    with pytest.raises(OperatorError) as caught:
        scatter_nd(*arguments, **keywords)
    error = caught.value
    assert (error.op, error.node) == ("ScatterND", None)
    assert isinstance(error, MdfScatterError)
    assert "\n" not in str(error)
    return str(error)


# --- cases and vectors -------------------------------------------------------------------------


@pytest.mark.parametrize("case", OP.cases, ids=lambda case: case.name)
def test_case(case):
    assert (case.expected is None) != (case.error is None)
    if case.error is not None:
        assert problem(*case.inputs, **case.attributes) == case.error
    else:
        assert same(OP.forward(*case.inputs, **case.attributes), case.expected)


def test_case_names_are_unique():
    names = [case.name for case in OP.cases]
    assert len(set(names)) == len(names)


def test_table_refuses_a_second_operator_of_a_name():
    with pytest.raises(ValueError, match="operator 'ScatterND' is in OPS already; names are unique"):
        add_op(OP)


def test_docstring_examples():
    assert doctest.testmod(module).failed == doctest.testmod(reference).failed == 0


@pytest.mark.parametrize(
    "vector", [v for v in VECTORS if v.expected is not None], ids=lambda vector: vector.id
)
def test_vector(vector):
    if DECIDED_OTHERWISE.get(vector.id) == NO_ORDER:
        assert "complex numbers have no order" in problem(*vector.inputs, **vector.attributes)
        return
    result = scatter_nd(*vector.inputs, **vector.attributes)
    assert same(result, reference.scatter_nd(*vector.inputs, **vector.attributes), computed=True)
    if DECIDED_OTHERWISE.get(vector.id) == ZERO_ORDER:
        np.testing.assert_array_equal(result, vector.expected)
        assert not same(result, vector.expected, computed=True)
    else:
        assert same(result, vector.expected)


@pytest.mark.parametrize("vector", [v for v in VECTORS if v.expected is None], ids=lambda vector: vector.id)
def test_wrong_vector_is_an_error_that_names_the_place(vector):
    assert problem(*vector.inputs, **vector.attributes).split(": ")[1].startswith(NAMES_PLACE)


# --- random calls, right and wrong -------------------------------------------------------------


def check_random_calls(rng, count):
    outcomes = {True: 0, False: 0}
    for _ in range(count):
        data, indices, updates, reduction, fault = random_call(rng)
        before = data.copy(), indices.copy(), updates.copy()
        given = [disguised(rng, array) for array in (data, indices, updates)]
        for array in given:
            array.flags.writeable = False
        out = np.zeros(data.shape, "U90" if data.dtype.kind == "U" else data.dtype)
        out_before = out.copy()
        keywords = {"out": out} if rng.random() < 0.5 else {}
        outcomes[fault is None] += 1
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            if fault is not None:
                message = problem(*given, reduction, **keywords)
                assert message.split(": ")[1].startswith(NAMES_PLACE), message
                assert same(out, out_before)
            else:
                result = scatter_nd(*given, reduction, **keywords)
                expected = reference.scatter_nd(data, indices, updates, reduction)
                assert same(result, expected, computed=reduction != "none")
                assert result.dtype == data.dtype or is_string(data.dtype)
                assert result.dtype.isnative
                assert result.flags.c_contiguous
                assert (result is out) == bool(keywords)
        for array, copy in zip((data, indices, updates), before, strict=True):
            assert same(array, copy)
    return outcomes


def test_random_calls_equal_reference_or_are_errors():
    outcomes = check_random_calls(np.random.default_rng(2024), 3000)
    assert min(outcomes.values()) > 500


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_many_random_calls_equal_reference_or_are_errors(seed):
    check_random_calls(np.random.default_rng(seed), 5000)


# --- dtypes ------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ALL_DTYPES)
def test_dtype_of_the_result_is_that_of_data(dtype):
    for reduction in reductions_of(dtype):
        data = samples(dtype)[: 4 if dtype != "bool" else 2]
        assert scatter_nd(data, [[0], [1], [0]], data[[1, 0, 1]], reduction).dtype.kind == data.dtype.kind
    if not is_string(data.dtype):
        assert scatter_nd(data, [[0]], data[:1]).dtype == dtype_of(dtype)


def test_integers_wrap_and_floats_overflow_without_a_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        wrapped = scatter_nd(np.array([100], np.int8), [[0]], np.array([100], np.int8), "add")
        largest = np.array([3e38], np.float32)
        assert wrapped.tolist() == [-56]
        assert scatter_nd(largest, [[0]], largest, "mul").tolist() == [np.inf]
        assert np.isnan(scatter_nd(np.array([np.inf]), [[0]], np.array([-np.inf]), "add"))


def test_bool_adds_as_or_and_multiplies_as_and():
    data, updates = np.array([False, False, True, True]), np.array([False, True, False, True])
    indices = np.arange(4)[:, np.newaxis]
    for reduction, expected in {
        "add": [False, True, True, True],
        "max": [False, True, True, True],
        "mul": [False, False, False, True],
        "min": [False, False, False, True],
    }.items():
        assert scatter_nd(data, indices, updates, reduction).tolist() == expected


@pytest.mark.parametrize("reduction", ["max", "min"])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, BFLOAT16])
def test_nan_wins_wherever_it_is(dtype, reduction):
    data = np.array([np.nan, 1, 1], dtype)
    updates = np.array([5, np.nan, 5, 5, 5], dtype)
    result = scatter_nd(data, [[0], [1], [1], [2], [2]], updates, reduction)
    assert np.isnan(result).tolist() == [True, True, False]


@pytest.mark.parametrize("dtype", NARROW)
def test_types_without_arithmetic_are_moved_only(dtype):
    data = samples(dtype)
    assert same(scatter_nd(data, [[0]], data[3:4]), data[[3, *range(1, len(data))]])
    assert problem(data, [[0]], data[3:4], "add") == (
        f"ScatterND: reduction is 'add' and data has dtype {dtype},"
        " but it is a type without arithmetic; expected 'none'"
    )


@pytest.mark.parametrize(
    "dtype", ["datetime64[s]", "timedelta64[s]", "V4", "longdouble", "clongdouble", "S3", "f4,i4"]
)
def test_other_dtypes_are_an_error_that_lists_the_known(dtype):
    data = np.zeros(3, dtype)
    named = "bytes24" if dtype == "S3" else data.dtype.name
    known = ", ".join(repr(name) for name in (*DTYPES[:16], *NARROW)[:-1])
    assert problem(data, [[0]], data[:1]) == f"ScatterND: data has dtype {named}; expected {known} or 'uint2'"
    standard = ", ".join(repr(name) for name in DTYPES[:15])
    assert problem(data, [[0]], data[:1], "add") == (
        f"ScatterND: data has dtype {named}; expected {standard} or 'string'"
    )


# --- strings -----------------------------------------------------------------------------------


def test_fixed_width_strings_widen_as_needed():
    data = np.array(["a", "bc"])
    widened = scatter_nd(data, [[0]], ["wide text"])
    assert (widened.tolist(), widened.dtype) == (["wide text", "bc"], np.dtype("U9"))
    assert scatter_nd(data, [[0]], np.array(["d"], "U50")).dtype == np.dtype("U2")
    assert scatter_nd(np.array(["a"], "U7"), [[0]], ["b"], "add").dtype == np.dtype("U7")


@pytest.mark.parametrize("kind", ["U4", "O", "T"])
@pytest.mark.parametrize("updates_kind", ["U9", "O", "T"])
def test_kinds_of_strings_mix(kind, updates_kind):
    kinds = {"T": np.dtypes.StringDType()}
    data = np.array(["a", "b"], kinds.get(kind, kind))
    updates = np.array(["longer", "x", "\U0001f600"], kinds.get(updates_kind, updates_kind))
    indices = np.array([[0], [1], [1]])
    for reduction, expected in {
        "none": ["longer", "\U0001f600"],
        "add": ["alonger", "bx\U0001f600"],
        "max": ["longer", "\U0001f600"],
        "min": ["a", "b"],
    }.items():
        result = scatter_nd(data, indices, updates, reduction)
        assert result.dtype.kind == data.dtype.kind
        assert result.tolist() == expected


def test_strings_compare_by_code_point_not_by_utf16():
    assert scatter_nd(["\uffff"], [[0]], ["\U0001f600"], "max").tolist() == ["\U0001f600"]


def test_out_for_strings_has_to_be_wide_enough():
    data = np.array(["a", "b"])
    out = np.array(["-", "-"], "U3")
    assert scatter_nd(data, [[0]], ["xyz"], out=out) is out
    assert out.tolist() == ["xyz", "b"]
    assert problem(data, [[0]], ["wide"], out=out) == (
        "ScatterND: out has dtype U3; expected U4 or wider for the result"
    )
    assert out.tolist() == ["xyz", "b"]
    assert problem(data, [[0]], ["x"], out=out.astype(">U3")) == (
        "ScatterND: out has dtype U3 in the byte order of another machine; expected U1, the dtype of data"
    )
    assert problem(data, [[0]], ["x"], out=out.astype(object)) == (
        "ScatterND: out has dtype string; expected U1, the dtype of data"
    )


def test_objects_are_strings_or_an_error():
    assert problem(np.array(["a", b"b"], object), [[0]], ["c"]) == (
        "ScatterND: data[1] is of type bytes; expected str, all that an array of strings may hold"
    )
    assert problem(["a"], [[[0]]], np.array([[1.5]], object)) == (
        "ScatterND: updates[0, 0] is of type float; expected str, all that an array of strings may hold"
    )
    missing = np.array(["a", None], np.dtypes.StringDType(na_object=None))
    assert problem(missing, [[0]], ["b"]) == (
        "ScatterND: data[1] is of type NoneType; expected str, all that an array of strings may hold"
    )


def test_strings_that_data_cannot_hold_are_an_error():
    assert problem(["a"], [[0]], np.array(["b\0"], object)) == (
        "ScatterND: a string of the result ends in a NUL, which a fixed-width array drops; use objects"
    )
    assert problem(np.array(["a"], np.dtypes.StringDType()), [[0]], np.array(["\ud800"], object)) == (
        "ScatterND: a string of the result has a lone surrogate, which StringDType cannot hold; use objects"
    )


# --- indices -----------------------------------------------------------------------------------


def test_indices_mean_what_they_say_whatever_their_width():
    data = np.arange(1000.0)
    for index in (np.int8(-128), np.uint8(200), np.uint64(999), np.int16(-1000), ml_dtypes.int4(-8)):
        expected = data.copy()
        expected[int(index)] = -1
        assert same(scatter_nd(data, np.array([[index]]), np.array([-1.0])), expected)


@pytest.mark.parametrize("index", [2**63, 2**64 - 1, 1000])
def test_large_unsigned_index_is_out_of_range_not_negative(index):
    assert problem(np.zeros(1000), np.array([[1], [index]], np.uint64), np.zeros(2)) == (
        f"ScatterND: indices[1, 0] is {index}; expected -1000..999 (axis 0 of data)"
    )


def test_the_first_index_out_of_range_is_named():
    indices = np.array([[[0, 1], [1, 3]], [[-3, 0], [0, 9]]])
    assert problem(np.zeros((2, 3)), indices, np.zeros((2, 2))) == (
        "ScatterND: indices[0, 1, 1] is 3; expected -3..2 (axis 1 of data)"
    )
    assert problem(np.zeros((2, 3)), [5], np.zeros(3)) == (
        "ScatterND: indices[0] is 5; expected -2..1 (axis 0 of data)"
    )


@pytest.mark.parametrize(("dtype", "name"), [("float64", "float64"), ("bool", "bool"), ("O", "object")])
def test_dtype_of_indices(dtype, name):
    assert problem(np.zeros(3), np.zeros((0, 1), dtype), np.zeros(0)) == (
        f"ScatterND: indices has dtype {name}; expected an integer dtype, such as int64"
    )


def test_empty_lists_are_empty_and_of_any_dtype():
    data = np.array([1, 2], np.int8)
    assert same(scatter_nd(data, [], np.array([3, 4], np.int8)), np.array([3, 4], np.int8))
    assert same(scatter_nd(data, np.zeros((0, 1), int), []), data)
    assert problem(data, [], []) == (
        "ScatterND: updates has shape (0,); expected indices.shape[:-1] + data.shape[0:] = () + (2,) = (2,)"
    )


def test_rank_1_indices_are_one_update():
    data = np.arange(6.0).reshape(2, 3)
    assert scatter_nd(data, [1], [7.0, 8.0, 9.0]).tolist() == [[0, 1, 2], [7, 8, 9]]
    assert scatter_nd(data, [1, -1], 7.0).tolist() == [[0, 1, 2], [3, 4, 7]]


def test_zero_sized_axes_are_legal_however_large_the_others():
    data = np.zeros((1 << 40, 0, 2), np.float32)
    assert scatter_nd(data, [[5]], np.zeros((1, 0, 2), np.float32), "add").shape == data.shape
    assert scatter_nd(np.zeros((0, 3)), np.zeros((0, 1), int), np.zeros((0, 3))).shape == (0, 3)


# --- what callers pass -------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:the matrix subclass:PendingDeprecationWarning")
def test_inputs_of_every_make(tmp_path):
    expected = np.array([[9.0, 1], [2, 3]])
    data = np.array([[0.0, 1], [2, 3]])
    mapped = np.memmap(tmp_path / "data", np.float64, "w+", shape=(2, 2))
    mapped[:] = data
    makes = [data.tolist(), np.asmatrix(data), mapped, np.asfortranarray(data), data.astype(">f8")]
    for made in makes:
        result = scatter_nd(made, ((0, 0),), [9.0])
        assert type(result) is np.ndarray
        assert same(result, expected)
    assert data[0, 0] == mapped[0, 0] == 0


def test_masked_arrays_are_refused():
    masked = np.ma.masked_array([1.0, 2.0], [True, False])
    assert problem(masked, [[0]], [1.0]) == (
        "ScatterND: data is a masked array, and ScatterND has no masked elements;"
        " fill them first: data.filled(value)"
    )
    assert problem([1.0, 2.0], [[0]], masked[:1]).startswith("ScatterND: updates is a masked array")


def test_what_is_no_array_is_named():
    message = problem([[1, 2], [3]], [[0]], [1])
    assert message.startswith("ScatterND: data is a list that cannot be read as an array: ")
    expected = "expected an array or a list"
    assert problem({1, 2}, [[0]], [1]) == f"ScatterND: data is a set; {expected}"
    assert problem([1], None, [1]) == f"ScatterND: indices is None; {expected}"
    assert problem([1], [[0]], iter([1])) == f"ScatterND: updates is a list_iterator; {expected}"
    assert problem(np.array(None), [[0]], [1]) == (
        "ScatterND: data is of type NoneType; expected str, all that an array of strings may hold"
    )


@pytest.mark.parametrize(
    ("indices", "message"),
    [
        ([[0], [2**70]], "indices[1, 0] is an integer of 71 bits; expected 64 or fewer"),
        (2**70, "indices is an integer of 71 bits; expected 64 or fewer"),
        ([[0], [None]], "indices[1, 0] is None; expected an integer"),
        (np.array([[0], [1.5]], object), "indices[1, 0] is 1.5; expected an integer"),
        (np.array([[0]], object), "indices has dtype object; expected an integer dtype, such as int64"),
    ],
)
def test_an_index_that_is_none_is_named(indices, message):
    assert problem([1], indices, [1]) == f"ScatterND: {message}"


@pytest.mark.parametrize(
    ("reduction", "message"),
    [
        ("ad", "reduction is 'ad'; expected 'none', 'add', 'mul', 'max' or 'min'; did you mean 'add'?"),
        (np.str_("Max"),
              "reduction is 'Max'; expected 'none', 'add', 'mul', 'max' or 'min'; did you mean 'max'?"),
        ("", "reduction is ''; expected 'none', 'add', 'mul', 'max' or 'min'"),
        (None, "reduction is of type NoneType; expected the text 'none', 'add', 'mul', 'max' or 'min'"),
        (b"add", "reduction is of type bytes; expected the text 'none', 'add', 'mul', 'max' or 'min'"),
        (max, "reduction is of type builtin_function_or_method;"
              " expected the text 'none', 'add', 'mul', 'max' or 'min'"),
    ],
)  # fmt: skip
def test_reduction_is_one_of_five_texts(reduction, message):
    assert problem([1.0], [[0]], [1.0], reduction) == f"ScatterND: {message}"


# --- out ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_out_may_be_data_itself(reduction):
    data = np.arange(8.0)
    expected = scatter_nd(data, [[4], [-1], [4]], [9.0, 2.0, 3.0], reduction)
    assert scatter_nd(data, [[4], [-1], [4]], [9.0, 2.0, 3.0], reduction, out=data) is data
    assert same(data, expected)


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("shift", [0, 1, 3])
@pytest.mark.parametrize("step", [1, -1])
def test_out_may_overlap_any_argument(reduction, shift, step):
    for overlapping in range(3):
        memory = np.array([3, 1, 2, 0, 1, 3, 2, 0, 1])
        arguments = [np.array([5, 6, 7, 8]), np.array([1, 0, 1, 3]), np.array([2, 3, 4, 5])]
        arguments[overlapping] = memory[:4]
        arguments[1] = arguments[1].reshape(4, 1)
        expected = scatter_nd(*(array.copy() for array in arguments), reduction)
        out = memory[shift : shift + 4][::step]
        assert scatter_nd(*arguments, reduction, out=out) is out
        assert out.tolist() == expected.tolist()


@pytest.mark.filterwarnings("ignore:the matrix subclass:PendingDeprecationWarning")
def test_out_may_have_any_layout(tmp_path):
    data = np.arange(6, dtype=np.float32).reshape(2, 3)
    expected = scatter_nd(data, [[1]], data[:1], "add")
    unaligned = np.frombuffer(bytearray(25), np.uint8)[1:].view(np.float32).reshape(2, 3)
    mapped = np.memmap(tmp_path / "out", np.float32, "w+", shape=(2, 3))
    outs = [np.zeros((2, 3), np.float32, order="F"), np.zeros((2, 6), np.float32)[:, ::2], unaligned, mapped,
            np.asmatrix(np.zeros((2, 3), np.float32))]  # fmt: skip
    for out in outs:
        assert scatter_nd(data, [[1]], data[:1], "add", out=out) is out
        assert np.asarray(out).tolist() == expected.tolist()


def test_wrong_out_is_an_error():
    data = np.zeros((2, 3), np.float32)
    arguments = data, [[0]], data[:1]
    frozen = np.zeros((2, 3), np.float32)
    frozen.flags.writeable = False
    for out, message in [
        (np.zeros((3, 2), np.float32), "out has shape (3, 2); expected (2, 3), the shape of data"),
        (np.zeros((2, 3)), "out has dtype float64; expected float32, the dtype of data"),
        (
            np.zeros((2, 3), ">f4"),
            "out has dtype float32 in the byte order of another machine; expected float32, the dtype of data",
        ),
        (frozen, "out is read-only; expected an array that can be written"),
        ([[0.0]], "out is a list; expected a NumPy array"),
        (np.ma.zeros((2, 3), np.float32), "out is a MaskedArray; expected a NumPy array"),
    ]:
        assert problem(*arguments, out=out) == f"ScatterND: {message}"


def test_out_is_untouched_after_an_error():
    data = np.arange(4.0)
    for arguments in [
        (data, [[0], [4]], [1.0, 2.0]),
        (data, [[0]], [1.0, 2.0]),
        (data, [[0]], [1]),
        (data, [[0.0]], [1.0]),
        (data, [[0]], [1.0], "sum"),
    ]:
        problem(*arguments, out=data)
        assert data.tolist() == [0, 1, 2, 3]


# --- repeats -----------------------------------------------------------------------------------


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_every_run_gives_the_same_bits(reduction):
    rng = np.random.default_rng(5)
    data, updates = rng.normal(size=(20, 7)), rng.normal(size=(5000, 7))
    indices = rng.integers(-20, 20, (5000, 1))
    first = scatter_nd(data, indices, updates, reduction)
    assert same(first, reference.scatter_nd(data, indices, updates, reduction))
    assert all(same(scatter_nd(data, indices, updates, reduction), first) for _ in range(5))


@pytest.mark.parametrize(
    ("data", "updates", "message"),
    [
        ([1, 10**30], [2], "data[1] is an integer of 100 bits; expected 64 or fewer"),
        ([1, 2], [-(10**30)], "updates[0] is an integer of 100 bits; expected 64 or fewer"),
        ([[1, 10**30]], [[2, 3]], "data[0, 1] is an integer of 100 bits; expected 64 or fewer"),
        (
            [1, None],
            [2],
            "data[0] is of type int; expected str, all that an array of strings may hold",
        ),
        (
            ["a", "b"],
            [2],
            "updates has dtype int64 and data has string; expected the same dtype",
        ),
        (
            [1.0, 2.0],
            ["a"],
            "updates has dtype string and data has float64; expected the same dtype",
        ),
        (
            np.zeros(2, np.float32),
            [1.0],
            "updates has dtype float64 and data has float32; expected the same dtype:"
            " give numpy.asarray(updates, 'float32')",
        ),
    ],
)
def test_objects_and_texts_are_called_what_they_are(data: list, updates: list, message: str) -> None:
    with pytest.raises(OperatorError) as caught:
        scatter_nd(data, [[0]], updates)
    assert str(caught.value) == f"ScatterND: {message}"


@pytest.mark.parametrize(
    ("other", "own"),
    [
        ("sum", "add"), ("prod", "mul"), ("multiply", "mul"), ("amax", "max"), ("maximum", "max"),
        ("amin", "min"), ("MINIMUM", "min"), ("update", "none"), ("assign", "none"), ("replace", "none"),
        ("overwrite", "none"),
    ],
)  # fmt: skip
def test_names_of_reductions_in_other_libraries_are_known(other: str, own: str) -> None:
    with pytest.raises(OperatorError) as caught:
        scatter_nd([1.0], [[0]], [2.0], reduction=other)
    expected = "expected 'none', 'add', 'mul', 'max' or 'min'"
    assert str(caught.value) == f"ScatterND: reduction is {other!r}; {expected}; did you mean {own!r}?"


@pytest.mark.parametrize("kind", OperatorNode.__subclasses__())
def test_a_node_takes_no_setting_that_would_change_nothing(kind: type[OperatorNode]) -> None:
    node = kind()
    with pytest.raises(AttributeError, match=f"^'{kind.__name__}' object has no attribute 'reduction'"):
        node.reduction = "add"
