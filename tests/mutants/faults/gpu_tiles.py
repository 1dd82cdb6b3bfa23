"""Faults in the schedules that `build` chooses for GPUs, and in how shared storage shrinks."""

from ..gpu import CHECKS
from ..patch import Faults
from ..seeded import seeded

TILES_ON_GPUS = seeded("tiles of blocks of threads", lambda k: CHECKS[k](), len(CHECKS))

SHRINK = Faults("shrink_shared", "minitvm.tir.transform.shrink_shared", [TILES_ON_GPUS])
SHRINK.edit(
    "what a later iteration reads is dropped",
    "_loop_of",
    "exposes(innermost.body, buffer, tree.all_loops_above(innermost))",
    "False",
)
SHRINK.edit("nothing shrinks", "_loop_of", "_uses(loop, buffer) == every", "_uses(loop, buffer) < every")
SHARED = Faults("shared tiles", "minitvm.strategy.gpu.shared_tiles", [TILES_ON_GPUS])
SHARED.edit("what does not divide is not padded", "_pad", "size % some == 0 for", "size % some >= 0 for")
SHARED.edit("copies are no tiles that threads share", "_copied", '"shared", as_tile', '"global", as_tile')
COSTS = Faults("costs on GPUs", "minitvm.strategy.gpu.costs", [TILES_ON_GPUS])
COSTS.edit("local memory is as fast everywhere", "_loads", "1.0 if target.local_memory_helps else _NOT_LOCAL", "1.0")
COSTS.edit("registers have no end", "residents", "if target.registers_per_block:", "if False:")
COSTS.edit("shared storage has no end", "residents", "if block.copied:", "if False:")
