"""Tensor intrinsics of CUDA machines: instructions of tensor cores for warps and warpgroups."""
