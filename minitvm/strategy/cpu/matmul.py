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

from dataclasses import dataclass
from typing import Any

from ...expr import REDUCE, Add, Cast, Expr, IntImm, Mul, Var, walk
from ...tir import Schedule
from ...tir.nodes import Block, BufferLoad, BufferStore, PrimFunc
from ..registry import rule
from .blocks import blocks_of, inline_injective, is_reduction
from .tiling import WEIGHED, cpu_of, depth_block, register_tile, register_tiles


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


@rule("cpu", has_matmul)
def matmul(sch: Schedule, target: Any) -> list[str]:
    """Schedule a function around one matrix product: producers inlined, epilogue computed on the tile."""
    inline_injective(sch)
    name = next(b.name for b in blocks_of(sch.func) if is_reduction(b))
    epilogues = [b.name for b in blocks_of(sch.func) if not is_reduction(b)]
    block = sch.get_block(name)
    found = as_matmul(next(b for b in blocks_of(sch.func) if b.name == name))
    if found is None or len(epilogues) > 1:
        return []
    schedule_matmul(sch, block, found, target, sch.get_block(epilogues[0]) if epilogues else None)
    return [
        f"tile of {tile.rows} rows x {tile.vectors} vectors of {tile.lanes}, {cycles:.4g} cycles a step of k"
        for tile, cycles in register_tiles(found.m, found.n, found.block.writes[0].buffer.dtype, target)[:WEIGHED]
    ]


def schedule_matmul(sch: Schedule, block: Any, found: MatmulBlock, target: Any, epilogue: Any = None) -> None:
    """Tile, pack, and bind one matrix product; `epilogue` is an injective consumer of its result."""
    dtype = found.block.writes[0].buffer.dtype
    tile = register_tile(found.m, found.n, dtype, target)
    depth = depth_block(found.depth, tile, dtype.bytes, target)
    loops = list(sch.get_loops(block))
    batch = [loops[p] for p in range(len(loops)) if p not in (found.i, found.j, found.k)]
    cores = cpu_of(target).cores
    packs = found.m > 2 * tile.rows and -(-found.n // tile.columns) >= 4 * cores and not batch
    # A packed panel belongs to one task: it takes all rows, or two tasks would pack the same panel.
    rows = (
        -(-found.m // tile.rows) * tile.rows if packs else row_block(found.m, found.n, tile.rows, tile.columns, cores)
    )

    i_block, i_tile, i_row = sch.split(loops[found.i], [None, rows // tile.rows, tile.rows])
    j_panel, j_vector, j_lane = sch.split(loops[found.j], [None, tile.vectors, tile.lanes])
    whole_depth = depth >= found.depth
    *k_block, k_step = [loops[found.k]] if whole_depth else sch.split(loops[found.k], [None, depth])
    sch.reorder(*batch, i_block, j_panel, *k_block, i_tile, k_step, i_row, j_vector, j_lane)
    packed = None
    if packs:
        packed = sch.cache_read(block, found.b_read, "local")
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
