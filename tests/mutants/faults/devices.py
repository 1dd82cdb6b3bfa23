"""Faults in kernels for OpenCL devices, and in how they are launched."""

from ..patch import Faults
from ..seeded import MASKS_ON_A_DEVICE as MASKED
from ..seeded import ON_A_DEVICE, ON_GRIDS

CODEGEN = "minitvm.codegen."

EXPRESSIONS = Faults("opencl expressions", CODEGEN + "opencl_expressions", [ON_GRIDS, MASKED, ON_A_DEVICE])
EXPRESSIONS.edit(
    "quotients of numbers below zero are truncated", "OpenCLExpressions.division",
    "(not floor or (low is not None and low >= 0))", "True", by=[MASKED],
)  # fmt: skip
EXPRESSIONS.edit(
    "a mask's base is forgotten", "OpenCLExpressions.prefix_mask", " - {atom(self.index(ramp.base))}", "", by=[MASKED]
)
EXPRESSIONS.edit(
    "vectors with a step are contiguous", "OpenCLExpressions.contiguous", "and is_const(e.stride, 1)", "", by=[MASKED]
)
LIBRARY = Faults("opencl library", CODEGEN + "opencl_library", [ON_A_DEVICE, MASKED])
LIBRARY.edit("the remainder has the dividend's sign", "_floormod", "r + b : r);", "r : r);")
LIBRARY.edit("small integers do not wrap", "added", "dtype.bits < 32 and dtype.lanes == 1", "False")
TYPES = Faults("opencl types", CODEGEN + "opencl_types", [ON_A_DEVICE])
TYPES.edit("unsigned integers are signed", "_SCALARS", 'f"u{name}" for', "name for")
TYPES.edit("doubles are floats", "_SCALARS", '"float64": "double"', '"float64": "float"')
STATEMENTS = Faults("opencl statements", CODEGEN + "opencl", [ON_GRIDS, ON_A_DEVICE])
STATEMENTS.edit("threads do not wait", "_OpenCL.evaluate", 'stmt.value.op == "tvm_storage_sync"', "False")
STATEMENTS.edit("a block's threads are its blocks", "_OpenCL.thread", "'get_group_id' if", "'get_local_id' if")
STATEMENTS.edit(
    "a share of a parallel loop is one short",
    "_OpenCL.loop_bounds",
    "share.format(' + 1')}",
    "share.format(' + 1')} - 1",
)
LAUNCH = Faults("opencl program", "minitvm.runtime.opencl.program", [ON_GRIDS])
LAUNCH.edit("as many work-items as blocks", "BoundProgram._work", "tuple(b * t for b, t", "tuple(max(b, t) for b, t")
LAUNCH.edit(
    "outputs are not copied back",
    "BoundProgram._copy_out",
    "cl.enqueue_copy(queue, array, buffer, is_blocking=False)",
    "pass",
)
