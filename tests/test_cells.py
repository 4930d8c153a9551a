"""What a scatter or gather does, cell by cell: what the picture shows, says, and withstands."""

from __future__ import annotations

import re
import struct
import subprocess
import time
from base64 import b64decode
from collections import Counter
from itertools import combinations
from pathlib import Path
from xml.etree import ElementTree as ET

import numpy as np
import pytest
from modeci_mdf.mdf import Edge, Function, Graph, InputPort, Model, Node, OutputPort, Parameter
from samples import ALL_DTYPES, reductions_of, samples
from syrupy.assertion import SnapshotAssertion
from syrupy.extensions.single_file import SingleFileSnapshotExtension, WriteMode

from mdf_scatter.drawing import render
from mdf_scatter.drawing.cells.colours import palette
from mdf_scatter.drawing.cells.explain import explain, explain_call
from mdf_scatter.drawing.cells.node import explain_node
from mdf_scatter.drawing.cells.picture import Picture
from mdf_scatter.drawing.cells.shapes import Arrow, Box, Text
from mdf_scatter.drawing.cells.text import width
from mdf_scatter.errors import (
    FormatError,
    InputError,
    ModelError,
    OperatorError,
    RenderError,
    UnsupportedError,
)
from mdf_scatter.formats import load
from mdf_scatter.ops import OPS

SVG = "{http://www.w3.org/2000/svg}"
GRAPHS = Path(__file__).parents[1] / "graphs"
RAMP = np.arange(1, 9, dtype=np.float32)
ROWS = np.repeat(np.arange(1, 6, dtype=np.float32)[:, np.newaxis], 3, axis=1)
TENS = np.arange(10, 100, 10, dtype=np.float32).reshape(3, 3)
LIGHT = palette("light")
BLUE, ORANGE, GREEN = LIGHT.hues[:3]


class SvgFile(SingleFileSnapshotExtension):
    _write_mode = WriteMode.TEXT
    file_extension = "svg"


def f32(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


def elements() -> Picture:
    return explain(RAMP, [[4], [3], [1], [7]], f32(9, 10, 11, 12))


def rows(reduction: str = "add") -> Picture:
    return explain(ROWS, [[3], [1], [3]], TENS, reduction)


def single(reduction: str, **attributes: object) -> Picture:
    """Draw a vector whose element 1 is updated three times."""
    return explain(f32(1, 5, 3, 4), [[1], [3], [1], [-3]], f32(2, 7, 8, 0.5), reduction, **attributes)


def texts(picture: Picture) -> list[str]:
    return [element.text or "" for element in ET.fromstring(picture.svg).iter(f"{SVG}text")]


def boxes(picture: Picture, kind: str) -> list[ET.Element]:
    found = ET.fromstring(picture.svg).iter(f"{SVG}rect")
    return [element for element in found if kind in (element.get("class") or "").split()]


def tips(picture: Picture) -> list[str]:
    return [box.findtext(f"{SVG}title", "") for box in boxes(picture, "cell")]


def fills(picture: Picture, kind: str) -> Counter[str]:
    return Counter(box.get("fill", "") for box in boxes(picture, kind))


PICTURES = {
    "vector": elements,
    "rows, add": rows,
    "rows, none": lambda: rows("none"),
    "elements": lambda: explain(
        np.arange(12).reshape(3, 4), [[0, 1], [2, 3], [-1, 0], [0, 1]], [1, 2, 3, 4], "mul", theme="dark"
    ),
    "planes": lambda: explain(
        np.arange(24).reshape(4, 2, 3), [[0], [2]], np.arange(12).reshape(2, 2, 3) * 100, theme="dark"
    ),
    "rows of planes": lambda: explain(
        np.arange(24).reshape(2, 3, 4), [[0, 1], [1, 2], [0, 1]], np.ones((3, 4), int)
    ),
    "elements of planes": lambda: explain(
        np.arange(24).reshape(2, 3, 4), [[0, 1, 2], [1, 2, 3], [0, 1, 2]], [1, 2, 3], "add"
    ),
    "rank 4": lambda: explain(np.zeros((2, 2, 3, 4)), [[0, 1], [1, 0]], np.ones((2, 3, 4))),
    "whole tensors": lambda: explain(np.zeros((2, 2)), np.zeros((2, 0), int), np.ones((2, 2, 2)), "add"),
    "whole vectors": lambda: explain(np.zeros(2), np.zeros((2, 0), int), np.ones((2, 2))),
    "one index": lambda: explain(np.zeros((2, 2)), [1, 1], 5.0),
    "no update": lambda: explain(np.zeros(3), np.zeros((0, 1), int), np.zeros(0)),
    "no element": lambda: explain(np.zeros((0, 3)), np.zeros((0, 1), int), np.zeros((0, 3))),
    "rows without elements": lambda: explain(np.zeros((3, 0)), [[1]], np.zeros((1, 0))),
    "large": lambda: explain(
        np.arange(900.0).reshape(30, 30) / 7, np.arange(100).reshape(50, 2) % 30, np.arange(50.0), "add"
    ),
    "large vector": lambda: explain(np.arange(100), np.arange(0, 200, 5)[:, np.newaxis] % 100, np.arange(40)),
    "many planes": lambda: explain(np.zeros((40, 9, 9)), [[3], [33]], np.ones((2, 9, 9))),
    "texts": lambda: explain(
        np.array(["<&>\"'\\|{}", "\\N", "שלום", "日本語" * 9, "\u202ex\ny\x00", "😀", ""], object),
        [[0], [6], [0]],
        np.array(["&lt;", "W" * 10_000, "%s"], object),
        "add",
    ),
    "scatter elements": lambda: explain_call(
        "ScatterElements", np.zeros((3, 3)), [[1, 0, 2], [0, 2, -2]], np.arange(6.0).reshape(2, 3)
    ),
    "gather": lambda: explain_call("GatherND", [[0, 1], [2, 3]], [[0, 0], [1, 1], [0, 0]]),
    "gather rows": lambda: explain_call("GatherND", np.arange(12).reshape(4, 3), [[-1], [0], [-1]]),
    "gather one": lambda: explain_call("GatherND", [[0, 1], [2, 3]], [1, 1]),
    "gather from a vector": lambda: explain_call("GatherND", np.arange(7), [[2], [-1], [2]]),
    "gather elements": lambda: explain_call(
        "GatherElements", np.arange(9).reshape(3, 3), [[1, 2, 0], [2, 0, 0]], axis=1
    ),
    "tensor scatter": lambda: explain_call(
        "TensorScatter",
        np.zeros((2, 4, 2)),
        np.arange(8.0).reshape(2, 2, 2),
        [3, 1],
        mode="circular",
    ),
    "tf": lambda: explain_call("tf::scatter_nd", [[4], [3], [1], [3]], f32(9, 10, 11, 12), [8]),
    "paddle": lambda: explain_call("paddle::scatter_nd_add", np.arange(6), [[1], [2], [1]], [9, 10, 11]),
}


@pytest.mark.parametrize("make", [elements, rows, lambda: single("none")], ids=["vector", "rows", "none"])
def test_svg_stays_as_it_is(make, snapshot: SnapshotAssertion) -> None:
    assert make().svg == snapshot(extension_class=SvgFile)


# What is shown


def test_a_vector() -> None:
    picture = elements()
    assert len(boxes(picture, "data")) == len(boxes(picture, "copied") + boxes(picture, "touched")) == 8
    assert fills(picture, "copied") == {LIGHT.theme.band: 4}
    assert fills(picture, "touched") == Counter(hue.tint for hue in LIGHT.hues[:4])
    assert fills(picture, "item") == fills(picture, "touched")
    assert sum(isinstance(shape, Arrow) for shape in picture.shapes) == 4
    assert [box.get("stroke") for box in boxes(picture, "index")] == [hue.line for hue in LIGHT.hues[:4]]


def test_rows_that_several_updates_add_to() -> None:
    picture = rows()
    split = boxes(picture, "split")
    assert len(split) == 3
    assert {(box.get("fill"), box.get("stroke-width")) for box in split} == {("none", "2")}
    assert fills(picture, "stripe") == {BLUE.tint: 3, GREEN.tint: 3}
    assert fills(picture, "touched") == {ORANGE.tint: 3}
    assert len(boxes(picture, "copied")) == 9
    assert "[3] 2 updates: 4 + 10 + 70 …" in texts(picture)
    assert "output[3, 1] = 104.0 = 4 + 20 + 80" in tips(picture)
    assert "output[0, 2] = 1.0, copied from data" in tips(picture)


def test_columns_of_data_and_output_compare() -> None:
    picture = explain([0.0, 0.0], [[0]] * 8, np.arange(8.0), "add")  # numbers of updates widen a cell
    data, output = (
        [(shape.x, shape.width) for shape in picture.shapes if isinstance(shape, Box) and shape.kind in kinds]
        for kinds in (("cell data",), ("cell split", "cell copied"))
    )
    assert sorted(data) == sorted(output)
    assert len(data) == 2


@pytest.mark.parametrize("picture", [elements(), rows()], ids=["vector", "rows"])
def test_values_of_a_row_stand_at_one_height(picture: Picture) -> None:
    cells = [shape for shape in picture.shapes if isinstance(shape, Box) and shape.tip.startswith("output")]
    middles = {(box.x + box.width / 2, box.y + box.height / 2) for box in cells}
    values = {
        (shape.x, shape.y) for shape in picture.shapes if isinstance(shape, Text) and shape.anchor == "middle"
    }
    assert middles
    assert middles <= values


def test_the_last_update_wins() -> None:
    picture = single("none")
    [box] = boxes(picture, "overwritten")
    assert (box.get("fill"), box.get("stroke-dasharray")) == (LIGHT.hues[3].tint, "4 2.5")
    assert not boxes(picture, "stripe")
    assert "[1] 3 updates: update 3, the last, wins" in texts(picture)
    dashed = [shape.dashed for shape in picture.shapes if isinstance(shape, Arrow)]
    assert dashed == [True, False, True, False]


@pytest.mark.parametrize(
    ("reduction", "include_self", "note"),
    [
        ("add", True, "5 + 2 + 8 + 0.5"),
        ("mul", True, "5 × 2 × 8 × 0.5"),
        ("max", True, "max(5, 2, 8, 0.5)"),
        ("min", True, "min(5, 2, 8, 0.5)"),
        ("mean", True, "(5 + 2 + 8 + 0.5) / 4"),
        ("add", False, "2 + 8 + 0.5, without data"),
        ("max", False, "max(2, 8, 0.5), without data"),
        ("mean", False, "(2 + 8 + 0.5) / 3, without data"),
    ],
)
def test_every_reduction_says_what_it_computes(reduction: str, include_self: bool, note: str) -> None:
    picture = single(reduction, include_self=include_self)
    assert f"[1] 3 updates: {note}" in texts(picture)
    assert f"Element 1 gets 3 updates: {note}." in picture.alt
    assert len(boxes(picture, "stripe")) == 3


def test_notes_of_other_types() -> None:
    bits = explain([True, False], [[0], [0]], [False, True], "mul")
    assert "[0] 2 updates: true and false and true" in texts(bits)
    whole = explain([9, 1], [[0], [0]], [-1, 4], "mean")
    assert "[0] 2 updates: (9 + (-1) + 4) // 3" in texts(whole)
    complexes = explain([1j, 1], [[0], [0]], [2, -1j], "add")
    assert "[0] 2 updates: (0+1j) + (2+0j) + (-0-1j)" in texts(complexes)
    words = explain(["a", "b"], [[1], [1]], ["x", ""], "add")
    assert '[1] 2 updates: "b" + "x" + ""' in texts(words)
    many = explain([0, 1], [[0]] * 9, np.arange(9), "add")
    assert "[0] 9 updates: 0 + 0 + 1 + 2 + … + 8" in texts(many)


def test_indices_say_what_they_mean() -> None:
    assert "-3 → 1" in texts(single("none"))
    assert "[-1, 0] → [2, 0]" in texts(PICTURES["elements"]())
    assert "2 → [2, 1]" not in texts(elements())
    along = texts(PICTURES["scatter elements"]())
    assert {"1 → [1, 0]", "-2 → [1, 2]", "[1, 2]"} <= set(along)
    stretch = texts(PICTURES["tensor scatter"]())
    assert {"3 → [0, 3]", "3 + 1 → [0, 0]", "1 → [1, 1]", "1 + 1 → [1, 2]"} <= set(stretch)
    batched = explain_call("GatherND", np.arange(8).reshape(2, 2, 2), [[1], [0]], batch_dims=1)
    assert {"1 → [0, 1]", "0 → [1, 0]"} <= set(texts(batched))
    assert texts(PICTURES["whole tensors"]()).count("all") == 2


def test_planes_have_their_numbers() -> None:
    found = Counter(texts(PICTURES["planes"]()))
    assert [found[f"[{plane}]"] for plane in range(4)] == [2, 2, 2, 2]
    assert texts(PICTURES["rank 4"]()).count("[0, 1]") == 3  # data's, output's, and an index


def test_updates_are_numbered_where_they_begin() -> None:
    picture = PICTURES["planes"]()
    badges = [shape.text for shape in picture.shapes if isinstance(shape, Text) and shape.size == 8]
    assert badges == ["0", "1"]
    assert [s.text for s in rows().shapes if isinstance(s, Text) and s.size == 8] == ["1", "0 2"]


def test_gathers_colour_what_they_read() -> None:
    picture = PICTURES["gather"]()
    assert len(boxes(picture, "item")) == 3
    assert len(boxes(picture, "split")) == len(boxes(picture, "touched")) == 1
    assert len(boxes(picture, "copied")) == 2
    assert "grey: not read" in texts(picture)
    assert "data[0, 0] = 0, read by results 0, 2" in tips(picture)
    assert sum(isinstance(shape, Arrow) for shape in picture.shapes) == 3


def test_tf_starts_from_zeros() -> None:
    picture = PICTURES["tf"]()
    assert {"zeros", "float32[8]"} <= set(texts(picture))
    assert [box.findtext(f"{SVG}title") for box in boxes(picture, "data")][:2] == [
        "zeros[0] = 0.0",
        "zeros[1] = 0.0",
    ]


def test_what_is_left_out() -> None:
    left_out = explain_call("TensorScatter", np.zeros((2, 3)), np.ones((2, 1)), axis=1)
    assert "left out" in texts(left_out)
    large = texts(PICTURES["large"]())
    assert "… 39 updates not shown" in large
    assert any(re.fullmatch(r"… \d+ rows? not shown", text) for text in large)
    assert "dark grey: written by updates that are not shown" in large
    assert any(text.endswith("planes not shown") for text in texts(PICTURES["many planes"]()))


def test_touched_rows_are_kept_when_there_are_many() -> None:
    picture = explain(np.zeros((1000, 5)), [[500], [7], [999]], np.ones((3, 5)))
    assert len(boxes(picture, "touched")) == 15
    assert {"500", "7", "999"} <= set(texts(picture))
    assert len(boxes(picture, "data")) <= 12 * 5


# How it is shown


def covered(shape: Text) -> tuple[float, float, float, float]:
    """Return left, top, right and bottom of a text, as wide as it may be in any font."""
    wide = width(shape.text, shape.size, code=shape.code, bold=shape.bold)
    left = shape.x - {"start": 0.0, "middle": 0.5, "end": 1.0}[shape.anchor] * wide
    return left, shape.y - shape.size * 0.4, left + wide, shape.y + shape.size * 0.4


def meet(a: tuple[float, ...], b: tuple[float, ...]) -> bool:
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]


def points_of(arrow: Arrow) -> list[tuple[float, float]]:
    """Return points along an arrow."""
    found = []
    for at in range(0, len(arrow.points) - 1, 3):
        a, b, c, d = (np.array(point) for point in arrow.points[at : at + 4])
        found += [
            (1 - t) ** 3 * a + 3 * (1 - t) ** 2 * t * b + 3 * (1 - t) * t**2 * c + t**3 * d
            for t in np.linspace(0, 1, 25)
        ]
    return [(float(x), float(y)) for x, y in [*found, arrow.tip]]


@pytest.mark.parametrize("name", PICTURES)
def test_nothing_overlaps(name: str) -> None:
    picture = PICTURES[name]()
    shapes = picture.shapes
    places = [covered(shape) for shape in shapes if isinstance(shape, Text)]
    assert all(x >= 0 and y >= 0 for x, y, _, _ in places)
    assert all(x <= picture.size[0] and y <= picture.size[1] for _, _, x, y in places)
    assert not [(a, b) for a, b in combinations(places, 2) if meet(a, b)]
    # A text that begins inside a cell ends inside it.
    cells = [shape for shape in shapes if isinstance(shape, Box) and shape.kind.startswith(("cell", "badge"))]
    for left, top, right, bottom in places:
        for cell in cells:
            if meet((left, top, right, bottom), (cell.x, cell.y, cell.x + cell.width, cell.y + cell.height)):
                assert cell.x <= left
                assert right <= cell.x + cell.width
                assert cell.y <= top
                assert bottom <= cell.y + cell.height
    for arrow in (shape for shape in shapes if isinstance(shape, Arrow)):
        for x, y in points_of(arrow):
            assert not [place for place in places if meet(place, (x, y, x, y))], (x, y)


@pytest.mark.parametrize("name", PICTURES)
def test_svg_is_whole(name: str) -> None:
    picture = PICTURES[name]()
    root = ET.fromstring(picture.svg)
    assert (root.get("role"), root[0].text, root[1].text) == ("img", picture.title, picture.alt)
    assert root.get("aria-labelledby") == f"{root[0].get('id')} {root[1].get('id')}"
    assert picture.svg == PICTURES[name]().svg


@pytest.mark.parametrize("name", ["vector", "elements", "texts", "no element", "gather elements"])
def test_png_shows_the_same(name: str) -> None:
    picture = PICTURES[name]()
    assert picture.png[:8] == b"\x89PNG\r\n\x1a\n"
    size = struct.unpack(">II", picture.png[16:24])
    assert size == pytest.approx([side * 192 / 72 for side in picture.size], abs=3)


def test_tensors_of_texts_stay_apart_from_markup() -> None:
    picture = PICTURES["texts"]()
    shown = texts(picture)
    assert {'"&lt;"', '"\\N"', '""', '"WWWWWWWW…'} <= set(shown)
    assert '"\\u202ex\\…' in shown
    assert max(len(tip) for tip in tips(picture)) < 1200
    assert len(picture.alt) < 1000


def luminance(colour: str) -> float:
    channels = (int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(a: str, b: str) -> float:
    dark, light = sorted((luminance(a), luminance(b)))
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_contrast_of_text(theme: str) -> None:
    colours = palette(theme)
    own = colours.theme
    pairs = [(own.text, own.page), (own.muted, own.page), (own.text, own.box), (own.muted, own.band)]
    for hue in colours.hues:
        pairs += [(hue.line, hue.tint), (hue.line, own.box), (hue.line, own.page)]
        pairs += [(own.text, hue.tint), (colours.on_hue, hue.line)]
    pairs += [(own.text, colours.unshown.tint), (colours.unshown.line, colours.unshown.tint)]
    low = {pair: contrast(*pair) for pair in pairs if contrast(*pair) < 4.5}
    assert not low
    assert len({hue.line for hue in colours.hues}) == len({hue.tint for hue in colours.hues}) == 8


def test_the_dark_theme_is_dark() -> None:
    picture = explain([1, 2], [[1]], [3], theme="dark")
    [page] = boxes(picture, "page")
    assert page.get("fill") == palette("dark").theme.page
    assert LIGHT.theme.text not in picture.svg


# What is said

ALT = {
    "vector": "ScatterND writes 4 updates into 4 elements of data, float32[8]: update 0 (9) goes to element"
    " 4, 1 (10) to element 3, 2 (11) to element 1, 3 (12) to element 7."
    " The other 4 elements are copied from data. Output: [1, 11, 3, 10, 9, 6, 7, 12].",
    "rows, add": "ScatterND adds 3 updates into 2 rows of data, float32[5, 3]: update 0 ([10, 20, 30]) goes"
    " to row 3, 1 ([40, 50, 60]) to row 1, 2 ([70, 80, 90]) to row 3. Row 3 gets 2 updates: 4 + 10 + 70 …."
    " The other 3 rows are copied from data."
    " Output: [[1, 1, 1], [42, 52, 62], [3, 3, 3], [84, 104, 124], [5, 5, 5]].",
    "whole vectors": "ScatterND writes 2 updates into all of data, float64[2]: update 0 ([1, 1]) goes to all"
    " of data, 1 ([1, 1]) to all of data. All of data gets 2 updates: update 1, the last, wins."
    " Output: [1, 1].",
    "no update": "ScatterND writes 0 updates into data, float64[3]. Output: [0, 0, 0].",
    "gather rows": "GatherND reads 2 rows of data, int64[4, 3]: result 0 ([9, 10, 11]) is row 3,"
    " result 1 ([0, 1, 2]) is row 0, result 2 ([9, 10, 11]) is row 3. Row 3 is read 2 times."
    " Output: [[9, 10, 11], [0, 1, 2], [9, 10, 11]].",
    "large vector": "ScatterND writes 40 updates into 20 elements of data, int64[100]. 20 elements get"
    " several updates; element 0, the most: 2. The other 80 elements are copied from data. Output: [20,",
    "large": "ScatterND adds 50 updates into 15 elements of data, float64[30, 30]. 15 elements get several"
    " updates; element [0, 1], the most: 4. The other 885 elements are copied from data."
    " Output: float64[30, 30].",
}


@pytest.mark.parametrize("name", ALT)
def test_alternative_text(name: str) -> None:
    assert PICTURES[name]().alt.startswith(ALT[name])


def test_titles_say_the_settings() -> None:
    assert rows("max").title == "ScatterND (reduction: max)"
    assert single("add", include_self=False).title == "ScatterND (reduction: add, include_self: false)"
    assert PICTURES["gather elements"]().title == "GatherElements (axis: 1)"
    assert PICTURES["gather"]().title == "GatherND"


# All that it may be given


@pytest.mark.parametrize("dtype", ALL_DTYPES)
def test_every_dtype_and_reduction(dtype: str) -> None:
    values = samples(dtype)
    for reduction in reductions_of(dtype):
        with np.errstate(all="ignore"):
            picture = explain(values, [[0], [1], [0]], values[[1, 0, 1]], reduction)
        assert len(boxes(picture, "cell")) == 2 * min(len(values), 9 if len(values) > 12 else 12) + 6


def test_numbers_are_shortened_and_their_tooltips_are_not() -> None:
    values = np.array([np.nan, np.inf, -0.0, 1 / 3, 123456789.125, -1.25e-300])
    picture = explain(values, [[0]], [1.0])
    assert {"NaN", "inf", "-0", "0.3333", "1.235e+08", "-1.2e-300"} <= set(texts(picture))
    assert "data[3] = 0.3333333333333333" in tips(picture)
    assert "-9.22e+18" in texts(explain([-(2**63)], [[0]], [1]))


@pytest.mark.parametrize(
    ("op", "case"),
    [(op.name, case) for op in OPS.values() for case in op.cases],
    ids=lambda item: str(item)[:40],
)
def test_every_case_of_every_operator(op: str, case) -> None:
    if case.error is not None:
        with pytest.raises(OperatorError) as error:
            explain_call(op, *case.inputs, **case.attributes)
        with pytest.raises(OperatorError) as own:
            OPS[op].forward(*case.inputs, **case.attributes)
        assert str(error.value) == str(own.value)
        return
    picture = explain_call(op, *case.inputs, **case.attributes)
    assert len(picture.svg) < 400_000
    assert picture.alt.startswith(op)


def test_large_calls_take_little_time_and_room() -> None:
    rng = np.random.default_rng(0)
    data, ones = np.zeros((1000, 1000), np.float32), np.ones(1_000_000, np.float32)
    indices = rng.integers(-1000, 1000, (1_000_000, 2))
    OPS["ScatterND"].forward(data, indices, ones, "add")  # the kernels are compiled
    for arguments in ((data, indices, ones), (data, np.zeros_like(indices), ones)):
        start = time.perf_counter()
        picture = explain(*arguments, "add")
        assert len(picture.svg) < 200_000
        assert time.perf_counter() - start < 1
    assert "1 element gets several updates; element [0, 0], the most: 1000000." in picture.alt


def test_operators_by_their_names() -> None:
    assert explain_call("onnx::ScatterND", [1], [[0]], [2]).title == "ScatterND (reduction: none)"
    with pytest.raises(OperatorError) as error:
        explain_call("ScaterND", [1], [[0]], [2])
    assert str(error.value) == (
        "ScaterND: there is no such operator; expected 'GatherElements', 'GatherND',"
        " 'paddle::scatter_nd_add', 'ScatterND', 'ScatterElements', 'TensorScatter' or"
        " 'tf::scatter_nd'; did you mean 'ScatterND'?"
    )


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: explain_call("ScatterND", [1], [[0]]),
            "ScatterND: 2 inputs were given; expected 3: data, indices, updates",
        ),
        (
            lambda: explain_call("TensorScatter", [[1]]),
            "TensorScatter: 1 inputs were given; expected 2 to 3: past_cache, update, write_indices",
        ),
        (
            lambda: explain_call("ScatterND", [1], [[0]], [1], reducton="add"),
            "ScatterND: there is no attribute 'reducton'; expected 'reduction' or 'include_self';"
            " did you mean 'reduction'?",
        ),
        (
            lambda: explain_call("tf::scatter_nd", [[0]], [1], [1], axis=0),
            "tf::scatter_nd: there is no attribute 'axis'; expected none",
        ),
        (
            lambda: explain([1, 2], [[2]], [1]),
            "ScatterND: indices[0, 0] is 2; expected -2..1 (axis 0 of data)",
        ),
        (lambda: explain([1], [[0]], [1], theme="blue"), "theme is 'blue'; expected 'light' or 'dark'"),
    ],
)
def test_errors(call, message: str) -> None:
    with pytest.raises((OperatorError, InputError)) as error:
        call()
    assert str(error.value) == message


# Files and notebooks


def test_save(tmp_path: Path) -> None:
    picture = elements()
    picture.save(tmp_path / "cells.svg")
    picture.save(str(tmp_path / "cells.PNG"))
    assert (tmp_path / "cells.svg").read_bytes() == picture.svg.encode()
    assert (tmp_path / "cells.PNG").read_bytes() == picture.png
    with pytest.raises(FormatError) as error:
        picture.save("cells.gif")
    assert str(error.value) == "picture 'cells.gif': the suffix is '.gif'; expected '.svg' or '.png'"


def test_it_shows_itself_in_a_notebook() -> None:
    picture = elements()
    bundle = picture._repr_mimebundle_()
    assert bundle["image/svg+xml"] == picture.svg
    assert b64decode(bundle["image/png"]) == picture.png
    assert bundle["text/plain"] == picture.alt


def test_png_needs_the_command_and_svg_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object, **__: object) -> None:
        raise subprocess.TimeoutExpired("graphviz-pure", 120)

    monkeypatch.setattr(render.subprocess, "run", fails)
    picture = elements()
    assert picture.svg
    with pytest.raises(RenderError):
        _ = picture.png


# Nodes of a graph


def scatter_node(name: str = "scatter", **args: object) -> Node:
    arguments = {"data": "data", "indices": [[1], [1]], "updates": "2 * extra", "reduction": "add"} | args
    return Node(
        name,
        input_ports=[InputPort("data", shape=(3,), type="float32"), InputPort("extra", (2,), type="float32")],
        functions=[Function("f", function="onnx::ScatterND", args=arguments)],
        output_ports=[OutputPort("output", value="f")],
    )


def scatter_graph(*more: Node, **args: object) -> Model:
    given = Node(
        "given",
        input_ports=[InputPort("x", shape=(3,), type="float32")],
        parameters=[Parameter("twice", value="x + x")],
        output_ports=[OutputPort("y", value="twice", shape=(3,), type="float32")],
    )
    edges = [Edge("e", "given", "scatter", "y", "data")]
    return Model("m", graphs=[Graph("g", nodes=[given, scatter_node(**args), *more], edges=edges)])


@pytest.mark.parametrize("path", sorted(GRAPHS.glob("[!.]*.yaml")), ids=lambda path: path.stem)
def test_nodes_of_the_graphs(path: Path) -> None:
    model = load(path)
    drawn = 0
    for node in model.graphs[0].nodes:
        if any(function.function in OPS for function in node.functions):
            assert boxes(explain_node(model, node.id), "cell")
            drawn += 1
    assert drawn


def test_a_node_with_the_values_that_reach_it() -> None:
    model = scatter_graph()
    before = str(model.to_yaml())
    picture = explain_node(model, "scatter", {"x": f32(1, 2, 3), "extra": f32(10, 20)})
    assert picture.alt == (
        "ScatterND adds 2 updates into 1 element of data, float32[3]: update 0 (20) goes to element 1,"
        " 1 (40) to element 1. Element 1 gets 2 updates: 4 + 20 + 40."
        " The other 2 elements are copied from data. Output: [2, 64, 6]."
    )
    assert str(model.to_yaml()) == before


def test_constants_of_a_node() -> None:
    model = scatter_graph(updates=f32(0.5, 1.5))
    picture = explain_node(model, "scatter", {"x": f32(1, 2, 3)}, theme="dark")
    assert "4 + 0.5 + 1.5" in picture.alt
    assert palette("dark").theme.page in picture.svg


def test_errors_of_nodes() -> None:
    model = scatter_graph()
    inputs = {"x": f32(1, 2, 3), "extra": f32(10, 20)}
    with pytest.raises(InputError) as error:
        explain_node(model, "scater", inputs)
    assert str(error.value) == "graph 'g' has no node 'scater'; expected 'scatter'; did you mean 'scatter'?"
    with pytest.raises(InputError) as error:
        explain_node(model, "given", inputs)
    assert str(error.value) == (
        "node 'given' calls none of 'GatherElements', 'GatherND', 'paddle::scatter_nd_add', 'ScatterND',"
        " 'ScatterElements', 'TensorScatter' or 'tf::scatter_nd'; expected 'scatter'"
    )
    with pytest.raises(InputError, match=r"^graph 'g' needs input 'x'"):
        explain_node(model, "scatter")
    with pytest.raises(ModelError, match=r"g\.scatter\.f: ScatterND: indices\[1, 0\] is 5; expected -3\.\.2"):
        explain_node(scatter_graph(indices=[[1], [5]]), "scatter", inputs)
    with pytest.raises(OperatorError) as error:
        explain_node(
            load(GRAPHS / "scatter_nd_elements.yaml"), "scatter_1", {"indices": [[4], [3], [1], [9]]}
        )
    assert str(error.value) == "ScatterND 'scatter_1': indices[3, 0] is 9; expected -8..7 (axis 0 of data)"
    with pytest.raises(UnsupportedError) as error:
        explain_node(scatter_graph(include_self="extra"), "scatter", inputs)
    assert str(error.value) == "node 'scatter': include_self is computed from 'extra'; expected a constant"
    empty = Model("m", graphs=[Graph("g", nodes=[model.graphs[0].nodes[0]])])
    with pytest.raises(
        InputError, match=r"^graph 'g' has no node that calls 'GatherElements', .* to explain$"
    ):
        explain_node(empty, "given", inputs)
