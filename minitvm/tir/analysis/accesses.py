"""Find the addresses that a program passes to foreign calls, and the stores of the form `X[i] = X[i] op e`."""

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
    """Yield the addresses that a node passes to foreign calls.

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
    """Return the buffer whose address a node represents, or None if it is not an address."""
    if isinstance(node, tir.BufferData):
        return node.buffer
    if isinstance(node, ex.Call) and node.op == "address_of" and isinstance(node.args[0], tir.BufferLoad):
        return node.args[0].buffer
    return None


def reads_buffer(node: ex.Expr | tir.Stmt, buffer: tir.Buffer) -> bool:
    """Return whether a node loads from a buffer or passes its address to a call."""
    return any(part.buffer is buffer for part in ex.find(node, tir.BufferLoad | tir.BufferData))


# With these operators, the iterations of a store `X[i] = X[i] op e` may run in any order if e does not read X.
_COMMUTATIVE = (ex.Add, ex.Mul, ex.Min, ex.Max)


def update_operand(store: tir.BufferStore) -> ex.Expr | None:
    """Return `e` if a store has the form `X[i] = X[i] op e`, where `op` is associative and commutative and `e` does not
    read X. Return None for any other store.
    """
    value = store.value
    if not isinstance(value, _COMMUTATIVE):
        return None
    element = tir.BufferLoad(store.buffer, store.indices)
    for own, other in ((value.a, value.b), (value.b, value.a)):
        if ex.structural_equal(own, element) and not reads_buffer(other, store.buffer):
            return other
    return None
