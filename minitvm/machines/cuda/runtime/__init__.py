"""Run executables with CUDA: the operations of kernel source, kernels to PTX and cubins, and devices.

`operations` and `compiler` need the package numba-cuda, but no device.
"""
