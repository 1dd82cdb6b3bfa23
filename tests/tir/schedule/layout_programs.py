"""Random layouts, and programs on which blockize and tensorize have something to do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from hypothesis import strategies as st

from minitvm import te
from minitvm.expr import Expr, IntImm
from minitvm.tir import IndexMap
from minitvm.tir.nodes import PrimFunc
from minitvm.tir.schedule import Schedule

Draw = Callable[[st.SearchStrategy[Any]], Any]


@st.composite
def index_maps(draw: Draw, shape: Sequence[int], bijective: bool = False) -> IndexMap:
    """An injective map of a shape: a chain of permutations, splits, fusions, swizzles, reversals and shifts.

    `bijective` leaves out what makes padding: splits that do not divide, and shifts.
    """
    names = [f"i{d}" for d in range(len(shape))]
    steps = [draw(_steps(bijective)) for _ in range(draw(st.integers(1, 3)))]

    def function(*indices: Expr) -> list[Expr]:
        now, extents = list(indices), list(shape)
        for step, where, number in steps:
            now, extents = _STEPS[step](now, extents, where % len(now), number)
        return now

    assert names
    return IndexMap.from_func(function, ndim=len(shape))


def _steps(bijective: bool) -> st.SearchStrategy[tuple[str, int, int]]:
    kinds = [k for k in _STEPS if not (bijective and k in ("split", "shift", "unit"))]
    return st.tuples(st.sampled_from(kinds), st.integers(0, 5), st.integers(2, 5))


Indices = tuple[list[Expr], list[int]]


def _permute(i: list[Expr], n: list[int], d: int, k: int) -> Indices:
    return i[d:] + i[:d], n[d:] + n[:d]


def _split(i: list[Expr], n: list[int], d: int, k: int) -> Indices:
    return [*i[:d], i[d] // k, *i[d + 1 :], i[d] % k], [*n[:d], -(-n[d] // k), *n[d + 1 :], k]


def _split_evenly(i: list[Expr], n: list[int], d: int, k: int) -> Indices:
    divisors = [f for f in range(2, n[d] + 1) if n[d] % f == 0] or [1]
    return _split(i, n, d, divisors[k % len(divisors)])


def _fuse(i: list[Expr], n: list[int], d: int, k: int) -> Indices:
    if d + 1 >= len(i):
        return i, n
    return [*i[:d], i[d] * n[d + 1] + i[d + 1], *i[d + 2 :]], [*n[:d], n[d] * n[d + 1], *n[d + 2 :]]


def _swizzle(i: list[Expr], n: list[int], d: int, k: int) -> Indices:
    """Each row turned by its number: a bijection that has no quasi-affine form."""
    e = (d + 1) % len(i)
    return (i, n) if e == d else ([*i[:e], (i[e] + i[d]) % n[e], *i[e + 1 :]], n)


def _xor(i: list[Expr], n: list[int], d: int, k: int) -> Indices:
    e = (d + 1) % len(i)
    if e == d or n[e] & (n[e] - 1):
        return i, n
    return [*i[:e], i[e] ^ (i[d] % n[e]), *i[e + 1 :]], n


def _reverse(i: list[Expr], n: list[int], d: int, k: int) -> Indices:
    return [*i[:d], n[d] - 1 - i[d], *i[d + 1 :]], n


def _shift(i: list[Expr], n: list[int], d: int, k: int) -> Indices:
    return [*i[:d], i[d] + k, *i[d + 1 :]], [*n[:d], n[d] + k, *n[d + 1 :]]


def _unit(i: list[Expr], n: list[int], d: int, k: int) -> Indices:
    return [*i, i[d] // n[d]], [*n, 1]


_STEPS: dict[str, Callable[[list[Expr], list[int], int, int], Indices]] = {
    "permute": _permute, "split": _split, "split evenly": _split_evenly, "fuse": _fuse, "swizzle": _swizzle,
    "xor": _xor, "reverse": _reverse, "shift": _shift, "unit": _unit,
}  # fmt: skip


def constant_shape(shape: Sequence[Expr]) -> list[int] | None:
    """The numbers of a shape, None where some dimension is symbolic."""
    sizes = [d.value for d in shape if isinstance(d, IntImm)]
    return sizes if len(sizes) == len(shape) else None


@st.composite
def tiled_matmuls(draw: Draw) -> tuple[PrimFunc, Callable[[Schedule], list[Any]]]:
    """A matrix product, perhaps with an epilogue, and how to tile it by fours; that gives its loops, tile last."""
    m, n, k = (4 * draw(st.integers(1, 2)) for _ in range(3))
    A, B = te.placeholder((m, k), name="A"), te.placeholder((k, n), name="B")
    axis = te.reduce_axis((0, k), name="k")
    swapped = draw(st.booleans())

    def product(i: Expr, j: Expr) -> Expr:
        a, b = A[i, axis], B[axis, j]
        return te.sum(b * a if swapped else a * b, axis=axis)

    C = te.compute((m, n), product, name="C")
    outputs = [C]
    if draw(st.booleans()):
        outputs = [te.compute((m, n), lambda i, j: te.maximum(C[i, j], te.const(0.0)), name="D")]
    order = draw(st.permutations([0, 1, 2]))
    vector = draw(st.booleans())

    def tile(sch: Schedule) -> list[Any]:
        pairs = [sch.split(l, [None, 4]) for l in sch.get_loops("C")]
        outer = [pairs[d][0] for d in order]
        inner = [pair[1] for pair in pairs]
        sch.reorder(*outer, *inner)
        if vector and len(outputs) and outputs[0] is not C:
            sch.vectorize(sch.get_loops("D")[-1])
        return [*outer, *inner]

    return te.create_prim_func([A, B, *outputs]), tile


@st.composite
def products_in_tiles(draw: Draw) -> PrimFunc:
    """Two products in tiles of 4 x 4 x 4, the init of some in tiles of its own: what the package's intrinsics fit."""
    A, B = te.placeholder((4, 4 * draw(st.integers(1, 2))), name="A"), te.placeholder((4, 4), name="B")
    k, l = te.reduce_axis((0, 4), name="k"), te.reduce_axis((0, 4), name="l")
    C = te.compute((4, 4), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
    D = te.compute((4, 4), lambda i, j: te.sum(B[l, j] * C[i, l], axis=l), name="D")
    sch = Schedule(te.create_prim_func([A, B, D]))
    for name in ("C", "D"):
        if draw(st.booleans()):
            sch.decompose_reduction(name, sch.get_loops(name)[0])
    return sch.func
