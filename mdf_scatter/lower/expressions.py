"""Expressions of MDF files as ONNX operators, translated from their syntax tree.

dtypes follow NumPy, as they do in MDF's own engine: a Python number takes the dtype of the array it
meets, arrays are promoted, and dividing integers gives floats.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from mdf_scatter.errors import UnsupportedError
from mdf_scatter.expressions import CONSTANTS, FUNCTIONS
from mdf_scatter.lower.builder import WEAK, Builder, Literal, Operand

Resolve = Callable[[str], "Operand | list[Operand]"]

_BINARY: dict[type[ast.operator], tuple[Callable[[Any, Any], Any], Any, str]] = {
    ast.Add: (operator.add, np.add, "Add"),
    ast.Sub: (operator.sub, np.subtract, "Sub"),
    ast.Mult: (operator.mul, np.multiply, "Mul"),
    ast.Div: (operator.truediv, np.true_divide, "Div"),
    ast.Pow: (operator.pow, np.power, "Pow"),
    ast.MatMult: (operator.matmul, np.matmul, "MatMul"),
}
_COMPARISON: dict[type[ast.cmpop], tuple[Callable[[Any, Any], Any], Any, str]] = {
    ast.Lt: (operator.lt, np.less, "Less"),
    ast.LtE: (operator.le, np.less_equal, "LessOrEqual"),
    ast.Gt: (operator.gt, np.greater, "Greater"),
    ast.GtE: (operator.ge, np.greater_equal, "GreaterOrEqual"),
    ast.Eq: (operator.eq, np.equal, "Equal"),
}
# Where NumPy's loop for bool is logical, not arithmetic.
_ON_BOOL = {"Add": "Or", "Mul": "And", "Max": "Or", "Min": "And"}
_CALLS: dict[str, tuple[Any, str]] = {
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
    "floor": (np.floor, "Floor"),
    "log": (np.log, "Log"),
    "matmul": (np.matmul, "MatMul"),
    "maximum": (np.maximum, "Max"),
    "minimum": (np.minimum, "Min"),
    "power": (np.power, "Pow"),
    "sign": (np.sign, "Sign"),
    "sin": (np.sin, "Sin"),
    "sinh": (np.sinh, "Sinh"),
    "sqrt": (np.sqrt, "Sqrt"),
    "tan": (np.tan, "Tan"),
    "tanh": (np.tanh, "Tanh"),
}
"""What a function that an expression calls is (see `expressions.FUNCTIONS`), and its ONNX operator."""


class ExpressionLowering:
    """Translates the expressions of one node.

    Args:
        builder: Where the operators go.
        resolve: What a name in an expression stands for; a list where it has several values.
        name: What the operators are named after.
    """

    def __init__(self, builder: Builder, resolve: Resolve, name: str) -> None:
        self._builder = builder
        self._resolve = resolve
        self._name = name

    def lower(self, tree: ast.expr) -> Operand | list[Operand]:
        """Return the value of an expression.

        Raises:
            UnsupportedError: A part has no form in ONNX.
        """
        match tree:
            case ast.Constant(value=value):
                return Literal(value)
            case ast.Name(id=name):
                return self._resolve(name)
            case ast.Attribute() if ast.unparse(tree) in CONSTANTS:
                return Literal(CONSTANTS[ast.unparse(tree)])
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY:
                return self._apply(*_BINARY[type(op)], self._one(left), self._one(right))
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return self._negative(self._one(operand))
            case ast.UnaryOp(op=ast.UAdd(), operand=operand):
                return self._one(operand)
            case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in _COMPARISON:
                return self._apply(*_COMPARISON[type(op)], self._one(left), self._one(right))
            case ast.Compare(left=left, ops=[ast.NotEq()], comparators=[right]):
                equal = self._apply(*_COMPARISON[ast.Eq], self._one(left), self._one(right))
                return self._not(equal)
            case ast.Subscript(value=base, slice=index):
                return self._item(self.lower(base), index)
            case ast.List(elts=parts) | ast.Tuple(elts=parts):
                return [self._one(part) for part in parts]
            case ast.Call(func=func, args=args, keywords=[]):
                return self._call(func, [self._one(argument) for argument in args])
        raise self._unsupported(tree)

    def apply(self, function: Any, op_type: str, *operands: Operand) -> Operand:
        """Apply an elementwise function with NumPy's promotion rules (`function` is the ufunc)."""
        written = [operand.value for operand in operands if isinstance(operand, Literal)]
        if len(written) == len(operands):
            with np.errstate(all="ignore"):
                return Literal(function(*written))
        dtypes = function.resolve_dtypes((*(_kind(operand) for operand in operands), None))
        read = [self._as(operand, dtype) for operand, dtype in zip(operands, dtypes, strict=False)]
        if dtypes[0] == np.bool_:
            op_type = _ON_BOOL.get(op_type, op_type)
        result = self._builder.op(op_type, read, name=self._name)[0]
        if all(isinstance(_kind(operand), type) for operand in operands) and result.dtype is not None:
            result.meta[WEAK] = type(np.zeros((), result.dtype.numpy()).item())
        return result

    def _apply(self, plain: Callable[..., Any], function: Any, op_type: str, *operands: Operand) -> Operand:
        numbers = [o.value for o in operands if isinstance(o, Literal) and not o.listed]
        if len(numbers) == len(operands):
            # Two Python numbers: what Python makes of them, before any array is met.
            return Literal(plain(*numbers))
        try:
            return self.apply(function, op_type, *operands)
        except TypeError as error:
            kinds = " and ".join(str(_kind(operand)) for operand in operands)
            raise UnsupportedError(f"{self._name}: {op_type} is not defined for {kinds}") from error

    def _call(self, func: ast.expr, operands: Sequence[Operand]) -> Operand:
        name = FUNCTIONS.get(ast.unparse(func), "")
        if name not in _CALLS:
            raise self._unsupported(func)
        function, op_type = _CALLS[name]
        return self._apply(function, function, op_type, *operands)

    def _negative(self, operand: Operand) -> Operand:
        if isinstance(operand, Literal):
            return Literal(-operand.value, operand.listed)
        return self._apply(operator.neg, np.negative, "Neg", operand)

    def _not(self, operand: Operand) -> Operand:
        if isinstance(operand, Literal):
            return Literal(np.logical_not(operand.value), operand.listed)
        return self._builder.op("Not", [operand], name=self._name)[0]

    def _item(self, base: Operand | list[Operand], index: ast.expr) -> Operand:
        try:
            position = ast.literal_eval(index)
        except ValueError:
            position = None
        if not isinstance(position, int):
            raise self._unsupported(index)
        if isinstance(base, list):
            return base[position]
        if isinstance(base, Literal):
            return Literal(np.asarray(base.value)[position], base.listed)
        place = self._builder.constant(np.int64(position), f"{self._name}.index")
        return self._builder.op("Gather", [base, place], {"axis": 0}, name=self._name)[0]

    def _one(self, tree: ast.expr) -> Operand:
        value = self.lower(tree)
        if not isinstance(value, list):
            return value
        if all(isinstance(part, Literal) for part in value):
            return Literal(np.array([part.value for part in value if isinstance(part, Literal)]), listed=True)
        return value[0]

    def _as(self, operand: Operand, dtype: np.dtype[Any]) -> ir.Value:
        if isinstance(operand, Literal):
            return self._builder.materialise(operand, dtype)
        return self._builder.cast(operand, dtype, self._name)

    def _unsupported(self, tree: ast.expr) -> UnsupportedError:
        return UnsupportedError(f"{self._name}: expression {ast.unparse(tree)!r} has no form in ONNX here")


def _kind(operand: Operand) -> Any:
    """Return what NumPy's promotion needs to know: a dtype, or a Python type that has none."""
    if isinstance(operand, ir.Value):
        if operand.dtype is None:
            raise UnsupportedError(f"value {operand.name!r} has no known dtype; give its port a type")
        return operand.meta.get(WEAK) or operand.dtype.numpy()
    value = operand.value
    if operand.listed or isinstance(value, (np.ndarray, np.generic)):
        return np.asarray(value).dtype
    # NumPy's promotion has no Python bool; its own is as weak.
    return np.dtype(np.bool_) if isinstance(value, bool) else type(value)
