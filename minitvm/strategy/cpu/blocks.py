"""What schedules ask about the blocks of a function."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator

from ...errors import ScheduleError
from ...expr import REDUCE, Call, Node, children, walk
from ...tir import Schedule
from ...tir.nodes import Block, BufferLoad, BufferStore, PrimFunc, root_block

# Functions that cost as much as dozens of additions: computing them again for every consumer does not pay.
COSTLY = frozenset(
    ("exp", "exp2", "exp10", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "asin", "acos", "atan", "sinh",
     "cosh", "tanh", "sigmoid", "erf", "pow")
)  # fmt: skip


def blocks_of(func: PrimFunc) -> Iterator[Block]:
    """The blocks below the root, in program order, not those inside other blocks."""
    stack: list[Node] = [root_block(func).body]
    while stack:
        node = stack.pop()
        if isinstance(node, Block):
            yield node
            continue
        stack.extend(reversed(list(children(node))))


def computes(op: str) -> Callable[[PrimFunc], bool]:
    """A test on functions: one of the blocks computes that operator, as its annotation "op" says."""
    return lambda func: any(block.annotations.get("op") == op for block in blocks_of(func))


def is_reduction(block: Block) -> bool:
    """Whether a block has reduction iterators."""
    return any(axis.kind == REDUCE for axis in block.iter_vars)


def is_cheap(block: Block) -> bool:
    """Whether a block's value costs only a few instructions."""
    return not any(isinstance(n, Call) and n.op in COSTLY for n in walk(block.body))


def readers(func: PrimFunc, block: Block) -> list[Block]:
    """The blocks that read what a block writes."""
    written = {r.buffer for r in block.writes}
    return [
        b
        for b in blocks_of(func)
        if b is not block and any(isinstance(n, BufferLoad) and n.buffer in written for n in walk(b))
    ]


def behind(func: PrimFunc, name: str) -> set[str]:
    """The names of the blocks that read, at first or second hand, what the block of that name writes."""
    found: set[str] = set()
    todo = [block for block in blocks_of(func) if block.name == name]
    while todo:
        for reader in readers(func, todo.pop()):
            if reader.name not in found:
                found.add(reader.name)
                todo.append(reader)
    return found


def inline_injective(sch: Schedule, within: Container[str] | None = None) -> None:
    """Inline element-wise producers into their consumers, and element-wise consumers into element-wise producers.

    What is costly is only inlined where it is used once, an element for an element. `within` limits it to some blocks.
    """
    for block in list(blocks_of(sch.func)):
        if within is not None and block.name not in within:
            continue
        if is_reduction(block) or not isinstance(block.body, BufferStore):
            continue
        consumers = readers(sch.func, block)
        if not consumers or not (is_cheap(block) or (len(consumers) == 1 and not is_reduction(consumers[0]))):
            continue
        try:
            sch.compute_inline(sch.get_block(block.name))
        except ScheduleError:
            continue
