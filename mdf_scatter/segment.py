"""A stretch of a graph that runs in onnxruntime, or in ONNX's reference evaluator."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir

from mdf_scatter.buffers import Values
from mdf_scatter.errors import EvaluationError, MdfScatterError, OperatorError

_Way = Callable[[dict[str, Any]], Sequence[Any]]

DISABLED = "mdf_scatter.disabled"
"""Key of a stretch's metadata that names an optimization of onnxruntime which would make it wrong."""

_WITHOUT_NUMPY = ("bfloat16", "float8", "float4", "float6", "int4", "int2", "optional", "complex")
"""What stands in the names of types that onnxruntime's Python interface does not take or give as they are."""


class Segment:
    """A stretch of operators that runs as one model.

    Args:
        model: The stretch; its inputs and outputs are what crosses its edge.
        by_reference: Whether ONNX's reference evaluator comes first, with our operators in it. Where that
            cannot run the stretch, onnxruntime does, on one thread, so that no two updates race.
    """

    overwritable = None

    def __init__(self, model: onnx.ModelProto, *, by_reference: bool = False) -> None:
        self.reads = tuple(value.name for value in model.graph.input)
        self.writes = tuple(value.name for value in model.graph.output)
        self._kinds = [value.type for value in model.graph.output]
        self._gives_tensors = all(kind.HasField("tensor_type") for kind in self._kinds)
        self._model = model
        self._by_reference = by_reference
        self._session: Any = None
        self._evaluator: Any = None
        self._is_open = False
        if is_typed(model) and not by_reference:
            self._open(model)

    @property
    def operators(self) -> list[str]:
        """The operators in it, by name."""
        return sorted({node.op_type for node in self._model.graph.node})

    @property
    def is_fast(self) -> bool:
        """Whether onnxruntime runs it; where types are not known yet, that shows with the first values."""
        return self._session is not None or not self._is_open

    def run(self, values: Values) -> None:
        """Compute the stretch's outputs from the values that are there, and add them.

        Raises:
            OperatorError: One of our operators inside it cannot work on what reaches it.
            EvaluationError: Another operator fails.
        """
        feed = {name: values[name] for name in self.reads}
        if not self._is_open and not self._by_reference:
            self._open(_typed(self._model, feed))
        ways = [self._in_onnxruntime] if self._session is not None else []
        ways.insert(0 if self._by_reference else len(ways), self._in_evaluator)
        results, way = self._first(ways, feed)
        results = [_plain(_opened(result, kind)) for result, kind in zip(results, self._kinds, strict=True)]
        values.update(zip(self.writes, results, strict=True))
        if way == self._in_onnxruntime and self._gives_tensors:
            # It writes each tensor that it gives into memory of its own.
            values.own(self.writes)
        else:
            values.share(self.reads)

    def _first(self, ways: Sequence[_Way], feed: dict[str, Any]) -> tuple[Sequence[Any], _Way]:
        """Return the results of the first way that works, and which one that is.

        Each engine lacks something that ONNX defines and the other has; what is wrong fails in both.
        """
        failure: Exception | None = None
        for way in ways:
            try:
                return way(feed), way
            except OperatorError:
                raise
            except Exception as error:  # onnxruntime and the reference evaluator raise what they please
                is_ours = isinstance(error, MdfScatterError)
                failure = error if is_ours or failure is None else failure
                if self._by_reference and not self._is_open:
                    self._open(_typed(self._model, feed), threads=1)
                    if self._session is not None:
                        return self._first([self._in_onnxruntime], feed)
        reason = (str(failure).strip() or type(failure).__name__).splitlines()[-1]
        raise EvaluationError(f"operators {', '.join(self.operators)}: {reason}") from failure

    def _open(self, model: onnx.ModelProto, threads: int = 0) -> None:
        self._is_open = True
        self._session = session_of(model, threads) if is_typed(model) else None

    def _in_onnxruntime(self, feed: dict[str, Any]) -> Sequence[Any]:
        contiguous = {
            name: np.ascontiguousarray(value) if _has_gaps(value) else value for name, value in feed.items()
        }
        return list(self._session.run(self.writes, contiguous))

    def _in_evaluator(self, feed: dict[str, Any]) -> Sequence[Any]:
        if self._evaluator is None:
            from onnx.reference import ReferenceEvaluator

            from mdf_scatter.onnx_plugin import NEW_OPS

            self._evaluator = ReferenceEvaluator(self._model, new_ops=NEW_OPS)
        return list(self._evaluator.run(list(self.writes), feed))


def _has_gaps(value: Any) -> bool:
    return isinstance(value, np.ndarray) and not value.flags.c_contiguous


def is_typed(model: onnx.ModelProto) -> bool:
    """Tell whether the type of every input of a stretch is known."""
    return all(value.type.WhichOneof("value") for value in model.graph.input)


def _typed(model: onnx.ModelProto, feed: Mapping[str, Any]) -> onnx.ModelProto:
    """Return a model whose inputs without a type have that of the arrays given for them."""
    typed = onnx.ModelProto()
    typed.CopyFrom(model)
    for value in typed.graph.input:
        array = feed[value.name]
        if value.type.WhichOneof("value") is None and isinstance(array, np.ndarray):
            dtype = ir.DataType.STRING if array.dtype.kind in "OTU" else ir.DataType.from_numpy(array.dtype)
            value.type.tensor_type.elem_type = int(dtype)
            for _ in array.shape:
                value.type.tensor_type.shape.dim.add()
    return typed


def session_of(model: onnx.ModelProto, threads: int = 0) -> Any:
    """Return an onnxruntime session, or None where it has no kernel for a type or operator."""
    import onnxruntime
    from onnxruntime.capi import onnxruntime_pybind11_state as refusals

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = options.inter_op_num_threads = threads
    try:
        session = onnxruntime.InferenceSession(
            model.SerializeToString(),
            options,
            providers=["CPUExecutionProvider"],
            disabled_optimizers=[item.value for item in model.metadata_props if item.key == DISABLED],
        )
    except (
        refusals.NotImplemented,
        refusals.InvalidGraph,
        refusals.Fail,
        refusals.InvalidArgument,
        refusals.RuntimeException,
    ):
        return None
    types = [value.type for value in (*session.get_inputs(), *session.get_outputs())]
    return None if any(name in text for text in types for name in _WITHOUT_NUMPY) else session


def _opened(value: Any, kind: onnx.TypeProto) -> Any:
    """Return what is in an optional, which the reference evaluator gives as a list of one."""
    if not kind.HasField("optional_type") or not isinstance(value, list) or len(value) != 1:
        return value
    is_sequence = kind.optional_type.elem_type.HasField("sequence_type")
    return value[0] if not is_sequence or value[0] is None or isinstance(value[0], list) else value


def _plain(value: Any) -> Any:
    """Return a result as this package gives it: an array, or a list, dict or None where it is no tensor."""
    if value is None or isinstance(value, dict):
        return value
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return np.asarray(value)
