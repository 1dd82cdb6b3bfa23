"""Figures about the kernels of a scheduled function on a CPU: registers, cache footprints and predicted cycles.

They are computed from the kernels, not recorded while scheduling, so they are available for every operator and every
schedule. Cycles are for one core of the target.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from ....expr import Var, find
from ....target import CPU, Target
from ....tir.analysis.registers import in_registers
from ....tir.nodes import Buffer, BufferLoad, BufferStore, For, ForKind, PrimFunc
from ....tir.transform.pipeline import lower
from ....tir.values import NotAnIndex
from ....tir.work import HottestNest, Rates, Work, count, count_statement, footprint, formulas, hottest, sizes_of
from .model import KERNEL_EFFICIENCY, streamed
from .tiling import cpu_of


@dataclass(frozen=True, slots=True)
class LoopFootprint:
    """One loop of a nest: how often it runs, and the distinct bytes that all its iterations access."""

    name: str
    extent: str
    parallel: bool
    nbytes: int


@dataclass(frozen=True, slots=True)
class KernelFigures:
    """The registers, loops and predicted cycles of a kernel on one core.

    `accumulators` vectors of `lanes` stay in registers while the innermost loop of the hottest nest runs. Each of its
    iterations does `step_operations` vector operations (a multiply-add counts once) and `step_loads` loads from memory.
    `formulas` holds pairs (description, formula) for the figures that depend on symbolic sizes; the other fields then
    do not cover them.
    """

    name: str
    accumulators: int
    lanes: int
    step_operations: float
    step_loads: int
    loops: tuple[LoopFootprint, ...]
    flops: int
    nbytes: int
    compute_cycles: float
    memory_cycles: float
    exact: bool
    formulas: tuple[tuple[str, str], ...] = ()

    @property
    def cycles(self) -> float:
        """The larger of the arithmetic and memory cycles."""
        return max(self.compute_cycles, self.memory_cycles)


def kernel_figures(func: PrimFunc, target: Target, sizes: Mapping[Var, int] | None = None) -> tuple[KernelFigures, ...]:
    """Return the figures of each kernel of a scheduled loop program.

    `sizes` gives values to symbolic dimensions. For those without a value, `formulas` has the figures that depend on
    them.
    """
    kernels, plain = _kernels(func, target), None
    if not all(set(sizes_of(kernel)) <= set(sizes or {}) for kernel in kernels):
        # Tiles have a version for each number of remaining rows. All do the same work, but no formula says so.
        plain = _kernels(func, target, without=["unswitch_tiles", "unroll"])
    return tuple(
        _figures(kernel, written, cpu_of(target), sizes or {})
        for kernel, written in zip(kernels, plain or kernels, strict=True)
    )


def _kernels(func: PrimFunc, target: Target, without: Collection[str] = ()) -> list[PrimFunc]:
    return [f for _, f in lower(func, target, "kernel", without=without).items() if not f.attrs.get("host")]


def _figures(kernel: PrimFunc, plain: PrimFunc, cpu: CPU, sizes: Mapping[Var, int]) -> KernelFigures:
    work = count(kernel, sizes)
    moved = work.moved(kernel)
    lanes = max((p.dtype.lanes for p in _accessed(kernel)), default=1)
    full = max(1, cpu.vector_bytes // max((b.dtype.bytes for b in kernel.buffers), default=4))
    compute = work.slots / (full * cpu.fma_ports) / KERNEL_EFFICIENCY
    memory = streamed(moved, cpu)
    try:
        nest = hottest(kernel, sizes)
        registers = in_registers(kernel)
        loops = tuple(_loop(loop, around, registers) for loop, around in nest.loops)
        accumulators, operations, loads = _micro_kernel(nest, registers)
    except NotAnIndex:
        loops, accumulators, operations, loads = (), 0, 0.0, 0
    return KernelFigures(
        kernel.name, accumulators, lanes, operations, loads, loops, work.flops, moved, compute, memory, work.exact,
        () if set(sizes_of(kernel)) <= set(sizes) else _formulas(plain, cpu, full),
    )  # fmt: skip


def _formulas(kernel: PrimFunc, cpu: CPU, full: int) -> tuple[tuple[str, str], ...]:
    """Return the work of a kernel as formulas in its sizes: operations, bytes, cycles, and the bytes that each loop
    accesses.
    """
    work = formulas(kernel)
    rates = Rates(full * cpu.fma_ports * KERNEL_EFFICIENCY, cpu.l3.size, cpu.l3_rate, cpu.memory_rate)
    loops = [
        (f"{'  ' * level.depth}{level.name}", f"{level.extent} times, touches {level.touched} bytes")
        for level in work.levels
    ]
    return (
        ("work", f"{work.flops} float operations, {work.moved(kernel)} bytes"),
        ("cycles", str(work.cycles(kernel, rates))),
        *loops,
    )


def _loop(loop: For, around: Mapping[Var, int], registers: Collection[Buffer]) -> LoopFootprint:
    extent = str(loop.extent)
    return LoopFootprint(loop.var.name, extent, loop.kind == ForKind.PARALLEL, footprint(loop, around, registers))


def _accessed(kernel: PrimFunc) -> list[Any]:
    return list(find(kernel.body, BufferLoad)) + [store.value for store in find(kernel.body, BufferStore)]


def _micro_kernel(nest: HottestNest, registers: Collection[Buffer]) -> tuple[int, float, int]:
    """Return (accumulators, operations per iteration, loads per iteration) of the innermost loop, counted in
    vectors.
    """
    if not nest.loops:
        return 0, 0.0, 0
    body, around = nest.inner
    stored = {str(n.indices[0]) + n.buffer.name for n in find(body, BufferStore) if n.buffer in registers}
    loads = {(n.buffer, str(n.indices[0])) for n in find(body, BufferLoad) if n.buffer not in registers}
    done: Work = count_statement(body, around)
    lanes = max((n.value.dtype.lanes for n in find(body, BufferStore)), default=1)
    return len(stored), done.slots / lanes, len(loads)
