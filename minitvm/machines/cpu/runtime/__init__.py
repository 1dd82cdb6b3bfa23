"""Runs kernels on a CPU: compiling, caching, loading, the thread team, the program."""

__all__ = ["kernel_cache"]
