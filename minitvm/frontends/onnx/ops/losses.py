"""Convert losses of classes: the standard's function bodies, after checking that the sizes fit."""

from __future__ import annotations

from typing import Any

from ...common.operand import Operand
from ..context import NodeContext
from ..registry import converter


@converter("NegativeLogLikelihoodLoss", since=12)
@converter("SoftmaxCrossEntropyLoss", since=12)
def loss(n: NodeContext) -> Any:
    """Return the loss of scores [n, classes, ..] for labels [n, ..], with weights [classes]."""
    scores, labels, weights = n[0], n[1], n.optional(2)
    if scores.ndim < 2:
        n.refuse(f"scores must have the shape [n, classes, ..], found {scores}")
    scores = n.reachable(scores, _counted(n, labels), 1)
    labels = n.fit(labels, (scores.shape[0], *scores.shape[2:]), "the labels")
    if weights is not None:
        weights = n.fit(weights, (scores.shape[1],), "the weights")
    return n.by_definition(scores, labels, weights)


def _counted(n: NodeContext, labels: Operand) -> Operand:
    """Return the labels without the ignored ones, if they are known."""
    ignored = n.attr("ignore_index", None)
    if ignored is None or labels.data is None or labels.is_symbolic:
        return labels
    return Operand.known(labels.data[labels.data != ignored])
