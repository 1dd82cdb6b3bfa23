"""What a kernel's body does with the buffers that it is called with: read, written first, or read and then written."""

from __future__ import annotations

from math import prod

from ..expr import IntImm, Node, Var, children, walk
from .nodes import Buffer, BufferLoad, BufferStore, For, LetStmt, Stmt
from .transform.coverage import covers_its_reads


def buffer_access(body: Node) -> dict[Buffer, str]:
    """What each buffer that a statement accesses is for: "r" read only, "w" written first, "rw" read, then written.

    A buffer holds nothing that matters before where its first access in program order is a store, and the stores before
    its first load may have written all of it: what is read again later is then no input. A store of fewer elements says
    nothing about the others.
    """
    modes: dict[Buffer, str] = {}
    early: dict[Buffer, int | None] = {}  # at most that many elements are written before the first load
    loaded: set[Buffer] = set()
    _scan(body, {}, modes, early, loaded)
    for buffer in loaded:
        count, size = early.get(buffer), _size(buffer)
        partial = count is not None and size is not None and count < size
        if modes[buffer] == "w" and partial and not (isinstance(body, Stmt) and covers_its_reads(body, buffer)):
            modes[buffer] = "rw"
    return modes


def elements_written(body: Node) -> dict[Buffer, int | None]:
    """An upper bound of the elements of each buffer that a statement stores to; None where there is none."""
    early: dict[Buffer, int | None] = {}
    _scan(body, {}, {}, early, set(), every=True)
    return early


def _scan(
    node: Node, loops: dict[Var, int | None], modes: dict[Buffer, str], early: dict[Buffer, int | None],
    loaded: set[Buffer], every: bool = False,
) -> None:  # fmt: skip
    """In program order: the value of a store before the store itself."""
    for child in children(node):
        inner = loops
        if isinstance(node, For) and child is node.body:
            inner = {**loops, node.var: node.extent.value if isinstance(node.extent, IntImm) else None}
        elif isinstance(node, LetStmt) and child is node.body:
            inner = {**loops, node.var: None}  # of whatever it is made
        _scan(child, inner, modes, early, loaded, every)
    if isinstance(node, BufferLoad):
        modes.setdefault(node.buffer, "r")
        loaded.add(node.buffer)
    elif isinstance(node, BufferStore):
        first = node.buffer not in modes
        if first or modes[node.buffer] == "r":
            modes[node.buffer] = "w" if first else "rw"
        if every or node.buffer not in loaded:
            before = early.get(node.buffer, 0)
            now = _elements(node, loops)
            early[node.buffer] = None if before is None or now is None else before + now


def _elements(store: BufferStore, loops: dict[Var, int | None]) -> int | None:
    used = {v for index in store.indices for v in walk(index) if isinstance(v, Var)}
    counts = [loops[v] for v in used if v in loops]
    lanes = max([index.dtype.lanes for index in store.indices], default=1)
    return None if None in counts else prod(c for c in counts if c is not None) * lanes


def _size(buffer: Buffer) -> int | None:
    sizes = [d.value for d in buffer.shape if isinstance(d, IntImm)]
    return prod(sizes) if len(sizes) == buffer.ndim else None
