"""SIMD vectors as Numba values, and the operations on them that kernels of every machine may call (`simd`)."""

__all__ = ["dot2", "element_operations", "elementary", "lanes", "memory"]
