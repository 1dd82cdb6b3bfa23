"""Wrong: asks the class of the operator that computes the input, not of its whole kernel."""

from __future__ import annotations

from lessons.fusing import Op


def kernels(ops: list[Op]) -> list[list[str]]:
    """The names of the operators of each kernel."""
    readers = {op.name: {other.name for other in ops if op.name in other.inputs} for op in ops}
    kernel_of: dict[str, list[Op]] = {}
    kernels: list[list[Op]] = []
    for op in ops:
        for value in op.inputs:
            kernel = kernel_of.get(value)
            if kernel is not None and len(readers[value]) == 1 and may_join(op, kernel):
                break
        else:
            kernel = []
            kernels.append(kernel)
        kernel.append(op)
        kernel_of[op.name] = kernel
    return [[op.name for op in kernel] for kernel in kernels]


def may_join(op: Op, kernel: list[Op]) -> bool:
    """Whether the classes allow it."""
    kinds = {kernel[-1].kind}
    if op.kind == "element-wise":
        return "opaque" not in kinds
    return op.kind in ("injective", "reduction") and kinds <= {"element-wise", "injective"}
