"""Explain a schedule on a CPU: the choice, its reasons, and what the kernels do. This is the part "explain" of back
ends.
"""

from __future__ import annotations

from collections.abc import Sequence

from ....strategy.candidate import Choice, choice_of
from ....strategy.report import lines as choice_lines
from ....target import CPU, Target
from ....tir.nodes import PrimFunc
from .algorithms import algorithm_text
from .figures import KernelFigures, kernel_figures
from .tiling import cpu_of

_GUESSED_GHZ = 3.0  # where the target does not say


def explain(func: PrimFunc, target: Target) -> list[str]:
    """Return the lines of the explanation for a scheduled function."""
    return lines(choice_of(func), kernel_figures(func, target), target)


def lines(choice: Choice, kernels: Sequence[KernelFigures], target: Target) -> list[str]:
    """Return lines for the choice, the predicted time of the kernels, and each kernel."""
    cpu = cpu_of(target)
    ghz = cpu.ghz or _GUESSED_GHZ
    total = sum(kernel.cycles for kernel in kernels)
    bound = sum(k.compute_cycles for k in kernels) >= sum(k.memory_cycles for k in kernels)
    shown = choice_lines(choice, ghz, algorithm_text)
    if not any(kernel.formulas for kernel in kernels):
        shown.append(
            f"predicted   {total / ghz / 1e6:.3g} ms on one core at {ghz:.3g} GHz, bound by "
            f"{'arithmetic' if bound else 'memory'}"
        )
    for kernel in kernels:
        shown += _kernel_text(kernel, cpu, len(kernels) > 1)
    return shown


def _kernel_text(kernel: KernelFigures, cpu: CPU, several: bool) -> list[str]:
    lines = [f"kernel      {kernel.name}"] if several else []
    if kernel.formulas:
        return [*lines, *(f"{what:<11} {text}" for what, text in kernel.formulas)]
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


def _registers(kernel: KernelFigures, cpu: CPU) -> str:
    vectors = f"vector{'s' * (kernel.accumulators > 1)} of {kernel.lanes}" if kernel.lanes > 1 else "scalars"
    busy, loading = kernel.step_operations / cpu.fma_ports, kernel.step_loads / cpu.loads
    slower = "arithmetic limits it" if busy >= loading else "loads limit it"
    return (
        f"{kernel.accumulators} of {cpu.vector_registers} hold results ({vectors}); a step of the innermost loop: "
        f"{kernel.step_operations:g} operations ({busy:g} cycles) on {kernel.step_loads} loads ({loading:g}): {slower}"
    )


def _size(nbytes: int) -> str:
    return f"{nbytes / 1024:.1f} KiB" if nbytes < 1 << 20 else f"{nbytes / (1 << 20):.1f} MiB"


def _cache(nbytes: int, cpu: CPU) -> str:
    """Return the smallest cache level that holds `nbytes`, as text."""
    for name, cache in (("L1", cpu.l1), ("L2", cpu.l2), ("L3", cpu.l3)):
        if nbytes <= cache.size:
            return f"fits {name} ({_size(cache.size)})"
    return "from memory"
