"""How parameters move against their gradients."""

from __future__ import annotations

from numbers import Real
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from mdf_scatter.errors import InputError, listed

Array = npt.NDArray[Any]


class Optimizer(Protocol):
    """Moves one parameter."""

    def step(self, parameter: Array, gradient: Array) -> Array:
        """Return the parameter after a step; both arrays have its shape and dtype."""


class SGD:
    """Gradient descent: each step goes down the gradient, `learning_rate` times as far as it is long.

    Args:
        learning_rate: Length of a step over the gradient's.
    """

    def __init__(self, learning_rate: float = 0.01) -> None:
        self._rate = learning_rate

    def step(self, parameter: Array, gradient: Array) -> Array:
        """See `Optimizer`."""
        return parameter - self._rate * gradient


class Adam:
    """Adam (Kingma and Ba, 2015): steps of about `learning_rate`, whatever the gradient's size.

    Args:
        learning_rate: About how far an element moves in a step.
    """

    MEAN_DECAY, SQUARE_DECAY = 0.9, 0.999
    """How much of the running means of the gradient, and of its square, a step keeps."""

    EPSILON = 1e-8
    """What keeps a step finite where the gradient is zero."""

    def __init__(self, learning_rate: float = 0.001) -> None:
        self._rate = learning_rate
        self._mean: Array | float = 0.0
        self._square: Array | float = 0.0
        self._steps = 0

    def step(self, parameter: Array, gradient: Array) -> Array:
        """See `Optimizer`."""
        self._steps += 1
        self._mean = self.MEAN_DECAY * self._mean + (1 - self.MEAN_DECAY) * gradient
        self._square = self.SQUARE_DECAY * self._square + (1 - self.SQUARE_DECAY) * np.abs(gradient) ** 2
        # Both means start at zero; early ones are too small by these factors.
        mean = self._mean / (1 - self.MEAN_DECAY**self._steps)
        square = self._square / (1 - self.SQUARE_DECAY**self._steps)
        return parameter - self._rate * mean / (np.sqrt(square) + self.EPSILON)


OPTIMIZERS: dict[str, type[SGD | Adam]] = {"sgd": SGD, "adam": Adam}
"""Every optimizer, by name."""


def optimizer_of(name: str, learning_rate: float | None) -> Optimizer:
    """Return an optimizer for one parameter.

    Args:
        name: A name in `OPTIMIZERS`.
        learning_rate: Its learning rate; None for its own: 0.01 for SGD, 0.001 for Adam.

    Raises:
        InputError: There is no such optimizer, or the learning rate is not a positive number.
    """
    if name not in OPTIMIZERS:
        raise InputError(f"optimizer is {name!r}; expected {listed(OPTIMIZERS)}")
    if learning_rate is None:
        return OPTIMIZERS[name]()
    is_number = isinstance(learning_rate, Real) and not isinstance(learning_rate, bool)
    if not is_number or not 0 < learning_rate < np.inf:
        raise InputError(f"learning_rate is {learning_rate!r}; expected a number above 0")
    return OPTIMIZERS[name](learning_rate)
