"""Tensor intrinsics of CUDA machines: tensor cores (warps) and warpgroups."""
