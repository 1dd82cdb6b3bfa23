"""CUDA: kernels in Python that Numba CUDA compiles, for NVIDIA's GPUs."""

from ...backend.parts import Backend

BACKEND = Backend(
    kind="cuda",
    operators="minitvm.machines.simd.operators",
    products=f"{__name__}.products:products",
    layouts="minitvm.machines.simd.graph.blocked_layout:layouts",
    rules=f"{__name__}.strategy:rules",
    algorithms="minitvm.machines.gpu.strategy.algorithms:convolution_algorithms",
    passes=f"{__name__}.passes:PASSES",
    intrinsics=f"{__name__}.intrinsics:register_named",
    language="numba-cuda",
    generate="minitvm.machines.cuda.codegen.numba_cuda:generate",
    assembly="minitvm.machines.cuda.runtime.compiler:assembly",
    program="minitvm.machines.cuda.runtime.program:CudaProgram",
    refusal="minitvm.machines.gpu.strategy.refusal:refusal",
    opened="minitvm.machines.cuda.runtime.devices:current",
    at_hand="minitvm.machines.cuda.runtime.devices:at_hand",
    devices="minitvm.machines.cuda.runtime.devices:names",
    memory="minitvm.machines.cuda.runtime.devices:memory",
    machine_code="minitvm.machines.cuda.runtime.machine_code",
)
