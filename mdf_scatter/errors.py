"""Every exception the package raises on purpose.

A message names the operator or node, the thing, what it is, what it may be and, where known, the
fix. `str(error)` is one line that a person can act on; the cause, where there is one, is kept as
`__cause__`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches


class MdfScatterError(Exception):
    """Base class: catch this to catch everything the package raises on purpose."""


class OperatorError(MdfScatterError, ValueError):
    """An operator cannot work on what it was given.

    Attributes:
        op: Name of the operator, for example "ScatterND".
        problem: What is wrong, without the operator's or the node's name.
        node: Name of the node the operator belongs to, or None for a plain function call.
    """

    def __init__(self, op: str, problem: str, node: str | None = None) -> None:
        super().__init__(op, problem, node)
        self.op = op
        self.problem = problem
        self.node = node

    def __str__(self) -> str:
        where = self.op if self.node is None else f"{self.op} {self.node!r}"
        return f"{where}: {self.problem}"

    def at(self, node: str) -> OperatorError:
        """Return the same error, named for the node it happened in."""
        return type(self)(self.op, self.problem, node)


class FormatError(MdfScatterError, ValueError):
    """A file is not what its name says, or holds what it may not hold."""


class ModelError(MdfScatterError, ValueError):
    """A model is wrong: it names what is not there, or contradicts itself."""


class InputError(MdfScatterError, ValueError):
    """What was given to run a model does not fit its inputs."""


class MissingInputError(InputError):
    """Inputs that a graph needs are not given.

    Attributes:
        graph: The graph's id.
        missing: What is expected for each of them, by name.
    """

    def __init__(self, graph: str, missing: Mapping[str, str]) -> None:
        super().__init__(graph, missing)
        self.graph = graph
        self.missing = missing

    def __str__(self) -> str:
        wanted = ", ".join(f"{name!r} ({expected})" for name, expected in self.missing.items())
        return f"graph {self.graph!r} needs input{'s' * (len(self.missing) > 1)} {wanted}"


class UnsupportedError(MdfScatterError, NotImplementedError):
    """A model is right but cannot be expressed in the form asked for."""


class NoEngineError(UnsupportedError):
    """A model is right, but no engine here has one of its operators."""


class EvaluationError(MdfScatterError, RuntimeError):
    """A model failed while it ran, in an engine or operator that is not ours."""


class RenderError(MdfScatterError, RuntimeError):
    """A picture could not be rendered: the `graphviz-pure` command is missing, fails or takes too long."""


def listed(names: Iterable[str]) -> str:
    """Write names as they stand in a message: `'add', 'mul' or 'none'`.

    >>> listed(["add", "mul", "none"])
    "'add', 'mul' or 'none'"
    """
    quoted = [repr(name) for name in names]
    if len(quoted) < 2:
        return "".join(quoted)
    return ", ".join(quoted[:-1]) + " or " + quoted[-1]


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return `"; did you mean 'a' or 'b'?"` for the names nearest to `name`, or an empty text.

    >>> did_you_mean("scaterND", ["ScatterND", "linear"])
    "; did you mean 'ScatterND'?"
    """
    candidates = list(known)
    by_folded = {candidate.casefold(): candidate for candidate in reversed(candidates)}
    near = get_close_matches(name.casefold(), by_folded, n=2, cutoff=0.76)
    return f"; did you mean {listed(by_folded[match] for match in near)}?" if near else ""
