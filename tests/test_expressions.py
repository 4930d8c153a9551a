"""Expressions: what is read, what is refused, and with what words."""

from __future__ import annotations

import ast
import builtins
import inspect
import math
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mdf_scatter.errors import ModelError
from mdf_scatter.expressions import (
    MAX_DEPTH,
    MAX_LENGTH,
    ExpressionError,
    literal,
    names,
    parse,
    shorten,
)
from mdf_scatter.vocabulary import ATTRIBUTES, CONSTANTS, FUNCTIONS, METHODS, TAKES

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
    "x[:, None] * y[..., numpy.newaxis]": ["x", "y"],
    "(v > c) & ~(r | s) ^ t": ["v", "c", "r", "s", "t"],
    "x.T @ y.reshape(n, -1) + numpy.exp(z).sum(axis=0)": ["x", "y", "n", "z"],
    "x.reshape(a.shape[0], b.size).astype(float).mean(0)": ["x", "a", "b"],
    "numpy.zeros(n, dtype=numpy.float32) + numpy.clip(x, a_min=lo, a_max=None)": ["n", "x", "lo"],
    "numpy.concatenate(([0], x[:-1])) * numpy.linalg.norm(y, axis=None)": ["x", "y"],
    "x.clip(max=hi) + numpy.full((n, 2), fill_value=k)": ["x", "hi", "n", "k"],
    "x.astype('float32')": ["x"],
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
    "x.shap": "reads x.shap",
    "x.dtype": "reads x.dtype",
    "x.__class__.T": "reads x.__class__",
    "numpy.T": "reads numpy.T",
    "numpy.random.T": "reads numpy.random",
    "numpy.random.sum()": "reads numpy.random",
    "open('y').sum()": "calls open",
    "x.sum().tofile('y')": "calls x.sum().tofile",
    "x.sum(out=y)": "gives x.sum the argument out=y",
    "x.sum(0, axis=0)": "gives x.sum the argument axis=0",
    "x.sum(n)": "gives x.sum a computed axis",
    "x.sum(0, 1)": "gives x.sum 2 arguments, not 0 to 1",
    "x.reshape()": "gives x.reshape 0 arguments, not 1",
    "x.astype(object)": "gives x.astype the dtype object",
    "x.astype(open('y'))": "gives x.astype the dtype open('y')",
    "numpy.zeros(3, dtype='O')": "gives numpy.zeros the dtype 'O'",
    "numpy.add(x, y, z)": "gives numpy.add 3 arguments, not 2",
    "numpy.add(x1=x, x2=y)": "gives numpy.add the argument x1=x",
    "numpy.full(3)": "gives numpy.full 1 arguments, not 2 to 3",
    "numpy.exp(None)": "holds None",
    "numpy.clip(None, 0, 1)": "holds None",
    "x[None + 1]": "holds None",
    "x[(None, ...), 0]": "holds None",
    "x[[None]]": "holds None",
    "numpy.ones(10**12)": "makes more than 268435456 elements: numpy.ones(10**12)",
    "x + numpy.full((99999, 9999), 1)": "makes more than 268435456 elements: numpy.full((99999, 9999), 1)",
    "numpy.eye(99999)": "makes more than 268435456 elements: numpy.eye(99999)",
    "numpy.arange(0, 1, 1e-12)": "makes more than 268435456 elements: numpy.arange(0, 1, 1e-12)",
    "numpy.tile(x, 2**40)": "makes more than 268435456 elements: numpy.tile(x, 2**40)",
    "x.repeat(999999999)": "makes more than 268435456 elements: x.repeat(999999999)",
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
    "{}": "holds a dict",
    "{1, 2}": "holds a set",
    "1 << 99999999999": "uses the operator <<",
    "x >> 1": "uses the operator >>",
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
        ("numpy.ptp(x)", f"calls numpy.ptp{EXPECTED}; write numpy.max(x) - numpy.min(x)"),
        ("x.sort()", f"calls x.sort{EXPECTED}; write numpy.sort(x)"),
        ("numpy.random.rand(3)", f"calls numpy.random.rand{EXPECTED}, and random numbers from an input port"),
        ("x.summ()", f"calls x.summ{EXPECTED}; did you mean 'x.sum'?"),
        ("x.shap", f"reads x.shap{EXPECTED}; did you mean 'x.shape'?"),
        ("x.astype(flout)", f"gives x.astype the dtype flout{EXPECTED}; did you mean 'float'?"),
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
        "x" + ".T" * 5_000,
        "x" + ".sum()" * (MAX_DEPTH // 2 + 1),
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
    assert names(parse("x" + ".T.sum()" * (MAX_DEPTH // 3))) == ["x"]


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


def test_functions_methods_and_constants_exist() -> None:
    for name in (*FUNCTIONS, *CONSTANTS):
        module, _, attribute = name.rpartition(".")
        if module:
            assert hasattr({"numpy": np, "math": math, "numpy.linalg": np.linalg}[module], attribute)
        else:
            assert hasattr(builtins, attribute) or hasattr(np, attribute)
    assert all(hasattr(np.ndarray, name) for name in (*METHODS, *ATTRIBUTES))
    assert {*FUNCTIONS.values(), *METHODS.values()} == TAKES.keys()


@pytest.mark.parametrize("name", [name for name in TAKES if isinstance(getattr(np, name, None), np.ufunc)])
def test_a_ufunc_is_given_what_it_reads(name: str) -> None:
    taken = TAKES[name]
    assert (taken.least, taken.most, taken.named) == (getattr(np, name).nin,) * 2 + (frozenset(),)


def signature_of(name: str) -> inspect.Signature | None:
    try:
        return inspect.signature(getattr(np, name.removeprefix("ndarray."), None) or np.linalg.norm)
    except (TypeError, ValueError):
        return None


@pytest.mark.parametrize("name", [name for name in TAKES if "." not in name and signature_of(name)])
def test_arguments_are_numpys(name: str) -> None:
    numpys = signature_of(name)
    if numpys is None or "args" in numpys.parameters:
        return
    taken = TAKES[name]
    places = [key for key, part in numpys.parameters.items() if part.kind != part.KEYWORD_ONLY]
    by_position = zip(taken.names[: taken.most], places, strict=False)
    assert all(ours == theirs for ours, theirs in by_position if ours in taken.named)
    assert taken.named <= numpys.parameters.keys()


ARGUMENTS = {
    "prod": ([2, 3],),
    "arccosh": (1.5,),
    "invert": (3,),
    "norm": ([3.0, 4.0],),
} | dict.fromkeys(("power", "divide", "remainder", "hypot", "arctan2", "fmod"), (0.25, 0.5))


@pytest.mark.parametrize(
    "name",
    [name for name, known in FUNCTIONS.items() if "." in name and not name.endswith(known)],
)
def test_functions_are_what_they_are_called(name: str) -> None:
    modules = {"numpy": np, "math": math, "numpy.linalg": np.linalg}
    module, _, own = name.rpartition(".")
    home, _, other = FUNCTIONS[name].rpartition(".")
    values = ARGUMENTS.get(other, (0.5,))
    meant = getattr(np.linalg if other == "norm" else modules[home or "numpy"], other)
    np.testing.assert_allclose(getattr(modules[module], own)(*values), meant(*values), rtol=1e-12)


def test_the_page_lists_all_that_is_allowed() -> None:
    page = (Path(__file__).parents[1] / "docs" / "expressions.md").read_text(encoding="utf-8")
    listed = set()
    for row in re.findall(r"^\| [^|]+ \| (`.*`) \|$", page, re.MULTILINE):
        module = ""
        for word in re.findall(r"`([\w.]+)`", row):
            module = word if word.endswith(".") else module
            listed |= set() if word.endswith(".") else {module + word}
    assert listed == {*FUNCTIONS, *CONSTANTS, *(f"x.{method}" for method in METHODS)}
    assert all(f"`x.{name}`" in page for name in ATTRIBUTES)
