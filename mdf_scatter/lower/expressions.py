"""Expressions of MDF files as ONNX operators, translated from their syntax tree.

dtypes follow NumPy, as they do in MDF's own engine: a Python number takes the dtype of the array it
meets, arrays are promoted, and dividing integers gives floats.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from mdf_scatter.errors import UnsupportedError
from mdf_scatter.lower import pythons, sizes
from mdf_scatter.lower.arithmetic import Arithmetic, Form, dtype_of, is_weak, kind_of, rank_of, shape_of
from mdf_scatter.lower.builder import Builder, Literal, Operand
from mdf_scatter.lower.indexing import item, item_of_list
from mdf_scatter.lower.limits import LIMITS
from mdf_scatter.lower.making import MAKING, converted_to, stacked
from mdf_scatter.lower.ordering import ORDERING
from mdf_scatter.lower.products import PRODUCTS
from mdf_scatter.lower.reductions import REDUCTIONS
from mdf_scatter.lower.shaping import SHAPING, transposed
from mdf_scatter.lower.ufuncs import BINARY, COMPARISON, ELEMENTWISE, UNARY
from mdf_scatter.vocabulary import CONSTANTS, Called, called, dotted, dtype_named

Resolve = Callable[[str], "Operand | list[Operand]"]

_OF_ARRAYS = REDUCTIONS | SHAPING | MAKING | ORDERING | PRODUCTS | LIMITS
_LISTS = dict.fromkeys(("concatenate", "stack", "hstack", "vstack", "zeros", "ones", "full"), 0) | {
    "reshape": 1,
    "tile": 1,
}
"""Which operand a function reads the parts of, where it is a list; of all others it reads the array."""

_OF_CONSTANTS: dict[str, Callable[..., Any]] = {
    "astype": lambda array, dtype: np.asarray(array).astype(dtype),
    "ndarray.clip": np.clip,
    "norm": np.linalg.norm,
}
"""What functions that are not NumPy's own by name give of constants."""


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
        return value[0] if isinstance(tree, ast.Name) else stacked(self._a, value)

    def _lower(self, tree: ast.expr) -> Operand | list[Operand]:
        match tree:
            case ast.Constant(value=value):
                return Literal(value)
            case ast.Name(id=name):
                return self._resolve(name)
            case ast.Attribute() if dotted(tree) in CONSTANTS:
                return Literal(CONSTANTS[dotted(tree)])
            case ast.Attribute(value=array, attr=attr):
                return self._attribute(self._array(tree, array, self.lower(array)), attr)
            case ast.BinOp(left=left, op=op, right=right) if type(op) in BINARY:
                return self._binary(tree, BINARY[type(op)], left, right)
            case ast.UnaryOp(op=op, operand=operand) if type(op) in UNARY:
                return self._a.python(*UNARY[type(op)], self.one(operand))
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return self._not(self.one(operand))
            case ast.BoolOp(op=op, values=values):
                return self._any_or_all([partial(self.one, v) for v in values], isinstance(op, ast.And))
            case ast.Compare(left=left, ops=ops, comparators=comparators):
                return self._compared(left, ops, comparators)
            case ast.IfExp(test=test, body=body, orelse=orelse):
                condition = self.one(test)
                if isinstance(condition, Literal):
                    return self.one(body if pythons.truth_of(self._a, condition) else orelse)
                return pythons.chosen(self._a, condition, self.one(body), self.one(orelse))
            case ast.Subscript(value=base, slice=index):
                whole = self.lower(base)
                if isinstance(whole, list):
                    return item_of_list(self._a, whole, index, self.one)
                return item(self._a, whole, index, self.one)
            case ast.List(elts=parts) | ast.Tuple(elts=parts):
                return [self.one(part) for part in parts]
            case ast.Call() if (call := called(tree)) is not None:
                return self._call(tree, call)
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

    def _not(self, operand: Operand) -> Operand:
        if isinstance(operand, Literal):
            return Literal(not pythons.truth_of(self._a, operand))
        return self._a.weak(self._a.op("Not", pythons.truth(self._a, operand)), bool)

    def _any_or_all(self, parts: Sequence[Callable[[], Operand]], is_and: bool) -> Operand:
        """Return what `and` or `or` gives: the first value that decides, or else the last."""
        value = parts[0]()
        for part in parts[1:]:
            if isinstance(value, Literal):
                if pythons.truth_of(self._a, value) != is_and:
                    return value
                value = part()
                continue
            other = part()
            if dtype_of(value) == dtype_of(other) == np.bool_ and shape_of(value) == shape_of(other):
                kind = kind_of(value)
                pythons.truth(self._a, value)
                result = self._a.op("And" if is_and else "Or", self._a.value(value), self._a.value(other))
                value = self._a.weak(result, bool) if kind is bool and is_weak(other) else result
            else:
                left, right = (other, value) if is_and else (value, other)
                value = pythons.chosen(self._a, value, left, right)
        return value

    def _compared(self, left: ast.expr, ops: Sequence[ast.cmpop], comparators: Sequence[ast.expr]) -> Operand:
        values = [self.one(left), *(self.one(other) for other in comparators)]

        def compared(place: int) -> Operand:
            plain, ufunc, form = COMPARISON[type(ops[place])]
            return self._a.python(plain, ufunc, form, values[place], values[place + 1])

        if len(ops) == 1:
            return compared(0)
        return self._any_or_all([partial(compared, place) for place in range(len(ops))], True)

    def _attribute(self, array: Operand, attr: str) -> Operand | list[Operand]:
        match attr:
            case "shape":
                return sizes.shape_parts(self._a, array)
            case "size":
                return sizes.count(self._a, array)
            case "ndim":
                return Literal(rank_of(self._a, array))
        return transposed(self._a, array)

    def _array(self, tree: ast.expr, of: ast.expr, value: Operand | list[Operand]) -> Operand:
        """Return what an attribute is read or a method called of: Python's numbers and lists have none."""
        if isinstance(value, list) or is_weak(value):
            what = "a list" if isinstance(value, list) else "a Python number"
            raise UnsupportedError(
                f"{self._a.name}: expression {ast.unparse(tree)!r}: {ast.unparse(of)!r} is {what}, no array;"
                f" write numpy.array({ast.unparse(of)}) in its place"
            )
        return value

    def _call(self, tree: ast.Call, call: Called) -> Operand:
        a, name, spelled = self._a, call.name, dotted(tree.func)
        given = [None if part is None else self.lower(part) for part in call.operands]
        read = [operand for operand in given if operand is not None]
        if call.is_method and isinstance(tree.func, ast.Attribute):
            self._array(tree, tree.func.value, read[0])
        if name in ELEMENTWISE:
            return self._elementwise(spelled, name, [self.single(operand) for operand in read])
        home, _, own = name.rpartition(".")
        if home in ("builtins", "math") or name == "ndarray.item":
            return self._python(own, read)
        options = {option: self._option(option, value) for option, value in call.options.items()}
        for place, operand in enumerate(given):
            if operand is not None and place != _LISTS.get(name):
                given[place] = self.single(operand)
        sizes.refuse_huge(a, name, given)
        while given[-1] is None:
            given.pop()
        if all(map(_is_constant, given)):
            values = [_value(operand) for operand in given]
            function = _OF_CONSTANTS.get(name) or getattr(np, own)
            return a.folded(lambda: function(*values, **options), [])
        if home == "numpy":
            return converted_to(a, self.single(read[0]), np.dtype(own))
        return _OF_ARRAYS[name](a, *given, **options)

    def _elementwise(self, spelled: str, name: str, operands: Sequence[Operand]) -> Operand:
        a, function, form = self._a, getattr(np, name), ELEMENTWISE[name]
        if spelled in ("abs", "pow"):
            return a.python(getattr(builtins, spelled), function, form, *operands)
        if not spelled.startswith("math."):
            return a.apply(function, form, *operands)
        # A function of Python's `math` gives a Python number, of Python numbers.
        kind = bool if name in ("isnan", "isinf", "isfinite") else float
        result = a.apply(function, form, *(pythons.converted(a, "float", operand) for operand in operands))
        return Literal(kind(result.value)) if isinstance(result, Literal) else a.weak(result, kind)

    def _python(self, name: str, given: Sequence[Operand | list[Operand]]) -> Operand:
        a = self._a
        match name, given:
            case (("sum" | "prod"), [operand]):
                return pythons.python_sum(a, operand, product=name == "prod")
            case "len", [operand]:
                return pythons.length(a, operand)
            case (("max" | "min"), [[only]]):
                return only
            case (("max" | "min"), [[*several]] | [*several]):
                return pythons.python_extreme(a, name, [self.single(operand) for operand in several])
            case (("any" | "all"), [operand]):
                return pythons.python_decided(a, name, self.single(operand))
            case "item", [operand]:
                return pythons.taken_out(a, self.single(operand))
        return pythons.converted(a, name, self.single(given[0]))

    def single(self, value: Operand | list[Operand]) -> Operand:
        """Return a value; of several, the array that NumPy makes of them."""
        return stacked(self._a, value) if isinstance(value, list) else value

    def _option(self, option: str, value: ast.expr) -> Any:
        if option == "dtype":
            return np.dtype(dtype_named(value))
        written = ast.literal_eval(value)
        return tuple(written) if isinstance(written, list) else written

    def _unsupported(self, tree: ast.expr) -> UnsupportedError:
        return UnsupportedError(f"{self._a.name}: expression {ast.unparse(tree)!r} has no form in ONNX here")


def _is_constant(operand: Operand | list[Operand] | None) -> bool:
    if isinstance(operand, list):
        return all(map(_is_constant, operand))
    return operand is None or isinstance(operand, Literal)


def _value(operand: Operand | list[Operand] | None) -> Any:
    if isinstance(operand, list):
        return [_value(part) for part in operand]
    return operand.value if isinstance(operand, Literal) else None
