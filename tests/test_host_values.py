"""The quick way to a value says what modelspec says, and leaves to it all that it cannot tell."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from modelspec.utils import evaluate

from mdf_scatter.host_values import at_a_glance

SCOPE = {
    "array": np.arange(3, dtype=np.float32),
    "scalar": np.array(2.5),
    "number": 3,
    "real": 2.0,
    "nothing": float("nan"),
    "flag": True,
    "single": np.float32(0.1),
    "text": "number",
    "digits": "12",
    "texts": ["add"],
    "list": [1, 2],
    "ragged": [[1], [1, 2]],
    "none": None,
    "words": np.array(["add"]),
}
EXPRESSIONS = [
    *SCOPE,
    *SCOPE.values(),
    "number + 1",
    "array * real",
    "7",
    "1e3",
    "numpy.exp(real)",
    "unknown(",
]


@pytest.mark.parametrize("expr", EXPRESSIONS, ids=str)
def test_a_value_is_what_modelspec_says(expr: Any) -> None:
    quick = at_a_glance(evaluate, {})
    ours, theirs = quick(expr, SCOPE, array_format="numpy", verbose=False), evaluate(expr, SCOPE)
    assert type(ours) is type(theirs)
    np.testing.assert_equal(ours, theirs)
    if isinstance(ours, np.ndarray):
        assert ours.dtype == theirs.dtype
        assert not any(ours is value for value in SCOPE.values())


def test_a_known_call_gets_the_names_in_scope_and_what_is_verbose_is_modelspecs() -> None:
    seen: list[Any] = []

    def others(expr: Any, parameters: Any, **options: Any) -> str:
        seen.append((expr, options))
        return "theirs"

    quick = at_a_glance(others, {"call()": lambda scope: scope["number"] + 1})
    assert quick("call()", SCOPE) == 4
    assert quick("array", SCOPE, verbose=True) == "theirs"
    assert quick(1.5, None, cast_to_int=True) == "theirs"
    assert seen == [
        ("array", {"array_format": "numpy", "verbose": True}),
        (1.5, {"array_format": "numpy", "verbose": False, "cast_to_int": True}),
    ]
