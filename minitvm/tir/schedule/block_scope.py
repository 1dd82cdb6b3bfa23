"""TVM's references to blocks and loops (`StmtSRef`), and the dependences between the blocks of a scope."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import IntEnum

from ...expr import Var
from ..analysis.block_kinds import Scope
from ..analysis.block_regions import buffers_written
from ..analysis.tree import Tree
from ..nodes import Block, BlockId, BlockRealize, For, Seq, Stmt
from .handles import BlockRV, LoopRV

_INLINE, _ROOT = "inline", "root"


@dataclass(frozen=True, slots=True)
class StmtSRef:
    """A reference to a block or loop of a schedule at one moment. Two references are equal if they refer to the same
    block or loop.

    `key` is the variable of the loop or the id of the block. It can also be the name of a mark for `compute_at`.
    """

    key: Var | BlockId | str
    tree: Tree | None = field(default=None, compare=False, repr=False)

    @staticmethod
    def of(stmt: Stmt, tree: Tree) -> StmtSRef:
        """Return the reference to a loop or block; a block realization stands for its block."""
        node = stmt.block if isinstance(stmt, BlockRealize) else stmt
        return StmtSRef(node.id if isinstance(node, Block) else node.var, tree)  # type: ignore[attr-defined]

    @property
    def handle(self) -> BlockRV | LoopRV | None:
        """The handle of the block or loop; None for a mark."""
        if isinstance(self.key, str):
            return None
        return LoopRV(self.key) if isinstance(self.key, Var) else BlockRV(self.key)

    @property
    def stmt(self) -> Block | For | None:
        """The block or loop; None for a mark."""
        place = self._place()
        return place.block if isinstance(place, BlockRealize) else place

    @property
    def parent(self) -> StmtSRef | None:
        """The innermost loop or block around this one; None for the root block and for marks."""
        place = self._place()
        if place is None or self.tree is None:
            return None
        outer = next((s for s in self.tree.above(place) if isinstance(s, For | BlockRealize)), None)
        return None if outer is None else StmtSRef.of(outer, self.tree)

    @property
    def seq_index(self) -> int:
        """The position in the enclosing sequence of statements; -1 if this block or loop is not directly in
        a sequence.
        """
        place = self._place()
        around = None if place is None or self.tree is None else self.tree.parent.get(place)
        return around.stmts.index(place) if isinstance(around, Seq) and place is not None else -1

    @staticmethod
    def inline_mark() -> StmtSRef:
        """Return the mark for "compute the block inline"."""
        return StmtSRef(_INLINE)

    @staticmethod
    def root_mark() -> StmtSRef:
        """Return the mark for "leave the block where it is"."""
        return StmtSRef(_ROOT)

    def _place(self) -> BlockRealize | For | None:
        if self.tree is None:
            return None
        return self.tree.loops[self.key] if isinstance(self.key, Var) else self.tree.blocks[self.key]  # type: ignore[index]


class DepKind(IntEnum):
    """The kind of a dependence: read after write (RAW), write after write (WAW), write after read (WAR), or unknown
    (OPAQUE).
    """

    RAW = 0
    WAW = 1
    WAR = 2
    OPAQUE = 3


@dataclass(frozen=True, slots=True)
class Dependency:
    """States that block `dst` depends on block `src`."""

    src: StmtSRef
    dst: StmtSRef
    kind: DepKind


class BlockScope:
    """The dependences between the blocks directly inside one block."""

    def __init__(self, scope: Scope) -> None:
        self._scope = scope

    def get_deps_by_src(self, block: StmtSRef) -> list[Dependency]:
        """Return the dependences in which later blocks depend on `block`."""
        return [dependence for dependence in self._dependences() if dependence.src == block]

    def get_deps_by_dst(self, block: StmtSRef) -> list[Dependency]:
        """Return the dependences in which `block` depends on earlier blocks."""
        return [dependence for dependence in self._dependences() if dependence.dst == block]

    def _dependences(self) -> Iterator[Dependency]:
        for k, source in enumerate(self._scope.blocks):
            for target in self._scope.blocks[k + 1 :]:
                for kind in self._kinds(source, target):
                    yield Dependency(self._reference(source), self._reference(target), kind)

    def _kinds(self, source: BlockRealize, target: BlockRealize) -> Iterator[DepKind]:
        written, read = (set(buffers_written(source.block)), self._scope.read(source))
        if written & self._scope.read(target):
            yield DepKind.RAW
        overwritten = set(buffers_written(target.block))
        if written & overwritten:
            yield DepKind.WAW
        if read & overwritten:
            yield DepKind.WAR

    def _reference(self, block: BlockRealize) -> StmtSRef:
        return StmtSRef.of(block, self._scope.tree)
