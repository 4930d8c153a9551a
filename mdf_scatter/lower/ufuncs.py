"""NumPy's elementwise functions as ONNX operators, and the operators that Python writes for them."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from mdf_scatter.lower import forms, quadrants
from mdf_scatter.lower.arithmetic import Form

BINARY: dict[type[ast.operator], tuple[Callable[[Any, Any], Any], Any, str | Form]] = {
    ast.Add: (operator.add, np.add, "Add"),
    ast.Sub: (operator.sub, np.subtract, "Sub"),
    ast.Mult: (operator.mul, np.multiply, "Mul"),
    ast.Div: (operator.truediv, np.true_divide, "Div"),
    ast.FloorDiv: (operator.floordiv, np.floor_divide, forms.floor_divide),
    ast.Mod: (operator.mod, np.remainder, forms.remainder),
    ast.Pow: (operator.pow, np.power, forms.power),
    ast.MatMult: (operator.matmul, np.matmul, "MatMul"),
    ast.BitAnd: (operator.and_, np.bitwise_and, forms.bitwise("And")),
    ast.BitOr: (operator.or_, np.bitwise_or, forms.bitwise("Or")),
    ast.BitXor: (operator.xor, np.bitwise_xor, forms.bitwise("Xor")),
}
UNARY: dict[type[ast.unaryop], tuple[Callable[[Any], Any], Any, str | Form]] = {
    ast.USub: (operator.neg, np.negative, forms.negative),
    ast.UAdd: (operator.pos, np.positive, "Identity"),
    ast.Invert: (operator.invert, np.invert, forms.bitwise("Not")),
}
COMPARISON: dict[type[ast.cmpop], tuple[Callable[[Any, Any], Any], Any, str | Form]] = {
    ast.Lt: (operator.lt, np.less, "Less"),
    ast.LtE: (operator.le, np.less_equal, "LessOrEqual"),
    ast.Gt: (operator.gt, np.greater, "Greater"),
    ast.GtE: (operator.ge, np.greater_equal, "GreaterOrEqual"),
    ast.Eq: (operator.eq, np.equal, "Equal"),
    ast.NotEq: (operator.ne, np.not_equal, forms.not_equal),
}
ELEMENTWISE: dict[str, str | Form] = {
    "abs": "Abs",
    "add": "Add",
    "arccos": "Acos",
    "arccosh": "Acosh",
    "arcsin": "Asin",
    "arcsinh": "Asinh",
    "arctan": "Atan",
    "arctan2": quadrants.arctan2,
    "arctanh": "Atanh",
    "bitwise_and": forms.bitwise("And"),
    "bitwise_or": forms.bitwise("Or"),
    "bitwise_xor": forms.bitwise("Xor"),
    "ceil": "Ceil",
    "cos": "Cos",
    "cosh": "Cosh",
    "deg2rad": forms.times(np.pi / 180),
    "divide": "Div",
    "equal": "Equal",
    "exp": "Exp",
    "exp2": forms.exp2,
    "expm1": forms.expm1,
    "fabs": "Abs",
    "float_power": "Pow",
    "floor": "Floor",
    "floor_divide": forms.floor_divide,
    "fmod": forms.fmod,
    "greater": "Greater",
    "greater_equal": "GreaterOrEqual",
    "heaviside": forms.heaviside,
    "hypot": quadrants.hypot,
    "invert": forms.bitwise("Not"),
    "isfinite": forms.is_finite,
    "isinf": forms.is_inf,
    "isnan": forms.is_nan,
    "less": "Less",
    "less_equal": "LessOrEqual",
    "log": "Log",
    "log10": forms.logarithm(10),
    "log1p": forms.log1p,
    "log2": forms.logarithm(2),
    "logaddexp": forms.logaddexp,
    "logical_and": forms.logical("And"),
    "logical_not": forms.logical("Not"),
    "logical_or": forms.logical("Or"),
    "logical_xor": forms.logical("Xor"),
    "matmul": "MatMul",
    "maximum": "Max",
    "minimum": "Min",
    "multiply": "Mul",
    "negative": forms.negative,
    "not_equal": forms.not_equal,
    "positive": "Identity",
    "power": forms.power,
    "rad2deg": forms.times(180 / np.pi),
    "reciprocal": forms.reciprocal,
    "remainder": forms.remainder,
    "rint": "Round",
    "sign": forms.sign,
    "sin": "Sin",
    "sinh": "Sinh",
    "sqrt": "Sqrt",
    "square": forms.square,
    "subtract": "Sub",
    "tan": "Tan",
    "tanh": "Tanh",
    "trunc": forms.truncated,
}
"""NumPy's elementwise functions (see `vocabulary.FUNCTIONS`), and their forms in ONNX."""
