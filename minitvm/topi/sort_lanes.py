"""Data-oblivious sorts: their steps do not depend on the data, so schedules can sort many lines at once, each in one
vector lane.

Elements are pairs of a key and a position in one integer (`placed_key`). So a step only needs the minimum and the
maximum of two elements, and equal elements keep their order.
"""

from __future__ import annotations

from typing import Any

from .. import te
from ..expr import Expr, as_expr
from ..tir.nodes import PrimFunc
from .sort_keys import place_in, placed_key

LONGEST = 1024  # elements of a line whose keys, in all lanes of a vector, stay in the L2 cache
LINES = 8  # lanes of a vector of keys: with fewer lines, some lanes are idle
MOST = 40  # elements that are inserted into, one statement each: in registers, or near them


def exchanges(extent: int) -> int:
    """Return how many pairs `merge_exchange` compares in a line of `extent` elements."""
    rounds, pairs = max(extent - 1, 0).bit_length(), 0
    for a in range(rounds):
        step = 1 << rounds - 1 - a
        for c in range(a + 1):
            firsts = max(extent - (step if c == 0 else (1 << rounds - c) - step), 0)
            without = firsts // (2 * step) * step + min(firsts % (2 * step), step)  # those without the step's bit
            pairs += without if c == 0 else firsts - without
    return pairs


def insertion(extent: Any, k: int, dtype: str, ascending: bool, index: str) -> PrimFunc:
    """Return a function that finds the values and indices of the first k elements by insertion.

    The elements found so far are kept in order, and a new element moves the elements after it.
    """
    from ..tir.script import builtins as T

    @T.prim_func
    def insertion(x: T.Buffer((extent,), dtype), values: T.Buffer((k,), dtype), indices: T.Buffer((k,), index)) -> None:
        first = T.alloc_buffer((k,), "int64", scope="local")
        new = T.alloc_buffer((1,), "int64", scope="local")
        for i in T.unroll(k):
            first[i] = T.max_value("int64")
        for j in range(extent):
            new[0] = placed_key(x[j], j, ascending)
            # From the last place on, the elements after the new one move by one.
            for i in T.unroll(k - 1):
                first[k - 1 - i] = T.Select(
                    new[0] < first[k - 2 - i], first[k - 2 - i], T.min(new[0], first[k - 1 - i])
                )
            first[0] = T.min(new[0], first[0])
        for i in T.unroll(k):
            indices[i] = T.Cast(index, place_in(first[i], extent))
            values[i] = x[place_in(first[i], extent)]

    return insertion


def merge_exchange(extent: int, k: int, dtype: str, ascending: bool, index: str) -> PrimFunc:
    """Return a function that finds the indices of the first k elements, in order, with Batcher's sorting network.

    Each round compares and exchanges elements at a fixed distance: 2^r, then 2^q - 2^r for decreasing q. (Knuth, TAOCP
    3, 5.2.2, algorithm M.)
    """
    from ..tir.script import builtins as T

    rounds = max(extent - 1, 1).bit_length()

    def step(a: Expr) -> Expr:
        return as_expr(1) << (rounds - 1 - a)

    def distance(a: Expr, c: Expr) -> Expr:
        return te.select(c == as_expr(0), step(a), (as_expr(1) << (rounds - c)) - step(a))

    def side(a: Expr, c: Expr) -> Expr:
        return te.select(c == as_expr(0), as_expr(0), step(a))

    @T.prim_func
    def merge_exchange(x: T.Buffer((extent,), dtype), indices: T.Buffer((k,), index)) -> None:
        keys = T.alloc_buffer((extent,), "int64", scope="local")
        earlier = T.alloc_buffer((1,), "int64", scope="local")
        for j in range(extent):
            keys[j] = placed_key(x[j], j, ascending)
        for a in range(rounds):
            for c in range(a + 1):
                for i in range(extent - distance(a, c)):
                    if (i & step(a)) == side(a, c):
                        earlier[0] = T.min(keys[i], keys[i + distance(a, c)])
                        keys[i + distance(a, c)] = T.max(keys[i], keys[i + distance(a, c)])
                        keys[i] = earlier[0]
        for i in range(k):
            indices[i] = T.Cast(index, place_in(keys[i], extent))

    return merge_exchange
