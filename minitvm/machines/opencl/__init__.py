"""OpenCL: kernels in OpenCL C, for GPUs of all makers, compiled by the device's driver."""

from ...backend.parts import Backend

BACKEND = Backend(
    kind="opencl",
    operators="minitvm.machines.simd.operators",
    layouts="minitvm.machines.simd.graph.blocked_layout:layouts",
    rules="minitvm.machines.gpu.strategy:rules",
    algorithms="minitvm.machines.gpu.strategy.algorithms:convolution_algorithms",
    passes="minitvm.machines.gpu.passes:PASSES",
    language="opencl",
    generate="minitvm.machines.opencl.codegen.statements:generate",
    program="minitvm.machines.opencl.runtime.program:OpenCLProgram",
    refusal="minitvm.machines.gpu.strategy.refusal:refusal",
    opened="minitvm.machines.opencl.runtime.program:opened",
    at_hand="minitvm.machines.opencl.runtime.devices:at_hand",
    devices="minitvm.machines.opencl.runtime.devices:names",
)
