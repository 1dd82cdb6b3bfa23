"""Random nests of loops over symbolic sizes, and their formulas beside what is counted."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from minitvm.expr import And, Expr, Max, Min, Or, SizeVar, Var, as_expr, call, const
from minitvm.tir.analysis.registers import in_registers
from minitvm.tir.nodes import Buffer, BufferLoad, BufferStore, For, ForKind, If, PrimFunc, Seq, Stmt
from minitvm.tir.work import WorkFormulas, count, footprint

SIZES = [(1, 1), (2, 5), (3, 2), (4, 4), (7, 3), (13, 6), (16, 1), (17, 9), (33, 4)]


def least(a: Any, b: Any) -> Expr:
    return Min(as_expr(a), as_expr(b))


def most(a: Any, b: Any) -> Expr:
    return Max(as_expr(a), as_expr(b))


def miscounted(kernel: PrimFunc, work: WorkFormulas, sizes: Any = SIZES) -> str:
    """A formula that is not what is counted for given sizes, or less if it is not exact; empty if there is none."""
    for pair in sizes:
        at = dict(zip(work.sizes, pair, strict=False))
        counted = count(kernel, at)
        pairs = [
            (work.flops, counted.flops), (work.integer_operations, counted.integer_operations),
            (work.slots, counted.slots), (work.moved(kernel), counted.moved(kernel)),
            *((f, counted.operations.get(name, 0)) for name, f in work.operations.items()),
            *((f, counted.loads[b]) for b, f in work.loads.items()),
            *((f, counted.stores[b]) for b, f in work.stores.items()),
            *((f, counted.reads[b]) for b, f in work.reads.items()),
            *((f, counted.writes[b]) for b, f in work.writes.items()),
            (work.touched, footprint(kernel.body, at, in_registers(kernel))),
        ]  # fmt: skip
        for formula, number in pairs:
            value = formula.at(at)
            if counted.exact:
                right = value == number if formula.exact else value >= number
                if not right:
                    return f"{formula} is {value}, counted {number} at {at} in {kernel.script()}"
    return ""


@st.composite
def nests(draw: st.DrawFn) -> PrimFunc:
    """A kernel of one to three loops over two sizes, with guards, that reads and writes by sums of its variables."""
    n, m = SizeVar("n"), SizeVar("m")
    loops: list[Var] = []

    def extent() -> Expr:
        kinds = ["n", "m", "constant", "tiles", "tail"] + ["triangle", "rest", "edge", "half"] * bool(loops)
        kind = draw(st.sampled_from(kinds))
        tile = draw(st.sampled_from([2, 4, 16]))
        if kind in ("triangle", "rest", "edge", "half"):
            outer = draw(st.sampled_from(loops))
            return {
                "triangle": outer + draw(st.integers(0, 2)), "rest": n - outer, "half": (n - outer + 1) // 2,
                "edge": least(tile, n - outer * tile),
            }[kind]  # fmt: skip
        return {
            "n": n, "m": m, "constant": const(draw(st.integers(1, 5))), "tiles": (n + (tile - 1)) // tile,
            "tail": n % tile,
        }[kind]  # fmt: skip

    def affine() -> Expr:
        total: Expr = const(draw(st.integers(0, 3)))
        for v in loops:
            c: Any = draw(st.sampled_from([0, 1, 1, 1, 2, 3, 16, "m", "n"]))
            total = total + v * {"m": m, "n": n}.get(c, c)
        return total

    def condition() -> Expr:
        v = draw(st.sampled_from(loops))
        limit = draw(st.sampled_from([n, m, n - 1, const(3), n // 2, least(n, m), most(n, 4)]))
        kind = draw(
            st.sampled_from(["below", "from", "sum", "above", "apart", "equal", "either", "both", "rest", "size"])
        )
        return {
            "below": v < limit, "from": v >= 1, "above": affine() >= limit, "size": m > 3, "sum": affine() < limit,
            "apart": v != 2, "equal": v == limit, "either": Or(v < 1, v >= limit),
            "both": And(v >= 1, affine() < limit), "rest": v % 4 < limit,
        }[kind]  # fmt: skip

    variables = [Var(name) for name in "ijk"[: draw(st.sampled_from([1, 1, 2, 2, 3]))]]
    extents = []
    for v in variables:
        extents.append(extent())
        loops.append(v)
    a, b = Buffer("a", (n * m * 64 + n * 300 + 4096,)), Buffer("b", (n * m * 64 + n * 300 + 4096,))
    load: Expr = BufferLoad(a, (affine(),))
    if draw(st.booleans()):
        load = call("if_then_else", condition(), load, const(0.0))
    index = affine()
    body: Stmt = BufferStore(b, load * const(2.0), (index,))
    if draw(st.booleans()):  # beside it, behind it, or over it, and perhaps only sometimes
        index = index + draw(st.sampled_from([const(0), const(1), n - 1, n, loops[0]]))
        other: Stmt = BufferStore(b, const(1.0), (index,))
        body = Seq((body, If(condition(), other) if draw(st.booleans()) else other))
    for v, times in reversed(list(zip(variables, extents, strict=True))):
        if draw(st.integers(0, 2)) == 0:
            body = If(condition(), body)
        loops.pop()
        body = For(v, const(0), as_expr(times), ForKind.SERIAL, body)
        loops[:] = [w for w in variables if w is not v and variables.index(w) < variables.index(v)]
    return PrimFunc((a, b, n, m), body)


def chosen() -> list[PrimFunc]:
    """Nests that random ones rarely are, each with what a formula could get wrong."""
    n, m, i, j = SizeVar("n"), SizeVar("m"), Var("i"), Var("j")
    b = Buffer("b", (n * n * 4 + 4096,))

    def kernel(extents: list[Any], body: Stmt) -> PrimFunc:
        for v, extent in reversed(list(zip((i, j), extents, strict=False))):
            body = For(v, const(0), as_expr(extent), ForKind.SERIAL, body)
        return PrimFunc((b, n, m), body)

    def store(index: Expr) -> Stmt:
        return BufferStore(b, BufferLoad(b, (index,)) + const(1.0), (index,))

    return [
        kernel([n, (n - i + 1) // 2], store(i * n + j)),  # half a triangle: a quotient is summed
        kernel([n], If(Or(i < 3, i >= n - 3), store(i))),  # the two may overlap
        kernel([n], Seq((If(m > 3, store(i)), store(i)))),  # the same elements, once only for some sizes
        kernel([n, n + 1], store(i * n + j)),  # each row begins with the last element of the one before
        kernel([n, n], If(And(j * 2 >= i, j * 2 < i + 1), store(i))),  # no j for every second i
        kernel([n, i], Seq((store(i + j), store(i * 2 + j)))),  # one triangle, two steps
    ]
