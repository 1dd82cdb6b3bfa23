"""skip_zero_terms: leave out terms of a sum that are zero because a factor is nonzero only at every s-th element."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ....arith import Analyzer
from ....expr import REDUCE, Add, Expr, IntImm, IterVar, Range, Var, call, const, replace, substitute
from ...analysis.accesses import update_operand
from ...analysis.block_regions import with_declared_regions
from ...analysis.zero_patterns import ZeroPattern, factors, zero_pattern
from ...conditions import is_const, uses
from ...nodes import BlockRealize, BufferLoad, BufferStore, For, Stmt
from .. import requirements as req
from ..access_remapping import with_simple_indices
from ..registry import Failure, primitive, requirement
from ..state import ScheduleState
from .kinds import serial_loop


@dataclass(frozen=True)
class Summed:
    """The sum along a loop: the block below the loop, the iterator that the loop alone binds, and the term it adds.

    A part is None if it could not be found.
    """

    block: BlockRealize | None
    iterator: IterVar | None = None
    store: BufferStore | None = None
    operand: Expr | None = None


def _summed(state: ScheduleState, loop: For) -> Summed:
    blocks = state.home(loop).blocks_in(loop)
    if len(blocks) != 1:
        return Summed(None)
    block = blocks[0]
    values = zip(block.block.iter_vars, block.iter_values, strict=True)
    iterator = next((it for it, value in values if value is loop.var), None)
    store = block.block.body
    if not isinstance(store, BufferStore) or not isinstance(store.value, Add):
        return Summed(block, iterator)
    return Summed(block, iterator, store, update_operand(store))


@requirement
def one_block_below(state: ScheduleState, loop: For, match: Summed) -> Failure | None:
    """below the loop there are only loops and one block, and exactly one iterator of this block depends on the loop"""
    inner: list[For] = []
    at: Stmt = loop.body
    while isinstance(at, For):
        inner.append(at)
        at = at.body
    if at is not match.block or match.block is None:
        return Failure({loop: "this loop"}, "loops and one block below the loop", f"a {type(at).__name__}")
    bound = [value for value in match.block.iter_values if value is not loop.var]
    around = [*bound, match.block.predicate, *(l.start for l in inner), *(l.extent for l in inner)]
    if len(bound) + 1 != len(match.block.iter_values) or any(uses(e, [loop.var]) for e in around):
        fault = f"{loop.var.name} is no iterator's value by itself, or occurs elsewhere"
        return Failure({loop: "this loop"}, "a loop that is the value of one iterator, and nothing else", fault)
    return None


@requirement
def whole_reduction_axis(state: ScheduleState, loop: For, match: Summed) -> Failure | None:
    """the iterator is a reduction iterator, and the loop covers its whole domain, from 0 to a constant"""
    iterator = match.iterator
    assert iterator is not None  # one_block_below
    extent = loop.extent.value if isinstance(loop.extent, IntImm) else None
    whole = all(is_const(start, 0) for start in (loop.start, iterator.dom.start))
    if iterator.kind == REDUCE and whole and extent is not None and is_const(iterator.dom.extent, extent):
        return None
    kind = "a reduction" if iterator.kind == REDUCE else "no reduction"
    domain = f"from {iterator.dom.start}, {iterator.dom.extent} values"
    fault = f"{loop.var.name} runs {loop.extent} times, {iterator.var.name} is {kind} iterator ({domain})"
    return Failure({loop: "this loop"}, "a loop over the whole of one reduction iterator, of constant extent", fault)


@requirement
def adds_a_product(state: ScheduleState, match: Summed) -> Failure | None:
    """the block adds a load, a product of loads, or 0 to an element whose position does not depend on the iterator"""
    assert match.block is not None and match.iterator is not None  # one_block_below
    body = match.block.block.body
    if match.store is None or not list(factors(match.operand)):
        added = body.value if isinstance(body, BufferStore) else type(body).__name__
        return Failure({body: "here"}, "X = X + e, where e is a load or a product of loads", f"X = {added}")
    if any(uses(index, [match.iterator.var]) for index in match.store.indices):
        return Failure({body: "here"}, f"a sum over {match.iterator.var.name}", "it is an index of the result")
    return None


@requirement
def finite_factors(state: ScheduleState, match: Summed, assume_finite: bool) -> Failure | None:
    """the dtype is an integer, or assume_finite is set, because 0 * inf is not 0 for floats"""
    assert match.store is not None  # adds_a_product
    if assume_finite or not match.store.buffer.dtype.is_float:
        return None
    fault, ways = f"{match.store.buffer.name} is {match.store.buffer.dtype}", ("assume_finite=True",)
    return Failure({match.store: "here"}, "integers, or floats that are known to be finite", fault, ways)


@requirement
def zeros_in_steps(state: ScheduleState, loop: For, match: Summed) -> Failure | None:
    """one factor is an element of a buffer that is 0 except at every s-th element

    A single store fills this buffer, and writes 0 to every element p for which f(p) % s != 0. For the element that the
    factor reads, f is a*k + g, where k is the iterator, a has no common factor with s, and g does not depend on k.
    """
    if _pattern(state, loop, match) is not None:
        return None
    assert match.store is not None and match.iterator is not None
    expected = "a factor that is zero but for every s-th iteration"
    names = ", ".join(load.buffer.name for load in factors(match.operand))
    fault = f"no such pattern along {match.iterator.var.name} in {names}"
    return Failure({match.store: "here"}, expected, fault)


def _pattern(state: ScheduleState, loop: For, match: Summed) -> ZeroPattern | None:
    assert match.iterator is not None  # one_block_below
    return zero_pattern(state.home(loop).func, match.operand, match.iterator.var)


@primitive(
    past="runs only over terms that may not be zero",
    requires=[
        serial_loop, req.plain_loops, one_block_below, whole_reduction_axis, adds_a_product, finite_factors,
        zeros_in_steps,
    ],
    match=_summed,
)  # fmt: skip
def skip_zero_terms(state: ScheduleState, match: Summed, loop: For, assume_finite: bool = False) -> None:
    """Skip the terms of a sum that are zero because a factor is nonzero only in every s-th iteration of the loop.

    before:
        A = T.alloc_buffer((11,))
        for x in range(11):
            with T.block("A"): A[vx] = T.if_then_else(vx % 2 == 0, D[vx // 2], T.float32(0.0))
        for i, k in T.grid(8, 4):
            with T.block("B"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init(): B[vi] = T.float32(0.0)
                B[vi] = B[vi] + A[vi + vk] * W[vk]
    call: `sch.skip_zero_terms(k, assume_finite=True)`
    after:
        A = T.alloc_buffer((11,))
        for x in range(11):
            with T.block("A"): A[vx] = T.if_then_else(vx % 2 == 0, D[vx // 2], T.float32(0.0))
        for i, k in T.grid(8, 2):
            with T.block("B"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init(): B[vi] = T.float32(0.0)
                B[vi] = B[vi] + A[vk * 2 - (0 - vi) // 2 * 2] * W[vk * 2 - (0 - vi) // 2 * 2 - vi]

    For example, a transposed convolution is a convolution of data with zeros between the elements, and this primitive
    separates its phases, that is, the groups of results that use the same weights (Shi et al., "Is the deconvolution
    layer the same as a convolutional layer?", 2016). In general, the term of iteration k may be nonzero only if a*k + g
    is a multiple of s, that is, if k = -g/a (mod s). The first such k is z % s, where z = -g * (1/a mod s), and the
    others follow in steps of s. If s does not divide the extent, terms beyond the end are 0. The remaining terms keep
    their order.
    """
    pattern = _pattern(state, loop, match)
    block, iterator, store, operand = match.block, match.iterator, match.store, match.operand
    assert pattern is not None and block is not None and iterator is not None  # zeros_in_steps
    assert store is not None and operand is not None and isinstance(loop.extent, IntImm)
    step, extent, dtype = pattern.step, loop.extent.value, iterator.var.dtype
    taken = iterator.var * step + pattern.first
    count = -(-extent // step)
    old = block.block
    domains = tuple(
        replace(it, dom=Range(it.dom.start, const(count, dtype))) if it is iterator else it for it in old.iter_vars
    )
    term: Expr = substitute(operand, {iterator.var: taken})
    if extent % step:
        inside = Analyzer.inside(*domains).simplify(taken < extent)
        term = call("if_then_else", inside, term, const(0, term.dtype))
    value = Add(BufferLoad(store.buffer, store.indices), term)
    shorter = replace(old, iter_vars=domains, body=BufferStore(store.buffer, value, store.indices))
    shorter = with_simple_indices(shorter, state.analyzer(state.home(loop).scope(block)))
    state.replace({old: with_declared_regions(shorter)})
    now = state.loop(loop.var)
    assert now is not None  # only its body changed
    state.replace({now: replace(now, extent=const(count, loop.extent.dtype))})


@skip_zero_terms.space
def _skip_zero_terms_space(state: ScheduleState) -> Iterator[tuple[Any, ...]]:
    tree = state.tree()
    for block in tree.blocks.values():
        reduced = [it for it in block.block.iter_vars if it.kind == REDUCE]
        for it, value in zip(block.block.iter_vars, block.iter_values, strict=True):
            loop = tree.loops.get(value) if it in reduced and isinstance(value, Var) else None
            if loop is not None:
                yield (loop,)
                yield loop, True


def _sum(of: str, dtype: str = "int32") -> str:
    """Return a program that sums over k with a buffer A in which only every second element is nonzero."""
    buffers = "".join(f"{name}: T.Buffer((12,), '{dtype}')\n" for name in "BDEW")
    zero = "0" if dtype == "int32" else "T.float32(0.0)"
    return (
        f"{buffers}A = T.alloc_buffer((12,), '{dtype}')\n"
        "for x in range(12):\n"
        f"  with T.block('A'): A[vx] = T.if_then_else(vx % 2 == 0, D[vx], {zero})\n"
        "for i, k in T.grid(8, 4):\n"
        "  with T.block('B'):\n"
        "    vi, vk = T.axis.remap('SR', [i, k])\n"
        f"    with T.init(): B[vi] = {zero}\n"
        f"    B[vi] = {of}\n"
    )


skip_zero_terms.refuses(serial_loop, "sch.unroll(k); sch.skip_zero_terms(k)")
skip_zero_terms.refuses(req.plain_loops, "sch.annotate(k, 'note', 1); sch.skip_zero_terms(k)")
skip_zero_terms.refuses(one_block_below, "k_0, k_1 = sch.split(k, [2, 2]); sch.skip_zero_terms(k_0, True)")
skip_zero_terms.refuses(whole_reduction_axis, "sch.skip_zero_terms(i, True)")
skip_zero_terms.refuses(adds_a_product, "sch.skip_zero_terms(k)", before=_sum("T.max(B[vi], A[vi + vk])"))
skip_zero_terms.refuses(finite_factors, "sch.skip_zero_terms(k)")
skip_zero_terms.refuses(zeros_in_steps, "sch.skip_zero_terms(k)", before=_sum("B[vi] + E[vi + vk] * W[vk]"))
