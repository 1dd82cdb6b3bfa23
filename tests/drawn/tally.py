"""How often each thing of the vocabulary occurred in what was drawn."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any
from unittest import mock

from minitvm.expr import Call, Node, Var, structural_equal, walk
from minitvm.expr.nodes import IterVar
from minitvm.graph.nodes import FUSED, Graph
from minitvm.lowering import verified
from minitvm.te.nodes import ComputeOp, Tensor
from minitvm.tir.nodes import (
    Allocate,
    Block,
    BlockRealize,
    Buffer,
    BufferLoad,
    BufferStore,
    For,
    IRModule,
    PrimFunc,
    Seq,
)
from minitvm.tir.schedule.registry import Failure, Primitive, Requirement

from .vocabulary import Row


class Tally:
    """Counts by category and name."""

    def __init__(self) -> None:
        self.counts: Counter[Row] = Counter()

    def add(self, category: str, name: str) -> None:
        self.counts[category, name] += 1

    # -- programs

    def program(self, func: PrimFunc) -> None:
        """A function of blocks and loops."""
        for buffer in func.buffers:
            self._buffer(buffer)
        self.nodes(func.body)

    def kernels(self, module: IRModule) -> None:
        """A lowered function."""
        for func in module.functions.values():
            for buffer in func.buffers:
                self._buffer(buffer)
            self.nodes(func.body)

    def tensors(self, tensors: Iterable[Tensor]) -> None:
        """A computation."""
        todo = list(tensors)
        for tensor in todo:
            if isinstance(tensor.op, ComputeOp):
                todo += [t for t in tensor.op.input_tensors if t not in todo]
                for value in tensor.op.body:
                    self.nodes(value)

    def nodes(self, root: Node) -> None:
        """All nodes beneath one."""
        for node in walk(root):
            self._node(node)

    def _node(self, node: Node) -> None:
        name = type(node).__name__
        self.add("statement", name)
        self.add("expression", name)
        dtype = getattr(node, "dtype", None)
        if dtype is not None and not isinstance(node, Buffer):
            self.add("dtype", str(dtype.scalar))
        if isinstance(node, Call):
            self.add("intrinsic", node.op)
        elif isinstance(node, For):
            self.add("loop", str(node.kind))
            if node.thread is not None:
                self.add("thread axis", node.thread)
            self._notes(node.annotations)
        elif isinstance(node, Allocate):
            self._buffer(node.buffer)
            self._notes(node.annotations)
        elif isinstance(node, IterVar):
            self.add("iterator", node.kind)
        elif isinstance(node, Block):
            self._block(node)
        elif isinstance(node, BlockRealize) and getattr(node.predicate, "value", None) != 1:
            self.add("block part", "predicate")
        elif isinstance(node, BufferLoad) and node.predicate is not None:
            self.add("buffer part", "predicate of a load")
        elif isinstance(node, BufferStore) and node.predicate is not None:
            self.add("buffer part", "predicate of a store")

    def _block(self, block: Block) -> None:
        parts = {"init": block.init, "alloc_buffers": block.alloc_buffers, "match_buffers": block.match_buffers,
                 "several statements": block.iter_vars and isinstance(block.body, Seq)}  # fmt: skip
        for part, value in parts.items():
            if value:
                self.add("block part", part)
        for buffer in (*block.alloc_buffers, *(m.buffer for m in block.match_buffers)):
            self._buffer(buffer)
        self._notes(block.annotations)

    def _buffer(self, buffer: Buffer) -> None:
        self.add("storage scope", buffer.scope.split(".")[0])
        self.add("dtype", str(buffer.dtype.scalar))
        if buffer.strides:
            self.add("buffer part", "strides")
        if getattr(buffer.elem_offset, "value", None) != 0:
            self.add("buffer part", "elem_offset")
        if any(isinstance(node, Var) for d in buffer.shape for node in walk(d)):
            self.add("buffer part", "symbolic dimension")

    def _notes(self, annotations: Iterable[str]) -> None:
        for key in annotations:
            self.add("annotation", key)

    # -- steps of schedules

    def step(self, primitive: Primitive) -> None:
        """A legal step was taken."""
        self.add("primitive", primitive.name)
        for needed in primitive.requires:
            self.add("requirement holds", needed.name)

    @contextlib.contextmanager
    def requirements(self) -> Iterator[None]:
        """Count the calls that a requirement refuses in here."""
        failure, refuse = Requirement.failure, Requirement.refuse

        def counted(requirement: Requirement, *args: Any) -> Failure | None:
            broken = failure(requirement, *args)
            if broken is not None:
                self.add("requirement refuses", requirement.name)
            return broken

        def refused(requirement: Requirement, broken: Failure) -> Exception:
            self.add("requirement refuses", requirement.name)
            return refuse(requirement, broken)

        patched = mock.patch.object(Requirement, "failure", counted), mock.patch.object(Requirement, "refuse", refused)
        with verified.anew(), patched[0], patched[1]:
            yield

    # -- passes

    def lowering(self, name: str, before: PrimFunc, after: Any) -> None:
        """A pass of lowering has run."""
        self.passed(name, not isinstance(after, PrimFunc) or not structural_equal(before.body, after.body))

    def passed(self, name: str, changed: bool) -> None:
        self.add("pass changes" if changed else "pass changes nothing", name)
        if changed:
            self.add("graph pass changes", name)

    def graph_pass(self, name: str, before: Graph, after: Graph) -> None:
        """A pass over a graph has run."""
        self.passed(name, str(before) != str(after))

    def graph(self, graph: Graph) -> None:
        """A network."""
        for value in (*graph.inputs, *graph.outputs):
            self.add("dtype", str(value.dtype))
        for node in graph.nodes:
            self.add("graph operator", node.op)
            if node.op == FUSED:
                self.graph(node.attrs["graph"])
