"""Running executables by OpenCL: devices, programs of kernels, memory, launches.

`devices` finds the device, `kernels` compiles for it, `program` is what the runtime asks for.
"""
