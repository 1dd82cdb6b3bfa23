"""The work of a kernel as closed formulas in its symbolic sizes: the numbers of `count` for all sizes at once.

    work = formulas(kernel)
    print(work.flops)                       # 2*k*m*n
    work.flops.at({"n": 128, "m": 64, "k": 32})
    cost = work.flops.compiled(("n", "m", "k"))      # a NumPy function: thousands of sizes in one call

The walk over the kernel is the same as in `count`; the only difference is that the number of runs of a statement is a
formula instead of a number.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from ... import expr as ex
from ...arith.closed_sums import NoClosedForm
from ...arith.formula import Formula, capped, formula, largest, rated, symbol, up_to
from ..analysis.registers import in_registers
from ..nodes import Buffer, For, LetStmt, PrimFunc, Stmt
from .count import PRODUCTS, count, footprint
from .images import Access, distinct
from .iterations import Iterations, IterationSpace
from .walk import Walk, known_before_running


@dataclass(frozen=True, slots=True)
class Rates:
    """The rates of a core per cycle: multiply-adds of single elements, and bytes moved from its cache and
    from memory.
    """

    multiply_adds: float
    cache_nbytes: int
    cache: float
    memory: float


@dataclass(frozen=True, slots=True)
class LoopFormula:
    """A loop of a kernel, with its number of iterations and the number of distinct bytes that all of its iterations
    touch.

    The `depth` loops around it are at their middle iterations, as in `hottest`.
    """

    name: str
    depth: int
    loop: For
    extent: Formula
    touched: Formula


@dataclass(frozen=True, slots=True)
class WorkFormulas:
    """Like `Work`, with a formula in the symbolic `sizes` instead of each number.

    A formula that is not exact is an upper bound.
    """

    sizes: tuple[ex.Var, ...]
    operations: Mapping[str, Formula]
    flops: Formula
    integer_operations: Formula
    loads: Mapping[Buffer, Formula]
    stores: Mapping[Buffer, Formula]
    reads: Mapping[Buffer, Formula]
    writes: Mapping[Buffer, Formula]
    touched: Formula
    levels: tuple[LoopFormula, ...]

    @property
    def exact(self) -> bool:
        """Whether all formulas are exact."""
        several = (self.operations, self.loads, self.stores, self.reads, self.writes)
        return self.flops.exact and all(f.exact for formulas in several for f in formulas.values())

    @property
    def slots(self) -> Formula:
        """The arithmetic as a number of multiply-add slots, as in `Work.slots`."""
        zero = formula(0)
        fused = self.operations.get("fma", zero)
        products = sum((self.operations.get(name, zero) for name in PRODUCTS), zero) + fused
        rest = sum((f for name, f in self.operations.items() if name not in (*PRODUCTS, "fma")), zero) + fused
        return largest(products, rest)

    def moved(self, func: PrimFunc) -> Formula:
        """Return the number of bytes of the function's parameters that are read plus the number that are written, as in
        `Work.moved`.
        """
        zero = formula(0)
        return sum((self.reads.get(p, zero) + self.writes.get(p, zero) for p in func.buffers), zero)

    def cycles(self, func: PrimFunc, rates: Rates) -> Formula:
        """Return the predicted cycles on one core: those for the arithmetic or those for moving the bytes, whichever is
        larger.
        """
        moved = self.moved(func)
        fast, slow = rated(moved, rates.cache), rated(moved, rates.memory)
        return largest(rated(self.slots, rates.multiply_adds), up_to(moved, rates.cache_nbytes, fast, slow))


def formulas(func: PrimFunc) -> WorkFormulas:
    """Return the work done in one run of a kernel as formulas in its sizes, which are symbols named like its variables.

    Buffer sizes are assumed to be at least 1, as in lowering.
    """
    sizes = sizes_of(func)
    if not sizes:
        return _constants(func)
    walk = _FormulaWalk(IterationSpace(sizes))
    walk.stmt(func.body, Iterations(walk.space, {}))
    loads, stores = ({b: n for b, (n, _, _) in walk.accesses[kind].items()} for kind in ("read", "write"))
    reads, writes = (
        {b: walk.elements((kind,), b) * b.dtype.bytes for b in walk.accesses[kind]} for kind in ("read", "write")
    )
    registers = in_registers(func)
    return WorkFormulas(
        tuple(sizes), {name: formula(f) for name, f in walk.operations.items()}, formula(walk.flops),
        formula(walk.integers), loads, stores, reads, writes, walk.bytes_touched(registers),
        tuple(_levels(func.body, sizes, {}, 0, registers)),
    )  # fmt: skip


def _constants(func: PrimFunc) -> WorkFormulas:
    """Return the formulas of a kernel with fixed sizes. They come from counting, which is exact, while formulas may be
    bounds.
    """
    work, registers = count(func), in_registers(func)

    def all_of(numbers: Mapping[Any, int]) -> dict[Any, Formula]:
        return {key: Formula(formula(n).expr, work.exact) for key, n in numbers.items()}

    whole = all_of(
        {"flops": work.flops, "rest": work.integer_operations, "touched": footprint(func.body, {}, registers)}
    )
    return WorkFormulas(
        (), all_of(work.operations), whole["flops"], whole["rest"], all_of(work.loads), all_of(work.stores),
        all_of(work.reads), all_of(work.writes), whole["touched"], tuple(_levels(func.body, {}, {}, 0, registers)),
    )  # fmt: skip


def sizes_of(func: PrimFunc) -> dict[ex.Var, Any]:
    """Return the symbols for the variables in a kernel's shapes and for its integer scalar parameters."""
    shapes = [v for b in func.buffers for dim in b.shape for v in ex.walk(dim) if isinstance(v, ex.Var)]
    scalars = [p for p in func.params if isinstance(p, ex.Var) and p.dtype.is_int]
    sizes: dict[ex.Var, Any] = {}
    for v in dict.fromkeys([*scalars, *shapes]):
        if not isinstance(v, ex.DataVar):
            alike = sum(other.name == v.name for other in sizes)
            positive = v in shapes or isinstance(v, ex.SizeVar)
            sizes[v] = symbol(f"{v.name}_{alike}" if alike else v.name, positive)
    return sizes


def footprint_formula(stmt: Stmt, around: Iterations, registers: Collection[Buffer] = ()) -> Formula:
    """Return the number of distinct bytes of memory that a statement touches, like `count.footprint` for
    given sizes.
    """
    walk = _FormulaWalk(around.space)
    walk.stmt(stmt, around)
    return walk.bytes_touched(registers)


def _levels(
    stmt: Stmt, sizes: Mapping[ex.Var, Any], lets: dict[ex.Var, ex.Expr], depth: int, registers: Collection[Buffer]
) -> list[LoopFormula]:
    """Return the loops inside a statement, each with its formulas, before the loops inside it.

    The loops around each of them are at their middle iteration.
    """
    if isinstance(stmt, LetStmt) and known_before_running(stmt.value):
        lets = {**lets, stmt.var: ex.substitute(stmt.value, lets)}
    if not isinstance(stmt, For):
        parts = [child for child in ex.children(stmt) if isinstance(child, Stmt)]
        return [level for part in parts for level in _levels(part, sizes, lets, depth, registers)]
    space = IterationSpace(sizes)
    around = Iterations(space, {}, lets=lets)
    extent = ex.substitute(stmt.extent, lets)
    try:
        times = Formula(space.symbols.of(space.form(extent)))
    except NoClosedForm:
        times = Formula(formula(1).expr, False)
    touched = footprint_formula(stmt, around, registers)
    middle = ex.substitute(stmt.start, lets) + extent // 2
    inner = _levels(stmt.body, sizes, {**lets, stmt.var: middle}, depth + 1, registers)
    return [LoopFormula(stmt.var.name, depth, stmt, times, touched), *inner]


class _FormulaWalk(Walk[Iterations]):
    """Collects the accesses of a kernel.

    For each buffer, `accesses` has their number, each access with its iterations, and whether any of them has an
    unknown location.
    """

    def __init__(self, space: IterationSpace) -> None:
        super().__init__()
        self.space = space
        self.accesses: dict[str, dict[Buffer, tuple[Formula, list[Access], bool]]] = {"read": {}, "write": {}}

    def access(self, kind: str, buffer: Buffer, index: ex.Expr, predicate: ex.Expr | None, d: Iterations) -> None:
        number, places, anywhere = self.accesses[kind].get(buffer, (formula(0), [], False))
        lanes = index.dtype.lanes
        if lanes > 1 and not isinstance(index, ex.Ramp):
            self.value(index, d)  # a gather: its indices may be loads
        runs, base = d, index
        if isinstance(index, ex.Ramp):
            lane = ex.Var("lane", index.base.dtype)
            runs = d.loop(lane, ex.const(0), ex.const(lanes))
            base = index.base + index.stride * lane
            masked = None if predicate is None else lane_of(predicate, lane)
            if masked is not None:
                runs = runs.where(masked)
            elif predicate is not None:
                anywhere = True
        elif predicate is not None or lanes > 1:
            anywhere = True
        try:
            form = runs.form(base) if base.dtype.lanes == 1 and runs.exact else None
        except NoClosedForm:
            form = None
        masks = predicate is not None and isinstance(index, ex.Ramp)
        count = runs.iterations if masks else d.iterations * lanes
        if form is None:
            anywhere = True
        else:
            places.append(Access(form, runs))
        self.accesses[kind][buffer] = (number + count, places, anywhere)

    def size_of(self, buffer: Buffer) -> Formula | None:
        """Return the number of elements of a buffer; None if there is no formula for it."""
        total = formula(1)
        try:
            for dim in buffer.shape:
                total = Formula(total.expr * self.space.symbols.of(self.space.form(dim)))
        except NoClosedForm:
            return None
        return total

    def elements(self, kinds: Collection[str], buffer: Buffer) -> Formula:
        """Return the number of distinct elements of a buffer that accesses of the kinds `kinds` touch."""
        parts = [self.accesses[kind][buffer] for kind in kinds if buffer in self.accesses[kind]]
        number = sum((n for n, _, _ in parts), formula(0))
        whole = self.size_of(buffer)
        bound = Formula(number.expr, False)
        bound = bound if whole is None else capped(bound, whole)
        if any(anywhere for _, _, anywhere in parts):
            return bound
        touched = distinct([access for _, places, _ in parts for access in places], whole)
        return touched if touched.exact else capped(touched, number)

    def bytes_touched(self, registers: Collection[Buffer]) -> Formula:
        """Return the number of distinct bytes of all buffers that are read or written, not counting buffers in
        registers.
        """
        total = formula(0)
        for buffer in {**self.accesses["read"], **self.accesses["write"]}:
            if buffer not in registers:
                total = total + self.elements(("read", "write"), buffer) * buffer.dtype.bytes
        return total


def lane_of(x: ex.Expr, lane: ex.Var) -> ex.Expr | None:
    """Return one lane of a vector of integers or conditions as a function of the lane number; None for loads and other
    expressions.
    """
    if isinstance(x, ex.Ramp):
        return x.base + x.stride * lane
    if isinstance(x, ex.Broadcast):
        return x.value
    if x.dtype.lanes == 1:
        return x
    if isinstance(x, ex.Not):
        part = lane_of(x.a, lane)
        return None if part is None else ex.Not(part)
    if isinstance(x, ex.BinaryOp):
        a, b = lane_of(x.a, lane), lane_of(x.b, lane)
        return None if a is None or b is None else type(x)(a, b)
    return None
