"""CUDA: kernels in Python that Numba CUDA compiles, for GPUs of NVIDIA."""

from ...backend.parts import Backend

BACKEND = Backend(
    kind="cuda",
    operators="minitvm.machines.simd.operators",
    products=f"{__name__}.products:products",
    layouts="minitvm.graph.passes.blocked_layout:layouts",
    rules="minitvm.strategy.gpu:rules",
    algorithms="minitvm.strategy.gpu.algorithms:convolution_algorithms",
    passes=f"{__name__}.passes:PASSES",
    intrinsics=f"{__name__}.intrinsics:register_named",
    language="numba-cuda",
    generate="minitvm.codegen.numba_cuda:generate",
    assembly="minitvm.runtime.cuda.compiler:assembly",
    program="minitvm.runtime.cuda.program:CudaProgram",
    refusal="minitvm.strategy.gpu.refusal:refusal",
    opened="minitvm.runtime.cuda.devices:current",
    at_hand="minitvm.runtime.cuda.devices:at_hand",
    devices="minitvm.runtime.cuda.devices:names",
    memory="minitvm.runtime.cuda.devices:memory",
    machine_code="minitvm.runtime.cuda.machine_code",
)
