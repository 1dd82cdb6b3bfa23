"""Faults in the schedules that `build` chooses for GPUs, and in how shared storage shrinks."""

from tests.arith.test_bits import CHECKS as BIT_CHECKS
from tests.machines.gpu.strategy.test_gpu import test_the_next_line_begins_a_vector_of_banks_further
from tests.reference.test_bank_conflicts import CHECKS as CONFLICT_CHECKS
from tests.reference.test_private_storage import CHECKS as PRIVATE_CHECKS

from ..gpu import CHECKS, LANES
from ..patch import Faults
from ..seeded import TENSOR_CORES, seeded
from ..streams import by_hand

TILES_ON_GPUS = seeded("tiles of blocks of threads", lambda k: CHECKS[k](), len(CHECKS))

OWNERS = seeded("storage of parallel iterations", lambda k: PRIVATE_CHECKS[k](), len(PRIVATE_CHECKS))
CONFLICTS = seeded("bank conflicts", lambda k: CONFLICT_CHECKS[k](), len(CONFLICT_CHECKS))
BIT_BOUNDS = seeded("bounds of bits", lambda k: BIT_CHECKS[k](), len(BIT_CHECKS))
WARPS = seeded("warps of the simulator", lambda k: LANES[k](), len(LANES))

SHRINK = Faults("shrink_shared", "minitvm.machines.gpu.transform.shrink_shared", [TILES_ON_GPUS])
SHRINK.edit(
    "what a later iteration reads is dropped",
    "_loop_of",
    "exposes(innermost.body, buffer, tree.all_loops_above(innermost))",
    "False",
)
SHRINK.edit("nothing shrinks", "_loop_of", "_uses(loop, buffer) == every", "_uses(loop, buffer) < every")
SHARED = Faults("tiles that blocks fetch", "minitvm.machines.gpu.strategy.fetched_tiles", [TILES_ON_GPUS, TENSOR_CORES])
SHARED.edit("what does not divide is not padded", "padded", "size % some == 0 for", "size % some >= 0 for")
SHARED.edit("copies are no tiles that threads share", "staged", "read, scope, tile)", 'read, "global", tile)')
AXES = Faults("axes that are joined", "minitvm.strategy.roles", [TILES_ON_GPUS, TENSOR_CORES])
AXES.edit("joined axes overlap", "joined", "iterators[position].dom.extent +", "1 +")
STAGED = Faults("tiles by way of registers", "minitvm.machines.gpu.strategy.fetched_tiles", [TILES_ON_GPUS])
STAGED.edit("threads share their registers", "kept_in_registers", 'sch.set_scope(copy, 0, "local")', "pass")
STAGED.edit("threads have one place", "by_way_of_registers", "each.append(number % size)", "each.append(number * 0)")
REBOUND = Faults("axes that are bound again", "minitvm.tir.analysis.threads", [TILES_ON_GPUS])
REBOUND.edit(
    "the first thread does it for all", "each_axis_once", "outer.var.astype(node.var.dtype)",
    "outer.var.astype(node.var.dtype) * 0",
)  # fmt: skip
REBOUND.edit("threads do not go in step", "in_step", "if is_hardware_thread(l) and", "if False and")
COSTS = Faults("costs on GPUs", "minitvm.machines.gpu.strategy.costs", [TILES_ON_GPUS])
COSTS.edit("local memory is as fast everywhere", "_loads", "1.0 if target.local_memory_helps else _NOT_LOCAL", "1.0")
COSTS.edit("registers have no end", "residents", "if target.registers_per_block:", "if False:")
COSTS.edit("shared storage has no end", "residents", "if block.copied:", "if False:")
COSTS.edit(
    "gaps between lines take no room", "gap", "(APART - line) % BANKS", "0 * (APART - line)",
    by=[by_hand("gaps between lines", test_the_next_line_begins_a_vector_of_banks_further)],
)  # fmt: skip
COSTS.edit(
    "other kernels are free", "element_wise_cost", "Cost(_KERNEL + loads * _IN_TURN + work, 4 *", "Cost(0.0, 0 *"
)
JOINED = Faults("products of matrices on GPUs", "minitvm.machines.gpu.strategy.implicit_gemm", [TILES_ON_GPUS])
JOINED.edit(
    "what adds up is on no grid", "_added_up", "over_blocks_of_threads(nest)",
    '[thread := sch.fuse(*nest.at("threads")), sch.bind(thread, "threadIdx.x")][0]',
)  # fmt: skip
JOINED.edit("one piece is enough for two stages", "tiles", "depth * splits * (stages - 1)", "0")
JOINED.edit("virtual threads fetch, each for itself", "schedule", "tile.fetch == IN_FRONT or", "True or")
JOINED.edit("a second kernel is free", "tile_cost", "if tile.splits > 1:", "if False:")
JOINED.edit("few warps are as good as many", "tile_cost", "max(1.0, _SCHEDULERS / warps)", "1.0")
JOINED.edit("threads fetch no vectors", "fetches_of", "run if axis == len(axes) - 1 or", "1 if axis < 9 or")
HELD = Faults("rows in registers", "minitvm.machines.gpu.strategy.held_rows", [TILES_ON_GPUS])
HELD.edit("threads have no place of their own", "hold", "from_func(places,", "from_func(lambda *index: list(index),")
HELD.edit("rows need not be whole vectors", "fits", "length % (threads * lanes) == 0 and", "")
HELD.edit("registers have no end", "fits", "length // threads <= _MOST", "length > 0")
HELD.edit(
    "only the first block reads the copy", "_copied", 'buffer, "local", handles)', 'buffer, "local", handles[:1])'
)
HELD.edit("vectors are copied along columns as well", "_rows_read", "and extents(buffer.shape) == sizes", "")
MATRICES = Faults("sums as products of matrices", "minitvm.machines.gpu.strategy.matrices", [TILES_ON_GPUS])
MATRICES.edit(
    "rows and columns change places", "product_of_matrices", "swapped = first is not loads[0]", "swapped = True"
)
MATRICES.edit("what does not divide is as it was", "as_matrices", "always or consumers or", "not always and")
IN_PARTS = Faults("sums in parts", "minitvm.machines.gpu.strategy.split_sums", [TILES_ON_GPUS])
IN_PARTS.edit("any grid is large enough", "numbers_of_parts", "parts // 2 * blocks <", "parts * blocks * 99 <")
IN_PARTS.edit("what adds up is on no grid", "added_up", "over_blocks_and_threads(sch, nest.tiles, THREADS)", "pass")
IN_PARTS.edit("the axis of the parts is no sum", "_place", "axis.kind == REDUCE", "axis.kind != REDUCE")
SHARED.edit("a transform is computed where it is fetched", "inlined", "ForKind.THREAD not in kinds", "kinds")
WINOGRAD = Faults("Winograd's algorithm on GPUs", "minitvm.machines.gpu.strategy.winograd", [TILES_ON_GPUS])
WINOGRAD.edit("the image's transform is free", "_transforms", 'element_wise_cost(2 * values["tiles"]', "Cost(0) or (2")
WINOGRAD.edit("threads share a tile's pixels", "_in_registers", 'sch.set_scope(stage, 0, "local")', "pass")
ALGORITHMS = Faults("algorithms on GPUs", "minitvm.machines.gpu.strategy.algorithms", [TILES_ON_GPUS])
ALGORITHMS.edit("strict is not heard", "convolution_algorithms", 'accuracy == "strict"', "False")
ALGORITHMS.edit("dilation is not seen", "convolution_algorithms", "conv.dilation) == (", "(1, 1)) == (")
LIMITS = Faults("limits of grids", "minitvm.machines.gpu.codegen.grids", [TILES_ON_GPUS])
LIMITS.edit("axes have no end", "GridEmitter.check_grid", "if number > most", "if number > 2 * most")
GRID = Faults("grids of open extents", "minitvm.machines.gpu.strategy.grid", [TILES_ON_GPUS])
GRID.edit("open extents are fused", "_axes", "constant_extent(sch, loop) is None", "False")
GRID.edit("all blocks are along one axis", "over_blocks", "zip(axes, AXES, strict=False)", "[(axes[0], AXES[0])]")
OWNED = Faults("separate_allocations: storage of owners", "minitvm.tir.transform.separate_allocations", [TILES_ON_GPUS])
OWNED.edit("it stays where it is allocated", "_has_its_own",
           "if owns(loop, buffer.scope):", "if False:")  # fmt: skip
OWNED.edit("iterations of a parallel loop share a workspace", "_has_its_own",
           "return loop.kind is tir.ForKind.PARALLEL and", "return False and", by=[OWNERS])  # fmt: skip
PARTS = Faults("parts of fused loops", "minitvm.tir.analysis.bindings", [TILES_ON_GPUS])
PARTS.edit("their bounds are unknown", "reaches_every_point", "analyzer.bind(var, r)", "pass")
MEETINGS = Faults("warps of the simulator", "minitvm.machines.cuda.runtime.simulated_warps", [WARPS])
MEETINGS.edit("lanes with other masks meet", "together", "place = (size, warp, mask)", "place = (size, warp, 0)")
MEETINGS.edit(
    "a lane that takes no part has a value", "shuffle", "if source not in brought:",
    "brought = {**dict.fromkeys(range(LANES), (0, 0)), **brought}\n            if source not in brought:",
)  # fmt: skip
EXCHANGED = Faults("shuffles", "minitvm.reference.meaning.warps", [WARPS])
EXCHANGED.edit("sections are forgotten", "source_lane", "other if first <= other < first + width else lane", "other")
PRIVATE = Faults("private storage", "minitvm.reference.meaning.threads", [OWNERS])
PRIVATE.edit(
    "iterations of parallel loops share it", "_owns", 'not scope.startswith(("global", "shared", "warp"))', "False"
)
PRIVATE.edit("what is divided exists many times", "_with_owners", "l.var not in apart[buffer]", "True")
BANKS = Faults("bank conflicts", "minitvm.reference.bank_conflicts", [CONFLICTS])
BANKS.edit("a warp accesses 16 bytes a thread at once", "conflicts", "WARP * WORD // max(WORD, width)", "WARP")
BANKS.edit("accesses of a word are apart", "conflicts", ".add(word)", ".add((word, lane))")
BITS = Faults("bounds of bits", "minitvm.arith.normal", [BIT_BOUNDS])
BITS.edit("no bit is new", "Normalizer.value_interval", "(1 << high.bit_length()) - 1", "high")
