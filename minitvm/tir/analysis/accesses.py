"""Single accesses: addresses that a program passes to foreign calls, and stores that update the element they write."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ... import expr as ex
from .. import nodes as tir


@dataclass(frozen=True, slots=True)
class HandedAddress:
    """The address of a buffer that is passed to a foreign call, and whether the call may read or write the buffer."""

    node: ex.Node
    buffer: tir.Buffer
    read: bool = True
    write: bool = True


def addresses(node: ex.Node) -> Iterator[HandedAddress]:
    """The addresses passed to foreign calls below a node.

    Blocks inside are skipped, because they declare what their calls access.
    """
    if isinstance(node, tir.BlockRealize | tir.BufferRegion):
        return
    if isinstance(node, ex.Call) and node.op == "tvm_access_ptr" and isinstance(node.args[1], tir.BufferData):
        mask = node.args[4]
        bits = mask.value if isinstance(mask, ex.IntImm) else 3
        yield HandedAddress(node, node.args[1].buffer, bool(bits & 1), bool(bits & 2))
        return
    buffer = handed_out(node)
    if buffer is not None:
        yield HandedAddress(node, buffer)
    for child in ex.children(node):
        yield from addresses(child)


def handed_out(node: ex.Node) -> tir.Buffer | None:
    """The buffer whose address a node is; None for any other node."""
    if isinstance(node, tir.BufferData):
        return node.buffer
    if isinstance(node, ex.Call) and node.op == "address_of" and isinstance(node.args[0], tir.BufferLoad):
        return node.args[0].buffer
    return None


def reads_buffer(node: ex.Expr | tir.Stmt, buffer: tir.Buffer) -> bool:
    """Return whether a node loads from a buffer anywhere inside, or passes on its address."""
    return any(part.buffer is buffer for part in ex.find(node, tir.BufferLoad | tir.BufferData))


# With these operators, the iterations of a store `X[i] = X[i] op e` may run in any order if e does not read X.
_COMMUTATIVE = (ex.Add, ex.Mul, ex.Min, ex.Max)


def update_operand(store: tir.BufferStore) -> ex.Expr | None:
    """`e` of `X[i] = X[i] op e` with an associative, commutative `op` and no X in `e`; None for any other store."""
    value = store.value
    if not isinstance(value, _COMMUTATIVE):
        return None
    element = tir.BufferLoad(store.buffer, store.indices)
    for own, other in ((value.a, value.b), (value.b, value.a)):
        if ex.structural_equal(own, element) and not reads_buffer(other, store.buffer):
            return other
    return None
