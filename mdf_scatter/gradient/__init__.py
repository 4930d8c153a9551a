"""The backward pass of a graph, as a graph.

`table` says what a rule is and holds the rules, which `rules` defines, one for each operator; `emitter`
writes the nodes that they ask for; `reverse` goes backwards through the nodes of a graph or a body and asks
the rules; `model` is `grad`: which gradients of what, and the model that has them.
"""

from mdf_scatter.gradient.table import CONSTANT, RULES, Call, rule

__all__ = ["CONSTANT", "RULES", "Call", "rule"]
