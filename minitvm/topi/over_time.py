"""A loop over time, in which recurrent layers with any cell are written.

    for group of rows, direction:                       # independent of each other
        states[rows, hidden] = initial states
        for t in order:
            sums[row, n] = sum over k of states[row, k] * r[k, n]       a product of matrices
            states = the cell's function of x[t], sums and states       element by element
            y[t] = the first state
        last states = states

A group has several rows, so that each vector of r is used for all of them once it is loaded. A batch of unknown size is
divided into groups of 4 rows, and the rest into groups of 2 and of 1; the loops inside a group always have constant
extents.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from .. import te
from ..errors import InputError, TypeMismatch
from ..expr import OPAQUE, REDUCE, DType, Expr, IterVar, Range, Var, as_expr, const
from ..te import Tensor
from ..tir.analysis.block_regions import with_declared_regions
from ..tir.nodes import Block, BlockRealize, Buffer, BufferStore, For, ForKind, Seq, Stmt, with_root
from .shapes import Dim, agree, constant, dims, plus, simple

FORWARD, REVERSE, BIDIRECTIONAL = DIRECTIONS = ("forward", "reverse", "bidirectional")
# Rows of a group. With 4 rows the multiply-adds take longer than loading r from the L2 cache.
_ROWS = (4, 2, 1)


@dataclass(frozen=True, slots=True)
class LayerInputs:
    """The inputs of a recurrent layer.

    `x` [steps, batch, directions, gates * hidden] is the contribution of the input to the gates, and `r` [directions,
    hidden, gates * hidden] holds the weights of the state. `states` are the initial states, each [directions, batch,
    hidden]. `weights` are the other weights of the cell, [directions, n * hidden] for each n in `sizes`. `lengths`
    [batch] is the number of steps of each row.
    """

    op: str
    gates: int
    direction: str
    x: Tensor
    r: Tensor
    states: tuple[Tensor, ...]
    weights: tuple[Tensor, ...] = ()
    sizes: tuple[int, ...] = ()
    lengths: Tensor | None = None

    @property
    def inputs(self) -> list[Tensor]:
        """All inputs, in the order in which the operator takes them."""
        return [self.x, self.r, *self.states, *self.weights, *([] if self.lengths is None else [self.lengths])]

    @property
    def hidden(self) -> int:
        """The number of elements in a state."""
        if self.r.ndim != 3:
            raise TypeMismatch(f"{self.op}: wanted weights (directions, hidden, gates * hidden), found {self.r}")
        return constant(dims(self.r)[1], f"{self.op}: the size of a state")

    @property
    def results(self) -> list[tuple[tuple[Dim, ...], DType]]:
        """The types of y and of the final states."""
        steps, batch, directions, _ = dims(self.x)
        y = ((steps, directions, batch, self.hidden), self.x.dtype)
        return [y, *((dims(state), state.dtype) for state in self.states)]

    def check(self) -> None:
        """Raise `TypeMismatch` for shapes and dtypes that do not fit, and `InputError` for an unknown direction."""
        if self.direction not in DIRECTIONS:
            raise InputError(f"{self.op}: direction is one of {', '.join(DIRECTIONS)}, found {self.direction!r}")
        count, hidden = 2 if self.direction == BIDIRECTIONAL else 1, self.hidden
        columns = self.gates * hidden
        batch = dims(self.x)[1] if self.x.ndim == 4 else "batch"
        steps = dims(self.x)[0] if self.x.ndim == 4 else "steps"
        wanted: list[tuple[Tensor, tuple[Any, ...]]] = [
            (self.x, (steps, batch, count, columns)),
            (self.r, (count, hidden, columns)),
            *((state, (count, batch, hidden)) for state in self.states),
            *((w, (count, n * hidden)) for w, n in zip(self.weights, self.sizes, strict=True)),
            *([] if self.lengths is None else [(self.lengths, (batch,))]),
        ]
        for tensor, shape in wanted:
            if tensor.ndim != len(shape) or not all(agree(a, b) for a, b in zip(dims(tensor), shape, strict=True)):
                raise TypeMismatch(f"{self.op}: wanted ({', '.join(map(str, shape))}), found {tensor}")
        floats = [self.x, self.r, *self.states, *self.weights]
        if len({t.dtype for t in floats}) > 1 or not self.x.dtype.is_float:
            raise TypeMismatch(f"{self.op}: wanted floats of one dtype, found {', '.join(map(str, floats))}")
        if self.lengths is not None and not self.lengths.dtype.is_int:
            raise TypeMismatch(f"{self.op}: lengths are integers, found {self.lengths}")


Cell = Callable[["TimeStep"], Sequence[Buffer]]


def over_time(layer: LayerInputs, cell: Cell) -> list[Tensor]:
    """Return y [steps, directions, batch, hidden], and the final value of each state, [directions, batch, hidden].

    `cell(step)` emits the stages of one step, and returns the buffers of the next states. After the last step of a row,
    y is zero and the states of the row do not change. If a row has no steps, its final states are zero, as in ONNX
    Runtime.
    """
    inputs = [Buffer(f"p{k}", t.shape, t.dtype) for k, t in enumerate(layer.inputs)]
    results = [
        Buffer(f"last{k - 1}" if k else "y", tuple(map(as_expr, shape)), dtype)
        for k, (shape, dtype) in enumerate(layer.results)
    ]
    groups = [
        _RowGroup(layer, inputs, results, number, rows).nest(first, count, cell)
        for number, (first, count, rows) in enumerate(_groups(dims(layer.x)[1]))
    ]
    attrs = {"global_symbol": layer.op.replace(".", "_"), "tir.noalias": True}
    outputs: list[Tensor] = te.extern_primfunc(layer.inputs, with_root((*inputs, *results), Seq.of(*groups), attrs))
    return outputs


def _groups(batch: Dim) -> Iterator[tuple[Dim, Dim, int]]:
    """Yield (first row, number of groups, rows per group) so that the groups cover the batch."""
    if isinstance(batch, int):
        whole, rest = divmod(batch, _ROWS[0])
        if whole:
            yield 0, whole, _ROWS[0]
        if rest:
            yield whole * _ROWS[0], 1, rest
        return
    yield 0, batch // _ROWS[0], _ROWS[0]
    for before, rows in itertools.pairwise(_ROWS):
        yield batch - batch % before, batch % before // rows, rows


class _RowGroup:
    """A group of rows that are computed together in each step, and the statements that are emitted for them."""

    def __init__(
        self, layer: LayerInputs, inputs: Sequence[Buffer], results: Sequence[Buffer], number: int, rows: int
    ) -> None:
        self.layer, self.rows, self.hidden = layer, rows, layer.hidden
        self.number, self.names = number, set[str]()
        self.results = results
        states, weights = len(layer.states), len(layer.weights)
        self.x, self.r, *others = inputs
        self.initial, self.weights = others[:states], others[states : states + weights]
        self.lengths = others[-1] if layer.lengths is not None else None
        self.local: list[Buffer] = []
        self.index = layer.x.shape[0].dtype

    def nest(self, first: Dim, count: Dim, cell: Cell) -> Stmt:
        """Return the loops over groups and directions, with the loop over time inside."""
        directions = self.results[1].shape[0]
        way = IterVar(Var("direction", directions.dtype), Range.of(directions))
        group = IterVar(Var("group", as_expr(count).dtype), Range.of(as_expr(count)))
        self.way, self.first = way.var, simple(first + group.var * self.rows)
        states = [self.buffer("state", self.hidden) for _ in self.initial]
        begin = [
            self.stage("start", state, lambda b, j, source=source: source[self.way, self.first + b, j])
            for state, source in zip(states, self.initial, strict=True)
        ]
        steps = self._time(states, cell)
        end = [
            self.stage("last", result, lambda b, j, state=state: self.unless_empty(b, state[b, j]), lead=(self.way,))
            for state, result in zip(states, self.results[1:], strict=True)
        ]
        body = Seq.of(*begin, steps, *end)
        block = Block(
            (group, way), (), (), self.name("rows"), body, alloc_buffers=tuple(self.local),
            annotations={"op": self.layer.op},
        )  # fmt: skip
        block = with_declared_regions(block)
        loops = [Var("g", group.var.dtype), Var("d", way.var.dtype)]
        return _nest(loops, [as_expr(count), directions], BlockRealize(tuple(loops), const(True), block))

    def _time(self, states: Sequence[Buffer], cell: Cell) -> Stmt:
        steps = self.x.shape[0]
        now = IterVar(Var("now", self.index), Range.of(steps), OPAQUE)
        backwards = steps - 1 - now.var
        if self.layer.direction == BIDIRECTIONAL:
            place = te.select(self.way == const(0, self.way.dtype), now.var, backwards)
        else:
            place = now.var if self.layer.direction == FORWARD else backwards
        step = TimeStep(self, place, tuple(states))
        following = cell(step)
        zero = const(0, self.x.dtype)
        y, hidden = self.results[0], following[0]
        emit = step.statements.append
        emit(self.stage("output", y, lambda b, j: step.unless_over(b, hidden[b, j], zero), lead=(place, self.way)))
        for state, new in zip(states, following, strict=True):
            emit(self.stage("state", state, lambda b, j, new=new: new[b, j]))
        block = with_declared_regions(Block((now,), (), (), self.name("step"), Seq.of(*step.statements)))
        t = Var("t", self.index)
        return _nest([t], [steps], BlockRealize((t,), const(True), block))

    def length(self, b: Expr) -> Expr | None:
        """Return the number of time steps of row `b`, or None if the layer has no `lengths`."""
        return None if self.lengths is None else self.lengths[self.first + b].astype("int64")

    def unless_empty(self, b: Expr, last: Expr) -> Expr:
        """Return the final state `last` of a row, or zero if the row has no steps."""
        length = self.length(b)
        return last if length is None else te.select(length > const(0, "int64"), last, const(0, last.dtype))

    def name(self, name: str) -> str:
        """Return `name`, with a number appended if another block or buffer of the function already has this name."""
        base = f"{name}_{self.number}" if self.number else name
        numbered = (f"{base}_{k}" if k else base for k in itertools.count())
        unique = next(new for new in numbered if new not in self.names)
        self.names.add(unique)
        return unique

    def buffer(self, name: str, columns: int) -> Buffer:
        """Return a new buffer [rows, columns] that belongs to the group."""
        new = Buffer(self.name(name), (as_expr(self.rows), as_expr(columns)), self.x.dtype)
        self.local.append(new)
        return new

    def stage(
        self, name: str, result: Buffer, value: Callable[..., Expr], lead: tuple[Expr, ...] = ()
    ) -> Stmt:  # fmt: skip
        """Return a block that writes value(row, j) for each row of the group and each j. With `lead`, `result` is a
        parameter: `lead` are its first indices, followed by the row's number in the batch and j.

        The values for different j are independent, so they form vectors; lowering splits them into vectors of the
        machine's width.
        """
        extents = (as_expr(self.rows), as_expr(self.hidden))
        iterators = [IterVar(Var(n, d.dtype), Range.of(d)) for n, d in zip(("row", "j"), extents, strict=True)]
        b, j = (it.var for it in iterators)
        at = (*lead, self.first + b, j) if lead else (b, j)
        block = Block(tuple(iterators), (), (), self.name(name), BufferStore(result, value(b, j), at))
        loops = [Var("b", b.dtype), Var("j_", j.dtype)]
        realize = BlockRealize(tuple(loops), const(True), with_declared_regions(block))
        return _nest(loops, extents, realize, ForKind.VECTORIZED)


class TimeStep:
    """A time step for a group of rows, with the operations that the equations of a cell are built from."""

    def __init__(self, group: _RowGroup, place: Expr, states: tuple[Buffer, ...]) -> None:
        self._group, self._place = group, place
        self.states, self.hidden = states, group.hidden
        self.statements: list[Stmt] = []

    def x(self, gate: int, b: Expr, j: Expr) -> Expr:
        """Return the contribution of the input to a gate, for row `b` and element `j`."""
        g = self._group
        return g.x[self._place, g.first + b, g.way, plus(j, gate * self.hidden)]

    def weight(self, number: int, place: Expr) -> Expr:
        """Return element `place` of the further weight `number` of the cell (`LayerInputs.weights`), for the current
        direction.
        """
        return self._group.weights[number][self._group.way, place]

    def unless_over(self, b: Expr, new: Expr, old: Expr) -> Expr:
        """Return `new` if row `b` has this time step, and `old` if the row has already ended.

        In a layer without `lengths`, every row has all time steps.
        """
        length = self._group.length(b)
        return new if length is None else te.select(self._place.astype("int64") < length, new, old)

    def product(self, state: Buffer, first: int, gates: int) -> Buffer:
        """Return the product of the state and the weights of some gates, as [rows, gates * hidden]."""
        g, columns = self._group, gates * self.hidden
        sums = g.buffer("sums", columns)
        extents = [as_expr(n) for n in (g.rows, columns, self.hidden)]
        axes = [
            IterVar(Var(name, d.dtype), Range.of(d), kind)
            for name, d, kind in zip(("row", "n", "k"), extents, ("S", "S", REDUCE), strict=True)
        ]
        b, n, k = (axis.var for axis in axes)
        term = state[b, k] * g.r[g.way, k, plus(n, first * self.hidden)]
        update = BufferStore(sums, sums[b, n] + term, (b, n))
        init = BufferStore(sums, const(0, sums.dtype), (b, n))
        block = with_declared_regions(Block(tuple(axes), (), (), g.name("product"), update, init))
        loops = [Var(name, d.dtype) for name, d in zip(("b", "n_", "k_"), extents, strict=True)]
        nest = _nest(loops, extents, BlockRealize(tuple(loops), const(True), block))
        # In a separate block, no later statement writes the state that the product reads, so schedules may move the
        # block.
        whole = with_declared_regions(Block((), (), (), g.name("products"), nest))
        self.statements.append(BlockRealize((), const(True), whole))
        return sums

    def stage(self, name: str, value: Callable[[Expr, Expr], Expr]) -> Buffer:
        """Return a new buffer [rows, hidden] with the elements value(row, j)."""
        result = self._group.buffer(name, self.hidden)
        self.statements.append(self._group.stage(name, result, value))
        return result

    def next_state(self, number: int, name: str, value: Callable[[Expr, Expr], Expr]) -> Buffer:
        """Like `stage`, for the next value of a state. After the last step of a row, the state no longer changes."""
        old = self.states[number]
        return self.stage(name, lambda b, j: self.unless_over(b, value(b, j), old[b, j]))


def _nest(variables: Sequence[Var], extents: Sequence[Expr], body: Stmt, innermost: ForKind = ForKind.SERIAL) -> Stmt:
    kind = innermost
    for var, extent in reversed(list(zip(variables, extents, strict=True))):
        body, kind = For(var, const(0, var.dtype), extent, kind, body), ForKind.SERIAL
    return body
