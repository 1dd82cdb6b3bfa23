"""The Numba dialect of CPUs: kernels as Python that `numba.njit` compiles, with one file for each unit of the CPU."""
