"""Gradients held against torch's, where that is installed: rules, second derivatives, and whole trainings."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import pytest
from central import node_model
from modeci_mdf.mdf import Model

from mdf_scatter import fit, from_onnx, grad, run
from mdf_scatter.gradient.parameters import parameters_of
from mdf_scatter.gradient.table import RULES

torch = pytest.importorskip("torch")
F = torch.nn.functional

Array = npt.NDArray[Any]
Tensor = Any
Function = Callable[..., Any]

RNG = np.random.default_rng(0)
EPSILON = 2.0**-10
"""Attributes are float32: numbers that are the same in float64 leave no difference to explain."""

SINGLE = ("float32",)
ROUNDED = 1e-6
"""Tolerance where the forward pass in float64 has constants, or a table, in float32."""


@dataclass(frozen=True)
class Case:
    """An operator, and the torch function that means the same."""

    op_type: str
    inputs: Sequence[Array | None]
    function: Function
    attributes: Mapping[str, Any]
    outputs: int
    constant: Collection[int]
    opset: int
    note: str
    dtypes: Sequence[str]
    tolerance: float

    def __str__(self) -> str:
        said = (f"{name}={_said(value)}" for name, value in self.attributes.items())
        return "-".join(part for part in (self.op_type, self.note, *said) if part)


def _said(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return text.replace(" ", "")


def case(
    op_type: str,
    inputs: Sequence[Array | None],
    function: Function,
    note: str = "",
    *,
    outputs: int = 1,
    constant: Collection[int] = (),
    opset: int = 18,
    dtypes: Sequence[str] = ("float64", "float32"),
    tolerance: float = 1e-10,
    **attributes: Any,
) -> Case:
    """Return a case.

    Args:
        op_type: The operator.
        inputs: What it is given; None for an input that is left out.
        function: Torch's; it is given all inputs.
        note: What tells the case from others of the operator.
        outputs: How many outputs the operator has; of these, the function gives the first floating ones.
        constant: Positions of inputs that are not differentiated.
        opset: The operator set.
        dtypes: In which dtypes they are compared; ONNX's evaluator, which is used where onnxruntime has no
            float64, is wrong in some.
        tolerance: Of float64.
        attributes: The attributes.
    """
    return Case(op_type, inputs, function, attributes, outputs, constant, opset, note, dtypes, tolerance)


def normal(*shape: int) -> Array:
    return RNG.standard_normal(shape).astype(np.float32).astype(np.float64)


def between(low: float, high: float, *shape: int) -> Array:
    return RNG.uniform(low, high, shape).astype(np.float32).astype(np.float64)


def ints(*numbers: Any) -> Array:
    return np.array(numbers, np.int64)


def floats(*numbers: Any) -> Array:
    return np.array(numbers, np.float64)


# Functions of one number.

X = normal(3, 4)
UNARY: list[Case] = [
    *(case(op, [X], getattr(torch, op.lower())) for op in ("Abs", "Cos", "Cosh", "Exp", "Neg", "Relu")),
    *(case(op, [X], getattr(torch, op.lower())) for op in ("Sigmoid", "Sin", "Sinh", "Tan", "Tanh", "Atan")),
    *(case(op, [between(-0.9, 0.9, 3, 4)], getattr(torch, op.lower())) for op in ("Asin", "Acos", "Atanh")),
    *(case(op, [between(0.1, 2, 3, 4)], getattr(torch, op.lower())) for op in ("Log", "Sqrt", "Reciprocal")),
    case("Erf", [X], torch.erf, tolerance=ROUNDED),
    case("Asinh", [X], torch.asinh),
    case("Acosh", [between(1.1, 3, 3, 4)], torch.acosh),
    case("Softplus", [X], F.softplus),
    case("Softsign", [X], F.softsign),
    case("LeakyRelu", [X], partial(F.leaky_relu, negative_slope=0.125), alpha=0.125),
    case("Elu", [X], partial(F.elu, alpha=1.5), alpha=1.5),
    case("Celu", [X], partial(F.celu, alpha=1.5), alpha=1.5),
    case("Selu", [X], lambda x: 1.25 * F.elu(x, 1.5), alpha=1.5, gamma=1.25),
    case("ThresholdedRelu", [X], lambda x: F.threshold(x, 0.25, 0.0), alpha=0.25),
    case("HardSigmoid", [X], lambda x: (0.75 * x + 0.5).clamp(0, 1), alpha=0.75, beta=0.5),
    case("HardSwish", [4 * X], F.hardswish, tolerance=ROUNDED),
    case("Swish", [X], lambda x: x * torch.sigmoid(1.5 * x), alpha=1.5, opset=24),
    case("Swish", [X], F.silu, opset=24),
    case("Mish", [X], F.mish),
    case("Gelu", [X], F.gelu, opset=20, tolerance=ROUNDED),
    case("Gelu", [X], partial(F.gelu, approximate="tanh"), opset=20, tolerance=ROUNDED, approximate="tanh"),
    case("Shrink", [X], partial(F.softshrink, lambd=0.5), lambd=0.5, bias=0.5),
    case("Shrink", [X], partial(F.hardshrink, lambd=0.5), lambd=0.5),
    case("PRelu", [normal(2, 3, 4), normal(3, 1)], lambda x, s: F.prelu(x, s.reshape(-1))),
    case("Identity", [X], lambda x: x.clone()),
    case("Cast", [X], lambda x: x.float(), to=onnx.TensorProto.FLOAT),
    case("CastLike", [X, normal(1)], lambda x, like: x.to(like.dtype)),
    case("Dropout", [X], lambda x: F.dropout(x, 0.5, training=False)),
]

# Several tensors, broadcast against each other.

A, B, C = normal(2, 1, 4), normal(3, 1), normal(2, 3, 4)
IS = np.array([[True], [False], [True]])
POSITIVE = between(0.5, 2, 3, 4)
BROADCAST: list[Case] = [
    case("Add", [A, B], torch.add),
    case("Sub", [A, B], torch.sub),
    case("Mul", [A, B], torch.mul),
    case("Div", [A, between(0.5, 2, 3, 1)], torch.div),
    case("Pow", [POSITIVE, normal(2, 1, 4)], torch.pow),
    case("Pow", [X, floats(3.0)], torch.pow, "cube", constant=[1]),
    case("Pow", [X, ints(2)], torch.pow, "of_integer"),
    case("Mod", [4 * A, between(0.5, 2, 3, 1)], torch.fmod, fmod=1),
    case("Sum", [A, B, C], lambda a, b, c: a + b + c),
    case("Mean", [C, A, B], lambda a, b, c: torch.stack(torch.broadcast_tensors(a, b, c)).mean(0)),
    case("Max", [A, B, C], lambda a, b, c: torch.maximum(torch.maximum(a, b), c)),
    case("Min", [A, B], torch.minimum),
    case("Where", [IS, A, B], torch.where),
    case("Clip", [2 * X, floats(-0.5).reshape(()), floats(0.75).reshape(())], torch.clamp),
]

# Products.

MATRICES: dict[str, tuple[Array, Array]] = {
    "matrices": (normal(3, 4), normal(4, 2)),
    "row": (normal(4), normal(2, 4, 3)),
    "column": (normal(2, 3, 4), normal(4)),
    "vectors": (normal(4), normal(4)),
    "batches": (normal(2, 1, 3, 4), normal(5, 4, 2)),
    "one_for_all": (normal(2, 5, 3, 4), normal(4, 2)),
}
PRODUCTS: list[Case] = [
    *(case("MatMul", [a, b], torch.matmul, note) for note, (a, b) in MATRICES.items()),
    case(
        "Gemm",
        [normal(3, 4), normal(4, 2), normal(2)],
        lambda a, b, c: torch.addmm(c, a, b, beta=0.5, alpha=1.5),
        alpha=1.5,
        beta=0.5,
    ),
    case(
        "Gemm",
        [normal(4, 3), normal(2, 4), normal(3, 1)],
        lambda a, b, c: a.mT @ b.mT + c,
        transA=1,
        transB=1,
    ),
    *(
        case("Einsum", inputs, partial(torch.einsum, equation), equation=equation)
        for equation, inputs in {
            "bij,bjk->bik": [normal(2, 3, 4), normal(2, 4, 5)],
            "ij->ji": [normal(3, 4)],
            "ii->i": [normal(3, 3)],
            "ii->": [normal(3, 3)],
            "i,j->ij": [normal(3), normal(4)],
            "...ij,j->...i": [normal(2, 3, 4), normal(4)],
            "ij,jk,kl->il": [normal(2, 3), normal(3, 4), normal(4, 2)],
            "bhqd,bhkd->bhqk": [normal(2, 2, 3, 4), normal(2, 2, 5, 4)],
            "ij,ij->": [normal(3, 4), normal(3, 4)],
        }.items()
    ),
]

# Convolutions and pools.

IMAGE = normal(2, 4, 7, 6)


def padded(function: Function, *pads: int, value: float = 0.0) -> Function:
    return lambda x, *rest: function(F.pad(x, pads, value=value), *rest)


CONVOLUTIONS: list[Case] = [
    case("Conv", [normal(2, 3, 9), normal(4, 3, 3), normal(4)], F.conv1d, "1d"),
    case(
        "Conv",
        [IMAGE, normal(6, 2, 3, 2), normal(6)],
        partial(F.conv2d, stride=(2, 1), padding=(1, 2), dilation=(1, 2), groups=2),
        strides=[2, 1],
        pads=[1, 2, 1, 2],
        dilations=[1, 2],
        group=2,
        dtypes=SINGLE,
    ),
    case("Conv", [IMAGE[:1], normal(4, 1, 3, 3)], partial(F.conv2d, groups=4), "depthwise", group=4),
    case("Conv", [IMAGE, normal(5, 4, 1, 1)], F.conv2d, "pointwise"),
    case(
        "Conv",
        [IMAGE, normal(2, 4, 2, 2)],
        padded(partial(F.conv2d, stride=2), 2, 0, 1, 0),
        "uneven",
        pads=[1, 2, 0, 0],
        strides=[2, 2],
    ),
    case("Conv", [IMAGE, normal(2, 4, 3, 3)], partial(F.conv2d, padding="same"), auto_pad="SAME_UPPER"),
    case("Conv", [normal(1, 2, 4, 5, 4), normal(3, 2, 2, 3, 2)], F.conv3d, "3d"),
    case("ConvTranspose", [normal(2, 3, 5), normal(3, 4, 3), normal(4)], F.conv_transpose1d, "1d"),
    case(
        "ConvTranspose",
        [normal(2, 4, 3, 4), normal(4, 3, 3, 2), normal(6)],
        partial(
            F.conv_transpose2d,
            stride=(2, 3),
            padding=(1, 0),
            output_padding=(1, 2),
            dilation=(1, 2),
            groups=2,
        ),
        strides=[2, 3],
        pads=[1, 0, 1, 0],
        output_padding=[1, 2],
        dilations=[1, 2],
        group=2,
        dtypes=SINGLE,
    ),
    case(
        "Col2Im",
        [normal(2, 18, 12), ints(5, 6), ints(2, 3)],
        lambda x, *_: F.fold(x, (5, 6), (2, 3), padding=(1, 0), stride=(2, 1)),
        constant=[1, 2],
        strides=[2, 1],
        pads=[1, 0, 1, 0],
    ),
    case("MaxPool", [IMAGE], partial(F.max_pool2d, kernel_size=2), kernel_shape=[2, 2], strides=[2, 2]),
    case(
        "MaxPool",
        [IMAGE],
        partial(F.max_pool2d, kernel_size=3, stride=(1, 2), padding=1, dilation=(2, 1), ceil_mode=True),
        kernel_shape=[3, 3],
        strides=[1, 2],
        pads=[1, 1, 1, 1],
        dilations=[2, 1],
        ceil_mode=1,
    ),
    case(
        "MaxPool", [normal(2, 3, 8)], partial(F.max_pool1d, kernel_size=3, stride=1), "1d", kernel_shape=[3]
    ),
    case(
        "AveragePool",
        [IMAGE],
        partial(F.avg_pool2d, kernel_size=3, stride=2, padding=1, count_include_pad=False),
        kernel_shape=[3, 3],
        strides=[2, 2],
        pads=[1, 1, 1, 1],
    ),
    case(
        "AveragePool",
        [IMAGE],
        partial(F.avg_pool2d, kernel_size=(3, 2), stride=(1, 2), padding=1),
        kernel_shape=[3, 2],
        strides=[1, 2],
        pads=[1, 1, 1, 1],
        count_include_pad=1,
    ),
    case(
        "LpPool",
        [IMAGE],
        partial(F.lp_pool2d, norm_type=2, kernel_size=2),
        kernel_shape=[2, 2],
        strides=[2, 2],
        p=2,
    ),
    case("GlobalAveragePool", [IMAGE], partial(F.adaptive_avg_pool2d, output_size=1)),
    case("GlobalMaxPool", [IMAGE], partial(F.adaptive_max_pool2d, output_size=1)),
    case(
        "GlobalLpPool",
        [IMAGE],
        lambda x: torch.linalg.vector_norm(x, 2, (2, 3), keepdim=True),
        p=2,
        dtypes=SINGLE,
    ),
]

# Normalisations, softmax and losses.

ROWS, LABELS = normal(4, 5), ints(1, 0, 4, 1)
MAPS, PIXELS = normal(2, 3, 4), RNG.integers(0, 3, (2, 4))
WEIGHTS = between(0.5, 2, 5)


def batch_norm_training(
    x: Tensor, scale: Tensor, bias: Tensor, mean: Tensor, var: Tensor
) -> tuple[Tensor, ...]:
    y = F.batch_norm(x, None, None, scale, bias, training=True, eps=EPSILON)
    own = x.mean((0, 2, 3)), x.var((0, 2, 3), correction=0)
    return y, *(0.75 * old + 0.25 * new for old, new in zip((mean, var), own, strict=True))


def layer_norm(x: Tensor, scale: Tensor, bias: Tensor) -> Tensor:
    return F.layer_norm(x, scale.shape, scale, bias, EPSILON)


def mean_variance(x: Tensor) -> Tensor:
    axes = (0, 2, 3)
    return (x - x.mean(axes, keepdim=True)) / (x.std(axes, correction=0, keepdim=True) + 1e-9)


def cross_entropy(
    scores: Tensor, labels: Tensor, weights: Tensor = None, **options: Any
) -> tuple[Tensor, Tensor]:
    return F.cross_entropy(scores, labels, weights, **options), F.log_softmax(scores, 1)


CHANNELS = [normal(4), normal(4)]
NORMS: list[Case] = [
    case("LayerNormalization", [C, normal(4), normal(4)], layer_norm, epsilon=EPSILON),
    case("LayerNormalization", [C, normal(3, 4), normal(3, 4)], layer_norm, axis=1, epsilon=EPSILON),
    case(
        "RMSNormalization",
        [C, normal(3, 4)],
        lambda x, s: F.rms_norm(x, s.shape, s, EPSILON),
        axis=-2,
        epsilon=EPSILON,
        opset=23,
    ),
    case(
        "InstanceNormalization",
        [IMAGE, *CHANNELS],
        lambda x, s, b: F.instance_norm(x, weight=s, bias=b, eps=EPSILON),
        epsilon=EPSILON,
    ),
    case(
        "GroupNormalization",
        [IMAGE, *CHANNELS],
        lambda x, s, b: F.group_norm(x, 2, s, b, EPSILON),
        num_groups=2,
        epsilon=EPSILON,
        stash_type=onnx.TensorProto.DOUBLE,
        opset=21,
    ),
    case(
        "BatchNormalization",
        [IMAGE, *CHANNELS, normal(4), between(0.5, 2, 4)],
        lambda x, s, b, mean, var: (
            (x - mean[:, None, None]) / (var[:, None, None] + EPSILON).sqrt() * s[:, None, None]
            + b[:, None, None]
        ),
        "all",
        epsilon=EPSILON,
    ),
    case(
        "BatchNormalization",
        [IMAGE, *CHANNELS, normal(4), between(0.5, 2, 4)],
        lambda x, s, b, mean, var: F.batch_norm(x, mean, var, s, b, eps=EPSILON),
        "given",
        constant=[3, 4],
        epsilon=EPSILON,
    ),
    case(
        "BatchNormalization",
        [IMAGE, *CHANNELS, normal(4), between(0.5, 2, 4)],
        batch_norm_training,
        outputs=3,
        training_mode=1,
        momentum=0.75,
        epsilon=EPSILON,
    ),
    case("MeanVarianceNormalization", [IMAGE], mean_variance, dtypes=SINGLE),
    case("LpNormalization", [C], partial(F.normalize, p=2, dim=1), axis=1, p=2),
    case("LpNormalization", [C], partial(F.normalize, p=1, dim=-1), axis=-1, p=1),
    case(
        "LRN",
        [normal(3, 3, 2, 2)],
        partial(F.local_response_norm, size=3, alpha=0.375, beta=0.75, k=1.5),
        size=3,
        alpha=0.375,
        beta=0.75,
        bias=1.5,
    ),
    *(case("Softmax", [C], partial(torch.softmax, dim=axis), axis=axis) for axis in (-1, 0, 1)),
    *(case("LogSoftmax", [C], partial(torch.log_softmax, dim=axis), axis=axis) for axis in (-1, 0, 1)),
    *(
        case(
            "SoftmaxCrossEntropyLoss",
            [ROWS, LABELS],
            partial(cross_entropy, reduction=way),
            outputs=2,
            reduction=way,
        )
        for way in ("mean", "sum", "none")
    ),
    *(
        case(
            "SoftmaxCrossEntropyLoss",
            [ROWS, LABELS, WEIGHTS],
            partial(cross_entropy, reduction=way, ignore_index=1),
            "weighted",
            outputs=2,
            constant=[2],
            reduction=way,
            ignore_index=1,
        )
        for way in ("mean", "sum", "none")
    ),
    case("SoftmaxCrossEntropyLoss", [MAPS, PIXELS], cross_entropy, "pixels", outputs=2),
    *(
        case("NegativeLogLikelihoodLoss", [MAPS, PIXELS], partial(F.nll_loss, reduction=way), reduction=way)
        for way in ("mean", "sum", "none")
    ),
    case(
        "NegativeLogLikelihoodLoss",
        [MAPS, PIXELS, between(0.5, 2, 3)],
        partial(F.nll_loss, ignore_index=2),
        constant=[2],
        ignore_index=2,
    ),
]

# Reductions.

ALONG: dict[str, Function] = {
    "ReduceSum": torch.sum,
    "ReduceMean": torch.mean,
    "ReduceMax": torch.amax,
    "ReduceMin": torch.amin,
    "ReduceL1": lambda x, axes, keepdim: torch.linalg.vector_norm(x, 1, axes, keepdim),
    "ReduceL2": lambda x, axes, keepdim: torch.linalg.vector_norm(x, 2, axes, keepdim),
    "ReduceLogSumExp": torch.logsumexp,
    "ReduceSumSquare": lambda x, axes, keepdim: torch.sum(x * x, axes, keepdim),
    "ReduceLogSum": lambda x, axes, keepdim: torch.log(torch.sum(x, axes, keepdim)),
    "ReduceProd": lambda x, axes, keepdim: _prod(x, axes, keepdim),
}


def _prod(x: Tensor, axes: Sequence[int], keepdim: bool) -> Tensor:
    for axis in sorted((axis % x.ndim for axis in axes), reverse=True):
        x = torch.prod(x, axis, keepdim)
    return x


def reduced(op_type: str, axes: Sequence[int], keepdims: int) -> Case:
    function = ALONG[op_type]
    return case(
        op_type,
        [between(0.5, 2, 2, 3, 4) * (1 if op_type == "ReduceLogSum" else np.sign(C)), ints(*axes)],
        lambda x, _: function(x, tuple(axes), bool(keepdims)),
        f"axes={_said(list(axes))}",
        constant=[1],
        keepdims=keepdims,
    )


def cumulated(op_type: str, function: Function, opset: int) -> list[Case]:
    def plain(x: Tensor, _: Tensor) -> Tensor:
        return function(x, 1)

    def backwards(x: Tensor, _: Tensor) -> Tensor:
        return function(x.flip(-1), -1).flip(-1)

    def before(x: Tensor, _: Tensor) -> Tensor:
        first = function(x[:, :0], 1), torch.full_like(x[:, :1], float(op_type == "CumProd"))
        return torch.cat([*first, function(x, 1)[:, :-1]], 1)

    return [
        case(op_type, [C, np.array(1)], plain, constant=[1], opset=opset),
        case(op_type, [C, np.array(-1)], backwards, constant=[1], opset=opset, reverse=1),
        case(op_type, [C, np.array(1)], before, constant=[1], opset=opset, exclusive=1),
    ]


def top_k(x: Tensor, _: Tensor, *, largest: bool) -> Tensor:
    return torch.topk(x, 2, dim=1, largest=largest).values


WITH_ZEROS = normal(2, 3, 4) * (np.arange(24).reshape(2, 3, 4) % 5 != 0)
REDUCTIONS: list[Case] = [
    *(reduced(op_type, axes, keep) for op_type in ALONG for axes, keep in (([1], 1), ([-1, 0], 0))),
    case("ReduceSum", [C], torch.sum, "all", keepdims=0),
    case(
        "ReduceProd", [WITH_ZEROS, ints(2)], lambda x, _: torch.prod(x, 2), "zeros", constant=[1], keepdims=0
    ),
    *cumulated("CumSum", torch.cumsum, 18),
    *cumulated("CumProd", torch.cumprod, 26),
    case(
        "CumProd",
        [WITH_ZEROS, np.array(2)],
        lambda x, _: torch.cumprod(x, 2),
        "zeros",
        constant=[1],
        opset=26,
    ),
    case("TopK", [C, ints(2)], partial(top_k, largest=True), outputs=2, constant=[1], axis=1),
    case("TopK", [C, ints(2)], partial(top_k, largest=False), outputs=2, constant=[1], axis=1, largest=0),
]

# Gathers and scatters.

TABLE = normal(5, 3)
ONTO = ints([0, 2, 0], [4, 2, 0])
PLACES = ints([0, 2], [4, 0], [0, 2], [-1, 0])
REDUCE = {"add": "sum", "mul": "prod", "max": "amax", "min": "amin"}


def scatter_elements(data: Tensor, at: Tensor, updates: Tensor, *, reduction: str) -> Tensor:
    return data.scatter_reduce(0, at, updates, REDUCE[reduction], include_self=True)


def scatter_nd(data: Tensor, at: Tensor, updates: Tensor, *, reduction: str) -> Tensor:
    """Scatter to the flat places of data, of rank 2."""
    at = torch.where(at < 0, at + torch.tensor(data.shape), at)
    rows = at[:, 0] * data.shape[1] + at[:, 1]
    flat = data.reshape(-1).scatter_reduce(0, rows, updates, REDUCE[reduction], include_self=True)
    return flat.reshape(data.shape)


def tensor_scatter(cache: Tensor, update: Tensor, starts: Tensor) -> Tensor:
    rows = starts[:, None] + torch.arange(update.shape[1])
    return cache.index_put((torch.arange(len(starts))[:, None], rows), update)


PLACED: list[Case] = [
    case("Gather", [TABLE, ONTO], lambda x, at: F.embedding(at, x)),
    case("Gather", [C, ints(1, 0, 1)], lambda x, at: x.index_select(1, at), axis=1),
    case("GatherElements", [TABLE, ONTO], lambda x, at: torch.gather(x, 0, at)),
    case("GatherElements", [TABLE, ints([2, 0], [1, 1])], lambda x, at: torch.gather(x, 1, at), axis=1),
    case("GatherND", [TABLE, PLACES], lambda x, at: x[at[:, 0], at[:, 1]]),
    case("GatherND", [C, ints([1], [0])], lambda x, at: x[torch.arange(2), at[:, 0]], batch_dims=1),
    case("ScatterElements", [TABLE, ints([0, 1, 2]), normal(1, 3)], lambda x, at, u: x.scatter(0, at, u)),
    *(
        case(
            "ScatterElements",
            [TABLE, ONTO, normal(2, 3)],
            partial(scatter_elements, reduction=way),
            reduction=way,
        )
        for way in REDUCE
    ),
    case("ScatterND", [TABLE, ints([3], [0]), normal(2, 3)], lambda x, at, u: x.index_put((at[:, 0],), u)),
    *(
        case("ScatterND", [TABLE, PLACES, normal(4)], partial(scatter_nd, reduction=way), reduction=way)
        for way in REDUCE
    ),
    case(
        "ScatterND",
        [TABLE, ints([3], [0], [3]), normal(3, 3)],
        lambda x, at, u: x.index_add(0, at[:, 0], u),
        "rows",
        reduction="add",
    ),
    case("TensorScatter", [normal(2, 5, 3), normal(2, 2, 3), ints(1, 3)], tensor_scatter, opset=24),
    case("Compress", [C, np.array([True, False, True])], lambda x, keep: x[:, keep], axis=1),
    case("OneHot", [ints(2, 0, 1), np.array(4), normal(2)], lambda i, _, v: v[F.one_hot(i, 4)], constant=[1]),
]

# Shapes.


def depth_to_space(x: Tensor) -> Tensor:
    n, c, h, w = x.shape
    return x.reshape(n, 2, 2, c // 4, h, w).permute(0, 3, 4, 1, 5, 2).reshape(n, c // 4, 2 * h, 2 * w)


def space_to_depth(x: Tensor) -> Tensor:
    n, c, h, w = x.shape
    return x.reshape(n, c, h // 2, 2, w // 2, 2).permute(0, 3, 5, 1, 2, 4).reshape(n, 4 * c, h // 2, w // 2)


def reverse_sequence(x: Tensor, lengths: Tensor) -> Tensor:
    parts = [torch.cat([x[:n, b].flip(0), x[n:, b]]) for b, n in enumerate(lengths.tolist())]
    return torch.stack(parts, 1)


PADS = ints(0, 1, 2, 1, 2, 0)
SHAPES: list[Case] = [
    case("Reshape", [C, ints(4, -1)], lambda x, _: x.reshape(4, -1), constant=[1]),
    case("Flatten", [C], lambda x: x.flatten(0, 1), axis=2),
    case("Squeeze", [A, ints(1)], lambda x, _: x.squeeze(1), constant=[1]),
    case("Unsqueeze", [B, ints(0, -1)], lambda x, _: x[None, ..., None], constant=[1]),
    case("Transpose", [C], lambda x: x.permute(2, 0, 1), perm=[2, 0, 1]),
    case("Expand", [A, ints(2, 3, 4)], lambda x, _: x.expand(2, 3, 4), constant=[1]),
    case("Tile", [C, ints(2, 1, 3)], lambda x, _: x.tile(2, 1, 3), constant=[1]),
    case("Concat", [normal(2, 3), normal(2, 1), normal(2, 2)], lambda *x: torch.cat(x, -1), axis=-1),
    case("Split", [C, ints(1, 3)], lambda x, _: torch.split(x, [1, 3], -1), outputs=2, constant=[1], axis=-1),
    case(
        "Slice",
        [normal(6, 5), ints(1, -1), ints(5, -5), ints(0, 1), ints(2, -2)],
        lambda x, *_: x[1:5:2].flip(1)[:, 0:4:2],
        constant=[1, 2, 3, 4],
    ),
    case("Slice", [C, ints(1), ints(3), ints(-1)], lambda x, *_: x[..., 1:3], constant=[1, 2, 3]),
    case("Pad", [C, PADS, floats(0.5).reshape(())], lambda x, _, v: _padded_with(x, v), constant=[1]),
    *(
        case(
            "Pad",
            [normal(1, 2, 4, 5), ints(0, 0, 1, 2, 0, 0, 3, 1)],
            partial(lambda x, _, mode: F.pad(x, (2, 1, 1, 3), mode=mode), mode=mode),
            constant=[1],
            opset=19,
            mode=name,
        )
        for name, mode in {"reflect": "reflect", "edge": "replicate", "wrap": "circular"}.items()
    ),
    case("Trilu", [normal(2, 4, 5), np.array(-1)], lambda x, _: torch.triu(x, -1), constant=[1]),
    case("Trilu", [normal(4, 4)], torch.tril, upper=0),
    case("ReverseSequence", [normal(4, 3, 2), ints(4, 1, 3)], reverse_sequence),
    case("SpaceToDepth", [normal(2, 3, 4, 6)], space_to_depth, blocksize=2),
    case("DepthToSpace", [normal(2, 8, 3, 2)], depth_to_space, blocksize=2),
    case(
        "DepthToSpace",
        [normal(2, 8, 3, 2)],
        partial(F.pixel_shuffle, upscale_factor=2),
        blocksize=2,
        mode="CRD",
    ),
    case(
        "Range",
        [floats(0.5).reshape(()), floats(2.25).reshape(()), floats(0.5).reshape(())],
        lambda start, _, delta: start + delta * torch.arange(4),
        constant=[1],
    ),
]


def _padded_with(x: Tensor, value: Tensor) -> Tensor:
    added = F.pad(torch.zeros_like(x), (2 * 0 + 2, 0, 1, 2, 0, 1), value=1.0)
    return F.pad(x, (2, 0, 1, 2, 0, 1)) + value * added


# Between positions.


def resized(
    mode: str, size: tuple[int, int], torch_mode: str, align: bool | None = None, **attributes: Any
) -> Case:
    antialias = bool(attributes.get("antialias", 0))
    return case(
        "Resize",
        [normal(1, 2, 4, 6), None, None, ints(1, 2, *size)],
        lambda x, *_: F.interpolate(x, size, mode=torch_mode, align_corners=align, antialias=antialias),
        f"{size[0]}x{size[1]}",
        constant=[3],
        mode=mode,
        **attributes,
    )


def grid_samples() -> list[Case]:
    found = []
    for mode, torch_mode in (("linear", "bilinear"), ("nearest", "nearest")):
        for padding in ("zeros", "border", "reflection"):
            for align in (0, 1):
                options = {"padding_mode": padding, "align_corners": bool(align)}
                attributes = {"mode": mode, "padding_mode": padding, "align_corners": align}
                function = partial(F.grid_sample, mode=torch_mode, **options)
                grid = between(-1.3, 1.3, 2, 3, 2, 2)
                found.append(case("GridSample", [normal(2, 2, 4, 5), grid], function, opset=20, **attributes))
    volume = normal(1, 2, 3, 3, 4), between(-1.2, 1.2, 1, 2, 2, 2, 3)
    function = partial(F.grid_sample, align_corners=False)
    return [*found, case("GridSample", volume, function, "3d", opset=20, mode="linear")]


BETWEEN: list[Case] = [
    resized("nearest", (8, 9), "nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor"),
    resized("nearest", (8, 12), "nearest-exact", nearest_mode="round_prefer_ceil"),
    resized("linear", (7, 9), "bilinear", False),
    resized("linear", (3, 4), "bilinear", False),
    resized("linear", (7, 9), "bilinear", True, coordinate_transformation_mode="align_corners"),
    resized("linear", (3, 3), "bilinear", False, antialias=1, exclude_outside=1),
    resized("cubic", (8, 12), "bicubic", False, cubic_coeff_a=-0.75),
    resized(
        "cubic", (2, 3), "bicubic", True, cubic_coeff_a=-0.75, coordinate_transformation_mode="align_corners"
    ),
    *grid_samples(),
]

# Recurrent operators.

GATES = {"LSTM": (0, 2, 3, 1), "GRU": (1, 0, 2), "RNN": (0,)}
"""Which of ONNX's gates are torch's, in the order of torch's."""


def in_torchs_order(op_type: str, rows: Tensor) -> Tensor:
    """Return weights, (gates * hidden, ...), with the gates in torch's order."""
    gates = rows.chunk(len(GATES[op_type]))
    return torch.cat([gates[at] for at in GATES[op_type]])


def recurrent(op_type: str, x: Tensor, w: Tensor, r: Tensor, b: Tensor, _: None, *states: Tensor) -> Any:
    directions, hidden = w.shape[0], r.shape[-1]
    module = getattr(torch.nn, op_type)(x.shape[-1], hidden, bidirectional=directions == 2, dtype=x.dtype)
    weights = {}
    for at, way in enumerate(("", "_reverse")[:directions]):
        parts = {"weight_ih": w[at], "weight_hh": r[at]} | dict(
            zip(("bias_ih", "bias_hh"), b[at].chunk(2), strict=True)
        )
        weights |= {f"{name}_l0{way}": in_torchs_order(op_type, part) for name, part in parts.items()}
    start = states if op_type == "LSTM" else states[0]
    y, ends = torch.func.functional_call(module, weights, (x, start))
    y = y.reshape(*y.shape[:2], directions, hidden).permute(0, 2, 1, 3)
    return (y, *ends) if op_type == "LSTM" else (y, ends)


def gru_that_resets_before(
    x: Tensor, w: Tensor, r: Tensor, b: Tensor, _: None, h: Tensor
) -> tuple[Tensor, Tensor]:
    """Torch's own GRU resets what comes out of the recurrent weights; ONNX's default is what goes in."""
    hidden, state, steps = r.shape[-1], h[0], []
    for given in x @ w[0].mT + b[0].chunk(2)[0]:
        z, reset = torch.sigmoid(
            given[:, : 2 * hidden] + state @ r[0][: 2 * hidden].mT + b[0].chunk(2)[1][: 2 * hidden]
        ).chunk(2, -1)
        new = (
            given[:, 2 * hidden :] + (reset * state) @ r[0][2 * hidden :].mT + b[0].chunk(2)[1][2 * hidden :]
        )
        state = (1 - z) * torch.tanh(new) + z * state
        steps.append(state)
    return torch.stack(steps)[:, None], state[None]


def recurrent_inputs(op_type: str, directions: int) -> list[Array | None]:
    rows = len(GATES[op_type]) * 3
    states = [normal(directions, 2, 3) for _ in range(2 if op_type == "LSTM" else 1)]
    weights = normal(directions, rows, 5), normal(directions, rows, 3), normal(directions, 2 * rows)
    return [normal(4, 2, 5), *weights, None, *states]


RECURRENT: list[Case] = [
    *(
        case(
            op_type,
            recurrent_inputs(op_type, directions),
            partial(recurrent, op_type),
            outputs=3 if op_type == "LSTM" else 2,
            hidden_size=3,
            direction="bidirectional" if directions == 2 else "forward",
            **({"linear_before_reset": 1} if op_type == "GRU" else {}),
        )
        for op_type in GATES
        for directions in (1, 2)
    ),
    case("GRU", recurrent_inputs("GRU", 1), gru_that_resets_before, outputs=2, hidden_size=3),
]

CASES = [
    *UNARY, *BROADCAST, *PRODUCTS, *CONVOLUTIONS, *NORMS, *REDUCTIONS, *PLACED, *SHAPES, *BETWEEN, *RECURRENT,
]  # fmt: skip


def tensors_of(one: Case, dtype: str) -> dict[int, Tensor]:
    """Return the inputs by position; those that are floating and not constant are differentiated."""
    found = {}
    for at, array in enumerate(one.inputs):
        if array is not None:
            is_floating = array.dtype.kind == "f"
            tensor = torch.tensor(array.astype(dtype) if is_floating else array)
            found[at] = tensor.requires_grad_(is_floating and at not in one.constant)
    return found


def random_like(tensors: Sequence[Tensor], seed: int) -> list[Tensor]:
    rng = np.random.default_rng(seed)
    return [torch.tensor(rng.standard_normal(tensor.shape)).to(tensor.dtype) for tensor in tensors]


def close(found: Mapping[str, Array], expected: Mapping[str, Array], tolerance: float, what: str) -> None:
    assert list(found) == list(expected)
    for name, array in expected.items():
        assert (found[name].shape, found[name].dtype) == (array.shape, array.dtype), f"{what} of {name}"
        scale = max(1.0, float(np.abs(array).max(initial=0)))
        np.testing.assert_allclose(
            found[name], array, rtol=tolerance, atol=tolerance * scale, err_msg=f"{what} of {name}"
        )


def slopes(
    outputs: Sequence[Tensor], inputs: Sequence[Tensor], coming: Sequence[Tensor], **options: Any
) -> Any:
    return torch.autograd.grad(outputs, inputs, coming, allow_unused=True, materialize_grads=True, **options)


def torch_side(one: Case, dtype: str) -> tuple[Any, ...]:
    tensors = tensors_of(one, dtype)
    found = one.function(*(tensors.get(at) for at in range(len(one.inputs))))
    outputs = list(found) if isinstance(found, (tuple, list)) else [found]
    return tensors, outputs


def arrays(names: Sequence[str], tensors: Sequence[Tensor]) -> dict[str, Array]:
    return {name: tensor.numpy(force=True) for name, tensor in zip(names, tensors, strict=True)}


def model_of(one: Case, dtype: str) -> tuple[Model, dict[str, Array]]:
    inputs = [a if a is None or a.dtype.kind != "f" else a.astype(dtype) for a in one.inputs]
    return node_model(
        one.op_type, inputs, one.attributes, outputs=one.outputs, constant=one.constant, opset=one.opset
    )


def coming_of(model: Model) -> dict[str, str | None]:
    """Return the input for the gradient of each output; None where that is 1."""
    said: dict[str, str | None] = model.graphs[0].metadata["gradient"]["of"]
    return said


def check(one: Case, dtype: str, *, twice: bool = False) -> None:
    tolerance = one.tolerance if dtype == "float64" else 5e-5
    tensors, outputs = torch_side(one, dtype)
    names = [f"y{at}" for at in range(len(outputs))]
    free = {f"x{at}": tensor for at, tensor in tensors.items() if tensor.requires_grad}
    model, feed = model_of(one, dtype)
    backward = grad(model, of=names, wrt=list(free))
    ports = coming_of(backward)
    coming = {
        name: torch.ones_like(tensor) if ports[name] is None else part
        for name, tensor, part in zip(names, outputs, random_like(outputs, 1), strict=True)
    }
    feed = feed | {port: coming[name].numpy() for name, port in ports.items() if port is not None}
    seeds = [coming[name].requires_grad_(ports[name] is not None) for name in names]
    expected = slopes(outputs, list(free.values()), seeds, create_graph=twice)
    results = run(backward, feed)
    close({name: results[name] for name in names}, arrays(names, outputs), tolerance, "output")
    wrt = backward.graphs[0].metadata["gradient"]["wrt"]
    close({name: results[wrt[name]] for name in free}, arrays(list(free), expected), tolerance, "gradient")
    if not twice:
        return
    sources = free | {str(ports[name]): tensor for name, tensor in coming.items() if ports[name] is not None}
    second = grad(backward, of=[wrt[name] for name in free], wrt=list(sources))
    said = second.graphs[0].metadata["gradient"]
    again = dict(zip(free, random_like(expected, 2), strict=True))
    for name, tensor in free.items():
        if said["of"][wrt[name]] is None:
            again[name] = torch.ones_like(tensor)
    feed = feed | {said["of"][wrt[n]]: t.numpy() for n, t in again.items() if said["of"][wrt[n]] is not None}
    used = [(e, again[name]) for name, e in zip(free, expected, strict=True) if e.requires_grad]
    expected = slopes([e for e, _ in used], list(sources.values()), [a for _, a in used])
    results = run(second, feed)
    found = {name: results[said["wrt"][name]] for name in sources}
    close(found, arrays(list(sources), expected), tolerance, "second derivative")


@pytest.mark.parametrize(
    ("one", "dtype"), [pytest.param(c, t, id=f"{c}-{t}") for c in CASES for t in c.dtypes]
)
def test_rules(one: Case, dtype: str) -> None:
    check(one, dtype)


TWICE = (
    "Asin", "AveragePool", "BatchNormalization", "Clip", "Conv", "ConvTranspose", "CumProd", "Div", "Einsum",
    "Elu", "Erf", "Exp", "GRU", "Gather", "GatherElements", "Gelu", "Gemm", "GridSample",
    "InstanceNormalization", "LRN", "LSTM", "LayerNormalization", "LogSoftmax", "LpNormalization", "LpPool",
    "MatMul", "Max", "MaxPool", "Mish", "Mul", "PRelu", "Pad", "Pow", "RMSNormalization", "ReduceL2",
    "ReduceLogSumExp", "ReduceMax", "ReduceProd", "ReduceSumSquare", "Relu", "Resize", "ScatterElements",
    "ScatterND", "Sigmoid", "Slice", "Softmax", "SoftmaxCrossEntropyLoss", "Sqrt", "Tanh", "TopK", "Where",
)  # fmt: skip
"""Operators of which second derivatives are compared, one case of each, and all scatters."""


def cases_twice() -> list[Case]:
    first = {one.op_type: one for one in reversed(CASES)}
    return [
        one
        for one in CASES
        if one.op_type in TWICE and (one is first[one.op_type] or one.op_type.startswith("Scatter"))
    ]


@pytest.mark.parametrize("one", cases_twice(), ids=str)
def test_second_derivatives(one: Case) -> None:
    check(one, one.dtypes[0], twice=True)


def test_every_rule_is_compared() -> None:
    compared = {one.op_type for one in CASES}
    ruled = {op_type for domain, op_type in RULES if domain == ""}
    # Those with bodies are compared below.
    assert ruled - compared == {"If", "Loop", "Scan"}


# What may be chosen: slopes at kinks, and who of those that tie gets what.


ZERO, ONE = floats(0.0), floats(1.0)
NAN = float("nan")


@dataclass(frozen=True)
class Choice:
    """Gradients that are a matter of convention; torch's are the same where no others are given."""

    op_type: str
    inputs: Sequence[Array]
    function: Function
    ours: Sequence[Any]
    torchs: Sequence[Any] | None = None
    attributes: Mapping[str, Any] | None = None
    note: str = ""


def three_way(a: Tensor, b: Tensor, c: Tensor) -> Tensor:
    return torch.maximum(torch.maximum(a, b), c)


CHOICES = [
    Choice("Abs", [ZERO], torch.abs, [[0]]),
    Choice("Relu", [ZERO], torch.relu, [[0]]),
    Choice(
        "LeakyRelu",
        [ZERO],
        partial(F.leaky_relu, negative_slope=0.125),
        [[0.125]],
        attributes={"alpha": 0.125},
    ),
    Choice("PRelu", [ZERO, floats(0.25)], F.prelu, [[0.25], [0]]),
    Choice("Elu", [ZERO], partial(F.elu, alpha=1.5), [[1.5]], attributes={"alpha": 1.5}),
    Choice("Celu", [ZERO], partial(F.celu, alpha=1.5), [[1]], attributes={"alpha": 1.5}),
    Choice(
        "Selu", [ZERO], lambda x: 1.25 * F.elu(x, 1.5), [[1.875]], attributes={"alpha": 1.5, "gamma": 1.25}
    ),
    Choice("ThresholdedRelu", [ONE], lambda x: F.threshold(x, 1.0, 0.0), [[0]]),
    Choice("HardSwish", [floats(-3, 3)], F.hardswish, [[0, 1]]),
    Choice("Shrink", [floats(-0.5, 0.5)], F.hardshrink, [[0, 0]]),
    Choice("Softsign", [ZERO], F.softsign, [[1]]),
    Choice("Max", [ONE, ONE], torch.maximum, [[0.5], [0.5]]),
    Choice("Min", [ONE, ONE], torch.minimum, [[0.5], [0.5]]),
    Choice("Max", [ONE, ONE, ONE], lambda *x: torch.stack(x).amax(0), [[1 / 3]] * 3, note="amax"),
    Choice("Max", [ONE, ONE, ONE], three_way, [[1 / 3]] * 3, [[0.25], [0.25], [0.5]], note="maximum"),
    Choice("ReduceMax", [floats(2, 1, 2)], partial(torch.amax, dim=0, keepdim=True), [[0.5, 0, 0.5]]),
    Choice(
        "ReduceMax", [floats(2, 1, 2)], torch.max, [[0.5, 0, 0.5]], attributes={"keepdims": 0}, note="max"
    ),
    Choice("ReduceL1", [floats(0, 2)], lambda x: torch.linalg.vector_norm(x, 1, 0, True), [[0, 1]]),
    Choice("ReduceL2", [floats(0, 0)], lambda x: torch.linalg.vector_norm(x, 2, 0, True), [[0, 0]]),
    Choice("ReduceProd", [floats(0, 3, 0)], lambda x: torch.prod(x, 0, True), [[0, 0, 0]]),
    Choice("Pow", [floats(0, 0, 2), floats(0, 2, 0)], torch.pow, [[0, 0, 0], [0, 0, np.log(2)]]),
    Choice("Sqrt", [ZERO], torch.sqrt, [[np.inf]]),
    Choice(
        "MaxPool",
        [floats(2, 2, 1, 3, 3)[None, None]],
        lambda x: F.max_pool1d(x, 2, 1),
        [[[[1, 1, 0, 2, 0]]]],
        attributes={"kernel_shape": [2]},
    ),
    Choice(
        "GlobalMaxPool",
        [floats(2, 2)[None, None]],
        partial(F.adaptive_max_pool1d, output_size=1),
        [[[[1, 0]]]],
    ),
    Choice("Mod", [floats(-3), floats(2)], torch.fmod, [[1], [1]], attributes={"fmod": 1}),
]


@pytest.mark.parametrize("choice", CHOICES, ids=lambda c: c.op_type + c.note)
def test_conventions(choice: Choice) -> None:
    model, feed = node_model(choice.op_type, choice.inputs, choice.attributes)
    free = list(feed)
    backward = grad(model, wrt=free)
    tensors = [torch.tensor(array, requires_grad=True) for array in choice.inputs]
    output = choice.function(*tensors)
    port = coming_of(backward)["y0"]
    if port is not None:
        feed = feed | {port: np.ones(output.shape)}
    results = run(backward, feed)
    for name, array in zip(free, choice.ours, strict=True):
        np.testing.assert_allclose(results[f"{name}_grad"], array, rtol=1e-6, err_msg=name)
    expected = slopes([output], tensors, [torch.ones_like(output)])
    for tensor, array in zip(expected, choice.torchs or choice.ours, strict=True):
        np.testing.assert_allclose(tensor.numpy(), array, rtol=1e-6)


def test_clip_at_its_bounds() -> None:
    """There any slope from 0 to 1 is right; torch's differs between versions and with tensors as bounds."""
    model, feed = node_model("Clip", [floats(-1, 0, 1), floats(-1).reshape(()), floats(1).reshape(())])
    results = run(grad(model), feed | {"y0_grad": np.ones(3)})
    np.testing.assert_array_equal(results["x0_grad"], [1, 1, 1])
    x = torch.tensor([-1.0, 0, 1], requires_grad=True)
    (slope,) = slopes([x.clamp(-1, 1)], [x], [torch.ones(3)])
    assert slope[1] == 1
    assert ((slope >= 0) & (slope <= 1)).all()


def test_dropout_in_training() -> None:
    model, feed = node_model("Dropout", [X, np.array(0.25), np.array(True)], outputs=2, constant=[1, 2])
    coming = normal(3, 4)
    results = run(grad(model, of="y0"), feed | {"y0_grad": coming})
    x = torch.tensor(X, requires_grad=True)
    (expected,) = slopes([x * torch.tensor(results["y1"]) / 0.75], [x], [torch.tensor(coming)])
    np.testing.assert_allclose(results["x0_grad"], expected, rtol=1e-12)


# Operators with bodies.


def through_if(c: Tensor, a: Tensor, b: Tensor) -> Tensor:
    return torch.exp(a * b) if c else torch.tanh(a)


def through_loop(h: Tensor, w: Tensor) -> Tensor:
    for _ in range(4):
        h = torch.tanh(h * w)
    return h


def through_scan(h: Tensor, xs: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
    ys = []
    for x in xs:
        h = torch.tanh(h * w + x)
        ys.append(h * x)
    return h, torch.stack(ys)


IF = """g (bool c, double[3] a, double[3] b) => (double[3] y) {
    y = If (c) <
        then_branch = yes () => (p) { u = Mul(a, b) p = Exp(u) },
        else_branch = no () => (q) { q = Tanh(a) }
    >
}"""
LOOP = """g (double[3] h0, double[3] w) => (double[3] h) {
    n = Constant <value = int64 {4}> ()
    h = Loop <body = turn (int64 i, bool going, hp) => (on, hn) {
        on = Identity(going)
        a = Mul(hp, w)
        hn = Tanh(a)
    }> (n, , h0)
}"""
SCAN = """g (double[2, 3] h0, double[4, 2, 3] xs, double[3] w) => (double[2, 3] h, double[4, 2, 3] ys) {
    h, ys = Scan <num_scan_inputs = 1, body = cell (hp, x) => (hn, y) {
        a = Mul(hp, w)
        s = Add(a, x)
        hn = Tanh(s)
        y = Mul(hn, x)
    }> (h0, xs)
}"""


@pytest.mark.parametrize(
    ("text", "feed", "function"),
    [
        (IF, {"c": np.array(True), "a": normal(3), "b": normal(3)}, through_if),
        (IF, {"c": np.array(False), "a": normal(3), "b": normal(3)}, through_if),
        (LOOP, {"h0": normal(3), "w": normal(3)}, through_loop),
        (SCAN, {"h0": normal(2, 3), "xs": normal(4, 2, 3), "w": normal(3)}, through_scan),
    ],
    ids=["If-then", "If-else", "Loop", "Scan"],
)
def test_bodies(text: str, feed: dict[str, Array], function: Function) -> None:
    backward = grad(parsed(text))
    tensors = {name: torch.tensor(array) for name, array in feed.items()}
    free = {name: t.requires_grad_() for name, t in tensors.items() if t.is_floating_point()}
    found = function(*tensors.values())
    outputs = found if isinstance(found, tuple) else (found,)
    coming = random_like(outputs, 3)
    expected = slopes(outputs, list(free.values()), coming)
    ports = coming_of(backward).values()
    results = run(backward, feed | {str(port): t.numpy() for port, t in zip(ports, coming, strict=True)})
    close({name: results[f"{name}_grad"] for name in free}, arrays(list(free), expected), 1e-10, "gradient")


# Whole models, written twice, and trained.


def parsed(text: str, opset: int = 18, initializers: Mapping[str, Array] | None = None) -> Model:
    proto = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["": {opset}]> {text}')
    kept = initializers or {}
    proto.graph.initializer.extend(onnx.numpy_helper.from_array(array, name) for name, array in kept.items())
    return from_onnx(proto)


class Perceptron(torch.nn.Module):
    """Two layers, with a normalisation between them, and cross entropy."""

    TEXT = """g (KIND[8, 5] x, int64[8] labels) => (KIND loss) {
        h = Gemm <transB = 1> (x, first_weight, first_bias)
        n = LayerNormalization <epsilon = 0.0009765625> (h, norm_weight, norm_bias)
        a = Gelu (n)
        scores = Gemm <transB = 1> (a, last_weight, last_bias)
        loss = SoftmaxCrossEntropyLoss (scores, labels)
    }"""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = torch.nn.Linear(5, 7), torch.nn.Linear(7, 3)
        self.norm = torch.nn.LayerNorm(7, eps=EPSILON)

    def forward(self, x: Tensor, labels: Tensor) -> Tensor:
        return F.cross_entropy(self.last(F.gelu(self.norm(self.first(x)))), labels)

    @staticmethod
    def batch() -> dict[str, Array]:
        return {"x": normal(8, 5), "labels": RNG.integers(0, 3, 8)}


class Images(torch.nn.Module):
    """Convolutions, batch normalisation by the batch's own statistics, and pools."""

    TEXT = """g (KIND[4, 2, 8, 8] x, int64[4] labels) => (KIND loss, KIND[3] later_mean, KIND[3] later_var) {
        h = Conv <pads = [1, 1, 1, 1]> (x, first_weight)
        n, later_mean, later_var = BatchNormalization <training_mode = 1, epsilon = 0.0009765625> (
            h, norm_weight, norm_bias, mean, var)
        a = Relu (n)
        p = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (a)
        c = Conv <strides = [2, 2]> (p, second_weight, second_bias)
        f = Flatten (c)
        scores = Gemm <transB = 1> (f, last_weight, last_bias)
        loss = SoftmaxCrossEntropyLoss (scores, labels)
    }"""

    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Conv2d(2, 3, 3, padding=1, bias=False)
        self.norm = torch.nn.BatchNorm2d(3, eps=EPSILON, track_running_stats=False)
        self.second, self.last = torch.nn.Conv2d(3, 4, 2, stride=2), torch.nn.Linear(16, 3)

    def forward(self, x: Tensor, labels: Tensor) -> Tensor:
        pooled = F.max_pool2d(torch.relu(self.norm(self.first(x))), 2)
        return F.cross_entropy(self.last(self.second(pooled).flatten(1)), labels)

    @staticmethod
    def batch() -> dict[str, Array]:
        return {"x": normal(4, 2, 8, 8), "labels": RNG.integers(0, 3, 4)}


class Messages(torch.nn.Module):
    """Nodes of a graph get the sum and the maximum of what others send."""

    TEXT = """g (KIND[6, 4] x, int64[9] sources, int64[9] ends, KIND[6, 2] target) => (KIND loss) {
        sent = Gemm <transB = 1> (x, send_weight, send_bias)
        along = Gather (sent, sources)
        last = Constant <value = int64[1] {1}> ()
        rows = Unsqueeze (ends, last)
        shape = Shape (along)
        places = Expand (rows, shape)
        zero = Sub (sent, sent)
        sums = ScatterND <reduction = "add"> (zero, rows, along)
        largest = ScatterElements <axis = 0, reduction = "max"> (sent, places, along)
        both = Concat <axis = 1> (sums, largest)
        active = Tanh (both)
        y = Gemm <transB = 1> (active, read_weight, read_bias)
        error = Sub (y, target)
        squares = Mul (error, error)
        loss = ReduceMean <keepdims = 0> (squares)
    }"""

    def __init__(self) -> None:
        super().__init__()
        self.send, self.read = torch.nn.Linear(4, 3), torch.nn.Linear(6, 2)

    def forward(self, x: Tensor, sources: Tensor, ends: Tensor, target: Tensor) -> Tensor:
        sent = self.send(x)
        along = sent[sources]
        sums = torch.zeros_like(sent).index_add(0, ends, along)
        rows = ends[:, None].expand_as(along)
        largest = sent.scatter_reduce(0, rows, along, "amax", include_self=True)
        return F.mse_loss(self.read(torch.tanh(torch.cat([sums, largest], 1))), target)

    @staticmethod
    def batch() -> dict[str, Array]:
        edges = {"sources": RNG.integers(0, 6, 9), "ends": RNG.integers(0, 6, 9)}
        return {"x": normal(6, 4), **edges, "target": normal(6, 2)}


class Sequences(torch.nn.Module):
    """The last state of an LSTM tells the class."""

    TEXT = """g (KIND[5, 4, 3] x, int64[4] labels) => (KIND loss) {
        y, h, c = LSTM <hidden_size = 6> (x, W, R, B)
        first = Constant <value = int64[1] {0}> ()
        state = Squeeze (h, first)
        scores = Gemm <transB = 1> (state, last_weight, last_bias)
        loss = SoftmaxCrossEntropyLoss (scores, labels)
    }"""

    def __init__(self) -> None:
        super().__init__()
        self.lstm, self.last = torch.nn.LSTM(3, 6), torch.nn.Linear(6, 3)

    def forward(self, x: Tensor, labels: Tensor) -> Tensor:
        _, (state, _) = self.lstm(x)
        return F.cross_entropy(self.last(state[0]), labels)

    @staticmethod
    def batch() -> dict[str, Array]:
        return {"x": normal(5, 4, 3), "labels": RNG.integers(0, 3, 4)}


def in_onnxs_order(rows: Array) -> Array:
    """Return rows of an LSTM with the gates i, f, c, o in ONNX's order i, o, f, c."""
    gates = np.split(rows, 4)
    return np.concatenate([gates[at] for at in (0, 3, 1, 2)])


def as_in_onnx(module: Any, *, gradients: bool = False) -> dict[str, Array]:
    """Return parameters of a module, or their gradients, under the names and in the order of its TEXT."""
    found = {
        name.replace(".", "_"): (p.grad if gradients else p).numpy(force=True).copy()
        for name, p in module.named_parameters()
    }
    if isinstance(module, Sequences):
        own = {name: in_onnxs_order(found.pop(f"lstm_{name}_l0")) for name in LSTM_PARTS}
        found |= {"W": own["weight_ih"][None], "R": own["weight_hh"][None]}
        found["B"] = np.concatenate([own["bias_ih"], own["bias_hh"]])[None]
    return found


LSTM_PARTS = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")


def twins(kind: type, dtype: str) -> tuple[Any, Model, list[str]]:
    """Return a torch module, the same model of ours, and the names of its parameters."""
    torch.manual_seed(0)
    module = kind().to(getattr(torch, dtype))
    parameters = as_in_onnx(module)
    given = {"mean": np.zeros(3, dtype), "var": np.ones(3, dtype)} if kind is Images else {}
    text = module.TEXT.replace("KIND", {"float64": "double", "float32": "float"}[dtype])
    return module, parsed(text, 20, parameters | given), list(parameters)


def batches(kind: Any, dtype: str, count: int) -> list[dict[str, Array]]:
    return [
        {name: a.astype(dtype) if a.dtype.kind == "f" else a for name, a in kind.batch().items()}
        for _ in range(count)
    ]


def loss_of(module: Any, batch: Mapping[str, Array]) -> Tensor:
    return module(**{name: torch.tensor(array) for name, array in batch.items()})


MODELS = pytest.mark.parametrize("kind", [Perceptron, Images, Messages, Sequences])


@MODELS
@pytest.mark.parametrize(("dtype", "tolerance"), [("float64", 1e-7), ("float32", 1e-5)])
def test_gradients_of_parameters(kind: Any, dtype: str, tolerance: float) -> None:
    module, model, names = twins(kind, dtype)
    (batch,) = batches(kind, dtype, 1)
    loss = loss_of(module, batch)
    loss.backward()
    results = run(grad(model, of="loss", wrt=names), batch)
    np.testing.assert_allclose(results["loss"], loss.item(), rtol=tolerance)
    found = {name: results[f"{name}_grad"] for name in names}
    close(found, as_in_onnx(module, gradients=True), tolerance, "gradient")


@MODELS
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize(
    ("optimizer", "rate", "torchs"),
    [("sgd", 0.1, torch.optim.SGD), ("adam", 0.01, partial(torch.optim.Adam, eps=1e-8))],
    ids=["sgd", "adam"],
)
def test_five_steps(kind: Any, dtype: str, optimizer: str, rate: float, torchs: Any) -> None:
    module, model, names = twins(kind, dtype)
    data = batches(kind, dtype, 3)
    trained = fit(
        model, data, loss="loss", optimizer=optimizer, learning_rate=rate, wrt=names, steps=5, progress=False
    )
    steps = torchs(module.parameters(), lr=rate)
    losses = []
    for at in range(5):
        loss = loss_of(module, data[at % 3])
        steps.zero_grad()
        loss.backward()
        steps.step()
        losses.append(loss.item())
    np.testing.assert_allclose(trained.losses, losses, rtol=1e-5)
    np.testing.assert_allclose(trained.loss, loss_of(module, data[2]).item(), rtol=1e-5)
    places = parameters_of(model)
    for name, array in as_in_onnx(module).items():
        found = places[name][0][1].value
        assert found.dtype == array.dtype
        np.testing.assert_allclose(found, array, rtol=1e-5, atol=1e-5, err_msg=name)


def test_statistics_of_the_batch_behind_a_convolution_that_is_constant() -> None:
    text = """g (double[2, 1, 4, 4] x) => (double[2, 1, 2, 2] y) {
        h = Conv (x, w)
        y, later_mean, later_var = BatchNormalization <training_mode = 1, epsilon = 0.0009765625> (
            h, one, zero, zero, one)
    }"""
    kept = {"w": normal(1, 1, 3, 3), "one": np.ones(1), "zero": np.zeros(1)}
    x = normal(2, 1, 4, 4)
    h = F.conv2d(torch.tensor(x), torch.tensor(kept["w"]))
    expected = F.batch_norm(h, None, None, training=True, eps=EPSILON)
    np.testing.assert_allclose(run(parsed(text, initializers=kept), {"x": x})["y"], expected, rtol=1e-9)
