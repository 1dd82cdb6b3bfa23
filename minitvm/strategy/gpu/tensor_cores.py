"""Products of 16-bit floats, summed in float32, on tensor cores: tiles in shared storage, fragments in registers.

    for each tile of bm x bn, on the grid:
        for ko:                                     # a software pipeline: the copies of step ko + 1 are under way
            async A_shared, B_shared = the tiles of step ko
            for ki:
                a, b = ldmatrix of A_shared, B_shared
                acc += a * b                        # mma.sync, for each 16 x 8 tile of the warp
        out = epilogue(acc)                         # by way of shared storage, where something follows

Rows of the tiles are 16 bytes longer than they need be, so that `ldmatrix` reads them from different banks. After
CUTLASS ("Efficient GEMM in CUDA") and TVM's schedules with tensor intrinsics (TensorIR, ASPLOS 2023).

Extents that tiles do not divide are padded: operands with zeros where they are copied to shared storage, which is then
no asynchronous copy, and results there on the way back, of which those outside are not stored.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil, prod
from typing import Any

from ...expr import REDUCE, Cast, Expr, Mul
from ...target.cuda_capability import capability
from ...tir import Schedule
from ...tir.nodes import Block, BufferLoad, BufferStore, PrimFunc
from ...tir.tensor_intrin import tensor_cores
from ..blocks import attempt, behind, block_of, blocks_of, extents, inline_injective, is_reduction
from ..candidate import Candidate, Cost, Knob, Unfit
from ..registry import rule
from ..roles import operands
from .fallback import THREADS, on_the_grid
from .grid import fused

LEAST = 80  # the compute capability from which devices have mma.sync.m16n8k16 and cp.async
_SHARED = 48 << 10  # bytes that a kernel declares
_ACCUMULATORS = 64  # of a thread
_WARPS = 8
_BUSY = 132  # multiprocessors
_WASTE = 0.125  # of an extent may be padding
_PADDED = 1.25  # times as long takes a step whose copies are not asynchronous
_PAD = 8  # elements behind a row of a tile


@dataclass(frozen=True, slots=True)
class Product:
    """A product of matrices as a block computes it: `outside` of m x k by k x n, or n x k if `transposed`."""

    block: Block
    a: int  # the positions of the operands among the block's reads
    b: int
    transposed: bool
    outside: int
    m: int
    n: int
    k: int
    dtype: str


def product_of(func: PrimFunc) -> Product | None:
    """The product of matrices that is the only reduction of a function; None where it is another, or another dtype."""
    reductions = [block for block in blocks_of(func) if is_reduction(block)]
    if len(reductions) != 1:
        return None
    block = reductions[0]
    loads, store = operands(block), block.body
    kinds = [axis.kind for axis in block.iter_vars]
    if loads is None or not isinstance(store, BufferStore) or kinds.count(REDUCE) != 1 or kinds[-1] != REDUCE:
        return None
    dtype = str(loads[0].buffer.dtype)
    factors = [e for e in _casts(store.value) if isinstance(e.value, BufferLoad)]
    if store.buffer.dtype != "float32" or len(factors) != 2 or dtype not in tensor_cores.INPUTS:
        return None
    variables = [axis.var for axis in block.iter_vars]
    if loads[1].buffer.dtype != dtype or len(kinds) < 3 or list(store.indices) != variables[:-1]:
        return None
    i, j, k = variables[-3:]
    sizes = extents(axis.dom.extent for axis in block.iter_vars)
    if None in sizes:
        return None
    for first, second in (loads, loads[::-1]):
        if first.indices[-2:] != (i, k) or second.indices[-2:] not in ((k, j), (j, k)):
            continue
        at = [next((p for p, r in enumerate(block.reads) if r.buffer is load.buffer), -1) for load in (first, second)]
        *outside, m, n, depth = (size or 0 for size in sizes)
        across = second.indices[-2:] == (j, k)
        return Product(block, at[0], at[1], across, prod(outside), m, n, depth, dtype) if min(at) >= 0 else None
    return None


def _casts(e: Expr) -> list[Cast]:
    """The conversions of the factors of `sum + a * b`."""
    parts = [p for p in (getattr(e, "a", None), getattr(e, "b", None)) if isinstance(p, Mul)]
    return [f for p in parts for f in (p.a, p.b) if isinstance(f, Cast)]


def has_product(func: PrimFunc) -> bool:
    """Whether a function is a product of matrices that tensor cores take."""
    return product_of(func) is not None


@rule("cuda", has_product)
def tensor_core(func: PrimFunc, target: Any) -> Iterator[Candidate]:
    """A block of `warp_rows` x `warp_columns` warps for each tile of `rows` x `columns`, in steps of `depth`."""
    product = product_of(func)
    if product is None or capability(target) < LEAST:
        return
    others = behind(func, product.block.name)

    def price(rows: int, columns: int, depth: int, warp_rows: int, warp_columns: int) -> Cost:
        blocks = product.outside * ceil(product.m / rows) * ceil(product.n / columns)
        warps = warp_rows * warp_columns
        step = rows * columns / 64 / min(warps, 4)  # one in four warps has a tensor core at a time
        loads = (rows / warp_rows * warp_columns + columns / warp_columns * warp_rows + rows + columns) / 8
        pieces = ceil(product.k / depth)
        steps = pieces * (depth + 24)  # threads wait twice in a step
        slower = 1.0 if _divide(product, (rows, columns, depth)) else _PADDED
        return Cost(slower * max(1.0, blocks / _BUSY) * steps * (step + loads) / min(1.0, blocks / _BUSY) ** 0.1)

    def apply(sch: Schedule, **knobs: int) -> None:
        used = _schedule(sch, product, **knobs)
        for name in [b.name for b in blocks_of(sch.func)]:
            if name not in used:
                attempt(lambda name=name: on_the_grid(sch, name, THREADS))  # type: ignore[misc]

    for rows in _sizes(product.m, (16, 32, 64, 128)):
        for columns in _sizes(product.n, (8, 16, 32, 64, 128)):
            for depth in _sizes(product.k, (16, 32, 64)):
                for warp_rows in (1, 2, 4):
                    for warp_columns in (1, 2, 4):
                        knobs: dict[str, Knob] = {
                            "rows": rows, "columns": columns, "depth": depth,
                            "warp_rows": warp_rows, "warp_columns": warp_columns,
                        }  # fmt: skip
                        staged = bool(others) or product.m % rows != 0 or product.n % columns != 0
                        if _fits(rows, columns, depth, warp_rows, warp_columns, staged):
                            yield Candidate(knobs=knobs, price=price, apply=apply)


def _sizes(extent: int, sizes: tuple[int, ...]) -> list[int]:
    """Those that divide an extent or leave little of it to padding; all up to the next larger if there is none."""
    little = [size for size in sizes if -extent % size <= extent * _WASTE]
    return little or [size for size in sizes if size // 2 < extent or size == sizes[0]]


def _fits(rows: int, columns: int, depth: int, warp_rows: int, warp_columns: int, staged: bool) -> bool:
    """Whether tiles are whole for warps and copies, and fit registers and shared storage."""
    warps = warp_rows * warp_columns
    whole = rows % (16 * warp_rows) == 0 and columns % (8 * warp_columns) == 0
    copied = all(size % (32 * warps * 8) == 0 for size in (rows * depth, columns * depth))
    kept = rows * columns // (32 * warps)
    tiles = 2 * 2 * (rows * (depth + _PAD) + max(columns * (depth + _PAD), depth * (columns + _PAD)))
    used = tiles + (4 * rows * (columns + _PAD) if staged else 0)
    return whole and copied and warps <= _WARPS and kept <= _ACCUMULATORS and used <= _SHARED


def _schedule(
    sch: Schedule, product: Product, rows: int, columns: int, depth: int, warp_rows: int, warp_columns: int
) -> set[str]:
    """The product and what follows it element by element; returns the names of the blocks that it scheduled."""
    block, dtype = sch.get_block(product.block.name), product.dtype
    inline_injective(sch, within=behind(sch.func, product.block.name))
    if len(sch.get_consumers(block)) > 1:
        raise Unfit("tensor_core: wanted one block behind the product, which the others were inlined into")
    fillers = _padded(sch, block, product, (rows, columns, depth))
    consumers = sch.get_consumers(block)
    warps = warp_rows * warp_columns
    writer = sch.cache_write(block, 0, tensor_cores.ACCUMULATOR)
    last = consumers[0] if consumers else None
    if last is not None:
        sch.set_scope(writer, 0, "shared")
        inner = _tile(sch, last, rows, columns)
        sch.compute_at(writer, inner[0])
        sch.compute_at(block, inner[0])
        i, j, k = sch.get_loops(block)[-3:]
    else:
        _, i, j, k = (None, *_tile(sch, block, rows, columns)[1:])
    warp_row, warp_i = sch.split(i, [warp_rows, None])
    warp_column, warp_j = sch.split(j, [warp_columns, None])
    (mi, ii), (nj, jj) = sch.split(warp_i, [None, 16]), sch.split(warp_j, [None, 8])
    ko, k1 = sch.split(k, [None, depth])
    ki, kk = sch.split(k1, [None, 16])
    sch.reorder(warp_row, warp_column, ko, ki, mi, nj, ii, jj, kk)
    warp = fused(sch, [warp_row, warp_column])
    sch.bind(warp, "threadIdx.y")
    sch.reverse_compute_at(writer, warp)
    staged = []
    for position, scope, name in (
        (product.a, tensor_cores.MATRIX_A, tensor_cores.load_a(dtype)),
        (product.b, tensor_cores.MATRIX_B, tensor_cores.load_b(dtype, product.transposed)),
    ):
        shared = sch.cache_read(block, position, "shared")
        fragment = sch.cache_read(block, position, scope)
        sch.compute_at(fragment, ki)
        sch.compute_at(shared, ko)
        staged.append((shared, fragment, name, scope))
    for filler in fillers:
        sch.compute_inline(filler)
    for shared, _, _, _ in staged:
        _copied_by_all(sch, shared, warps, 8)
        sch.storage_align(shared, 0, -2, 16, _PAD)
    init = sch.decompose_reduction(block, ko)
    *_, init_m, init_n, init_i, _ = sch.get_loops(init)
    for loop in (init_m, init_n, mi, nj):
        sch.unroll(loop)
    sch.tensorize(init_i, tensor_cores.FILL)
    sch.tensorize(ii, tensor_cores.multiply(dtype, product.transposed))
    for _, fragment, name, scope in staged:
        across = (8, 16) if product.transposed else (16, 8)
        _in_tiles(sch, fragment, (16, 16) if scope == tensor_cores.MATRIX_A else across, name)
    _in_tiles(sch, writer, (16, 8), tensor_cores.STORE if last is None else tensor_cores.STORE_SHARED)
    for loop, stages in ((ki, [0, 0, 0]), (ko, [0, 0, 1])):
        sch.annotate(loop, "software_pipeline_stage", stages)
        sch.annotate(loop, "software_pipeline_order", [0, 1, 2])
    sch.annotate(ko, "software_pipeline_async_stages", [0])
    if last is not None:
        lanes = 4 if block_of(sch, last).writes[0].buffer.dtype.bytes >= 4 else 8
        _copied_by_all(sch, last, warps, lanes)
    return {b.name for b in blocks_of(sch.func) if _belongs(b, product.block.name)} | _names(sch, last)


def _divide(product: Product, tile: tuple[int, int, int]) -> bool:
    return product.m % tile[0] == product.n % tile[1] == product.k % tile[2] == 0


def _padded(sch: Schedule, block: Any, product: Product, tile: tuple[int, int, int]) -> list[Any]:
    """Pad the product to multiples of a tile; returns the blocks that fill its operands, to be inlined into copies."""
    if _divide(product, tile):
        return []
    before = {b.name for b in blocks_of(sch.func)}
    spatial = len(product.block.iter_vars) - 3
    sch.pad_einsum(block, [*[1] * spatial, *tile])
    for cut in sch.get_consumers(block):
        if block_of(sch, cut).name not in before and sch.get_consumers(cut):
            sch.compute_inline(cut)  # what follows takes the results inside itself
    return [one for one in sch.get_producers(block) if block_of(sch, one).name not in before]


def _names(sch: Schedule, last: Any) -> set[str]:
    return set() if last is None else {block_of(sch, last).name}


def _belongs(block: Block, name: str) -> bool:
    return block.name.startswith(name) or any(r.buffer.scope != "global" for r in block.writes)


def _tile(sch: Schedule, block: Any, rows: int, columns: int) -> list[Any]:
    """Tile the loops over m and n and bind those outside of a tile; returns the innermost of these and the others."""
    *outside, i, j = sch.get_loops(block)[: len([a for a in block_of(sch, block).iter_vars if a.kind != REDUCE])]
    rest = list(sch.get_loops(block))[len(outside) + 2 :]
    grid_i, tile_i = sch.split(i, [None, rows])
    grid_j, tile_j = sch.split(j, [None, columns])
    sch.reorder(*outside, grid_i, grid_j, tile_i, tile_j, *rest)
    if outside:
        sch.bind(fused(sch, outside), "blockIdx.z")
    sch.bind(grid_i, "blockIdx.y")
    sch.bind(grid_j, "blockIdx.x")
    return [grid_j, tile_i, tile_j, *rest]


def _copied_by_all(sch: Schedule, block: Any, warps: int, lanes: int) -> None:
    """The last two loops of a block shared out among the threads, vectors of neighbours to each."""
    row, column = sch.get_loops(block)[-2:]
    vectors, lane = sch.split(column, [None, lanes])
    _, warp, thread = sch.split(sch.fuse(row, vectors), [None, warps, tensor_cores.WARP])
    sch.bind(warp, "threadIdx.y")
    sch.bind(thread, "threadIdx.x")
    sch.vectorize(lane)


def _in_tiles(sch: Schedule, block: Any, shape: tuple[int, int], name: str) -> None:
    """The last two loops of a block as tiles, each one instruction."""
    row, column = sch.get_loops(block)[-2:]
    (row_0, row_1), (column_0, column_1) = sch.split(row, [None, shape[0]]), sch.split(column, [None, shape[1]])
    sch.reorder(row_0, column_0, row_1, column_1)
    sch.unroll(row_0)
    sch.unroll(column_0)
    sch.tensorize(row_1, name)
