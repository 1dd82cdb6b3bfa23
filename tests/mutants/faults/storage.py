"""Faults in the primitives that say where and how buffers are stored, and what blocks touch."""

from ..contracts import storage
from ..patch import Faults
from ..workloads import families, primitive, schedules

PRIMITIVES = "minitvm.tir.schedule.primitives."
REGIONS = schedules("annotate_buffer_access", wild=True, then=("compute_at", "compute_at", "reverse_compute_at"))

ALIGN = Faults("storage_align", PRIMITIVES + "storage", [storage(examples=900)])
ALIGN.edit("another axis", "storage_align", "axis %= buffer.ndim", "axis = (axis + 1) % buffer.ndim")
ALIGN.edit("factor and offset exchanged", "storage_align", "[number, axis, factor, offset]",
           "[number, axis, offset + 1, factor - 1]")  # fmt: skip
ALIGN.edit("only what was asked for last", "storage_align", "sorted([*kept, ", "sorted([")

SEPARATORS = Faults(
    "set_axis_separators", "minitvm.compat.tvm.schedule.primitives.axis_separators", [primitive("set_axis_separators")]
)
SEPARATORS.edit("not used", "set_axis_separators",
                "with_buffers(tree.func.body, {old: new})", "tree.func.body")  # fmt: skip
SEPARATORS.edit("the parameter stays the old one", "set_axis_separators", "new if p is old else p for", "p for")

REGION = Faults("annotate_buffer_access", "minitvm.compat.tvm.schedule.primitives.annotate_buffer_access", [
    REGIONS,
    schedules("annotate_buffer_access", of=families("chain"), prepare=(), wild=True, then=("compute_at",)),
])  # fmt: skip
REGION.drop("a region that does not hold the accesses", "annotate_buffer_access", "holds_the_accesses")
REGION.edit("another region than was judged", "annotate_buffer_access",
            "BufferRegion(regions[buffer_index].buffer, box)",
            "BufferRegion(regions[buffer_index].buffer, tuple(Range(r.start + r.extent - 1, as_expr(1)) for r in box))",
            )  # fmt: skip

SCOPE = Faults("set_scope", "minitvm.tir.schedule.views", [primitive("set_scope")])
SCOPE.edit(
    "loads keep the old buffer",
    "with_buffers",
    "isinstance(at, BufferLoad | BufferStore | BufferRegion | BufferData)",
    "isinstance(at, BufferStore | BufferRegion | BufferData)",
)
SCOPE.edit("not allocated", "with_buffers", "tuple(moved.get(b, b) for b in at.alloc_buffers)", "at.alloc_buffers")
DTYPE = Faults(
    "unsafe_set_dtype",
    "minitvm.compat.tvm.schedule.primitives.unsafe_set_dtype",
    [primitive("unsafe_set_dtype", examples=1000)],
)
DTYPE.edit(
    "a dropped cast: the value is stored as zero",
    "unsafe_set_dtype",
    "Cast(new_dtype, value)",
    "Cast(new_dtype, value - value)",
)
DTYPE.edit(
    "loads are of the first element",
    "unsafe_set_dtype",
    "return Cast(old.dtype, BufferLoad(moved[at.buffer], at.indices, at.predicate))",
    "return Cast(old.dtype, BufferLoad(moved[at.buffer], tuple(i * 0 for i in at.indices), at.predicate))",
)
