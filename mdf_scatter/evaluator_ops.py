"""Operators that ONNX's own reference evaluator gets wrong, as ONNX defines them."""

from __future__ import annotations

from functools import reduce
from typing import Any

import numpy as np
import numpy.typing as npt
from onnx.reference.op_run import OpRun
from onnx.reference.ops import op_gru, op_lstm, op_one_hot, op_rnn

from mdf_scatter.errors import UnsupportedError

Array = npt.NDArray[Any]


class Loop(OpRun):
    """Loop as ONNX defines it; the evaluator's own joins what it should stack."""

    op_domain = ""
    body: Any
    _run_body: Any

    def need_context(self) -> bool:
        """Tell that the body may read values around it."""
        return True

    def _run(self, count: Any, going: Any, *states: Any, context: Any = None, **given: Any) -> Any:
        carried = len(states)
        stacks: list[list[Any]] = [[] for _ in self.body.output_names[1 + carried :]]
        turn = 0
        going = np.True_ if going is None else going
        while going and (count is None or turn < count):
            values = (np.array(turn, np.int64), going, *states)
            inputs = {**(context or {}), **dict(zip(self.body.input_names, values, strict=True))}
            going, *made = self._run_body(
                inputs, attributes=given.get("attributes"), bindings=given.get("bindings")
            )
            states = tuple(made[:carried])
            for stack, part in zip(stacks, made[carried:], strict=True):
                stack.append(part)
            turn += 1
        return self._check_and_fix_outputs((*states, *(np.stack(stack) for stack in stacks)))


class Scan(OpRun):
    """Scan as ONNX defines it; the evaluator's own knows the first axis and one direction only."""

    op_domain = ""
    num_scan_inputs: int
    body: Any
    _run_body: Any

    def need_context(self) -> bool:
        """Tell that the body may read values around it."""
        return True

    def _run(self, *values: Any, context: Any = None, **given: Any) -> Any:
        first = len(values) - self.num_scan_inputs
        states = values[:first]
        sources = [
            np.moveaxis(value, axis, 0)[:: -1 if backwards else 1]
            for value, axis, backwards in zip(
                values[first:], *self._settings("input", self.num_scan_inputs), strict=True
            )
        ]
        stacks: list[list[Any]] = [[] for _ in self.body.output_names[first:]]
        for parts in zip(*sources, strict=True):
            inputs = {**(context or {}), **dict(zip(self.body.input_names, (*states, *parts), strict=True))}
            made = self._run_body(inputs, bindings=given.get("bindings"))
            states = made[:first]
            for stack, part in zip(stacks, made[first:], strict=True):
                stack.append(part)
        stacked = [
            np.stack(stack[:: -1 if backwards else 1], axis)
            for stack, axis, backwards in zip(stacks, *self._settings("output", len(stacks)), strict=True)
        ]
        return self._check_and_fix_outputs((*states, *stacked))

    def _settings(self, of: str, count: int) -> list[Any]:
        return [getattr(self, f"scan_{of}_{what}") or [0] * count for what in ("axes", "directions")]


class LRN(OpRun):
    """LRN as ONNX defines it; the evaluator's own takes the number of images for that of channels."""

    op_domain = ""

    def _run(self, x: Array, alpha: float, beta: float, bias: float, size: int) -> tuple[Array]:
        before = (size - 1) // 2
        widths = [(0, 0), (before, size - 1 - before), *[(0, 0)] * (x.ndim - 2)]
        windows = np.lib.stride_tricks.sliding_window_view(np.pad(x * x, widths), size, axis=1)
        y = x / (bias + alpha / size * windows.sum(axis=-1)) ** beta
        return (y.astype(x.dtype),)


class LpNormalization(OpRun):
    """LpNormalization as ONNX defines it; the evaluator's own adds what has signs for p = 1."""

    op_domain = ""

    def _run(self, x: Array, axis: int, p: int) -> tuple[Array]:
        norm = np.linalg.norm(x, p, axis, keepdims=True).astype(x.dtype)
        return (np.divide(x, norm, out=np.zeros_like(x), where=norm != 0),)


class Mean(OpRun):
    """Mean as ONNX defines it; the evaluator's own does not broadcast the first input."""

    op_domain = ""

    def _run(self, *values: Array) -> tuple[Array]:
        return ((reduce(np.add, values) / len(values)).astype(values[0].dtype),)


class OneHot(op_one_hot.OneHot):
    """OneHot as ONNX defines it; the evaluator's own takes no depth of shape [1]."""

    op_domain = ""

    def _run(self, indices: Array, depth: Array, values: Array, axis: int = -1) -> tuple[Array]:
        run: Any = super()._run
        found: tuple[Array] = run(indices, np.reshape(depth, ()), values, axis=axis)
        return found


class ConvTranspose(OpRun):
    """ConvTranspose as ONNX defines it; the evaluator's own mixes groups, and forgets padding."""

    op_domain = ""

    def _run(self, x: Array, w: Array, b: Array | None = None, **given: Any) -> tuple[Array]:
        group, kernel = given["group"], w.shape[2:]
        strides, dilations = (given[name] or [1] * len(kernel) for name in ("strides", "dilations"))
        spread = [(size - 1) * step for size, step in zip(x.shape[2:], strides, strict=True)]
        reach = [(size - 1) * step + 1 for size, step in zip(kernel, dilations, strict=True)]
        added = given["output_padding"] or [0] * len(kernel)
        whole = [sum(sizes) for sizes in zip(spread, reach, added, strict=True)]
        begin, shape = _crop(whole, x.shape[2:], strides, given)
        channels = w.shape[1]
        room = [max(size, first + wanted) for size, first, wanted in zip(whole, begin, shape, strict=True)]
        total = np.zeros((len(x), group, channels, *room), x.dtype)
        images = x.reshape(len(x), group, -1, *x.shape[2:])
        weights = w.reshape(group, -1, channels, *kernel)
        for place in np.ndindex(*kernel):
            at = [number * step for number, step in zip(place, dilations, strict=True)]
            cut = [slice(a, a + s + 1, step) for a, s, step in zip(at, spread, strides, strict=True)]
            total[:, :, :, *cut] += np.einsum("ngc...,gcm->ngm...", images, weights[:, :, :, *place])
        kept = [slice(first, first + wanted) for first, wanted in zip(begin, shape, strict=True)]
        y = total.reshape(len(x), -1, *room)[:, :, *kept]
        return (y if b is None else y + b.reshape(-1, *[1] * len(kernel)),)


def _crop(
    whole: list[int], sizes: tuple[int, ...], strides: list[int], given: dict[str, Any]
) -> tuple[list[int], list[int]]:
    """Return where the output of ConvTranspose starts in all that it adds up, and its sizes."""
    shape, auto_pad = given["output_shape"], given["auto_pad"]
    if not shape and auto_pad not in ("SAME_UPPER", "SAME_LOWER"):
        pads = given["pads"] if given["pads"] and auto_pad == "NOTSET" else [0] * 2 * len(sizes)
        begin, end = pads[: len(sizes)], pads[len(sizes) :]
        return begin, [size - a - b for size, a, b in zip(whole, begin, end, strict=True)]
    shape = shape or [size * step for size, step in zip(sizes, strides, strict=True)]
    surplus = [max(0, size - wanted) for size, wanted in zip(whole, shape, strict=True)]
    return [extra // 2 if auto_pad == "SAME_UPPER" else extra - extra // 2 for extra in surplus], shape


class _Recurrent:
    """What the evaluator's recurrent operators leave out of account is an error."""

    op_domain = ""
    activations_known: tuple[str, ...]
    onnx_node: Any

    def _run(self, x: Array, w: Array, *inputs: Any, **given: Any) -> Any:
        known = [*self.activations_known] * len(w)
        listed = given.get("activations") or known
        # RNN's default lists two, also where there is one direction.
        if [name.lower() for name in listed[: len(known)]] != [name.lower() for name in known]:
            raise self._refusal("activations", listed, f"expected {known}")
        for name in ("clip", "input_forget"):
            if given.get(name):
                raise self._refusal(name, given[name], "leave it out")
        lengths = inputs[2] if len(inputs) > 2 else None
        steps = x.shape[1 if given.get("layout") else 0]
        if lengths is not None and (lengths != steps).any():
            raise self._refusal("sequence_lens", lengths.tolist(), f"expected {steps} for each sequence")
        return super()._run(x, w, *inputs, **given)  # type: ignore[misc]

    def _refusal(self, name: str, value: Any, fix: str) -> UnsupportedError:
        node = self.onnx_node
        return UnsupportedError(
            f"{node.op_type} {node.name!r}: {name} is {value}, which is computed for float32 only;"
            f" {fix}, or cast the inputs to float32"
        )


class LSTM(_Recurrent, op_lstm.LSTM):  # type: ignore[misc]
    """LSTM as the evaluator has it, which knows its first activations only."""

    activations_known = ("Sigmoid", "Tanh", "Tanh")


class GRU(_Recurrent, op_gru.GRU):  # type: ignore[misc]
    """GRU as the evaluator has it, which knows its first activations only."""

    activations_known = ("Sigmoid", "Tanh")


class RNN(_Recurrent, op_rnn.RNN_14):  # type: ignore[misc]
    """RNN as the evaluator has it, which knows the first of two activations only."""

    activations_known = ("Tanh",)

    def choose_act(self, name: str, alpha: float | None, beta: float | None) -> Any:
        """Return the only activation; another one is an error when it runs."""
        return np.tanh


CORRECTED: list[type[OpRun]] = [
    Loop,
    Scan,
    LRN,
    LpNormalization,
    Mean,
    OneHot,
    ConvTranspose,
    LSTM,
    GRU,
    RNN,
]
"""Classes for `ReferenceEvaluator(new_ops=...)`."""
