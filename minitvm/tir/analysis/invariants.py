"""Find ranges of the integers that a function stores and later uses as indices. Every store preserves these bounds.

We start from the strongest guess and move to the next one whenever some store is not proved to preserve it. The guesses
that remain once nothing changes are inductive: they hold before any store, and each store preserves them. An element
that has not been written is undefined, which interpreters report. The method is that of Houdini, an annotation
assistant for ESC/Java.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from ...arith import Analyzer
from ...arith.affine import structural_key
from ...expr import LE, Expr, IntImm, Var, const, find, match
from ...expr.visitor import handed_out, variables
from ..nodes import Block, Buffer, BufferStore, PrimFunc
from .effects import exposes

Refuted = Mapping[tuple[Buffer, int], int]  # how many guesses for an end (0: low, 1: high) a store violates


@dataclass(slots=True)
class Invariant:
    """Bounds on all elements of a buffer. The current bounds are the first of `lows` and the first of `highs`; refuted
    guesses are removed.
    """

    lows: list[Expr]
    highs: list[Expr]

    @property
    def ends(self) -> tuple[Expr | None, Expr | None]:
        return self.lows[0] if self.lows else None, self.highs[0] if self.highs else None


def invariants(
    func: PrimFunc,
    sizes: Iterable[Var],
    limits: Sequence[Expr],
    refuted: Callable[[Mapping[Buffer, Invariant]], Refuted],
) -> dict[Buffer, Invariant]:
    """Return the invariants of the integers that a function stores.

    `limits` are the extents that bound the indices computed from these integers. `refuted` walks the function under the
    current guesses and returns the refuted ones.
    """
    others = _written_elsewhere(func)
    stores = [s for s in find(func.body, BufferStore) if s.buffer.dtype.is_int and s.buffer not in others]
    guesses = _guesses(stores, frozenset(sizes), limits)
    while guesses:
        wrong = refuted(guesses)
        if not wrong:
            break
        for (buffer, end), count in wrong.items():
            ends = guesses[buffer].lows if end == 0 else guesses[buffer].highs
            del ends[:count]
    return guesses


def _written_elsewhere(func: PrimFunc) -> set[Buffer]:
    """Return the buffers that other code may have written: views and their sources, buffers whose address is passed,
    and arguments that are read before they are written.
    """
    others = set(handed_out(func.body))
    for block in find(func.body, Block):
        for view in block.match_buffers:
            others |= {view.buffer, view.source.buffer}
    stored = {s.buffer for s in find(func.body, BufferStore) if s.buffer.dtype.is_int}
    return others | {b for b in func.buffers if b in stored and exposes(func.body, b)}


def _guesses(stores: Sequence[BufferStore], sizes: frozenset[Var], limits: Sequence[Expr]) -> dict[Buffer, Invariant]:
    every = [*limits, *(d for b in {s.buffer: None for s in stores} for d in b.shape)]
    different = {structural_key(d): d for d in every if variables(d) <= sizes and not isinstance(d, IntImm)}
    ordered = _smallest_first(list(different.values()), sizes)
    numbers = {s.value.value for s in stores if isinstance(s.value, IntImm)} | {0, 1}
    numbers |= {n for d in every if isinstance(d, IntImm) for n in (d.value - 1, d.value, 2 * d.value)}
    guesses: dict[Buffer, Invariant] = {}
    for buffer in {s.buffer: None for s in stores}:
        dtype = buffer.dtype
        if dtype.bits < 32 or dtype == "uint64":
            continue
        dims = [d.astype(dtype) for d in ordered]
        known = [const(c, dtype) for c in sorted(numbers) if dtype.min <= c <= dtype.max]
        if dtype.kind == "uint":  # d - 1 wraps if d is 0, so only numbers are bounds
            guesses[buffer] = Invariant([const(0, dtype)], known)
            continue
        highs = [*known, *(d - const(1, dtype) for d in dims), *dims, *(d + d for d in dims)]
        guesses[buffer] = Invariant([const(0, dtype), const(-1, dtype)], highs)
    return guesses


def _smallest_first(dims: Sequence[Expr], sizes: Iterable[Var]) -> list[Expr]:
    analyzer = Analyzer(dict.fromkeys(sizes, (0, None)))
    ordered: list[Expr] = []
    for dim in dims:
        place = next((k for k, other in enumerate(ordered) if analyzer.can_prove(LE(*match(dim, other)))), len(ordered))
        ordered.insert(place, dim)
    return ordered
