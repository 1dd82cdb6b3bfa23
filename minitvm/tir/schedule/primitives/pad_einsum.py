"""pad_einsum: pad the extents of iterators to multiples of given numbers."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from .... import expr as ex
from ....arith import Analyzer
from ...analysis.accesses import update_operand
from ...analysis.block_kinds import Scope, why_neither
from ...analysis.block_regions import buffers_read, buffers_written, with_declared_regions
from ...analysis.boxes import with_buffer
from ...analysis.surely import all_read, writes_all
from ...analysis.tree import statements
from ...conditions import all_of, conjuncts, is_const
from ...nodes import Block, BlockRealize, Buffer, BufferLoad, BufferStore, ForKind, Stmt
from .. import programs as on
from ..access_remapping import point_block
from ..insertion import Insertion, InsertionPoint
from ..registry import Failure, primitive, requirement
from ..staging import is_input
from ..state import ScheduleState


@requirement
def einsum_block(state: ScheduleState, block: BlockRealize, padding: Sequence[int]) -> Failure | None:
    """the block is complete or a reduction and stores to one buffer; each padded iterator is an index on its own, and
    runs over the whole dimension that it indexes
    """
    tree = state.home(block)
    old = block.block
    reason = why_neither(Scope.around(tree, block), block)
    accesses = list(ex.find(old, BufferLoad | BufferStore))
    domains = {it.var: it.dom for it in old.iter_vars}
    valid = len(padding) == len(domains) and all(isinstance(p, int) and p > 0 for p in padding)  # `valid_padding`
    grown = set(_grown(old, padding)) if valid else set(domains)
    spot: ex.Node = old
    analyzer = Analyzer()
    if reason is None and (old.match_buffers or old.alloc_buffers or not isinstance(old.body, BufferStore)):
        reason = "the body is more than one store"
    for access in accesses if reason is None else ():
        name = access.buffer.name
        for index, dim in zip(access.indices, access.buffer.shape, strict=True):
            if not grown & set(ex.free_vars(index)):
                continue
            if not isinstance(index, ex.Var) or index not in domains:
                reason = f"{name} is indexed by {index}"
            elif not (is_const(domains[index].start, 0) and analyzer.can_prove_equal(domains[index].extent, dim)):
                reason = f"{index.name} runs over {domains[index].extent} of the {dim} elements of {name}"
        if len({i for i in access.indices if isinstance(i, ex.Var)}) != sum(
            isinstance(i, ex.Var) for i in access.indices
        ):
            reason = f"{name} is indexed by one iterator twice"
        if reason is not None:
            spot = access if isinstance(access, BufferStore) else old.body
            break
    if reason is None:
        return None
    expected = "indices that are iterators over whole dimensions, where these are padded, in one store"
    return Failure({spot: "here"}, expected, reason)


@requirement
def trivial_binding(state: ScheduleState, block: BlockRealize) -> Failure | None:
    """each iterator is bound to one loop around the block

    These loops are serial, start at 0 and contain nothing else, and there is no predicate.
    """
    tree = state.home(block)
    loops = tree.loops_above(block)
    expected = "one serial loop for each iterator, and nothing else in them"
    if conjuncts(block.predicate):
        return Failure({block: "this predicate"}, expected, f"the block runs only where {block.predicate}")
    bound = list(block.iter_values)
    for it, value in zip(block.block.iter_vars, bound, strict=True):
        if not any(value is l.var for l in loops) or sum(value is other for other in bound) != 1:
            return Failure({block.block: "its bindings"}, expected, f"{it.var.name} = {value}")
    for l in loops:
        own = next((it for it, v in zip(block.block.iter_vars, bound, strict=True) if v is l.var), None)
        if own is None or l.kind != ForKind.SERIAL or not is_const(l.start, 0):
            fault = "binds no iterator" if own is None else f"is {l.kind} and starts at {l.start}"
            return Failure({l: "this loop"}, expected, f"{l.var.name} {fault}")
        if not Analyzer().can_prove_equal(l.extent, own.dom.extent):
            fault = f"{l.var.name} runs over {l.extent}, {own.var.name} over {own.dom.extent}"
            return Failure({l: "this loop"}, expected, fault)
    at = tree.parent[block]
    for l in reversed(loops):
        if at is not l:
            return Failure({l: "this loop"}, expected, f"a {type(at).__name__} between {l.var.name} and the block")
        at = tree.parent[l]
    if not loops:
        return Failure({block.block: "this block"}, expected, "no loop")
    return None


@requirement
def iterates(state: ScheduleState, block: BlockRealize, padding: Sequence[int]) -> Failure | None:
    """if the result is padded, each loop whose iterator does not index the result has at least one iteration

    A symbolic size counts as at least 1. Without an iteration, the block would never write the result, but the result
    would be copied back.
    """
    stores = [stmt for stmt in statements(block.block) if isinstance(stmt, BufferStore)]
    indices = {index for store in stores for index in store.indices if isinstance(index, ex.Var)}
    if not indices & _grown(block.block, padding).keys():
        return None
    # Where a loop over an index runs 0 times, the result has no elements that could be copied.
    bound = zip(block.iter_values, block.block.iter_vars, strict=True)
    over_result = {value for value, it in bound if it.var in indices}
    tree = state.home(block)
    dimensions = {dim for buffer in tree.func.buffers for dim in buffer.shape}
    for l in tree.loops_above(block):
        if l.var in over_result:
            continue
        analyzer = Analyzer()
        for size in ex.free_vars(l.extent):
            if isinstance(size, ex.SizeVar) or size in dimensions:
                analyzer.bind(size, (1, None))
        if not analyzer.can_prove(l.extent > 0):
            return Failure({l: "this loop"}, "at least one iteration", f"{l.var.name} runs {l.extent} times")
    return None


@requirement
def valid_padding(state: ScheduleState, block: BlockRealize, padding: Sequence[int]) -> Failure | None:
    """there is one positive integer for each iterator"""
    count = len(block.block.iter_vars)
    if len(padding) == count and all(isinstance(p, int) and p > 0 for p in padding):
        return None
    names = ", ".join(it.var.name for it in block.block.iter_vars)
    return Failure({block.block: f"iterates over {names}"}, f"{count} positive integers", str(list(padding)))


@requirement
def padding_adds_nothing(state: ScheduleState, block: BlockRealize, padding: Sequence[int]) -> Failure | None:
    """if loads of padded elements return the reduction's neutral element (0 for +, 1 for *, the lowest value for max,
    the highest for min), a padded iteration combines this element into the result

    This must hold whatever else the iteration reads. For example, 0 times an unpadded float may be NaN. Iterations that
    are padded only in spatial iterators compute elements that are never read, but must not divide by a padded zero.
    """
    old = block.block
    grown = _grown(old, padding)
    body = old.body
    assert isinstance(body, BufferStore)  # einsum_block
    for node in ex.walk(body):
        divides = isinstance(node, ex.FloorDiv | ex.FloorMod | ex.Mod | ex.Div) and node.dtype.is_int
        if divides and not isinstance(node.b, ex.IntImm) and grown:  # type: ignore[attr-defined]
            return Failure({body: "here"}, "no integer division by what may be padding", str(node))
    for it in old.iter_vars:
        if it.kind == ex.SPATIAL and it.var in grown and not any(i is it.var for i in body.indices):
            return Failure(
                {body: "here"}, "a result indexed by each spatial iterator that is padded", f"{it.var.name} is no index"
            )
    reduced = [v for v in grown if any(it.var is v and it.kind == ex.REDUCE for it in old.iter_vars)]
    if not reduced:
        return None
    operand = update_operand(body)
    if operand is None:
        return Failure({body: "here"}, "a reduction X = X op e, with op one of +, *, min, max", str(body.value))
    neutral = _neutral(body)
    for var in reduced:
        contribution = _Padded({var}, neutral).value(operand)
        if contribution != neutral:
            name = {ex.Add: "+", ex.Mul: "*", ex.Min: "min", ex.Max: "max"}[type(body.value)]  # type: ignore[index]
            what = "not known to be so" if contribution is None else f"{contribution:g}"
            return Failure(
                {body: f"reduces over {var.name}"},
                f"{neutral:g}, neutral for {name}, combined where {var.name} is padding",
                f"{operand} is {what} there",
            )
    return None


def _neutral(store: BufferStore) -> float:
    dtype = store.buffer.dtype
    kind = type(store.value)
    if kind is ex.Add or kind is ex.Mul:
        return 0.0 if kind is ex.Add else 1.0
    if dtype.is_float:
        return -math.inf if kind is ex.Max else math.inf
    return dtype.min if kind is ex.Max else dtype.max


class _Padded:
    """Evaluates an expression for an iteration in the padding. The result is a number, or None if the value
    is unknown.
    """

    def __init__(self, variables: set[ex.Var], pad: float) -> None:
        self.variables = variables
        self.pad = pad

    def value(self, e: ex.Expr) -> float | None:
        """Return the value that `e` has in the padding if it is the same for any data; None otherwise."""
        if isinstance(e, ex.IntImm | ex.FloatImm):
            return e.value if isinstance(e, ex.IntImm) else float(e.value)
        if isinstance(e, BufferLoad):
            return self.pad if any(isinstance(i, ex.Var) and i in self.variables for i in e.indices) else None
        if isinstance(e, ex.Cast) or (isinstance(e, ex.Call) and e.op == "round_tf32"):
            inside = self.value(e.value if isinstance(e, ex.Cast) else e.args[0])
            # A value that both dtypes can represent.
            return inside if inside in (0, 1) else None
        if isinstance(e, ex.BinaryOp):
            return self.combined(e, self.value(e.a), self.value(e.b))
        return None

    def combined(self, e: ex.BinaryOp, a: float | None, b: float | None) -> float | None:
        """Return the result of an operation on two values in the padding; None if it is unknown."""
        if a is None or b is None:
            zero = isinstance(e, ex.Mul) and e.dtype.is_int and 0 in (a, b)
            return 0 if zero else None
        if isinstance(e, ex.Mul):
            result = a * b
        elif isinstance(e, ex.Add | ex.Sub):
            result = a + b if isinstance(e, ex.Add) else a - b
        elif isinstance(e, ex.Min | ex.Max):
            result = min(a, b) if isinstance(e, ex.Min) else max(a, b)
        else:
            return None
        fits = e.dtype.is_float or e.dtype.min <= result <= e.dtype.max
        return result if fits and not math.isnan(result) else None


def _grown(block: Block, padding: Sequence[int]) -> dict[ex.Var, ex.Expr]:
    """Return the padded extent of each iterator whose extent changes."""
    analyzer = Analyzer()
    extents: dict[ex.Var, ex.Expr] = {}
    for it, factor in zip(block.iter_vars, padding, strict=True):
        extent = analyzer.simplify((it.dom.extent + (factor - 1)) // factor * factor)
        if not analyzer.can_prove_equal(extent, it.dom.extent):
            extents[it.var] = extent
    return extents


@requirement
def one_shape_each(state: ScheduleState, block: BlockRealize, padding: Sequence[int]) -> Failure | None:
    """if two accesses to a buffer pad the same dimension, they pad it to the same extent"""
    shapes: dict[tuple[Buffer, int], ex.Expr] = {}
    grown = _grown(block.block, padding)
    for access in ex.walk(block.block):
        if not isinstance(access, BufferLoad | BufferStore):
            continue
        for d, index in enumerate(access.indices):
            if not isinstance(index, ex.Var):
                continue
            extent = grown.get(index, access.buffer.shape[d])
            earlier = shapes.setdefault((access.buffer, d), extent)
            if earlier is not extent and not Analyzer().can_prove_equal(earlier, extent):
                name = access.buffer.name
                return Failure(
                    {block.block: "this block"},
                    f"one padded shape of {name}",
                    f"dimension {d} of {name} becomes {earlier} and {extent}",
                )
    return None


@requirement
def copies_have_values(state: ScheduleState, block: BlockRealize, padding: Sequence[int]) -> Failure | None:
    """every element that is copied has a value

    If the result is padded, the block writes all of it. If a buffer that the block reads is padded, one of these
    conditions holds: the block reads every element, another block writes every element, or the buffer is an input that
    no block writes.
    """
    tree = state.home(block)
    around = tree.parent[tree.loops_above(block)[0]]  # where the copies go
    scope, analyzer = tree.scope(block), state.analyzer(block)
    results = set(buffers_written(block.block))
    for buffer in _padded_buffers(block.block, _grown(block.block, padding)):
        expected = f"every element of {buffer.name} that is copied has a value"
        if buffer in results:
            if not writes_all(tree, block, buffer, around):
                found = f"it is not shown that {block.block.name} writes all of {buffer.name}"
                return Failure({block.block: f"writes {buffer.name}"}, expected, found)
            continue
        writers = Scope.around(tree, block).writers(buffer)
        if (
            not is_input(tree, buffer)
            and not all_read(tree, [block], buffer.full_region(), around, analyzer)
            and not any(writes_all(tree, writer, buffer, scope.block) for writer in writers)
        ):
            found = f"it is not shown that a block writes, or {block.block.name} reads, all of {buffer.name}"
            return Failure({block.block: f"reads {buffer.name}"}, expected, found)
    return None


@primitive(
    past="was padded",
    requires=[
        einsum_block, trivial_binding, valid_padding, iterates, one_shape_each, padding_adds_nothing,
        copies_have_values,
    ],
)  # fmt: skip
def pad_einsum(state: ScheduleState, block: BlockRealize, padding: list[int]) -> None:
    """Pad the extents of a block's iterators to multiples of `padding`, and use padded copies of its buffers.

    before:
        for i, k in T.grid(7, 5):
            with T.block("B"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init(): B[vi] = T.float32(0.0)
                B[vi] = B[vi] + A[vi, vk]
    call: `sch.pad_einsum("B", [1, 4])`
    after:
        A_pad = T.alloc_buffer((7, 8))
        for i0, i1 in T.grid(7, 8):
            with T.block("A_pad"):
                v0, v1 = T.axis.remap("SS", [i0, i1])
                A_pad[v0, v1] = T.if_then_else(v1 < 5, A[v0, v1], T.float32(0.0))
        for i, k in T.grid(7, 8):
            with T.block("B"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init(): B[vi] = T.float32(0.0)
                B[vi] = B[vi] + A_pad[vi, vk]

    The padding is filled with the neutral element of the reduction (TVM always uses 0). If the result is padded, a new
    block copies its unpadded part to the old buffer.
    """
    tree = state.home(block)
    old = block.block
    grown = _grown(old, padding)
    copies = _padded_buffers(old, grown)
    loops = tree.loops_above(block)
    values = dict(zip(block.iter_values, old.iter_vars, strict=True))
    nest: Stmt = ex.replace(block, block=_widened(old, grown, copies))
    for l in reversed(loops):
        nest = ex.replace(l, extent=grown.get(values[l.var].var, l.extent), body=nest)
    step = Insertion(tree, Scope.around(tree, block), {loops[0]: nest}, allocated=[*copies.values()])
    reduces = any(it.kind == ex.REDUCE and it.var in grown for it in old.iter_vars)
    pad = _neutral(old.body) if isinstance(old.body, BufferStore) and reduces else 0.0
    written = set(buffers_written(old))
    for buffer, padded in copies.items():
        copy = _copy_out(padded, buffer) if buffer in written else _copy_in(buffer, padded, pad)
        step.copies.append((InsertionPoint(tree.parent[loops[0]], loops[0], after=buffer in written), copy))
    step.apply(state)


_ROW_BY_ROW = """
for i in range(4):
    with T.block("rows"):
        vi = T.axis.spatial(4, i)
        for j in range(3):
            with T.block("B"): B[vi, vj] = A[vi, vj] + 1.0
"""
_SCALED_SUMS = """
for i, k in T.grid(7, 5):
    with T.block("C"):
        with T.init(): C[v_i] = 0.0
        C[v_i] = C[v_i] + A[v_i, v_k] * s[0]
"""
_GRAM = """
for i, j, k in T.grid(5, 5, 5):
    with T.block("C"):
        with T.init(): C[vi, vj] = 0.0
        C[vi, vj] = C[vi, vj] + A[vi, vk] * A[vj, vk]
"""
pad_einsum.refuses(einsum_block, "sch.pad_einsum('C', [3, 4])", on.CHAIN)
pad_einsum.refuses(trivial_binding, "sch.split(i, [2, 4]); sch.pad_einsum('C', [4, 4, 4])", on.MATMUL)
pad_einsum.refuses(valid_padding, "sch.pad_einsum('C', [4, 0])", on.MATMUL)
pad_einsum.refuses(iterates, "sch.pad_einsum('C', [4, 1])", on.NO_TERMS)
pad_einsum.refuses(one_shape_each, "sch.pad_einsum('C', [4, 3, 1])", _GRAM)
pad_einsum.refuses(padding_adds_nothing, "sch.pad_einsum('C', [1, 4])", _SCALED_SUMS)
pad_einsum.refuses(copies_have_values, "sch.pad_einsum('B', [4])", _ROW_BY_ROW)


def _padded_buffers(block: Block, grown: Mapping[ex.Var, ex.Expr]) -> dict[Buffer, Buffer]:
    """Return a larger buffer for each buffer that is indexed by a padded iterator. Buffers that are read come first, in
    order of first use.
    """
    shapes: dict[Buffer, list[ex.Expr]] = {}
    accesses = list(ex.find(block, BufferLoad | BufferStore))
    for buffer in (*buffers_read(block), *buffers_written(block)):
        shapes.setdefault(buffer, list(buffer.shape))
    for access in accesses:
        shape = shapes.setdefault(access.buffer, list(access.buffer.shape))
        for d, index in enumerate(access.indices):
            if isinstance(index, ex.Var) and index in grown:
                shape[d] = grown[index]
    padded: dict[Buffer, Buffer] = {}
    for buffer, new_shape in shapes.items():
        if any(a is not b for a, b in zip(new_shape, buffer.shape, strict=True)):
            padded[buffer] = Buffer(
                f"{buffer.name}_pad",
                tuple(new_shape),
                buffer.dtype,
                buffer.scope,
                align=buffer.align,
                device=buffer.device,
            )
    return padded


def _widened(block: Block, grown: Mapping[ex.Var, ex.Expr], copies: Mapping[Buffer, Buffer]) -> Block:
    changed: ex.Node = ex.replace(
        block,
        iter_vars=tuple(
            ex.replace(it, dom=ex.Range(it.dom.start, grown.get(it.var, it.dom.extent))) for it in block.iter_vars
        ),
    )
    for buffer, padded in copies.items():
        changed = with_buffer(changed, buffer, padded, lambda box: box)
    assert isinstance(changed, Block)
    # A region that was simplified for the old domain (`A[0]` for one iteration) is too small for the new domain.
    return with_declared_regions(changed)


def _copy_in(source: Buffer, copy: Buffer, pad: float) -> Stmt:
    """Return a nest that copies a buffer into a larger one and fills the remaining elements with `pad`."""

    def store(point: tuple[ex.Var, ...]) -> BufferStore:
        inside = [v < d for v, d, c in zip(point, source.shape, copy.shape, strict=True) if d is not c]
        value = ex.call("if_then_else", all_of(inside), source[point], ex.const(pad, source.dtype))
        return BufferStore(copy, value, point)

    return point_block(copy.name, copy.shape, store, loop_name="i")


def _copy_out(copy: Buffer, target: Buffer) -> Stmt:
    """Return a nest that copies the elements of a buffer back from a larger one."""
    return point_block(copy.name, target.shape, lambda v: BufferStore(target, copy[v], v), loop_name="i")


@pad_einsum.space
def _pad_space(state: ScheduleState) -> Iterator[tuple[Any, ...]]:
    tree = state.tree()
    for block in tree.blocks.values():
        count = len(block.block.iter_vars)
        if block is not tree.root and count:
            for factor in (2, 4, 3):
                yield block, [factor] * count
            for k in range(count):
                yield block, [4 if d == k else 1 for d in range(count)]
