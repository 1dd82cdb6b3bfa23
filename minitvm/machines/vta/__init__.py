"""The simulated tensor accelerator: kernels are assembly of its instruction set, its interpreter runs them."""

from ...backend.parts import Backend
from .machine import KIND

BACKEND = Backend(
    kind="accel",
    machine=KIND,
    operators="minitvm.graph.ops.elements",
    products="minitvm.graph.passes.element_layout:products",
    layouts="minitvm.graph.passes.element_layout:layouts",
    rules="minitvm.strategy.accel:rules",
    passes="minitvm.strategy.accel:PASSES",
    intrinsics="minitvm.tir.tensor_intrin.accelerator:register_named",
    instructions="minitvm.tir.tensor_intrin.accelerator:SET",
    language="accel-asm",
    generate="minitvm.codegen.accel:generate",
    assembly="minitvm.codegen.accel:assembly",
    program="minitvm.runtime.accel.program:AccelProgram",
    hosted="minitvm.runtime.accel.program:hosted",
    timed="minitvm.runtime.accel.program:timed",
    refusal="minitvm.strategy.accel:refusal",
)
