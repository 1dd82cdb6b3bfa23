"""Products of 16-bit floats on Hopper's tensor cores, which four warps, a warpgroup, use together (`wgmma`, sm_90a).

    for each tile of rows x columns, on the grid:
        for ko:                                     # a software pipeline: copies of later steps are under way
            async A_shared, B_shared = the tiles of step ko
            acc += A_shared * B_shared              # each warpgroup 64 rows, all columns, in one instruction
        out = epilogue(acc)                         # by way of shared storage, where something follows

Operands are multiplied where they are, in shared storage: no fragments of them are loaded. A tile is held in lines of
128 bytes, whose pieces of 16 bytes are swizzled (`tir.transform.swizzle_shared`): what threads write at once, and what
tensor cores read at once, lies in different banks. What a product is, and how it becomes one of matrices, is as for a
warp (`tensor_cores`). After CUTLASS (MainloopSm90CpAsync).
"""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil, inf
from typing import Any

from ...target.cuda_capability import has_warpgroups
from ...tir import IndexMap, Schedule
from ...tir.nodes import PrimFunc
from ...tir.scopes_and_axes import SWIZZLED
from ...tir.tensor_intrin import warpgroups
from ..blocks import attempt, behind, block_of, blocks_of
from ..candidate import Candidate, Cost, Knob
from ..registry import rule
from .fallback import THREADS, on_the_grid
from .fetched_tiles import fetched
from .tensor_cores import _BUSY, Product, _as_matrices, _belongs, _sizes, _stored_by_all, _tile, product_of, tensor_core

_SCOPE = "shared.dyn"  # of results; tiles of operands are swizzled
_SLAB = warpgroups.SLAB
_ROWS, _COLUMNS, _STAGES = (64, 128, 256), (64, 128, 256), (2, 3, 4)
_DEPTHS = (64, 128)
# In quarters of a cycle, as `tensor_core` counts: what a step of the pipeline waits besides, and a copy takes to come.
_WAITS, _LATENCY = 1000, 8000
_REGISTERS, _OTHER_REGISTERS = 65536, 48  # of a block; of a thread, besides its sums
_PADDED = 1.25  # times as long takes a step whose copies are not asynchronous


def multiplies_halves(func: PrimFunc) -> bool:
    """Whether a function is a product of matrices of 16-bit floats."""
    product = product_of(func)
    return product is not None and product.dtype in warpgroups.INPUTS


@rule("cuda", multiplies_halves, first=True)
def warpgroup(func: PrimFunc, target: Any) -> Iterator[Candidate]:
    """A warpgroup for each 64 rows of a tile of `rows` x `columns`, in steps of `depth`, `stages` of which have tiles.

    Only candidates that cost less than the best one of `tensor_core` are proposed.
    """
    product = product_of(func)
    if product is None or not has_warpgroups(target):
        return
    others = behind(func, product.block.name)
    at_once = product.at_once()

    def price(rows: int, columns: int, depth: int, stages: int) -> Cost:
        blocks = product.count * ceil(product.m / rows) * ceil(product.n / columns)
        multiprocessors = target.multiprocessors or _BUSY
        # Two elements a lane of banks and cycle: each group reads both operands, and the tiles are written once.
        banks = (rows + rows // warpgroups.ROWS * columns + rows + columns) / 16
        step = max(rows * columns / 512, banks, (rows / at_once[0] + columns / at_once[1]) / 2)
        whole = product.divides(rows, columns, depth)
        piece = max(depth * step, _LATENCY / (stages - 1)) + _WAITS
        slower = 1.0 if whole else _PADDED
        waves = ceil(blocks / multiprocessors)
        return Cost(slower * waves * ceil(product.k / depth) * piece)

    def apply(sch: Schedule, **knobs: int) -> None:
        used = schedule_product(sch, product, **knobs)
        for name in [b.name for b in blocks_of(sch.func)]:
            if name not in used:
                attempt(lambda name=name: on_the_grid(sch, name, THREADS))  # type: ignore[misc]

    most = min((one.cost.cycles for one in tensor_core(func, target)), default=inf)
    for rows in _sizes(product.m, _ROWS):
        for columns in _sizes(product.n, _COLUMNS):
            for depth in _sizes(product.k, _DEPTHS):
                by_way = bool(others) or not product.is_plain or not product.divides(rows, columns, depth)
                for stages in _STAGES:
                    if _fits(product, rows, columns, depth, stages, by_way, target):
                        knobs: dict[str, Knob] = {"rows": rows, "columns": columns, "depth": depth, "stages": stages}
                        candidate = Candidate(knobs=knobs, price=price, apply=apply)
                        if candidate.cost.cycles < most:
                            yield candidate


def _fits(product: Product, rows: int, columns: int, depth: int, stages: int, by_way: bool, target: Any) -> bool:
    """Whether tiles are whole for copies, and fit registers and shared storage.

    `by_way`: results go by way of shared storage.
    """
    threads = rows // warpgroups.ROWS * warpgroups.THREADS
    sizes = zip((rows, columns), product.at_once(), strict=True)
    copied = all(size * depth % (threads * lanes) == 0 for size, lanes in sizes)
    used = stages * product.bytes * (rows + columns) * depth + (4 * rows * columns if by_way else 0)
    registers = threads * (columns // 2 + _OTHER_REGISTERS)
    return copied and used <= target.max_shared_memory_per_block and registers <= _REGISTERS


def schedule_product(sch: Schedule, product: Product, rows: int, columns: int, depth: int, stages: int) -> set[str]:
    """The product and what follows it element by element; returns the names of the blocks that it scheduled."""
    block, dtype = sch.get_block(product.block.name), product.dtype
    groups = rows // warpgroups.ROWS
    last, copies = _as_matrices(sch, product, block, (rows, columns, depth), _SCOPE)
    for copy in copies:
        sch.set_scope(copy, 0, SWIZZLED)
    writer = sch.cache_write(block, 0, warpgroups.ACCUMULATOR)
    if last is not None:
        inner = _tile(sch, last, rows, columns)
        sch.compute_at(writer, inner[0])
        sch.compute_at(block, inner[0])
        i, j, k = sch.get_loops(block)[-3:]
    else:
        _, i, j, k = (None, *_tile(sch, block, rows, columns)[1:])
    group, row = sch.split(i, [groups, None])
    ko, kk = sch.split(k, [None, depth])
    sch.reorder(group, ko, row, j, kk)
    sch.bind(group, "threadIdx.y")
    sch.reverse_compute_at(writer, group)
    threads = [("threadIdx.y", groups), ("threadIdx.x", warpgroups.THREADS)]
    for copy, load, axes in zip(copies, (product.a, product.b), (product.tile_a, product.tile_b), strict=True):
        slabs = IndexMap.from_func(lambda *i: (*i[:-2], i[-1] // _SLAB, i[-2], i[-1] % _SLAB), ndim=len(axes))
        sch.transform_layout(copy, ("write", 0), slabs)
        sch.compute_at(copy, ko, preserve_unit_loops=True)
        inner_axis, lanes = product.fetched(load, axes)
        fetched(sch, copy, len(axes), inner_axis, lanes, threads)
    init = sch.decompose_reduction(block, ko)
    sch.tensorize(sch.get_loops(init)[-2], warpgroups.fill(columns))
    sch.tensorize(row, warpgroups.multiply(columns, depth, dtype, product.transposed))
    sch.tensorize(sch.get_loops(writer)[-2], warpgroups.store(columns, "global" if last is None else "shared"))
    sch.annotate(ko, "software_pipeline_stage", [0, 0, stages - 1])
    sch.annotate(ko, "software_pipeline_order", [0, 1, 2])
    sch.annotate(ko, "software_pipeline_async_stages", [0])
    if last is not None:
        _stored_by_all(sch, last, groups, warpgroups.THREADS)
    own = {b.name for b in blocks_of(sch.func) if _belongs(b, product.block.name)}
    return own | ({block_of(sch, last).name} if last is not None else set())
