"""Compare a block with an intrinsic's description by structure, and find the corresponding buffers and variables.

Loops, blocks, stores and loads correspond one to one, in order. Indices are compared by value and other expressions by
structure; the operands of `+`, `*`, `min` and `max` may be swapped. A buffer of the description corresponds to a box of
a buffer in the program, and the first access shows where this box begins. Loops with a single iteration that are not in
the description are ignored, and so are iterators with a single value that appear on only one side.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ... import expr as ex
from ...arith import Analyzer
from .. import nodes as tir
from ..annotations import is_within
from ..conditions import is_const

_COMMUTATIVE = (ex.Add, ex.Mul, ex.Min, ex.Max)


class Mismatch(Exception):
    """Raised when the program and the description differ. It has the node on each side, and what was expected and
    found.
    """

    def __init__(self, node: ex.Node, pattern: ex.Node, wanted: str, found: str) -> None:
        super().__init__(found)
        self.node, self.pattern, self.wanted, self.found = node, pattern, wanted, found


class Matcher:
    """Compares a program with a description, and records which values and buffers of the program stand for the
    variables and buffers of the description.
    """

    def __init__(self, analyzer: Analyzer, params: tuple[tir.Buffer | ex.Var, ...]) -> None:
        self.analyzer = analyzer
        self.inside = Analyzer()  # knows the description's variables
        self.params = params
        self.vars: dict[ex.Var, ex.Expr] = {}
        self.buffers: dict[tir.Buffer, tuple[tir.Buffer, tuple[ex.Expr, ...]]] = {}
        self.bound: set[ex.Var] = set()  # variables that the matched part of the program defines

    # ------------------------------------------------------------------ statements

    def stmt(self, a: tir.Stmt, b: tir.Stmt) -> None:
        """Compare a statement of the program with one of the description; raise `Mismatch` if they differ."""
        a = self.without_unit_loops(a, b)
        if isinstance(a, tir.Seq) and len(a.stmts) == 1:
            a = a.stmts[0]
        if isinstance(a, tir.BlockRealize) and not isinstance(b, tir.BlockRealize) and _only_wraps(a):
            return self.stmt(a.block.body, b)
        if isinstance(b, tir.BlockRealize) and not isinstance(a, tir.BlockRealize) and _only_wraps(b):
            return self.stmt(a, b.block.body)
        if type(a) is not type(b):
            raise Mismatch(a, b, _kind(b), _kind(a))
        if isinstance(a, tir.For):
            assert isinstance(b, tir.For)
            self.loop(a, b)
        elif isinstance(a, tir.Seq):
            assert isinstance(b, tir.Seq)
            if len(a.stmts) != len(b.stmts):
                raise Mismatch(a, b, f"{len(b.stmts)} statements", f"{len(a.stmts)} statements")
            for mine, described in zip(a.stmts, b.stmts, strict=False):
                self.stmt(mine, described)
        elif isinstance(a, tir.BlockRealize):
            assert isinstance(b, tir.BlockRealize)
            self.realize(a, b)
        elif isinstance(a, tir.BufferStore):
            assert isinstance(b, tir.BufferStore)
            self.access(a, b)
            self.expr(a.value, b.value, a)
        elif isinstance(a, tir.If):
            assert isinstance(b, tir.If)
            self.expr(a.condition, b.condition, a)
            self.stmt(a.then_case, b.then_case)
            if (a.else_case is None) != (b.else_case is None):
                raise Mismatch(a, b, "no else" if b.else_case is None else "an else", "the other")
            if a.else_case is not None and b.else_case is not None:
                self.stmt(a.else_case, b.else_case)
        elif isinstance(a, tir.LetStmt):
            assert isinstance(b, tir.LetStmt)
            self.expr(a.value, b.value, a)
            self.bind(a.var, b.var)
            self.stmt(a.body, b.body)
        elif isinstance(a, tir.Evaluate):
            assert isinstance(b, tir.Evaluate)
            self.expr(a.value, b.value, a)
        else:
            raise Mismatch(a, b, "loops, blocks, stores and conditions", _kind(a))

    def without_unit_loops(self, a: tir.Stmt, b: tir.Stmt) -> tir.Stmt:
        while isinstance(a, tir.For) and not (isinstance(b, tir.For) and self.analyzer.can_prove(b.extent <= 1)):
            if not is_const(a.extent, 1):
                break
            self.analyzer.bind(a)
            self.bound.add(a.var)
            a = a.body
        return a

    def bind(self, mine: ex.Var, described: ex.Var) -> None:
        if mine.dtype.is_float != described.dtype.is_float:
            raise Mismatch(mine, described, f"{described.name} of dtype {described.dtype}", str(mine.dtype))
        self.vars[described] = mine
        self.bound.add(mine)

    def loop(self, a: tir.For, b: tir.For) -> None:
        if a.kind != b.kind or a.thread != b.thread:
            raise Mismatch(a, b, f"a {b.thread or b.kind} loop", f"{a.var.name} is {a.thread or a.kind}")
        self.equal(a, b, a.start, b.start, f"{a.var.name} starts at {a.start}")
        self.equal(a, b, a.extent, b.extent, f"{a.var.name} runs over {a.extent}", f"a loop over {b.extent}")
        self.analyzer.bind(a)
        self.bind(a.var, b.var)
        self.stmt(a.body, b.body)

    def realize(self, a: tir.BlockRealize, b: tir.BlockRealize) -> None:
        self.expr(a.predicate, b.predicate, a)
        self.iterators(a, b)
        for side, other in (
            ("init", a.block.init),
            ("alloc_buffers", a.block.alloc_buffers or None),
            ("match_buffers", a.block.match_buffers or None),
        ):
            described = getattr(b.block, side) or None
            if side != "init" and (other is not None or described is not None):
                raise Mismatch(a.block, b.block, "a block without buffers of its own", f"{side} in {a.block.name}")
            if side == "init" and (other is None) != (described is None):
                raise Mismatch(
                    a.block,
                    b.block,
                    "no init" if described is None else "an init",
                    "none" if other is None else "an init",
                )
        if a.block.init is not None and b.block.init is not None:
            self.stmt(a.block.init, b.block.init)
        self.stmt(a.block.body, b.block.body)

    def iterators(self, a: tir.BlockRealize, b: tir.BlockRealize) -> None:
        mine = list(zip(a.block.iter_vars, a.iter_values, strict=True))
        for it, _ in mine:
            self.analyzer.bind(it)
            self.bound.add(it.var)
        for described, value in zip(b.block.iter_vars, b.iter_values, strict=True):
            if is_const(described.dom.extent, 1) and not (mine and self._same_iterator(mine[0], described, value)):
                self.vars[described.var] = described.dom.start  # the program has no iterator for its one value
                continue
            while mine and not self._same_iterator(mine[0], described, value):
                it, shown = mine[0]
                if not self.analyzer.can_prove(it.dom.extent <= 1):
                    raise Mismatch(a.block, b.block, _axis(described, value), _axis(it, shown))
                mine.pop(0)
            if not mine:
                raise Mismatch(a.block, b.block, f"an iterator {described.var.name}", "no more iterators")
            self.vars[described.var] = mine.pop(0)[0].var
        for it, shown in mine:
            if not self.analyzer.can_prove(it.dom.extent <= 1):
                raise Mismatch(a.block, b.block, "no more iterators", f"{it.var.name} = {shown}")

    def _same_iterator(self, mine: tuple[Any, ex.Expr], described: Any, value: ex.Expr) -> bool:
        it, own = mine
        same = self.worth(it.dom.start, described.dom.start) and self.worth(it.dom.extent, described.dom.extent)
        return it.kind == described.kind and same and self.worth(own, value)

    # ------------------------------------------------------------------ expressions

    def mapped(self, b: ex.Expr) -> ex.Expr | None:
        """Rewrite an index expression of the description in terms of the program's variables; return None if one of its
        variables has no known value yet.
        """
        if any(isinstance(p, tir.BufferLoad) or (isinstance(p, ex.Var) and p not in self.vars) for p in ex.walk(b)):
            return None
        rewritten: ex.Expr = ex.substitute(b, {v: e.astype(v.dtype) for v, e in self.vars.items()})
        return rewritten

    def worth(self, a: ex.Expr, b: ex.Expr) -> bool:
        """Return whether an integer expression of the program provably equals one of the description."""
        rewritten = self.mapped(b)
        return rewritten is not None and self.analyzer.can_prove_equal(a, rewritten)

    def equal(self, node: ex.Node, pattern: ex.Node, a: ex.Expr, b: ex.Expr, actual: str, expected: str = "") -> None:
        if not self.worth(a, b):
            raise Mismatch(node, pattern, expected or str(b), actual)

    def expr(self, a: ex.Expr, b: ex.Expr, around: ex.Node) -> None:
        """Compare two expressions; raise `Mismatch` at the innermost parts that differ."""
        spot = a if not isinstance(a, ex.IntImm | ex.FloatImm | ex.StringImm | ex.Var) else around
        if isinstance(b, ex.Var):
            self.variable(a, b, spot)
            return
        if a.dtype != b.dtype:
            raise Mismatch(spot, b, f"{b} of dtype {b.dtype}", f"{a} of dtype {a.dtype}")
        if (
            a.dtype.is_int
            and not any(isinstance(p, tir.BufferLoad) for e in (a, b) for p in ex.walk(e))
            and self.worth(a, b)
        ):
            return
        if type(a) is not type(b):
            raise Mismatch(spot, b, str(b), str(a))
        if isinstance(a, tir.BufferLoad):
            assert isinstance(b, tir.BufferLoad)
            self.access(a, b)
            return
        if isinstance(a, ex.IntImm | ex.FloatImm | ex.StringImm):
            if a.value != b.value:  # type: ignore[attr-defined]
                raise Mismatch(spot, b, str(b), str(a))
            return
        if isinstance(a, ex.Call) and isinstance(b, ex.Call) and (a.op != b.op or len(a.args) != len(b.args)):
            raise Mismatch(spot, b, str(b), str(a))
        if not isinstance(a, ex.BinaryOp | ex.Cast | ex.Call) and len(list(ex.children(a))) != len(
            list(ex.children(b))
        ):
            raise Mismatch(spot, b, str(b), str(a))
        self.operands(a, b, spot)

    def variable(self, a: ex.Expr, b: ex.Var, spot: ex.Node) -> None:
        if b in self.vars:
            if a.dtype == b.dtype and (a is self.vars[b] or (a.dtype.is_int and self.worth(a, b))):
                return
            raise Mismatch(spot, b, f"{b.name}, which stands for {self.vars[b]}", str(a))
        if b not in self.params:
            raise Mismatch(spot, b, b.name, str(a))
        moves = any(p in self.bound or isinstance(p, tir.BufferLoad) for p in ex.walk(a))
        if a.dtype != b.dtype or moves:
            raise Mismatch(spot, b, f"a {b.dtype} that stays the same, for {b.name}", f"{a} of dtype {a.dtype}")
        self.vars[b] = a

    def operands(self, a: ex.Expr, b: ex.Expr, spot: ex.Node) -> None:
        orders: list[Callable[[], None]] = []
        first, second = _parts(a), _parts(b)

        def in_order(parts: list[Any]) -> Callable[[], None]:
            def compare() -> None:
                for mine, described in zip(parts, second, strict=True):
                    self.expr(mine, described, spot)

            return compare

        orders.append(in_order(first))
        if isinstance(a, _COMMUTATIVE):
            orders.append(in_order(first[::-1]))
        failure: Mismatch | None = None
        for compare in orders:
            try:
                with self.attempt():
                    compare()
                return
            except Mismatch as reason:
                failure = failure or reason
        assert failure is not None  # no order fitted
        raise failure

    @contextmanager
    def attempt(self) -> Iterator[None]:
        """Undo the matches made inside the `with` block if it raises `Mismatch`."""
        variables, buffers = dict(self.vars), dict(self.buffers)
        try:
            yield
        except Mismatch:
            self.vars, self.buffers = variables, buffers
            raise

    # ------------------------------------------------------------------ buffers

    def access(self, a: tir.BufferLoad | tir.BufferStore, b: tir.BufferLoad | tir.BufferStore) -> None:
        """Compare an access of the program with one of the description. The difference of their indices is the start of
        the box.
        """
        mine, described = a.buffer, b.buffer
        if mine.dtype != described.dtype or not is_within(mine.scope, described.scope):
            text = f"{described.name}, {described.dtype} in {described.scope}"
            raise Mismatch(a, b, text, f"{mine.name}, {mine.dtype} in {mine.scope}")
        if a.predicate is not None or b.predicate is not None:
            raise Mismatch(a, b, "accesses without a mask", "a mask")
        lead = mine.ndim - described.ndim
        if lead < 0:
            raise Mismatch(a, b, f"{described.name} of {described.ndim} dimensions", f"{mine.name} has {mine.ndim}")
        offsets: list[ex.Expr] = []
        for d, index in enumerate(a.indices):
            inner = ex.const(0, index.dtype) if d < lead else self.mapped(b.indices[d - lead])
            if inner is None:
                raise Mismatch(a, b, f"a place of {described.name} that its loops decide", str(b))
            offset = self.analyzer.simplify(index - inner.astype(index.dtype))
            if any(part in self.bound for part in ex.walk(offset)):
                place = ", ".join(map(str, a.indices))
                raise Mismatch(a, b, f"{_place(b)} up to a constant offset", f"{mine.name}[{place}]")
            offsets.append(offset)
        if described not in self.buffers:
            self.buffers[described] = (mine, tuple(offsets))
            return
        partner, begins = self.buffers[described]
        if partner is not mine:
            raise Mismatch(a, b, f"{partner.name}, for which {described.name} stands", mine.name)
        if not all(self.analyzer.can_prove_equal(x, y) for x, y in zip(offsets, begins, strict=True)):
            text = ", ".join(map(str, begins))
            raise Mismatch(a, b, f"{_place(b)} in the box of {mine.name} that begins at ({text})", _place(a))


def _only_wraps(a: tir.BlockRealize) -> bool:
    """Return whether a block adds nothing to its body, like the one that `blockize` puts around an init."""
    block = a.block
    own = (*block.iter_vars, *block.alloc_buffers, *block.match_buffers)
    return not own and block.init is None and is_const(a.predicate, 1)


def _axis(it: ex.IterVar, value: ex.Expr) -> str:
    kind = {"S": "spatial", "R": "reduction", "O": "opaque"}[it.kind]
    return f"a {kind} iterator {it.var.name} = {value} in [{it.dom.start}, {it.dom.start + it.dom.extent})"


def _parts(e: ex.Expr) -> list[ex.Expr]:
    return [part for part in ex.children(e) if isinstance(part, ex.Expr)]


def _place(access: tir.BufferLoad | tir.BufferStore) -> str:
    return f"{access.buffer.name}[{', '.join(map(str, access.indices))}]"


def _kind(stmt: tir.Stmt) -> str:
    names: dict[type, str] = {
        tir.For: "a loop",
        tir.Seq: "several statements",
        tir.BlockRealize: "a block",
        tir.BufferStore: "a store",
        tir.If: "a condition",
        tir.LetStmt: "a variable",
        tir.Evaluate: "a call",
        tir.While: "a while loop",
        tir.Assert: "an assertion",
        tir.Block: "a block",
    }
    return names.get(type(stmt), type(stmt).__name__)
