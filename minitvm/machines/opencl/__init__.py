"""OpenCL: kernels in OpenCL C for GPUs of all makers, compiled by the device's driver."""

from ...backend.parts import Backend

BACKEND = Backend(
    kind="opencl",
    operators="minitvm.machines.simd.operators",
    layouts="minitvm.graph.passes.blocked_layout:layouts",
    rules="minitvm.strategy.gpu:rules",
    algorithms="minitvm.strategy.gpu.algorithms:convolution_algorithms",
    passes="minitvm.machines.gpu.passes:PASSES",
    language="opencl",
    generate="minitvm.codegen.opencl:generate",
    program="minitvm.runtime.opencl.program:OpenCLProgram",
    refusal="minitvm.strategy.gpu.refusal:refusal",
    opened="minitvm.runtime.opencl.program:opened",
    at_hand="minitvm.runtime.opencl.devices:at_hand",
    devices="minitvm.runtime.opencl.devices:names",
)
