"""The operations of kernel source on a CPU: `vectors.lanes` as the part of Numba that compiles for CPUs wants them."""

from __future__ import annotations

from llvmlite import ir
from numba.core import types
from numba.core.imputils import lower_builtin
from numba.core.typing.templates import builtin_registry

from ..vectors import simd  # noqa: F401 (registers the operations)
from ..vectors.byte_products import INSTRUCTIONS
from ..vectors.lanes import I32, Operation, Value, declare, on_machine
from .loader import cpu_description


def accept(operation: Operation) -> None:
    """Let kernels for CPUs call an operation."""
    if operation.typer is not None:
        builtin_registry.register_global(operation.marker, types.Function(operation.template))
    for pattern in operation.patterns:
        lower_builtin(operation.marker, *pattern)(operation.emit)


def dot4_add(a: Value, b: Value, c: Value) -> Value | None:
    """VNNI's `vpdpbusd`; None where this CPU does not have it for so many words."""
    if not has_vnni(a.lanes):
        return None
    vector = ir.VectorType(I32.llvm, a.lanes)
    function = declare(a.builder, f"llvm.x86.avx512.vpdpbusd.{32 * a.lanes}", ir.FunctionType(vector, [vector] * 3))
    return a.wrap(a.builder.call(function, [c.llvm, a.llvm, b.llvm]))


def has_vnni(lanes: int) -> bool:
    """Whether the machine that kernels are compiled for multiplies bytes in vectors of so many words."""
    features = {name[1:] for name in cpu_description()[1].split(",") if name.startswith("+")}
    narrow = "avxvnni" in features or {"avx512vnni", "avx512vl"} <= features
    return (lanes == 16 and "avx512vnni" in features) or (lanes in (4, 8) and narrow)


INSTRUCTIONS["x86_64"] = dot4_add
on_machine(accept)
