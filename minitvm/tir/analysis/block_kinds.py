"""Classify blocks as complete blocks or reduction blocks, and find their readers and writers. TensorIR defines when a
primitive is legal in these terms.
"""

from __future__ import annotations

from collections.abc import Iterable

from ...expr import REDUCE, SPATIAL, Expr, IterVar, free_vars, walk
from ..nodes import Block, BlockRealize, Buffer, BufferStore, Stmt
from .accesses import reads_buffer, update_operand
from .block_regions import buffers_read, buffers_written, regions_written
from .effects import exposes
from .tree import Tree, statements


class Scope:
    """The blocks directly inside one block, in program order, and the buffers allocated there."""

    __slots__ = ("_read", "allocated", "blocks", "realize", "tree")

    def __init__(self, tree: Tree, realize: BlockRealize) -> None:
        self.tree = tree
        self.realize = realize
        self.blocks = tree.blocks_in(realize)
        self.allocated = set(realize.block.alloc_buffers)
        self._read: dict[BlockRealize, set[Buffer]] = {}

    @staticmethod
    def around(tree: Tree, stmt: Stmt) -> Scope:
        """Return the scope that contains a loop or block."""
        realize = tree.scope(stmt)
        if (Scope, realize) not in tree.kept:
            tree.kept[Scope, realize] = Scope(tree, realize)
        scope: Scope = tree.kept[Scope, realize]
        return scope

    def writers(self, buffer: Buffer) -> list[BlockRealize]:
        """Return the blocks in this scope that write a buffer."""
        return [b for b in self.blocks if buffer in buffers_written(b.block)]

    def read(self, block: BlockRealize) -> set[Buffer]:
        """Return the buffers that a block depends on: those that it reads and those that control whether and where it
        runs.

        A controlling buffer is read by the block's predicate, by its bindings, or by a statement around it in the
        scope. A buffer that the block writes is left out if the block reads from it only values that it wrote in the
        same run.
        """
        if block not in self._read:
            read = set(buffers_read(block.block))
            written = set(buffers_written(block.block))
            own = {buffer for buffer in read & written if not exposes(block.block, buffer)}
            self._read[block] = (read - own) | {load.buffer for _, load in self.tree.controls(block)}
        return self._read[block]

    def readers(self, buffer: Buffer) -> list[BlockRealize]:
        """Return the blocks that read a buffer. A reduction does not count as a reader of its accumulator."""
        return [b for b in self.blocks if buffer in self.read(b)]

    def consumers(self, block: BlockRealize) -> list[BlockRealize]:
        """Return the other blocks that read a buffer written by this block."""
        written = set(buffers_written(block.block))
        return [b for b in self.blocks if b is not block and written & self.read(b)]

    def producers(self, block: BlockRealize) -> list[BlockRealize]:
        """Return the other blocks that write a buffer read by this block."""
        read = self.read(block)
        return [b for b in self.blocks if b is not block and not read.isdisjoint(buffers_written(b.block))]

    def is_output(self, block: BlockRealize) -> bool:
        """Return whether a block writes a buffer that is not allocated in this scope."""
        return any(region.buffer not in self.allocated for region in regions_written(block.block))

    def before(self, a: Stmt, b: Stmt) -> bool:
        """Return whether `a` comes before `b` in program order."""
        return self.tree.order[a] < self.tree.order[b]


def has_only(block: Block, kinds: Iterable[str]) -> bool:
    """Return whether the kind of every iterator of a block is in `kinds`."""
    return all(it.kind in kinds for it in block.iter_vars)


def why_not_complete(scope: Scope, realize: BlockRealize) -> str | None:
    """Return None for a complete block, otherwise the condition that it violates.

    A block is complete if all of its iterators are spatial, it is the only writer of its buffers, it comes before all
    of their readers, it does not read them itself, and it has no init.
    """
    block = realize.block
    for it in block.iter_vars:
        if it.kind != SPATIAL:
            return f"iterator {it.var.name} of block {block.name} is {_kind_name(it)}, not spatial"
    read = scope.read(realize)
    for region in regions_written(block):
        if region.buffer in read:
            return f"block {block.name} both reads and writes {region.buffer.name}"
    return why_not_dominant(scope, realize)


def why_not_reduction(scope: Scope, realize: BlockRealize) -> str | None:
    """Return None for a reduction block, otherwise the condition that it violates.

    A reduction block has an init, and no buffer that it writes controls it. Its iterators are spatial or reduction
    iterators. It is the only writer of its buffers and comes before their readers. Its reduction iterators do not index
    the output, and they run inside the scope: if one is fixed there, the reduction continues from an earlier run of the
    scope.
    """
    block = realize.block
    if block.init is None:
        return f"block {block.name} has no T.init()"
    for it in block.iter_vars:
        if it.kind not in (SPATIAL, REDUCE):
            return f"iterator {it.var.name} of block {block.name} is opaque"
    reduced = {it.var for it in block.iter_vars if it.kind == REDUCE}
    written = set(buffers_written(block))
    for _, load in scope.tree.controls(realize):
        if load.buffer in written:
            return f"{load} decides where block {block.name}, which writes it, runs"
    earlier = why_goes_on(scope, realize)
    if earlier is not None:
        return earlier
    for region in regions_written(block):
        for index in region.region:
            for part in (*walk(index.start), *walk(index.extent)):
                if part in reduced:
                    name = region.buffer.name
                    return f"{name}, written by block {block.name}, is indexed by the reduction iterator {part}"
    return why_not_dominant(scope, realize)


def why_goes_on(scope: Scope, realize: BlockRealize) -> str | None:
    """Return None if a reduction starts and finishes within one run of its scope; otherwise name the iterator that is
    fixed in the scope.

    If an iterator is fixed, the reduction continues from an earlier run of the scope.
    """
    outside = scope.tree.moving - {l.var for l in scope.tree.loops_above(realize)}
    for it, value in zip(realize.block.iter_vars, realize.iter_values, strict=True):
        outer = [v.name for v in free_vars(value) if v in outside]
        if it.kind == REDUCE and outer:
            own, around = realize.block.name, scope.realize.block.name
            return f"block {own} reduces over {it.var.name} = {value}, and {outer[0]} stands still in block {around}"
    return None


def why_not_dominant(scope: Scope, realize: BlockRealize) -> str | None:
    """Return None if a block is the only writer of its buffers and comes before their readers, otherwise the reason."""
    for region in regions_written(realize.block):
        others = [b.block.name for b in scope.writers(region.buffer) if b is not realize]
        if others:
            return f"{region.buffer.name} is also written by block {', '.join(others)}"
        for reader in scope.readers(region.buffer):
            if reader is not realize and not scope.before(realize, reader):
                names = f"block {reader.block.name} reads {region.buffer.name} before block {realize.block.name}"
                return f"{names} writes it"
    return None


def why_neither(scope: Scope, realize: BlockRealize) -> str | None:
    """Return None for a complete or reduction block; otherwise return the condition that it violates for the kind that
    it resembles more.
    """
    if why_not_complete(scope, realize) is None:
        return None
    if realize.block.init is None and has_only(realize.block, SPATIAL):
        return why_not_complete(scope, realize)
    return why_not_reduction(scope, realize)


def why_unstructured(block: Block) -> str | None:
    """Return None if the block's own text shows that its iterations are independent or only accumulate, otherwise the
    reason.
    """
    for it in block.iter_vars:
        if it.kind not in (SPATIAL, REDUCE):
            return f"iterator {it.var.name} of block {block.name} is opaque"
    written = set(buffers_written(block))
    if block.init is None and not written.isdisjoint(buffers_read(block)) and not is_update(block):
        return f"block {block.name} reads its own results, but does not accumulate"
    return None


def _kind_name(it: IterVar) -> str:
    return {"S": "spatial", "R": "a reduction", "O": "opaque"}[it.kind]


def is_update(block: Block) -> bool:
    """Return whether the body of a block only accumulates, that is, whether it reads the buffers that it writes only in
    stores of the form `X[i] = X[i] op e` (see `update_operand`).
    """
    stores = [s for s in statements(block.body) if isinstance(s, BufferStore)]
    written = {s.buffer for s in stores}
    for stmt in statements(block.body):
        own = [getattr(stmt, name) for name in stmt._children]
        for part in own:
            if isinstance(part, Expr) and not isinstance(stmt, BufferStore):
                if any(reads_buffer(part, buffer) for buffer in written):
                    return False  # it goes through a variable (argmax): the order may matter
    for store in stores:
        if any(reads_buffer(store.value, buffer) for buffer in written) and update_operand(store) is None:
            return False
        if any(reads_buffer(index, buffer) for buffer in written for index in store.indices):
            return False
    return bool(stores)
