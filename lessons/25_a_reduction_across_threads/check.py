"""Runs the learner's tree as a kernel: its races by the shadow mode, its order by the elements that each sum holds."""

from __future__ import annotations

from collections import Counter
from math import ceil, log2
from types import ModuleType
from typing import Any

import numpy as np
from hypothesis import strategies as st

from lessons.grading import attempt, cases, require
from minitvm import reference
from minitvm.expr import EQ, Call, DType, StringImm, Var, const
from minitvm.reference.meaning.findings import UndefinedBehaviour
from minitvm.tir.nodes import Allocate, Buffer, BufferStore, Evaluate, For, ForKind, If, PrimFunc, Seq, Stmt

BARRIER = Evaluate(Call(DType("int32"), "tvm_storage_sync", (StringImm("shared"),)))


def kernel(n: int, tree: list[list[tuple[int, int]]]) -> PrimFunc:
    """The tree over powers of two, whose sum says what is in it."""
    shared, out, thread = Buffer("S", (n,), "int64", scope="shared"), Buffer("R", (n,), "int64"), Var("t")
    parts: list[Stmt] = [BufferStore(shared, out[thread], (thread,))]
    for level in tree:
        parts.append(BARRIER)
        for to, source in level:
            added = BufferStore(shared, shared[const(to)] + shared[const(source)], (const(to),))
            parts.append(If(EQ(thread, const(to)), added))
    parts += [BARRIER, BufferStore(out, shared[thread], (thread,))]
    body = For(thread, const(0), const(n), ForKind.THREAD, Seq.of(*parts), "threadIdx.x")
    return PrimFunc((out,), Allocate(shared, body), {"global_symbol": "tree"})


def sum_of_first(n: int, tree: list[list[tuple[int, int]]]) -> int:
    """How many values element 0 holds in the end, if all pairs are in order."""
    ends = list(range(1, n + 1))
    for level in tree:
        for to, source in level:
            ends[to] = ends[source]
    return ends[0]


def order_broken(n: int, tree: list[list[tuple[int, int]]]) -> str | None:
    """The pair that takes values that are not right behind those of its element; None if there is none."""
    held = [(k, k + 1) for k in range(n)]
    for level in tree:
        for to, source in level:
            if held[to][1] != held[source][0]:
                return f"({to}, {source}): element {to} holds values {held[to][0]} to {held[to][1] - 1}"
            held[to] = (held[to][0], held[source][1])
    return None


def counted(n: int, tree: list[list[tuple[int, int]]]) -> Counter[int]:
    """How many times element 0 holds each value in the end, if no thread reads what another one writes in a level."""
    values = [Counter([k]) for k in range(n)]
    for level in tree:
        before = list(values)
        for to, source in level:
            values[to] = values[to] + before[source]
    return values[0]


def check(module: ModuleType) -> None:
    """Raises AssertionError with the smallest number of threads for which the tree is wrong."""

    def levels(n: int) -> Any:
        """The answer; it is called twice, and has to say the same."""
        first = repr(attempt(f"for {n} threads\n", module.levels, n))
        again = attempt(f"for {n} threads\n", module.levels, n)
        forgets = f"levels remembers something from call to call: levels({n}) was {first[:200]}"
        require(repr(again) == first, f"{forgets}\ncalled again, it is {repr(again)[:200]}")
        return again

    @cases(40, n=st.integers(1, 40))
    def it_adds_up_everything_in_few_levels(n: int) -> None:
        what = f"for {n} threads "
        tree = levels(n)
        pairs = [pair for level in tree for pair in level] if isinstance(tree, list) else None
        fits = pairs is not None and all(
            isinstance(p, tuple) and len(p) == 2 and all(isinstance(k, int) and 0 <= k < n for k in p) for p in pairs
        )
        require(fits, f"{what}levels returned {tree!r}; wanted lists of pairs of numbers below {n}")
        values = np.array([1 << k for k in range(n)], "int64")
        try:
            reference.kernel.run(kernel(n, tree), values, inout=["R"])
        except UndefinedBehaviour as error:
            require(False, f"{what}levels returned {tree}, and there are {error}")
        # The bits of a sum carry, so they do not say which value it lacks.
        holds = counted(n, tree)
        missing = [k for k in range(n) if not holds[k]]
        require(not missing, f"{what}levels returned {tree}, and the sum lacks value {missing[0]}" if missing else "")
        twice = [k for k in range(n) if holds[k] > 1]
        require(not twice, f"{what}levels returned {tree}, and value {twice[0]} is added twice" if twice else "")
        require(int(values[0]) == (1 << n) - 1, f"{what}levels returned {tree}, and the kernel's sum is {values[0]}")
        broken = order_broken(n, tree)
        require(broken is None, f"{what}levels returned {tree}, out of order at {broken}")
        fewest = ceil(log2(n)) if n > 1 else 0
        require(len(tree) <= fewest, f"{what}levels returned {len(tree)} levels; {fewest} are enough")
        require(len(pairs or ()) == n - 1, f"{what}levels returned {len(pairs or ())} pairs; {n - 1} are enough")

    # A block has at most 1024 threads; a tree may be larger. No kernel runs here.
    @cases(6, n=st.one_of(st.integers(41, 3000), st.just(1025)))
    def it_adds_up_many(n: int) -> None:
        tree = levels(n)
        broken = order_broken(n, tree)
        require(broken is None, f"levels({n}) is out of order at {broken}")
        last = sum_of_first(n, tree)
        require(last == n, f"after levels({n}) element 0 holds the values 0 to {last - 1}, wanted 0 to {n - 1}")
        fewest = ceil(log2(n))
        require(len(tree) <= fewest, f"levels({n}) has {len(tree)} levels; {fewest} are enough")
