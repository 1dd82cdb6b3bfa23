"""Helpers with which schedules inspect the blocks of a function."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator
from math import isqrt, prod
from typing import Any

from ..errors import ScheduleError
from ..expr import REDUCE, Call, Div, IntImm, Node, children, contains, find, walk
from ..expr.conditions import is_const
from ..expr.visitor import accessed
from ..tir import Schedule
from ..tir.analysis.block_regions import buffers_touched, buffers_written
from ..tir.nodes import Block, BufferLoad, BufferStore, For, PrimFunc, root_block
from ..tir.transform.affine import coefficient, linear, moves

_OPEN = 16  # the assumed steps of a loop whose extent is not known

# Functions that cost as much as dozens of additions: they are not worth computing again for every consumer.
COSTLY = frozenset(
    ("exp", "exp2", "exp10", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "asin", "acos", "atan", "sinh",
     "cosh", "tanh", "sigmoid", "erf", "pow")
)  # fmt: skip


def blocks_of(func: PrimFunc) -> Iterator[Block]:
    """Yield the blocks directly below the root in program order, leaving out blocks inside other blocks."""
    stack: list[Node] = [root_block(func).body]
    while stack:
        node = stack.pop()
        if isinstance(node, Block):
            yield node
            continue
        stack.extend(reversed(list(children(node))))


def computes(*ops: str) -> Callable[[PrimFunc], bool]:
    """Return a predicate that is true of a function if one of its blocks has an annotation "op" that is in `ops`."""
    return lambda func: any(block.annotations.get("op") in ops for block in blocks_of(func))


def block_named(func: PrimFunc, name: str) -> Block:
    """Return the block called `name`. Raises `ScheduleError` if there is none."""
    for block in blocks_of(func):
        if block.name == name:
            return block
    raise ScheduleError(f"the function has no block {name!r}")


def extents(shape: Iterable[Any]) -> list[int | None]:
    """Return the extents of a shape as integers, with None for each symbolic extent."""
    return [d if isinstance(d, int) else int(d.value) if isinstance(d, IntImm) else None for d in shape]


def constant_extent(sch: Schedule, loop: Any) -> int | None:
    """Return the number of iterations of a loop, or None if it is symbolic."""
    extent = getattr(sch.get(loop), "extent", None)
    return extent.value if isinstance(extent, IntImm) else None


def volume(shape: Iterable[Any], symbolic: int = 1) -> int:
    """Return the product of the extents of a shape, counting each symbolic extent as `symbolic`."""
    return prod(symbolic if extent is None else extent for extent in extents(shape))


def reduced(block: Block) -> list[Any]:
    """Return the extents of a block's reduction iterators."""
    return [axis.dom.extent for axis in block.iter_vars if axis.kind == REDUCE]


def is_reduction(block: Block) -> bool:
    """Return whether a block has reduction iterators."""
    return any(axis.kind == REDUCE for axis in block.iter_vars)


def only_reduction(func: PrimFunc) -> Block | None:
    """Return the only block of a function with reduction iterators, or None if there is none or more than one."""
    reductions = [block for block in blocks_of(func) if is_reduction(block)]
    return reductions[0] if len(reductions) == 1 else None


def contiguous_along_last(block: Block) -> bool:
    """Return whether the last spatial iterator is the last index of the store and of every load that uses it."""
    last = [axis.var for axis in block.iter_vars if axis.kind != REDUCE][-1]
    return all(_last_index_only(n, last) for n in find(block.body, BufferLoad | BufferStore))


def stays_in_rows(block: Block) -> bool:
    """Return whether a block writes its results in order along the last spatial iterator, and computes each result from
    one row.

    For example, nearest-neighbour resizing along a row reads `x[.., i // 2]`.
    """
    last = [axis.var for axis in block.iter_vars if axis.kind != REDUCE][-1]
    stores, loads = list(find(block.body, BufferStore)), list(find(block.body, BufferLoad))
    return all(_last_index_only(store, last) for store in stores) and not any(
        node is last for load in loads for index in load.indices[:-1] for node in walk(index)
    )


def reads_where_data_say(block: Block) -> bool:
    """Return whether a block writes its results in order along the last spatial iterator, and reads some element at an
    index that is itself loaded.
    """
    last = [axis.var for axis in block.iter_vars if axis.kind != REDUCE][-1]
    stores = list(find(block.body, BufferStore))
    loads = list(find(block.body, BufferLoad))
    by_data = any(contains(i, BufferLoad) for load in loads for i in load.indices)
    return by_data and all(_last_index_only(store, last) for store in stores)


def reduces_along_last(block: Block) -> bool:
    """Return whether the last reduction iterator is the last index of each load that uses it."""
    last = [axis.var for axis in block.iter_vars if axis.kind == REDUCE][-1]
    return all(_last_index_only(n, last) for n in find(block.body, BufferLoad))


def _last_index_only(access: BufferLoad | BufferStore, var: Any) -> bool:
    *others, last = access.indices or (None,)
    if any(n is var for i in others for n in walk(i)):
        return False
    if last is None or not any(n is var for n in walk(last)):
        return True
    form = linear(last)
    return coefficient(form, var) == 1 and not moves(form.without(var), [var])


def steps_of(block: Block) -> int:
    """Return the approximate number of steps in the longest loop nest of a block.

    An unknown extent counts as a large one.
    """

    def longest(node: Node) -> int:
        inner = max((longest(child) for child in children(node)), default=1)
        return inner * volume([node.extent], _OPEN) if isinstance(node, For) else inner

    return longest(block.body)


def is_cheap(block: Block) -> bool:
    """Return whether a block computes its value with only a few instructions."""
    return not any(call.op in COSTLY for call in find(block.body, Call))


def readers(func: PrimFunc, block: Block) -> list[Block]:
    """Return the blocks that read a buffer that this block writes."""
    written = set(buffers_written(block))
    return [
        b
        for b in blocks_of(func)
        if b is not block
        and not written.isdisjoint(accessed(b))
        and any(load.buffer in written for load in find(b, BufferLoad))
    ]


def behind(func: PrimFunc, name: str) -> set[str]:
    """Return the names of the blocks that use the results of the block `name`, directly or through other blocks."""
    found: set[str] = set()
    todo = [block for block in blocks_of(func) if block.name == name]
    while todo:
        for reader in readers(func, todo.pop()):
            if reader.name not in found:
                found.add(reader.name)
                todo.append(reader)
    return found


def beside(func: PrimFunc, name: str) -> set[str]:
    """Return the names of the blocks whose results the blocks after the block `name` also use, and which do not use its
    result themselves.
    """
    after = behind(func, name)
    makers = {block.name: behind(func, block.name) for block in blocks_of(func) if block.name not in {name, *after}}
    return {maker for maker, readers in makers.items() if readers & after and name not in readers}


def _divides(block: Block) -> bool:
    return contains(block.body, Div)


def _axes(block: Block) -> int:
    """Return how many axes of a block's result have more than one element."""
    return sum(not is_const(axis.dom.extent, 1) for axis in block.iter_vars if axis.kind != REDUCE)


def inlinable(func: PrimFunc, block: Block) -> bool:
    """Return whether a block without a reduction should be inlined: it is cheap to recompute, or its only reader is not
    a reduction.
    """
    if is_reduction(block) or not isinstance(block.body, BufferStore):
        return False
    consumers = readers(func, block)
    if _divides(block) and any(_axes(reader) > _axes(block) for reader in consumers):
        return False  # a table: each of its elements is used many times
    return bool(consumers) and (is_cheap(block) or (len(consumers) == 1 and not is_reduction(consumers[0])))


def inline_injective(sch: Schedule, within: Container[str] | None = None) -> None:
    """Inline element-wise producers into their consumers, and element-wise consumers into element-wise producers.

    A costly block is inlined only if it has a single reader that uses each element once. `within` holds the names of
    the blocks that may be inlined (None: all).
    """
    for block in list(blocks_of(sch.func)):
        if within is not None and block.name not in within:
            continue
        if not inlinable(sch.func, block):
            continue
        try:
            sch.compute_inline(sch.get_block(block.name))
        except ScheduleError:
            continue


def attempt(step: Callable[[], Any]) -> Any:
    """Run a step and return its result, or None if the schedule refuses it with a `ScheduleError`."""
    try:
        return step()
    except ScheduleError:
        return None


def widest(block: Block) -> int:
    """Return the size in bytes of the largest element type that a block accesses."""
    return max((buffer.dtype.bytes for buffer in buffers_touched(block)), default=4)


def shape_written(block: Block) -> list[int | None]:
    """Return the shape of the buffer that a block writes, with None for each symbolic dimension."""
    return extents(buffers_written(block)[0].shape)


def output_shape(sch: Schedule, block: Any) -> list[int | None]:
    """Return the shape of the buffer that a block of a schedule writes, with None for each symbolic dimension."""
    return shape_written(block_of(sch, block))


def block_of(sch: Schedule, handle: Any) -> Block:
    """Return the block that a handle refers to."""
    found = sch.get(handle)
    assert isinstance(found, Block)
    return found


def largest_divisor(extent: int | None, limit: int) -> int:
    """Return the largest divisor of `extent` that is at most `limit`, or 1 if the extent is symbolic."""
    return divisors(extent, limit)[0]


def divisors(extent: int | None, limit: int) -> list[int]:
    """Return the divisors of `extent` that are at most `limit`, largest first; just 1 if the extent is symbolic."""
    whole = extent or 1
    most = min(whole, max(limit, 1))
    small = [d for d in range(1, min(most, isqrt(whole)) + 1) if whole % d == 0]
    return sorted({*small, *(whole // d for d in small if whole // d <= most)}, reverse=True)
