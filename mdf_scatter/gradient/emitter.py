"""Writes the nodes of a backward pass, and the few forms that most rules share."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from mdf_scatter.dtypes import HALVES
from mdf_scatter.errors import UnsupportedError
from mdf_scatter.gradient.known import known_value
from mdf_scatter.lower.builder import Builder
from mdf_scatter.wiring import PASS

Array = npt.NDArray[Any]
Input = ir.Value | int | float | None


class Emitter:
    """Writes nodes into one graph.

    Numbers among the inputs of an operator become constants of the dtype of its first tensor.

    Args:
        builder: Where the nodes go.
        name: What they are named after.
        number: Which backward pass of the model they are, from 1 on.

    Attributes:
        metadata: What nodes say of themselves.
    """

    def __init__(self, builder: Builder, name: str = "grad", number: int = 1) -> None:
        self.builder = builder
        self.name = name
        self.metadata = {PASS: "backward" if number == 1 else f"backward {number}"}
        self._number = number

    def named(self, name: str) -> Emitter:
        """Return a writer into the same graph whose nodes are named after another one."""
        return Emitter(self.builder, name, self._number)

    def inner(self) -> Emitter:
        """Return a writer into a graph inside this one."""
        return Emitter(self.builder.inner(), self.name, self._number)

    def __call__(self, op_type: str, *inputs: Input, domain: str = "", **attributes: Any) -> ir.Value:
        """Write a node of one output and return its value; of constants of this pass, what they give."""
        value = self.several(op_type, *inputs, outputs=1, domain=domain, **attributes)[0]
        node = value.producer()
        if node is not None and all(self._is_constant(part) for part in node.inputs):
            # The model's own constants are left alone: parameters are to be changed, and differentiated.
            found = self.known(value)
            if found is not None and static_shape(value) in (None, found.shape):
                return self.constant(found)
        return value

    def _is_constant(self, value: ir.Value | None) -> bool:
        return value is None or self.builder.initializers.get(str(value.name)) is value

    def several(
        self, op_type: str, *inputs: Input, outputs: int, domain: str = "", **attributes: Any
    ) -> list[ir.Value]:
        """Write a node of several outputs and return their values."""
        like = next((value for value in inputs if isinstance(value, ir.Value)), None)
        return self.builder.op(
            op_type,
            [self.constant(part, like) if isinstance(part, (int, float)) else part for part in inputs],
            {name: value for name, value in attributes.items() if value is not None},
            name=self.name,
            outputs=outputs,
            domain=domain,
            metadata_props=self.metadata,
        )

    def constant(self, array: npt.ArrayLike, like: ir.Value | None = None) -> ir.Value:
        """Write a constant, of the dtype of another value where one is given, and return its value."""
        dtype = None if like is None else self.dtype(like)
        array = np.asarray(array) if dtype is None else np.asarray(array).astype(dtype)
        text = "_".join(str(part) for part in (array.dtype, *array.ravel()[:4].tolist(), *array.shape))
        return self.builder.constant(array, f"constant_{text}".replace("-", "m").replace(".", "p"))

    def integers(self, numbers: Sequence[int] | int) -> ir.Value:
        """Write an int64 constant: axes, sizes, positions."""
        return self.constant(np.asarray(numbers, np.int64))

    def dtype(self, value: ir.Value) -> np.dtype[Any]:
        """Return the dtype of a value.

        Raises:
            UnsupportedError: It is not known.
        """
        if value.dtype is None:
            raise UnsupportedError(f"{self.name}: the dtype of {value.name!r} is not known")
        return value.dtype.numpy()

    def known(self, value: ir.Value | None) -> Array | None:
        """Return what a value is, where that depends on no input; else None."""
        return None if value is None else known_value(value, self.builder.opset_imports[""])

    def rank(self, value: ir.Value) -> int:
        """Return the rank of a value.

        Raises:
            UnsupportedError: It is not known.
        """
        if value.shape is None:
            raise UnsupportedError(
                f"{self.name}: the rank of {value.name!r} is not known; give the graph's inputs shapes"
            )
        return len(value.shape)

    def sizes(self, value: ir.Value) -> tuple[int, ...]:
        """Return the shape of a value, where every size has to be known.

        Raises:
            UnsupportedError: One is not known.
        """
        shape = static_shape(value)
        if shape is None:
            raise UnsupportedError(
                f"{self.name}: the shape of {value.name!r} is {value.shape}, and has to be known; "
                "give the graph's inputs fixed shapes"
            )
        return shape

    def shape(self, value: ir.Value) -> ir.Value:
        """Return the shape of a value, int64[r]: a constant where it is known."""
        shape = static_shape(value)
        return self("Shape", value) if shape is None else self.integers(shape)

    def size(self, value: ir.Value, axis: int) -> ir.Value:
        """Return the size of one axis, int64[1]."""
        axis %= self.rank(value)
        known = value.shape[axis] if value.shape is not None else None
        if isinstance(known, int):
            return self.integers([known])
        return self("Shape", value, start=axis, end=axis + 1)

    def reshape(self, value: ir.Value, shape: ir.Value | Sequence[int]) -> ir.Value:
        """Return a value in another shape, whose sizes are all given."""
        target = shape if isinstance(shape, ir.Value) else self.integers(shape)
        sizes = self.known(target)
        if sizes is not None and static_shape(value) == tuple(sizes.tolist()):
            return value
        return self("Reshape", value, target, allowzero=1 if sizes is None or 0 in sizes else None)

    def like(self, value: ir.Value, other: ir.Value) -> ir.Value:
        """Return a value in the shape of another one, of as many elements."""
        if _same_shape(value, other):
            return value
        return self.reshape(value, self.shape(other))

    def zeros_like(self, value: ir.Value) -> ir.Value:
        """Return zeros of a value's shape and dtype."""
        return self.expand(self.constant(0, value), value)

    def expand(self, value: ir.Value, like: ir.Value) -> ir.Value:
        """Return a value repeated along axes of size 1, and new ones, to the shape of another one."""
        if _same_shape(value, like):
            return value
        result = self("Expand", value, self.shape(like))
        if like.shape is not None:
            result.shape = like.shape
        return result

    def cast(self, value: ir.Value, like: ir.Value | npt.DTypeLike) -> ir.Value:
        """Return a value in the dtype of another one, or in this one."""
        dtype = self.dtype(like) if isinstance(like, ir.Value) else np.dtype(like)
        if value.dtype is not None and value.dtype.numpy() == dtype:
            return value
        return self("Cast", value, to=int(ir.DataType.from_numpy(dtype)))

    def wide(self, value: ir.Value) -> ir.Value:
        """Return a value of half precision as float32, in which counts and sums of many are right."""
        return self.cast(value, np.float32) if self.dtype(value) in HALVES else value

    def transpose(self, value: ir.Value, perm: Sequence[int]) -> ir.Value:
        """Return a value with its axes in another order."""
        return value if list(perm) == list(range(len(perm))) else self("Transpose", value, perm=list(perm))

    def unsqueeze(self, value: ir.Value, axes: Sequence[int]) -> ir.Value:
        """Return a value with new axes of size 1."""
        return self("Unsqueeze", value, self.integers(axes)) if axes else value

    def sum(self, value: ir.Value, axes: Collection[int], *, keepdims: bool) -> ir.Value:
        """Return the sum over some axes."""
        if not axes:
            return value
        return self("ReduceSum", value, self.integers(sorted(axes)), keepdims=int(keepdims))

    def sum_to(self, grad: ir.Value, value: ir.Value) -> ir.Value:
        """Return the gradient of a value that was broadcast: summed over what it was repeated along."""
        if _same_shape(grad, value):
            return grad
        if grad.shape is None or value.shape is None:
            return self._sum_to_shape(grad, value)
        added = len(grad.shape) - len(value.shape)
        if added < 0:
            # Nothing is broadcast to a lower rank, but elements that are all alike may be seen as one.
            return self.reshape(self.sum(grad, range(len(grad.shape)), keepdims=False), self.shape(value))
        pairs = list(zip(grad.shape.dims[added:], value.shape.dims, strict=True))
        if any(not isinstance(old, int) and (old != new or old.value is None) for new, old in pairs):
            return self._sum_to_shape(grad, value)
        repeated = [added + at for at, (new, old) in enumerate(pairs) if old == 1 and new != 1]
        summed = self.sum(grad, repeated, keepdims=True)
        return self.sum(summed, range(added), keepdims=False)

    def _sum_to_shape(self, grad: ir.Value, value: ir.Value) -> ir.Value:
        target = self("Shape", value)
        added = self("Sub", self("Size", self("Shape", grad)), self("Size", target))
        ones = self("Expand", self.integers([1]), self("Reshape", added, self.integers([1])))
        is_one = self("Equal", self("Concat", ones, target, axis=0), self.integers(1))
        axes = self("Reshape", self("NonZero", is_one), self.integers([-1]))
        summed = self("ReduceSum", grad, axes, keepdims=1, noop_with_empty_axes=1)
        result = self("Reshape", summed, target, allowzero=1)
        result.shape = value.shape
        return result


def static_shape(value: ir.Value) -> tuple[int, ...] | None:
    """Return the shape of a value; None where a size is not known."""
    if value.shape is None or not all(isinstance(size, int) for size in value.shape):
        return None
    return tuple(size for size in value.shape if isinstance(size, int))


def _same_shape(a: ir.Value, b: ir.Value) -> bool:
    if a.shape is None or b.shape is None or len(a.shape) != len(b.shape):
        return False
    pairs = zip(a.shape.dims, b.shape.dims, strict=True)
    return all(x == y and (isinstance(x, int) or x.value is not None) for x, y in pairs)
