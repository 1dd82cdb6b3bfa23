"""Calls of TVM's schedule primitives on a program, legal or not: what the differential fuzzer tries.

A row a primitive: its name, and how to draw its arguments (by TVM's names) from the blocks and loops that there are.
They are drawn a little on the legal side, else nearly all would be refused by both.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from minitvm.compat.tvm.bridge import IndexMapSource
from minitvm.expr import IntImm
from minitvm.tir.nodes import BlockRealize, Buffer, For
from minitvm.tir.schedule import Schedule
from minitvm.tir.schedule.handles import BlockRV, LoopRV

Draw = Callable[[Any], Any]  # `draw(options)`: one of a sequence
Arguments = dict[str, Any]


class NothingToCall(Exception):
    """The program has no block or loop for that primitive."""


@dataclass(frozen=True)
class Tuple:
    """An argument that must be a Python tuple over there."""

    items: tuple[Any, ...]


class View:
    """The blocks and loops of a schedule as it is now."""

    def __init__(self, sch: Schedule, draw: Draw) -> None:
        self.tree = sch.state.tree()
        self._draw = draw

    def one(self, options: Sequence[Any]) -> Any:
        """One of the options; raises `NothingToCall` where there is none."""
        if not options:
            raise NothingToCall
        return self._draw(list(options))

    def some_block(self, suits: Callable[[BlockRealize], bool] = lambda block: True) -> BlockRealize:
        """A block other than the root."""
        blocks = [b for b in self.tree.blocks.values() if b is not self.tree.root and suits(b)]
        return self.one(blocks)  # type: ignore[no-any-return]

    def reduction(self) -> BlockRealize:
        """A block with an init."""
        return self.some_block(lambda block: block.block.init is not None)

    def some_loop(self, suits: Callable[[For], bool] = lambda loop: True) -> For:
        """A loop around some block: there is no other way to find one."""
        return self.one([loop for loop in self.tree.loops.values() if self.tree.blocks_in(loop) and suits(loop)])  # type: ignore[no-any-return]

    def loop_over(self, block: BlockRealize) -> For:
        """A loop around a block."""
        return self.one(self.tree.loops_above(block))  # type: ignore[no-any-return]

    def loop_elsewhere(self, block: BlockRealize) -> For:
        """A loop that is not around a block."""
        above = set(self.tree.all_loops_above(block))
        return self.some_loop(lambda loop: loop not in above)

    def chain(self, loop: For) -> list[For]:
        """The loop and those nested directly in it."""
        nest = [loop]
        while isinstance(nest[-1].body, For):
            nest.append(nest[-1].body)
        return nest

    def buffer_index(self, block: BlockRealize, what: str) -> int:
        """The number of a region that a block reads or writes."""
        return int(self.one(range(len(getattr(block.block, what)))))

    def inner_buffer(self, block: BlockRealize) -> tuple[str, int, Buffer]:
        """A buffer of the block that is no parameter: what may be laid out anew."""
        parameters = set(self.tree.func.buffers)
        found = [
            (kind, number, region.buffer)
            for kind, regions in (("read", block.block.reads), ("write", block.block.writes))
            for number, region in enumerate(regions)
            if region.buffer not in parameters
        ]
        return self.one(found)  # type: ignore[no-any-return]


def block_of(block: BlockRealize) -> BlockRV:
    """Its handle."""
    return BlockRV(block.block.id)


def loop_of(loop: For) -> LoopRV:
    """Its handle."""
    return LoopRV(loop.var)


def _extent(loop: For) -> int:
    return loop.extent.value if isinstance(loop.extent, IntImm) else 8


SCOPES = ("global", "shared", "local")


def _add_unit_loop(v: View) -> Arguments:
    either = v.one([block_of(v.some_block()), loop_of(v.some_loop())])
    return {"block_or_loop": either}


def _bind(v: View) -> Arguments:
    return {
        "loop": loop_of(v.some_loop()),
        "thread_axis": v.one(["blockIdx.x", "threadIdx.x", "threadIdx.y", "vthread.x"]),
    }


def _blockize(v: View) -> Arguments:
    return {"target": loop_of(v.some_loop()), "preserve_unit_iters": v.one([True, False])}


def _cache_index(v: View) -> Arguments:
    return {"block": block_of(v.some_block()), "storage_scope": v.one(SCOPES), "cse_thresh": v.one([0, 1])}


def _cache_inplace(v: View) -> Arguments:
    block = v.some_block()
    return {
        "block": block_of(block),
        "read_buffer_index": v.buffer_index(block, "reads"),
        "storage_scope": v.one(SCOPES),
    }


def _cache_read(v: View) -> Arguments:
    return _cache_inplace(v)


def _cache_write(v: View) -> Arguments:
    block = v.some_block()
    return {
        "block": block_of(block), "write_buffer_index": v.buffer_index(block, "writes"), "storage_scope": v.one(SCOPES)
    }  # fmt: skip


def _compute_at(v: View) -> Arguments:
    block = v.some_block()
    return {
        "block": block_of(block), "loop": loop_of(v.loop_elsewhere(block)),
        "preserve_unit_loops": v.one([False, True]), "index": v.one([-1, -2, 0, 1]),
    }  # fmt: skip


def _block_only(v: View) -> Arguments:
    return {"block": block_of(v.some_block())}


def _decompose_padding(v: View) -> Arguments:
    block = v.some_block()
    return {"block": block_of(block), "loop": loop_of(v.loop_over(block))}


def _decompose_reduction(v: View) -> Arguments:
    block = v.reduction()
    return {"block": block_of(block), "loop": loop_of(v.loop_over(block))}


def _fuse(v: View) -> Arguments:
    nest = v.chain(v.some_loop(lambda loop: isinstance(loop.body, For)))
    count = v.one(range(2, len(nest) + 1))
    return {"loops": [loop_of(loop) for loop in nest[:count]], "preserve_unit_iters": v.one([True, False])}


def _merge(v: View) -> Arguments:
    tops = [loop for loop in v.tree.loops.values() if not v.tree.loops_above(loop) and v.tree.blocks_in(loop)]
    if len(tops) < 2:
        raise NothingToCall
    first = v.one(range(len(tops) - 1))
    pair = [tops[first], tops[first + 1]]
    depth = v.one(range(min(len(v.chain(loop)) for loop in pair)))
    return {"loops": [loop_of(v.chain(loop)[depth]) for loop in pair]}


def _reorder(v: View) -> Arguments:
    nest = v.chain(v.some_loop(lambda loop: isinstance(loop.body, For)))
    order = v.one(list(itertools.permutations(nest[:3])))
    return {"ordered_loops": [loop_of(loop) for loop in order]}


def _split(v: View) -> Arguments:
    loop = v.some_loop()
    factors = v.one([[None, 2], [2, None], [None, 3], [3, None], [None, _extent(loop)], [2, None, 2], [None, 5]])
    return {"loop": loop_of(loop), "factors": factors, "preserve_unit_iters": v.one([True, False])}


def _loop_partition(v: View) -> Arguments:
    loop = v.some_loop()
    return {
        "loop": loop_of(loop), "factors": v.one([[2, None], [None, 2], [1, 2, None], [None, _extent(loop)], [3, None]]),
        "preserve_unit_iters": v.one([True, False]),
    }  # fmt: skip


def _loop_only(v: View) -> Arguments:
    return {"loop": loop_of(v.some_loop())}


def _fuse_reduction_epilogue(v: View) -> Arguments:
    reduction = v.reduction()
    written = {region.buffer for region in reduction.block.writes}
    reader = v.some_block(lambda b: b is not reduction and any(r.buffer in written for r in b.block.reads))
    return {"reduction_block": block_of(reduction), "epilogue_block": block_of(reader)}


def _pad_einsum(v: View) -> Arguments:
    block = v.some_block()
    return {"block": block_of(block), "padding": [v.one([1, 2, 3, 4, 8]) for _ in block.block.iter_vars]}


def _read_at(v: View) -> Arguments:
    block = v.some_block()
    return {
        "loop": loop_of(v.loop_over(block)), "block": block_of(block),
        "read_buffer_index": v.buffer_index(block, "reads"), "storage_scope": v.one(SCOPES),
    }  # fmt: skip


def _write_at(v: View) -> Arguments:
    block = v.some_block()
    return {
        "loop": loop_of(v.loop_over(block)), "block": block_of(block),
        "write_buffer_index": v.buffer_index(block, "writes"), "storage_scope": v.one(SCOPES),
    }  # fmt: skip


def _reindex(v: View) -> Arguments:
    block = v.some_block()
    kind = v.one(["read", "write"])
    return {"block": block_of(block), "buffer": Tuple((kind, v.buffer_index(block, f"{kind}s")))}


def _reindex_cache(kind: str) -> Callable[[View], Arguments]:
    def draw(v: View) -> Arguments:
        block = v.some_block()
        number = v.buffer_index(block, f"{kind}s")
        count = len(block.block.iter_vars)
        return {
            "block": block_of(block), f"{kind}_buffer_index": number, "storage_scope": v.one(SCOPES),
            "index_map": index_map(v, count, subsets=True),
        }  # fmt: skip

    return draw


def _reorder_block_iter_var(v: View) -> Arguments:
    block = v.some_block()
    order = v.one(list(itertools.permutations(range(len(block.block.iter_vars)))))
    return {"block": block_of(block), "new_order": list(order)}


def _rfactor(v: View) -> Arguments:
    loop = v.loop_over(v.reduction())
    return {"loop": loop_of(loop), "factor_axis": v.one([0, 1, -1, 2])}


def _rolling_buffer(v: View) -> Arguments:
    block = v.some_block()
    return {"block": block_of(block), "write_buffer_index": v.buffer_index(block, "writes")}


def _set_scope(v: View) -> Arguments:
    block = v.some_block()
    number = v.buffer_index(block, "writes")
    return {"block": block_of(block), "buffer_index": number, "storage_scope": v.one(SCOPES)}


def _storage_align(v: View) -> Arguments:
    block = v.some_block()
    number = v.buffer_index(block, "writes")
    axis = v.one(range(-1, block.block.writes[number].buffer.ndim))
    return {
        "block": block_of(block), "buffer_index": number, "axis": axis, "factor": v.one([4, 8, 32]),
        "offset": v.one([0, 1, 3]),
    }  # fmt: skip


def _transform_block_layout(v: View) -> Arguments:
    block = v.some_block()
    return {"block": block_of(block), "index_map": index_map(v, len(block.block.iter_vars))}


def _transform_layout(v: View) -> Arguments:
    block = v.some_block()
    kind, number, buffer = v.inner_buffer(block)
    return {
        "block": block_of(block), "buffer": Tuple((kind, number)), "index_map": index_map(v, buffer.ndim),
        "pad_value": v.one([None, 0 if buffer.dtype.is_int else 0.0]),
    }  # fmt: skip


def index_map(v: View, rank: int, subsets: bool = False) -> IndexMapSource:
    """A map over so many indices: permuted, split, joined, shifted, or (with `subsets`) without some of them."""
    names = [f"i{k}" for k in range(rank)]
    if not names:
        raise NothingToCall
    result = list(v.one(list(itertools.permutations(names)))) if rank < 4 else list(names)
    kind = v.one(["permuted", "split", "joined", "shifted", "reversed", *(["some"] if subsets else [])])
    if kind == "split":
        at, factor = v.one(range(rank)), v.one([2, 4, 3])
        result[at : at + 1] = [f"{result[at]} // {factor}", f"{result[at]} % {factor}"]
    elif kind == "joined" and rank > 1:
        result[:2] = [f"{result[0]} * {v.one([8, 4, 16])} + {result[1]}"]
    elif kind == "shifted":
        result[0] = f"{result[0]} + {v.one([1, 2])}"
    elif kind == "reversed":
        result[0] = f"{v.one([7, 3, 4])} - {result[0]}"
    elif kind == "some":
        result = v.one([list(c) for n in range(1, rank + 1) for c in itertools.combinations(result, n)])
    return IndexMapSource(f"lambda {', '.join(names)}: ({', '.join(result)},)")


CALLS: dict[str, Callable[[View], Arguments]] = {
    "add_unit_loop": _add_unit_loop,
    "bind": _bind,
    "blockize": _blockize,
    "cache_index": _cache_index,
    "cache_inplace": _cache_inplace,
    "cache_read": _cache_read,
    "cache_write": _cache_write,
    "compute_at": _compute_at,
    "compute_inline": _block_only,
    "decompose_padding": _decompose_padding,
    "decompose_reduction": _decompose_reduction,
    "fuse": _fuse,
    "fuse_reduction_epilogue": _fuse_reduction_epilogue,
    "loop_partition": _loop_partition,
    "merge": _merge,
    "pad_einsum": _pad_einsum,
    "parallel": _loop_only,
    "read_at": _read_at,
    "reindex": _reindex,
    "reindex_cache_read": _reindex_cache("read"),
    "reindex_cache_write": _reindex_cache("write"),
    "reorder": _reorder,
    "reorder_block_iter_var": _reorder_block_iter_var,
    "reverse_compute_at": _compute_at,
    "reverse_compute_inline": _block_only,
    "rfactor": _rfactor,
    "rolling_buffer": _rolling_buffer,
    "set_scope": _set_scope,
    "split": _split,
    "storage_align": _storage_align,
    "transform_block_layout": _transform_block_layout,
    "transform_layout": _transform_layout,
    "unroll": _loop_only,
    "vectorize": _loop_only,
    "write_at": _write_at,
}
# Names of the arguments that are spread: `fuse(*loops)`.
SPREAD = {"fuse": "loops", "merge": "loops", "reorder": "ordered_loops"}
