"""Passes for programs that run on a grid of threads: barriers, reductions of threads, shared memory."""
