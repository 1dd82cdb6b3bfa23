"""Turn a block's `init` into ordinary statements that run before the first step of its reduction.

If nothing else in the reduction's loops touches the buffer, the init gets its own loops before the outermost of them
(like `decompose_reduction`), and the reduction needs no condition. Otherwise the init stays in place, under the
condition that all reduction iterators have their first value.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ... import expr as ex
from ...arith import Analyzer, iter_map
from ..analysis.block_regions import with_declared_regions
from ..conditions import all_of, conjuncts, is_const, uses
from ..nodes import EMPTY_SUMS, Block, BlockRealize, BufferLoad, BufferStore, For, ForKind, If, PrimFunc, Seq, Stmt
from .unroll import bind


def lower_init(func: PrimFunc) -> PrimFunc:
    """Turn inits into statements: `for k: init: S0; body: S1` -> `S0; for k: S1`, or `for k: (if k == start: S0); S1`.

    before:
        for i, k in T.grid(4, 8):
            with T.block("C"):
                with T.init(): C[vi] = 0.0
                C[vi] = C[vi] + A[vi, vk]
    after:
        for i in range(4):
            with T.block("C_init"):
                vi = T.axis.remap("S", [i])
                C[vi] = 0.0
            for k in range(8):
                with T.block("C"):
                    vi, vk = T.axis.remap("SR", [i, k])
                    C[vi] = C[vi] + A[vi, vk]
    """
    return func.with_body(_InitLowering(EMPTY_SUMS in func.attrs).visit(func.body, ()))


class _InitLowering:
    def __init__(self, empty_sums: bool) -> None:
        self.empty_sums = empty_sums
        self.before: dict[ex.Var, list[Stmt]] = {}  # what must run before the loop over that variable

    def visit(self, node: Any, loops: tuple[For, ...]) -> Any:
        """Rebuild a statement; `loops` are the loops directly around it within its block, outermost first."""
        if not isinstance(node, Stmt):
            return node
        if isinstance(node, BlockRealize):
            return self.realize(node, loops)
        if not isinstance(node, For):
            # Only a plain nest may be split: any other statement around the block ends it.
            inner = loops if isinstance(node, Seq) else ()
            return ex.map_children(node, lambda child: self.visit(child, inner))
        body = self.visit(node.body, (*loops, node))
        loop = node if body is node.body else ex.replace(node, body=body)
        return Seq.of(*self.before.pop(node.var, []), loop)

    def realize(self, node: BlockRealize, loops: tuple[For, ...]) -> BlockRealize:
        block = node.block
        body = self.visit(block.body, ())
        if block.init is None:
            return node if body is block.body else ex.replace(node, block=ex.replace(block, body=body))
        nest = init_nest(node, loops, self.empty_sums)
        if nest is None:
            starts: list[ex.Expr] = [
                ex.EQ(axis.var, axis.dom.start) for axis in block.iter_vars if axis.kind == ex.REDUCE
            ]
            body = Seq.of(If(all_of(starts), block.init) if starts else block.init, body)
        else:
            self.before.setdefault(nest[0].var, []).append(nest[1])
        return ex.replace(node, block=ex.replace(block, init=None, body=body))


def init_nest(node: BlockRealize, loops: tuple[For, ...], empty_sums: bool = False) -> tuple[For, Stmt] | None:
    """Return (the loop before which to insert the init, the init in its own loops), or None if the init must stay in
    place.

    Moving the init is legal if no other statement in this loop touches the buffers that the init writes, if no
    statement writes memory that the init or its conditions and bounds read, if spatial and reduction loops are
    separate, and if the reduction has a first step. Every element is then still initialised exactly once before its
    first update. Symbolic sizes are assumed to be at least 1; with `empty_sums`, the init must run even if a symbolic
    extent is 0.
    """
    block = node.block
    reduced = _variables(node, block.iter_vars, reduction=True)
    spatial = _variables(node, block.iter_vars, reduction=False)
    binding = [i for i, loop in enumerate(loops) if loop.var in reduced and not is_const(loop.extent, 1)]
    reduced -= {loop.var for loop in loops if is_const(loop.extent, 1)}
    if not binding or reduced & spatial or block.init is None:
        return None
    first, inner = loops[binding[0]], loops[binding[0] :]
    if any(l.var not in reduced | spatial and not is_const(l.extent, 1) for l in inner):
        return None  # a loop that binds no iterator repeats the block, its init too
    ordered = all(loop.kind in (ForKind.SERIAL, ForKind.UNROLLED) for loop in inner if loop.var in reduced)
    analyzer = _where_sizes_are_not_0(node.predicate, loops)
    of_loops = {loop.var for loop in loops}
    runs = all(
        (empty_sums and not uses(loop.extent, of_loops)) or analyzer.can_prove(loop.extent > 0)
        for loop in inner
        if loop.var in reduced
    )
    if not ordered or not runs or not _begins(node, loops):
        return None
    conditions = conjuncts(node.predicate)
    kept = [c for c in conditions if not uses(c, reduced)]
    dropped = [c for c in conditions if uses(c, reduced)]
    starts = {loop.var: loop.start for loop in loops if loop.var in reduced}
    if any(uses(c, spatial) or not analyzer.can_prove(ex.substitute(c, starts)) for c in dropped):
        return None
    # A reduction loop of one iteration is included if a condition on spatial loops uses it.
    own = [l for l in inner if l.var in spatial or (is_const(l.extent, 1) and any(uses(c, {l.var}) for c in kept))]
    decides = [e for loop in own for e in (loop.start, loop.extent)]
    pairs = [(v, axis) for v, axis in zip(node.iter_values, block.iter_vars, strict=True) if axis.kind != ex.REDUCE]
    if any(uses(e, reduced) for e in decides):
        return None
    ends = [e for loop in inner for e in (loop.start, loop.extent)]  # they are evaluated after the init
    if not _alone(block, block.init, [*ends, *kept, *(v for v, _ in pairs)], first):
        return None
    if not _elements_of_their_own(block, block.init, {a.var: v for v, a in pairs}, own):
        return None
    body: Stmt = BlockRealize(node.iter_values, all_of(kept), _init_block(block, block.init))
    # Iterators that are not spatial do not occur in an init; their values are removed with them.
    body = ex.replace(body, iter_values=tuple(v for v, _ in pairs))
    for loop in reversed(own):
        body = ex.replace(loop, body=body)
    return first, bind(body, {})


def _begins(node: BlockRealize, loops: tuple[For, ...]) -> bool:
    """Return whether the reduction starts where its loops start. If not, the loops are a later part of the reduction,
    for which the init does not run.
    """
    starts = {loop.var: loop.start for loop in loops}
    axes = [
        (v, axis.dom.start)
        for v, axis in zip(node.iter_values, node.block.iter_vars, strict=True)
        if axis.kind == ex.REDUCE
    ]
    return all(Analyzer().can_prove_equal(ex.substitute(value, starts), first) for value, first in axes)


def _where_sizes_are_not_0(predicate: ex.Expr, loops: tuple[For, ...]) -> Analyzer:
    """Return an analyzer for the inside of the loops around a block. It assumes that no symbolic size is 0."""
    analyzer = Analyzer()
    for part in [predicate, *(e for loop in loops for e in (loop.start, loop.extent))]:
        for size in ex.free_vars(part):
            if isinstance(size, ex.SizeVar):
                analyzer.bind(size, (1, None))
    for loop in loops:
        analyzer.bind(loop)
    return analyzer


def _init_block(block: Block, init: Stmt) -> Block:
    axes = tuple(axis for axis in block.iter_vars if axis.kind != ex.REDUCE)
    return with_declared_regions(Block(axes, (), (), f"{block.name}_init", init))


def _variables(node: BlockRealize, axes: tuple[ex.IterVar, ...], reduction: bool) -> set[ex.Var]:
    values = [v for v, axis in zip(node.iter_values, axes, strict=True) if (axis.kind == ex.REDUCE) is reduction]
    return {item for v in values for item in ex.find(v, ex.Var)}


def _alone(block: Block, init: Stmt, decides: Sequence[ex.Expr], loop: For) -> bool:
    """Return whether the init may move out of a loop: nothing else in the loop touches its buffers, and none of its
    inputs change there.

    Only this block may touch the buffers that its init writes. No statement may write memory that the init reads, or
    that decides whether and where the init runs or how often its loops run.
    """
    written = {n.buffer for n in ex.find(init, BufferStore)}
    read = {n.buffer for n in ex.find(init, BufferLoad)} - written
    read |= {n.buffer for e in decides for n in ex.find(e, BufferLoad)}
    settled = not any(isinstance(n, BufferStore) and n.buffer in read for n in ex.walk(loop.body))
    return settled and _touches(loop.body, written) == _touches(block, written)


def _elements_of_their_own(block: Block, init: Stmt, values: Mapping[ex.Var, ex.Expr], own: Sequence[For]) -> bool:
    """Return whether the iterations of the init's loops write different elements, so that all of them may run first.

    If a block stores several elements at a time, we trust its declaration that its loops are spatial.
    """
    loops = {loop.var: ex.Range(loop.start, loop.extent) for loop in own if not is_const(loop.extent, 1)}
    if not loops or ex.contains(init, For | Block):
        return True
    stores = {n.buffer: n for n in ex.find(init, BufferStore)}
    for node in ex.walk(block):
        if isinstance(node, BufferLoad | BufferStore) and node.buffer in stores:
            first = stores[node.buffer].indices
            if not all(ex.structural_equal(a, b) for a, b in zip(node.indices, first, strict=True)):
                return False
    places = [[ex.substitute(i, values) for i in store.indices] for store in stores.values()]
    return all(iter_map.detect(place, loops, level="injective") for place in places)


def _touches(stmt: Stmt, buffers: set[Any]) -> int:
    return sum(isinstance(n, BufferLoad | BufferStore) and n.buffer in buffers for n in ex.walk(stmt))
