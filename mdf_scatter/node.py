"""The operators as nodes: ScatterND and its relatives, with parameters and named outputs.

Every node has `forward` and `backward`, `to_mdf` and `add_to`; see `OperatorNode`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Unpack

from mdf_scatter.operator_node import OperatorNode, Settings
from mdf_scatter.ops import OPS


class ScatterND(OperatorNode):
    """A copy of `data` with `updates` written, or combined, at `indices`.

    Args:
        name: Name of the node. Left out, the node is named when it is put into a graph.
        reduction: How an update meets what is there: "none" (the last one wins), "add", "mul", "max",
            "min" or "mean".
        include_self: Whether data takes part in a reduction; False leaves it out where updates go.
        training: Whether the node keeps what its backward pass needs.
        lda_coeff: What the loss derivative is multiplied by before it goes to the previous layer.
        specified_outputs_name: Your own name for the output; a text, or a list of one.

    Raises:
        OperatorError: A parameter has a value it may not have.

    Source: ONNX ScatterND (opset 18); the ScatterND node of LabVIEW's deep learning toolkit; "mean" and
    `include_self` are those of `torch.scatter_reduce`.

    >>> node = ScatterND("scatter_1", reduction="add")
    >>> node.forward([1.0, 2.0, 3.0], [[2], [2]], [10.0, 20.0])
    array([ 1.,  2., 33.])
    >>> node.backward([1.0, 1.0, 5.0])
    (array([1., 1., 5.]), array([5., 5.]))
    """

    __slots__ = ()

    op = OPS["ScatterND"]
    stem = "scatter_nd"

    def __init__(
        self,
        name: str | None = None,
        *,
        reduction: str = "none",
        include_self: bool = True,
        training: bool = True,
        lda_coeff: float = 1.0,
        specified_outputs_name: str | Sequence[str] | None = None,
    ) -> None:
        settings = Settings(
            training=training, lda_coeff=lda_coeff, specified_outputs_name=specified_outputs_name
        )
        super().__init__(name, _reducing(reduction, include_self), **settings)


class ScatterElements(OperatorNode):
    """A copy of `data` with single elements written, or combined, along an axis.

    Args:
        name: See `ScatterND`.
        axis: The axis that `indices` count along; negative ones count from the end.
        reduction: See `ScatterND`.
        include_self: See `ScatterND`.
        settings: `training`, `lda_coeff`, `specified_outputs_name`; see `ScatterND`.

    Raises:
        OperatorError: A parameter has a value it may not have.

    Source: ONNX ScatterElements (opset 18); `torch.scatter_reduce`.

    >>> ScatterElements(axis=1, reduction="mean").forward([[1.0, 2.0, 3.0]], [[1, 1]], [[4.0, 6.0]])
    array([[1., 4., 3.]])
    """

    __slots__ = ()

    op = OPS["ScatterElements"]
    stem = "scatter_elements"

    def __init__(
        self,
        name: str | None = None,
        *,
        axis: int = 0,
        reduction: str = "none",
        include_self: bool = True,
        **settings: Unpack[Settings],
    ) -> None:
        super().__init__(name, {"axis": axis, **_reducing(reduction, include_self)}, **settings)


class GatherND(OperatorNode):
    """The slices of `data` that `indices` name.

    Args:
        name: See `ScatterND`.
        batch_dims: How many leading axes data and indices have in common.
        settings: `training`, `lda_coeff`, `specified_outputs_name`; see `ScatterND`.

    Raises:
        OperatorError: A parameter has a value it may not have.

    Source: ONNX GatherND (opset 13).

    >>> GatherND().forward([[1, 2], [3, 4]], [[1], [0]])
    array([[3, 4],
           [1, 2]])
    """

    __slots__ = ()

    op = OPS["GatherND"]
    stem = "gather_nd"
    result = "gather"

    def __init__(
        self,
        name: str | None = None,
        *,
        batch_dims: int = 0,
        **settings: Unpack[Settings],
    ) -> None:
        super().__init__(name, {"batch_dims": batch_dims}, **settings)


class GatherElements(OperatorNode):
    """The elements of `data` that `indices` name along an axis.

    Args:
        name: See `ScatterND`.
        axis: The axis that `indices` count along; negative ones count from the end.
        settings: `training`, `lda_coeff`, `specified_outputs_name`; see `ScatterND`.

    Raises:
        OperatorError: A parameter has a value it may not have.

    Source: ONNX GatherElements (opset 13).

    >>> GatherElements(axis=1).forward([[1, 2], [3, 4]], [[0, 0], [1, 0]])
    array([[1, 1],
           [4, 3]])
    """

    __slots__ = ()

    op = OPS["GatherElements"]
    stem = "gather_elements"
    result = "gather"

    def __init__(
        self,
        name: str | None = None,
        *,
        axis: int = 0,
        **settings: Unpack[Settings],
    ) -> None:
        super().__init__(name, {"axis": axis}, **settings)


class TensorScatter(OperatorNode):
    """A cache with an update written into each of its sequences.

    Args:
        name: See `ScatterND`.
        axis: The axis of the sequence; not the first one, which is the batch.
        mode: "linear", or "circular" for positions that wrap around.
        settings: `training`, `lda_coeff`, `specified_outputs_name`; see `ScatterND`.

    Raises:
        OperatorError: A parameter has a value it may not have.

    Source: ONNX TensorScatter (opset 24).

    >>> TensorScatter(axis=1).forward([[[1.0], [2.0], [3.0]]], [[[9.0]]], [1])[0, :, 0]
    array([1., 9., 3.])
    """

    __slots__ = ()

    op = OPS["TensorScatter"]
    stem = "tensor_scatter"

    def __init__(
        self,
        name: str | None = None,
        *,
        axis: int = -2,
        mode: str = "linear",
        **settings: Unpack[Settings],
    ) -> None:
        super().__init__(name, {"axis": axis, "mode": mode}, **settings)


class TFScatterND(OperatorNode):
    """Zeros of `shape` with `updates` added at `indices`, as TensorFlow's `tf.scatter_nd`.

    Args:
        name: See `ScatterND`.
        settings: `training`, `lda_coeff`, `specified_outputs_name`; see `ScatterND`.

    Raises:
        OperatorError: A parameter has a value it may not have.

    >>> TFScatterND().forward([[4], [3], [1], [7]], [9, 10, 11, 12], [8])
    array([ 0, 11,  0, 10,  9,  0,  0, 12])
    """

    __slots__ = ()

    op = OPS["tf::scatter_nd"]
    stem = "tf_scatter_nd"

    def __init__(self, name: str | None = None, **settings: Unpack[Settings]) -> None:
        super().__init__(name, {}, **settings)


class PaddleScatterNDAdd(OperatorNode):
    """`ref` with `updates` added at `index`, as Paddle's `scatter_nd_add`.

    Args:
        name: See `ScatterND`.
        settings: `training`, `lda_coeff`, `specified_outputs_name`; see `ScatterND`.

    Raises:
        OperatorError: A parameter has a value it may not have.

    >>> PaddleScatterNDAdd().forward([0, 1, 2, 3, 4, 5], [[1], [2], [3], [1]], [9, 10, 11, 12])
    array([ 0, 22, 12, 14,  4,  5])
    """

    __slots__ = ()

    op = OPS["paddle::scatter_nd_add"]
    stem = "scatter_nd_add"

    def __init__(self, name: str | None = None, **settings: Unpack[Settings]) -> None:
        super().__init__(name, {}, **settings)


def _reducing(reduction: str, include_self: bool) -> dict[str, object]:
    # What is not said is not written: files and ONNX know no `include_self` where it changes nothing.
    return (
        {"reduction": reduction}
        if include_self is True
        else {
            "reduction": reduction,
            "include_self": include_self,
        }
    )
