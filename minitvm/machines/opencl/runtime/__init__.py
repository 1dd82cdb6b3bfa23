"""Run executables with OpenCL: devices, programs of kernels, memory, launches.

`devices` finds the device, `kernels` compiles for it, and `program` implements the runtime's interface.
"""
