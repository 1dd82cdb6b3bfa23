"""Register the operations of kernel source (`vectors.lanes`) with Numba CUDA, and add shared arrays.

libNVVM's LLVM has no masked memory intrinsics, and the functions of the C library have libdevice's names.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import types
from numba.cuda import cudadecl, cudaimpl
from numba.cuda.extending import register_model

from ...simd.vectors import elementary, simd  # noqa: F401 (simd registers the operations)
from ...simd.vectors import lanes as lane
from ...simd.vectors.dot4 import INSTRUCTIONS
from ...simd.vectors.masked import LANE_BY_LANE
from . import async_copies, tensor_cores, warpgroups, warps

ARCHITECTURE = "nvptx64"
SHARED_SPACE = 3  # NVVM's number for the address space
SHARED_ALIGNMENT = 128  # the largest vector
DYNAMIC_ALIGNMENT = 1024  # bytes after which the places of swizzled tiles repeat
DYNAMIC = "minitvm_dynamic"  # the symbol of what a launch gives


def accept(operation: lane.Operation) -> None:
    """Let CUDA kernels call an operation."""
    if operation.typer is not None:
        cudadecl.registry.register_global(operation.marker, types.Function(operation.template))
    for pattern in operation.patterns:
        cudaimpl.registry.lower(operation.marker, *pattern)(operation.emit)


def libdevice(name: str) -> str:
    """Return libdevice's name for a function of the C library: `sinf` becomes `__nv_sinf`."""
    return f"__nv_{name}"


def dot4_add(a: lane.Value, b: lane.Value, c: lane.Value) -> lane.Value:
    """Emit `dp4a`, which adds four products of bytes to a third operand in one instruction per word."""
    word = lane.I32.llvm
    function_type = ir.FunctionType(word, [word] * 3)
    instruction = ir.InlineAsm(function_type, "dp4a.u32.s32 $0, $1, $2, $3;", "=r,r,r,r", side_effect=False)

    def one(x: lane.Value, y: lane.Value, z: lane.Value) -> lane.Value:
        return x.wrap(x.builder.call(instruction, [x.llvm, y.llvm, z.llvm]))

    return a.lane_by_lane(one, b, c)


def _negated(x: lane.Value) -> lane.Value:
    return x.constant(-0.0) - x


def _magnitude(x: lane.Value) -> lane.Value:
    """Return the absolute value."""
    integer = lane.ELEMENTS[f"u{x.element.bits}"]
    return (x.bitcast(integer) & ((1 << (x.element.bits - 1)) - 1)).bitcast(x.element)


def _rounding(name: str) -> Any:
    """Return a function that calls libdevice for each lane. Half precision is computed exactly in float32."""
    return elementary.in_float32(elementary.libm(name))


def _shared(element: lane.Element) -> Any:
    """Define `shared_<t>(n)`: an array of n elements that all threads of a block share."""
    pointer = types.CPointer(element.numba)

    def typer(size: types.Type) -> types.Type | None:
        return pointer if isinstance(size, types.IntegerLiteral) else None

    def emit(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> ir.Value:  # noqa: ARG001
        module = builder.module
        array = ir.ArrayType(element.memory, sig.args[0].literal_value)
        name = module.get_unique_name(f"shared_{element.name}")
        storage = ir.GlobalVariable(module, array, name, addrspace=SHARED_SPACE)
        storage.linkage = "internal"
        storage.initializer = ir.Constant(array, ir.Undefined)
        storage.align = SHARED_ALIGNMENT
        first = builder.gep(storage, [ir.Constant(ir.IntType(32), 0)] * 2)
        return builder.addrspacecast(first, element.memory.as_pointer())

    return_marker = lane.marker(
        f"shared_{element.name}", f"an array of {element.dtype} that the threads of a block share"
    )
    accept(lane.Operation(return_marker, typer, emit, (lane.ANYTHING,)))
    return return_marker


def _dynamic(element: lane.Element) -> Any:
    """Define `dynamic_<t>(offset, n)`: n elements at a byte offset in the storage that a launch gives each block."""
    pointer = types.CPointer(element.numba)

    def typer(offset: types.Type, size: types.Type) -> types.Type | None:
        literal = isinstance(offset, types.IntegerLiteral) and isinstance(size, types.IntegerLiteral)
        return pointer if literal else None

    def emit(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> ir.Value:  # noqa: ARG001
        storage = builder.module.globals.get(DYNAMIC)
        if storage is None:
            storage = ir.GlobalVariable(builder.module, ir.ArrayType(ir.IntType(8), 0), DYNAMIC, addrspace=SHARED_SPACE)
            storage.linkage = "external"
            storage.align = DYNAMIC_ALIGNMENT
        offset = ir.Constant(ir.IntType(32), sig.args[0].literal_value)
        first = builder.gep(storage, [ir.Constant(ir.IntType(32), 0), offset])
        typed = builder.bitcast(first, ir.PointerType(element.memory, SHARED_SPACE))
        return builder.addrspacecast(typed, element.memory.as_pointer())

    made = lane.marker(f"dynamic_{element.name}", f"an array of {element.dtype} in what the launch gives a block")
    accept(lane.Operation(made, typer, emit, (lane.ANYTHING, lane.ANYTHING)))
    return made


_OF_CUDA = {**async_copies.OPERATIONS, **tensor_cores.OPERATIONS, **warpgroups.OPERATIONS}
_OWN = {
    **{f"shared_{name}": _shared(element) for name, element in lane.ELEMENTS.items()},
    **{f"dynamic_{name}": _dynamic(element) for name, element in lane.ELEMENTS.items()},
    **{name: operation.marker for name, operation in _OF_CUDA.items()},
}
for _operation in _OF_CUDA.values():
    accept(_operation)


_WARPS = warps.operations(accept)


def __getattr__(name: str) -> Any:
    if name in _OWN:
        return _OWN[name]
    if name in _WARPS:
        return _WARPS[name]
    raise AttributeError(f"kernel source for CUDA has no {name!r}")


for _type, _model in (
    (lane.VectorType, lane.VectorModel),
    (lane.HalfType, lane.HalfModel),
    (lane.BrainType, lane.BrainModel),
):
    register_model(_type)(_model)
lane.LIBRARIES[ARCHITECTURE] = libdevice
lane.INTRINSICS[ARCHITECTURE] = {
    "fneg": _negated, "fabs": _magnitude, "rint": _rounding("rint"), "round": _rounding("round"),
}  # fmt: skip
LANE_BY_LANE.add(ARCHITECTURE)
INSTRUCTIONS[ARCHITECTURE] = dot4_add
lane.on_machine(accept)
