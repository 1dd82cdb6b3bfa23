"""Compute each value only once and name it, if a stored expression computes it several times.

An operator that reads its operand twice (such as GELU, or a quantisation that tests for NaN) duplicates the expression
that is inlined into it, and k such operators in a row produce 2^k copies. LLVM would find that the copies are equal,
but each one costs compile time. The graph of distinct parts is small, so each part that occurs several times becomes a
let.
"""

from __future__ import annotations

from typing import Any

from ...arith.affine import structural_key
from ...expr import DataVar, Expr, Node, Var, map_children, rewrite, walk
from ...expr.conditions import certain_parts
from ..nodes import Async, BufferLoad, BufferStore, Instruction, LetStmt, PrimFunc, Stmt, is_copied

WORTH = 64  # the nodes that sharing must save in a tree before any part gets a name
LEAST = 4  # the fewest nodes of a part that gets a name


def share_values(func: PrimFunc) -> PrimFunc:
    """Name values that are computed several times: `C[i] = f(g(x)) * g(x)` -> `v = g(x); C[i] = f(v) * v`, if that
    makes an expression much smaller.

    before:
        for i in range(8):
            B[i] = (
                T.exp(T.sqrt(A[i] * A[i] + 1.0)) * T.exp(T.sqrt(A[i] * A[i] + 1.0)) * T.exp(T.sqrt(A[i] * A[i] + 1.0)) +
                T.exp(T.sqrt(A[i] * A[i] + 1.0)) * T.exp(T.sqrt(A[i] * A[i] + 1.0)) * T.exp(T.sqrt(A[i] * A[i] + 1.0)) +
                T.exp(T.sqrt(A[i] * A[i] + 1.0)) * T.exp(T.sqrt(A[i] * A[i] + 1.0)) * T.exp(T.sqrt(A[i] * A[i] + 1.0)) +
                T.exp(T.sqrt(A[i] * A[i] + 1.0)) * T.exp(T.sqrt(A[i] * A[i] + 1.0)) * T.exp(T.sqrt(A[i] * A[i] + 1.0))
            )
    after:
        for i in range(8):
            value: T.float32 = T.exp(T.sqrt(A[i] * A[i] + 1.0))
            value_1: T.float32 = value * value * value
            B[i] = value_1 + value_1 + value_1 + value_1
    """
    return func.with_body(rewrite(func.body, _share, leave=(Expr, Instruction, Async)))


def _share(node: Node) -> Any:
    if isinstance(node, Async):
        shared = _share(node.body)
        return None if shared is None else _begun(shared)
    if not isinstance(node, BufferStore):
        return None
    dag = _Dag()
    root = dag.add(node.value)
    if dag.trees[root] - len(dag.nodes) < WORTH:
        return None
    return dag.stored(node, root)


def _begun(stmt: Stmt) -> Stmt:
    """Make a store, which may be inside lets, asynchronous again, unless it is no longer a plain copy."""
    if isinstance(stmt, LetStmt):
        return LetStmt(stmt.var, stmt.value, _begun(stmt.body))
    return Async(stmt) if isinstance(stmt, BufferStore) and is_copied(stmt.value) else stmt


class _Dag:
    """The distinct parts of an expression, numbered so that operands have smaller numbers than their users."""

    def __init__(self) -> None:
        self.numbers: dict[Any, int] = {}
        self.nodes: list[Expr] = []
        self.parts: list[tuple[int, ...]] = []  # numbers of the operands
        self.certain: list[tuple[int, ...]] = []  # the operands that are always computed with the node
        self.trees: list[int] = []  # the number of nodes in the tree of each

    def add(self, e: Any) -> int:
        """Return the number of an expression, adding the expression if it is new."""
        if isinstance(e, BufferLoad) or not isinstance(e, Expr) or not e._children:
            operands: list[Expr] = []
            key: Any = structural_key(e)
        else:
            certain, perhaps = certain_parts(e)
            operands = [*certain, *perhaps]  # type: ignore[list-item]
            key = None
        numbers = tuple(self.add(operand) for operand in operands)
        if key is None:
            own = (getattr(e, name) for name in e.__dataclass_fields__ if name not in e._children)
            key = (type(e), *map(structural_key, own), numbers)
        number = self.numbers.setdefault(key, len(self.nodes))
        if number == len(self.nodes):
            self.nodes.append(e)
            self.parts.append(numbers)
            self.certain.append(numbers[: len(certain_parts(e)[0])] if operands else ())
            self.trees.append(1 + sum(self.trees[n] for n in numbers))
        return number

    def stored(self, store: BufferStore, root: int) -> Stmt:
        """Return the store, wrapped in lets for the parts that it certainly computes and that several nodes use."""
        # Legal: expressions have no effects, and the store happens after its whole value is computed, so equal parts
        # have equal values. Only parts that are always computed get a name, so nothing new is computed.
        sure = {root}
        for number in range(root, -1, -1):  # readers have higher numbers
            if number in sure:
                sure.update(self.certain[number])
        uses = [0] * len(self.nodes)
        for numbers in self.parts:
            for number in numbers:
                uses[number] += 1
        written: list[Expr] = []
        named: list[tuple[Var, Expr]] = []
        for number, e in enumerate(self.nodes):
            value = self._with_operands(e, [written[n] for n in self.parts[number]])
            if number in sure and number != root and uses[number] > 1 and self._size(number) >= LEAST:
                var: Var = DataVar("value", e.dtype)
                named.append((var, value))
                value = var
            written.append(value)
        result: Stmt = BufferStore(store.buffer, written[root], store.indices, store.predicate)
        for var, value in reversed(named):
            result = LetStmt(var, value, result)
        return result

    def _size(self, number: int) -> int:
        e = self.nodes[number]
        return self.trees[number] if self.parts[number] else sum(1 for _ in walk(e)) if isinstance(e, BufferLoad) else 0

    def _with_operands(self, e: Expr, operands: list[Expr]) -> Expr:
        if not operands:
            return e
        certain, perhaps = certain_parts(e)
        new = {id(old): part for old, part in zip([*certain, *perhaps], operands, strict=True)}
        return map_children(e, lambda child: new[id(child)])
