"""What the affine normal form leaves open about symbolic sizes: which rule decides it, and that it is right."""

from __future__ import annotations

import pytest

from minitvm import te, topi
from minitvm.arith import Analyzer
from minitvm.arith.polynomials import _shown
from minitvm.arith.reasons import recording, summary
from minitvm.expr import EQ, DataVar, Expr, SizeVar, Var
from minitvm.target import Target
from minitvm.tir.schedule import Schedule
from minitvm.tir.transform.pipeline import lower

from .expressions import evaluate, points

n, m, k, i, j, last, f = SizeVar("n"), SizeVar("m"), SizeVar("k"), Var("i"), Var("j"), Var("last"), Var("f")
SIGN, DIVISION, CANCEL = "sign of a polynomial", "x = q*d + r", "(g*a) // (g*b) -> a // b, (g*a) % (g*b) -> g*(a % b)"
MERGE, NESTED = "d*(y // d) + y % d -> y", "(y // b) // d -> y // (b*d)"
MOD, GROUPED = (
    "(c*(y % b) + z) % d -> (c*y + z) % d",
    "(g*y + z) // (g*b) -> y // b, (g*y + z) % (g*b) -> g*(y % b) + z",
)

# expression, what becomes of it, the rule beyond the normal form that it needs ("" where there is none)
DECIDED = [
    (n * m + m <= (n + 1) * m, "bool(True)", ""),
    (EQ((i * n + j) // n, i), "bool(True)", ""),
    ((last * n * m + j * m + i) % m, "i", ""),
    ((n * k + n) // n, "k + 1", ""),
    (i * n + j < m * n, "bool(True)", ""),
    (f // n < m, "bool(True)", ""),
    (n * n + m * m >= n * m * 2, "bool(True)", SIGN),
    ((n + 1) * (m + 1) * (n - m) * (n - m) < 0, "bool(False)", SIGN),
    ((f * (k + 1) + last) // (k + 1), "f", DIVISION),
    ((n * m + m * k) // (m * f + m), "(n + k) // (f + 1)", CANCEL),
    ((i * n * 4 + j * n) % (n * 8), "n * ((i * 4 + j) % 8)", CANCEL),
    (f // n * n + f % n, "f", MERGE),
    (n * (f // n) * 88 + f % n * 88 + 3, "f * 88 + 3", MERGE),
    ((f * k + last) // n // m, "(k * f + last) // (n * m)", NESTED),
    (((f * k + j) % (n * m) + last) % n, "(k * f + j + last) % n", MOD),
    ((f * 2 * n + j) // (n * 6), "f // 3", GROUPED),
    ((f * 2 * n + j) % (n * 6), "n * (f % 3) * 2 + j", GROUPED),
]


@pytest.mark.parametrize("e, simple, rule", DECIDED, ids=[str(e) for e, _, _ in DECIDED])
def test_what_is_decided_and_by_what(e: Expr, simple: str, rule: str) -> None:
    analyzer = Analyzer({n: (1, None), m: (1, None), k: (1, None), i: m, j: n, last: k, f: n * m})
    with recording() as reasons:
        result = analyzer.simplify(e)
    assert str(result) == simple
    assert not rule or rule in [reason.rule for reason in reasons]
    for sizes in points({n: (1, 3), m: (1, 3), k: (1, 2)}):
        ends = {i: sizes[m] - 1, j: sizes[n] - 1, last: sizes[k] - 1, f: sizes[n] * sizes[m] - 1}
        for env in points({v: (0, end) for v, end in ends.items()}):
            env.update(sizes)
            assert evaluate(result, env) == evaluate(e, env), env


def test_what_does_not_hold_is_not_shown() -> None:
    analyzer = Analyzer({n: (0, None), m: (1, None), i: (0, None)})
    for e in (n * m >= n + m, n * n > n * m, (n - 1) * (m - 1) >= 0, n * n + m * m > n * m * 2, i * n < n * m):
        assert not analyzer.can_prove(e), e


def test_nothing_is_noted_where_nobody_records_and_fixed_sizes_need_no_sympy() -> None:
    analyzer = Analyzer({i: 6, j: 16, f: 96})
    with recording() as reasons:
        for e in ((i * 16 + j) // 16, (f // 16) * 16 + f % 16, f // 4 // 4, (i * 16 + j) % 4 + j * 2 < 60):
            analyzer.simplify(e)
    assert reasons == []


def test_questions_of_one_shape_are_answered_once() -> None:
    for _ in range(2):
        a, b = SizeVar("a"), SizeVar("b")
        before = _shown.cache_info().misses
        assert Analyzer({a: (1, None), b: (1, None)}).can_prove(a * a - a * b * 2 + b * b >= 0)
    assert _shown.cache_info().misses == before


def test_a_range_that_grows_changes_the_answer() -> None:
    """Answers are of a question with its ranges: sympy's caches know nothing of them."""
    for low, holds in ((2, True), (-1, False), (2, True)):
        assert Analyzer({n: (0, None), i: (low, None)}).can_prove(i * n * n + n * i >= n) is holds


def test_data_that_may_wrap_is_left_alone() -> None:
    d = DataVar("d")
    analyzer = Analyzer({n: (1, None), m: (1, None)})
    for e in (d * n // (n * m), d * n % (n * 2), d // n * n + d % n):
        assert "//" in str(analyzer.simplify(e)) or "%" in str(analyzer.simplify(e)) or analyzer.simplify(e) is d


def test_a_fused_loop_over_an_open_height_needs_no_division() -> None:
    x = te.placeholder((2, n, 11, 8), name="x")
    func = te.create_prim_func([x, topi.relu(x)])
    sch = Schedule(func)
    sch.fuse(*sch.get_loops(sch.get_block("T_relu"))[:2])
    with recording() as reasons:
        module = lower(sch.func, Target("cpu"), "f")
    kernel = next(k for _, k in module.items() if not k.attrs.get("host"))
    assert "//" not in kernel.script() and "%" not in kernel.script()
    assert {r.rule for r in reasons} == {MERGE} and any(r.after.endswith("i0_i1_fused") for r in reasons)
    assert f"{len(reasons)} simplifications of symbolic sizes" in summary(reasons) and MERGE in summary(reasons)
