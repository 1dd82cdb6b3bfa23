"""TVM's names: what a script, a schedule or a test that is written for TVM asks for, and the bridge to a real TVM.

    ir, nd, testing, transform, analysis, stmt_functor    modules under TVM's names: `minitvm.ir`, `minitvm.nd`, ...
    schedule            the primitives that only TVM's scripts call, and TVM's tests of a trace
    tensor_intrin       TVM's tensor intrinsics, by their names
    convert_layout      the pass ConvertLayout
    bridge, worker      a real TVM in another process

The spine imports nothing from here. `minitvm/doors.py` says which of these names it offers.
"""

__all__ = [
    "analysis", "bridge", "convert_layout", "ir", "nd", "schedule", "stmt_functor", "tensor_intrin", "testing",
    "transform",
]  # fmt: skip
