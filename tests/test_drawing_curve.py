"""The loss over the steps, as a picture: its lines, their numbers and the curve."""

from __future__ import annotations

import numpy as np
import pytest

from mdf_scatter.drawing.cells.picture import Picture
from mdf_scatter.drawing.cells.shapes import Arrow, Box, Text
from mdf_scatter.drawing.curve import HEIGHT, LEFT, TOP, WIDTH, loss_curve
from mdf_scatter.drawing.style import DARK, LIGHT


def numbers(picture: Picture) -> list[str]:
    """Return what stands beside the lines, from below."""
    return [shape.text for shape in picture.shapes if isinstance(shape, Text) and shape.anchor == "end"]


def lines(picture: Picture, colour: str) -> list[Arrow]:
    return [shape for shape in picture.shapes if isinstance(shape, Arrow) and shape.colour == colour]


@pytest.mark.parametrize(
    ("losses", "expected"),
    [
        ([2.3, 0.3], ["0.0", "0.5", "1.0", "1.5", "2.0", "2.5"]),
        ([12345.678, 12345.679], [f"12345.67{n}" for n in ("80", "82", "84", "86", "88", "90")]),
        ([1e-7, 2e-7, 3e-7], ["1e-07", "1.5e-07", "2e-07", "2.5e-07", "3e-07"]),
        ([-3e6, 4e6], ["-4000000", "-2000000", "0", "2000000", "4000000"]),
        ([1.0, 1e-2, 1e-4], ["0.0001", "0.001", "0.01", "0.1", "1"]),
    ],
    ids=["decimals", "close", "small", "large", "logarithmic"],
)
def test_numbers_are_written_alike(losses: list[float], expected: list[str]) -> None:
    assert numbers(loss_curve(losses)) == expected


def test_lines_leave_the_frame_of_the_field_whole() -> None:
    picture = loss_curve([2.3, 0.3])
    [field] = [shape for shape in picture.shapes if isinstance(shape, Box)]
    assert (field.x, field.y, field.width, field.height) == (LEFT, TOP, WIDTH, HEIGHT)
    drawn = lines(picture, LIGHT.band)
    assert len(drawn) == 4  # of six, the first and the last are the frame's own
    for x, y in (point for line in drawn for point in line.points):
        assert LEFT < x < LEFT + WIDTH
        assert TOP < y < TOP + HEIGHT


@pytest.mark.parametrize("loss", [0.0, 5.0, -3.0])
def test_a_loss_that_never_changes_lies_in_the_middle(loss: float) -> None:
    [curve] = lines(loss_curve([loss] * 3, theme="dark"), DARK.dtype["float"])
    heights = np.array(curve.points)[:, 1]
    assert heights == pytest.approx(TOP + HEIGHT / 2)


def test_the_curve_begins_and_ends_at_the_ends_of_the_field() -> None:
    losses = list(np.exp(-np.arange(5000) / 900))
    picture = loss_curve(losses)
    [curve] = lines(picture, LIGHT.dtype["float"])
    assert (curve.points[0][0], curve.points[-1][0]) == (LEFT, LEFT + WIDTH)
    assert picture.alt.startswith("The loss begins at 1 and ends at 0.00387, after 4999 steps;")
