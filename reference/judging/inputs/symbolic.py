"""Express one element of an output as a formula of the inputs' elements, by symbolic execution backwards (King 1976).

An element is written by all stores whose indices, at some point of the loops around them, are its place. The last one
that is certain to happen gives its value; later ones under conditions on data become choices. The loads in these values
are resolved in the same way, until only elements of parameters remain, which become variables. Sums are written out, so
only small programs have formulas. `Beyond` is raised for others, and for indices that depend on data, vectors, pointers
and loops without a known extent.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from minitvm import expr as x
from minitvm.te import nodes as te
from minitvm.tir import nodes as t

from ...meaning import operations
from ..programs import Program, entry, parameters
from .batch import UNDEFINED, values_of

NODES = 600  # of one program's formulas
DEPTH = 40  # writes behind each other
PICKED = 8  # elements that data chooses from
POINTS = 1 << 12  # of the loops around one store

Key = tuple[Any, ...]
Path = tuple[Any, ...]  # numbers of statements and loop variables, from the outside
Place = tuple[int, int | None]  # a parameter, and which of its elements; None: it is a scalar


class Beyond(Exception):
    """The element has no formula of a reasonable size."""


class Leaves(dict[Place, x.Var]):
    """Maps each element of a parameter to a variable, which both programs share."""

    def __init__(self, dtypes: Sequence[x.DType]) -> None:
        super().__init__()
        self.dtypes = dtypes

    def __missing__(self, place: Place) -> x.Var:
        var = self[place] = x.Var(f"p{place[0]}_{place[1]}", self.dtypes[place[0]])
        return var


@dataclass(frozen=True)
class _Timed:
    """An expression, and the path of the statement that evaluates it."""

    value: x.Expr
    path: Path


@dataclass
class _Store:
    """A store with the loops and conditions around it."""

    indices: tuple[x.Expr, ...]
    shape: tuple[x.Expr, ...]
    value: x.Expr
    guards: tuple[_Timed, ...]
    loops: tuple[tuple[x.Var, int, int], ...]
    path: Path
    names: Mapping[x.Var, _Timed]
    written: dict[int, list[int]] = field(default_factory=dict)  # for each element the points that write it

    @cached_property
    def points(self) -> list[tuple[int, ...]]:
        """Return the values of the loops at each point, in order."""
        ranges = [range(first, first + count) for _, first, count in self.loops]
        return list(itertools.product(*ranges))

    def at(self, point: tuple[int, ...]) -> dict[x.Var, x.Expr]:
        return {var: x.IntImm(value, var.dtype) for (var, _, _), value in zip(self.loops, point, strict=True)}

    def key(self, point: tuple[int, ...], path: Path | None = None) -> Key:
        """Return the time at which the store runs, as a key; the keys of one program are ordered like its statements.

        With a `path`, it is the time of the statement at this path around the store.
        """
        now = {var: value for (var, _, _), value in zip(self.loops, point, strict=True)}
        return tuple(now[p] if isinstance(p, x.Var) else p for p in (self.path if path is None else path))


def formulas(program: Program, inputs: Sequence[Any], sizes: Mapping[str, int], leaves: Leaves) -> Formulas:
    """Return the formulas of a program at these sizes, over leaves that other programs may share."""
    kind = _OfLoops if isinstance(program, t.PrimFunc | t.IRModule) else _OfTensors
    return kind(program, inputs, sizes, leaves)


class Formulas:
    """The common part of both levels: expressions are resolved at a point of the loops around them."""

    def __init__(self, program: Program, inputs: Sequence[Any], sizes: Mapping[str, int], leaves: Leaves) -> None:
        self.program, self.inputs, self.leaves = program, inputs, leaves
        self.sizes = sizes
        self.count = self.depth = 0
        self.undefined: dict[x.DType, x.Var] = {}

    def of(self, output: int, element: int) -> x.Expr:
        """Return the final value of an element, by its flat position, of the parameter at `output`."""
        self.depth = 0
        try:
            return self.final(output, element)
        except RecursionError:
            raise Beyond("deep") from None

    def final(self, output: int, element: int) -> x.Expr:
        """Return the final value of an element."""
        raise NotImplementedError

    def resolved(self, e: Any, env: Mapping[x.Var, x.Expr], when: Any) -> Any:
        """Return an expression over leaves, or a constant if it depends on none."""
        if isinstance(e, x.IntImm | x.FloatImm):
            return e
        if isinstance(e, x.Var):
            return env[e] if e in env else self.scalar(e)
        if e.dtype.lanes > 1:
            raise Beyond("vectors")
        if isinstance(e, t.BufferLoad | te.TensorLoad):
            return self.picked(e, tuple(self.resolved(i, env, when) for i in e.indices), when)
        if isinstance(e, x.Let):
            return self.resolved(e.body, {**env, e.var: self.resolved(e.value, env, when)}, when)
        if isinstance(e, x.Reduce):
            return self.reduced(e, env, when)
        if isinstance(e, x.Call) and e.op == "if_then_else":
            condition = self.resolved(e.args[0], env, when)
            if isinstance(condition, x.IntImm):
                return self.resolved(e.args[1] if condition.value else e.args[2], env, when)
            rest = tuple(self.resolved(a, env, when) for a in e.args[1:])
            return self.simple(x.replace(e, args=(condition, *rest)))
        return self.simple(x.map_children(e, lambda child: self.resolved(child, env, when)))

    def simple(self, e: x.Expr) -> x.Expr:
        """Count a new node, and fold it if all its operands are integers."""
        self.count += 1
        if self.count > NODES:
            raise Beyond("long")
        parts = list(x.children(e))
        if parts and all(isinstance(p, x.IntImm) for p in parts) and (e.dtype.is_int or e.dtype.is_bool):
            if isinstance(e, x.Add | x.Sub | x.Mul | x.CompareOp | x.Min | x.Max):
                a, b = (p.value for p in parts)  # type: ignore[attr-defined]
                value = operations.on_values(type(e), e.a.dtype)(a, b)
                return x.IntImm(int(value), e.dtype)
            batch = values_of([e], {}, 1)
            if not batch.bad(e).any():
                return x.const(np.asarray(batch[e]).reshape(-1)[0].item(), str(e.dtype))
        return e

    def index(self, e: x.Expr, env: Mapping[x.Var, x.Expr], when: Any) -> int:
        value = self.resolved(e, env, when)
        if not isinstance(value, x.IntImm):
            raise Beyond("an index that depends on data")
        return int(value.value)

    def scalar(self, e: x.Var) -> x.Expr:
        for k, p in enumerate(parameters(self.program)):
            if p.shape is None and p.var is e and p.name not in self.sizes:
                return self.leaves[k, None]
        if e.name in self.sizes:
            return x.IntImm(int(self.sizes[e.name]), e.dtype)
        raise Beyond(f"{e.name} has no value")

    def number(self, e: x.Expr, env: Mapping[x.Var, x.Expr]) -> int:
        return self.index(e, env, ())

    def picked(self, e: Any, indices: tuple[x.Expr, ...], when: Any) -> x.Expr:
        """Return the value of a load. If its index depends on data, it is a choice between all possible elements."""
        shape = [self.number(d, {}) for d in (e.buffer.shape if isinstance(e, t.BufferLoad) else e.tensor.shape)]
        data = [k for k, i in enumerate(indices) if not isinstance(i, x.IntImm)]
        if not data:
            return self.loaded(e, tuple(i.value for i in indices), when)  # type: ignore[attr-defined]
        if math.prod(shape[k] for k in data) > PICKED:
            raise Beyond("an index that depends on data")
        result: x.Expr = self.nothing(e.dtype)
        for point in itertools.product(*(range(shape[k]) for k in data)):
            at = dict(zip(data, point, strict=True))
            value = self.loaded(e, tuple(at.get(k, getattr(i, "value", 0)) for k, i in enumerate(indices)), when)
            condition: x.Expr | None = None
            for k in data:
                this = self.simple(x.EQ(indices[k], x.IntImm(at[k], indices[k].dtype)))
                condition = this if condition is None else self.simple(x.And(condition, this))
            assert condition is not None
            result = self.simple(x.Call(e.dtype, "if_then_else", (condition, value, result)))
        return result

    def nothing(self, dtype: x.DType) -> x.Var:
        """Return the variable for values that were never written or are out of bounds."""
        return self.undefined.setdefault(dtype, x.Var(UNDEFINED, dtype))

    def loaded(self, e: Any, indices: tuple[int, ...], when: Any) -> x.Expr:
        raise NotImplementedError

    def reduced(self, e: x.Reduce, env: Mapping[x.Var, x.Expr], when: Any) -> x.Expr:
        raise Beyond("a reduction among statements")


class _OfTensors(Formulas):
    """Formulas of tensor expressions."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.values: dict[tuple[Any, tuple[int, ...]], x.Expr] = {}
        self.places = {one: k for k, one in enumerate(self.program)}

    def final(self, output: int, element: int) -> x.Expr:
        shape = np.shape(self.inputs[output])
        at = tuple(int(i) for i in np.unravel_index(element, shape)) if shape else ()
        return self.element(self.program[output], at)

    def element(self, tensor: te.Tensor, at: tuple[int, ...]) -> x.Expr:
        if not isinstance(tensor.op, te.ComputeOp):
            if not isinstance(tensor.op, te.PlaceholderOp):
                raise Beyond("a function of loops")
            place = self.places[tensor]
            return self.leaves[place, _flat(at, np.shape(self.inputs[place]))]
        if (tensor, at) not in self.values:
            env = {axis.var: x.IntImm(i, axis.var.dtype) for axis, i in zip(tensor.op.axis, at, strict=True)}
            self.values[tensor, at] = self.resolved(tensor.op.body[tensor.value_index], env, ())
        return self.values[tensor, at]

    def loaded(self, e: Any, indices: tuple[int, ...], when: Any) -> x.Expr:
        return self.element(e.tensor, indices)

    def reduced(self, e: x.Reduce, env: Mapping[x.Var, x.Expr], when: Any) -> x.Expr:
        values = [self.resolved(v, env, when) for v in (e.init or e.combiner.identity)]
        axes = [(a.var, self.number(a.dom.start, env), self.number(a.dom.extent, env)) for a in e.axes]
        for point in itertools.product(*(range(first, first + count) for _, first, count in axes)):
            inner = {**env, **{var: x.IntImm(i, var.dtype) for (var, _, _), i in zip(axes, point, strict=True)}}
            condition = self.resolved(e.condition, inner, when)
            if not isinstance(condition, x.IntImm):
                raise Beyond("a reduction under a condition on data")
            if not condition.value:
                continue
            terms = [self.resolved(s, inner, when) for s in e.sources]
            both = {**dict(zip(e.combiner.lhs, values, strict=True)), **dict(zip(e.combiner.rhs, terms, strict=True))}
            values = [self.resolved(r, both, when) for r in e.combiner.results]
        return values[e.value_index]


class _OfLoops(Formulas):
    """Formulas of loop programs and of lowered programs."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.stores: dict[t.Buffer, list[_Store]] = {}
        self.values: dict[tuple[t.Buffer, int, Key], x.Expr] = {}
        func = entry(self.program)
        self.params = {p: k for k, p in enumerate(func.params) if isinstance(p, t.Buffer)}
        self.is_input = [p.is_input for p in parameters(self.program)]
        self._statement(func.body, _Around())

    def final(self, output: int, element: int) -> x.Expr:
        buffer = next(b for b, k in self.params.items() if k == output)
        return self.element(buffer, element, (math.inf,))

    # --- the stores --------------------------------------------------------------------------------------------------

    def _statement(self, s: Any, around: _Around) -> None:
        if isinstance(s, t.BufferStore):
            if s.predicate is not None or s.value.dtype.lanes > 1:
                raise Beyond("vectors")
            buffer = around.root(s.buffer)
            self._plain(s.buffer)
            one = _Store(s.indices, s.buffer.shape, s.value, around.guards, around.loops, around.path, around.names)
            self.stores.setdefault(buffer, []).append(one)
        elif isinstance(s, t.Seq):
            for k, inner in enumerate(s.stmts):
                self._statement(inner, around.then(k))
        elif isinstance(s, t.For):
            first, count = (self.number(_expanded(e, {v: n.value for v, n in around.names.items()}), {})
                            for e in (s.start, s.extent))  # fmt: skip
            loop = (s.var, first, count)
            self._statement(s.body, replace(around, loops=(*around.loops, loop), path=(*around.path, s.var)))
        elif isinstance(s, t.If):
            self._statement(s.then_case, around.where(s.condition))
            if s.else_case is not None:
                self._statement(s.else_case, around.where(x.Not(s.condition)))
        elif isinstance(s, t.LetStmt):
            self._statement(s.body, around.named({s.var: s.value}))
        elif isinstance(s, t.BlockRealize):
            self._block(s, around)
        elif isinstance(s, t.Allocate):
            self._statement(s.body, around)
        elif isinstance(s, t.KernelCall):
            self._called(s, around)
        elif not isinstance(s, t.Assert | t.Prefetch) and not _is_barrier(s):
            raise Beyond(type(s).__name__)

    def _block(self, s: t.BlockRealize, around: _Around) -> None:
        block = s.block
        if block.match_buffers:
            raise Beyond("another view of a buffer")
        inner = around if isinstance(s.predicate, x.IntImm) and s.predicate.value else around.where(s.predicate)
        inner = inner.named({i.var: v for i, v in zip(block.iter_vars, s.iter_values, strict=True)})
        if block.init is not None:
            starting = inner.then(0)
            for i in block.iter_vars:
                if i.kind != x.SPATIAL:
                    starting = starting.where(x.EQ(i.var, i.dom.start))
            self._statement(block.init, starting)
        self._statement(block.body, inner.then(1))

    def _called(self, s: t.KernelCall, around: _Around) -> None:
        callee = self.program[s.kernel]
        same = {p: around.root(a) for p, a in zip(callee.params, s.args, strict=True) if isinstance(p, t.Buffer)}
        names = {
            p: a for p, a in zip(callee.params, s.args, strict=True) if isinstance(p, x.Var) and isinstance(a, x.Expr)
        }
        inner = replace(around.named(names), same={**around.same, **same})
        for p in same:
            self._plain(p)
        self._statement(callee.body, inner)

    @staticmethod
    def _plain(buffer: t.Buffer) -> None:
        offset = buffer.elem_offset
        if buffer.strides or (isinstance(offset, x.IntImm) and offset.value) or buffer.dtype.lanes > 1:
            raise Beyond("another layout")

    # --- the values ---------------------------------------------------------------------------------------------------

    def element(self, buffer: t.Buffer, flat: int, before: Key) -> x.Expr:
        """Return the value of an element just before the time `before`."""
        self.depth += 1
        if self.depth > DEPTH:
            raise Beyond("deep")
        writes = [(key, one, point) for key, one, point in self._writes(buffer, flat) if key < before]
        default: x.Expr | None = None
        conditional: list[tuple[x.Expr, x.Expr]] = []
        for key, one, point in sorted(writes, key=lambda w: w[0], reverse=True):
            env = self._env(one, point)
            conditions = [self.resolved(g.value, env, one.key(point, g.path)) for g in one.guards]
            data = [c for c in conditions if not isinstance(c, x.IntImm)]
            if any(isinstance(c, x.IntImm) and not c.value for c in conditions):
                continue
            value = self.resolved(one.value, env, key)
            if not data:
                default = value
                break
            condition = data[0]
            for c in data[1:]:
                condition = self.simple(x.And(condition, c))
            conditional.append((condition, value))
        if default is None:
            default = self._initial(buffer, flat)
        for condition, value in reversed(conditional):
            default = self.simple(x.Call(default.dtype, "if_then_else", (condition, value, default)))
        self.depth -= 1
        return default

    def _env(self, one: _Store, point: tuple[int, ...]) -> Mapping[x.Var, x.Expr]:
        return _PointValues(self, one, point)

    def _initial(self, buffer: t.Buffer, flat: int) -> x.Expr:
        place = self.params.get(buffer)
        if place is not None and self.is_input[place]:
            return self.leaves[place, flat]
        return self.nothing(buffer.dtype)

    def _writes(self, buffer: t.Buffer, flat: int) -> Iterator[tuple[Key, _Store, tuple[int, ...]]]:
        for one in self.stores.get(buffer, ()):
            if not one.written:
                self._table(one)
            for k in one.written.get(flat, ()):
                point = one.points[k]
                yield one.key(point), one, point

    def _table(self, one: _Store) -> None:
        """Find which point writes which element, for all points at once, with arrays."""
        total = math.prod(count for _, _, count in one.loops)
        if total > POINTS:
            raise Beyond("many points")
        place: x.Expr = x.IntImm(0)
        for index, extent in zip(one.indices, one.shape, strict=True):
            place = x.Add(x.Mul(place, x.IntImm(self.number(extent, {}))), _as_index(index))
        place = _expanded(place, {var: named.value for var, named in one.names.items()})
        if not total:
            one.written = {-1: []}
            return
        grids = np.array(one.points, np.int64).reshape(total, len(one.loops))
        columns = {v: grids[:, k].astype(v.dtype.numpy) for k, (v, _, _) in enumerate(one.loops)}
        for var in x.free_vars(place):
            if var not in columns:
                value = self.scalar(var)
                if not isinstance(value, x.IntImm):
                    raise Beyond("an index that depends on data")
                columns[var] = np.full(total, value.value, var.dtype.numpy)
        if any(isinstance(n, t.BufferLoad) for n in x.walk(place)):
            raise Beyond("an index that depends on data")
        places = np.broadcast_to(values_of([place], columns, total)[place], (total,))
        for k, flat in enumerate(places.tolist()):
            one.written.setdefault(int(flat), []).append(k)

    def loaded(self, e: Any, indices: tuple[int, ...], when: Any) -> x.Expr:
        if e.predicate is not None:
            raise Beyond("vectors")
        self._plain(e.buffer)
        shape = tuple(self.number(d, {}) for d in e.buffer.shape)
        if any(not 0 <= i < n for i, n in zip(indices, shape, strict=True)):
            raise Beyond("out of bounds")
        buffer, flat = self.same.get(e.buffer, e.buffer), _flat(indices, shape)
        key = buffer, flat, when
        if key not in self.values:
            self.values[key] = self.element(buffer, flat, when)
        return self.values[key]

    @cached_property
    def same(self) -> dict[t.Buffer, t.Buffer]:
        """A map from kernel parameters to the buffers that are passed for them."""
        originals: dict[t.Buffer, t.Buffer] = {}
        if isinstance(self.program, t.IRModule):
            for n in x.walk(entry(self.program).body):
                if isinstance(n, t.KernelCall):
                    for p, a in zip(self.program[n.kernel].params, n.args, strict=True):
                        if isinstance(p, t.Buffer) and isinstance(a, t.Buffer) and originals.setdefault(p, a) is not a:
                            raise Beyond("a kernel that is called twice")
        return originals


@dataclass(frozen=True)
class _Around:
    """The loops and conditions around a statement."""

    loops: tuple[tuple[x.Var, int, int], ...] = ()
    guards: tuple[_Timed, ...] = ()
    path: Path = ()
    names: Mapping[x.Var, _Timed] = field(default_factory=dict)
    same: Mapping[t.Buffer, t.Buffer] = field(default_factory=dict)

    def then(self, k: int) -> _Around:
        return replace(self, path=(*self.path, k))

    def where(self, condition: x.Expr) -> _Around:
        return replace(self, guards=(*self.guards, _Timed(condition, (*self.path, 0)))).then(1)

    def named(self, names: Mapping[x.Var, x.Expr]) -> _Around:
        timed = {var: _Timed(value, (*self.path, 0)) for var, value in names.items()}
        return replace(self, names={**self.names, **timed}).then(1)

    def root(self, buffer: Any) -> Any:
        return self.same.get(buffer, buffer)


class _PointValues(dict[x.Var, x.Expr]):
    """The variables of a statement at a point: loop variables, and names that are resolved on demand."""

    def __init__(self, formulas: Formulas, one: _Store, point: tuple[int, ...]) -> None:
        super().__init__(one.at(point))
        self.formulas, self.one, self.point = formulas, one, point

    def __contains__(self, var: object) -> bool:
        return super().__contains__(var) or var in self.one.names

    def __missing__(self, var: x.Var) -> x.Expr:
        named = self.one.names[var]
        value: x.Expr = self.formulas.resolved(named.value, self, self.one.key(self.point, named.path))
        self[var] = value
        return value


def _expanded(e: x.Expr, names: Mapping[x.Var, x.Expr]) -> x.Expr:
    """Return an index in which the names of block iterators are replaced."""
    for _ in range(8):
        if not any(v in names for v in x.free_vars(e)):
            return e
        e = x.substitute(e, names)
    raise Beyond("names behind names")


def _as_index(e: x.Expr) -> x.Expr:
    return e if e.dtype == "int32" else x.Cast(x.DType("int32"), e)


def _flat(indices: Iterable[int], shape: Iterable[int]) -> int:
    flat = 0
    for i, n in zip(indices, shape, strict=True):
        flat = flat * n + i
    return flat


def _is_barrier(s: Any) -> bool:
    return isinstance(s, t.Evaluate) and (isinstance(s.value, x.IntImm) or not list(x.children(s.value)))
