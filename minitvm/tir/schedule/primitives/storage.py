"""Where and how a buffer is stored: storage_align, set_scope, unsafe_set_dtype; annotate_buffer_access."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ....arith import Analyzer, regions
from ....errors import MinitvmError
from ....expr import SCALARS, Cast, DType, Expr, Node, Range, as_expr, replace, rewrite, walk
from ...analysis.accesses import handed_out
from ...analysis.boxes import Box
from ...analysis.declared import declared_regions
from ...analysis.threads import owns
from ...analysis.tree import Tree
from ...annotations import ALIGNMENTS
from ...conditions import reads_memory
from ...nodes import (
    CONCURRENT,
    Block,
    BlockRealize,
    Buffer,
    BufferLoad,
    BufferRegion,
    BufferStore,
    For,
    ForKind,
)
from ..lambdas import IndexLambda
from ..registry import Failure, primitive, requirement
from ..requirements import known_scope
from ..staging import free_name, listing, region_of, scoped_name
from ..state import ScheduleState
from ..thread_storage import passes_on
from ..views import views_on, with_buffers


@requirement
def written_buffer(state: ScheduleState, block: BlockRealize, buffer_index: int | str | Buffer) -> Failure | None:
    """buffer_index is the position, or the name, of a buffer that the block writes"""
    if region_of(block.block.writes, buffer_index) is not None:
        return None
    expected = f"one of the buffers that {block.block.name} writes, which are {listing(block.block.writes)}"
    return Failure({block.block: "this block"}, expected, repr(buffer_index))


@requirement
def allocated(state: ScheduleState, block: BlockRealize, buffer_index: int | str | Buffer) -> Failure | None:
    """the buffer is allocated by a block of the function: how a parameter is stored is the caller's affair"""
    buffer = _buffer(block, buffer_index)
    if _owner(state.home(block), buffer) is not None:
        return None
    kind = "a parameter" if buffer in state.home(block).func.params else "a view"
    return Failure({block.block: f"writes {buffer.name}"}, "a buffer that the function allocates",
                   f"{buffer.name} is {kind}", ("cache_write, and do this to the copy",))  # fmt: skip


@requirement
def axis_of_buffer(
    state: ScheduleState, block: BlockRealize, buffer_index: int | str | Buffer, axis: int
) -> Failure | None:
    """-ndim <= axis < ndim"""
    buffer = _buffer(block, buffer_index)
    if -buffer.ndim <= axis < buffer.ndim:
        return None
    return Failure(
        {block.block: f"writes {buffer.name}"}, f"an axis from {-buffer.ndim} to {buffer.ndim - 1}", str(axis)
    )


@requirement
def alignment(state: ScheduleState, block: BlockRealize, factor: int, offset: int) -> Failure | None:
    """factor > 0 and 0 <= offset < factor: the stride is offset modulo factor"""
    if factor > 0 and 0 <= offset < factor:
        return None
    return Failure(
        {block.block: ""}, "a factor above zero and an offset from 0 to below it", f"factor={factor}, offset={offset}"
    )


def _buffer(block: BlockRealize, index: int | str | Buffer) -> Buffer:
    region = region_of(block.block.writes, index)
    assert region is not None  # written_buffer holds
    return region.buffer


def _owner(tree: Tree, buffer: Buffer) -> BlockRealize | None:
    """The block that allocates a buffer, None where none does."""
    return next((b for b in tree.blocks.values() if buffer in b.block.alloc_buffers), None)


@primitive(requires=[written_buffer, allocated, axis_of_buffer, alignment])
def storage_align(
    state: ScheduleState, block: BlockRealize, buffer_index: int, axis: int, factor: int, offset: int
) -> None:
    """Let the stride of one dimension of a buffer be `offset` modulo `factor`: rows no longer meet in one cache set
    or memory bank.

    before:
        B = T.alloc_buffer((8, 8))
        for i, j in T.grid(8, 8):
            with T.block("B"): B[vi, vj] = A[vi, vj] * 2.0
        for i, j in T.grid(8, 8):
            with T.block("C"): C[vi, vj] = B[vi, vj] + 1.0
    call: `sch.storage_align("B", 0, axis=-2, factor=32, offset=1)`
    after:
        B = T.alloc_buffer((8, 8))
        for i, j in T.grid(8, 8):
            with T.block("B"):
                T.block_attr({"buffer_dim_align": [[0, 0, 32, 1]]})
                B[vi, vj] = A[vi, vj] * 2.0
        for i, j in T.grid(8, 8):
            with T.block("C"): C[vi, vj] = B[vi, vj] + 1.0

    Lowering gives B the strides (129, 1). Indices stay what they are, so the meaning of the program stays.
    """
    buffer = _buffer(block, buffer_index)
    number = next(k for k, region in enumerate(block.block.writes) if region.buffer is buffer)
    axis %= buffer.ndim
    earlier = [list(entry) for entry in block.block.annotations.get(ALIGNMENTS, ())]
    kept = [entry for entry in earlier if entry[:2] != [number, axis]]
    entries = sorted([*kept, [number, axis, factor, offset]])
    state.replace({block.block: replace(block.block, annotations={**block.block.annotations, ALIGNMENTS: entries})})


@storage_align.space
def _storage_align_space(state: ScheduleState) -> Iterator[tuple[Any, ...]]:
    for block, number, buffer in _written(state.tree()):
        for axis in range(buffer.ndim):
            yield block, number, axis, 8, 1
        if buffer.ndim > 1:
            yield block, number, -2, 5, 0


def _written(tree: Tree) -> Iterator[tuple[BlockRealize, int, Buffer]]:
    for block in tree.blocks.values():
        for number, region in enumerate(block.block.writes):
            if _owner(tree, region.buffer) is not None:
                yield block, number, region.buffer


# ---- set_scope -----------------------------------------------------------------------------------------------------


@requirement
def one_owner(
    state: ScheduleState, block: BlockRealize, buffer_index: int | str | Buffer, storage_scope: str
) -> Failure | None:
    """whoever owns the storage alone touches it; iterations that run in no order do not meet there

    All accesses stand in the same loops of those that divide the storage: threads and parallel loops for "local" and
    whatever else is not global or shared, block indices (and parallel loops) for "shared". Iterations of such a loop
    pass nothing on to each other.
    """
    tree = state.home(block)
    buffer = _buffer(block, buffer_index)
    if buffer.scope == storage_scope:
        return None
    places: list[tuple[BlockRealize, frozenset[For]]] = []
    concurrent: list[For] = []
    for other in tree.blocks.values():
        if any(r.buffer is buffer for r in (*other.block.reads, *other.block.writes)) and not tree.blocks_in(other):
            around = tree.all_loops_above(other)
            places.append((other, frozenset(l for l in around if l.kind == ForKind.PARALLEL or owns(l, storage_scope))))
            concurrent += [l for l in around if l.kind in CONCURRENT]
    for loop in dict.fromkeys(concurrent):
        if passes_on(state, tree, loop, buffer, storage_scope):
            return Failure(
                {loop: f"{loop.thread or loop.kind}: its iterations run in no order"},
                f"iterations of {loop.var.name} that meet in no element of {buffer.name} in {storage_scope} storage",
                f"one may read or overwrite there what another has written to {buffer.name}",
            )
    if storage_scope.startswith("global"):
        return None
    for other, loops in places[1:]:
        if loops != places[0][1]:
            loop = next(iter(loops ^ places[0][1]))
            kind = loop.thread or str(loop.kind)
            inside, outside = (other, places[0][0]) if loop in loops else (places[0][0], other)
            return Failure(
                {loop: f"{kind}: has its own {storage_scope} storage", outside.block: f"touches {buffer.name} outside"},
                f"{buffer.name} touched inside {loop.var.name} only: its iterations share no {storage_scope} storage",
                f"{inside.block.name} is inside, {outside.block.name} is not",
                ("compute_at, to bring both together",),
            )
    return None


@primitive(requires=[written_buffer, allocated, known_scope, one_owner])
def set_scope(state: ScheduleState, block: BlockRealize, buffer_index: int | str | Buffer, storage_scope: str) -> None:
    """Let a buffer live in another scope: "shared", "local", ... All who use it follow.

    before:
        B = T.alloc_buffer((8, 8))
        for i, j in T.grid(8, 8):
            with T.block("B"): B[vi, vj] = A[vi, vj] * 2.0
        for i, j in T.grid(8, 8):
            with T.block("C"): C[vi, vj] = B[vi, vj] + 1.0
    call: `sch.set_scope("B", 0, "shared")`
    after:
        B_shared = T.alloc_buffer((8, 8), scope="shared")
        for i, j in T.grid(8, 8):
            with T.block("B"): B_shared[vi, vj] = A[vi, vj] * 2.0
        for i, j in T.grid(8, 8):
            with T.block("C"): C[vi, vj] = B_shared[vi, vj] + 1.0
    """
    tree = state.home(block)
    buffer = _buffer(block, buffer_index)
    if buffer.scope == storage_scope:
        return
    moved = {buffer: replace(buffer, name=free_name(tree, scoped_name(buffer, storage_scope)), scope=storage_scope)}
    for view in views_on(tree.func.body, buffer):
        moved[view] = replace(view, scope=storage_scope)
    state.set_func(tree, tree.func.with_body(with_buffers(tree.func.body, moved)))


@set_scope.space
def _set_scope_space(state: ScheduleState) -> Iterator[tuple[Any, ...]]:
    for block, number, buffer in _written(state.tree()):
        for scope in ("local", "shared", "global"):
            if scope != buffer.scope:
                yield block, number, scope


# ---- unsafe_set_dtype ----------------------------------------------------------------------------------------------


@requirement
def numeric_dtype(
    state: ScheduleState, block: BlockRealize, buffer_index: int | str | Buffer, dtype: str
) -> Failure | None:
    """dtype, like the buffer's own, is that of one number: an integer or a float"""
    try:
        requested = DType(dtype)
    except (MinitvmError, ValueError):
        numeric = ", ".join(name for name in SCALARS if name != "bool")
        return Failure({block.block: ""}, f"the dtype of a number: {numeric}", repr(dtype))
    own = _buffer(block, buffer_index).dtype
    for each in (requested, own):
        if each.lanes != 1 or each.kind not in ("int", "uint", "float", "bfloat"):
            return Failure({block.block: ""}, "the dtype of a number", f"{each}")
    return None


@requirement
def plain_accesses(state: ScheduleState, block: BlockRealize, buffer_index: int | str | Buffer) -> Failure | None:
    """the buffer, and a view of it, is loaded and stored only: no intrinsic is given its address"""
    tree = state.home(block)
    buffer = _buffer(block, buffer_index)
    all_ = {buffer, *views_on(tree.func.body, buffer)}
    for node in walk(tree.func.body):
        if handed_out(node) in all_:
            return Failure({node: "takes its address"}, "loads and stores only", str(node))
    return None


@primitive(requires=[written_buffer, allocated, numeric_dtype, plain_accesses], kind="UnsafeSetDType")
def unsafe_set_dtype(state: ScheduleState, block: BlockRealize, buffer_index: int | str | Buffer, dtype: str) -> None:
    """Let a buffer hold numbers of another dtype: stores convert to it, loads convert back.

    before:
        B = T.alloc_buffer((8, 8))
        for i, j in T.grid(8, 8):
            with T.block("B"): B[vi, vj] = A[vi, vj] * 2.0
        for i, j in T.grid(8, 8):
            with T.block("C"): C[vi, vj] = B[vi, vj] + 1.0
    call: `sch.unsafe_set_dtype("B", 0, "float16")`
    after:
        B = T.alloc_buffer((8, 8), "float16")
        for i, j in T.grid(8, 8):
            with T.block("B"): B[vi, vj] = T.Cast("float16", A[vi, vj] * 2.0)
        for i, j in T.grid(8, 8):
            with T.block("C"): C[vi, vj] = T.Cast("float32", B[vi, vj]) + 1.0

    Unsafe, as its name says: what the dtype cannot hold is rounded, so the meaning stays only where all fits.
    """
    tree = state.home(block)
    old = _buffer(block, buffer_index)
    new_dtype = DType(dtype)
    moved = {b: replace(b, dtype=new_dtype) for b in (old, *views_on(tree.func.body, old))}

    def change(at: Node) -> Node | None:
        if isinstance(at, BufferLoad) and at.buffer in moved:
            return Cast(old.dtype, BufferLoad(moved[at.buffer], at.indices, at.predicate))
        return None

    def go(at: Any) -> Any:
        # A store is rebuilt at once: with its value converted, or with the old buffer and not at all.
        if isinstance(at, BufferStore) and at.buffer in moved:
            value, predicate = rewrite(at.value, change), at.predicate and rewrite(at.predicate, change)
            indices = tuple(rewrite(i, change) for i in at.indices)
            return BufferStore(moved[at.buffer], Cast(new_dtype, value), indices, predicate)
        return None

    if new_dtype != old.dtype:
        stored = rewrite(tree.func.body, go)
        loaded = rewrite(stored, change)
        state.set_func(tree, tree.func.with_body(with_buffers(loaded, moved)))


@unsafe_set_dtype.space
def _unsafe_set_dtype_space(state: ScheduleState) -> Iterator[tuple[Any, ...]]:
    wider = {"float32": "float64", "float16": "float32", "int32": "int64", "int8": "int32"}
    for block, number, buffer in _written(state.tree()):
        if str(buffer.dtype) in wider:
            yield block, number, wider[str(buffer.dtype)]


# ---- annotate_buffer_access ----------------------------------------------------------------------------------------


@requirement
def region_of_block(state: ScheduleState, block: BlockRealize, buffer_index: int, buf_type: str) -> Failure | None:
    """buf_type is "read" or "write", and buffer_index the position of one of the block's regions of that kind"""
    if buf_type not in ("read", "write"):
        return Failure({block.block: ""}, 'buf_type "read" or "write"', repr(buf_type))
    regions = _regions(block.block, buf_type)
    if 0 <= buffer_index < len(regions):
        return None
    return Failure(
        {block.block: "this block"}, f"one of its {buf_type}s, which are {listing(regions)}", str(buffer_index)
    )


@requirement
def one_range_a_dimension(
    state: ScheduleState, block: BlockRealize, buffer_index: int, buf_type: str, gen_new_ranges: Callable[..., Any]
) -> Failure | None:
    """gen_new_ranges takes the block's iterators; for each dimension of the buffer it gives an index or (begin, end)"""
    region = _regions(block.block, buf_type)[buffer_index]
    expected = f"for {len(block.block.iter_vars)} iterators {region.buffer.ndim} indices or pairs (begin, end)"
    try:
        box = _new_box(block.block, gen_new_ranges)
    except (MinitvmError, TypeError, ValueError) as error:
        # Python says "name() takes 1 positional argument": the name of a lambda says nothing.
        message = str(error).split("\n", 1)[0].split("<lambda>() ")[-1]
        return Failure(
            {block.block: "its iterators"}, expected, f"it {message}" if "<lambda>() " in str(error) else message
        )
    return None if len(box) == region.buffer.ndim else Failure({block.block: ""}, expected, f"{len(box)} of them")


@requirement
def holds_the_accesses(
    state: ScheduleState, block: BlockRealize, buffer_index: int, buf_type: str, gen_new_ranges: Callable[..., Any]
) -> Failure | None:
    """the new region holds all that the block's body touches; one that is written is all written, so it is equal"""
    region = _regions(block.block, buf_type)[buffer_index]
    touched = declared_regions(block.block)[1 if buf_type == "write" else 0]
    own = next((r.region for r in touched if r.buffer is region.buffer), None)
    box = _new_box(block.block, gen_new_ranges)
    if own is None:
        return None
    analyzer = Analyzer.inside(*block.block.iter_vars)
    if buf_type == "read":
        fits = regions.covers(box, own, analyzer)
    else:
        fits = all(
            analyzer.can_prove_equal(a.start, b.start) and analyzer.can_prove_equal(a.extent, b.extent)
            for a, b in zip(box, own, strict=True)
        )
    if fits:
        return None
    name = region.buffer.name
    word = "a region that holds" if buf_type == "read" else "the region"
    return Failure({block.block: f"touches {_shown(name, own)}"}, f"{word} {_shown(name, own)}", f"{_shown(name, box)}")


def _regions(block: Block, buf_type: str) -> Sequence[BufferRegion]:
    return block.reads if buf_type == "read" else block.writes


def _new_box(block: Block, gen_new_ranges: Callable[..., Any]) -> Box:
    returned = gen_new_ranges(*(it.var for it in block.iter_vars))
    analyzer = Analyzer()
    box: list[Range] = []
    for entry in returned if isinstance(returned, list | tuple) else [returned]:
        begin, end = entry if isinstance(entry, list | tuple) else (entry, as_expr(entry) + 1)
        first: Expr = as_expr(begin)
        box.append(Range(first, analyzer.simplify(as_expr(end) - first)))
    return tuple(box)


def _shown(name: str, box: Box) -> str:
    end = Analyzer().simplify
    return f"{name}[{', '.join(f'{r.start}:{end(r.start + r.extent)}' for r in box)}]"


@requirement
def directly_in_root(state: ScheduleState, block: BlockRealize) -> Failure | None:
    """the block stands in the root block: what a block around it declares would be too small"""
    tree = state.home(block)
    outer = tree.scope(block)
    if outer is tree.root:
        return None
    fault = f"{block.block.name} stands in {outer.block.name}"
    return Failure({outer.block: "around it", block.block: "this block"}, "a block of the root block", fault)


@primitive(requires=[region_of_block, directly_in_root, one_range_a_dimension, holds_the_accesses])
def annotate_buffer_access(
    state: ScheduleState, block: BlockRealize, buffer_index: int, buf_type: str, gen_new_ranges: Callable[..., Any]
) -> None:
    """Declare which region of a buffer a block reads or writes, where that is to be more than its body shows.

    before:
        for i, j in T.grid(8, 8):
            with T.block("B"):
                T.reads(A[vi, vj])
                T.writes(B[vi, vj])
                B[vi, vj] = A[vi, vj] * 2.0
    call: `sch.annotate_buffer_access("B", 0, "read", lambda vi, vj: ((vi, vi + 2), vj))`
    after:
        for i, j in T.grid(8, 8):
            with T.block("B"):
                T.reads(A[vi:vi + 2, vj])
                T.writes(B[vi, vj])
                T.block_attr({"explicit_read_region": [0]})
                B[vi, vj] = A[vi, vj] * 2.0

    `compute_at`, and all others that ask what the block reads, take that. TVM believes the declaration; here the region
    must hold what the body touches, and one that is written must be all written.
    """
    inner = block.block
    box = _new_box(inner, gen_new_ranges)
    regions = list(_regions(inner, buf_type))
    regions[buffer_index] = BufferRegion(regions[buffer_index].buffer, box)
    key = f"explicit_{buf_type}_region"
    noted = {**inner.annotations, key: sorted({*inner.annotations.get(key, ()), buffer_index})}
    changed = {"reads" if buf_type == "read" else "writes": tuple(regions), "annotations": noted}
    state.replace({inner: replace(inner, **changed)})


@annotate_buffer_access.space
def _annotate_buffer_access_space(state: ScheduleState) -> Iterator[tuple[Any, ...]]:
    for block in state.tree().blocks.values():
        for number, region in enumerate(block.block.reads):
            ranges = [(r.start, r.start + r.extent) for r in region.region]
            if any(reads_memory(end) for ends in ranges for end in ends):
                continue  # a trace keeps no loads
            if ranges:
                ranges[0] = (ranges[0][0], ranges[0][1] + 1)
            yield block, number, "read", IndexLambda(tuple(it.var for it in block.block.iter_vars), ranges)
