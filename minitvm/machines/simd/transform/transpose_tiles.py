"""Replace copies that transpose a tile with loads, shuffles and stores of whole vectors.

    for i in unroll(16): for j in vectorized(16): B[b + i*S + j] = A[a + j*T + i]

A vector of B would gather from 16 places of A. Instead, 16 vectors of A are loaded, each contiguous along i, and go
through log2(16) stages. Each stage interleaves the vectors k and k + 8. After the last stage, vector i holds column i.
(The constant-geometry network of Stone, "Parallel processing with the perfect shuffle", 1971.)

A copy may read only some columns, `B[..] = if_then_else(condition(j), A[..], constant)`. The vectors of the other
columns are then not loaded.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from .... import expr as ex
from ....expr.conditions import is_const
from ....tir.nodes import Buffer, BufferLoad, BufferStore, For, ForKind, LetStmt, PrimFunc, Seq, Stmt
from ....tir.op import if_then_else
from ....tir.transform.affine import Affine, expr, linear, moves


@dataclass(frozen=True, slots=True)
class GuardedLoad:
    """The value of a copy: the load if the condition holds, and a constant otherwise."""

    load: BufferLoad
    condition: ex.Expr
    otherwise: ex.Expr


def guarded_load(value: ex.Expr) -> GuardedLoad | None:
    """Return a value that is a load, or an `if_then_else` of a load and a constant, as a `GuardedLoad`; None for any
    other.
    """
    if isinstance(value, BufferLoad):
        return GuardedLoad(value, ex.const(True), ex.const(0, value.dtype))
    if not isinstance(value, ex.Call) or value.op != "if_then_else":
        return None
    condition, load, otherwise = value.args
    if not isinstance(load, BufferLoad) or not isinstance(otherwise, ex.IntImm | ex.FloatImm):
        return None
    return GuardedLoad(load, condition, otherwise)


SMALLEST, LARGEST = 4, 16  # lanes of a tile's side: below, gathering is as good; above, registers run out


def transpose_tiles(func: PrimFunc) -> PrimFunc:
    """Rewrite every unrolled loop over a vectorised copy along another axis. Buffers must be flat.

    before:
        A: T.Buffer((16,), "float32")
        B: T.Buffer((16,), "float32")
        for i in T.unroll(4):
            for j in T.vectorized(4):
                B[i * 4 + j] = A[j * 4 + i]
    after:
        B_t: T.float32x4 = A[T.Ramp(0, 1, 4)]
        B_t_1: T.float32x4 = A[T.Ramp(4, 1, 4)]
        B_t_2: T.float32x4 = A[T.Ramp(8, 1, 4)]
        B_t_3: T.float32x4 = A[T.Ramp(12, 1, 4)]
        B_t_4: T.float32x4 = T.Shuffle([B_t, B_t_2], [0, 4, 1, 5])
        B_t_5: T.float32x4 = T.Shuffle([B_t, B_t_2], [2, 6, 3, 7])
        B_t_6: T.float32x4 = T.Shuffle([B_t_1, B_t_3], [0, 4, 1, 5])
        B_t_7: T.float32x4 = T.Shuffle([B_t_1, B_t_3], [2, 6, 3, 7])
        B_t_8: T.float32x4 = T.Shuffle([B_t_4, B_t_6], [0, 4, 1, 5])
        B_t_9: T.float32x4 = T.Shuffle([B_t_4, B_t_6], [2, 6, 3, 7])
        B_t_10: T.float32x4 = T.Shuffle([B_t_5, B_t_7], [0, 4, 1, 5])
        B_t_11: T.float32x4 = T.Shuffle([B_t_5, B_t_7], [2, 6, 3, 7])
        B[T.Ramp(0, 1, 4)] = B_t_8
        B[T.Ramp(4, 1, 4)] = B_t_9
        B[T.Ramp(8, 1, 4)] = B_t_10
        B[T.Ramp(12, 1, 4)] = B_t_11
    """
    # Legal: the iterations of a copy between two buffers are independent, and the shuffles give each element its place.
    return func.with_body(_visit(func.body))


def _visit(node: Any) -> Any:
    if not isinstance(node, Stmt):
        return node
    if isinstance(node, For) and node.kind == ForKind.UNROLLED:
        turned = _turned(node)
        if turned is not None:
            return turned
    return ex.map_children(node, _visit)


def _turned(rows: For) -> Stmt | None:
    """Return the loop over rows of the result as shuffles, or None if it is not a copy that transposes a tile."""
    columns = rows.body
    if not isinstance(columns, For) or columns.kind != ForKind.VECTORIZED:
        return None
    store = columns.body
    if not isinstance(store, BufferStore) or store.predicate is not None:
        return None
    copy = guarded_load(store.value)
    if copy is None or any(rows.var is item for item in ex.walk(copy.condition)):
        return None
    load = copy.load
    if load.buffer is store.buffer or load.predicate is not None or load.dtype.lanes > 1 or load.dtype.is_bool:
        return None
    height, width = _constant_extent(rows), _constant_extent(columns)
    pieces = _pieces(height, width)
    if not pieces:
        return None
    if len(store.indices) != 1 or len(load.indices) != 1:
        return None
    dtype, (target,), (source,) = store.indices[0].dtype, store.indices, load.indices
    if _stride(target, columns.var) != Affine({}, 1) or _stride(source, rows.var) != Affine({}, 1):
        return None
    across, down = _stride(source, columns.var), _stride(target, rows.var)
    if not across or not down:
        return None
    # The tile is in range as a whole, and its strides are the same at all of its places.
    strides = (across, down)
    if any(moves(stride, [rows.var, columns.var]) for stride in strides):
        return None
    zero = {rows.var: ex.const(0, rows.var.dtype), columns.var: ex.const(0, columns.var.dtype)}
    origin, start = (linear(ex.substitute(index, zero)) for index in (target, source))
    first = (_first(rows), _first(columns))

    def loaded(tile: int, column: int, at: ex.Ramp) -> ex.Expr:
        """Return a vector of the source: the given column of a tile."""
        value = BufferLoad(load.buffer, (at,))
        there = ex.substitute(copy.condition, {columns.var: ex.const(first[1] + tile + column, columns.var.dtype)})
        return value if is_const(there, 1) else if_then_else(there, value, ex.Broadcast(copy.otherwise, at.lanes))

    tiles: list[Stmt] = [
        _tile(store.buffer, partial(loaded, j), load.dtype, side, strides, dtype,
              origin + (first[1] + j) + down.scaled(first[0] + i), start + across.scaled(first[1] + j) + (first[0] + i))
        for i, side in pieces
        for j in range(0, width, side)
    ]  # fmt: skip
    done = sum(side for _, side in pieces)
    if done < height:
        rest = {"start": ex.const(first[0] + done, rows.var.dtype), "extent": ex.const(height - done, rows.var.dtype)}
        tiles.append(ex.replace(rows, **rest))
    return Seq.of(*tiles)


def _pieces(height: int, width: int) -> list[tuple[int, int]]:
    """Return (first row, side) of the squares in each strip of rows. Sides are powers of two that divide the width,
    largest first.

    A few rows may remain.
    """
    pieces, row, side = [], 0, LARGEST
    while side >= SMALLEST:
        if side <= height - row and width % side == 0:
            pieces.append((row, side))
            row += side
        else:
            side //= 2
    return pieces


def _stride(index: ex.Expr, var: ex.Var) -> Affine | None:
    """Return how much an index grows when a variable grows by one, or None if it is not a multiple of the variable."""
    at_zero, at_one = (linear(ex.substitute(index, {var: ex.const(value, var.dtype)})) for value in (0, 1))
    stride = at_one - at_zero
    return stride if linear(index) - at_zero == linear(expr(stride, var.dtype) * var) else None


def _constant_extent(loop: For) -> int:
    constant = isinstance(loop.extent, ex.IntImm) and isinstance(loop.start, ex.IntImm)
    return loop.extent.value if constant else 0  # type: ignore[attr-defined]


def _first(loop: For) -> int:
    return int(loop.start.value)  # type: ignore[attr-defined]


def _tile(
    to: Buffer, loaded: Callable[[int, ex.Ramp], ex.Expr], dtype: ex.DType, side: int, strides: tuple[Affine, Affine],
    index: ex.DType, origin: Affine, start: Affine,
) -> Stmt:  # fmt: skip
    """Return a square tile: `to[origin + i*down + j] = of[start + j*across + i]`. The strides are (across, down).

    `loaded(j, place)` returns the j-th vector of the tile, which is the vector of `of` at a place.
    """
    across, down = strides
    vector = dtype.with_lanes(side)
    lets: list[tuple[ex.Var, ex.Expr]] = []

    def named(value: ex.Expr) -> ex.Var:
        var = ex.Var(f"{to.name}_t", vector)
        lets.append((var, value))
        return var

    def place(base: Affine, offset: Affine) -> ex.Ramp:
        return ex.Ramp(expr(base + offset, index), ex.const(1, index), side)

    values = [named(loaded(j, place(start, across.scaled(j)))) for j in range(side)]
    half = side // 2
    low = tuple(lane for k in range(half) for lane in (k, side + k))
    high = tuple(lane + half for lane in low)
    for _ in range(side.bit_length() - 1):
        values = [named(ex.Shuffle((values[k], values[k + half]), picks)) for k in range(half) for picks in (low, high)]
    total: Stmt = Seq.of(*(BufferStore(to, values[i], (place(origin, down.scaled(i)),)) for i in range(side)))
    for var, value in reversed(lets):
        total = LetStmt(var, value, total)
    return total
