"""Products of all factors of a row but one, as plain operators: prefixes times suffixes, never a quotient."""

from __future__ import annotations

from dataclasses import dataclass

import onnx_ir as ir

from mdf_scatter.gradient.emitter import Emitter
from mdf_scatter.gradient.rules.places import Places, flat, folded, joined, numbers, size_of

_UNROLLED = 16
"""Factors of a row up to which the steps are written one after the other; more are a Loop."""


def products_of_others(places: Places, first: ir.Value, factors: ir.Value) -> ir.Value:
    """Return for each factor the product of `first` and of the other factors of its row.

    The factors are sorted by row and written down twice, forwards and, after that, backwards. Each product
    begins with the factor before it in its row, or at the start of a row with `first`, or 1 on the way
    back; and in every step it is multiplied by that which is 1, 2, 4, ... places before it in the row. After
    log2(M) steps, of a row of M factors, it is the product of all before it.

    Args:
        places: Where the factors go.
        first: T[..], what the factors of a row are multiplied with, repeated for each of them.
        factors: T[..], in the shape of `first`.
    """
    emit = places.emit
    count = size_of(emit, places.rows, 0, emit.rank(places.rows))
    most = _most(places, count)
    if emit.known(most) == 1:
        return first
    tall = joined(emit, count, places.row_size)
    # TopK is stable: of updates to one row, the earlier one comes first.
    rows, order = emit.several("TopK", flat(emit, places.rows), count, outputs=2, largest=0)
    place = emit("ScatterElements", order, order, numbers(emit, count), axis=0)
    firsts = emit("Gather", emit.reshape(first, tall), order)
    one = emit.constant(1, first)
    firsts = emit("Concat", firsts, emit("Expand", one, tall), axis=0)
    # Going back, rows are called by negative numbers: no product crosses over from one way to the other.
    rows = emit("Concat", rows, _reversed(emit, emit("Sub", emit.integers(-1), rows)), axis=0)
    both = emit("Concat", order, _reversed(emit, order), axis=0)
    scan = _Scan(rows, one)
    products = scan.before(emit, emit("Gather", emit.reshape(factors, tall), both), 1, firsts)
    products = _stepped(emit, scan, products, most)
    before = emit("Gather", products, place)
    after = emit("Gather", products, emit("Sub", emit.integers(-1), place))
    return emit.like(emit("Mul", before, after), first)


@dataclass(frozen=True, eq=False)
class _Scan:
    """Factors in order, of which those of one row stand together.

    Attributes:
        rows: The row of each, int64[M].
        one: A scalar, 1.
    """

    rows: ir.Value
    one: ir.Value

    def before(
        self, emit: Emitter, values: ir.Value, distance: ir.Value | int, otherwise: ir.Value
    ) -> ir.Value:
        """Return for each place what stands a distance before it in its row, or else another value.

        A place before the first one is counted from the end, where all rows are others.
        """
        is_same = emit("Equal", _turned(emit, self.rows, distance), self.rows)
        return emit("Where", emit.unsqueeze(is_same, [1]), _turned(emit, values, distance), otherwise)

    def step(self, emit: Emitter, products: ir.Value, distance: ir.Value | int) -> ir.Value:
        """Multiply each product by the one a distance before it in its row."""
        return emit("Mul", products, self.before(emit, products, distance, self.one))


def _most(places: Places, count: ir.Value) -> ir.Value:
    """Return how many factors a row has at most, int64[]: 1 or more, and, where that is few, their count."""
    emit = places.emit
    known = emit.known(count)
    if known is not None and known[0] <= _UNROLLED and emit.known(places.rows) is None:
        return emit.integers(max(1, int(known[0])))
    nothing = emit("Expand", emit.integers(0), size_of(emit, places.data, 0, places.depth))
    ones = emit("Expand", emit.integers(1), count)
    counts = emit("ScatterElements", nothing, flat(emit, places.rows), ones, axis=0, reduction="add")
    return folded(emit, emit("ReduceMax", joined(emit, counts, emit.integers([1])), keepdims=0))


def _stepped(emit: Emitter, scan: _Scan, products: ir.Value, most: ir.Value) -> ir.Value:
    """Take steps of 1, 2, 4, ... below the most factors of a row."""
    known = emit.known(most)
    if known is not None and known <= _UNROLLED:
        for power in range(int(known - 1).bit_length()):
            products = scan.step(emit, products, 2**power)
        return products
    start = emit.integers(1)
    inside = emit.inner()
    turn = _slot(inside, "turn", start, [])
    going = _slot(inside, "going", emit("Less", start, most), [])
    distance = _slot(inside, "distance", start, [])
    before = _slot(inside, "products", products, [None, None])
    after = scan.step(inside, before, distance)
    further = inside("Add", distance, distance)
    body = ir.Graph(
        [turn, going, distance, before],
        [inside("Less", further, most), further, after],
        nodes=inside.builder.nodes,
        initializers=list(inside.builder.initializers.values()),
        name=f"{emit.name}_steps",
    )
    result = emit.several("Loop", None, emit("Less", start, most), start, products, outputs=2, body=body)[1]
    result.type, result.shape = products.type, products.shape
    return result


def _turned(emit: Emitter, value: ir.Value, distance: ir.Value | int) -> ir.Value:
    """Return a value moved on along its first axis; what leaves it at the end comes in at the start.

    Two slices are copied far faster than a gather finds as many rows.
    """
    if isinstance(distance, int):
        cut = emit.integers([-distance])
    else:
        cut = emit.unsqueeze(emit("Neg", distance), [0])
    start, end = emit.integers([0]), emit.integers([2**63 - 1])
    return emit("Concat", emit("Slice", value, cut, end), emit("Slice", value, start, cut), axis=0)


def _slot(emit: Emitter, name: str, like: ir.Value, shape: list[int | None]) -> ir.Value:
    """Return a value of a dtype that comes from around the nodes."""
    name = emit.builder.free_name(f"{emit.name}_{name}")
    return ir.Value(name=name, type=like.type, shape=ir.Shape(shape))


def _reversed(emit: Emitter, value: ir.Value) -> ir.Value:
    """Return numbers (N,) from the last to the first."""
    end = emit.integers([-(2**63)])
    return emit("Slice", value, emit.integers([-1]), end, emit.integers([0]), emit.integers([-1]))
