"""Operands of expressions, and elementwise arithmetic on them with NumPy's dtypes.

A value is of a NumPy dtype, or it is weak: a Python number, which takes the dtype of what it meets.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from mdf_scatter.errors import UnsupportedError
from mdf_scatter.lower.builder import WEAK, Builder, Literal, Operand

Form = Callable[["Arithmetic", Sequence[ir.Value]], ir.Value]
"""Writes a function for values of one dtype (or of those that the function's loop takes)."""

_BOOL = np.dtype(np.bool_)
_INT32 = np.dtype(np.int32)
_WEAK_DTYPE: dict[type, np.dtype[Any]] = {
    bool: _BOOL,
    int: np.dtype(np.int64),
    float: np.dtype(np.float64),
    complex: np.dtype(np.complex128),
}
# Where NumPy's loop for bool is logical, not arithmetic.
_ON_BOOL = {"Add": "Or", "Mul": "And", "Max": "Or", "Min": "And"}
_COMPARISONS = (np.less, np.less_equal, np.greater, np.greater_equal, np.equal, np.not_equal)
# Of bools alone these give bools, in Python too.
_LOGICAL = (np.bitwise_and, np.bitwise_or, np.bitwise_xor)
# Operators without bool, in any operator set that this package writes for.
_NOT_ON_BOOL = frozenset({"Less", "LessOrEqual", "Greater", "GreaterOrEqual", "Abs", "MatMul"})


class Arithmetic:
    """Writes operators for one node.

    Args:
        builder: Where the operators go.
        name: What the operators are named after.
    """

    def __init__(self, builder: Builder, name: str) -> None:
        self.builder = builder
        self.name = name

    def op(self, op_type: str, *inputs: ir.Value | None, **attributes: Any) -> ir.Value:
        """Add one node and return its output."""
        return self.builder.op(op_type, inputs, attributes, name=self.name)[0]

    def with_axes(self, op_type: str, value: ir.Value, axes: Sequence[int] | None) -> ir.Value:
        """Add a Squeeze or Unsqueeze; from operator set 13 on, the axes are an input."""
        if axes is None:
            return self.op(op_type, value)
        if self.builder.opset_imports[""] < 13:
            return self.op(op_type, value, axes=list(axes))
        return self.op(op_type, value, self.constant(axes, np.int64))

    def constant(self, array: npt.ArrayLike, dtype: npt.DTypeLike | None = None) -> ir.Value:
        """Return a constant, of the dtype asked for."""
        return self.builder.constant(np.asarray(array, dtype), f"{self.name}.constant")

    def cast(self, operand: Operand, dtype: np.dtype[Any]) -> ir.Value:
        """Return an operand as a value of a dtype.

        Raises:
            UnsupportedError: A Python integer is out of the dtype's range, which NumPy refuses too.
        """
        if isinstance(operand, ir.Value):
            return self.builder.cast(operand, dtype, self.name)
        if not _fits(operand, dtype):
            raise UnsupportedError(f"{self.name}: {operand.value} is out of range for {dtype}")
        return self.builder.materialise(operand, dtype)

    def value(self, operand: Operand) -> ir.Value:
        """Return an operand as a value of its own dtype; a Python number becomes int64, float64 or bool."""
        return self.cast(operand, dtype_of(operand))

    def weak(self, value: ir.Value, kind: type) -> ir.Value:
        """Mark a value as a Python number."""
        value.meta[WEAK] = kind
        return value

    def apply(self, function: Any, op_type: str | Form, *operands: Operand) -> Operand:
        """Apply a NumPy ufunc: Python numbers in, NumPy numbers out."""
        return self._apply(function, function, op_type, operands)

    def python(
        self, plain: Callable[..., Any], function: Any, op_type: str | Form, *operands: Operand
    ) -> Operand:
        """Apply a Python operator (`plain`), which is a ufunc (`function`) where an array takes part."""
        if not all(is_weak(operand) for operand in operands):
            return self._apply(plain, function, op_type, operands)
        if all(isinstance(operand, Literal) for operand in operands):
            return self.folded(plain, operands)
        # Python has no arithmetic on bools: they are integers.
        kinds = [int if kind_of(o) is bool and function not in _LOGICAL else kind_of(o) for o in operands]
        dtypes = function.resolve_dtypes((*(_WEAK_DTYPE[kind] for kind in kinds), None))
        result = self._write(op_type, [self.cast(o, d) for o, d in zip(operands, dtypes, strict=False)])
        return self.weak(result, type(np.zeros((), result.dtype.numpy() if result.dtype else None).item()))

    def folded(self, plain: Callable[..., Any], operands: Sequence[Operand]) -> Literal:
        """Return what Python or NumPy makes of constants.

        Raises:
            UnsupportedError: It makes an error of them.
        """
        try:
            with np.errstate(all="ignore"):
                return Literal(plain(*(o.value for o in operands if isinstance(o, Literal))))
        except (ArithmeticError, ValueError, TypeError, IndexError) as error:
            raise UnsupportedError(f"{self.name}: {error}") from error

    def _apply(
        self, plain: Callable[..., Any], function: Any, op_type: str | Form, operands: Sequence[Operand]
    ) -> Operand:
        if all(isinstance(operand, Literal) for operand in operands):
            return self.folded(plain, operands)
        kinds = [_resolvable(operand) for operand in operands]
        try:
            dtypes = function.resolve_dtypes((*kinds, None))
        except TypeError as error:
            named = " and ".join(str(kind_of(operand)) for operand in operands)
            raise UnsupportedError(f"{self.name}: {function.__name__} is not defined for {named}") from error
        if function in _COMPARISONS and any(not _fits(o, d) for o, d in zip(operands, dtypes, strict=False)):
            # Any integer may be compared with any other.
            dtypes = [_WEAK_DTYPE[int]] * len(operands)
        return self._write(op_type, [self.cast(o, d) for o, d in zip(operands, dtypes, strict=False)])

    def _write(self, op_type: str | Form, values: Sequence[ir.Value]) -> ir.Value:
        if not isinstance(op_type, str):
            return op_type(self, values)
        return elementwise(self, op_type, *values)


def elementwise(a: Arithmetic, op_type: str, *values: ir.Value) -> ir.Value:
    """Add an operator; for dtypes that ONNX leaves out, in another one that gives the same."""
    dtypes = {value.dtype for value in values}
    if len(dtypes) > 1 and op_type != "Pow":
        found = " and ".join(sorted(str(dtype) for dtype in dtypes))
        raise UnsupportedError(f"{a.name}: {op_type} of {found} has no form in ONNX")
    dtype = numpy_dtype(values[0])
    if dtype == _BOOL:
        op_type = _ON_BOOL.get(op_type, op_type)
        if op_type in _NOT_ON_BOOL:
            wide = a.op(op_type, *(a.cast(value, _INT32) for value in values))
            return a.cast(wide, _BOOL)
    if op_type in ("Floor", "Ceil", "Round") and dtype.kind in "biu":
        return a.op("Identity", *values)
    if op_type == "Neg" and dtype.kind == "u":
        return a.op("Sub", a.constant(0, dtype), *values)
    if op_type == "MatMul" and _is_transposed(values[0]) and len(shape_of(values[1]) or ()) == 1:
        # Of a transposed matrix and a vector onnxruntime makes a product without the transposition.
        column = a.with_axes("Unsqueeze", values[1], [1])
        return a.with_axes("Squeeze", elementwise(a, "MatMul", values[0], column), [-1])
    if op_type in ("Pow", "MatMul") and dtype.kind in "iu" and dtype.itemsize < 4:
        # Wraps to the same: only the low bits count.
        return a.cast(a.op(op_type, *(a.cast(value, _INT32) for value in values)), dtype)
    if op_type in ("LessOrEqual", "GreaterOrEqual") and a.builder.opset_imports[""] < 12:
        strict = a.op(op_type.removesuffix("OrEqual"), *values)
        return a.op("Or", strict, a.op("Equal", *values))
    return a.op(op_type, *values)


def _is_transposed(value: ir.Value) -> bool:
    node = value.producer()
    return node is not None and node.op_type == "Transpose"


def kind_of(operand: Operand) -> Any:
    """Return an operand's dtype, or the Python type of a weak one."""
    if isinstance(operand, ir.Value):
        return operand.meta.get(WEAK) or numpy_dtype(operand)
    value = operand.value
    if operand.listed or isinstance(value, (np.ndarray, np.generic)):
        return np.asarray(value).dtype
    return type(value)


def is_weak(operand: Operand) -> bool:
    """Tell whether an operand is a Python number."""
    return isinstance(kind_of(operand), type)


def dtype_of(operand: Operand) -> np.dtype[Any]:
    """Return the dtype that an operand has on its own."""
    kind = kind_of(operand)
    if isinstance(kind, type):
        if kind not in _WEAK_DTYPE:
            raise UnsupportedError(f"a value of type {kind.__name__} has no form in ONNX")
        return _WEAK_DTYPE[kind]
    dtype: np.dtype[Any] = np.dtype(kind)
    return dtype


def numpy_dtype(value: ir.Value) -> np.dtype[Any]:
    """Return the NumPy dtype of a value.

    Raises:
        UnsupportedError: It is not known.
    """
    if value.dtype is None:
        raise UnsupportedError(f"value {value.name!r} has no known dtype; give its port a type")
    return np.dtype(object) if value.dtype == ir.DataType.STRING else value.dtype.numpy()


def sample(operand: Operand) -> Any:
    """Return a small value of an operand's dtype, to ask NumPy what it would make of it."""
    kind = kind_of(operand)
    if not isinstance(kind, type):
        return np.ones(1, kind)
    return operand.value if isinstance(operand, Literal) else kind(1)


def shape_of(operand: Operand) -> tuple[Any, ...] | None:
    """Return the shape of an operand as far as it is known; None where not even the rank is."""
    if isinstance(operand, Literal):
        shape: tuple[int, ...] = np.shape(operand.value)
        return shape
    return None if operand.shape is None else tuple(operand.shape)


def rank_of(a: Arithmetic, operand: Operand) -> int:
    """Return the rank of an operand.

    Raises:
        UnsupportedError: It is not known.
    """
    shape = shape_of(operand)
    if shape is None:
        raise UnsupportedError(f"{a.name}: the rank of a value is not known; give its port a shape")
    return len(shape)


def select(a: Arithmetic, condition: Operand, left: Operand, right: Operand) -> Operand:
    """Return `numpy.where` of a condition."""
    if isinstance(condition, Literal) and isinstance(left, Literal) and isinstance(right, Literal):
        return a.folded(np.where, [condition, left, right])
    try:
        dtype = np.where(True, sample(left), sample(right)).dtype
        # Python integers that are out of range wrap around here, and only here.
        sides = [
            a.builder.materialise(side, dtype) if isinstance(side, Literal) else a.cast(side, dtype)
            for side in (left, right)
        ]
    except (TypeError, OverflowError) as error:
        raise UnsupportedError(f"{a.name}: {error}") from error
    mask = a.cast(a.value(condition), _BOOL)
    return a.op("Where", mask, *sides)


def scale(a: Arithmetic, left: Operand, right: Operand) -> Operand:
    """Return the product that Python's `*` gives."""
    return a.python(operator.mul, np.multiply, "Mul", left, right)


def _fits(operand: Operand, dtype: np.dtype[Any]) -> bool:
    if not isinstance(operand, Literal) or type(operand.value) is not int or dtype.kind not in "iu":
        return True
    return bool(np.iinfo(dtype).min <= operand.value <= np.iinfo(dtype).max)


def _resolvable(operand: Operand) -> Any:
    kind = kind_of(operand)
    # NumPy's promotion has no Python bool; its own is as weak.
    return _BOOL if kind is bool else kind
