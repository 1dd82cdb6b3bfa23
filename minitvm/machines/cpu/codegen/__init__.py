"""The Numba dialect of CPUs: kernels as Python that `numba.njit` compiles, one file for each unit it spells."""
