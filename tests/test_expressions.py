"""Expressions: what is read, what is refused, and with what words."""

from __future__ import annotations

import ast
import builtins
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mdf_scatter.errors import ModelError
from mdf_scatter.expressions import (
    CONSTANTS,
    FUNCTIONS,
    MAX_DEPTH,
    MAX_LENGTH,
    ExpressionError,
    literal,
    names,
    parse,
    shorten,
)

EXPECTED = "; expected arithmetic on known names, numpy.* functions such as numpy.exp"

RIGHT = {
    "0": [],
    " 2*x \n": ["x"],
    "\n x + 1": ["x"],
    "1e-3 + .5 - 0x10 + 1j": [],
    "-(V**3)/3 + V - w + Iext": ["V", "w", "Iext"],
    "A @ B // 2 % c": ["A", "B", "c"],
    "v >= thresh and not (t < delay or v != 0)": ["v", "thresh", "t", "delay"],
    "a < b <= c": ["a", "b", "c"],
    "x if c > 0 else y": ["x", "c", "y"],
    "f[0]": ["f"],
    "x[-1, 1:n:2] + y[i + 1]": ["x", "n", "y", "i"],
    "[a, 1, (b, 2)]": ["a", "b"],
    "x * [1, 2]": ["x"],
    "True": [],
    "1/(1+numpy.exp(-1*gain*(INPUT + bias - x_0)+offset))": ["gain", "INPUT", "bias", "x_0", "offset"],
    "exp(-x) + maximum(x, 0) + math.sqrt(math.pi)": ["x"],
    "numpy.sum(x, axis=(0, -1), keepdims=True)": ["x"],
    "numpy.mean(x, 0) + max(a, b, c) + len(x)": ["x", "a", "b", "c"],
    "numpy.where(x > numpy.inf, x, numpy.nan)": ["x"],
    "exp + numpy.exp(exp)": ["exp"],
    "conv__weight * __a": ["conv__weight", "__a"],
    "x**2 + 2**-y + 10**100 + pow(x, 3) + 2**n + x**0.5 + 2**int(3.9)": ["x", "y", "n"],
}

HOSTILE = {
    "__import__('os').system('x')": "calls __import__",
    "().__class__.__bases__[0].__subclasses__()": "calls ().__class__.__bases__[0].__subclasses__",
    "open('/etc/passwd').read()": "calls open",
    "eval('1')": "calls eval",
    "exec('import os')": "calls exec",
    "globals()": "calls globals",
    "getattr(x, 'y')": "calls getattr",
    "print(x)": "calls print",
    "x.tofile('y')": "calls x.tofile",
    "x.__class__": "reads x.__class__",
    "x.T": "reads x.T",
    "numpy.load('y')": "calls numpy.load",
    "numpy.random.rand(3)": "calls numpy.random.rand",
    "numpy.f2py.os.system('x')": "calls numpy.f2py.os.system",
    "math.__loader__": "reads math.__loader__",
    "numpy.exp.__self__": "reads numpy.exp.__self__",
    "__builtins__": "uses the name __builtins__",
    "__builtins__['eval']('1')": "calls __builtins__['eval']",
    "(lambda: 1)()": "calls lambda: 1",
    "lambda: x": "holds a lambda",
    "[y for y in x]": "holds a comprehension",
    "{y for y in x}": "holds a comprehension",
    "{y: 1 for y in x}": "holds a comprehension",
    "sum(y for y in x)": "holds a comprehension",
    "f'{x}'": "holds an f-string",
    "f'{open(1)}'": "holds an f-string",
    "(y := 1)": "holds an assignment",
    "[*x]": "holds a starred part",
    "max(*x)": "holds a starred part",
    "numpy.sum(x, **y)": "gives numpy.sum the argument **y",
    "numpy.sum(x, out=y)": "gives numpy.sum the argument out=y",
    "numpy.sum(x, axis=open('y'))": "gives numpy.sum a computed axis",
    "numpy.exp(x, y)": "gives numpy.exp 2 arguments, not 1",
    "numpy.sum(x, 0, 1)": "gives numpy.sum 3 arguments, not 1 to 2",
    "pow(2, 9, 7)": "gives pow 3 arguments, not 2",
    "int('1', 2)": "gives int 2 arguments, not 1",
    "int('9')": "holds '9'",
    "'%9999999999d' % 1": "holds '%9999999999d'",
    "'a' * 9999999999": "holds 'a'",
    "b'a'": "holds b'a'",
    "x['a']": "holds 'a'",
    "...": "holds ...",
    "None": "holds None",
    "x[...]": "holds ...",
    "{}": "holds a dict",
    "{1, 2}": "holds a set",
    "1 << 99999999999": "uses the operator <<",
    "x >> 1": "uses the operator >>",
    "x | y": "uses the operator |",
    "x & y": "uses the operator &",
    "x ^ y": "uses the operator ^",
    "~x": "uses the operator ~",
    "x is y": "uses the operator is",
    "x in y": "uses the operator in",
    "x not in y": "uses the operator not in",
    "[0] * 9999999999": "joins or repeats a list: [0] * 9999999999",
    "(0,) + (1,)": "joins or repeats a list: (0,) + (1,)",
    "9**9**9": "computes a number too large: 9**9**9",
    "1 + x**9**9": "computes a number too large: x**9**9",
    "pow(9, pow(9, 9))": "computes a number too large: pow(9, pow(9, 9))",
    "((9**9999)**9999)**9999": "computes a number too large: ((9**9999)**9999)**9999",
    "9**int(1e9)": "computes a number too large: 9**int(1e9)",
    "9**math.floor(numpy.exp(30))": "computes a number too large: 9**math.floor(numpy.exp(30))",
    "9**max(1, [9**9][0])": "computes a number too large: 9**max(1, [9**9][0])",
    "import os": "cannot be read",
    "x = 1": "cannot be read",
    "x; y": "cannot be read",
    "x\ny": "cannot be read",
    "a b": "cannot be read",
    "x +": "cannot be read",
    "\0": "cannot be read",
    "'\\N{oops}'": "cannot be read",
    "9" * 5000: "cannot be read",
    "": "is empty",
    " \n": "is empty",
    "await x": "holds an await",
    "yield": "cannot be read",
}


@pytest.mark.parametrize("text", RIGHT)
def test_reads_arithmetic_and_lists_its_variables(text: str) -> None:
    assert names(parse(text)) == RIGHT[text]


@pytest.mark.parametrize("text", HOSTILE)
def test_refuses_everything_else(text: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        parse(text)
    assert str(caught.value) == f'expression "{shorten(text)}" {HOSTILE[text]}{EXPECTED}{caught.value.hint}'
    assert isinstance(caught.value, ModelError)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("np.exp(x)", f"calls np.exp{EXPECTED}; did you mean 'numpy.exp'?"),
        ("numpy.sine(x)", f"calls numpy.sine{EXPECTED}; did you mean 'numpy.sin' or 'numpy.sinh'?"),
        ("math.pie * x", f"reads math.pie{EXPECTED}; did you mean 'math.pi' or 'math.e'?"),
    ],
)
def test_hints_at_what_may_be_meant(text: str, message: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        parse(text)
    assert str(caught.value) == f'expression "{text}" {message}'


@pytest.mark.parametrize(
    "text",
    [
        "(" * 150 + "x" + ")" * 150 + "[0]" * MAX_DEPTH,
        "-" * (MAX_DEPTH + 1) + "x",
        "-" * 15_000 + "x",
        "(" * 5_000 + "x" + ")" * 5_000,
        "+".join(["x"] * (MAX_DEPTH + 2)),
        "+".join(["x"] * 5_000),
        "x" + ".y" * 5_000,
        "x" + "[0]" * 5_000,
        "f" + "()" * 5_000,
        "x if x else " * 1_000 + "x",
    ],
    ids=lambda text: text[:12],
)
def test_refuses_deep_texts(text: str) -> None:
    with pytest.raises(ExpressionError, match=r"is nested more than 200 deep|cannot be read"):
        parse(text)


def test_refuses_long_texts() -> None:
    with pytest.raises(ExpressionError) as caught:
        parse("x" * (MAX_LENGTH + 1))
    assert (
        str(caught.value) == f'expression "{"x" * 57}..." is 20001 characters long, more than 20000{EXPECTED}'
    )
    assert names(parse("x" * MAX_LENGTH)) == ["x" * MAX_LENGTH]


def test_message_is_one_line() -> None:
    with pytest.raises(ExpressionError) as caught:
        parse("open(\n'\x1b[2J',\n\t'w')")
    assert str(caught.value) == f"expression \"open( '\\x1b[2J', 'w')\" calls open{EXPECTED}"


def test_depth_leaves_room_for_recursion() -> None:
    tree = parse("+".join(["x"] * (MAX_DEPTH - 1)))
    assert ast.unparse(tree).count("x") == MAX_DEPTH - 1


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("'add'", "add"),
        (" b'add'\n", "add"),
        ('"a b"', "a b"),
        ("3", 3),
        ("-2.5", -2.5),
        ("True", True),
        ("['_18', '_20']", ["_18", "_20"]),
        ("[b'a', [1, 'b']]", ["a", [1, "b"]]),
        ("('a', 1)", ("a", 1)),
        ("add", None),
        ("[a, b]", None),
        ("None", None),
        ("[None]", None),
        ("{}", None),
        ("...", None),
        ("'a' 'b' + 'c'", None),
        ("open('x')", None),
        ("", None),
        ("(" * 10_000, None),
        ("-" * 100_000 + "1", None),
        ("\0", None),
    ],
)
def test_literal(text: str, value: object) -> None:
    assert literal(text) == value
    assert type(literal(text)) is type(value)


@given(st.text(alphabet="abx01 .,()[]{}+-*/'\"\\:=<>\n_@#fjre", max_size=40))
def test_any_text_is_read_or_refused(text: str) -> None:
    literal(text)
    try:
        tree = parse(text)
    except ExpressionError as error:
        line = str(error)
    else:
        line = ast.unparse(tree)
        assert set(names(tree)) <= {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    assert "\n" not in line


def test_functions_and_constants_exist() -> None:
    modules = {"numpy": np, "math": math}
    for name in (*FUNCTIONS, *CONSTANTS):
        module, _, attribute = name.rpartition(".")
        if module:
            assert hasattr(modules[module], attribute)
        else:
            assert hasattr(builtins, attribute) or hasattr(np, attribute)


ARGUMENTS = {
    "dot": ([1, 2], [3, 4]),
    "matmul": ([1, 2], [3, 4]),
    "transpose": ([[1, 2]],),
    "prod": ([2, 3],),
    "arccosh": (1.5,),
    "where": (True, 1, 2),
    "clip": (3.0, 0.0, 1.0),
} | dict.fromkeys(("maximum", "minimum", "power", "heaviside", "logical_and", "logical_or"), (0.25, 0.5))


@pytest.mark.parametrize("name", [name for name in FUNCTIONS if "." in name])
def test_functions_are_what_they_are_called(name: str) -> None:
    modules = {"numpy": np, "math": math}
    module, _, own = name.partition(".")
    home, _, other = FUNCTIONS[name].rpartition(".")
    values = ARGUMENTS.get(other, (0.5,))
    np.testing.assert_allclose(
        getattr(modules[module], own)(*values), getattr(modules[home or "numpy"], other)(*values), rtol=1e-12
    )
