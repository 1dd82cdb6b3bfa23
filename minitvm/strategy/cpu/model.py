"""What one core does in a cycle: the few figures, measured on Zen 5 and Zen 3, on which the costs of schedules rest."""

from __future__ import annotations

from typing import Any

# Of the rate of the multiply-add units, in a micro-kernel that does not spill: where operands come from all over the
# cache, and where they are near, as in a task of Winograd's algorithm.
KERNEL_EFFICIENCY, NEAR_EFFICIENCY = 0.92, 0.97
L2_BYTES, L3_BYTES, MEMORY_BYTES = 64.0, 16.0, 5.0  # that one core streams in a cycle
# What streams into a micro-kernel is fetched while it computes, but for a part: it is held up as if bytes came at this
# rate and nothing else was done meanwhile.
MEMORY_STALL = 5.5


def step_cycles(rows: int, vectors: int, cpu: Any, streams: bool = False) -> float:
    """Cycles of a micro-kernel's step: `rows` x `vectors` multiply-adds, each the next of a chain, and their loads.

    With `streams` a step also asks for the vectors of a later one, which takes as much as loading them.
    """
    loads = rows + vectors * (1 + streams)
    return max(rows * vectors / cpu.fma_ports, float(cpu.fma_latency), loads / cpu.loads)


def shared(tasks: int, cpu: Any) -> float:
    """By how much tasks take longer than an even share of them: one core waits for half a task of another."""
    return 1 + cpu.cores / (2 * max(1, tasks))
