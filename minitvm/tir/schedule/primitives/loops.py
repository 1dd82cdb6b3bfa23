"""Change the loops of a nest: split, fuse, reorder."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any

from ....expr import Expr, IntImm, Var, as_expr, const, replace, substitute
from ...conditions import is_const, iterations, uses
from ...nodes import For, ForKind, Seq, Stmt
from .. import programs as on
from .. import requirements as req
from ..registry import Failure, holds_inside, primitive, requirement
from ..state import ScheduleState, guard, nest_around, tidy


@requirement
def valid_factors(state: ScheduleState, loop: For, factors: Sequence[Any]) -> Failure | None:
    """factors are positive integers; at most one is None"""
    if len(factors) == 0:
        return Failure({loop: ""}, "at least one factor", "none")
    if sum(f is None for f in factors) > 1:
        return Failure({loop: ""}, "at most one factor left open (None)", f"{list(factors)}")
    analyzer = state.analyzer(loop)
    for factor in factors:
        if factor is None:
            continue
        if not as_expr(factor).dtype.is_int:
            return Failure({loop: ""}, "integers as factors", f"{factor}")
        if not analyzer.can_prove(as_expr(factor) > 0):
            return Failure({loop: ""}, "positive factors", f"{factor}")
    return None


@requirement
def covers(state: ScheduleState, loop: For, factors: Sequence[Any]) -> Failure | None:
    """product(factors) >= extent, if no factor is None"""
    if None in list(factors):
        return None
    product = _product([as_expr(f, loop.var.dtype) for f in factors], loop.var.dtype)
    analyzer = state.analyzer(loop)
    if analyzer.can_prove(product >= loop.extent):
        return None
    shown = analyzer.simplify(product)
    return Failure(
        {loop: f"{loop.extent} iterations"},
        f"factors whose product is at least {loop.extent}",
        f"{' * '.join(map(str, factors))} = {shown}",
        ("None as one of the factors: it is worked out",),
    )


predicable = holds_inside(
    "predicable", "with disable_predication, product(factors) = extent: no iteration beyond the loop's end runs"
)


@primitive(
    past="was split into",
    aka={"Halide": "split", "Exo": "divide_loop"},
    requires=[req.plain_loops, req.starts_at_zero, valid_factors, covers],
)
def split(
    state: ScheduleState,
    loop: For,
    factors: Sequence[int | Expr | None],
    preserve_unit_iters: bool = True,
    disable_predication: bool = False,
) -> list[For]:
    """Split a loop into nested loops with the extents `factors`, outermost first; one factor may be None.

    before:
        for i in range(100):
            with T.block("B"): B[vi] = A[vi] * 2.0
    call: `i_0, i_1 = sch.split(i, factors=[None, 32])`
    after:
        for i_0, i_1 in T.grid(4, 32):
            with T.block("B"):
                vi = T.axis.spatial(100, i_0 * 32 + i_1)
                T.where(i_0 * 32 + i_1 < 100)
                B[vi] = A[vi] * 2.0

    The order of iterations stays the same, so no dependence can break. If the product of the factors does not
    divide the extent, the blocks below get a predicate. `preserve_unit_iters=False` leaves loops of extent 1 out of
    the bindings. The new loops are serial: split first, and then choose which ones to vectorise, unroll or run in
    parallel.
    """
    dtype = loop.var.dtype
    analyzer = state.analyzer(loop)
    sizes = [
        None if f is None else as_expr(f).astype(dtype) if not isinstance(f, int) else const(f, dtype) for f in factors
    ]
    rest = _product([f for f in sizes if f is not None], dtype)
    extents = [_ceil_div(analyzer.simplify(loop.extent), analyzer.simplify(rest)) if f is None else f for f in sizes]
    extents = [analyzer.simplify(e) for e in extents]
    variables = [Var(f"{loop.var.name}_{k}", dtype) for k in range(len(extents))]
    value: Expr = variables[0]
    for variable, extent in zip(variables[1:], extents[1:], strict=True):
        value = (value if is_const(extent, 1) else value * extent) + variable
    body: Stmt = substitute(loop.body, {loop.var: value})
    if not analyzer.can_prove_equal(_product(extents, dtype), loop.extent):
        if disable_predication:
            raise predicable.refuse(
                Failure(
                    {loop: ""},
                    "factors that divide the extent, when predication is disabled",
                    f"{list(factors)} on {loop.extent} iterations",
                )
            )
        body = guard(body, value < loop.extent)
    body = nest_around(body, variables, extents)
    nest = tidy(body, state.analyzer(state.home(loop).parent[loop]), preserve_unit_iters, state.domains(loop), True)
    state.replace({loop: nest})
    return [_required(state, variable) for variable in variables]


_FROM_TWO = """
for i in range(2, 8):
    with T.block("A"):
        vi = T.axis.spatial(8, i)
        A[vi] = 1.0
"""
split.refuses(req.plain_loops, "sch.bind(i, 'blockIdx.x'); sch.split(sch.get_loops('C')[0], [2, None])", on.MATMUL)
split.refuses(req.starts_at_zero, "sch.split(i, [2, None])", _FROM_TWO)
split.refuses(valid_factors, "sch.split(i, [None, None])", on.MATMUL)
split.refuses(covers, "sch.split(i, [2, 3])", on.MATMUL)
split.refuses(predicable, "sch.split(i, [None, 3], disable_predication=True)", on.MATMUL)


@split.space
def _split_space(state: ScheduleState) -> Iterator[tuple[Any, ...]]:
    for loop in state.tree().loops.values():
        extent = loop.extent.value if isinstance(loop.extent, IntImm) else 8
        for factor in sorted({2, 3, 4, extent} | {d for d in range(2, min(extent, 64)) if extent % d == 0}):
            yield loop, [None, factor]
            yield loop, [factor, None]
        yield loop, [2, None, 2]


@requirement
def consecutive(state: ScheduleState, loops: Sequence[For]) -> Failure | None:
    """each loop is the only statement in the loop before it"""
    tree = state.home(loops[0])
    for outer, inner in itertools.pairwise(loops):
        if outer.body is inner:
            continue
        fault = f"{inner.var.name} is not directly inside {outer.var.name}"
        if isinstance(outer.body, Seq) and tree.parent.get(inner) is outer.body:
            fault = f"{inner.var.name} is one of {len(outer.body.stmts)} statements inside {outer.var.name}"
        return Failure(
            {outer: "outer", inner: "not its only child"},
            "loops nested directly in each other, outermost first",
            fault,
            ("reorder the loops first",),
        )
    return None


@requirement
def rectangular(state: ScheduleState, loops: Sequence[For]) -> Failure | None:
    """no start or extent of a loop depends on another of these loops"""
    variables = [loop.var for loop in loops]
    for loop in loops:
        if uses(loop.start, variables) or uses(loop.extent, variables):
            return Failure(
                {loop: "its domain"},
                "extents that do not depend on the other loops",
                f"{loop.var.name} runs {loop.extent} times",
            )
    return None


@requirement
def product_fits(state: ScheduleState, loops: Sequence[For]) -> Failure | None:
    """the product of all constant extents fits the dtype of the first loop"""
    dtype = loops[0].var.dtype
    count = math.prod(loop.extent.value for loop in loops if isinstance(loop.extent, IntImm))
    if count <= dtype.max:
        return None
    return Failure({loops[0]: "the outermost"}, f"at most {dtype.max} iterations, which {dtype} counts", str(count))


@primitive(
    past="was fused into",
    aka={"Halide": "fuse", "Exo": "mult_loops"},
    requires=[req.distinct_loops, req.plain_loops, req.starts_at_zero, consecutive, rectangular, product_fits],
)
def fuse(state: ScheduleState, *loops: For, preserve_unit_iters: bool = True) -> For:
    """Fuse consecutive nested loops into one loop.

    before:
        for i, j in T.grid(8, 4):
            with T.block("B"): B[vi, vj] = A[vi, vj] * 2.0
    call: `i_j_fused = sch.fuse(i, j)`
    after:
        for i_j_fused in range(32):
            with T.block("B"):
                vi = T.axis.spatial(8, i_j_fused // 4)
                vj = T.axis.spatial(4, i_j_fused % 4)
                B[vi, vj] = A[vi, vj] * 2.0

    The order of iterations stays the same, so every dependence is kept. The new loop is serial.
    """
    dtype = loops[0].var.dtype
    outer_analyzer = state.analyzer(state.home(loops[0]).parent[loops[0]])
    fused = Var("_".join([*(loop.var.name for loop in loops), "fused"]), dtype)
    values: dict[Var, Expr] = {}
    rest: Expr = fused
    for k, loop in reversed(list(enumerate(loops))):
        if is_const(loop.extent, 1):
            values[loop.var] = const(0, dtype) if k > 0 else rest
            continue
        values[loop.var] = rest % loop.extent if k > 0 else rest
        rest = rest // loop.extent
    # A loop of a negative extent does not run. Legal: a negative first extent times others of at least 0 is at most 0.
    around = state.home(loops[0]).all_loops_above(loops[0])
    counts = [iterations(loop.extent, *around) for loop in loops[1:]]
    extent = _product([loops[0].extent, *counts], dtype)
    body = substitute(loops[-1].body, values)
    fused_loop = For(fused, const(0, dtype), extent, ForKind.SERIAL, body)
    state.replace({loops[0]: tidy(fused_loop, outer_analyzer, preserve_unit_iters, state.domains(loops[0]), True)})
    return _required(state, fused)


fuse.refuses(req.distinct_loops, "sch.fuse()", on.MATMUL)
fuse.refuses(req.plain_loops, "sch.annotate(i, 'pragma_note', 1); sch.fuse(*sch.get_loops('C')[:2])", on.MATMUL)
fuse.refuses(req.starts_at_zero, "sch.fuse(i)", _FROM_TWO)
fuse.refuses(consecutive, "sch.fuse(i, k)", on.MATMUL)
fuse.refuses(rectangular, "sch.fuse(*sch.get_loops('A'))", on.TRIANGLE)
fuse.refuses(product_fits, "sch.fuse(*sch.get_loops('C')[:2])", on.HUGE_MATMUL)


@fuse.space
def _fuse_space(state: ScheduleState) -> Iterator[tuple[Any, ...]]:
    for loop in state.tree().loops.values():
        if isinstance(loop.body, For):
            yield loop, loop.body
            if isinstance(loop.body.body, For):
                yield loop, loop.body, loop.body.body


@primitive(
    past="was reordered into", aka={"Halide": "reorder", "Exo": "reorder_loops"},
    requires=[
        req.distinct_loops, req.single_chain, req.independent_domains, req.no_opaque_iterators, req.affine_bindings,
        req.keeps_dependences,
    ],
)  # fmt: skip
def reorder(state: ScheduleState, *ordered_loops: For) -> None:
    """Permute loops of a nest: they take the same positions as before, in the order in which you pass them.

    before:
        for i, j, k in T.grid(8, 4, 2):
            with T.block("B"): B[vi, vj, vk] = A[vk, vj, vi]
    call: `sch.reorder(k, i)`
    after:
        for k, j, i in T.grid(2, 4, 8):
            with T.block("B"):
                vi, vj, vk = T.axis.remap("SSS", [i, j, k])
                B[vi, vj, vk] = A[vk, vj, vi]
    """
    tree = state.home(ordered_loops[0])
    old, new = req.chain(tree, ordered_loops), req.new_order(tree, ordered_loops)
    body: Stmt = old[-1].body
    for loop in reversed(new):
        body = replace(loop, body=body)
    state.replace({old[0]: body})


_WAVEFRONT = """
for i, j in T.grid(8, 8):
    with T.block("A"): A[vi + 1, vj + 1] = A[vi, vj + 2] + 1.0
"""
_REPEATED_SUM = """
A: T.Buffer((8, 8))
for i, j in T.grid(4, 5):
    with T.block("B"):
        vi = T.axis.spatial(2, i // 2)
        vk = T.axis.reduce(5, j)
        with T.init(): B[vi] = 0.0
        B[vi] = B[vi] + A[vi, vk]
"""
reorder.refuses(req.distinct_loops, "sch.reorder(i, i)", on.MATMUL)
reorder.refuses(
    req.single_chain,
    "sch.decompose_reduction('C', k); sch.reorder(sch.get_loops('C_update')[2], sch.get_loops('C_update')[0])",
    on.MATMUL,
)
reorder.refuses(req.independent_domains, "sch.reorder(*sch.get_loops('A')[::-1])", on.TRIANGLE)
reorder.refuses(req.no_opaque_iterators, "sch.reorder(*sch.get_loops('A')[::-1])", on.OPAQUE)
reorder.refuses(req.affine_bindings, "sch.reorder(*sch.get_loops('B')[::-1])", _REPEATED_SUM)
reorder.refuses(req.keeps_dependences, "sch.reorder(*sch.get_loops('A')[::-1])", _WAVEFRONT)


@reorder.space
def _reorder_space(state: ScheduleState) -> Iterator[tuple[Any, ...]]:
    for loop in state.tree().loops.values():
        nest = [loop]
        while isinstance(nest[-1].body, For):
            nest.append(nest[-1].body)
        for i, outer in enumerate(nest):
            for inner in nest[i + 1 :]:
                yield inner, outer
        if len(nest) == 3:
            yield nest[2], nest[0], nest[1]


def _product(factors: Sequence[Expr], dtype: str) -> Expr:
    result: Expr | None = None
    for factor in factors:
        result = factor if result is None else result * factor
    return const(1, dtype) if result is None else result


def _ceil_div(a: Expr, b: Expr) -> Expr:
    if isinstance(a, IntImm) and isinstance(b, IntImm):
        return const(-(-a.value // b.value), a.dtype)
    return (a + (b - 1)) // b


def _required(state: ScheduleState, var: Var) -> For:
    loop = state.loop(var)
    assert loop is not None  # it was just made
    return loop
