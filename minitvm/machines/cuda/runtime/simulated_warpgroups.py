"""Simulate warpgroups: `wgmma` computes from the bytes that its descriptors refer to, as late as the ISA allows.

A product reads its operands and writes its sums only when its threads wait for its group. So operands that are
overwritten in between, and sums that are read too early, are detected. At the wait, all 128 threads meet. The last one
to arrive finds every element of the operands by PTX's canonical layouts with 128-byte swizzle, and gives each thread
the sums for its registers. It is an error if threads multiply different operands, if no `wgmma_fence` separates sums
from the statement that set them, or if sums are read while a product is running. PTX ISA, "Asynchronous Warpgroup Level
Matrix Multiply-Accumulate Instructions", "Swizzling Modes", "Register Fragments".
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np

from .faults import KernelFault
from .simulated_blocks import Waits, current
from .simulated_warps import together

THREADS, ROWS, DEPTH = 128, 64, 16
_LINE, _SLAB = 128, 64  # bytes of a line, elements in one
_KINDS = {"f16": np.dtype(np.float16), "bf16": np.dtype(ml_dtypes.bfloat16)}


@dataclass(eq=False, slots=True)
class Sums:
    """The sums of a thread, [ROWS * columns / THREADS] float32. `values` is None while a product that writes them is
    running.
    """

    values: Any
    fenced: bool = False

    def __getitem__(self, index: int) -> Any:
        if self.values is None:
            raise KernelFault("sums are read before their product was waited for")
        return self.values[index]

    def __len__(self) -> int:
        if self.values is None:
            raise KernelFault("sums are read before their product was waited for")
        return len(self.values)


@dataclass(frozen=True, slots=True)
class _Operand:
    """The start of an operand, and the distance in bytes between its slabs."""

    memory: Any
    index: int
    apart: int

    @property
    def start(self) -> int:
        """The address of the operand."""
        return int(self.memory.address + self.index * self.memory.dtype.itemsize)


@dataclass(frozen=True, slots=True)
class _Product:
    """One `wgmma.mma_async` of a thread."""

    name: str
    columns: int
    kind: str
    turned: bool
    a: _Operand
    b: _Operand
    before: Sums
    after: Sums

    @property
    def about(self) -> tuple[Any, ...]:
        """The properties that must be the same for all threads."""
        return (self.name, *((operand.start, operand.apart) for operand in (self.a, self.b)))


@dataclass(eq=False, slots=True)
class _UnderWay:
    """The running products of a thread, in groups of which the last is still open, and the sums without a fence so
    far.
    """

    groups: list[list[_Product]] = field(default_factory=lambda: [[]])
    unfenced: list[Sums] = field(default_factory=list)


def _under_way() -> _UnderWay:
    held: _UnderWay = current().under_way.setdefault("products", _UnderWay())
    return held


def zeros(columns: int) -> Sums:
    """Return a thread's sums, all 0."""
    sums = Sums(np.zeros(ROWS * columns // THREADS, np.float32))
    _under_way().unfenced.append(sums)
    return sums


def fence() -> None:
    """Order all assignments of sums so far before the products that follow."""
    for sums in _under_way().unfenced:
        sums.fenced = True
    _under_way().unfenced.clear()


def multiply(
    columns: int, kind: str, turned: bool, sums: Sums, a: Any, i: Any, b: Any, j: Any, apart: int
) -> Sums:  # fmt: skip
    """Begin a product. Its sums are available after a wait for its group."""
    if not sums.fenced:
        raise KernelFault("wgmma adds to sums that were set since the last wgmma_fence")
    after = Sums(None, fenced=True)
    name = f"wgmma_{ROWS}x{columns}x{DEPTH}_{kind}{'_nt' if turned else ''}"
    operands = (_Operand(a, int(i), 0), _Operand(b, int(j), apart))
    _under_way().groups[-1].append(_Product(name, columns, kind, turned, *operands, sums, after))
    return after


def commit() -> None:
    """Put the products that were begun since the last commit into a group."""
    _under_way().groups.append([])


def wait(pending: int) -> Waits:
    """Wait until at most `pending` groups are running."""
    groups = _under_way().groups
    count = max(0, len(groups) - 1 - pending)
    done = groups[:count]
    del groups[:count]
    for product in [product for group in done for product in group]:
        brought = (product, product.before.values)
        product.after.values = yield from together(product.about[0], (1 << THREADS) - 1, brought, _multiplied, THREADS)


def store(sums: Sums, c: Any, at: Any, row: Any, thread: Any, lanes: int) -> None:
    """Store a thread's sums to rows that are `row` elements apart, `lanes` elements at a time."""
    for k in range(0, len(sums), lanes):
        down, across = _place(int(thread), k)
        first = int(at) + down * int(row) + across
        if (c.address + first * c.dtype.itemsize) % (lanes * c.dtype.itemsize):
            raise KernelFault(f"wgmma_store of {lanes} sums at a place that their size does not divide")
        c.elements(first, lanes)[:] = [sums[k + lane] for lane in range(lanes)]


def _place(thread: int, k: int) -> tuple[int, int]:
    """Return the row and the column of element number k of a thread's sums."""
    warp, lane = divmod(thread, 32)
    return 16 * warp + lane // 4 + 8 * (k // 2 % 2), 8 * (k // 4) + lane % 4 * 2 + k % 2


def _multiplied(brought: Mapping[int, tuple[_Product, Any]]) -> list[Any]:
    """Return the sums of each thread, for a product that all of them began."""
    product, _ = brought[0]
    if any(other.about != product.about for other, _ in brought.values()):
        raise KernelFault("the threads of a warpgroup multiply different operands together")
    a = _matrix(product, product.a, ROWS, DEPTH, steps_in_a_line=True)
    b = _matrix(product, product.b, product.columns, DEPTH, steps_in_a_line=product.turned)
    sums = np.zeros((ROWS, product.columns))
    for thread, (_, held) in brought.items():
        for k, value in enumerate(held):
            sums[_place(thread, k)] = value
    with np.errstate(all="ignore"):
        sums = (a @ b.T + sums).astype(np.float32)
    count = ROWS * product.columns // THREADS
    return [np.array([sums[_place(thread, k)] for k in range(count)]) for thread in range(THREADS)]


def _matrix(product: _Product, operand: _Operand, rows: int, steps: int, steps_in_a_line: bool) -> Any:
    """Return an operand as [rows, steps]. Its lines run along the steps, or along the rows with slabs `apart`.

    The swizzle combines three bits of an address that count lines with the three bits that select a 16-byte piece in a
    line.
    """
    dtype, size = _KINDS[product.kind], operand.memory.dtype.itemsize
    if operand.start % 16 or operand.apart % 16:
        raise KernelFault(f"{product.name}: an operand that does not lie at multiples of 16 bytes")
    matrix = np.empty((rows, steps))
    for r in range(rows):
        for s in range(steps):
            line, place = (r, s) if steps_in_a_line else (s, r)
            logical = operand.start + place // _SLAB * operand.apart + line * _LINE + place % _SLAB * size
            address = logical ^ (logical // _LINE % 8 * 16)
            element = operand.memory.elements((address - operand.memory.address) // size, 1)
            matrix[r, s] = element.view(dtype)[0]
    return matrix


def operations(columns: Sequence[int]) -> dict[str, Any]:
    """Return the operations by their names in kernel source."""
    return {
        **{f"wgmma_{ROWS}x{n}x{DEPTH}_{kind}{'_nt' if turned else ''}": functools.partial(multiply, n, kind, turned)
           for n in columns for kind in _KINDS for turned in (False, True)},
        **{f"wgmma_zeros_{ROWS}x{n}": functools.partial(zeros, n) for n in columns},
        "wgmma_fence": fence, "wgmma_commit": commit, "wgmma_wait": wait, "wgmma_store": store,
        "proxy_fence": lambda: None,
    }  # fmt: skip
