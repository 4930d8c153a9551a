"""What an operator is, and the table of all operators."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from mdf_scatter.dtypes import is_string, name_of
from mdf_scatter.errors import OperatorError, listed
from mdf_scatter.kernels.pullback import RowsPullback
from mdf_scatter.ops.arguments import read_array

DIFFERENTIABLE = ("float16", "bfloat16", "float32", "float64", "complex64", "complex128")
"""Types that gradients have."""


@dataclass(frozen=True)
class Attribute:
    """A setting of an operator that is not a tensor.

    Attributes:
        default: Its value where none is given.
        choices: Every value it may have; empty where that is not a list.
        doc: What it does, in a sentence.
    """

    default: Any
    choices: tuple[Any, ...] = ()
    doc: str = ""


@dataclass(frozen=True)
class Case:
    """One call of an operator and what comes of it: for tests, documentation and benchmarks alike.

    Attributes:
        name: What the case shows, unique within its operator.
        inputs: The operator's inputs, in order.
        attributes: Attributes that differ from their default.
        expected: The result; None where the call is an error.
        error: The whole message; None where the call gives a result.
    """

    name: str
    inputs: tuple[Any, ...]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    expected: npt.NDArray[Any] | None = None
    error: str | None = None


def has_gradient(dtype: np.dtype[Any]) -> bool:
    """Tell whether numbers of a dtype have gradients."""
    return name_of(dtype) in DIFFERENTIABLE


def row_shape(array: npt.NDArray[Any], width: int) -> tuple[int, int]:
    """Return the shape of an array seen as rows of `width` elements; without elements there are no rows."""
    return (array.size // width, width) if array.size else (0, width)


@dataclass(frozen=True, eq=False)
class Pullback:
    """The backward pass of one call: what it needs, and how it goes.

    Attributes:
        op: Name of the operator.
        shape: Shape of the output.
        dtype: Dtype of the output and of all gradients.
        inputs: Shape of the gradient of each input, in order; None for an input that has none.
        width: Elements in a row of the output, as the rows kernels see it.
        kept: The way back through them, with all that is stored; None where the dtype has no gradient.
    """

    op: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    inputs: tuple[tuple[int, ...] | None, ...]
    width: int
    kept: RowsPullback | None

    def __call__(self, grad: npt.ArrayLike) -> tuple[npt.NDArray[Any] | None, ...]:
        """Return the gradient of each input, for that of the output.

        Args:
            grad: T[...], shape and dtype of the output.

        Returns:
            New arrays, each of its input's shape and of the output's dtype; None for integer inputs.

        Raises:
            OperatorError: The dtype has no gradient, or `grad` is of another shape or dtype.
        """
        if self.kept is None:
            own = "string" if is_string(self.dtype) else name_of(self.dtype)
            raise OperatorError(
                self.op,
                f"the output has dtype {own}, which has no gradient; expected {listed(DIFFERENTIABLE)}",
            )
        grad = read_array(self.op, "grad", grad)
        if grad.shape != self.shape:
            raise OperatorError(
                self.op, f"grad has shape {grad.shape}; expected {self.shape}, the shape of the output"
            )
        if grad.dtype != self.dtype:
            raise OperatorError(
                self.op,
                f"grad has dtype {name_of(grad.dtype)}; expected {name_of(self.dtype)},"
                " the dtype of the output",
            )
        gradients = iter(self.kept(np.ascontiguousarray(grad).reshape(row_shape(grad, self.width))))
        return tuple(None if shape is None else next(gradients).reshape(shape) for shape in self.inputs)

    @property
    def nbytes(self) -> int:
        """Bytes that are stored."""
        return 0 if self.kept is None else self.kept.nbytes


class Emit(Protocol):
    """Writes the ONNX nodes of an operator; values are whatever the writer makes them."""

    def __call__(self, op_type: str, *inputs: Any, **attributes: Any) -> Any:
        """Write a node of one output and return its value."""

    def constant(self, array: npt.ArrayLike) -> Any:
        """Write a constant and return its value."""

    def dtype(self, value: Any) -> np.dtype[Any]:
        """Return the dtype of a value."""


@dataclass(frozen=True)
class Op:
    """An operator, whole.

    Attributes:
        name: Its name in `OPS`; ONNX's own, or `domain::name`.
        inputs: Names of its inputs, in order; those that may be left out come last.
        attributes: Its attributes, by name.
        versions: ONNX opset -> what the operator's version of that opset brings.
        forward: `forward(*inputs, **attributes)` gives the result, an array.
        cases: Examples, right calls and wrong ones.
        doc: What it does, in a sentence.
        optional: Names of the inputs that may be left out.
        integers: Names of the inputs that hold indices, positions or sizes, of any integer dtype.
        dtype_from: Name of the input whose dtype the output has.
        shape_from: Name of the input whose shape the output has; empty where it is no input's.
        onnx_form: `onnx_form(emit, *inputs, **attributes)` writes the operator as nodes of ONNX and gives
            the output's value; None where it is the ONNX operator of its name, attributes and all.
        pullback: `pullback(*inputs, output=forward(*inputs, **attributes), **attributes)` gives the
            call's backward pass, and does so without `output` too, which few need; None where the operator
            has no gradient.
    """

    name: str
    inputs: tuple[str, ...]
    attributes: Mapping[str, Attribute]
    versions: Mapping[int, str]
    forward: Callable[..., npt.NDArray[Any]]
    cases: tuple[Case, ...]
    doc: str
    optional: tuple[str, ...] = ()
    integers: tuple[str, ...] = ("indices",)
    dtype_from: str = "data"
    shape_from: str = "data"
    onnx_form: Callable[..., Any] | None = None
    pullback: Callable[..., Pullback] | None = None


OPS: dict[str, Op] = {}
"""Every operator, by name."""


def add_op(op: Op) -> Op:
    """Enter an operator into `OPS` and return it.

    Raises:
        ValueError: The table has an operator of that name.
    """
    if op.name in OPS:
        raise ValueError(f"operator {op.name!r} is in OPS already; names are unique")
    OPS[op.name] = op
    return op
