"""Faults in the passes of `tir.transform.pipeline`, in their order."""

import itertools

import pytest

from tests.machines.simd.transform.test_strided_stores import gaps_are_filled
from tests.reference.test_scalar import FLOATS, INTS, test_casts_at_the_ends_of_integers_have_one_meaning
from tests.tir.analysis.test_views import VIEWS as MALFORMED
from tests.tir.analysis.test_views import test_a_view_that_does_not_fit_is_refused
from tests.tir.test_strides import IN_LOOPS, test_parts_of_an_allocation_do_not_overlap
from tests.tir.transform.test_hoist_conditions import divisions_stay_guarded, ends_that_an_init_changes
from tests.tir.transform.test_join_parallel_loops import test_by_hand as loops_beside
from tests.tir.transform.test_negative_extents import LOOPS, test_loops_run_as_often_as_they_did
from tests.tir.transform.test_separate_allocations import test_lanes_use_neighbouring_elements_in_step
from tests.tir.transform.test_shorten_loops import each_form_runs_the_same_iterations
from tests.tir.transform.test_vector_indices import all_vectors
from tests.tir.transform.test_vectorize import (
    BODIES,
    CONDITIONS,
    test_only_a_load_that_is_not_done_anyway_is_masked,
    test_what_lanes_share_is_one_load_under_the_first_lanes_condition,
    test_what_lanes_share_is_read_only_if_one_of_them_runs,
)

from ..contracts import storage
from ..patch import Faults
from ..seeded import KERNELS, VIRTUAL_THREADS
from ..siblings import as_written, padded_sums
from ..streams import by_hand
from ..workloads import (
    KINDS,
    families,
    hoisted,
    lowered,
    never_written,
    on_a_grid,
    pipelined,
    random_blocks,
    rings_of_buffers,
    scratch,
    stages_of_a_block,
    strategic,
    strided_parameters,
)

TRANSFORM = "minitvm.tir.transform."
BLOCKS = lowered()
TILES = lowered(families("contraction"))
CHAINS = lowered(
    families("chain"), ("split", "compute_at", "compute_at", "vectorize", "parallel", "reverse_compute_at")
)
BRANCHES = lowered(families("branches"), ("split", *KINDS))
POINTS = lowered(families("pointwise"), ("split", "fuse", *KINDS))
INDICES = lowered(families("index_arithmetic", "split_indices"), ("split", "fuse", "reorder", *KINDS))
LANES = lowered(families("reduction"), ("split",), lanes=True)
VIEWS = lowered(families("views", "strided"), ("split", "unroll", "parallel"))
TURNS = lowered(families("in_turns"), ("split", *KINDS), most=2)
CARRIED = lowered(families("carried", "running"), ("split", "unroll", "vectorize"))
VECTOR_BRANCHES = lowered(families("branches"), ("vectorize",), most=1)
LONG = lowered(families("long_rows"), ("vectorize", "vectorize", "unroll"), most=2)
NESTS = lowered(families("split_indices"), ("parallel", "parallel", "fuse"), most=5)
PARALLEL = lowered(random_blocks, ("split", "parallel", "parallel", "parallel", "fuse", "compute_at"))
STAGED = pipelined(families("staged_loops"))
STAGES_INSIDE = pipelined(families("private"))
THREADS = pipelined(families("private"), threads=True)
THREADS_OF_BLOCKS = pipelined(random_blocks, threads=True)
PRIVATE = lowered(families("private"), ("split", "parallel", "vectorize", "unroll"), most=3)
WORKSPACES = lowered(families("private_workspaces"), ("parallel", "unroll"), most=1, examples=20)
TURNED = strategic(families("turned"), "cpu -vector_bits=128")


# -- dense_parameters, keep_roles

DENSE = Faults("dense_parameters", TRANSFORM + "dense_parameters", [as_written(strided_parameters)])
for _access in ("BufferLoad", "BufferStore"):
    DENSE.edit(
        f"{_access}: the indices in reverse",
        "dense_parameters",
        "replace(new, buffer=dense[held])",
        "replace(new, buffer=dense[held], "
        f"**({{'indices': new.indices[::-1]}} if isinstance(new, {_access}) else {{}}))",
    )
ROLES = Faults("keep_roles", TRANSFORM + "keep_roles", [as_written(never_written, inout=["B"])])
ROLES.edit("what nobody writes is no output", "keep_roles", "if writes == written", "if True or writes == written")
ROLES.edit("the attribute says that nothing is", "keep_roles", "WRITES: writes}", "WRITES: ()}")

# -- lower_match_buffers


def views_that_do_not_fit() -> None:
    for view in MALFORMED:
        test_a_view_that_does_not_fit_is_refused(view)


MATCH = Faults("lower_match_buffers", TRANSFORM + "lower_match_buffers", [VIEWS])
MATCH.edit("a view's start is left out", "_indices", "r.start + i for r", "i for r")
MATCH.edit(
    "fewer dimensions stand for the first ones", "_indices", "region.region[lead:]", "region.region[: len(indices)]"
)
NESTED = Faults("views", "minitvm.tir.analysis.views", [VIEWS])
NESTED.edit(
    "a view of a view starts where the inner one does", "resolved", "Range(o.start + r.start,", "Range(r.start,"
)
NESTED.edit("whatever strides it declares", "why_not_view", "if view.strides:", "if False:",
            by=[by_hand("views that do not fit", views_that_do_not_fit)])  # fmt: skip
NESTED.edit("as many points in front as it likes", "why_not_view", "r.extent.value != 1", "r.extent.value < 1",
            by=[by_hand("views that do not fit", views_that_do_not_fit)])  # fmt: skip
NESTED.edit("a variable has two values", "why_not_view", "values.setdefault(declared, actual)", "actual",
            by=[by_hand("views that do not fit", views_that_do_not_fit)])  # fmt: skip
STRIDES = Faults("lower_match_buffers (strides)", "minitvm.tir.strides", [VIEWS])
STRIDES.edit(
    "strides one dimension off",
    "row_major",
    "strides[axis + 1] * shape[axis + 1]",
    "strides[axis + 1] * shape[axis]",
)

# -- inject_double_buffer, inject_software_pipeline

DOUBLE = Faults("inject_double_buffer", TRANSFORM + "inject_double_buffer", [STAGED, STAGES_INSIDE])
DOUBLE.edit(
    "the block runs an iteration late",
    "inject_double_buffer",
    "software_pipelines.STAGE: list(verdict.stages)",
    "software_pipelines.STAGE: [1 - s for s in verdict.stages]",
)
DOUBLE.edit(
    "everything in reverse",
    "inject_double_buffer",
    "software_pipelines.ORDER: list(verdict.order)",
    "software_pipelines.ORDER: list(verdict.order)[::-1]",
)
PIPELINE = Faults("inject_software_pipeline", TRANSFORM + "inject_software_pipeline", [STAGED, STAGES_INSIDE])
PIPELINE.edit("the epilogue is lost", "_time_steps", "written_out(count, count + depth)", "pass")
PIPELINE.edit("the prologue is lost", "_time_steps", "written_out(0, depth)", "pass")
PIPELINE.edit(
    "the loop one iteration longer", "_time_steps", "const(count - depth, dtype)", "const(count - depth + 1, dtype)"
)
PIPELINE.edit("one version less", "_versions", "if count == 1:", "count = max(1, count - 1)\n    if count == 1:")
PIPELINE.edit("every iteration in the first version", "_versions",
              "(loop.var - loop.start) % const(count, loop.var.dtype)",
              "(loop.var - loop.var) % const(count, loop.var.dtype)")  # fmt: skip
PIPELINE.edit("copies share what they allocate", "_own_buffers", "if not fresh:", "if True:", by=[STAGES_INSIDE],
              equivalent="each copy's block allocates it anew: what has one name is never one storage")  # fmt: skip

# -- lower_init

INIT = Faults("lower_init", TRANSFORM + "lower_init", [TILES, CARRIED, BLOCKS])
INIT.edit("ends of loops that the init changes", "init_nest", "for loop in inner for e in", "for loop in own for e in",
          by=[by_hand("ends that an init changes", ends_that_an_init_changes)])  # fmt: skip
INIT.edit("init lost", "_InitLowering.realize", "self.before.setdefault(nest[0].var, []).append(nest[1])", "pass")
INIT.edit(
    "init again in each iteration",
    "_InitLowering.realize",
    "If(all_of(starts), block.init) if starts else block.init",
    "block.init",
)
INIT.edit("init without the predicate's spatial part", "init_nest", "all_of(kept)", "all_of([])")
INIT.edit(
    "init before the last reduction loop only",
    "init_nest",
    "loops[binding[0]], loops[binding[0] :]",
    "loops[binding[-1]], loops[binding[-1] :]",
)

INIT.edit(
    "init again in each turn of a loop that skips the first step", "init_nest",
    "uses(c, spatial) or not analyzer.can_prove(ex.substitute(c, starts))", "uses(c, spatial)", by=[TURNS],
)  # fmt: skip

# -- drop_blocks

DROP = Faults("drop_blocks", TRANSFORM + "drop_blocks", [BLOCKS, VIEWS])
DROP.edit("predicate dropped", "_drop", "return If(predicate, body)", "return body")
DROP.edit(
    "a value one off",
    "_drop",
    "v.astype(axis.var.dtype)",
    "(v if axis.kind != 'R' else v * 1 + 1).astype(axis.var.dtype)",
)

# -- bind_threads, insert_barriers, and when storage is safe from races

GRIDS, SCRATCH = on_a_grid(), scratch()
BIND = Faults("bind_threads", "minitvm.machines.gpu.transform.bind_threads", [SCRATCH, GRIDS])
BIND.edit("an inner loop's own variable", "_bound_once", "axis in bound", "axis in bound and axis in ()")
BIND.edit("all threads write", "_guards", "if alone:", "if False:")
BIND.edit("virtual threads share local storage", "_with_own_parts", "== every", "< 0")
BARRIERS = Faults("insert_barriers", "minitvm.machines.gpu.transform.insert_barriers", [SCRATCH, GRIDS])
BARRIERS.edit("no barrier between statements", "_Threads.sequence", "if self.meet(earlier, own):", "if False:")
BARRIERS.edit("no barrier at the end of a loop", "_Threads.visit", "if self.meet_later(stmt, is_shared):",
              "if False:")  # fmt: skip
BARRIERS.edit("what was read may be written", "_Threads.meet", "{*map(id, one)}", "{id(p) for p in one if p.write}")
RINGS = Faults("insert_barriers: rings", "minitvm.machines.gpu.transform.insert_barriers", [rings_of_buffers()])
RINGS.edit("no next iteration comes too early", "_Threads.waits_between",
           "return not self.meet(self.uses(tail), following)", "return True")  # fmt: skip
RINGS.edit("the next iteration is the one after it", "_Threads.waits_between",
           "t.at({loop.var: loop.var + 1})", "t.at({loop.var: loop.var + 2})")  # fmt: skip
RINGS.edit("the head of an iteration is no part of the next", "_Threads.waits_between",
           "body.stmts[: places[0]]", "body.stmts[places[0] :]")  # fmt: skip
STAGES = Faults("threads_outside", "minitvm.machines.gpu.transform.threads_outside", [stages_of_a_block()])
STAGES.edit("no barrier between stages", "_stages", "parts and _meet(tir.Seq.of(*parts), part)", "False")
STAGES.edit("a stage of its own loops is done by one thread", "_stages", "if is_hardware_loop(stmt):",
            "if is_hardware_loop(stmt) and False:")  # fmt: skip
STAGES.edit("as many threads as the last stage has", "_whole", "ex.IntImm(max(sizes)", "ex.IntImm(sizes[-1]")
STAGES.edit("each thread owns what it reads of others", "_is_of_a_thread_each", "is threads[0].var", "is not None")
SAFE = Faults("thread_storage", "minitvm.tir.schedule.thread_storage", [GRIDS])
OWNERS = Faults("threads", "minitvm.tir.analysis.threads", [GRIDS])
OWNERS.edit("threads own shared storage", "owns", "return not scope.startswith(\"shared\") or not is_thread(loop)",
            "return True")  # fmt: skip
OWNERS.edit("another number of threads", "why_not_again", "if not (_same(outer.extent, inner.extent)",
            "if False and not (_same(outer.extent, inner.extent)")  # fmt: skip

# -- inject_virtual_thread, separate_allocations

VIRTUAL = Faults("inject_virtual_thread", TRANSFORM + "inject_virtual_thread", [THREADS, THREADS_OF_BLOCKS])
VIRTUAL.edit("threads share what each allocates", "_inward", "wide = widened(loop, stmt.buffer)",
             "return replace(stmt, body=_inward(loop, stmt.body))\n        wide = widened(loop, stmt.buffer)",
             )  # fmt: skip
VIRTUAL.edit(
    "the first thread only",
    "_inward",
    "tir.For(var, loop.start, loop.extent, kind,",
    "tir.For(var, loop.start, loop.extent - loop.extent + 1, kind,",
)
INTERLEAVED = Faults("inject_virtual_thread", TRANSFORM + "inject_virtual_thread", [VIRTUAL_THREADS])
INTERLEAVED.edit(
    "what a let reads is read again",
    "_inward",
    "_held(stmt) if reads_memory(stmt.value) else _inlined(stmt)",
    "_inlined(stmt)",
)
INTERLEAVED.edit("a let stays around what it holds", "_inward", "if isinstance(stmt, tir.LetStmt):", "if False:")
INTERLEAVED.edit(
    "a condition stays around what it guards",
    "_inward",
    "stmt.else_case is None and not reads_memory(",
    "reads_memory(",
)
INTERLEAVED.edit(
    "what a condition guards runs anyway", "_inward", "for condition in reversed(under):", "for condition in ():"
)
INTERLEAVED.edit(
    "a let forgets the condition around it", "_inward", "tir.LetStmt) and fixed and not under", "tir.LetStmt) and fixed"
)
SEPARATE = Faults("separate_allocations", TRANSFORM + "separate_allocations", [THREADS, PRIVATE])
SEPARATE.edit("all in the first part", "in_own_part", "(loop.var - loop.start).astype", "(loop.var - loop.var).astype")
SEPARATE.edit("lanes share an element", "in_own_lane", "(loop.var - loop.start).astype", "(loop.var - loop.var).astype",
              by=[by_hand("lanes in step", test_lanes_use_neighbouring_elements_in_step)])  # fmt: skip
SEPARATE.edit("indices in reverse", "in_own_part", "(index, *node.indices)", "(index, *node.indices[::-1])")


def parts_apart() -> None:
    for loop in IN_LOOPS:
        test_parts_of_an_allocation_do_not_overlap(loop, "[1, 4]")


def floats_at_the_ends_of_integers() -> None:
    for source, target in itertools.product(FLOATS, INTS):
        test_casts_at_the_ends_of_integers_have_one_meaning(source, target)


CASTS = Faults("casts of floats", "minitvm.reference.meaning.operations",
               [by_hand("floats at the ends of integers", floats_at_the_ends_of_integers)])  # fmt: skip
CASTS.edit("a bfloat16 goes by way of int64", "cast_value", "wide = float(v)", "wide = v")
CASTS.edit("one too many is inside", "cast_array", "(wide < high)", "(wide <= high)")
CASTS.edit("-1 is an unsigned number", "cast_array", "else wide > low)", "else wide >= low)")
PARTS = Faults("strides of parts", "minitvm.tir.strides", [by_hand("parts", parts_apart)])
PARTS.edit("a part as long as its first rows", "strides_of_parts", "Max(rows, span)", "rows")

# -- simplify

SIMPLIFY = Faults("simplify", TRANSFORM + "simplify", [BRANCHES, INDICES, BLOCKS, CARRIED])
SIMPLIFY.edit(
    "the other branch",
    "_branch",
    "stmt.then_case if condition.value else stmt.else_case",
    "stmt.else_case if condition.value else stmt.then_case",
)
SIMPLIFY.edit(
    "a branch of nothing takes its else with it",
    "_branch",
    "return Seq(()) if else_case is None else If(",
    "return Seq(()) if True else If(",
)
SIMPLIFY.edit(
    "a sum is zero when one term is",
    "_all_zero",
    "total = ex.And(total, ex.EQ(",
    "total = ex.Or(total, ex.EQ(",
    by=[TILES],
)
SIMPLIFY.edit("or decided like and", "_logical", "decisive = isinstance(e, ex.Or)", "decisive = isinstance(e, ex.And)")
SIMPLIFY.edit(
    "a loop of one iteration forgets its start",
    "_loop",
    "{stmt.var: start.astype(stmt.var.dtype)}",
    "{stmt.var: (start - start).astype(stmt.var.dtype)}",
    by=[TILES],
)

# -- fuse_parallel_loops

FUSE = Faults("fuse_parallel_loops", TRANSFORM + "parallel_loops", [PARALLEL, NESTS])
FUSE.edit(
    "inner and outer change places",
    "_fused",
    "FloorMod(fused, inner.extent.astype(fused.dtype))",
    "FloorMod(fused, outer.extent.astype(fused.dtype))",
)
FUSE.edit(
    "the fused loop is as long as the outer",
    "_fused",
    "IntImm(outer.extent.value * count.value,",
    "IntImm(outer.extent.value,",
)
FUSE.edit(
    "two different parts get one name", "with_named_parts", "key = structural_key(new)", "key = type(new)", by=[NESTS]
)
JOIN = Faults(
    "join_parallel_loops", TRANSFORM + "join_parallel_loops", [by_hand("loops beside one another", loops_beside)]
)
JOIN.edit("loops that meet are joined", "_apart", "order, order, [0]) is None", "order, order, [0]) is not False")
JOIN.edit("what the later loop writes may be read before", "_apart", "or written[1] & read[0]", "")
JOIN.edit("a loop begins where it ends", "_chosen", "var - ends[number - 1]", "var - ends[number]")
FUSE.edit("an inner parallel loop stays", "_serial", "new.kind == ForKind.PARALLEL", "False")


def negative_extents() -> None:
    for name in LOOPS:
        with pytest.MonkeyPatch.context() as patch:
            test_loops_run_as_often_as_they_did(name, 2, patch)


ITERATIONS = Faults("iterations", "minitvm.tir.conditions", [by_hand("negative extents", negative_extents)])
ITERATIONS.edit("a negative extent stays", "iterations", "return extent if shown else", "return extent if True else")

# -- hoist_conditions

NEIGHBOURS, GUARDS = hoisted(), by_hand("conditions that divide", divisions_stay_guarded)
BY_DATA = lowered(families("data_loops"), ("unroll", "split"), most=1)
HOIST = Faults("hoist_conditions", TRANSFORM + "hoist_conditions", [BLOCKS, TILES, CHAINS])
HOIST.edit(
    "a condition on the loop goes around it",
    "_unswitched",
    "if not uses(c, [loop.var]) and _moves(c)",
    "if _moves(c)",
)
HOIST.edit(
    "the other conditions are lost",
    "_unswitched",
    "If(all_of(inside), branch.then_case) if inside else",
    "branch.then_case if inside else",
    by=[NEIGHBOURS],
)
HOIST.edit(
    "a neighbour shares a condition that it does not need",
    "_shared",
    "if stmt is not None and _idle_unless(c, stmt, ())]",
    "if stmt is not None]",
    by=[NEIGHBOURS],
)
HOIST.edit(
    "what a neighbour needs besides is lost",
    "_under",
    "replace(stmt, condition=all_of(own)) if own else",
    "stmt.then_case if own else",
    by=[NEIGHBOURS],
)
HOIST.edit(
    "a sequence needs what one of its statements needs",
    "_idle_unless",
    "return all(_idle_unless",
    "return any(_idle_unless",
    by=[NEIGHBOURS],
)
HOIST.edit(
    "conditions follow from all others",
    "_idle_unless",
    "if analyzer.can_prove(condition):",
    "if own:",
    by=[NEIGHBOURS],
)
HOIST.edit(
    "what must hold besides the start is lost",
    "_init_first",
    "If(all_of(others), first.then_case) if others else",
    "first.then_case if others else",
    by=[BY_DATA],
)
ENDS = by_hand("ends that an init changes", ends_that_an_init_changes)
HOIST.edit("an init changes the loop's end", "_init_first", "if any(touch.buffer in written", "if False and any(touch",
           by=[ENDS])  # fmt: skip
HOIST.edit(
    "only the init is kept",
    "_init_first",
    "Seq.of(init, replace(loop, body=Seq.of(*rest)))",
    "Seq.of(init)",
    by=[BY_DATA],
)
HOIST.edit(
    "a condition that reads memory goes before what changes it", "_moves",
    "not reads_memory(condition) and ", "", by=[BRANCHES, BY_DATA],
)  # fmt: skip
HOIST.edit("a condition goes before one that guards it", "_moves", " and always_defined(condition)", "", by=[GUARDS])

# -- place_allocations

PLACE = Faults("place_allocations", TRANSFORM + "place_allocations", [CARRIED, CHAINS, BLOCKS])
PLACE.edit(
    "inside a loop that carries values",
    "_Placement.deeper",
    "not exposes(stmt.body, self.buffer)",
    "True",
)
PLACE.edit(
    "on the stack though threads share it",
    "_Placement.around",
    "not (top and (not is_private(self.buffer.scope) or _is_shared(stmt)))",
    "True",
    by=[PARALLEL],
)
# -- compact_buffers

COMPACT = Faults("compact_buffers", TRANSFORM + "compact_buffers", [CHAINS, TILES, BLOCKS])
COMPACT.edit("one element too few", "UsedSpan.extent", "self.high - self.low + 1", "self.high - self.low or 1")
COMPACT.edit("accesses stay where they were", "shrunk", "- (span.base + span.low)", "- span.base")
COMPACT.edit("only the last access counts", "_hull", "(min(reach[0], total.low), max(reach[1], total.high))", "reach")

# -- align_storage

ALIGN = Faults("align_storage", TRANSFORM + "align_storage", [storage()])
ALIGN.edit(
    "rows overlap", "aligned_strides", "stride += (offset - stride) % factor", "stride -= (stride - offset) % factor"
)
ALIGN.edit("the wrong remainder", "aligned_strides", "(offset - stride) % factor", "(stride - offset) % factor")
ALIGN.edit("another axis", "aligned_strides", "by_axis.get(axis, (1, 0))", "by_axis.get(len(dims) - 1 - axis, (1, 0))")

# -- flatten_buffers

FLATTEN = Faults("flatten_buffers", TRANSFORM + "flatten_buffers", [BLOCKS, VIEWS])
VECTORS = by_hand("vectors of indices", all_vectors)
FLATTEN.edit("the steps of a ramp are elements", "flat_index", "i.stride.astype(dtype) * s.astype(dtype)",
             "i.stride.astype(dtype)", by=[VECTORS])  # fmt: skip
FLATTEN.edit("a vector of rows steps by elements", "flat_index", "Broadcast(stride.astype(dtype), lanes)",
             "Broadcast(const(1, dtype), lanes)", by=[VECTORS])  # fmt: skip
FLATTEN.edit(
    "columns first", "_scalar_index", "zip(indices, strides, strict=True)", "zip(indices, strides[::-1], strict=True)"
)
FLATTEN.edit(
    "no room for the last row's padding",
    "_size",
    "last: Expr = buffer.elem_offset + 1",
    "last: Expr = buffer.elem_offset - 1",
    by=[VIEWS],
)

# -- partition_loops

TAILS = lowered(families("chain"), ("split", "split", "parallel", "parallel"))
ANY_CUT = "wherever a loop is cut, each piece drops only the conditions that its own range of iterations proves"
PARTITION = Faults("partition_loops", "minitvm.machines.simd.transform.partition_loops", [BLOCKS, TILES, CHAINS])
PARTITION.edit("the tail starts again at the start", "_pieces", "const(at, dtype), {})", "const(0, dtype), {})")
PARTITION.edit(
    "the tail is as long as the whole", "_pieces", "const(total - at, dtype)", "const(total, dtype)", by=[TAILS]
)

PARTITION.edit(
    "the main part one iteration longer",
    "_threshold",
    "last = (-others[1] + step - 1) // step",
    "last = (-others[1] + step - 1) // step + 1",
    equivalent=ANY_CUT,
)
PARTITION.edit(
    "the least of the others instead of the greatest",
    "_threshold",
    "(-others[1] + step - 1)",
    "(-others[0] + step - 1)",
    equivalent=ANY_CUT,
)
PARTITION.edit(
    "both sides of the branch are the main part",
    "_branches",
    "((low, limit - 1), (limit, high))",
    "((low, limit - 1), (low, limit - 1))",
    by=[TAILS],
)
PARTITION.edit(
    "the branch one off",
    "_branches",
    "LT(var, const(limit, var.dtype))",
    "LT(var, const(limit + 1, var.dtype))",
    by=[TAILS],
)

# -- vectorize_reductions

REDUCE = Faults("vectorize_reductions", "minitvm.machines.simd.transform.vector_reductions", [LANES])
REDUCE.edit("maximum starts at zero", "identity", "if kind in (Add, Mul):", "if kind is not Min:")
REDUCE.edit("a negative number of steps leaves a rest", "_lanes", "iterations(node.extent, *around)", "node.extent",
            by=[KERNELS])  # fmt: skip
REDUCE.edit("minimum starts where maximum does", "identity", "if kind is Max else", "if True else")
REDUCE.edit("min for max", "REDUCTIONS", 'Max: "vector_reduce_max"', 'Max: "vector_reduce_min"')
REDUCE.edit("the rest is left out", "_rewritten", "None if is_const(rest, 0) else", "None if True else")
REDUCE.edit("the rest takes all lanes", "_rewritten", "if limit is not None:", "if False:")
REDUCE.edit(
    "what stood in the cell is lost", "_rewritten", "kind(BufferLoad(update.buffer, update.indices), total)", "total"
)
REDUCE.edit(
    "the main part starts late",
    "_rewritten",
    "step(outer * lanes + start, None)",
    "step(outer * lanes + start + 1, None)",
)

# -- transpose_tiles

TURN = Faults(
    "transpose_tiles",
    "minitvm.machines.simd.transform.transpose_tiles",
    [TURNED, strategic(families("turned"), "cpu -vector_bits=256")],
)
TURN.edit("one stage of shuffles too few", "_tile", "range(side.bit_length() - 1)", "range(side.bit_length() - 2)")
TURN.edit("the lower half twice", "_tile", "tuple(lane + half for lane in low)", "low")
TURN.edit("rows of the source a step too close", "_tile", "place(start, across.scaled(j))",
          "place(start, across.scaled(j) - j)")  # fmt: skip
TURN.edit("tiles in reverse", "_turned", "start + across.scaled(first[1] + j) + (first[0] + i)",
          "start + across.scaled(first[1] + i) + (first[0] + j)")  # fmt: skip
TURN.edit("rows that no square takes are lost", "_turned", "if done < height:", "if False:")
TURN.edit("a column is left out by another's condition", "_turned", "ex.const(first[1] + tile + column, columns",
          "ex.const(first[1], columns")  # fmt: skip
TURN.edit("open strides are those of the result", "_turned", "strides = (across, down)", "strides = (down, down)")

# -- vectorize

VECTORIZE = Faults("vectorize", TRANSFORM + "vectorize", [VECTOR_BRANCHES, LONG, POINTS, BLOCKS])
VECTORIZE.edit("the tail's mask dropped", "_Vectorizer.whole", "if self.limit is not None:", "if False:", by=[LONG])
VECTORIZE.edit("the tail lost", "_strip_mined", "return tir.Seq.of(main, tail)", "return main", by=[LONG])
VECTORIZE.edit("the tail at the start", "_strip_mined", "whole * step, {})", "step * 0, {})", by=[LONG])
VECTORIZE.edit(
    "stride one, whatever the index says",
    "_Vectorizer.ramp",
    "ex.const(stride, e.dtype), self.lanes)",
    "ex.const(1, e.dtype), self.lanes)",
)
VECTORIZE.edit(
    "the loop's start times one",
    "_Vectorizer.ramp",
    "self.start.astype(e.dtype) * stride",
    "self.start.astype(e.dtype)",
    by=[LONG],
)
VECTORIZE.edit(
    "an outer mask forgotten",
    "conjunction",
    "condition if mask is None else ex.And(mask, condition)",
    "condition",
    by=[BRANCHES, LONG],
)

VECTORIZE.edit(
    "a guarded load in all lanes",
    "_Vectorizer.call",
    "self.expr(a, conjunction(mask, vector))",
    "self.expr(a, mask)",
    by=[lowered(families("chain"), ("vectorize", "vectorize"))],
)


def nothing_is_read() -> None:
    for body in BODIES:
        test_what_lanes_share_is_read_only_if_one_of_them_runs(body, 0)
    for n in (-1, 1):
        test_what_lanes_share_is_one_load_under_the_first_lanes_condition("v < n", n)


SHARED = Faults("vectorize: what lanes share", TRANSFORM + "vectorize", [by_hand("what lanes share", nothing_is_read)])
SHARED.edit(
    "it is there whether a lane runs or not",
    "_Vectorizer.agrees",
    "(mask is self.tail or self.reads_what_is_there(e))",
    "True",
)
SHARED.edit(
    "what memory says is in bounds",
    "_Vectorizer.reads_what_is_there",
    "_shown(self.around, [part for load in loads for part in _in_bounds(load)])",
    "True",
)

SHARED.edit(
    "a lane always runs", "_Vectorizer.load", "(needed, tir.BufferLoad", '(ex.const(True, "bool"), tir.BufferLoad'
)
SHARED.edit("the second lane speaks for all", "some_lane", "mask.a.base,", "mask.a.base + mask.a.stride,")


def only_what_is_done_anyway() -> None:
    for condition in CONDITIONS:
        test_only_a_load_that_is_not_done_anyway_is_masked(condition)


ANYWAY = Faults("vectorize: loads", TRANSFORM + "vectorize", [by_hand("loads done anyway", only_what_is_done_anyway)])
ANYWAY.edit("what a condition guards is read anyway", "_surely_read", "parts[:1] if guarded else parts", "parts")
ANYWAY.edit("one load of a condition is done anyway", "_Vectorizer.is_read", "return all(", "return any(")

# -- strided_loads

STRIDED = Faults("strided_loads", "minitvm.machines.simd.transform.strided_loads", [LONG, CHAINS])
STRIDED.edit(
    "the last vector an element further", "_shuffled", "(lanes - 1) * (step - 1))", "(lanes - 1) * (step - 1) + 1)"
)
STRIDED.edit("elements of later vectors are those of the first", "_shuffled", "k * lanes + step * lane", "step * lane")
STRIDED.edit(
    "what is subtracted from all lanes is lost", "_lanes", "if right[0] is not None:", "if False:", by=[KERNELS]
)

# -- shorten_loops

SHORTEN = Faults("shorten_loops", TRANSFORM + "shorten_loops", [by_hand("loops", each_form_runs_the_same_iterations)])
SHORTEN.edit("a quotient of a bound is rounded down", "_bound", "step - 1 - rest.const", "-rest.const")
SHORTEN.edit("the first iteration is left out", "_bound", "before // -step) + 1", "before // -step) + 2")
SHORTEN.edit(
    "what is left of a condition is lost",
    "_shortened",
    "if left else body.then_case",
    "if not left else body.then_case",
)

# -- strided_stores

FILLED = Faults(
    "strided_stores", "minitvm.machines.simd.transform.strided_stores", [by_hand("stores with gaps", gaps_are_filled)]
)
FILLED.edit(
    "lanes in the order of the stores",
    "_together",
    "for lane in range(lanes) for member in range(count)",
    "for member in range(count) for lane in range(lanes)",
)
FILLED.edit("what is read between is as it was", "_may_wait", "buffer in _read(store) or store.buffer in read", "False")
FILLED.edit("all others are apart", "_may_wait", "all(_apart(store, member) for store in others for member in members)",
            "True")  # fmt: skip
FILLED.edit("an element is stored once", "_groups", "if any(len(positions) > 1 for positions in starts.values()):",
            "if False:")  # fmt: skip

# -- unroll

UNROLL = Faults("unroll", TRANSFORM + "unroll", [BLOCKS, TILES])
UNROLL.edit("the last iteration lost", "_unroll", "for i in range(count)))", "for i in range(max(1, count - 1))))")
UNROLL.edit(
    "all iterations are the first", "_unroll", "const(first + i, stmt.var.dtype)", "const(first, stmt.var.dtype)"
)
UNROLL.edit("copies share their buffers", "bind", "own = replace(node.buffer)", "own = node.buffer")

# -- promote_accumulators

PROMOTE = Faults("promote_accumulators", TRANSFORM + "promote_accumulators", [TILES, BLOCKS])
PROMOTE.edit("not written back", "_promoted", "tir.Seq.of(*before, go(loop), *after)", "tir.Seq.of(*before, go(loop))")
PROMOTE.edit(
    "not loaded",
    "_promoted",
    "taken.get(_slot_key(store), tir.BufferLoad(store.buffer, store.indices, store.predicate))",
    "taken.get(_slot_key(store), ex.const(0, store.value.dtype))",
    by=[lowered(families("contraction"), ("split", "split", "reorder", "unroll", "vectorize"))],
)
PROMOTE.edit("an element that moves with the loop", "_fixed", "uses(e, inside) or ", "")
PROMOTE.edit(
    "two elements in one register",
    "_registers",
    "start = ex.const(place)",
    "start = ex.const(0)",
    by=[lowered(families("contraction"), ("split", "reorder", "reorder", "unroll", "unroll", "vectorize"))],
)

# -- skip_zeros

SKIP = Faults("skip_zeros", "minitvm.machines.simd.transform.skip_zeros", [padded_sums()])
SKIP.edit(
    "a tile needs what its first place needs", "_Skipping.reach", "first - outer - greatest", "first - outer - least"
)
SKIP.edit(
    "the last tap that meets the image is left out",
    "_Skipping.reach",
    "behind - outer - least + (step - 1)",
    "behind - outer - least",
)
SKIP.edit(
    "padding that another block reads is not written", "_without_unread", "skipping.narrow[read, dim] == count", "True"
)

# -- inject_prefetch

PREFETCH = Faults(
    "inject_prefetch",
    "minitvm.machines.cpu.inject_prefetch",
    [lowered(families("contraction", "chain"), ("split", "reorder", "vectorize", "annotate", "annotate", "annotate"))],
)
PREFETCH.edit(
    "requests in the place of what they ask for",
    "_prefetching",
    "Seq.of(*_requests(loop, distance), loop.body)",
    "Seq.of(*_requests(loop, distance))",
)
PREFETCH.edit(
    "a loop that asks ahead runs once",
    "_prefetching",
    "replace(loop, annotations",
    "replace(loop, extent=loop.extent - loop.extent + 1, annotations",
)

# -- share_values, share_loads, share_indices

VALUES = Faults(
    "share_values",
    TRANSFORM + "share_values",
    [lowered(families("repeated"), ("split", "unroll", "vectorize", "fuse"))],
)
VALUES.edit(
    "what a condition leaves out is certain", "_Dag.stored", "sure.update(self.certain[number])",
    "sure.update(self.parts[number])",
)  # fmt: skip
VALUES.edit("operands but the first are not compared", "_Dag.add", "own), numbers)", "own), numbers[:1])")
VALUES.edit("the last let is the outermost", "_Dag.stored", "in reversed(named)", "in named")

RUNS = [lowered(families("contraction", "chain", "branches"), ("split", "reorder", "unroll", "unroll", "vectorize"))]
LOADS = Faults("share_loads", TRANSFORM + "share_loads", RUNS)
LOADS.edit("loads of what the run writes", "_unconditional_loads", "node.buffer not in written and", "")
LOADS.edit(
    "loads at different places are one",
    "_key",
    "structural_key(load.indices), structural_key",
    "len(load.indices), structural_key",
)
LOADS.edit("masks read what the run writes", "_unconditional_loads", "and not _reads(node.predicate, written)", "",
           by=[KERNELS])  # fmt: skip
LOADS.edit(
    "loads under different masks are one", "_key", "load.indices), structural_key(load.predicate)", "load.indices)",
    by=[KERNELS],
)  # fmt: skip
STORES = Faults("store_runs", TRANSFORM + "store_runs", RUNS)
STORES.edit("a run is done again behind the next", "with_runs", "run = []", "pass")
STORES.edit("what ends a run is lost", "with_runs", "parts.append(stmt)", "pass")
INDEXES = Faults(
    "share_indices",
    TRANSFORM + "share_indices",
    [
        TILES,
        BLOCKS,
        lowered(
            families("contraction", "chain", "split_indices"), ("split", "reorder", "unroll", "unroll", "vectorize")
        ),
    ],
)
INDEXES.edit("the distance to the base is lost", "_replaced", "form.const)", "0)")
INDEXES.edit("what varies is lost", "_replaced", "Affine({entry[0]: 1}, form.const)", "Affine({}, form.const)")
INDEXES.edit("bases of one number of terms are one", "_key", "Affine(form.terms))", "len(form.terms))", by=[KERNELS])

# -- affine, used by most of the passes on flat buffers

AFFINE = Faults("affine forms of lowering", TRANSFORM + "affine", [TILES, BLOCKS, CHAINS])
AFFINE.edit("bounds one short", "with_loop", "first[1] + count[1] - 1)", "first[1] + count[1] - 2)")
AFFINE.edit(
    "a product with a variable has its coefficient",
    "coefficient",
    "form.terms.get(var, 0)",
    "next(iter(form.terms.values()), 0)",
)
AFFINE.edit(
    "less is less or equal", "slack", "difference - 1 if isinstance(condition, LE | GE) else difference",
    "difference - 1",
)  # fmt: skip
AFFINE.edit(
    "less or equal is less", "slack", "difference - 1 if isinstance(condition, LE | GE) else difference", "difference",
    equivalent="who asks takes `f < 0` as enough for the condition, and then it is: a form that is greater by one gives"
    " an earlier cut, or a store that does not count as certain",
)  # fmt: skip

# -- the pipeline itself

ORDER = Faults("order of passes", TRANSFORM + "pipeline", [CARRIED, CHAINS, BLOCKS, LANES])
ORDER.edit(
    "inits are not lowered",
    "PASSES",
    "plain(lower_init, ",
    "plain(simplify, ",
)
ORDER.edit(
    "iterations of concurrent loops share what they allocate", "PASSES", "plain(separate_allocations, ",
    "Pass('separate_allocations', lambda func, _: simplify(func), ", by=[WORKSPACES],
)  # fmt: skip
ORDER.edit(
    "loops are not vectorised", "PASSES", "Pass(\"vectorize\", vectorize", "Pass(\"vectorize\", lambda func, _: func",
)  # fmt: skip

# -- split_host

STEPS = lowered(families("chain"), ("parallel",))
HOST = Faults("split_host", TRANSFORM + "split_host", [STEPS, PARALLEL, BLOCKS])
HOST.edit(
    "statements after a parallel loop run before it",
    "split_host",
    "steps.append(kernel(Seq.of(*pending), visible))\n                pending",
    "steps.insert(0, kernel(Seq.of(*pending), visible))\n                pending",
)
HOST.edit(
    "the last statements are lost",
    "split_host",
    "        if pending:\n            steps.append(kernel(Seq.of(*pending), visible))\n        return",
    "        return",
)
HOST.edit("no barrier: parallel loops share a kernel", "split_host", "own = is_parallel(part) or", "own =")
