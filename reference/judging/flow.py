"""Data flow in a program: find the parameters and operations that reach a value.

An element of a buffer, a tensor or a variable depends on the expressions that are stored in it, on their indices, and
on the conditions and extents around them. Buffers are treated as a whole, so the result may be too large, never too
small.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from minitvm import expr as x
from minitvm.te import nodes as te
from minitvm.tir import nodes as t

from ..domains.field import FUNCTIONS
from .programs import Program, entry

_ROUNDING = ("dot2_bf16", "fma", "fmod", "vector_reduce_add")

Key = Any  # a buffer, a tensor or a variable


@dataclass(frozen=True)
class Reached:
    """The positions of the parameters, and the expressions, that something depends on."""

    parameters: frozenset[int]
    expressions: tuple[x.Node, ...]

    def nodes(self) -> Iterable[x.Node]:
        """Yield every node of the expressions."""
        for e in self.expressions:
            yield from x.walk(e)


class Flow:
    """The data flow of one program."""

    def __init__(self, program: Program) -> None:
        self.sources: dict[Key, list[x.Node]] = {}  # from which expressions
        self.linked: dict[Key, set[Key]] = {}  # other names of the same elements
        self.extents: list[x.Node] = []  # what says how often something runs, or how large it is
        self.places: dict[Key, int] = {}
        if not isinstance(program, t.PrimFunc | t.IRModule):
            self._tensors(program)
            return
        module = program if isinstance(program, t.IRModule) else t.IRModule({program.name: program})
        self.places = {param: k for k, param in enumerate(keys(program))}
        for func in {id(f): f for f in (entry(program), *(f for _, f in module.items()))}.values():
            self._function(func, module)

    def into(self, key: Key) -> Reached:
        """Return everything that reaches the elements of a buffer, a tensor or a variable."""
        return self._reached([], [key])

    def into_values(self, expressions: Iterable[x.Node]) -> Reached:
        """Return the parameters and expressions that reach any of these expressions."""
        return self._reached(expressions, [])

    def into_extents(self) -> Reached:
        """Return everything that decides how often loops run, whether a `while` goes on, and how large storage is."""
        return self._reached(self.extents, [])

    def variables(self, expressions: Iterable[x.Node]) -> set[str]:
        """Return the names of the variables that expressions depend on, directly or indirectly."""
        return {key.name for key in self._closure(expressions, [])[0] if isinstance(key, x.Var)}

    def _reached(self, expressions: Iterable[x.Node], keys: Iterable[Key]) -> Reached:
        keys_reached, seen = self._closure(expressions, keys)
        return Reached(frozenset(self.places[k] for k in keys_reached if k in self.places), tuple(seen.values()))

    def _closure(self, expressions: Iterable[x.Node], keys: Iterable[Key]) -> tuple[set[Key], dict[int, x.Node]]:
        rest, reached = list(keys), set[Key]()
        todo, seen = list(expressions), dict[int, x.Node]()
        while rest or todo:
            while todo:
                e = todo.pop()
                if id(e) not in seen:
                    seen[id(e)] = e
                    rest += _keys(e)
                    todo += [n.value for n in x.walk(e) if isinstance(n, x.Let)]
            if rest:
                key = rest.pop()
                if key not in reached:
                    reached.add(key)
                    rest += self.linked.get(key, ())
                    todo += self.sources.get(key, ())
        return reached, seen

    def _tensors(self, program: Any) -> None:
        self.places = {one: k for k, one in enumerate(keys(program))}
        rest, visited = [one for one in program if isinstance(one, te.Tensor)], set()
        while rest:
            tensor = rest.pop()
            if tensor in visited or isinstance(tensor.op, te.PlaceholderOp):
                continue
            visited.add(tensor)
            if isinstance(tensor.op, te.ExternOp):
                self._function(tensor.op.func, t.IRModule({}))
                for param, one in zip(tensor.op.func.buffers, tensor.op.inputs, strict=False):
                    self._link(param, one)
                self._link(tensor.op.results[tensor.value_index], tensor)
                rest += tensor.op.inputs
                continue
            # An input tensor of the program is already an argument.
            self.sources[tensor] = [tensor.op]
            for n in x.walk(tensor.op):
                if isinstance(n, te.TensorLoad):
                    rest.append(n.tensor)
                elif isinstance(n, x.Range):
                    self.extents += [n.start, n.extent]

    def _function(self, func: t.PrimFunc, module: t.IRModule) -> None:
        rest: list[tuple[x.Node, tuple[x.Node, ...]]] = [(func.body, ())]
        while rest:
            s, around = rest.pop()
            inner = around
            if isinstance(s, t.BufferStore):
                self._make(s.buffer, (*(c for c in x.children(s)), *around))
            elif isinstance(s, t.For):
                self.extents += [s.start, s.extent]
                self._make(s.var, (s.start, s.extent))
                inner = (*around, s.start, s.extent)
            elif isinstance(s, t.While | t.If):
                self.extents += [s.condition] if isinstance(s, t.While) else []
                inner = (*around, s.condition)
            elif isinstance(s, t.LetStmt):
                self._make(s.var, (s.value, *around))
            elif isinstance(s, t.BlockRealize):
                inner = (*around, s.predicate)
                for iterator, value in zip(s.block.iter_vars, s.iter_values, strict=True):
                    self._make(iterator.var, (value,))
            elif isinstance(s, t.Block):
                self.extents += [d for b in s.alloc_buffers for d in b.shape]
                for m in s.match_buffers:
                    self._link(m.buffer, m.source.buffer)
                    self._make(m.buffer, tuple(r.start for r in m.source.region))
            elif isinstance(s, t.Allocate):
                self.extents += list(s.buffer.shape)
            elif isinstance(s, t.KernelCall) and s.kernel in module:
                for param, arg in zip(module[s.kernel].params, s.args, strict=True):
                    if isinstance(arg, t.Buffer):
                        self._link(param, arg)
                    else:
                        self._make(param, (arg, *around))
            elif isinstance(s, t.Evaluate):
                touched = [n.buffer for n in x.walk(s.value) if isinstance(n, t.BufferLoad)]
                for one in touched:  # it may write what it is given
                    self._link(touched[0], one)
            rest += [(c, inner) for c in x.children(s) if isinstance(c, t.Stmt)]

    def _make(self, key: Key, parts: tuple[x.Node, ...]) -> None:
        self.sources.setdefault(key, []).extend(parts)

    def _link(self, one: Key, other: Key) -> None:
        self.linked.setdefault(one, set()).add(other)
        self.linked.setdefault(other, set()).add(one)


def keys(program: Program) -> tuple[Key, ...]:
    """Return the parameters of a program as keys, in calling order."""
    return entry(program).params if isinstance(program, t.PrimFunc | t.IRModule) else tuple(program)


def computes_with_floats(n: x.Node) -> bool:
    """Return whether a node rounds floats: arithmetic and functions, but not comparisons, conversions and choices."""
    if isinstance(n, x.Call):
        return n.dtype.is_float and (n.op in FUNCTIONS or n.op in _ROUNDING)
    return isinstance(n, x.Add | x.Sub | x.Mul | x.Div) and n.a.dtype.is_float


def _keys(e: x.Node) -> list[Key]:
    """Return the buffers, tensors and variables that an expression reads."""
    keys: list[Key] = []
    for n in x.walk(e):
        if isinstance(n, t.BufferLoad):
            keys.append(n.buffer)
        elif isinstance(n, te.TensorLoad):
            keys.append(n.tensor)
        elif isinstance(n, x.Var):
            keys.append(n)
    return keys
