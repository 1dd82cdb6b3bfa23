"""Running executables by CUDA: what kernel source may call, kernels to PTX and cubins, devices.

`operations` and `compiler` need the package numba-cuda and no device.
"""
