"""Check whether the map from a block's loops to its iterators is injective, quasi-affine, and onto the whole domain.

The functions apply `arith.iter_map` to the bindings of a block and report the result in terms that schedules use.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ...arith import Analyzer, iter_map, regions
from ...arith.affine import multiply
from ...arith.dependence import Access, find_dependence
from ...arith.iter_check import values
from ...arith.iter_detector import IterMap, IterSum
from ...expr import OPAQUE, REDUCE, SPATIAL, Expr, IterVar, Range, Var, free_vars, substitute, walk
from ..conditions import conjuncts, is_const, reads_memory, uses
from ..nodes import BlockRealize, For


def loops_binding(realize: BlockRealize, kinds: Iterable[str]) -> set[Var]:
    """Return the variables used in the bindings of a block's iterators whose kind is in `kinds`."""
    accepted = tuple(kinds)
    return {
        part
        for it, value in zip(realize.block.iter_vars, realize.iter_values, strict=True)
        if it.kind in accepted
        for part in walk(value)
        if isinstance(part, Var)
    }


def loop_ranges(loops: Sequence[For]) -> dict[Var, Range]:
    """Return the range of each loop variable."""
    return {loop.var: Range(loop.start, loop.extent) for loop in loops}


def iteration_map(realize: BlockRealize, loops: Sequence[For], analyzer: Analyzer, level: str) -> IterMap:
    """Return a block's iterators as a quasi-affine map of `loops`. Other variables are fixed, and the predicate is
    ignored.
    """
    return _mapped(realize.iter_values, loop_ranges(loops), analyzer, level)


def _mapped(values: Sequence[Expr], ranges: Mapping[Var, Range], analyzer: Analyzer, level: str) -> IterMap:
    """Detect the map of the simplified values, or of the values as written if that fails.

    Both are tried because simplification can hide the structure. For example, `(16*a + b) // 9` and `a + (7*a + b) //
    9` are equal, but only the first is a part of one iterator.
    """
    simple = iter_map.detect([analyzer.simplify(v) for v in values], ranges, level=level, analyzer=analyzer)
    return simple or iter_map.detect(values, ranges, level=level, analyzer=analyzer) or simple


def why_not_injective(
    realize: BlockRealize, loops: Sequence[For], analyzer: Analyzer, together: bool = False
) -> str | None:
    """Return None if `loops` map injectively to the iterators of a block, otherwise the reason. Other variables are
    fixed.

    Loops of extent 1 are ignored. Each iterator alone must determine the loops that it depends on, as in TVM.
    `together` also accepts spatial iterators such as `i, w - i`, which determine i and w only together.
    """
    mapping = iteration_map(realize, loops, analyzer, "injective")
    if mapping:
        return None
    if mapping.repeats is None:
        # After simplification `(8 * a + b) // 5` is `a + (3 * a + b) // 5`, which is not a sum of parts of loops: use
        # integer sets.
        return None if _shown_injective(realize, loops) else mapping.errors[0]
    if together and _reduces_alone(realize, loops, analyzer) and _shown_injective(realize, loops):
        return None
    name = realize.block.iter_vars[mapping.repeats].var.name
    return f"{name} = {realize.iter_values[mapping.repeats]} takes one value at several iterations"


def why_not_started_first(block: BlockRealize, loops: Sequence[For], analyzer: Analyzer) -> str | None:
    """Return None if each reduction iterator is at the start of its domain when its loops are at their start; otherwise
    return the reason.

    If an iterator starts later, the init, which belongs to the start of the domain, would run too late or never.
    """
    starts: dict[Var, Expr] = {}
    for l in loops:
        starts[l.var] = substitute(l.start, starts)
    for it, value in zip(block.block.iter_vars, block.iter_values, strict=True):
        if it.kind != REDUCE:
            continue
        mine: dict[Var, Expr] = {v: starts[v] for v in free_vars(value) if v in starts}
        first = analyzer.simplify(substitute(value, mine))
        if not analyzer.can_prove_equal(first, it.dom.start):
            return f"{it.var.name} = {value} is {first} at first, and T.init() belongs to {it.dom.start}"
    return None


def why_not_initialised(realize: BlockRealize, loops: Sequence[For], analyzer: Analyzer) -> str | None:
    """Return None if the block has no init, or if its init runs before the first update of each element; otherwise
    return the reason.

    Without such an init, the reduction continues from old values, so a new buffer that replaces the old one would have
    to be filled first.
    """
    if realize.block.init is None:
        return None
    # If the reduction has loops of its own, the iterations of one element begin when these loops are at their start.
    reduced, spatial = loops_binding(realize, (REDUCE,)), loops_binding(realize, (SPATIAL, OPAQUE))
    own = [l for l in loops if l.var in reduced]
    reason = why_not_started_first(realize, own, analyzer)
    if reason is not None:
        return reason
    if any(l.var in spatial for l in own) and not covers_domain(realize, loops, analyzer):
        return f"the loops of the reduction iterators of block {realize.block.name} bind spatial ones too"
    starts: dict[Var, Expr] = {l.var: l.start for l in own}
    for condition in conjuncts(realize.predicate):
        if uses(condition, list(starts)) and not analyzer.can_prove(substitute(condition, starts)):
            return f"block {realize.block.name} runs only where {condition}, which may leave out its T.init()"
    return None


def _reduces_alone(realize: BlockRealize, loops: Sequence[For], analyzer: Analyzer) -> bool:
    """Return whether the reduction iterators have their own loops, and each iterator determines the values of its
    loops.
    """
    # In `for i, j: B[i + j] += A[i + j, i]` the order of loops decides whether an element starts before its first step.
    reduced, spatial = loops_binding(realize, (REDUCE,)), loops_binding(realize, (SPATIAL, OPAQUE))
    values = [v for v, it in zip(realize.iter_values, realize.block.iter_vars, strict=False) if it.kind == REDUCE]
    own = loop_ranges([l for l in loops if l.var in reduced])
    return not reduced & spatial and bool(iter_map.detect(values, own, level="injective", analyzer=analyzer))


def _shown_injective(realize: BlockRealize, loops: Sequence[For]) -> bool:
    """Return whether any two iterations of `loops` provably give the iterators different values.

    Only iterations in which the predicate holds are considered.
    """
    domain = loop_ranges([l for l in loops if not is_const(l.extent, 1)])
    point = Access("iterators", tuple(realize.iter_values), domain, True, realize.predicate)
    order: tuple[Any, ...] = tuple(domain)
    every = tuple(range(len(order)))
    return find_dependence([point], {point: order}, {point: order}, every) is None


def not_quasi_affine(realize: BlockRealize, loops: Sequence[For], analyzer: Analyzer) -> tuple[IterVar, Expr] | None:
    """Return the first iterator whose value is not a quasi-affine function of `loops`, together with that value; None
    if all are.
    """
    if iteration_map(realize, loops, analyzer, "none"):
        return None
    ranges = loop_ranges(loops)
    return next(
        (it, value)
        for it, value in zip(realize.block.iter_vars, realize.iter_values, strict=True)
        if not _mapped([value], ranges, analyzer, "none")
    )


def box_of_iterations(loops: Sequence[For]) -> bool:
    """Return whether the loops iterate over a full box: no range depends on the variable of another loop."""
    variables = [l.var for l in loops]
    return not any(uses(e, variables) for l in loops for e in (l.start, l.extent))


def reaches_every_point(indices: Sequence[Expr], domains: Mapping[Var, Range], analyzer: Analyzer) -> bool:
    """Return whether the indices reach every point of their bounding box while the variables run over `domains`."""
    around = regions.evaluate(indices, domains, analyzer)
    if around.exact:
        return True
    # If a fused loop was split in another way (`a // 2` here and `a % 2` there), the parts of the loops decide.
    if around.unbounded or any(uses(e, domains) for r in domains.values() for e in (r.start, r.extent)):
        return False
    with analyzer.constraint():
        for var, r in domains.items():
            analyzer.bind(var, r)
        simple = [analyzer.simplify(index) for index in indices]  # `(4 * a + b) // 4` is `a` where b is below 4
    mapping = iter_map.detect(simple, domains, level="surjective", analyzer=analyzer)
    return bool(mapping) and all(_reaches(row, r, analyzer) for row, r in zip(mapping.sums, around.box, strict=True))


# A surjective map reaches every combination of its bindings' values, so it covers a domain that is no larger in any
# dimension.
def covers_domain(realize: BlockRealize, loops: Sequence[For], analyzer: Analyzer) -> bool:
    """Return whether the block's iterators reach every point of its domain. The predicate is ignored."""
    mapping = iteration_map(realize, loops, analyzer, "surjective")
    return (
        bool(mapping)
        and box_of_iterations(loops)
        and all(_reaches(row, it.dom, analyzer) for row, it in zip(mapping.sums, realize.block.iter_vars, strict=True))
    )


def runs_everywhere(realize: BlockRealize, loops: Sequence[For], analyzer: Analyzer) -> bool:
    """Return whether the block runs at every point of its domain. Iterations in which the predicate is false do not
    count.
    """
    ranges = loop_ranges(loops)
    mapping = iter_map.detect(realize.iter_values, ranges, realize.predicate, "surjective", analyzer)
    return (
        bool(mapping)
        and not reads_memory(realize.predicate)
        and box_of_iterations(loops)
        and all(_reaches(row, it.dom, analyzer) for row, it in zip(mapping.sums, realize.block.iter_vars, strict=True))
    )


def _reaches(row: IterSum, domain: Range, analyzer: Analyzer) -> bool:
    reached = values(row)
    start, extent = analyzer.normal_form(domain.start), analyzer.normal_form(domain.extent)
    if reached is None or start is None or extent is None:
        return False
    first, count = reached
    at_least_zero = analyzer.domain.nonnegative
    for split in row.args:  # `i % 72` does not take all its values if the loop may have fewer iterations
        last = multiply(split.lower_factor, split.extent - 1)
        if last is None or not at_least_zero(split.mark.extent - 1 - last):
            return False
    return at_least_zero(start - first) and at_least_zero(first + count - start - extent)
