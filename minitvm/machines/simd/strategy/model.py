"""What one core does in a cycle: the few figures, measured on Zen 5 and Zen 3, on which the costs of schedules rest.

How fast its caches and its memory are, a machine's description says.
"""

from __future__ import annotations

from ....target import CPU

# Of the rate of the multiply-add units, in a micro-kernel that does not spill: where operands come from all over the
# cache, and where they are near, as in a task of Winograd's algorithm.
KERNEL_EFFICIENCY, NEAR_EFFICIENCY = 0.92, 0.97
_HELD_UP = 1.1  # of the rate of memory: what streams into a micro-kernel is fetched while it computes, but for a part


def streamed(nbytes: float, cpu: CPU) -> float:
    """Cycles in which a core streams bytes once: from the last cache if all of them fit it, else from memory."""
    return nbytes / float(cpu.l3_rate if nbytes <= cpu.l3.size else cpu.memory_rate)


def stall_rate(cpu: CPU) -> float:
    """Bytes in a cycle: a micro-kernel is held up as if memory brought them at this rate while it does nothing else."""
    return _HELD_UP * float(cpu.memory_rate)


def step_cycles(rows: int, vectors: int, cpu: CPU, streams: bool = False) -> float:
    """Cycles of a micro-kernel's step: `rows` x `vectors` multiply-adds, each the next of a chain, and their loads.

    With `streams` a step also asks for the vectors of a later one, which takes as much as loading them.
    """
    loads = rows + vectors * (1 + streams)
    return max(rows * vectors / cpu.fma_ports, float(cpu.fma_latency), loads / cpu.loads)


def shared(tasks: int, cpu: CPU) -> float:
    """By how much tasks take longer than an even share of them: one core waits for half a task of another."""
    return 1 + cpu.cores / (2 * max(1, tasks))
