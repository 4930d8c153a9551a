"""The loss at each step of training, as a picture."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Literal

import numpy as np
import numpy.typing as npt

from mdf_scatter.drawing.cells.picture import Picture
from mdf_scatter.drawing.cells.shapes import Arrow, Box, Point, Shape, Text, along
from mdf_scatter.drawing.style import HEADER_SIZE, SMALL_SIZE, TEXT_SIZE, THEMES

WIDTH, HEIGHT = 420, 220
"""Size of the field that the curve lies in, in points."""

LEFT, TOP, RIGHT, BOTTOM = 64, 40, 24, 44
"""Room around it."""

LOGARITHMIC = 30.0
"""Ratio of the largest to the smallest loss from which on the scale is logarithmic."""

TICKS = 5
"""About how many lines a scale has."""

_TICK_CHARACTERS, _TICK_DECIMALS = 10, 4

Floats = npt.NDArray[np.float64]


def loss_curve(losses: Sequence[float], *, theme: Literal["light", "dark"] = "light") -> Picture:
    """Draw losses over steps; where a step is narrower than a point, its lowest and highest loss.

    Args:
        losses: The loss after 0, 1, 2, ... steps; one or more, all finite.
        theme: "light" or "dark".

    Returns:
        A picture; its `alt` text says where the loss begins, ends, and is lowest.
    """
    colours = THEMES[theme]
    values = np.asarray(losses, np.float64)
    steps = len(values) - 1
    is_log = values.min() > 0 and values.max() / values.min() >= LOGARITHMIC
    scaled = np.log10(values) if is_log else values
    lines = _decades(scaled) if is_log else _levels(float(scaled.min()), float(scaled.max()))
    low, high = min(lines[0], float(scaled.min())), max(lines[-1], float(scaled.max()))

    def across(step: float) -> float:
        return LEFT + WIDTH * step / max(steps, 1)

    def down(value: float) -> float:
        return TOP + HEIGHT * (high - value) / ((high - low) or 1.0)

    title = f"loss over {steps} step{'s' * (steps != 1)}"
    shapes: list[Shape] = [
        Box(LEFT, TOP, WIDTH, HEIGHT, colours.box, colours.frame, kind="field"),
        Text(LEFT, TOP / 2, title, HEADER_SIZE, colours.text, bold=True),
    ]
    for line, text in zip(lines, _texts(lines, is_log=is_log), strict=True):
        if low < line < high:  # the field's own frame stands at its ends
            shapes.append(_line(((LEFT + 1, down(line)), (LEFT + WIDTH - 1, down(line))), colours.band))
        shapes.append(Text(LEFT - 8, down(line), text, SMALL_SIZE, colours.muted, anchor="end"))
    for step in sorted({round(line) for line in _ticks(0, steps) if line <= steps}):
        shapes.append(_line(((across(step), TOP + HEIGHT), (across(step), TOP + HEIGHT + 4)), colours.frame))
        place = across(step), TOP + HEIGHT + 14
        shapes.append(Text(*place, f"{step}", SMALL_SIZE, colours.muted, anchor="middle"))
    middle = LEFT + WIDTH / 2
    shapes.append(Text(middle, TOP + HEIGHT + 32, "step", TEXT_SIZE, colours.muted, anchor="middle"))
    points = tuple((across(step), down(value)) for step, value in _thinned(scaled))
    if len(points) > 1:
        shapes.append(_line(points, colours.dtype["float"]))
    lowest = int(values.argmin())
    alt = (
        f"The loss begins at {values[0]:.4g} and ends at {values[-1]:.4g}, after {steps} steps; "
        f"it is lowest, {values[lowest]:.4g}, after {lowest}."
    )
    size = LEFT + WIDTH + RIGHT, TOP + HEIGHT + BOTTOM
    return Picture(tuple(shapes), size, colours.page, title, alt)


def _line(points: Sequence[Point], colour: str) -> Arrow:
    first, *_ = points
    return Arrow((first, *along(*points)), None, colour)


def _decades(scaled: Floats) -> list[float]:
    return [float(power) for power in range(math.floor(scaled.min()), math.ceil(scaled.max()) + 1)]


def _ticks(low: float, high: float) -> list[float]:
    """Return about `TICKS` round numbers, a step of 1, 2 or 5 times a power of ten apart, around a range."""
    span = (high - low) or abs(low) or 1.0
    rough = span / TICKS
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(size * power for size in (1, 2, 5, 10) if size * power >= rough * (1 - 1e-9))
    return [number * step for number in range(math.floor(low / step), math.ceil(high / step) + 1)]


def _levels(low: float, high: float) -> list[float]:
    """Return the lines of the losses; one that never changes lies in the middle of them."""
    around = abs(low) / 2 or 0.5 if low == high else 0
    return _ticks(low - around, high + around)


def _texts(lines: list[float], *, is_log: bool) -> list[str]:
    """Write the lines with as many decimals as tell them apart, all alike; shorter where there is no room."""
    if is_log:
        return [f"{10**line:.3g}" for line in lines]
    step = min(b - a for a, b in pairwise(lines))
    decimals = max(0, -math.floor(math.log10(step) + 1e-9))
    texts = [f"{line:.{decimals}f}" for line in lines]
    fits = decimals <= _TICK_DECIMALS and max(map(len, texts)) <= _TICK_CHARACTERS
    return texts if fits else [f"{line:.6g}" for line in lines]


def _thinned(values: Floats) -> list[tuple[int, float]]:
    """Return steps and values to draw: all, or of each point's width the lowest and the highest one."""
    if len(values) <= 2 * WIDTH:
        return list(enumerate(values.tolist()))
    chosen: set[int] = {0, len(values) - 1}
    for part in np.array_split(np.arange(len(values)), WIDTH):
        chosen |= {int(part[values[part].argmin()]), int(part[values[part].argmax()])}
    return [(step, float(values[step])) for step in sorted(chosen)]
