"""Expressions of MDF files as ONNX operators, translated from their syntax tree.

dtypes follow NumPy, as they do in MDF's own engine: a Python number takes the dtype of the array it
meets, arrays are promoted, and dividing integers gives floats.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from mdf_scatter.errors import UnsupportedError
from mdf_scatter.expressions import CONSTANTS, FUNCTIONS, literal
from mdf_scatter.lower import forms, reductions
from mdf_scatter.lower.arithmetic import Arithmetic, Form, dtype_of, is_weak, kind_of, select, shape_of
from mdf_scatter.lower.builder import Builder, Literal, Operand
from mdf_scatter.lower.indexing import item, item_of_list

Resolve = Callable[[str], "Operand | list[Operand]"]

_BINARY: dict[type[ast.operator], tuple[Callable[[Any, Any], Any], Any, str | Form]] = {
    ast.Add: (operator.add, np.add, "Add"),
    ast.Sub: (operator.sub, np.subtract, "Sub"),
    ast.Mult: (operator.mul, np.multiply, "Mul"),
    ast.Div: (operator.truediv, np.true_divide, "Div"),
    ast.FloorDiv: (operator.floordiv, np.floor_divide, forms.floor_divide),
    ast.Mod: (operator.mod, np.remainder, forms.remainder),
    ast.Pow: (operator.pow, np.power, forms.power),
    ast.MatMult: (operator.matmul, np.matmul, "MatMul"),
}
_COMPARISON: dict[type[ast.cmpop], tuple[Callable[[Any, Any], Any], Any, str | Form]] = {
    ast.Lt: (operator.lt, np.less, "Less"),
    ast.LtE: (operator.le, np.less_equal, "LessOrEqual"),
    ast.Gt: (operator.gt, np.greater, "Greater"),
    ast.GtE: (operator.ge, np.greater_equal, "GreaterOrEqual"),
    ast.Eq: (operator.eq, np.equal, "Equal"),
    ast.NotEq: (operator.ne, np.not_equal, forms.not_equal),
}
_ELEMENTWISE: dict[str, tuple[Any, str | Form]] = {
    "abs": (np.abs, "Abs"),
    "arccos": (np.arccos, "Acos"),
    "arccosh": (np.arccosh, "Acosh"),
    "arcsin": (np.arcsin, "Asin"),
    "arcsinh": (np.arcsinh, "Asinh"),
    "arctan": (np.arctan, "Atan"),
    "arctanh": (np.arctanh, "Atanh"),
    "ceil": (np.ceil, "Ceil"),
    "cos": (np.cos, "Cos"),
    "cosh": (np.cosh, "Cosh"),
    "exp": (np.exp, "Exp"),
    "exp2": (np.exp2, forms.exp2),
    "expm1": (np.expm1, forms.expm1),
    "floor": (np.floor, "Floor"),
    "heaviside": (np.heaviside, forms.heaviside),
    "isinf": (np.isinf, forms.is_inf),
    "isnan": (np.isnan, forms.is_nan),
    "log": (np.log, "Log"),
    "log10": (np.log10, forms.logarithm(10)),
    "log1p": (np.log1p, forms.log1p),
    "log2": (np.log2, forms.logarithm(2)),
    "logical_and": (np.logical_and, forms.logical("And")),
    "logical_not": (np.logical_not, forms.logical("Not")),
    "logical_or": (np.logical_or, forms.logical("Or")),
    "matmul": (np.matmul, "MatMul"),
    "maximum": (np.maximum, "Max"),
    "minimum": (np.minimum, "Min"),
    "power": (np.power, forms.power),
    "sign": (np.sign, forms.sign),
    "sin": (np.sin, "Sin"),
    "sinh": (np.sinh, "Sinh"),
    "sqrt": (np.sqrt, "Sqrt"),
    "square": (np.square, forms.square),
    "tan": (np.tan, "Tan"),
    "tanh": (np.tanh, "Tanh"),
    "trunc": (np.trunc, forms.truncated),
}
"""What a function that an expression calls is (see `expressions.FUNCTIONS`), and its form in ONNX."""


class ExpressionLowering:
    """Translates the expressions of one node.

    Args:
        builder: Where the operators go.
        resolve: What a name in an expression stands for; a list where it has several values.
        name: What the operators are named after.
    """

    def __init__(self, builder: Builder, resolve: Resolve, name: str) -> None:
        self._resolve = resolve
        self._a = Arithmetic(builder, name)

    def lower(self, tree: ast.expr) -> Operand | list[Operand]:
        """Return the value of an expression; a list where it is a list, or a name with several values.

        Raises:
            UnsupportedError: A part has no form in ONNX; the message names the node and the part.
        """
        try:
            return self._lower(tree)
        except (TypeError, ValueError, OverflowError) as error:
            # NumPy, asked for the dtype of a result, refuses what it would refuse to compute.
            text = ast.unparse(tree)
            raise UnsupportedError(
                f"{self._a.name}: expression {text!r} cannot be computed: {error}"
            ) from error

    def one(self, tree: ast.expr) -> Operand:
        """Return the value of an expression as one value: of a list, the array that NumPy makes of it."""
        value = self.lower(tree)
        if not isinstance(value, list):
            return value
        return value[0] if isinstance(tree, ast.Name) else reductions.stacked(self._a, value)

    def _lower(self, tree: ast.expr) -> Operand | list[Operand]:
        match tree:
            case ast.Constant(value=value):
                return Literal(value)
            case ast.Name(id=name):
                return self._resolve(name)
            case ast.Attribute() if ast.unparse(tree) in CONSTANTS:
                return Literal(CONSTANTS[ast.unparse(tree)])
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY:
                return self._binary(tree, _BINARY[type(op)], left, right)
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return self._a.python(operator.neg, np.negative, forms.negative, self.one(operand))
            case ast.UnaryOp(op=ast.UAdd(), operand=operand):
                return self._positive(self.one(operand))
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return self._not(self.one(operand))
            case ast.BoolOp(op=op, values=values):
                return self._any_or_all([partial(self.one, v) for v in values], isinstance(op, ast.And))
            case ast.Compare(left=left, ops=ops, comparators=comparators):
                return self._compared(left, ops, comparators)
            case ast.IfExp(test=test, body=body, orelse=orelse):
                condition = self.one(test)
                if isinstance(condition, Literal):
                    return self.one(body if reductions.truth_of(self._a, condition) else orelse)
                return reductions.chosen(self._a, condition, self.one(body), self.one(orelse))
            case ast.Subscript(value=base, slice=index):
                whole = self.lower(base)
                if isinstance(whole, list):
                    return item_of_list(self._a, whole, index, self.one)
                return item(self._a, whole, index, self.one)
            case ast.List(elts=parts) | ast.Tuple(elts=parts):
                return [self.one(part) for part in parts]
            case ast.Call(func=func, args=args, keywords=keywords):
                return self._call(tree, ast.unparse(func), args, {k.arg: k.value for k in keywords})
        raise self._unsupported(tree)

    def _binary(
        self, tree: ast.expr, operation: tuple[Any, Any, str | Form], left: ast.expr, right: ast.expr
    ) -> Operand:
        sides = [self.one(side) for side in (left, right)]
        listed = [isinstance(side, (ast.List, ast.Tuple)) for side in (left, right)]
        # Python joins and repeats lists; only beside an array do they become one.
        if any(listed) and all(is_list or is_weak(o) for is_list, o in zip(listed, sides, strict=True)):
            raise self._unsupported(tree)
        return self._a.python(*operation, *sides)

    def _positive(self, operand: Operand) -> Operand:
        if isinstance(operand, Literal):
            return self._a.folded(operator.pos, [operand])
        if dtype_of(operand) == np.bool_:
            raise TypeError("+ is not defined for bool")
        return operand

    def _not(self, operand: Operand) -> Operand:
        if isinstance(operand, Literal):
            return Literal(not reductions.truth_of(self._a, operand))
        return self._a.weak(self._a.op("Not", reductions.truth(self._a, operand)), bool)

    def _any_or_all(self, parts: Sequence[Callable[[], Operand]], is_and: bool) -> Operand:
        """Return what `and` or `or` gives: the first value that decides, or else the last."""
        value = parts[0]()
        for part in parts[1:]:
            if isinstance(value, Literal):
                if reductions.truth_of(self._a, value) != is_and:
                    return value
                value = part()
                continue
            other = part()
            if dtype_of(value) == dtype_of(other) == np.bool_ and shape_of(value) == shape_of(other):
                kind = kind_of(value)
                reductions.truth(self._a, value)
                result = self._a.op("And" if is_and else "Or", self._a.value(value), self._a.value(other))
                value = self._a.weak(result, bool) if kind is bool and is_weak(other) else result
            else:
                left, right = (other, value) if is_and else (value, other)
                value = reductions.chosen(self._a, value, left, right)
        return value

    def _compared(self, left: ast.expr, ops: Sequence[ast.cmpop], comparators: Sequence[ast.expr]) -> Operand:
        values = [self.one(left), *(self.one(other) for other in comparators)]

        def compared(place: int) -> Operand:
            plain, ufunc, form = _COMPARISON[type(ops[place])]
            return self._a.python(plain, ufunc, form, values[place], values[place + 1])

        if len(ops) == 1:
            return compared(0)
        return self._any_or_all([partial(compared, place) for place in range(len(ops))], True)

    def _call(
        self, tree: ast.Call, spelled: str, args: Sequence[ast.expr], keywords: dict[str | None, ast.expr]
    ) -> Operand:
        a = self._a
        name = FUNCTIONS.get(spelled, "")
        if name in _ELEMENTWISE:
            function, form = _ELEMENTWISE[name]
            operands = [self.one(argument) for argument in args]
            if spelled == "abs":
                return a.python(abs, function, form, *operands)
            if spelled == "pow":
                return a.python(operator.pow, function, form, *operands)
            if spelled.startswith("math."):
                return self._of_python(
                    function, form, operands, bool if name in ("isnan", "isinf") else float
                )
            return a.apply(function, form, *operands)
        match name, [self.lower(argument) for argument in args]:
            case (("builtins.sum" | "prod"), [operand]) if not spelled.startswith("numpy."):
                return reductions.python_sum(a, operand, product=name == "prod")
            case "builtins.len", [operand]:
                return reductions.length(a, operand)
            case (("builtins.max" | "builtins.min"), [[*several]] | [*several]):
                flat = [self.single(operand) for operand in several]
                return reductions.python_extreme(a, name.removeprefix("builtins."), flat)
            case _, [*arrays]:
                return self._of_arrays(tree, name, [self.single(o) for o in arrays], args[1:], keywords)
        raise self._unsupported(tree)

    def _of_arrays(
        self,
        tree: ast.Call,
        name: str,
        operands: Sequence[Operand],
        options: Sequence[ast.expr],
        keywords: dict[str | None, ast.expr],
    ) -> Operand:
        a, first = self._a, operands[0]
        if name in reductions.REDUCTIONS:
            axis = keywords.get("axis", options[0] if options else None)
            keep = keywords.get("keepdims")
            keepdims = keep is not None and bool(self._literal(tree, keep))
            return reductions.reduced(a, name, first, self._literal(tree, axis), keepdims)
        match name:
            case "array":
                return reductions.strong(a, first)
            case "where":
                return select(a, *operands)
            case "clip":
                return reductions.clipped(a, *operands)
            case "dot":
                return reductions.dot(a, *operands)
            case "round":
                return reductions.rounded(a, first, self._literal(tree, options[0]) if options else 0)
            case "transpose":
                return reductions.transposed(a, first, self._literal(tree, options[0]) if options else None)
            case "zeros_like" | "ones_like":
                return reductions.like(a, first, int(name == "ones_like"))
            case (
                "builtins.int"
                | "builtins.float"
                | "builtins.round"
                | "math.floor"
                | "math.ceil"
                | "math.trunc"
            ):
                return reductions.converted(a, name.partition(".")[2], first)
        raise self._unsupported(tree)

    def single(self, value: Operand | list[Operand]) -> Operand:
        """Return a value; of several, the array that NumPy makes of them."""
        return reductions.stacked(self._a, value) if isinstance(value, list) else value

    def _of_python(self, function: Any, form: str | Form, operands: Sequence[Operand], kind: type) -> Operand:
        """Return what a function of Python's `math` gives: a Python number of Python numbers."""
        a = self._a
        read = [reductions.converted(a, "float", operand) for operand in operands]
        result = a.apply(function, form, *read)
        if isinstance(result, Literal):
            return Literal(kind(result.value))
        return a.weak(result, kind)

    def _literal(self, tree: ast.expr, option: ast.expr | None) -> Any:
        if option is None:
            return None
        value = literal(ast.unparse(option))
        if value is None and not (isinstance(option, ast.Constant) and option.value is None):
            raise self._unsupported(tree)
        return tuple(value) if isinstance(value, list) else value

    def _unsupported(self, tree: ast.expr) -> UnsupportedError:
        return UnsupportedError(f"{self._a.name}: expression {ast.unparse(tree)!r} has no form in ONNX here")
