"""Passes for programs that run on a grid of threads: barriers, reductions across threads, and shared memory."""
