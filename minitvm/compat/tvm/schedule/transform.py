"""What TVM builds of primitives, under its names: tile_with_tensor_intrin, can_decompose_padding."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ....tir.schedule.handles import BlockRV, LoopRV
from ....tir.schedule.intrinsics import get_tensorize_loop_mapping
from ....tir.tensor_intrin import TensorIntrin

if TYPE_CHECKING:
    from ....tir.schedule.schedule import Schedule


def tile_with_tensor_intrin(
    sch: Schedule, block: BlockRV | str, intrin_name: str, allow_padding: bool = False
) -> LoopRV | None:
    """Split the loops of a block by the extents of a registered intrinsic's description, and bring them innermost.

    Gives the outermost loop of the tile, to be tensorized, or None where no loops fit (`get_tensorize_loop_mapping`).
    With `allow_padding`, iterators that the description does not divide are padded first (`pad_einsum`), and the blocks
    that pad and cut are inlined where a block of the program reads or writes what they copy.
    """
    desc = TensorIntrin.get(intrin_name)
    assert desc is not None  # an unknown name raises
    info = get_tensorize_loop_mapping(sch, block, desc.desc, allow_padding)
    if info is None:
        return None
    handle = sch.get_block(block) if isinstance(block, str) else block
    counterparts = [info.loop_map.get(sch.get_sref(loop)) for loop in sch.get_loops(handle)]
    if info.block_iter_paddings is not None:
        _pad(sch, handle, info.block_iter_paddings)
    places: dict[int, LoopRV] = {}
    for loop, described in zip(sch.get_loops(handle), counterparts, strict=True):
        if described is not None:
            _, places[info.desc_loop_indexer[described]] = sch.split(loop, [None, described.extent])
    tile = [places[k] for k in sorted(places)]
    loops = sch.get_loops(handle)
    first = min(k for k, loop in enumerate(loops) if loop in tile)
    sch.reorder(*(loop for loop in loops[first:] if loop not in tile), *tile)
    return tile[0]


def _pad(sch: Schedule, block: BlockRV, multiples: tuple[int, ...]) -> None:
    producers = {sch.get(b).id for b in sch.get_producers(block)}
    consumers = {sch.get(b).id for b in sch.get_consumers(block)}
    sch.pad_einsum(block, list(multiples))
    inlined: list[BlockRV] = []
    for padding in sch.get_producers(block):
        if sch.get(padding).id not in producers:
            sources = sch.get_producers(padding)
            inlined += [source for source in sources if sch.get(source).id in producers]
    for cutting in sch.get_consumers(block):
        if sch.get(cutting).id not in consumers:
            if any(sch.get(reader).id in consumers for reader in sch.get_consumers(cutting)):
                inlined.append(cutting)
    for each in inlined:
        sch.compute_inline(each)


def can_decompose_padding(sch: Schedule, block: BlockRV | str, loop: LoopRV) -> bool:
    """Whether `decompose_padding(block, loop)` is legal; also a method of `Schedule`, as in TVM."""
    return sch.can_decompose_padding(block, loop)
