"""What expressions may say: the functions, methods, attributes, numbers and dtypes, by name.

A function is here with the arguments that it may be given, in NumPy's order and by NumPy's names.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

MODULES = frozenset({"numpy", "math", "np"})
"""Names in front of a dot that are no variables; `np` is none either, as modeci-mdf does not know it."""


@dataclass(frozen=True)
class Takes:
    """The arguments of a function.

    Attributes:
        names: All of them, in order.
        least: How many there have to be.
        most: How many may be given by position.
        named: Those that may be given by name.
    """

    names: tuple[str, ...]
    least: int
    most: int
    named: frozenset[str]


_MANY = 255
_UNARY = (
    "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sqrt", "square", "reciprocal",
    "sin", "cos", "tan", "arcsin", "arccos", "arctan", "deg2rad", "rad2deg",
    "sinh", "cosh", "tanh", "arcsinh", "arccosh", "arctanh",
    "abs", "fabs", "sign", "negative", "positive", "floor", "ceil", "trunc", "rint",
    "isnan", "isinf", "isfinite", "logical_not", "invert",
)  # fmt: skip
_BINARY = (
    "add", "subtract", "multiply", "divide", "floor_divide", "remainder", "fmod", "power", "float_power",
    "maximum", "minimum", "heaviside", "hypot", "arctan2", "logaddexp", "matmul",
    "less", "less_equal", "greater", "greater_equal", "equal", "not_equal",
    "logical_and", "logical_or", "logical_xor", "bitwise_and", "bitwise_or", "bitwise_xor",
)  # fmt: skip
_TYPES = ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16",
          "float32", "float64")  # fmt: skip

# As Python writes it: those before `/` by position only, those after `|` by name only; `=` may be left out.
_WRITTEN = (
    dict.fromkeys(_UNARY, "x /")
    | dict.fromkeys(_BINARY, "x1 x2 /")
    | dict.fromkeys(("sum", "mean", "prod", "max", "min", "any", "all"), "a axis= | keepdims=")
    | dict.fromkeys(("var", "std"), "a axis= | ddof= keepdims=")
    | dict.fromkeys(("argmax", "argmin", "median"), "a axis= | keepdims=")
    | dict.fromkeys(("cumsum", "sort", "argsort"), "a axis=")
    | {"norm": "x ord= axis= keepdims=", "diff": "a n= axis=", "nan_to_num": "x | nan= posinf= neginf="}
    | {"round": "a decimals=", "where": "condition x y /"}
    | {"clip": "a a_min= a_max=", "ndarray.clip": "a min= max="}
    | {"dot": "a b", "inner": "a b /", "outer": "a b"}
    | {"reshape": "a shape", "ravel": "a", "copy": "a", "transpose": "a axes=", "swapaxes": "a axis1 axis2"}
    | {"squeeze": "a axis=", "expand_dims": "a axis", "flip": "m axis=", "roll": "a shift axis="}
    | {"tile": "A reps", "repeat": "a repeats axis=", "append": "arr values axis="}
    | {"concatenate": "arrays / axis=", "stack": "arrays axis=", "hstack": "tup", "vstack": "tup"}
    | {"array": "object dtype=", "astype": "x dtype", "ndarray.item": "a /"}
    | dict.fromkeys(("zeros", "ones"), "shape dtype=")
    | dict.fromkeys(("zeros_like", "ones_like"), "a dtype=")
    | {"full": "shape fill_value dtype=", "full_like": "a fill_value dtype="}
    | {"arange": "start / stop= step= | dtype=", "linspace": "start stop num= endpoint="}
    | {"eye": "N M= k= dtype=", "identity": "N / dtype="}
    | dict.fromkeys([f"numpy.{name}" for name in _TYPES], "x /")
    | dict.fromkeys([f"builtins.{name}" for name in ("len", "int", "float", "bool", "round")], "x /")
    | dict.fromkeys([f"builtins.{name}" for name in ("sum", "any", "all")] + ["math.prod"], "iterable /")
    | dict.fromkeys([f"builtins.{name}" for name in ("max", "min")], "")
    | dict.fromkeys([f"math.{name}" for name in ("floor", "ceil", "trunc")], "x /")
)

OPTIONS = frozenset(
    {
        "axis", "axis1", "axis2", "axes", "keepdims", "ddof", "decimals", "ord", "n", "k", "nan", "posinf",
        "neginf", "endpoint", "dtype",
    }
)  # fmt: skip
"""Arguments that are written out, not computed."""


def _takes(written: str) -> Takes:
    by_position, _, by_name = written.partition("|")
    only, slash, both = by_position.rpartition("/")
    placed, keywords = (only + both).split(), by_name.split()
    named = (both.split() if slash else placed) + keywords
    names = [name.rstrip("=") for name in (*placed, *keywords)]
    least = sum(not name.endswith("=") for name in placed)
    return Takes(tuple(names), least, len(placed), frozenset(name.rstrip("=") for name in named))


TAKES: Mapping[str, Takes] = MappingProxyType(
    {name: _takes(written) for name, written in _WRITTEN.items()}
    | dict.fromkeys(("builtins.max", "builtins.min"), Takes((), 1, _MANY, frozenset()))
)
"""What a function is given, by what it is; a ufunc's next one would be an array that it writes into."""

_BARE = ("exp", "sin", "cos", "tan", "sinh", "cosh", "tanh", "arcsin", "arccos", "arctan", "maximum")
_IN_MATH = (
    "exp", "expm1", "log", "log2", "log10", "log1p", "sqrt", "sin", "cos", "tan", "sinh", "cosh", "tanh",
    "isnan", "isinf", "isfinite", "hypot", "fmod",
)  # fmt: skip

FUNCTIONS = MappingProxyType(
    {f"numpy.{name}": name for name in TAKES if "." not in name and name != "norm"}
    | {"numpy.absolute": "abs", "numpy.true_divide": "divide", "numpy.mod": "remainder"}
    | {"numpy.radians": "deg2rad", "numpy.degrees": "rad2deg", "numpy.around": "round"}
    | {"numpy.amax": "max", "numpy.amin": "min", "numpy.asarray": "array", "numpy.linalg.norm": "norm"}
    | {"numpy.bitwise_not": "invert", "numpy.bool_": "numpy.bool"}
    | {f"numpy.{name}": f"numpy.{name}" for name in _TYPES}
    | {name: name for name in _BARE}
    | {f"math.{name}": name for name in _IN_MATH}
    | {f"math.{name}": f"arc{name[1:]}" for name in ("asin", "acos", "atan", "asinh", "acosh", "atanh")}
    | {"math.atan2": "arctan2", "math.radians": "deg2rad", "math.degrees": "rad2deg"}
    | {"math.fabs": "abs", "math.pow": "power"}
    | {name: name for name in TAKES if name.startswith("math.")}
    | {name.partition(".")[2]: name for name in TAKES if name.startswith("builtins.")}
    | {"abs": "abs", "pow": "power"}
)
"""Functions that an expression may call, as it writes them, to what they are: NumPy's name where the
meaning is NumPy's, a dotted name where it is another (`math.floor` and `round` give integers, `max`
takes any number of values, `numpy.float32` is a dtype)."""

METHODS = MappingProxyType(
    {
        name: name
        for name in (
            "sum", "mean", "prod", "max", "min", "any", "all", "var", "std", "argmax", "argmin", "cumsum",
            "argsort", "round", "dot", "reshape", "ravel", "copy", "transpose", "swapaxes", "squeeze",
            "repeat", "astype",
        )
    }
    | {"flatten": "ravel", "clip": "ndarray.clip", "item": "ndarray.item"}
)  # fmt: skip
"""Methods of arrays that an expression may call, to the functions that they are of the array."""

INSTEAD = MappingProxyType(
    {
        "append": "numpy.append(x, y)",
        "dtype": "x.astype(float)",
        "fill": "numpy.full_like(x, value)",
        "numpy.average": "numpy.mean(x), or numpy.sum(w * x) / numpy.sum(w)",
        "numpy.cbrt": "numpy.sign(x) * numpy.abs(x) ** (1 / 3)",
        "numpy.column_stack": "numpy.stack([x, y], axis=1)",
        "numpy.count_nonzero": "numpy.sum(x != 0)",
        "numpy.cumprod": "numpy.exp(numpy.cumsum(numpy.log(x))), for positive numbers",
        "numpy.diag": "numpy.eye(3) * x, with the size in place of 3",
        "numpy.einsum": "numpy.dot(x, y) or numpy.outer(x, y)",
        "numpy.fliplr": "numpy.flip(x, 1)",
        "numpy.flipud": "numpy.flip(x, 0)",
        "numpy.fmax": "numpy.maximum(x, y)",
        "numpy.fmin": "numpy.minimum(x, y)",
        "numpy.moveaxis": "numpy.transpose(x, (1, 2, 0))",
        "numpy.percentile": "numpy.sort(x)[place]",
        "numpy.ptp": "numpy.max(x) - numpy.min(x)",
        "numpy.sinc": "numpy.sin(numpy.pi * x) / (numpy.pi * x)",
        "numpy.take": "x[places]",
        "numpy.tensordot": "numpy.dot(x, y)",
        "numpy.trace": "numpy.sum(numpy.eye(3) * x), with the size in place of 3",
        "numpy.vdot": "numpy.dot(x, y)",
        "sort": "numpy.sort(x)",
        "tolist": "x itself",
    }
)
"""What to write for functions, and for methods and attributes by their own names, that are not allowed."""

ATTRIBUTES = ("T", "shape", "size", "ndim")
"""Attributes of arrays that an expression may read."""

CONSTANTS: Mapping[str, float | None] = MappingProxyType(
    {
        f"{module}.{name}": getattr(math, name)
        for module in ("numpy", "math")
        for name in ("pi", "e", "inf", "nan")
    }
    | {"math.tau": math.tau, "numpy.newaxis": None}
)
"""Attributes that stand for a number, or in a subscript for a new axis."""

DTYPES = MappingProxyType(
    {"float": "float64", "int": "int64", "bool": "bool", "numpy.bool_": "bool"}
    | {f"numpy.{name}": name for name in _TYPES}
    | {repr(name): name for name in (*_TYPES, "float", "int")}
)
"""What an expression may write for a dtype, to the dtype's name."""


@dataclass(frozen=True)
class Called:
    """A call whose arguments have their places.

    Attributes:
        name: What the function is; see `FUNCTIONS`.
        operands: The arguments that are computed, in order; None where one is left out.
        options: Those that are written out, by name.
        is_method: Whether the first operand is what a method is called of.
    """

    name: str
    operands: tuple[ast.expr | None, ...]
    options: Mapping[str, ast.expr]
    is_method: bool = False


def called(call: ast.Call) -> Called | None:
    """Return what a call gives to what; None where it cannot be called so."""
    spelled = dotted(call.func)
    args = list(call.args)
    method = None if spelled in FUNCTIONS else method_of(call.func)
    if method is not None and isinstance(call.func, ast.Attribute):
        if method in ("reshape", "transpose") and len(args) > 1:
            args = [ast.copy_location(ast.Tuple(args, ast.Load()), args[0])]
        args = [call.func.value, *args]
    name = FUNCTIONS.get(spelled, "") if method is None else method
    if name not in TAKES:
        return None
    takes = TAKES[name]
    given = {keyword.arg or "": keyword.value for keyword in call.keywords}
    placed = dict(zip(takes.names, args, strict=False)) if takes.names else {}
    if len(args) > takes.most or given.keys() & placed.keys() or not given.keys() <= takes.named:
        return None
    if len(args) < takes.least and not all(part in given for part in takes.names[len(args) : takes.least]):
        return None
    given |= placed
    if not takes.names:
        return Called(name, tuple(args), {})
    operands = [part for part in takes.names if part not in OPTIONS]
    return Called(
        name,
        tuple(None if _is_left_out(part, given, takes) else given[part] for part in operands),
        {part: value for part, value in given.items() if part in OPTIONS},
        method is not None,
    )


def dotted(node: ast.expr) -> str:
    """Return the name that a name and attributes of it make up; an empty text where it is more than that.

    >>> dotted(ast.parse("numpy.linalg.norm", mode="eval").body), dotted(ast.parse("f().T", mode="eval").body)
    ('numpy.linalg.norm', '')
    """
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join([node.id, *reversed(parts)]) if isinstance(node, ast.Name) else ""


def dtype_named(node: ast.expr) -> str | None:
    """Return the name of the dtype that an argument writes; None where it writes none."""
    return DTYPES.get(repr(node.value) if isinstance(node, ast.Constant) else dotted(node))


def method_of(func: ast.expr) -> str | None:
    """Return the function that a method is; None where it is none, or none that is listed.

    >>> method_of(ast.parse("x.flatten", mode="eval").body)
    'ravel'
    """
    match func:
        case ast.Attribute(value=ast.Name(id=name)) if name in MODULES:
            return None
        case ast.Attribute(attr=attr):
            return METHODS.get(attr)
    return None


def is_none(node: ast.AST) -> bool:
    """Tell whether a part of an expression is None."""
    return isinstance(node, ast.Constant) and node.value is None


def _is_left_out(part: str, given: Mapping[str, ast.expr], takes: Takes) -> bool:
    return part not in given or (is_none(given[part]) and takes.names.index(part) >= takes.least)
