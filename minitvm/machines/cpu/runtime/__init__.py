"""Run kernels on a CPU: compile, cache and load them, and run programs on a team of threads."""

__all__ = ["compiler", "kernel_cache"]
