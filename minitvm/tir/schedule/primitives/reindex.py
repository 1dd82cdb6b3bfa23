"""Create caches with another layout: reindex, reindex_cache_read, reindex_cache_write."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ....arith import Analyzer, iter_map
from ....errors import InputError
from ....expr import Expr, Node, free_vars, structural_equal, substitute
from ...analysis.block_kinds import why_neither
from ...analysis.block_regions import buffers_written, regions_read, regions_written
from ...conditions import uses
from ...index_map import IndexMap
from ...nodes import Block, BlockRealize, Buffer
from .. import programs as on
from ..lambdas import IndexLambda
from ..point_stages import PointPart, by_point, copies_its_values, stage_points
from ..registry import Failure, primitive, requirement
from ..requirements import known_scope
from ..staging import free_name, initialised, listing, part_read, part_written, region_of, scoped_name
from ..state import ScheduleState
from .cache import at_most_one_writer, only_writer, reads_it, writes_it

Chosen = tuple[str, int] | list[Any] | str | Buffer


def _read(state: ScheduleState, block: BlockRealize, read_buffer_index: int | str | Buffer) -> PointPart:
    return by_point(part_read(state, block, read_buffer_index))


def _written(state: ScheduleState, block: BlockRealize, write_buffer_index: int | str | Buffer) -> PointPart:
    return by_point(part_written(state, block, write_buffer_index))


def _named(state: ScheduleState, block: BlockRealize, buffer: Chosen) -> PointPart:
    kind, named = _access(block.block, buffer) or ("", None)
    assert named is not None  # names_an_access
    return _written(state, block, named) if kind == "write" else _read(state, block, named)


def _access(block: Block, buffer: Chosen) -> tuple[str, Buffer] | None:
    """Return ("read" or "write", the buffer) for the buffer that `buffer` selects, as in `reindex`; None if the block
    has no such buffer.
    """
    if isinstance(buffer, list | tuple):
        if len(buffer) != 2 or buffer[0] not in ("read", "write"):
            return None
        region = region_of(regions_read(block) if buffer[0] == "read" else regions_written(block), buffer[1])
        return None if region is None else (buffer[0], region.buffer)
    for kind, signature in (("write", regions_written(block)), ("read", regions_read(block))):
        region = region_of(signature, buffer)
        if region is not None:
            return kind, region.buffer
    return None


@requirement
def names_an_access(state: ScheduleState, block: BlockRealize, buffer: Chosen) -> Failure | None:
    """the buffer is ("read", k), ("write", k) or a name, and the block reads or writes it"""
    if _access(block.block, buffer) is not None:
        return None
    return Failure(
        {block.block: "this block"},
        '("read", position), ("write", position) or the name of a buffer of the block',
        f"{buffer!r}; it reads {listing(regions_read(block.block))} and writes {listing(regions_written(block.block))}",
    )


def _single(part: PointPart) -> Failure | None:
    realize, buffer = part.block, part.buffer
    if part.reason is not None:
        expected = f"one element of {buffer.name} in each iteration of {realize.block.name}"
        return Failure({realize.block: "this block"}, expected, part.reason)
    analyzer = Analyzer()
    outside = {v for it in part.iterators for v in free_vars(it.dom)}
    outside &= part.tree.moving
    if outside:
        return Failure(
            {realize.block: "this block"},
            "iterators whose domains are constants or sizes",
            f"a domain depends on {', '.join(v.name for v in outside)}",
        )
    if not part.write:
        return _not_written(realize, buffer)
    # A copy runs in another order, so it must not matter which of two writes to one element comes last.
    domains = {it.var: it.dom for it in part.iterators}
    if not iter_map.detect([analyzer.simplify(i) for i in part.indices], domains, level="injective"):
        return Failure(
            {realize.block: "this block"},
            f"every element of {buffer.name} written by one combination of iterators only",
            f"it is not shown that {buffer.name}[{', '.join(map(str, part.indices))}] is written once",
        )
    return None


def _not_written(realize: BlockRealize, buffer: Buffer) -> Failure | None:
    """Return a `Failure` if the block also writes the buffer, because then both its reads and its writes must stay on
    the buffer itself; None otherwise.
    """
    if buffer not in buffers_written(realize.block):
        return None
    name = realize.block.name
    return Failure(
        {realize.block: f"writes {buffer.name}"},
        f"a buffer that {name} reads and does not write",
        f"{name} writes it too",
    )


@requirement
def single_point(match: PointPart) -> Failure | None:
    """each iteration of the block touches exactly one element f(v) of the buffer, where v are the values of the block's
    iterators

    If the block writes the buffer, f is injective. The block does not write a buffer that it reads.
    """
    return _single(match)


@requirement
def single_point_read(match: PointPart) -> Failure | None:
    """each iteration of the block reads one element of the buffer, and writes none of its elements"""
    return _single(match)


@requirement
def single_point_written(match: PointPart) -> Failure | None:
    """each iteration of the block writes one element f(v) of the buffer, and f is injective"""
    return _single(match)


@requirement
def sound_dataflow(state: ScheduleState, block: BlockRealize, match: PointPart) -> Failure | None:
    """if the block reads the buffer, the buffer has at most one writer, which comes first (as for cache_read); if the
    block writes it, the block is complete or a reduction (as for cache_write)
    """
    if match.write:
        return only_writer.check(state=state, block=block)
    return at_most_one_writer.check(match=match)


Map = IndexMap | Callable[..., Any]


def _mapped(block: Block, index_map: Map) -> IndexMap:
    if isinstance(index_map, IndexMap):
        return index_map.simplified()
    dtypes = [str(axis.var.dtype) for axis in block.iter_vars]
    return IndexMap.from_func(index_map, ndim=len(dtypes), index_dtype=dtypes).simplified()


def _bad_map(part: PointPart, index_map: Map) -> Failure | None:
    block, buffer = part.block, part.buffer
    spots: dict[Node, str] = {block.block: "this block"}
    names = ", ".join(it.var.name for it in block.block.iter_vars)
    expected = f"a map from its {len(block.block.iter_vars)} iterators ({names}) to indices"
    try:
        mapping = _mapped(block.block, index_map)
        finals = mapping.map_indices([it.var for it in block.block.iter_vars])
    except InputError as error:
        return Failure(spots, expected, str(error).splitlines()[0])
    unused = [it.var for it in block.block.iter_vars if it not in part.iterators]
    extra = [v.name for v in unused if any(uses(e, [v]) for e in finals)]
    if extra:
        return Failure(spots, f"a map of the iterators that index {buffer.name}", f"it uses {', '.join(extra)}")
    try:
        narrow, extents = _narrowed(part, finals)
        narrow.map_shape(extents)
        reason = narrow.why_not_injective(extents)
    except InputError as error:
        return Failure(spots, "a map whose indices have known ranges from zero", str(error).splitlines()[0])
    # If one place of the copy is written twice, both times the same element is written.
    if reason is None or (not part.write and _contains(finals, part.indices)):
        return None
    return Failure(spots, "a map that takes no two iterations to one place", reason)


def _contains(finals: Sequence[Expr], indices: Sequence[Expr]) -> bool:
    analyzer = Analyzer()
    places = [analyzer.simplify(e) for e in finals]
    return all(any(structural_equal(analyzer.simplify(i), e) for e in places) for i in indices)


def _narrowed(part: PointPart, finals: Sequence[Expr]) -> tuple[IndexMap, list[Expr]]:
    """Return (the map over only the iterators that the indices use, shifted to start at zero; the extents of these
    iterators).
    """
    fresh = [it.var.with_name(it.var.name) for it in part.iterators]
    moved = {it.var: v + it.dom.start for it, v in zip(part.iterators, fresh, strict=True)}
    analyzer = Analyzer()
    rows = tuple(analyzer.simplify(substitute(e, moved)) for e in finals)
    return IndexMap(tuple(fresh), rows), [it.dom.extent for it in part.iterators]


@requirement
def map_of_read(match: PointPart, index_map: Map) -> Failure | None:
    """the map takes the block's iterators, uses only iterators that index the buffer, and never returns a negative
    index

    The map may return the same indices for two iterations only if both read the same element. To ensure this, the map's
    indices include all indices of the read.
    """
    return _bad_map(match, index_map)


@requirement
def map_of_write(match: PointPart, index_map: Map) -> Failure | None:
    """the map takes the block's iterators, uses only iterators that index the buffer, and never returns a negative
    index

    It maps different values of these iterators to different indices.
    """
    return _bad_map(match, index_map)


@primitive(
    past="was reindexed in", kind="ReIndex", requires=[names_an_access, single_point, sound_dataflow], match=_named
)
def reindex(state: ScheduleState, match: PointPart, block: BlockRealize, buffer: Chosen) -> BlockRealize:
    """Make a block use a copy of a buffer that is indexed directly by the block's iterators, in their order.

    before:
        for i, j in T.grid(8, 4):
            with T.block("B"): B[vi, vj] = A[vj, vi] * 2.0
    call: `sch.reindex("B", ("read", 0))`
    after:
        A_reindex = T.alloc_buffer((8, 4))
        for ax0, ax1 in T.grid(8, 4):
            with T.block("A_reindex"):
                vi, vj = T.axis.remap("SS", [ax0, ax1])
                A_reindex[vi, vj] = A[vj, vi]
        for i, j in T.grid(8, 4):
            with T.block("B"): B[vi, vj] = A_reindex[vi, vj] * 2.0

    `buffer` is ("read", position), ("write", position), or a name. If the block writes the buffer, a new block after it
    copies the values back.
    """
    source, analyzer = match.buffer, Analyzer()
    places = tuple(analyzer.simplify(it.var - it.dom.start) for it in match.iterators)
    shape = tuple(it.dom.extent for it in match.iterators)
    cached = Buffer(free_name(match.tree, f"{source.name}_reindex"), shape, source.dtype, source.scope)
    return stage_points(state, match, cached, places, copied_loops=False)


_TWO_POINTS = """
for i in range(8):
    with T.block("B"): B[vi] = A[vi] + A[vi + 1]
"""
reindex.refuses(names_an_access, "sch.reindex('C', ('read', 2))", on.MATMUL)
reindex.refuses(single_point, "sch.reindex('B', ('read', 0))", _TWO_POINTS)
reindex.refuses(sound_dataflow, "sch.reindex('B', ('write', 0))", on.ADDED_TO)
reindex.refuses(copies_its_values, "sch.reindex('C', 'B')", on.ROWS_IN_TURN)
reindex.refuses(initialised, "sch.reindex('C', ('read', 0))", on.SPARSE)


@primitive(
    past="was cached in",
    requires=[reads_it, known_scope, single_point_read, at_most_one_writer, map_of_read],
    match=_read,
)
def reindex_cache_read(
    state: ScheduleState,
    match: PointPart,
    block: BlockRealize,
    read_buffer_index: int,
    storage_scope: str,
    index_map: Map,
) -> BlockRealize:
    """Copy a buffer that a block reads into another scope, in a layout given by a map of the block's iterators.

    before:
        for i, j in T.grid(8, 4):
            with T.block("B"): B[vi, vj] = A[vi, vj] * 2.0
    call: `sch.reindex_cache_read("B", 0, "local", lambda vi, vj: (vj, vi))`
    after:
        A_local = T.alloc_buffer((4, 8), scope="local")
        for i, j in T.grid(8, 4):
            with T.block("A_local"): A_local[vj, vi] = A[vi, vj]
        for i, j in T.grid(8, 4):
            with T.block("B"): B[vi, vj] = A_local[vj, vi] * 2.0

    The copy has the same loops as the block, except for loops that do not index the buffer.
    """
    return _cached(state, match, storage_scope, index_map)


reindex_cache_read.refuses(reads_it, "sch.reindex_cache_read('C', 2, 'local', lambda i, j, k: (i, k))", on.MATMUL)
reindex_cache_read.refuses(known_scope, "sch.reindex_cache_read('C', 0, 'shard', lambda i, j, k: (i, k))", on.MATMUL)
reindex_cache_read.refuses(single_point_read, "sch.reindex_cache_read('B', 0, 'local', lambda i: i)", _TWO_POINTS)
reindex_cache_read.refuses(at_most_one_writer, "sch.reindex_cache_read('C', 0, 'local', lambda i: i)", on.WRITTEN_TWICE)
reindex_cache_read.refuses(map_of_read, "sch.reindex_cache_read('C', 0, 'local', lambda i, j, k: (i, j))", on.MATMUL)


@primitive(
    past="was cached in",
    requires=[writes_it, known_scope, single_point_written, only_writer, map_of_write],
    match=_written,
)
def reindex_cache_write(
    state: ScheduleState,
    match: PointPart,
    block: BlockRealize,
    write_buffer_index: int,
    storage_scope: str,
    index_map: Map,
) -> BlockRealize:
    """Make a block write into another scope, in a layout given by a map of its iterators, and copy the result back.

    before:
        for i, j in T.grid(8, 4):
            with T.block("B"): B[vi, vj] = A[vi, vj] * 2.0
    call: `sch.reindex_cache_write("B", 0, "local", lambda vi, vj: (vi // 2, vj, vi % 2))`
    after:
        B_local = T.alloc_buffer((4, 4, 2), scope="local")
        for i, j in T.grid(8, 4):
            with T.block("B"): B_local[vi // 2, vj, vi % 2] = A[vi, vj] * 2.0
        for i, j in T.grid(8, 4):
            with T.block("B_local"): B[vi, vj] = B_local[vi // 2, vj, vi % 2]
    """
    return _cached(state, match, storage_scope, index_map)


_ONTO_DIAGONALS = """
for i, j in T.grid(4, 4):
    with T.block("B"): B[vi + vj] = A[vi, vj]
"""
reindex_cache_write.refuses(writes_it, "sch.reindex_cache_write('C', 1, 'local', lambda i, j, k: (i, j))", on.MATMUL)
reindex_cache_write.refuses(known_scope, "sch.reindex_cache_write('C', 0, 'shard', lambda i, j, k: (i, j))", on.MATMUL)
reindex_cache_write.refuses(
    single_point_written, "sch.reindex_cache_write('B', 0, 'local', lambda i, j: (i, j))", _ONTO_DIAGONALS
)
reindex_cache_write.refuses(only_writer, "sch.reindex_cache_write('B', 0, 'local', lambda i, k: i)", on.ADDED_TO)
reindex_cache_write.refuses(
    map_of_write, "sch.reindex_cache_write('C', 0, 'local', lambda i, j, k: (i // 2, j))", on.MATMUL
)


def _cached(state: ScheduleState, part: PointPart, storage_scope: str, index_map: Map) -> BlockRealize:
    block, buffer = part.block, part.buffer
    finals = _mapped(block.block, index_map).map_indices([it.var for it in block.block.iter_vars])
    narrow, extents = _narrowed(part, finals)
    name = free_name(part.tree, scoped_name(buffer, storage_scope))
    cached = Buffer(name, tuple(narrow.map_shape(extents)), buffer.dtype, storage_scope)
    return stage_points(state, part, cached, tuple(finals), copied_loops=True)


# ---- what to try ---------------------------------------------------------------------------------------------------


@reindex.space
def _reindex_space(state: ScheduleState) -> Iterator[tuple[Any, ...]]:
    for block in _blocks(state):
        for kind, regions in (("read", regions_read(block.block)), ("write", regions_written(block.block))):
            for k in range(len(regions)):
                yield block, (kind, k)


def _turned(part: PointPart) -> IndexLambda | None:
    """Return a map to try: the iterators that index the buffer in reverse order, with pairs of the first one innermost.

    For example, the map for A[vi, vj] is `(vj // 2, vi, vj % 2)`. Returns None if no iterator indexes the buffer.
    """
    if not part.iterators:
        return None
    used: list[Expr] = [it.var for it in reversed(part.iterators)]
    return IndexLambda(tuple(it.var for it in part.block.block.iter_vars), (used[0] // 2, *used[1:], used[0] % 2))


@reindex_cache_read.space
def _reindex_cache_read_space(state: ScheduleState) -> Iterator[tuple[Any, ...]]:
    for block in _blocks(state):
        for k in range(len(regions_read(block.block))):
            part = _read(state, block, k)
            turned = _turned(part)
            if turned is not None:
                yield block, k, "local", turned
                yield block, k, "local", IndexLambda(tuple(it.var for it in block.block.iter_vars), part.indices)


@reindex_cache_write.space
def _reindex_cache_write_space(state: ScheduleState) -> Iterator[tuple[Any, ...]]:
    for block in _blocks(state):
        for k in range(len(regions_written(block.block))):
            part = _written(state, block, k)
            turned = _turned(part)
            if turned is not None and why_neither(part.scope, block) is None:
                yield block, k, "local", turned


def _blocks(state: ScheduleState) -> Iterator[BlockRealize]:
    tree = state.tree()
    return (block for block in tree.blocks.values() if block is not tree.root)
