"""How programs are lowered for GPUs: the passes of all machines, without those for the instructions of CPUs."""

from ...tir.transform import pipeline

# Shuffles of vectors, strided loads by them, and prefetches are instructions of CPUs.
_FOR_CPUS = ("transpose_tiles", "strided_loads", "inject_prefetch")

PASSES = tuple(step for step in pipeline.PASSES if step.name not in _FOR_CPUS)
