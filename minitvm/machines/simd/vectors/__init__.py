"""SIMD vectors as values of Numba, and the operations on them that kernels of every machine may call: `simd`."""
