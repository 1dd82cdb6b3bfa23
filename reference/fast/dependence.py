"""Guess which loops the fast mode may run all at once; the run verifies the guess.

A loop that claims independent iterations (parallel, vectorised, threads) is a candidate. A serial loop is a candidate
if its variable determines every element that it writes, in buffers that live longer than one iteration. Neither is
sufficient; `reference.fast.tracking` watches the accesses during the run.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import Any
from weakref import WeakKeyDictionary

from minitvm import expr as x
from minitvm.tir import nodes as t

from ..meaning.index_arithmetic import note_reach
from ..meaning.settings import INDEPENDENT


def facts_of(func: t.PrimFunc) -> Dependence:
    """Return the facts about a function; they are cached as long as the function lives."""
    facts = _FACTS.get(func)
    if facts is None:
        facts = _FACTS[func] = Dependence(func)
    return facts


class Dependence:
    """Facts about one function that do not change from run to run."""

    def __init__(self, func: t.PrimFunc) -> None:
        self.bindings: dict[x.Var, list[x.Expr]] = {}
        self.sources: dict[t.Buffer, t.BufferRegion] = {}
        self.ranges: dict[x.Var, list[x.Expr]] = {}
        self.reach: dict[x.Var, int] = {}  # see `reference.meaning.index_arithmetic.reaches`
        self.size = 10  # steps that it costs to begin a run
        for count, node in enumerate(x.walk(func.body)):
            self.size = 10 + count // 4
            note_reach(self.reach, node)
            if isinstance(node, t.BlockRealize):
                for iterator, value in zip(node.block.iter_vars, node.iter_values, strict=True):
                    self.bindings.setdefault(iterator.var, []).append(value)
            elif isinstance(node, t.LetStmt | x.Let):
                self.bindings.setdefault(node.var, []).append(node.value)
            elif isinstance(node, t.MatchBufferRegion):
                self.sources[node.buffer] = node.source
            elif isinstance(node, t.For):
                self.ranges.setdefault(node.var, []).extend((node.start, node.extent))
        self.several_masks: set[t.Buffer] = set()  # found out by runs; see `reference.fast.tracking.SeveralMasks`
        self.in_order: set[t.For] = set()  # loops whose iterations met in a run, though they look independent
        self.compiled: dict[Any, Any] = {}  # by `reference.meaning.runner`, for each way to run
        self.levels: dict[Any, Any] = {}  # by `reference.fast.lockstep`, which needs them for each of these ways
        self._used: dict[x.Var, frozenset[x.Var]] = {}

    def root(self, buffer: t.Buffer) -> t.Buffer:
        """Return the buffer that a view finally refers to, through all views."""
        while buffer in self.sources:
            buffer = self.sources[buffer].buffer
        return buffer

    def variables(self, e: x.Node) -> frozenset[x.Var]:
        """Return the loop variables and parameters that a value depends on, through blocks, lets and loaded indices."""
        variables: set[x.Var] = set()
        for node in x.walk(e):
            if isinstance(node, x.Var):
                variables |= self._of_variable(node)
            elif isinstance(node, t.BufferLoad):
                variables |= self._of_view(node.buffer)
        return frozenset(variables)

    def _of_variable(self, var: x.Var) -> frozenset[x.Var]:
        if var not in self._used:
            self._used[var] = frozenset((var,))  # a variable that is bound in terms of itself is not looked into again
            bound = self.bindings.get(var)
            if bound is not None:
                self._used[var] = frozenset().union(*(self.variables(e) for e in bound))
            # A loop variable depends on the variables that its range depends on.
            for e in self.ranges.get(var, ()):
                self._used[var] |= self.variables(e)
        return self._used[var]

    def _of_view(self, buffer: t.Buffer) -> frozenset[x.Var]:
        if buffer not in self.sources:
            return frozenset()
        region = self.sources[buffer]
        starts = frozenset().union(*(self.variables(r.start) for r in region.region))
        return starts | self._of_view(region.buffer)

    def of_access(self, buffer: t.Buffer, indices: Iterable[x.Expr]) -> frozenset[x.Var]:
        """Return the variables that determine which element an access touches."""
        return self._of_view(buffer).union(*(self.variables(i) for i in indices))

    def resolved(self, e: x.Expr) -> x.Expr | None:
        """Return an index in terms of loop variables; None if a binding is not unique or a value is loaded."""
        for _ in range(20):
            bound = {v: self.bindings[v] for v in x.free_vars(e) if v in self.bindings}
            if any(len(values) > 1 for values in bound.values()):
                return None
            if not bound:
                return None if any(isinstance(n, t.BufferLoad) for n in x.walk(e)) else e
            e = x.substitute(e, {v: values[0] for v, values in bound.items()})
        return None

    @cached_property
    def _candidates(self) -> dict[t.For, bool]:
        return {}

    def candidate(self, loop: t.For) -> bool:
        """Return whether the iterations of a loop may be independent, judged by its text."""
        decisions = self._candidates
        if loop not in decisions:
            decisions[loop] = self._decide(loop)
        return decisions[loop]

    def _decide(self, loop: t.For) -> bool:
        if isinstance(loop.extent, x.IntImm) and loop.extent.value <= 1:
            return False
        inside = list(x.walk(loop.body))
        if any(isinstance(n, t.While | t.KernelCall) for n in inside):
            return False
        own = allocated_in(inside)
        # In a parallel loop, `if i < 1` may hold a write by the first iteration only, without i in any index.
        claimed = loop.kind in INDEPENDENT
        for node in inside:
            if isinstance(node, t.BufferStore) and not claimed and self.root(node.buffer) not in own:
                if loop.var not in self.of_access(node.buffer, node.indices):
                    return False
            elif isinstance(node, t.BlockRealize):
                for iterator, value in zip(node.block.iter_vars, node.iter_values, strict=True):
                    if iterator.kind == x.OPAQUE and loop.var in self.variables(value):
                        return False
        return True


_FACTS: WeakKeyDictionary[t.PrimFunc, Dependence] = WeakKeyDictionary()


def allocated_in(nodes: Iterable[x.Node]) -> set[t.Buffer]:
    """Return the buffers that are allocated in these nodes."""
    buffers: set[t.Buffer] = set()
    for node in nodes:
        if isinstance(node, t.Allocate):
            buffers.add(node.buffer)
        elif isinstance(node, t.Block):
            buffers |= set(node.alloc_buffers)
    return buffers


def accesses_in(nodes: Iterable[x.Node]) -> list[tuple[t.Buffer, tuple[x.Expr, ...], bool]]:
    """Return (buffer, indices, whether it writes) of every access."""
    return [
        (n.buffer, n.indices, isinstance(n, t.BufferStore))
        for n in nodes
        if isinstance(n, t.BufferLoad | t.BufferStore)
    ]
