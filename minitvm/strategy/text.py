"""A decision in lines to read."""

from __future__ import annotations

import re
from typing import Any

from ..tir.nodes import PrimFunc
from .cpu.model import LOADS
from .cpu.tiling import cpu_of
from .decision import Decision, KernelFigures, decision

_MEGACYCLES = re.compile(r"([\d.e+-]+) Mcycles")
_GUESSED_GHZ = 3.0  # where the target does not say


def explain(func: PrimFunc, target: Any) -> list[str]:
    """The part "explain" of the CPU's back end."""
    return lines(decision(func, target), target)


def lines(found: Decision, target: Any) -> list[str]:
    """The decision in lines to read."""
    cpu = cpu_of(target)
    clock = (cpu.ghz or _GUESSED_GHZ) * 1e9
    told = [f"rule        {found.rule or 'none: the loops as written'}"]
    for number, algorithm in enumerate(found.algorithms):
        label = "algorithm" if number == 0 else "instead of"
        told.append(f"{label:<11} {_with_time(algorithm.removeprefix('chosen: '), clock)}")
    for number, tile in enumerate(found.tiles):
        told.append(f"{'tile' if number == 0 else 'instead of':<11} {tile.removeprefix('tile of ')}")
    total = found.cycles
    bound = sum(k.compute_cycles for k in found.kernels) >= sum(k.memory_cycles for k in found.kernels)
    told.append(
        f"predicted   {total / clock * 1e3:.3g} ms on one core at {clock / 1e9:.3g} GHz, bound by "
        f"{'arithmetic' if bound else 'memory'}"
    )
    for kernel in found.kernels:
        told += _kernel_text(kernel, cpu, len(found.kernels) > 1)
    return told


def _kernel_text(kernel: KernelFigures, cpu: Any, several: bool) -> list[str]:
    lines = [f"kernel      {kernel.name}"] if several else []
    most = "" if kernel.exact else "at most "
    per_byte = f", {kernel.flops / kernel.nbytes:.3g} a byte" if kernel.flops and kernel.nbytes else ""
    lines.append(f"work        {most}{kernel.flops:,} float operations, {kernel.nbytes:,} bytes{per_byte}")
    if kernel.accumulators:
        lines.append(f"registers   {_registers(kernel, cpu)}")
    for number, loop in enumerate(kernel.loops):
        label = "caches" if number == 0 else ""
        what = f"{loop.extent} {'tasks' if loop.parallel else 'times'}"
        fits = f"{_size(loop.nbytes)}, {_cache(loop.nbytes, cpu)}"
        lines.append(f"{label:<11} {'  ' * number}{loop.name}, {what}: {fits}")
    return lines


def _registers(kernel: KernelFigures, cpu: Any) -> str:
    vectors = f"vector{'s' * (kernel.accumulators > 1)} of {kernel.lanes}" if kernel.lanes > 1 else "scalars"
    busy, loading = kernel.step_operations / cpu.fma_ports, kernel.step_loads / LOADS
    slower = "arithmetic limits it" if busy >= loading else "loads limit it"
    return (
        f"{kernel.accumulators} of {cpu.vector_registers} hold results ({vectors}); a step of the innermost loop: "
        f"{kernel.step_operations:g} operations ({busy:g} cycles) on {kernel.step_loads} loads ({loading:g}): {slower}"
    )


def _with_time(algorithm: str, clock: float) -> str:
    """Cycles as time too."""
    return _MEGACYCLES.sub(lambda m: f"{float(m[1]) * 1e6 / clock * 1e3:.3g} ms ({m[1]} million cycles)", algorithm)


def _size(nbytes: int) -> str:
    return f"{nbytes / 1024:.1f} KiB" if nbytes < 1 << 20 else f"{nbytes / (1 << 20):.1f} MiB"


def _cache(nbytes: int, cpu: Any) -> str:
    """The smallest level that holds so much."""
    for name, cache in (("L1", cpu.l1), ("L2", cpu.l2), ("L3", cpu.l3)):
        if nbytes <= cache.size:
            return f"fits {name} ({_size(cache.size)})"
    return "from memory"
