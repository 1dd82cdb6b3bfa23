"""The parts of a search for inputs: formulas of elements, branch distances, and the alternating variable method."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from minitvm import expr as x
from minitvm.reference import check
from minitvm.reference.judging.inputs.arguments import copies, random_inputs
from minitvm.reference.judging.inputs.batch import values_of
from minitvm.reference.judging.inputs.goals import truth
from minitvm.reference.judging.inputs.search import Search
from minitvm.reference.judging.inputs.symbolic import Beyond, Leaves, formulas
from minitvm.reference.judging.programs import execute, parameters
from minitvm.reference.meaning import steps
from minitvm.tir.transform import lower

from . import crossing_pairs, fooled_pairs, steered_pairs
from .written import each, function

I32, F32 = x.DType("int32"), x.DType("float32")
A, B = x.Var("a", I32), x.Var("b", I32)
X = x.Var("x", F32)


def _programs() -> list[Any]:
    """Every ninth program of the families of pairs, and the last of them lowered."""
    families = [file.DIFFERENT_FAMILIES for file in (fooled_pairs, crossing_pairs, steered_pairs)]
    every = [one for found in families for pairs in found.values() for _, *both in pairs() for one in both]
    chosen = every[::9]
    return [*chosen, *(lower(one) for one in chosen[-8:])]


def test_a_formula_gives_what_a_run_gives() -> None:
    told = 0
    for program in _programs():
        sizes = {"n": 5, "m": 3}
        inputs = random_inputs(program, 1, sizes)
        args = copies(inputs)
        execute(program, args, sizes=sizes)
        every = parameters(program)
        for k in (k for k, p in enumerate(every) if p.written and np.size(args[k])):
            leaves = Leaves([p.dtype for p in every])
            flat = np.size(args[k]) // 2
            try:
                formula = formulas(program, inputs, sizes, leaves).of(k, flat)
            except Beyond:
                continue
            values = {v: np.reshape(inputs[p], -1)[[at or 0]] for (p, at), v in leaves.items()}
            batch = values_of([formula], values, 1)
            assert not batch.bad(formula).any(), program
            np.testing.assert_array_equal(batch[formula][0], args[k].reshape(-1)[flat], err_msg=str(program))
            told += 1
    assert told > 60


def test_what_nobody_wrote_is_bad_where_it_is_read_and_nowhere_else() -> None:
    text = """
        S = T.alloc_buffer((4,), "float32")
        for i in range(4):
            if A[i] != T.float32(3):
                S[i] = A[i]
        for i in range(4):
            B[i] = S[i]
        """
    program = function(text, 'A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")')
    leaves = Leaves([F32, F32])
    formula = formulas(program, random_inputs(program), {}, leaves).of(1, 2)
    (variable,) = leaves.values()
    batch = values_of([formula], {variable: np.array([1, 3, 5], np.float32)}, 3)
    assert batch.bad(formula).tolist() == [False, True, False]


@pytest.mark.parametrize(
    ("formula", "rounds"),
    [
        (x.Add(X, x.FloatImm(0.5, F32)), [False, False, True]),
        (x.Mul(X, X), [False, False, True]),
        (x.Div(X, x.FloatImm(4.0, F32)), [False, False, False]),
        (x.Div(x.FloatImm(1.0, F32), X), [False, True, True]),
    ],
)
def test_rounding_is_told(formula: x.Expr, rounds: list[bool]) -> None:
    batch = values_of([formula], {X: np.array([2, 3, 16777215], np.float32)}, 3, rounding=True)
    assert np.broadcast_to(batch.rounds(formula), (3,)).tolist() == rounds


def test_a_distance_is_zero_exactly_where_the_condition_holds() -> None:
    three, nine = x.IntImm(3), x.IntImm(9)
    conditions: list[x.Expr] = [
        x.LT(A, B), x.LE(A, three), x.GT(A, B), x.GE(A, B), x.EQ(A, x.Add(B, three)), x.NE(A, B),
        x.And(x.LT(three, A), x.LT(A, nine)), x.Or(x.LT(A, three), x.GT(B, nine)),
        x.Not(x.And(x.EQ(A, B), x.LT(A, nine))),
    ]  # fmt: skip
    a, b = (grid.reshape(-1).astype(np.int32) for grid in np.meshgrid(np.arange(-2, 14), np.arange(-2, 14)))
    for condition in conditions:
        batch = values_of([condition], {A: a, B: b}, a.size)
        for wanted in (True, False):
            reached = truth(condition, wanted, batch) == 0
            np.testing.assert_array_equal(reached, batch[condition] == wanted, str(condition))


def test_a_search_meets_conditions_of_two_variables_and_the_last_bit_of_a_float() -> None:
    both = x.And(x.EQ(x.Add(A, B), x.IntImm(70001)), x.EQ(x.Sub(A, B), x.IntImm(9)))
    square = float(np.float32(1.2345678) * np.float32(1.2345678))
    root = x.LT(x.Mul(X, X), x.FloatImm(square, F32))
    for condition, start in ((both, {A: 0, B: 5}), (root, {X: 100.0})):
        rows = {v: np.array([n], v.dtype.numpy) for v, n in start.items()}
        search = Search([condition], [], list(rows))
        search.run(rows, 1)
        points = {v: np.concatenate([p[v] for p in search.reached]) for v in rows}
        count = len(search.reached)
        assert values_of([condition], points, count)[condition].any(), condition
    assert any(p[X][0] * p[X][0] == np.float32(square) for p in search.reached)


def test_a_search_takes_the_same_steps_each_time() -> None:
    one, other = next((a, b) for _, a, b in steered_pairs.conjunctions())
    counts = []
    for _ in range(2):
        before = steps.taken()
        verdict = check(one, other, shrink=False)
        counts.append((steps.taken() - before, str(verdict)))
    assert counts[0] == counts[1]


def test_programs_without_a_formula_are_compared_as_before() -> None:
    loop = each("A[T.min(T.max(A[i], 0), 99)]", "int32", n=100)
    with pytest.raises(Beyond):
        formulas(loop, random_inputs(loop), {}, Leaves([I32, I32])).of(1, 0)
    assert check(loop, loop)
