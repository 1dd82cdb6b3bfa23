"""Control flow whose way is known while importing."""

from __future__ import annotations

from typing import Any

from ..context import NodeContext
from ..registry import converter


@converter("If")
def if_(n: NodeContext) -> Any:
    """The branch that a constant condition takes, in the place of the node."""
    taken = n.scalar(n[0], "the condition")
    then, other = n.attr("then_branch"), n.attr("else_branch")
    return n.importer.subgraph(then if taken else other, n.scope)
