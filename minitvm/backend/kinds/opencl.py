"""OpenCL: kernels in OpenCL C for GPUs of all makers, compiled by the device's driver."""

from ..parts import Backend

BACKEND = Backend(
    kind="opencl",
    rules="minitvm.strategy.gpu:rules",
    passes="minitvm.strategy.gpu.passes:PASSES",
    language="opencl",
    generate="minitvm.codegen.opencl:generate",
    program="minitvm.runtime.opencl.program:OpenCLProgram",
)
