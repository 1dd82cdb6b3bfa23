"""Faults in instructions, in asynchronous copies, and in the products that tensor cores compute."""

from tests.machines.simd.strategy.test_tiles import (
    test_each_iteration_has_its_own_registers,
    test_tiles_of_four_rows_apart,
)
from tests.machines.simd.vectors.test_tile_products import test_on_this_cpu, test_without_the_instruction

from ..patch import Faults
from ..seeded import CONSENT, INSTRUCTIONS, TENSOR_CORES, WARPGROUPS
from ..streams import by_hand

STAGES = Faults("asynchronous stages", "minitvm.tir.transform.asynchronous_stages", [INSTRUCTIONS])
STAGES.edit("a part waits for one group less", "PipelineGroups.of_step", "step > needed[p]", "step >= needed[p]")
STAGES.edit("an early wait leaves one group more", "PipelineGroups.of_step", "step > max(early.values())",
            "step >= max(early.values())", by=[TENSOR_CORES])  # fmt: skip
STAGES.edit("nobody waits", "PipelineGroups.of_step", "if p in needed and p not in early:", "if False:")
STAGES.edit("no group is committed", "PipelineGroups.of_step", "if [p] == last:", "if False:")
BARRIERS = Faults("barriers and copies", "minitvm.machines.gpu.transform.insert_barriers", [INSTRUCTIONS])
BARRIERS.edit(
    "what arrives at a wait is forgotten", "_Threads.arrivals", "if not any(is_wait(node) for node in ex.walk(stmt)):",
    "if True:",
)  # fmt: skip
BARRIERS.edit("one barrier is enough, wherever it is", "_Threads.one_barrier", "self.sequence(loop.body, earlier)",
              "self.sequence(loop.body)", by=[TENSOR_CORES])  # fmt: skip
ENDS = Faults("ends of pipelines", "minitvm.tir.transform.inject_software_pipeline", [TENSOR_CORES])
ENDS.edit("copies behind the end", "_Part.before_end", "iteration < self.end", "iteration <= self.end")
ENDS.edit("the last steps are lost", "_time_steps", "replace(loop, var=step, body=body, annotations=kept)]",
          "replace(loop, var=step, extent=loop.extent - 1, body=body, annotations=kept)]")  # fmt: skip
UNCUT = Faults("loops that wait are not cut", "minitvm.machines.simd.transform.partition_loops", [TENSOR_CORES])
UNCUT.edit("they are", "_cut", "any(map(is_wait, find(loop.body, Evaluate)))", "False")
PLACES = Faults("scopes of storage", "minitvm.tir.annotations", [TENSOR_CORES])
PLACES.edit("no part of a scope is in it", "is_within", 'scope.startswith(f"{described}.")', "False")
NOTES = Faults("tensorize: storage", "minitvm.tir.schedule.primitives.tensorize", [TENSOR_CORES])
NOTES.edit("what was asked of storage is forgotten", "_implemented", "**_alignments(block)", "**{}")
GROUPS = Faults("groups of blocks", "minitvm.machines.gpu.strategy.grid", [TENSOR_CORES])
GROUPS.edit("columns before rows", "in_groups", "return sch.fuse(groups, columns, row)",
            "sch.reorder(row, columns)\n    return sch.fuse(groups, row, columns)")  # fmt: skip
SPELLING = Faults("spelling of byte instructions", "minitvm.machines.cpu.codegen.byte_instructions", [INSTRUCTIONS])
SPELLING.edit(
    "the sums so far are forgotten", "dot_4x16", "{load}({sums}, {at_c}, 16))", "{load}({sums}, {at_c}, 16) * 0)"
)
TILES = by_hand("products of tiles of bytes", test_on_this_cpu, test_without_the_instruction)
ROWS = Faults("spelling of tiles of bytes", "minitvm.machines.cpu.codegen.byte_instructions", [TILES])
ROWS.edit("rows of tiles are a column apart", "tile_dot", "stride_of(emitter, tile, 0)", "stride_of(emitter, tile, 1)")
BYTES = Faults("products of tiles of bytes", "minitvm.machines.simd.vectors.tile_products", [TILES])
BYTES.edit("bytes have no sign", "_by_words", "(word << shift) >> 24", "((word << shift) >> 24) & 255")
BYTES.edit("a word has three bytes", "_by_words", "(24, 16, 8, 0)", "(24, 16, 8)")
REGISTERS = by_hand("tile registers", test_tiles_of_four_rows_apart, test_each_iteration_has_its_own_registers)
IN_TILES = Faults("spelling of tile registers", "minitvm.machines.cpu.codegen.tile_registers", [REGISTERS])
IN_TILES.edit("all tiles of a buffer are one", "_variable", "emitter.tile(buffer, index.value)",
              "emitter.tile(buffer, 0)")  # fmt: skip
IN_TILES.edit("rows that lie apart are neighbours", "load", "* step_of(stmt.name)", "* 1")
IN_TILES.edit(
    "rows are stored where columns are", "store", "stride_of(emitter, memory, 0)", "stride_of(emitter, memory, 1)"
)
OWN_REGISTERS = Faults("registers of iterations", "minitvm.tir.analysis.threads", [REGISTERS])
OWN_REGISTERS.edit("the stack is registers", "is_register", 'scope.startswith("local.")', 'scope.startswith("local")')
OPERANDS = Faults("operands of instructions", "minitvm.machines.simd.codegen.operands", [INSTRUCTIONS, TENSOR_CORES])
OPERANDS.edit(
    "a tile starts a row below",
    "start_of",
    "tile.places[0].indices[0]",
    "tile.places[min(1, len(tile.places))].indices[0]",
)
CUDA = Faults("asynchronous copies of CUDA", "minitvm.machines.cuda.codegen.numba_cuda", [INSTRUCTIONS])
CUDA.edit("waits are left out", "_NumbaCUDA.evaluate", "stmt.value.op in (COMMIT, WAIT)", "stmt.value.op == COMMIT")
WHERE = Faults("asynchronous copies under a condition", "minitvm.machines.cuda.codegen.numba_cuda", [TENSOR_CORES])
WHERE.edit("padding is copied", "_NumbaCUDA.begun", "self.value(condition)", "True")
CORES = Faults("spelling of tensor cores", "minitvm.machines.cuda.codegen.tensor_cores", [TENSOR_CORES])
CORES.edit("pieces of the first factor change places", "load_a", "({lane} & 15) * {row} + ({lane} >> 4) * 8",
           "(({lane} & 7) + ({lane} >> 4) * 8) * {row} + (({lane} >> 3) & 1) * 8")  # fmt: skip
CORES.edit("lanes name rows of the left half alone", "load_a", "({lane} >> 4) * 8", "({lane} >> 4) * 0")
CORES.edit("columns of the second factor are rows", "LOADS", '"ldmatrix_x2_trans"', '"ldmatrix_x2"')
CORES.edit("lower rows are stored again", "store", "k // 2 * PIECE", "0 * k")
CORES.edit("pairs are stored wherever they lie", "store", "all(divides(emitter, value, 2)", "all(True")
CORES.edit("the right tile of two is the left one", "LOADS", "(_ROWS, ((0, 8), (8, 8)))", "(((0, 8), (8, 8)), _ROWS)")
CORES.edit(
    "the lower tile of two is the upper one", "LOADS", "(_COLUMNS, ((8, 0), (8, 8)))", "(((8, 0), (8, 8)), _COLUMNS)"
)
CORES.edit("float32 are not rounded", "_load_words", "emitter.operation('tf32')", "emitter.use('as_u32')")
CORES.edit("steps of float32 are columns", "load_b_words", "turned=True", "turned=False")
GROUPS = Faults("spelling of products of warpgroups", "minitvm.machines.cuda.codegen.warpgroups", [WARPGROUPS])
GROUPS.edit(
    "nobody waits", "finish", "f\"{emitter.operation('wgmma_wait')}(0)\"", "f\"{emitter.operation('wgmma_wait')}(1)\""
)
GROUPS.edit("sums are stored while products run", "store", "finish(emitter)", "pass")
GROUPS.edit("sums are not fenced", "multiply", "f\"{emitter.operation('wgmma_fence')}()\"", '""')
GROUPS.edit("all steps multiply the first ones", "multiply", "range(0, steps_of(stmt.name), DEPTH)",
            "[0] * (steps_of(stmt.name) // DEPTH)")  # fmt: skip
GROUPS.edit("the next steps of columns are in their line", "multiply", "along if turned else step * SLAB", "along")
GROUPS.edit("pairs lie anywhere", "store", "at_once = 2 if all(", "at_once = 2 if any(")
PROXY = Faults("stores that products read", "minitvm.machines.cuda.codegen.numba_cuda", [WARPGROUPS])
PROXY.edit("they are not made known", "_NumbaCUDA.evaluate", "if self.has_products:", "if False:")
PROXY.edit("operands change while products run", "_NumbaCUDA.evaluate", "warpgroups.finish(self)", "pass")
SWIZZLE = Faults("swizzled tiles", "minitvm.machines.cuda.swizzle_shared", [WARPGROUPS])
SWIZZLE.edit("each second line is as the first one", "swizzle_shared", "line % LINES", "line % LINES // 2")
SWIZZLE.edit("pieces are elements", "swizzle_shared", "PIECE // new.buffer.dtype.bytes", "1")
ON_GROUPS = Faults("products on warpgroups", "minitvm.machines.cuda.strategy.warpgroups", [WARPGROUPS])
ON_GROUPS.edit("small products are taken too", "warpgroup", "if candidate.cost.cycles < most:", "if True:")
GROUP_TILES = Faults("tiles of warpgroups", "minitvm.machines.cuda.strategy.warpgroup_tiles", [WARPGROUPS])
BLOCK_TILES = Faults("tiles of blocks", "minitvm.machines.cuda.strategy.warp_tiles", [WARPGROUPS])
BLOCK_TILES.edit("registers have no end", "BlockTile.fits", "self.threads * self.registers <=", "0 <=")
BLOCK_TILES.edit("shared storage has no end", "BlockTile.fits", "self.shared_bytes(product, by_way) <=", "0 <=")
GROUP_TILES.edit("all groups of a block compute the same rows", "WarpgroupTile.groups", "self.rows // ROWS", "1")
TF32 = Faults("float32 on tensor cores", "minitvm.machines.cuda.tf32_products", [CONSENT])
TF32.edit("nobody is asked", "tf32_products", "not target.rounds_to_tf32", 'target.kind != "cuda"')
TF32.edit("strict accuracy rounds too", "tf32_products", 'accuracy == "strict"', "False")
TEN_BITS = Faults("rounding to 10 bits", "minitvm.codegen.decompose", [CONSENT])
TEN_BITS.edit("what is dropped is cut off", "_rounded_to_tf32", "1 << (_DROPPED - 1)", "0")
TEN_BITS.edit("NaN are rounded", "_rounded_to_tf32", '"isfinite", value)', '"isfinite", ex.const(0.0, x.dtype))')
THREADS = Faults("what a warp does together", "minitvm.machines.gpu.transform.bind_threads", [TENSOR_CORES])
THREADS.edit(
    "every lane does it", "_by_one_lane", "replace(node, body=If(EQ(lanes.var, lanes.start), node.body))", "node"
)
PADDED = Faults("products on tensor cores", "minitvm.machines.cuda.strategy.tensor_cores", [TENSOR_CORES])
MATRICES = Faults("tiles of tensor cores' products", "minitvm.machines.gpu.strategy.matrices", [TENSOR_CORES])
MATRICES.edit(
    "extents that do not divide are not padded", "MatrixProduct.divides", "return self.m", "return True or self.m"
)
MATRICES.edit("the sum alone is padded", "as_matrices", "*tile], scopes", "1, 1, tile[2]], scopes")
PADDED.edit("blocks along y and z have no end", "tiled", "if max(counts) > MOST:", "if False:")
