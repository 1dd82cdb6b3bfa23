"""A matrix product on a CPU, after Goto and van de Geijn, "Anatomy of high-performance matrix multiplication" (2008).

    for i_block, j_panel in parallel:                 one panel of columns; where they are few, a block of rows of it
        for k_block:
            pack B[k_block, j_panel]                  contiguous, stays in the L2 cache; left out where B is small
            for i_tile in i_block:
                for k in k_block:                     the micro-kernel:
                    C[rows, vectors] += A[rows, k] * B_packed[k, vectors]       all of C's tile in registers

A is read where it lies: a row of the tile is one element a step, and the same cache line serves 16 steps. What bounds
it is the multiply-add units: a step of the 8 x 3 tile is 24 multiply-adds (12 cycles on two ports) against 3 vector
loads and 8 broadcasts (5.5 cycles on two load ports).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil
from typing import Any

from ...expr import REDUCE, Add, Cast, Expr, IntImm, Mul, Var, walk
from ...tir import Schedule
from ...tir.nodes import Block, BufferLoad, BufferStore, PrimFunc
from ..candidate import Candidate, Cost, Unfit
from ..registry import rule
from .blocks import blocks_of, inline_injective, is_reduction, volume
from .model import KERNEL_EFFICIENCY, L2_BYTES, L3_BYTES, MEMORY_STALL, shared
from .tiling import RegisterTile, cpu_of, depth_block, register_tiles, step_cycles_of


@dataclass(frozen=True, slots=True)
class MatmulBlock:
    """A block `C[.., i, j] += A[.., i, k] * B[.., k, j]` with constant extents; positions of its iterators."""

    block: Block
    i: int
    j: int
    k: int
    m: int
    n: int
    depth: int
    b_read: int
    b_contiguous: bool

    @property
    def volume(self) -> int:
        """Multiply-adds of one product."""
        return self.m * self.n * self.depth


def as_matmul(block: Block) -> MatmulBlock | None:
    """The roles of a block's iterators, or None when it is not a matrix product of this kind."""
    axes = block.iter_vars
    reduced = [p for p, a in enumerate(axes) if a.kind == REDUCE]
    spatial = [p for p, a in enumerate(axes) if a.kind != REDUCE]
    if len(reduced) != 1 or len(spatial) < 2 or not all(isinstance(a.dom.extent, IntImm) for a in axes):
        return None
    factors = _factors(block)
    if factors is None:
        return None
    i, j, k = spatial[-2], spatial[-1], reduced[0]
    for a, b in (factors, factors[::-1]):
        uses_a, uses_b = _variables(a), _variables(b)
        if axes[j].var in uses_a or axes[i].var in uses_b:
            continue
        if not {axes[i].var, axes[k].var} <= uses_a or not {axes[j].var, axes[k].var} <= uses_b:
            continue
        read = next((p for p, r in enumerate(block.reads) if r.buffer is b.buffer), None)
        if read is None or any(r.buffer is b.buffer for p, r in enumerate(block.reads) if p != read):
            return None
        m, n, depth = (int(axes[p].dom.extent.value) for p in (i, j, k))  # type: ignore[attr-defined]
        return MatmulBlock(block, i, j, k, m, n, depth, read, b.indices[-1] is axes[j].var)
    return None


def _factors(block: Block) -> tuple[BufferLoad, BufferLoad] | None:
    body = block.body
    if not isinstance(body, BufferStore) or not isinstance(body.value, Add) or block.init is None:
        return None
    product = next((side for side in (body.value.b, body.value.a) if isinstance(side, Mul)), None)
    if product is None:
        return None
    a, b = _load(product.a), _load(product.b)
    return None if a is None or b is None or a.buffer is b.buffer else (a, b)


def _load(e: Expr) -> BufferLoad | None:
    while isinstance(e, Cast):
        e = e.value
    return e if isinstance(e, BufferLoad) else None


def _variables(e: Expr) -> set[Var]:
    return {item for item in walk(e) if isinstance(item, Var)}


def has_matmul(func: PrimFunc) -> bool:
    """Whether the only reduction is a product of floats, or one summed in int32, with B's columns contiguous."""
    reductions = [b for b in blocks_of(func) if is_reduction(b)]
    found = as_matmul(reductions[0]) if len(reductions) == 1 else None
    if found is None or not found.b_contiguous or found.n == 1:
        return False
    dtype = found.block.writes[0].buffer.dtype
    return dtype.is_float or dtype == "int32"


# What a pass over the columns of B where they lie costs beside one over a packed panel, cycles an element: little,
# because the next lines are fetched ahead. Packing pays from the third pass on.
_STRIDED, _PACKED = 1e-4, 2.5e-4


@dataclass(frozen=True, slots=True)
class MatmulPlan:
    """`tile` of the result in registers, `depth` of the sum at a time, `rows` of the result a task.

    With `pack` a panel of B is copied first.
    """

    tile: RegisterTile
    depth: int
    pack: bool
    rows: int


@rule("cpu", has_matmul)
def matmul(func: PrimFunc, target: Any) -> Iterator[Candidate]:
    """A function around one matrix product: producers inlined, epilogue computed on the tile."""
    product = as_matmul(next(b for b in blocks_of(func) if is_reduction(b)))
    if product is None:
        return
    cpu, dtype = cpu_of(target), product.block.writes[0].buffer.dtype
    batched = len(product.block.iter_vars) > 3
    batches = volume(axis.dom.extent for axis in product.block.iter_vars) // max(1, product.volume)

    def plan(rows: int, vectors: int, depth: int, pack: bool, task_rows: int) -> MatmulPlan:
        tile = RegisterTile(rows, vectors, max(1, cpu.vector_bytes // dtype.bytes))
        return MatmulPlan(tile, depth, pack, ceil(task_rows / rows) * rows)

    def price(**knobs: Any) -> Cost:
        return matmul_cost(product, plan(**knobs), dtype.bytes, target) * float(batches)

    def apply(sch: Schedule, **knobs: Any) -> None:
        _schedule(sch, plan(**knobs))

    for tile, _ in register_tiles(product.m, product.n, dtype, target):
        # A packed panel belongs to one task: there must be enough of them, and it takes all rows.
        packable = not batched and -(-product.n // tile.columns) >= 4 * cpu.cores
        for pack in (True, False) if packable else (False,):
            yield Candidate(
                knobs={
                    "rows": tile.rows, "vectors": tile.vectors,
                    "depth": depth_block(product.depth, tile, dtype.bytes, target),
                    "pack": pack, "task_rows": task_rows(product, tile, pack, cpu),
                },
                price=price, apply=apply,
            )  # fmt: skip


def task_rows(product: MatmulBlock, tile: RegisterTile, pack: bool, cpu: Any) -> int:
    """Rows of a task: all of them where a panel is packed, or two tasks would pack the same panel."""
    if pack:
        return max(1, -(-product.m // tile.rows)) * tile.rows
    return row_block(product.m, product.n, tile.rows, tile.columns, cpu.cores)


def matmul_cost(product: MatmulBlock, plan: MatmulPlan, itemsize: int, target: Any) -> Cost:
    """The cost of one product: its tiles, edges included, and what waits for B and for sums that are not done yet."""
    cpu, tile = cpu_of(target), plan.tile
    m, n, depth = product.m, product.n, product.depth
    compute = depth * round(step_cycles_of(m, n, tile, cpu), 9) / KERNEL_EFFICIENCY
    passes, blocks = -(-m // tile.rows), max(1, -(-depth // plan.depth))
    held = n * depth * (itemsize / MEMORY_STALL + (_PACKED if plan.pack else _STRIDED * passes))
    held += (blocks - 1) * 2 * m * n * itemsize / L2_BYTES
    if plan.depth * tile.columns * itemsize > max(cpu.l2.size // 4, 64 * tile.columns * itemsize):
        held += passes * n * depth * itemsize / L3_BYTES
    fewest = shared(_tasks(product, tile, task_rows(product, tile, plan.pack, cpu)), cpu)
    return Cost(compute, held) * (shared(_tasks(product, tile, plan.rows), cpu) / fewest)


def _tasks(product: MatmulBlock, tile: RegisterTile, rows: int) -> int:
    return -(-product.m // rows) * -(-product.n // tile.columns)


def _schedule(sch: Schedule, plan: MatmulPlan) -> None:
    inline_injective(sch)
    product_block = next(b for b in blocks_of(sch.func) if is_reduction(b))
    epilogues = [b.name for b in blocks_of(sch.func) if not is_reduction(b)]
    product = as_matmul(product_block)
    if product is None or len(epilogues) > 1:
        around = ", ".join(epilogues)
        raise Unfit(f"matmul: wanted one block at most beside the product, found {around or 'another sum'}")
    epilogue = sch.get_block(epilogues[0]) if epilogues else None
    schedule_matmul(sch, sch.get_block(product_block.name), product, plan, epilogue)


def schedule_matmul(sch: Schedule, block: Any, product: MatmulBlock, plan: MatmulPlan, epilogue: Any = None) -> None:
    """Tile, pack, and bind one matrix product; `epilogue` is an injective consumer of its result."""
    tile = plan.tile
    loops = list(sch.get_loops(block))
    batch = [loops[p] for p in range(len(loops)) if p not in (product.i, product.j, product.k)]

    i_block, i_tile, i_row = sch.split(loops[product.i], [None, plan.rows // tile.rows, tile.rows])
    j_panel, j_vector, j_lane = sch.split(loops[product.j], [None, tile.vectors, tile.lanes])
    whole_depth = plan.depth >= product.depth
    *k_block, k_step = [loops[product.k]] if whole_depth else sch.split(loops[product.k], [None, plan.depth])
    sch.reorder(*batch, i_block, j_panel, *k_block, i_tile, k_step, i_row, j_vector, j_lane)
    packed = None
    if plan.pack:
        packed = sch.cache_read(block, product.b_read, "local")
        sch.compute_at(packed, k_block[0] if k_block else j_panel)
    if epilogue is not None:
        sch.reverse_compute_at(epilogue, i_tile if whole_depth else j_panel)
        _vectorize_rows(sch, epilogue, 2, tile, unroll=whole_depth)
    sch.vectorize(j_lane)
    sch.unroll(j_vector)
    sch.unroll(i_row)
    if packed is not None:
        _vectorize_rows(sch, packed, 2, tile, unroll=False)
    sch.parallel(sch.fuse(*batch, i_block, j_panel))


def row_block(m: int, n: int, tile_rows: int, tile_columns: int, cores: int) -> int:
    """Rows of one parallel task: a multiple of the tile, few enough that every core gets several tasks."""
    panels = max(1, -(-n // tile_columns))  # a matrix without columns has no panel, and nothing to share out
    tiles = -(-m // tile_rows)
    wanted = 1 if cores == 1 else max(1, -(-8 * cores // panels))
    return max(1, -(-tiles // max(1, min(wanted, tiles)))) * tile_rows


def _vectorize_rows(sch: Schedule, block: Any, inner: int, tile: Any, unroll: bool) -> None:
    """Vectorise the last loop of a copy or epilogue; with `unroll`, its indices become constants (registers)."""
    *outer, last = list(sch.get_loops(block))[-inner:]
    vectors, lanes = sch.split(last, [None, tile.lanes])
    sch.vectorize(lanes)
    if unroll:
        sch.unroll(vectors)
        for loop in outer:
            sch.unroll(loop)
