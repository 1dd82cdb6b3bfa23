"""Faults in the primitives that stage values in other buffers, and that change layouts."""

from ..patch import Faults
from ..workloads import families, primitive, schedules

SCHEDULE = "minitvm.tir.schedule."
PRIMITIVES = SCHEDULE + "primitives."
OVERWRITTEN = families("sequences", "branches", "in_place")
TAILS = schedules("cache_read", "cache_write", prepare=("split", "split", "compute_at", "reverse_compute_at"), depth=3)

READ = Faults("cache_read", SCHEDULE + "staging", [TAILS, schedules("cache_read", of=OVERWRITTEN, wild=True)])
READ.edit(
    "copies from the start", "copy_nest", "analyzer.simplify(r.start + loop)", "analyzer.simplify(r.start * 0 + loop)"
)
READ.edit(
    "one element too few", "copy_nest", "r.extent if fixed else", "(r.extent - 1 if d else r.extent) if fixed else"
)
READ.drop("a buffer that is written again later", "cache_read", "at_most_one_writer")
WRITE = Faults("cache_write", SCHEDULE + "staging", [TAILS, schedules("cache_write", of=OVERWRITTEN, wild=True)])
WRITE.drop("one of several writers", "cache_write", "only_writer")
WRITE.edit(
    "copied back behind the loop that its readers stand in",
    "place_after",
    "shared[-1] if shared else",
    "shared[0] if shared and False else",
    by=[schedules("cache_write", prepare=("compute_at", "compute_at", "reverse_compute_at"), depth=3)],
)

INPLACE = Faults(
    "cache_inplace", PRIMITIVES + "cache", [primitive("cache_inplace"), primitive("cache_inplace", wild=True)]
)
INDEX = Faults("cache_index", PRIMITIVES + "cache_index", [primitive("cache_index")])
INDEX.edit(
    "looked up one further",
    "_looked_up",
    "return replace(node, indices=indices) if",
    "return replace(node, indices=indices[::-1]) if",
)

READ_AT = Faults(
    "read_at",
    PRIMITIVES + "read_at",
    [primitive("read_at"), schedules("read_at", of=OVERWRITTEN, wild=True), schedules("read_at", of=OVERWRITTEN)],
)
READ_AT.drop("a buffer that changes below the loop", "read_at", "not_written_below")
WRITE_AT = Faults(
    "write_at",
    PRIMITIVES + "read_at",
    [
        primitive("write_at"),
        schedules("write_at", of=families("carried", "sequences", "running"), wild=True),
        schedules("write_at", of=families("carried", "chain"), prepare=()),
    ],
)

REINDEX = Faults("reindex", PRIMITIVES + "reindex", [primitive("reindex"), schedules("reindex", of=OVERWRITTEN)])
REINDEX.drop("a buffer that is written again later", "reindex", "sound_dataflow")
REINDEX_READ = Faults(
    "reindex_cache_read",
    PRIMITIVES + "reindex",
    [primitive("reindex_cache_read"), schedules("reindex_cache_read", of=OVERWRITTEN)],
)
REINDEX_READ.drop("a buffer that is written again later", "reindex_cache_read", "at_most_one_writer")
REINDEX_READ.edit(
    "the shape in the old order",
    "_cached",
    "tuple(narrow.map_shape(extents))",
    "tuple(narrow.map_shape(extents))[::-1]",
)
REINDEX_WRITE = Faults(
    "reindex_cache_write",
    PRIMITIVES + "reindex",
    [primitive("reindex_cache_write"), schedules("reindex_cache_write", of=OVERWRITTEN)],
)
REINDEX_WRITE.edit(
    "the copy stands at another place than the store",
    "_cached",
    "stage_points(state, tree, point, cached, tuple(finals), copied_loops=True)",
    "stage_points(state, tree, point, cached, tuple(finals)[::-1], copied_loops=True)",
)

LAYOUT = Faults(
    "transform_layout",
    PRIMITIVES + "layout",
    [
        schedules("transform_layout", examples=300),
        schedules("transform_layout", of=families("chain", "contraction"), prepare=()),
    ],
)
LAYOUT.edit(
    "the pad value everywhere",
    "_over_new_shape",
    "if_then_else(padding, pad(here), substitute(store.value, elements))",
    "pad(here)",
)
LAYOUT.edit(
    "values of other elements",
    "_over_new_shape",
    "zip(store.indices, back.map_indices(here))",
    "zip(store.indices, here)",
)
BLOCK_LAYOUT = Faults(
    "transform_block_layout",
    PRIMITIVES + "block_layout",
    [
        primitive("transform_block_layout"),
        schedules("transform_block_layout", of=families("contraction", "chain", "folds"), prepare=()),
    ],
)
BLOCK_LAYOUT.edit(
    "iterators in the old order",
    "transform_block_layout",
    "back.map_indices([it.var for it in iters])",
    "[it.var for it in iters][: len(block.block.iter_vars)]",
)
BLOCK_LAYOUT.edit(
    "one iteration less",
    "transform_block_layout",
    "nest = For(loop, const(0, loop.dtype), dim, ForKind.SERIAL, nest)",
    "nest = For(loop, const(0, loop.dtype), dim - 1, ForKind.SERIAL, nest)",
)
BLOCKIZE = Faults(
    "blockize",
    PRIMITIVES + "blockize",
    [primitive("blockize"), schedules("blockize", prepare=("split", "split", "reorder"), depth=4)],
)
BLOCKIZE.edit("inner iterations of another tile", "blockize", "outside * part.inner_extent + var", "outside + var")
STORAGE = Faults("unsafe_set_dtype", PRIMITIVES + "storage", [primitive("unsafe_set_dtype")])
STORAGE.edit(
    "a dropped cast: the value is stored as zero",
    "unsafe_set_dtype",
    "Cast(new.dtype, value)",
    "Cast(new.dtype, value - value)",
)
STORAGE.edit(
    "loads keep the old buffer",
    "unsafe_set_dtype",
    "return Cast(old.dtype, BufferLoad(new, at.indices, at.predicate))",
    "return None",
)
SCOPE = Faults("set_scope", PRIMITIVES + "storage", [primitive("set_scope")])
SCOPE.edit(
    "loads keep the old buffer",
    "_with_buffers",
    "isinstance(at, BufferLoad | BufferStore | BufferRegion)",
    "isinstance(at, BufferStore | BufferRegion)",
)
SCOPE.edit("not allocated", "_with_buffers", "tuple(moved.get(b, b) for b in at.alloc_buffers)", "at.alloc_buffers")
