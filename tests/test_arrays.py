"""Arrays as nested lists: every type, shape and value comes back, and nothing else is taken."""

# ruff: noqa: E501 - whole messages stand in the tables
from __future__ import annotations

import json

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mdf_scatter.dtypes import NARROW, STANDARD, dtype_of
from mdf_scatter.errors import FormatError
from mdf_scatter.formats.arrays import (
    from_plain,
    in_native_order,
    kept_type,
    shortest,
    to_plain,
)
from mdf_scatter.formats.paths import parse_path, path_text

NUMERIC = [name for name in (*STANDARD, *NARROW) if name != "string"]


def there_and_back(array):
    tree = json.loads(json.dumps(to_plain(array, "value")))
    return from_plain(tree, kept_type(array, "value"), "value")


def assert_same(found, expected):
    assert found.dtype == in_native_order(expected.dtype)
    assert found.shape == expected.shape
    if expected.dtype.kind in "OUT":
        assert found.tolist() == expected.tolist()
        return
    same = np.equal(found, expected) | ((found != found) & (expected != expected))
    assert np.all(same)
    if expected.dtype.kind == "f":
        assert np.array_equal(np.signbit(found), np.signbit(expected) & ~np.isnan(expected))


@pytest.mark.parametrize("name", NUMERIC)
@pytest.mark.parametrize("shape", [(), (1,), (0,), (0, 2), (2, 0), (2, 3, 1)])
def test_every_type_and_shape_comes_back(name, shape):
    count = int(np.prod(shape))
    array = (np.arange(count) % 2).astype(dtype_of(name)).reshape(shape)
    assert_same(there_and_back(array), array)


@pytest.mark.parametrize(
    "name", ["bfloat16", "float16", "float8_e4m3fn", "float8_e5m2", "float8_e8m0fnu", "int4"]
)
def test_every_value_of_a_small_type_comes_back(name):
    dtype = dtype_of(name)
    bits = np.arange(2 ** (8 * dtype.itemsize), dtype=f"u{dtype.itemsize}")
    with np.errstate(invalid="ignore"):
        assert_same(there_and_back(bits.view(dtype)), bits.view(dtype))


@given(st.lists(st.floats(width=32), min_size=1))
def test_float32_comes_back_and_is_short(values):
    array = np.array(values, np.float32)
    assert_same(there_and_back(array), array)
    for number, text in zip(
        array[np.isfinite(array)], map(repr, to_plain(array[np.isfinite(array)], "v")), strict=True
    ):
        assert float(text) == float(str(number))  # NumPy's own shortest form


@given(st.lists(st.floats(), min_size=1))
def test_float64_comes_back(values):
    assert_same(there_and_back(np.array(values)), np.array(values))


@given(st.lists(st.complex_numbers()))
def test_complex_comes_back_part_by_part(values):
    array = np.array(values, np.complex128)
    found = there_and_back(array)
    assert_same(found.real, array.real)
    assert_same(found.imag, array.imag)


def test_complex_keeps_nan_infinity_and_the_sign_of_zero():
    array = np.array([complex(-0.0, -0.0), complex(np.nan, np.inf), complex(1.0, -2.5)], np.complex64)
    assert to_plain(array, "value") == ["-0.0-0.0j", "nan+infj", "1.0-2.5j"]
    found = there_and_back(array)
    assert np.signbit(found[0].real)
    assert np.signbit(found[0].imag)
    assert np.isnan(found[1].real)
    assert found[1].imag == np.inf


@pytest.mark.parametrize(
    "array",
    [
        np.array([2**53 + 1, -(2**63)], np.int64),
        np.array([2**63, 2**64 - 1], np.uint64),
        np.array([True, False]),
        np.array(["", "true", " x ", "a\nb", "\U0001f600", "\0a"], object),
        np.array([["abc", "1"]], "U5"),
        np.array(["~", "null"], np.dtypes.StringDType()),
        np.arange(6, dtype=">i4").reshape(2, 3).T,
        np.array(5.5, ">f8"),
    ],
    ids=lambda array: kept_type(array, "value"),
)
def test_values_that_others_lose(array):
    assert_same(there_and_back(array), array)


def test_wide_integers_become_text_where_the_format_has_none():
    array = np.array([1, 2**63], np.uint64)
    assert to_plain(array, "value", int64_only=True) == [1, "9223372036854775808"]
    assert_same(from_plain([1, "9223372036854775808"], "uint64[2]", "value"), array)


def test_shortest_falls_back_to_exact():
    assert shortest(np.array([0.1, 16777216.0], np.float32)) == [0.1, 16777216.0]
    assert shortest(np.array([0.1], ml_dtypes.bfloat16)) == [0.1]


def test_an_empty_array_of_many_rows_is_short():
    assert to_plain(np.empty((10**6, 0)), "value") == []
    assert from_plain([], "float64[1000000, 0]", "value").shape == (10**6, 0)


@pytest.mark.parametrize(
    ("tree", "text", "message"),
    [
        ([1, 2], "float32[3]", "value is a list of 2; float32[3] needs a list of 3 there"),
        ([[1], [2, 3]], "float32[2, 1]", "value[1] is a list of 2; float32[2, 1] needs a list of 1 there"),
        (5, "int8[1]", "value is 5; int8[1] needs a list of 1 there"),
        ([1, 300], "uint8[2]", "value[1] is 300; uint8 holds whole numbers 0..255"),
        ([[1], [1.5]], "int64[2, 1]", f"value[1, 0] is 1.5; int64 holds whole numbers {-(2**63)}..{2**63 - 1}"),
        (True, "int4[]", "value is True; int4 holds whole numbers -8..7"),
        ([1, "x"], "float16[2]", "value[1] is 'x'; float16 holds numbers"),
        ([1e6], "float16[1]", "value[0] is 1000000.0; float16 cannot hold that (its largest is 65504.0)"),
        ([float("inf")], "float4_e2m1fn[1]", "value[0] is inf; float4_e2m1fn cannot hold that (its largest is 6.0)"),
        ([10**400], "float64[1]", "value[0] is an integer of 1329 bits; float64 holds no number so large"),
        ([1], "bool[1]", "value[0] is 1; bool holds true and false"),
        (["1+j2"], "complex64[1]", "value[0] is '1+j2'; complex64 holds texts such as '1.0-2.5j'"),
        (["abc"], "U2[1]", "value[0] is 'abc'; U2 holds at most 2 characters, the last not a NUL"),
        ([1], "string[1]", "value[0] is 1; string holds text"),
        ([1], "float[1]", "value has the type 'float[1]'; expected one such as 'float32[8, 4]'"),
        ([1], 5, "value has the type 5; expected one such as 'float32[8, 4]'"),
        ([1], "int8[" + "9" * 5000 + "]", f"value has the type '{'int8[' + '9' * 51}...; expected one such as 'float32[8, 4]'"),
        ([1], "U99999999999[1]", "value has the type 'U99999999999[1]'; expected one such as 'float32[8, 4]'"),
        ([], "int8[0, 99999999999999999999]", "value has the type 'int8[0, 99999999999999999999]', which no array can have"),
        (["a", "b", "c"], "U99999999[3]", "value pads 3 texts to 99999999 characters each; expected 'string' there"),
    ],
)  # fmt: skip
def test_lists_that_do_not_fit_their_type(tree, text, message):
    with pytest.raises(FormatError) as raised:
        from_plain(tree, text, "value")
    assert str(raised.value) == message


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.array(["2001-01-01"], "M8[D]"), "value is an array of 'datetime64[D]', which a model file cannot keep; expected numbers, bool or text"),
        (np.array([b"x"]), "value is an array of '|S1', which a model file cannot keep; expected numbers, bool or text"),
        (np.ma.array([1.0], mask=[True]), "value is a masked array; expected a plain one (use .filled())"),
    ],
)  # fmt: skip
def test_arrays_that_no_file_keeps(array, message):
    with pytest.raises(FormatError) as raised:
        kept_type(array, "value")
    assert str(raised.value) == message


def test_objects_that_are_not_text():
    with pytest.raises(FormatError) as raised:
        to_plain(np.array([["a", 1]], object), "node 'n': value")
    assert str(raised.value) == "node 'n': value[0, 1] is 1; an array of objects holds text"


@given(st.lists(st.text() | st.integers(0, 10**6), min_size=1))
def test_every_path_has_one_text(path):
    path = ["field", *path]
    assert parse_path(path_text(path)) == tuple(path)


@pytest.mark.parametrize(
    "text", ["", ".a", "a.", "a..b", "a[", "a[-1]", "a[01]", 'a["b"', "a[b]", 'a["b"]c', 'a["\\q"]']
)
def test_texts_that_are_no_path(text):
    assert parse_path(text) is None
