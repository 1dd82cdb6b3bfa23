"""The simulated tensor accelerator: kernels are assembly of its instruction set, its interpreter runs them."""

from ..parts import Backend

BACKEND = Backend(
    kind="accel",
    rules="minitvm.strategy.accel:rules",
    passes="minitvm.strategy.accel:PASSES",
    language="accel-asm",
    generate="minitvm.codegen.accel:generate",
    assembly="minitvm.codegen.accel:assembly",
    program="minitvm.runtime.accel.program:AccelProgram",
)
