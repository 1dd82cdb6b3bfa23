"""The CPU: Numba compiles the kernels, a team of threads runs them."""

from ...backend.parts import Backend

BACKEND = Backend(
    kind="cpu",
    operators="minitvm.machines.simd.operators",
    layouts="minitvm.graph.passes.attention:layouts",
    rules="minitvm.strategy.cpu:rules",
    algorithms="minitvm.strategy.cpu.algorithms:convolution_algorithms",
    channel_block="minitvm.strategy.cpu.channel_blocks:channel_block",
    explain="minitvm.strategy.cpu.explain:explain",
    passes=f"{__name__}.passes:PASSES",
    intrinsics=f"{__name__}.intrinsics:register_named",
    language="numba",
    generate="minitvm.codegen.numba_cpu:generate",
    assembly="minitvm.runtime.cpu.compiler:assembly",
    program="minitvm.runtime.cpu.program:CpuProgram",
    hosted="minitvm.runtime.cpu.hosted:HostedKernel",
    machine_code="minitvm.runtime.cpu.machine_code",
)
