"""Faults in the primitives that stage values in other buffers, and that change layouts."""

from tests.tir.schedule.bound_programs import partly_written, shifted_at_times

from ..patch import Faults
from ..workloads import families, primitive, schedules

SCHEDULE = "minitvm.tir.schedule."
PRIMITIVES = SCHEDULE + "primitives."
OVERWRITTEN = families("sequences", "branches", "in_place")
TAILS = schedules("cache_read", "cache_write", prepare=("split", "split", "compute_at", "reverse_compute_at"), depth=3)

READ = Faults("cache_read", SCHEDULE + "staging", [TAILS, schedules("cache_read", of=OVERWRITTEN, wild=True)])
READ.edit("copies from the start", "copy_nest", "index = r.start + loop", "index = r.start * 0 + loop")
READ.edit(
    "one element too few",
    "copy_nest",
    "[loop_extent(tree, r, analyzer) for r in box]",
    "[loop_extent(tree, r, analyzer) - min(d, 1) for d, r in enumerate(box)]",
)
READ.drop("a buffer that is written again later", "cache_read", "at_most_one_writer")
WRITE = Faults("cache_write", SCHEDULE + "staging", [TAILS, schedules("cache_write", of=OVERWRITTEN, wild=True)])
WRITE.drop("one of several writers", "cache_write", "only_writer")
WRITE.edit(
    "rows of lengths of their own are copied past their ends",
    "copied_where",
    "for c in (index >= 0, index < dim, loop < r.extent)",
    "for c in (index >= 0, index < dim)",
    by=[primitive("cache_write")],
)
WRITE.drop("a box with gaps", "cache_write", "fills_its_box")
WRITE.drop("values that stores outside of blocks change", "cache_write", "written_in_blocks")
PLACES = Faults(
    "insertion",
    SCHEDULE + "insertion",
    [schedules("cache_write", prepare=("compute_at", "compute_at", "reverse_compute_at"), depth=3)],
)
PLACES.edit(
    "copied back behind the loop that its readers stand in",
    "place_beside",
    "shared[-1] if shared else",
    "shared[0] if shared and False else",
)

SURELY = Faults("cache_write", "minitvm.tir.analysis.surely", [schedules("cache_write", of=partly_written, prepare=())])
SURELY.edit(
    "a condition around the block is not seen",
    "_around",
    "guarded(touch, outer.condition if inner is outer.then_case else Not(outer.condition))",
    "touch",
)

INPLACE = Faults(
    "cache_inplace",
    "minitvm.compat.tvm.schedule.primitives.cache_inplace",
    [primitive("cache_inplace"), primitive("cache_inplace", wild=True)],
)
INDEX = Faults("cache_index", "minitvm.compat.tvm.schedule.primitives.cache_index", [primitive("cache_index")])
INPLACE.drop("elements copied in that nobody wrote", "cache_inplace", "finds_values")
INPLACE.drop("what it does not read is copied back", "cache_inplace", "writes_what_it_reads",
             by=[schedules("cache_inplace", of=shifted_at_times, prepare=())])  # fmt: skip
INPLACE.edit("copied in after the block", "cache_inplace", "block, after=back)", "block, after=True)")
INDEX.edit("one index too few", "_stage", "[it.dom.extent for it", "[it.dom.extent - 1 for it")
INDEX.edit(
    "looked up one further",
    "_looked_up",
    "return ex.replace(node, indices=indices) if",
    "return ex.replace(node, indices=indices[::-1]) if",
)

READ_AT = Faults(
    "read_at",
    "minitvm.compat.tvm.schedule.primitives.read_at",
    [primitive("read_at"), schedules("read_at", of=OVERWRITTEN, wild=True), schedules("read_at", of=OVERWRITTEN)],
)
READ_AT.drop("a buffer that changes below the loop", "read_at", "not_written_below")
WRITE_AT = Faults(
    "write_at",
    "minitvm.compat.tvm.schedule.primitives.read_at",
    [
        primitive("write_at"),
        schedules("write_at", of=families("carried", "sequences", "running"), wild=True),
        schedules("write_at", of=families("carried", "chain"), prepare=()),
    ],
)
READ_AT.edit(
    "one element too few",
    "_copy_block",
    "staging.loop_extent(part.tree, r, analyzer)",
    "staging.loop_extent(part.tree, r, analyzer) - min(k, 1)",
)
READ_AT.edit("copied by the iteration before", "_copy_block", "tuple(l.var for l in used), const(True), block",
             "tuple(l.var - 1 if k else l.var for k, l in enumerate(used)), const(True), block")  # fmt: skip
WRITE_AT.drop("a box with gaps", "write_at", "filled_below")
WRITE_AT.edit(
    "copied back before the block",
    "_staged",
    "InsertionPoint(loop, anchor, after=part.write)",
    "InsertionPoint(loop, using[0], False)",
)

REINDEX = Faults(
    "reindex", "minitvm.tir.schedule.primitives.reindex", [primitive("reindex"), schedules("reindex", of=OVERWRITTEN)]
)
REINDEX.drop("a buffer that is written again later", "reindex", "sound_dataflow")
REINDEX.edit(
    "iterators in reverse",
    "reindex",
    "for it in match.iterators)\n    shape",
    "for it in match.iterators[::-1])\n    shape",
)
REINDEX_READ = Faults(
    "reindex_cache_read",
    "minitvm.tir.schedule.primitives.reindex",
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
    "minitvm.tir.schedule.primitives.reindex",
    [primitive("reindex_cache_write"), schedules("reindex_cache_write", of=OVERWRITTEN)],
)
REINDEX_WRITE.edit(
    "the copy stands at another place than the store",
    "_cached",
    "stage_points(state, part, cached, tuple(finals), copied_loops=True)",
    "stage_points(state, part, cached, tuple(finals)[::-1], copied_loops=True)",
)
REINDEX_WRITE.drop("one of several writers", "reindex_cache_write", "only_writer")
REINDEX_WRITE.drop("two iterations in one place", "reindex_cache_write", "map_of_write")

LAYOUTS = [
    schedules("transform_layout", examples=300),
    schedules("transform_layout", of=families("chain", "contraction"), prepare=()),
]
LAYOUT = Faults("transform_layout", PRIMITIVES + "transform_layout", LAYOUTS)
PADDED = Faults("transform_layout", SCHEDULE + "access_remapping", LAYOUTS)
PADDED.edit(
    "the pad value everywhere",
    "over_new_shape",
    "if_then_else(padding, pad(here), ex.substitute(store.value, elements))",
    "pad(here)",
)
PADDED.edit(
    "values of other elements",
    "over_new_shape",
    "zip(store.indices, back.map_indices(here), strict=True)",
    "zip(store.indices, here, strict=False)",
)
LAYOUT.drop("a buffer with strides of its own", "transform_layout", "row_major")
BLOCK_LAYOUT = Faults(
    "transform_block_layout",
    "minitvm.tir.schedule.primitives.transform_block_layout",
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
    "block=moved), loops, shape)",
    "block=moved), loops, [dim - 1 for dim in shape])",
)
BLOCK_LAYOUT.drop("against the order of accesses", "transform_block_layout", "order_of_accesses")
BLOCKIZE = Faults(
    "blockize",
    PRIMITIVES + "blockize",
    [primitive("blockize"), schedules("blockize", prepare=("split", "split", "reorder"), depth=4)],
)
BLOCKIZE.edit("inner iterations of another tile", "blockize", "outside * part.inner_extent + var", "outside + var")
BLOCKIZE.drop("an init that others in the subtree read", "blockize", "init_moves_out")
BLOCKIZE.edit(
    "the tail's predicate lost",
    "blockize",
    "predicate=divided.inner_predicate, block=inner)",
    "predicate=ex.const(True), block=inner)",
    by=[schedules("blockize", of=families("chain", "contraction"), prepare=("split", "split"), depth=3)],
)

TENSORIZE = Faults("tensorize", PRIMITIVES + "tensorize", [
    schedules("tensorize", of=families("tiled_products"), prepare=(), examples=60),
    primitive("tensorize", examples=60),
])  # fmt: skip
TENSORIZE.edit("the init is lost", "_implemented", "init=init,", "init=None,")
TENSORIZE.edit("operands change places", "_implemented", "tir.MatchBufferRegion(placed[parameter], boxes[described])",
               "tir.MatchBufferRegion(placed[parameter], list(boxes.values())[-1 - len(views)])")  # fmt: skip
