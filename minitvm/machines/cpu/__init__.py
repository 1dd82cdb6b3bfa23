"""The CPU: Numba compiles the kernels, and a team of threads runs them."""

from ...backend.parts import Backend

BACKEND = Backend(
    kind="cpu",
    operators="minitvm.machines.simd.operators",
    layouts="minitvm.machines.cpu.large_attention:layouts",
    rules="minitvm.machines.simd.strategy:rules",
    algorithms="minitvm.machines.simd.strategy.algorithms:convolution_algorithms",
    channel_block="minitvm.machines.simd.strategy.channel_blocks:channel_block",
    explain="minitvm.machines.simd.strategy.explain:explain",
    passes=f"{__name__}.passes:PASSES",
    intrinsics=f"{__name__}.intrinsics:register_named",
    language="numba",
    generate="minitvm.machines.cpu.codegen.numba_cpu:generate",
    assembly="minitvm.machines.cpu.runtime.compiler:assembly",
    program="minitvm.machines.cpu.runtime.program:CpuProgram",
    hosted="minitvm.machines.cpu.runtime.hosted:HostedKernel",
    require_runnable="minitvm.machines.cpu.runtime.compiled_for:require_runnable",
    machine_code="minitvm.machines.cpu.runtime.machine_code",
)

__all__ = ["BACKEND", "runtime"]
