"""Faults in lowering and in the interpreters that random programs of blocks, threads and stages show."""

from ..patch import Faults
from ..seeded import BLOCKS, GONE_WRONG, KERNELS, STAGES, THREADS

HOIST_CONDITIONS = Faults("programs: hoist_conditions", "minitvm.tir.transform.hoist_conditions", [BLOCKS])
HOIST_CONDITIONS.edit(
    "a condition on memory moves out of the loop that changes it",
    "_unswitched",
    "if not uses(c, [loop.var]) and _moves(c)]",
    "if not uses(c, [loop.var])]",
)
HOIST_CONDITIONS.edit(
    "an init in front of a loop of unknown extent runs for extent 0 too",
    "_init_first",
    "if count is None or count[0] < 1:",
    "if count is not None and count[0] < 1:",
)
HOIST_CONDITIONS.edit(
    "conditions that stay in a loop are lost",
    "_unswitched",
    "If(all_of(inside), branch.then_case) if inside else branch.then_case",
    "branch.then_case",
)
HOIST_CONDITIONS.edit(
    "what the first iteration does alone keeps the loop's variable",
    "_init_first",
    "init = bind(init, {loop.var: loop.start.astype(loop.var.dtype)})",
    "init = bind(init, {loop.var: (loop.start + loop.extent - 1).astype(loop.var.dtype)})",
)

LOWER_INIT = Faults("programs: lower_init", "minitvm.tir.transform.lower_init", [BLOCKS])
LOWER_INIT.edit(
    "a loop that repeats the block gets one init",
    "init_nest",
    "if any(l.var not in reduced | spatial and not is_const(l.extent, 1) for l in inner):",
    "if False:",
)
LOWER_INIT.edit(
    "an init moves past what writes its inputs",
    "_alone",
    "return settled and ",
    "return ",
)
LOWER_INIT.edit(
    "every later part of a reduction gets an init",
    "_begins",
    "return all(Analyzer()",
    "return True or all(Analyzer()",
)
LOWER_INIT.edit(
    "a loop in a spatial and a reduction iterator is left out of the init",
    "init_nest",
    "if not binding or reduced & spatial or block.init is None:",
    "if not binding or block.init is None:",
)
LOWER_INIT.edit(
    "an init loses the block's predicate",
    "init_nest",
    "BlockRealize(node.iter_values, all_of(kept)",
    "BlockRealize(node.iter_values, all_of([])",
)

FLATTEN_BUFFERS = Faults("programs: flatten_buffers", "minitvm.tir.transform.flatten_buffers", [BLOCKS])
FLATTEN_BUFFERS.edit(
    "a strided buffer is one element short",
    "_size",
    "last: Expr = buffer.elem_offset + 1",
    "last: Expr = buffer.elem_offset + 0",
)

LOWER_MATCH_BUFFERS = Faults("programs: lower_match_buffers", "minitvm.tir.transform.lower_match_buffers", [BLOCKS])
LOWER_MATCH_BUFFERS.edit(
    "a view's offset forgets that of its source",
    "_layout_variables",
    "offset: Expr = base.elem_offset",
    "offset: Expr = base.elem_offset * 0",
)
LOWER_MATCH_BUFFERS.edit(
    "strides of a view of fewer dimensions are those of the first ones",
    "_layout_variables",
    "zip(view.strides, strides[lead:], strict=False)",
    "zip(view.strides, strides, strict=False)",
)
LOWER_MATCH_BUFFERS.edit(
    "a view of fewer dimensions starts where the first ones do",
    "_indices",
    "zip(region.region[lead:], indices, strict=True)",
    "zip(region.region, indices, strict=False)",
)

SEPARATE_ALLOCATIONS_OF_THREADS = Faults(
    "programs: separate_allocations of threads", "minitvm.tir.transform.separate_allocations", [THREADS]
)
SEPARATE_ALLOCATIONS_OF_THREADS.edit(
    "parts of a loop that starts elsewhere are not counted from 0",
    "in_own_part",
    "index = (loop.var - loop.start).astype",
    "index = loop.var.astype",
)

INSERT_BARRIERS = Faults("programs: insert_barriers", "minitvm.machines.gpu.transform.insert_barriers", [THREADS])
INSERT_BARRIERS.edit(
    "a loop of several statements needs no barrier at its end",
    "_Threads.visit",
    "if self.meet_later(stmt, is_shared):",
    "if self.meet_later(stmt, is_shared) and not isinstance(stmt.body, tir.Seq):",
)
INSERT_BARRIERS.edit(
    "the next iteration is not a later one",
    "_Threads.meet_later",
    "start=ex.const(1, ahead.dtype)",
    "start=ex.const(2, ahead.dtype)",
)
INSERT_BARRIERS.edit(
    "what comes right behind a barrier is forgotten",
    "_Threads.sequence",
    "parts.append(_barrier())\n                earlier = []\n",
    "parts.append(_barrier())\n                earlier, own = [], []\n",
)
INSERT_BARRIERS.edit(
    "conditions around a statement count the other way round",
    "_Threads.uses",
    "seen = guarded(seen, condition)",
    "seen = guarded(seen, ex.Not(condition))",
)

INJECT_SOFTWARE_PIPELINE = Faults(
    "programs: inject_software_pipeline", "minitvm.tir.transform.inject_software_pipeline", [STAGES]
)
INJECT_SOFTWARE_PIPELINE.edit(
    "a pipeline of symbolic extent runs later stages before the first iteration",
    "_Part.within_bounds",
    "all_of([iteration >= self.loop.start, iteration < self.end])",
    "all_of([iteration < self.end])",
)
INJECT_SOFTWARE_PIPELINE.edit(
    "versions of iterations of a concurrent loop share storage",
    "_one_iteration",
    " and not uses(r.start, apart)",
    "",
)
INJECT_SOFTWARE_PIPELINE.edit(
    "the last step of an epilogue is missing",
    "_time_steps",
    "written_out(count, count + depth)",
    "written_out(count, count + depth - 1)",
)
INJECT_SOFTWARE_PIPELINE.edit(
    "rows of a version start where those of the buffer do",
    "_Versions.moved",
    "i if start is None else i - start",
    "i",
)

BIND_THREADS = Faults("programs: bind_threads", "minitvm.machines.gpu.transform.bind_threads", [THREADS])
BIND_THREADS.edit(
    "of two thread axes that do alike only one is guarded",
    "_guards",
    "all_of([EQ(l.var, l.start) for l in alone])",
    "all_of([EQ(l.var, l.start) for l in alone[:1]])",
)
BIND_THREADS.edit(
    "local storage gets parts for virtual threads that share it with others",
    "_with_own_parts",
    "if accesses_of(l, new.buffer) == every",
    "if accesses_of(l, new.buffer) > 0",
)
BIND_THREADS.edit(
    "the thread that does it for all is number 0",
    "_guards",
    "EQ(l.var, l.start)",
    "EQ(l.var, l.start * 0)",
)
BIND_THREADS.edit(
    "a thread that is bound again starts at 0",
    "_bound_once",
    "thread = bound[axis].var.astype(node.var.dtype)",
    "thread = (bound[axis].var - bound[axis].start).astype(node.var.dtype)",
)

PARALLEL_LOOPS = Faults("programs: parallel_loops", "minitvm.tir.transform.parallel_loops", [BLOCKS])
PARALLEL_LOOPS.edit(
    "parallel loops that start elsewhere are fused as if at 0",
    "_fused",
    "if not zero or uses(inner.extent, [outer.var]):",
    "if uses(inner.extent, [outer.var]):",
)
PARALLEL_LOOPS.edit(
    "fused parallel loops are taken apart by the outer extent",
    "_fused",
    "outer.var: FloorDiv(fused, inner.extent.astype(fused.dtype))",
    "outer.var: FloorDiv(fused, outer.extent.astype(fused.dtype))",
)

GRID = Faults("interpreted programs: grid", "minitvm.reference.fast.grid", [GONE_WRONG])
GRID.edit(
    "the fast mode lets an index reach the extent",
    "inside",
    "index.max() < extent",
    "index.max() <= extent",
)

LOCKSTEP = Faults("interpreted programs: lockstep", "minitvm.reference.fast.lockstep", [GONE_WRONG])
LOCKSTEP.edit(
    "a view may reach out of its source in the fast mode",
    "LockstepCompiler._match",
    "inside(f(env), limit - n + 1, env[MASK])",
    "inside(f(env), limit, env[MASK])",
)

COMPACT_BUFFERS = Faults("programs: compact_buffers", "minitvm.tir.transform.compact_buffers", [BLOCKS])
COMPACT_BUFFERS.edit(
    "a span begins where the last access does",
    "_hull",
    "(min(reach[0], total.low), max(reach[1], total.high))",
    "(reach[0], max(reach[1], total.high))",
)

PIPELINES = Faults("programs: pipelines", "minitvm.tir.analysis.software_pipelines", [STAGES])
PIPELINES.edit(
    "versions do not go by the order in a time step",
    "_versions",
    "stages[p] - stages[q] + (order[p] > order[q])",
    "stages[p] - stages[q]",
)

PARTS_OF_BLOCKS = Faults("programs: strides of parts", "minitvm.tir.strides", [BLOCKS])
PARTS_OF_BLOCKS.edit("parts of strided storage overlap", "strides_of_parts", "Max(rows, span)", "strides[0]")

PLACE_ALLOCATIONS = Faults("programs: place_allocations", "minitvm.tir.transform.place_allocations", [BLOCKS])
PLACE_ALLOCATIONS.edit(
    "an allocation ends before its last user",
    "_Placement.in_sequence",
    "Seq(stmt.stmts[users[0] : users[-1] + 1])",
    "Seq(stmt.stmts[users[0] : users[-1]])",
)

INJECT_VIRTUAL_THREAD = Faults(
    "programs: inject_virtual_thread", "minitvm.tir.transform.inject_virtual_thread", [THREADS]
)
INJECT_VIRTUAL_THREAD.edit(
    "only the first of several statements goes inwards",
    "_inward",
    "tuple(_inward(loop, part, under) for part in stmt.stmts)",
    "tuple(_inward(loop, part, under) for part in stmt.stmts[:-1]) + stmt.stmts[-1:]",
)

VECTORIZE = Faults("programs: vectorize", "minitvm.tir.transform.vectorize", [KERNELS])
VECTORIZE.edit(
    "the right side of `or` is read where the left one holds",
    "_Vectorizer.expr",
    "needed = a if isinstance(e, ex.And) else ex.Not(a)",
    "needed = a",
)

PROMOTE = Faults("programs: promote_accumulators", "minitvm.tir.transform.promote_accumulators", [KERNELS])
PROMOTE.edit(
    "a start that reads memory is taken past the store that it reads",
    "_taken_stores",
    "if ex.contains(last.value, tir.BufferLoad):",
    "if False:",
)
PROMOTE.edit(
    "a mask may vary with the loop",
    "_fixed",
    "(access.indices[0], access.predicate)",
    "(access.indices[0],)",
)

BARRIERS = Faults("programs: insert_barriers, later turns", "minitvm.machines.gpu.transform.insert_barriers", [THREADS])
BARRIERS.edit(
    "a name keeps its value in later turns",
    "_Threads.meet_later",
    "t.at({loop.var: loop.var + ahead})",
    "t",
)
