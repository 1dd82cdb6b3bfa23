"""Workloads for integer reasoning, beside enumeration: answers to many small questions of one random situation.

`questions()`  facts, bounds, proofs and remainders under ranges, symbolic sizes and several conditions at once
`boxes()`      what accesses touch, and what hulls, intersections, covers and gaps of boxes are said to be
`bindings()`   how maps of loops are read, which are claimed to be one-to-one or onto, and what their inverses are
`dtypes()`     expressions in every dtype with their edges, signs of zero and NaN among them, simplified
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
from hypothesis import strategies as st

from minitvm.arith import Analyzer, regions, simplify
from minitvm.arith.iter_check import inverse, to_expr, values
from minitvm.arith.iter_map import detect
from minitvm.errors import ExecutionError
from minitvm.expr import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    And,
    Cast,
    DType,
    Expr,
    Max,
    Min,
    Or,
    Range,
    SizeVar,
    Var,
    binary,
    call,
    const,
)
from minitvm.reference.meaning import scalar
from minitvm.reference.strategies import exprs
from tests.arith.expressions import evaluate, points
from tests.drawing import Drawing, Seeded

from .oracle import Noticed, Trial, Workload, directed, drawn
from .workloads import Draw

COMPARE = (LT, LE, GT, GE, EQ, NE)


class _Forms:
    """Sums, quotients, remainders, minima and powers of a few variables; divisors may be sizes."""

    def __init__(self, dice: Drawing, variables: list[Var], sizes: list[Var]) -> None:
        self.one, self.int = dice.one, dice.int
        self.variables, self.sizes = variables, sizes

    def sum(self) -> Expr:
        total = self.one(*self.variables) * self.one(1, 1, 2, 3, 4, 8, -1, -2)
        if self.int(0, 1):
            total = total + self.one(*self.variables, *self.sizes) * self.one(1, 1, 2, 4, -1, -3)
        return total + self.int(-4, 4)

    def divisor(self) -> Any:
        return self.one(*self.sizes) if self.sizes and self.int(0, 1) else self.one(2, 3, 4, 8)

    def form(self, depth: int = 2) -> Expr:
        kind = self.one("sum", "quotient", "remainder", "split", "least", "power", "power", "nested", "nested",
                        "nested", "truncated", "bits")  # fmt: skip
        y = self.sum()
        if kind == "sum" or depth == 0:
            return y
        if kind == "quotient":
            return y // self.divisor() * self.one(1, 1, 2, -1) + self.one(0, *self.variables)
        if kind == "remainder":
            return y % self.divisor() * self.one(1, 1, -1) + self.one(0, *self.variables)
        if kind == "split":
            d, c = self.one(2, 3, 4), self.one(1, 1, 2)
            step = self.one(d, d, 2 * d, d + 1)
            return (y // d) % self.one(2, 3) * (c * step) + y % d * c
        if kind == "least":
            least = binary(self.one(Min, Max), self.form(depth - 1), self.sum())
            return least * self.one(1, -1, 2) + self.one(0, *self.variables)
        if kind == "power":
            v = self.one(*self.variables) + self.one(0, 0, -2, 1)
            return self.one(v * v, v * v * v, v * self.one(*self.variables))
        if kind == "truncated":
            d = const(self.one(2, 3, 4))
            return self.one(_div, _mod)(y, d)
        if kind == "bits":
            return call("bitwise_and", y, const(self.one(1, 2, 3, 4, 7, 8)))
        inner = self.form(depth - 1)
        d, b, k = self.one(2, 3, 4), self.one(2, 4, 6), self.one(0, 0, 1, 3)
        return self.one((inner // b * self.one(1, 1, 3) + k) // d, (inner % b + k) // d, (inner % b * 2 + k) % d)

    def condition(self, joined: bool = True) -> Expr:
        if joined and self.int(0, 3) == 0:
            return self.one(And, Or)(self.condition(False), self.condition(False))
        kind, limit = self.one("variable", "quotient", "sum", "form"), const(self.int(-4, 9))
        if kind == "form":
            return self.one(*COMPARE)(self.form(1), self.one(limit, self.sum()))
        plain: Expr = self.one(*self.variables)
        if kind == "quotient":
            plain = plain // self.one(2, 3, 4)
        return self.one(*COMPARE)(self.sum() if kind == "sum" else plain, limit)


def _div(a: Expr, b: Expr) -> Expr:
    from minitvm.expr import Div

    return Div(a, b)


def _mod(a: Expr, b: Expr) -> Expr:
    from minitvm.expr import Mod

    return Mod(a, b)


def questions(examples: int = 400) -> Workload:
    """One situation, many questions."""

    def body(trial: Trial, seed: int) -> None:
        dice = Seeded(seed, 0)
        box: dict[Var, tuple[int, int]] = {}
        for name in "xyz"[: dice.int(1, 3)]:
            low = dice.one(-5, -3, -1, 0, 0, 3, 8)
            box[Var(name)] = (low, low + dice.int(0, 6))
        sizes = [SizeVar("n")] if dice.flag() else []
        f = _Forms(dice, list(box), sizes)
        analyzer = Analyzer(box)
        for n in sizes:
            analyzer.bind(n, dice.one((1, None), (2, 4), (2, 3)))
        facts = [f.condition() for _ in range(dice.int(0, 3))]
        forms = [f.form() for _ in range(dice.int(1, 3))]
        truths = [f.condition() for _ in range(2)]
        whole = {**box, **dict.fromkeys(sizes, (2, 3))}
        trial.compared += 1
        with analyzer.constraint(*facts):
            every = [env for env in points(whole) if all(evaluate(c, env) for c in facts)]
            for e in (*forms, *box):
                _ask(analyzer, e, every, facts)
            for c in truths:
                simple, proved = analyzer.simplify(c), analyzer.can_prove(c)
                for env in every:
                    _hold(bool(evaluate(simple, env)) == bool(evaluate(c, env)), f"{c} -> {simple} at {env}, {facts}")
                    _hold(not proved or bool(evaluate(c, env)), f"proved {c} at {env} under {facts}")

    return directed("questions of integers", lambda: range(examples), body)


def _ask(analyzer: Analyzer, e: Expr, every: list[dict[Var, int]], facts: list[Expr]) -> None:
    simple, (low, high), (step, base) = analyzer.simplify(e), analyzer.bounds(e), analyzer.modular(e)
    values = [evaluate(e, env) for env in every]
    for env, value in zip(every, values):
        _hold(evaluate(simple, env) == value, f"{e} -> {simple} at {env} under {facts}")
    if not values:
        return
    least, most = min(values), max(values)
    _hold(
        (low is None or low <= least) and (high is None or high >= most), f"bounds of {e}: {low}, {high} for {values}"
    )
    _hold(all(v == base if step == 0 else v % step == base % step for v in values), f"{e} modulo {step} is {base}")
    for k in (least - 1, least, least + 1, most - 1, most, most + 1):
        for kind in COMPARE:
            question = kind(e, const(k))
            holds = [bool(evaluate(question, env)) for env in every]
            _hold(not analyzer.can_prove(question) or all(holds), f"proved {question} under {facts}")


def _hold(holds: bool, text: str) -> None:
    if not holds:
        raise Noticed("enumeration", text)


def boxes(examples: int = 300) -> Workload:
    """Boxes of accesses whose inner loops may depend on outer ones."""

    def body(trial: Trial, seed: int) -> None:
        dice = Seeded(seed, 1)
        i, j, k = Var("i"), Var("j"), Var("k")
        first = dice.one(i, -i, i * 2, const(0), const(0))
        domains = {
            i: Range(const(dice.int(-2, 2)), const(dice.int(1, 4))),
            j: Range(first, const(dice.int(1, 5))),
        }
        f = _Forms(dice, [i, j, k], [])
        indices = [dice.one(f.sum, f.form)() for _ in range(dice.int(1, 2))]
        trial.compared += 1
        found = regions.evaluate(indices, domains, Analyzer({k: (-3, 4)}))
        made = []
        for at in range(-3, 5):
            touched = {tuple(evaluate(e, env) for e in indices) for env in _iterations(domains, {k: at})}
            cells = [_interval(r, {k: at}) for r in found.box]
            for cell in touched:
                inside = all(c in r for d, (c, r) in enumerate(zip(cell, cells)) if d not in found.unbounded)
                _hold(inside, f"{indices} at k={at}: {cell} outside of {cells}")
            if found.exact:
                _hold(len(touched) == len(list(itertools.product(*cells))), f"{indices} is not all of {cells}")
            made.append(cells)
        other = tuple(_range(dice, k) for _ in indices)
        analyzer = Analyzer({k: (-3, 4)})
        mine = tuple(_range(dice, k) for _ in indices)
        covers, apart = regions.covers(mine, other, analyzer), regions.disjoint(mine, other, analyzer)
        meet, both = regions.intersect(mine, other, analyzer), regions.hull(mine, other, analyzer)
        for at in range(-3, 5):
            a, b, m, h = ([_interval(r, {k: at}) for r in box] for box in (mine, other, meet, both))
            _hold(not covers or all(set(y) <= set(x) for x, y in zip(a, b)), f"{mine} covers {other}")
            _hold(not apart or any(not set(x) & set(y) for x, y in zip(a, b)), f"{mine} apart from {other}")
            _hold(all(set(x) & set(y) == set(z) for x, y, z in zip(a, b, m)), f"{mine} meets {other} in {meet}")
            _hold(all(set(x) | set(y) <= set(z) for x, y, z in zip(a, b, h)), f"hull of {mine} and {other}: {both}")

    return directed("boxes", lambda: range(examples), body)


def _range(dice: Drawing, k: Var) -> Range:
    start = dice.one(const(0), k, k * 2, -k, k // 2) + dice.int(-2, 3)
    return Range(start, const(dice.int(0, 5)))


def _interval(r: Range, env: dict[Var, int]) -> range:
    start, extent = evaluate(r.start, env), evaluate(r.extent, env)
    return range(start, start + extent)


def _iterations(domains: dict[Var, Range], env: dict[Var, int]) -> list[dict[Var, int]]:
    every = [env]
    for var, r in domains.items():
        every = [{**e, var: v} for e in every for v in _interval(r, e)]
    return every


def bindings(examples: int = 400) -> Workload:
    """Claims about maps of loops, under predicates of all kinds."""

    def body(trial: Trial, seed: int) -> None:
        dice = Seeded(seed, 2)
        loops = {Var("ij"[k]): dice.one(1, 2, 3, 4, 5, 6, 6, 8) for k in range(dice.int(1, 2))}
        names = list(loops)

        def fused() -> Expr:
            last = loops[names[-1]]
            total: Expr = names[0] * dice.one(1, last, last, last - 1, last + 1, 2)
            if len(names) > 1:
                total = total + names[1] * dice.one(1, 1, 2)
            return total

        d = dice.int(2, 4)

        def part(y: Expr) -> Expr:
            kind = dice.one("whole", "whole", "quotient", "quotient", "remainder", "remainder", "digits")
            if kind == "digits":  # some that overlap, and some of one weight
                some = (y // d, y % d, y % (2 * d), y // (2 * d), y // d % 2)
                return dice.one(*some) * dice.one(1, 1, d, -1) + dice.one(*some) * dice.one(1, 1, 2)
            return {"whole": y, "quotient": y // d, "remainder": y % d}[kind]

        y = fused()
        wanted = [part(dice.one(y, y, names[0], fused())) for _ in range(dice.int(1, 2))]
        relation = dice.one(None, None, LT, LE, GT, GE)
        predicate: Any = True
        if relation is not None:
            limit = const(dice.int(0, 12))
            predicate = relation(y, limit) if relation in (LT, LE) else relation(limit, y)
        level = dice.one("none", "surjective", "injective", "bijective")
        trial.compared += 1
        found = detect(wanted, loops, predicate, level)
        if not found:
            return
        every = [dict(zip(names, p)) for p in itertools.product(*(range(n) for n in loops.values()))]
        kept = [env for env in every if relation is None or evaluate(predicate, env)]
        reached = [tuple(evaluate(e, env) for e in wanted) for env in kept]
        forms = [to_expr(row, Analyzer(), "int32") for row in found.sums]
        for env, place in zip(kept, reached):
            read = tuple(evaluate(e, env) for e in forms)
            _hold(read == place, f"{wanted} is read as {forms} on {loops} where {predicate}: {read} at {env}")
        if level in ("injective", "bijective"):
            _hold(len(set(reached)) == len(reached), f"{wanted} is not one-to-one on {loops} where {predicate}")
            outputs = [Var(f"o{k}") for k in range(len(wanted))]
            back = inverse(found, outputs)
            for env, place in zip(kept, reached):
                for loop, e in back.items():
                    _hold(
                        evaluate(e, dict(zip(outputs, place))) == env[loop], f"{e} is not {loop} of {wanted} at {env}"
                    )
        if level in ("surjective", "bijective") and reached:
            sides = [set(side) for side in zip(*reached)]
            whole = 1
            for side in sides:
                whole *= len(side)
            _hold(len(set(reached)) == whole, f"{wanted} does not reach all of {sides} on {loops} where {predicate}")
            for e, row, side in zip(wanted, found.sums, sides):
                told = values(row)
                if told is not None:
                    first, count = (evaluate(Analyzer().to_expr(x, "int32"), {}) for x in told)
                    spot = f"{wanted} on {loops} where {predicate}, {level}"
                    _hold(side == set(range(first, first + count)), f"{e} is {side}, not {count} from {first}: {spot}")

    return directed("bindings", lambda: range(examples), body)


def dtypes(examples: int = 400) -> Workload:
    """Expressions of one variable and constants, simplified, at the edges of their dtype."""

    def body(trial: Trial, draw: Draw) -> None:
        dtype = DType(
            draw(st.sampled_from(["int8", "uint8", "int16", "uint32", "uint64", "float16", "float32", "float64"]))
        )
        x = Var("x", dtype)
        e = draw(st.one_of(st.just(x), exprs([x], dtype, max_depth=3, constants=(-3, 3)),
                           exprs([], dtype, max_depth=2, constants=(-7, 7))))  # fmt: skip
        if dtype.is_float:
            zero = const(draw(st.sampled_from([0.0, -0.0, 0.1, 1.0])), dtype)
            e = draw(st.sampled_from([e + zero, e - zero, zero + e, e * zero, e / const(1.0, dtype)]))
            if draw(st.booleans()):
                e = Cast(DType(draw(st.sampled_from(["float32", "float64"]))), draw(st.sampled_from([e, zero])))
            numbers = [dtype.numpy.type(v) for v in (0.0, -0.0, 1.5, -2.0, np.inf, np.nan)]
        elif draw(st.booleans()):
            numbers = [dtype.min, 0, 1, dtype.max]
        else:
            target = DType(draw(st.sampled_from(["int32", "int64", "int16", "uint32"])))
            e = Cast(target, e) + const(draw(st.integers(0, 3)), target)
            limit = const(draw(st.sampled_from([0, 1, 5])), target)
            e = call("if_then_else", draw(st.sampled_from(COMPARE))(e, limit), e, e // const(2, target))
            numbers = [dtype.min, dtype.min + 1, 0, 1, 5, dtype.max - 1, dtype.max]
        trial.compared += 1
        simple = simplify(e)
        for value in numbers:
            try:
                wanted = scalar.evaluate(e, {x: value})
            except ExecutionError:  # a division by zero
                continue
            found = scalar.evaluate(simple, {x: value})
            same = wanted == found and np.signbit(wanted) == np.signbit(found)
            same = same or (wanted != wanted and found != found)
            _hold(bool(same), f"{e} -> {simple} at {value}: {found} instead of {wanted}")

    return drawn("expressions in every dtype", body, examples)
