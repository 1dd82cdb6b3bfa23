"""Schedule products of 16-bit floats on Hopper's tensor cores, which a warpgroup of four warps uses together (`wgmma`).

    for each tile of rows x columns, on the grid:
        for ko:                                     # a software pipeline: later steps are being copied
            async A_shared, B_shared = the tiles of step ko
            acc += A_shared * B_shared              # each warpgroup: 64 rows, all columns, in one instruction
        out = epilogue(acc)                         # through shared storage, if other blocks follow

Operands are multiplied directly from shared storage, without loading fragments. A tile is stored in lines of 128 bytes,
whose pieces of 16 bytes are swizzled (`machines.cuda.swizzle_shared`), so that simultaneous writes by threads, and
simultaneous reads by tensor cores, go to different banks. Products are recognised and converted to matrices as for
warps (`tensor_cores`). This needs the architecture sm_90a. The schedule follows CUTLASS (MainloopSm90CpAsync).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from itertools import product as every
from math import ceil, inf

from ....strategy.candidate import Candidate, Cost
from ....strategy.registry import rule
from ....target import Target
from ....tir import IndexMap, Schedule
from ....tir.annotations import SWIZZLED
from ....tir.nodes import PrimFunc
from ...gpu.strategy.fallback import THREADS, others_on_the_grid
from ...gpu.strategy.fetched_tiles import fetched, in_stages
from ...gpu.strategy.matrices import MatrixProduct, as_matrices
from ..capability import has_warpgroups
from ..tensor_intrin import warpgroups
from . import tensor_cores
from .warp_tiles import grouped
from .warpgroup_tiles import WarpgroupTile, warpgroup_tile_cost

_SCOPE = "shared.dyn"  # of results; tiles of operands are swizzled
_SLAB = warpgroups.SLAB
_ROWS, _COLUMNS, _DEPTHS = (64, 128, 256), (64, 128, 256), (64,)
_STAGES = (4, 3, 2)  # of equal ones the most: copies come late at times


def multiplies_halves(func: PrimFunc) -> bool:
    """Return whether a function is a matrix product of 16-bit floats."""
    product = tensor_cores.product_of(func)
    return product is not None and product.dtype in warpgroups.INPUTS


@rule("cuda", multiplies_halves, first=True)
def warpgroup(func: PrimFunc, target: Target) -> Iterator[Candidate]:
    """Yield candidates with a warpgroup for each 64 rows of a tile of `rows` x `columns`.

    Pieces have `depth` steps, and `stages` pieces are in shared storage at a time. Only candidates that cost less than
    the best one of `tensor_core` are proposed.
    """
    product = tensor_cores.product_of(func)
    if product is None or not has_warpgroups(target):
        return
    matrices, followed = tensor_cores.seen_by_costs(func, product)

    def price(**knobs: int) -> Cost:
        tile = WarpgroupTile(**knobs)
        return warpgroup_tile_cost(matrices, tile, followed or not tile.divides(matrices), tensor_cores.PADDED, target)

    def apply(sch: Schedule, **knobs: int) -> None:
        used = schedule_product(sch, product, WarpgroupTile(**knobs))
        others_on_the_grid(sch, used, THREADS)

    most = min((one.cost.cycles for one in tensor_cores.tensor_core(func, target)), default=inf)
    sizes = (tensor_cores.sizes_for(extent, some) for extent, some in
             ((product.m, _ROWS), (product.n, _COLUMNS), (product.k, _DEPTHS)))  # fmt: skip
    for rows, columns, depth, stages in every(*sizes, _STAGES):
        tile = WarpgroupTile(rows, columns, depth, stages=stages)
        whole = stages == 2 or stages <= ceil(product.k / depth)
        if whole and tile.fits(matrices, followed or not tile.divides(matrices), target):
            candidate = Candidate(knobs=asdict(grouped(matrices, tile, target)), price=price, apply=apply)
            if candidate.cost.cycles < most:
                yield candidate


def schedule_product(sch: Schedule, product: MatrixProduct, tile: WarpgroupTile) -> set[str]:
    """Schedule the product and the element-wise blocks after it. Return the names of the scheduled blocks."""
    columns, depth, groups = tile.columns, tile.depth, tile.groups
    tiles = tensor_cores.operand_tiles(product)
    block, shapes = sch.get_block(product.block.name), [axes for _, axes in tiles]
    last, copies = as_matrices(sch, product, block, (tile.rows, columns, depth), shapes, (_SCOPE, _SCOPE))
    for copy in copies:
        sch.set_scope(copy, 0, SWIZZLED)
    writer, (i, j, k) = tensor_cores.in_blocks(sch, block, last, tile, warpgroups.ACCUMULATOR)
    group, row = sch.split(i, [groups, None])
    ko, kk = sch.split(k, [None, depth])
    sch.reorder(group, ko, row, j, kk)
    sch.bind(group, "threadIdx.y")
    sch.reverse_compute_at(writer, group)
    threads = [("threadIdx.y", groups), ("threadIdx.x", warpgroups.THREADS)]
    for copy, (load, axes) in zip(copies, tiles, strict=True):
        slabs = IndexMap.from_func(lambda *i: (*i[:-2], i[-1] // _SLAB, i[-2], i[-1] % _SLAB), ndim=len(axes))
        sch.transform_layout(copy, ("write", 0), slabs)
        sch.compute_at(copy, ko, preserve_unit_loops=True)
        fetched(sch, copy, len(axes), *tensor_cores.fetches_of(product, load, axes), threads)
    init = sch.decompose_reduction(block, ko)
    sch.tensorize(sch.get_loops(init)[-2], warpgroups.fill(columns))
    sch.tensorize(row, warpgroups.multiply(columns, depth, product.dtype, tensor_cores.is_transposed(product)))
    sch.tensorize(sch.get_loops(writer)[-2], warpgroups.store(columns, "global" if last is None else "shared"))
    in_stages(sch, ko, tile.stages)
    if last is not None:
        tensor_cores.stored_by_all(sch, last, groups, warpgroups.THREADS)
    return tensor_cores.scheduled(sch, product, last)
