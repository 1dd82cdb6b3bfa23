"""The rules of the kernel level, as a table. Code generation relies on them."""

from __future__ import annotations

from ...expr import IntImm, Node, Reduce, children
from .. import nodes as tir
from ..analysis.threads import is_virtual
from ..conditions import is_const
from .rule import Broken, Rule
from .visibility import every_node

STACK_BYTES = 2 << 20
STATEMENTS = 20_000


def _no_blocks(func: tir.PrimFunc) -> Broken:
    for node in every_node(func):
        if isinstance(node, tir.Block | tir.BlockRealize | Reduce):
            yield node, type(node).__name__


def _flat(func: tir.PrimFunc) -> Broken:
    for node in [*func.params, *every_node(func)]:
        buffer = node if isinstance(node, tir.Buffer) else getattr(node, "buffer", None)
        if isinstance(buffer, tir.Buffer) and (
            buffer.ndim != 1 or buffer.strides or not is_const(buffer.elem_offset, 0)
        ):
            yield node, f"{buffer.name} has {buffer.ndim} dimensions"


def _one_parallel_loop(func: tir.PrimFunc) -> Broken:
    for node in every_node(func):
        if isinstance(node, tir.For) and node is not func.body and node.kind == tir.ForKind.PARALLEL:
            yield node, f"the loop over {node.var.name} is parallel but not outermost"


def _plain_loops(func: tir.PrimFunc) -> Broken:
    for node in every_node(func):
        if not isinstance(node, tir.For) or (node.kind is tir.ForKind.THREAD and not is_virtual(node)):
            continue
        if node.kind not in (tir.ForKind.SERIAL, tir.ForKind.PARALLEL):
            yield node, f"the loop over {node.var.name} is {node.kind}"


def _stack(func: tir.PrimFunc) -> Broken:
    total = 0
    for node in every_node(func):
        if not isinstance(node, tir.Allocate):
            continue
        size = node.buffer.shape[0] if node.buffer.shape else None
        if not isinstance(size, IntImm):
            yield node, f"{node.buffer.name} has no constant size"
            continue
        total += size.value * node.buffer.dtype.bytes
        if total > STACK_BYTES:
            yield node, f"{total} bytes with {node.buffer.name}"


def _budget(func: tir.PrimFunc) -> Broken:
    count = _generated(func)
    if count > STATEMENTS:
        yield func.body, f"{count} statements"


def _generated(func: tir.PrimFunc) -> int:
    """Return the number of statements for which code is generated. An instruction counts as one statement."""
    count = 0
    left: list[Node] = [func.body]
    while left:
        node = left.pop()
        count += isinstance(node, tir.Stmt)
        if not isinstance(node, tir.Instruction):
            left.extend(children(node))
    return count


def _masks(func: tir.PrimFunc) -> Broken:
    for node in every_node(func):
        if isinstance(node, tir.BufferLoad | tir.BufferStore) and node.predicate is not None:
            lanes = node.indices[0].dtype.lanes
            if node.predicate.dtype.lanes != lanes:
                yield node, f"a mask of {node.predicate.dtype.lanes} lanes on an access of {lanes}"


def _only_calls(func: tir.PrimFunc) -> Broken:
    stack: list[tir.Stmt] = [func.body]
    while stack:
        stmt = stack.pop()
        if isinstance(stmt, tir.Seq):
            stack.extend(stmt.stmts)
        elif isinstance(stmt, tir.Allocate):
            stack.append(stmt.body)
        elif not isinstance(stmt, tir.KernelCall):
            yield stmt, type(stmt).__name__


KERNEL_RULES = (
    Rule("no_blocks", "blocks and reductions are lowered", _no_blocks),
    Rule("flat_buffers", "buffers have one dimension, no strides, no offset", _flat),
    Rule("one_parallel_loop", "only the outermost loop is parallel", _one_parallel_loop),
    Rule("plain_loops", "vectorised and unrolled loops and those of virtual threads are gone", _plain_loops),
    Rule("stack", f"allocations have constant sizes and take at most {STACK_BYTES} bytes", _stack),
    Rule("budget", f"at most {STATEMENTS} statements", _budget),
    Rule("masks", "a mask has the lanes of its access", _masks),
)
HOST_RULES = (Rule("only_calls", "a host function is allocations around kernel calls", _only_calls),)
