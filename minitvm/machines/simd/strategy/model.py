"""The throughput of one core: a few figures, measured on Zen 5 and Zen 3, from which the costs of schedules are
predicted.

The speeds of caches and memory come from the machine's description.
"""

from __future__ import annotations

from ....target import CPU

# The share of the peak multiply-add rate that a micro-kernel without spills reaches: with operands from all over the
# cache, and with operands close together, as in a task of Winograd's algorithm.
KERNEL_EFFICIENCY, NEAR_EFFICIENCY = 0.92, 0.97
_HELD_UP = 1.1  # of the rate of memory: what streams into a micro-kernel is fetched while it computes, but for a part


def streamed(nbytes: float, cpu: CPU) -> float:
    """Return the cycles in which a core reads `nbytes` once: from the last-level cache if they fit in it, else from
    memory.
    """
    return nbytes / float(cpu.l3_rate if nbytes <= cpu.l3.size else cpu.memory_rate)


def stall_rate(cpu: CPU) -> float:
    """Return a rate in bytes per cycle: a micro-kernel waits for memory for as many cycles as its bytes divided by this
    rate.
    """
    return _HELD_UP * float(cpu.memory_rate)


def step_cycles(rows: int, vectors: int, cpu: CPU, streams: bool = False) -> float:
    """Return the cycles of one micro-kernel step: `rows` x `vectors` multiply-adds, and their loads.

    Each multiply-add depends on the one of the previous step. With `streams`, a step also prefetches the vectors of a
    later step, which costs as much as loading them.
    """
    loads = rows + vectors * (1 + streams)
    return max(rows * vectors / cpu.fma_ports, float(cpu.fma_latency), loads / cpu.loads)


def shared(tasks: int, cpu: CPU) -> float:
    """Return the factor by which tasks take longer than an even share, because cores wait on average for half a
    task.
    """
    return 1 + cpu.cores / (2 * max(1, tasks))
