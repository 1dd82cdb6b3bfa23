"""Turn caches that a model extends by Concat into states of constant size.

    past [.., p, ..]                  becomes        cache [.., bound, ..], a state
    present = Concat(past, new)                      cache = cache_update(cache, new, at=p)
                                                     present = cache[.., :p + k, ..]

The number p is then no longer the size of an input. But exporters declare the length `p + k` for another input, the
mask, so p is this length minus the k new tokens.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ...errors import UnsupportedOperator
from ...expr import LE, Expr, as_expr
from ...graph.nodes import Dim
from ...topi.shapes import simple
from ..common.operand import Operand

if TYPE_CHECKING:
    from .context import NodeContext


@dataclass(frozen=True, slots=True)
class Grown:
    """A cache whose first places along `axis` hold the past. Including `added` new entries, `whole` places are in
    use.
    """

    cache: Operand
    axis: int
    whole: Dim
    added: int

    @property
    def past(self) -> Dim:
        """The length of the past."""
        return simple(self.whole - self.added)

    def cut(self, cache: Operand, end: Dim) -> dict[str, Any]:
        """Return the attributes of a slice from the start up to `end`."""
        return {"begin": (0,), "end": (end,), "strides": (1,), "axes": (self.axis % cache.ndim,)}

    def extended(self, n: NodeContext, new: Operand) -> tuple[Operand, Operand]:
        """Return the cache with the new rows, and the part of it that the model sees."""
        places = self.cache.shape[self.axis]
        if isinstance(self.whole, Expr):
            new = n.builder.required(new, [LE(self.whole, as_expr(places))], n.where)
        elif isinstance(places, int) and self.whole > places:
            n.refuse(f"{self.whole} places of {places}")
        first = Operand.known(np.array([self.past], object), "int64")
        position = n.op("broadcast_to", first, shape=(self.cache.shape[0],))
        cache = n.op("nn.cache_update", self.cache, new, position, axis=self.axis)
        seen: Operand = n.op("strided_slice", cache, **self.cut(cache, self.whole))
        if isinstance(self.whole, Expr):  # the slice ends at the bound as well, which the guard makes idle
            seen = n.assume(seen, (seen.shape[self.axis % seen.ndim], self.whole))
        return cache, seen


def extends(graph: Any, name: str) -> bool:
    """Return whether the model appends to an input with Concat."""
    return any(node.op_type == "Concat" and list(node.input)[:1] == [name] for node in graph.node)


def length_with_new(
    past: str, declared: Mapping[str, Sequence[int | str] | None], symbols: Mapping[str, Dim], name: str
) -> tuple[str, int]:
    """Return the dimension `past + k` of an input, and the number k of new tokens.

    Raises `UnsupportedOperator` if no input has such a dimension, or if k is symbolic.
    """
    for dims in declared.values():
        for dim in dims or ():
            sum_ = re.fullmatch(re.escape(past) + r"\s*\+\s*(\w+)", dim) if isinstance(dim, str) else None
            if sum_ is not None:
                added = int(sum_[1]) if sum_[1].isdigit() else symbols.get(sum_[1])
                if isinstance(added, int):
                    return str(dim), added
                raise UnsupportedOperator(
                    f"the state {name} grows by {sum_[1]} tokens a run\n"
                    "  try:    shapes={...}, which gives that a size"
                )
    raise UnsupportedOperator(
        f"the state {name} grows by Concat, and no input says how long it is: none has a dimension {past} + ...\n"
        "  try:    a model that updates its caches where they lie: GroupQueryAttention, TensorScatter"
    )
