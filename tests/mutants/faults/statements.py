"""Faults in lowering that a block of ordinary statements shows."""

from ..bodies import statements
from ..patch import Faults
from ..siblings import as_written
from ..workloads import families, lowered

STATEMENTS = as_written(statements, examples=900)
CARRIED = lowered(families("carried", "running"), ("split", "unroll", "vectorize"))

SIMPLIFY = Faults("statements: simplify", "minitvm.tir.transform.simplify", [STATEMENTS])
SIMPLIFY.edit(
    "a loop whose other iterations do only the else branch runs once",
    "_guarded",
    "return isinstance(stmt, If) and stmt.else_case is None",
    "return isinstance(stmt, If)",
)
SIMPLIFY.edit(
    "the last iteration that acts is left out", "_iterations_that_act", "return high", "return max(1, high - 1)"
)

PARTITION_LOOPS = Faults("statements: partition_loops", "minitvm.machines.simd.transform.partition_loops", [STATEMENTS])
PARTITION_LOOPS.edit(
    "the second piece of a loop that starts elsewhere starts at the cut",
    "_pieces",
    "start = fold(loop.start.astype(dtype) + const(at, dtype), {})",
    "start = fold(const(at, dtype), {})",
)

UNROLL = Faults("statements: unroll", "minitvm.tir.transform.unroll", [STATEMENTS])
UNROLL.edit(
    "an unrolled loop starts at 0",
    "_unroll",
    "const(first + i, stmt.var.dtype)",
    "const(i, stmt.var.dtype)",
)
