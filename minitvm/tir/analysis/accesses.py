"""Single accesses: addresses that are handed out, and what one store does with the element that it writes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ... import expr as ex
from .. import nodes as tir


@dataclass(frozen=True, slots=True)
class HandedAddress:
    """The address of a buffer, handed to a foreign call, and what that call may do: read the buffer, write it, both."""

    node: ex.Node
    buffer: tir.Buffer
    read: bool = True
    write: bool = True


def addresses(node: ex.Node) -> Iterator[HandedAddress]:
    """The addresses handed out below a node. Blocks inside are left out: they declare what they do."""
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
    """Whether a buffer is loaded anywhere inside, or its address is handed out."""
    return any(part.buffer is buffer for part in ex.find(node, tir.BufferLoad | tir.BufferData))


# A store `X[i] = X[i] op e` where e does not read X may run in any order of its iterations, for these operators.
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
