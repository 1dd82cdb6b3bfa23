"""The Numba CUDA dialect: kernels as Python that `numba.cuda` compiles, with tensor cores and warpgroups."""
