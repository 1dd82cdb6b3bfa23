"""Operators whose number of results depends on the data. The result has room for the largest possible number, and a
count gives the number of valid entries.

`argwhere` and `unique` fill the first places and return their number; the other places hold 0. A graph binds this
number to a size (`bind_size`) and takes that many entries (`leading`). From then on the size is a dimension like any
other. Relay's operators return the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .. import te
from ..errors import InputError, TypeMismatch
from ..expr import Expr, SizeVar, const
from ..te import Tensor
from ..tir.nodes import PrimFunc
from .indices import nearest
from .lines import along, extent_of, zeroed
from .registry import Pattern, refuse, register
from .shapes import Dim, axis_of, constant, dims, product, simple
from .sort import order_of_rows, strictly_before
from .transform import reshape


@register("bind_size")
def bind_size(count: Tensor, *, size: SizeVar, most: Dim, where: str = "", reason: str = "") -> Tensor:  # noqa: ARG001
    """Return `count`, and make it the value of `size`. A run ends with an error if the count is not between 0 and
    `most`.

    `most` also bounds the memory of each tensor whose shape contains the size. `where` names the operator that needs
    the size. If there is a `reason`, the number is a check rather than a size: this text is then the error message of
    the run, with the numbers filled in for {found} and {most}.
    """
    if not isinstance(size, SizeVar):
        raise InputError(f"bind_size: the size is a variable, found {size!r}")
    if count.dtype != "int64" or count.ndim:
        raise TypeMismatch(f"bind_size: wanted one int64, found {count}")
    return te.compute((), lambda: count[()], name="T_bind_size")


@register("leading", pattern=Pattern.INJECTIVE)
def leading(x: Tensor, *, size: Dim, axis: int = 0) -> Tensor:
    """Return the first `size` entries along `axis`, which must have at least that many entries."""
    at = axis_of(axis, x.ndim)
    extent = dims(x)[at]
    if isinstance(size, int) and (size < 0 or (isinstance(extent, int) and size > extent)):
        raise InputError(f"leading: {size} of {extent} entries")
    return te.compute([*dims(x)[:at], size, *dims(x)[at + 1 :]], lambda *i: x[i], name="T_leading")


@register("argwhere")
def argwhere(x: Tensor) -> list[Tensor]:
    """Return [places, count]: the indices of all nonzero elements in row-major order, and their number.

    Each element has one row of `places`, with one index per axis.
    """
    if x.ndim == 0:
        raise InputError("argwhere: a tensor without dimensions has no indices")
    total = product(dims(x))
    flat = reshape(x, newshape=(total,), allowzero=True)
    places, count = te.extern_primfunc([flat], zeroed(_find(flat.shape[0], dims(x), str(x.dtype)), (1,)))
    return [places, _number(count)]


@register("unique")
def unique(rows: Tensor, *, sorted: bool = True) -> list[Tensor]:
    """Return [first, inverse, counts, number] for the distinct rows of a matrix or the distinct elements of a vector.

    `number` is the number of distinct rows. For each of them, `first` holds the index of its first occurrence, and
    `counts` the number of its occurrences. `inverse` maps each row of the input to the index of its distinct row. The
    distinct rows are in ascending order, or with `sorted=False` in the order of their first occurrences. NaN is equal
    to NaN and comes last.
    """
    if rows.ndim not in (1, 2):
        raise TypeMismatch(f"unique: wanted a vector or a matrix, found {rows}")
    count = dims(rows)[0]
    columns = constant(dims(rows)[1], "unique: the number of columns") if rows.ndim == 2 else 1
    if columns == 0:
        raise InputError("unique: rows without an element")
    flat = rows if rows.ndim == 1 else reshape(rows, newshape=(simple(count * columns),))
    order = order_of_rows(flat, count, columns)
    line = _groups(extent_of(dims(flat)[0], "n"), extent_of(count, "m"), columns, str(rows.dtype))
    first, inverse, counts, number = along([flat, order], 0, line, [lambda *_: const(0, "int64")] * 3)
    if not sorted:
        renumber = _renumbered(extent_of(count, "n"))
        zeros = [lambda *_: const(0, "int64")] * 4
        first, inverse, counts, _ = along([first, inverse, counts], 0, renumber, zeros)
    return [first, inverse, counts, _number(number)]


def _equal(a: Any, b: int) -> Any:
    return a == b


def _number(count: Tensor) -> Tensor:
    return te.compute((), lambda: count[0], name="T_count")


def _find(total: Any, shape: Sequence[Dim], dtype: str) -> PrimFunc:
    from ..tir.script import builtins as T

    rank = len(shape)
    inner = [product(shape[a + 1 :]) for a in range(rank)]

    def present(value: Expr) -> Expr:
        return value if value.dtype.is_bool else value != const(0, value.dtype)

    def coordinate(place: Expr, axis: Any) -> Expr:
        """Return the coordinate along `axis` of an element that is given by its row-major position.

        Loops over axes are unrolled, so that only one of the selects remains.
        """
        value = place % shape[-1] if rank > 1 else place
        for a in reversed(range(rank - 1)):
            within = place if a == 0 else place % (shape[a] * inner[a])
            value = te.select(_equal(axis, a), within // inner[a], value)
        return value.astype("int64")

    @T.prim_func
    def find(
        x: T.Buffer((total,), dtype), places: T.Buffer((total, rank), "int64"), count: T.Buffer((1,), "int64")
    ) -> None:
        with T.block("find"):
            found = T.alloc_buffer((1,), "int64", scope="local")
            found[0] = T.int64(0)
            for j in range(total):
                if found[0] < T.Cast("int64", total) and present(x[j]):  # always: at most one place for each element
                    for a in T.unroll(rank):
                        places[found[0], a] = coordinate(j, a)
                    found[0] = found[0] + 1
            count[0] = found[0]

    return find


def _groups(total: Any, extent: Any, columns: int, dtype: str) -> PrimFunc:
    """Return a function that groups equal neighbours among the sorted rows.

    Its results are those of `unique`: the first row of each group, the group of each row, the sizes of the groups, and
    their number. The groups are in the order of the sorted rows.

    A row of the sorted order is either equal to the row before it or comes after it, so one comparison is enough.
    """
    from ..tir.script import builtins as T

    before = strictly_before(ascending=True)

    def earlier(place: Expr) -> Expr:
        return te.maximum(place - 1, 0)

    def inside(group: Expr) -> Expr:
        return nearest(group, extent)

    @T.prim_func
    def groups(
        x: T.Buffer((total,), dtype), order: T.Buffer((extent,), "int64"), first: T.Buffer((extent,), "int64"),
        inverse: T.Buffer((extent,), "int64"), counts: T.Buffer((extent,), "int64"), number: T.Buffer((1,), "int64"),
    ) -> None:  # fmt: skip
        group = T.alloc_buffer((1,), "int32", scope="local")
        column = T.alloc_buffer((1,), "int32", scope="local")
        differs = T.alloc_buffer((1,), "int32", scope="local")
        group[0] = -1
        for j in range(extent):
            differs[0] = 0
            column[0] = 0
            if j == 0:
                differs[0] = 1
            while column[0] < columns and differs[0] == 0:
                if before(x[order[earlier(j)] * columns + column[0]], x[order[j] * columns + column[0]]):
                    differs[0] = 1
                column[0] = column[0] + 1
            if differs[0] == 1:
                group[0] = group[0] + 1
                first[inside(group[0])] = order[j]
            counts[inside(group[0])] = counts[inside(group[0])] + T.Cast("int64", 1)
            inverse[order[j]] = T.Cast("int64", inside(group[0]))
        number[0] = T.Cast("int64", group[0] + 1)

    return groups


def _renumbered(extent: Any) -> PrimFunc:
    """Return a function that renumbers the groups by their first rows: the group of row 0 becomes group 0, and so on.

    Its results are `first`, `inverse` and `counts` in the new numbers, and the new number of each old group.
    """
    from ..tir.script import builtins as T

    @T.prim_func
    def renumber(
        first: T.Buffer((extent,), "int64"), inverse: T.Buffer((extent,), "int64"),
        counts: T.Buffer((extent,), "int64"), new_first: T.Buffer((extent,), "int64"),
        new_inverse: T.Buffer((extent,), "int64"),
        new_counts: T.Buffer((extent,), "int64"), new: T.Buffer((extent,), "int64"),
    ) -> None:  # fmt: skip
        met = T.alloc_buffer((1,), "int32", scope="local")
        met[0] = 0
        for j in range(extent):
            if first[inverse[j]] == T.Cast("int64", j):
                new[inverse[j]] = T.Cast("int64", met[0])
                new_first[nearest(met[0], extent)] = T.Cast("int64", j)
                new_counts[nearest(met[0], extent)] = counts[inverse[j]]
                met[0] = met[0] + 1
            new_inverse[j] = new[inverse[j]]

    return renumber


_INSTEAD = {"nonzero": "argwhere", "vision.non_max_suppression": "vision.all_class_non_max_suppression"}
for _name, _other in _INSTEAD.items():
    refuse(_name, f"{_other} returns all places, and how many of them count")
