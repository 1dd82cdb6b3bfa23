"""`check` accepts what means the same and catches what does not, at every level; exact mode knows its limits."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from minitvm import expr as x
from minitvm import te, tir
from minitvm.errors import InputError, Unsupported
from minitvm.reference import check, close, random_inputs
from minitvm.reference.judging import equivalence
from minitvm.reference.judging.modes import known_modes
from minitvm.script import tir as T
from minitvm.tir import nodes as t
from minitvm.tir.transform.pipeline import lower


def matmul(n: int = 8, k: int = 6, dtype: str = "float32") -> list[Any]:
    a, b = te.placeholder((n, k), dtype, name="A"), te.placeholder((k, n), dtype, name="B")
    axis = te.reduce_axis((0, k), name="k")
    return [a, b, te.compute((n, n), lambda i, j: te.sum(a[i, axis] * b[axis, j], axis=axis), name="C")]


def replaced(func: t.PrimFunc, old: Any, new: Any) -> t.PrimFunc:
    """The function with each node for which `old` holds replaced; a planted fault."""
    changed = []

    def swap(node: Any) -> Any:
        if not old(node):
            return None
        changed.append(node)
        return new(node)

    body = x.rewrite(func.body, swap)
    assert changed, "the fault was not planted"
    return func.with_body(body)


def test_all_levels_are_compared_exactly() -> None:
    tensors = matmul()
    func = te.create_prim_func(tensors)
    sch = tir.Schedule(func)
    i, j, k = sch.get_loops(sch.get_block("C"))
    outer, inner = sch.split(i, [None, 3])
    sch.reorder(k, j, outer, inner)
    sch.parallel(j) if False else None
    lowered_module = lower(sch.mod["main"], None, "matmul")
    for before in (tensors, func, sch.mod):
        for after in (func, sch.mod, lowered_module):
            verdict = check(before, after)
            assert verdict, verdict
            assert verdict.mode == "exact"


FAULTS = {
    "a lost init": (lambda n: isinstance(n, t.Block) and n.init is not None, lambda n: x.replace(n, init=None)),
    "a wrong operator": (lambda n: isinstance(n, x.Mul) and n.dtype.is_float, lambda n: x.Add(n.a, n.b)),
    "a loop that ends early": (
        lambda n: isinstance(n, t.For) and n.var.name == "k", lambda n: x.replace(n, extent=x.const(5)),
    ),
    "a loop that ends late": (
        lambda n: isinstance(n, t.For) and n.var.name == "k", lambda n: x.replace(n, extent=x.const(7)),
    ),
    "transposed indices": (
        lambda n: isinstance(n, t.BufferLoad) and n.buffer.name == "A",
        lambda n: t.BufferLoad(n.buffer, (n.indices[1] % 8, n.indices[0] % 6)),
    ),
    "a parallel reduction": (
        lambda n: isinstance(n, t.For) and n.var.name == "k", lambda n: x.replace(n, kind=t.ForKind.PARALLEL),
    ),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_planted_faults_are_caught(fault: str) -> None:
    func = te.create_prim_func(matmul())
    verdict = check(func, replaced(func, *FAULTS[fault]))
    assert not verdict
    assert verdict.message


def test_the_verdict_says_where() -> None:
    func = te.create_prim_func(matmul())

    def spoil(n: t.BufferStore) -> t.BufferStore:
        here = x.And(x.EQ(n.indices[0], x.const(3)), x.EQ(n.indices[1], x.const(2)))
        return t.BufferStore(n.buffer, x.Select(here, x.const(99.0), n.value), n.indices)

    wrong = replaced(
        func,
        lambda n: isinstance(n, t.BufferStore) and isinstance(n.value, x.Add),
        spoil,
    )
    verdict = check(func, wrong)
    assert (verdict.output, verdict.index, verdict.mode) == ("C", (3, 2), "exact")
    assert verdict.after == 99.0
    a, b = verdict.inputs[:2]
    assert verdict.before == (a @ b)[3, 2]
    assert str(verdict) == (
        f"the programs differ in C[3, 2] (exact mode, 1 of 64 elements)\n  before: {verdict.before!r}\n"
        "  after:  np.float32(99.0)\n  A = 0 everywhere (8x6)\n  B = 0 everywhere (6x8)"
    )


def test_order_finds_what_forward_hides() -> None:
    @T.prim_func
    def before(A: T.Buffer((6,), "float32"), C: T.Buffer((6,), "float32")):
        for i in range(6):
            C[i] = A[5]

    @T.prim_func
    def after(A: T.Buffer((6,), "float32"), C: T.Buffer((6,), "float32")):
        L = T.alloc_buffer((1,), "float32")
        for i in T.parallel(6):
            L[0] = A[i]
        for i in range(6):
            C[i] = L[0]

    assert check(before, after, modes=("exact",))
    assert not check(before, after, modes=("exact", "order"))
    assert check(before, after, modes=("exact", "shadow")).mode == "shadow"


@given(st.integers(1, 4), st.integers(1, 6), st.sampled_from(["float16", "float32", "int8", "int32"]))
def test_exact_inputs_make_any_order_equal(n: int, k: int, dtype: str) -> None:
    """On them a sum backwards has the same bits."""
    func = te.create_prim_func(matmul(n, k, dtype))
    a, b, _ = equivalence.exact_arguments(func)
    with np.errstate(all="ignore"):
        forward, backward = np.zeros((n, n), dtype), np.zeros((n, n), dtype)
        for q in range(k):
            forward = forward + a[:, q : q + 1] * b[q : q + 1]
            backward = backward + a[:, k - 1 - q : k - q] * b[k - 1 - q : k - q]
    assert forward.tobytes() == backward.tobytes()


def test_exact_inputs_shrink_with_the_dtype() -> None:
    wide = equivalence.exact_arguments(te.create_prim_func(matmul(2, 64)))
    narrow = equivalence.exact_arguments(te.create_prim_func(matmul(2, 64, "float16")))
    assert np.abs(wide[0]).max() == 16
    assert np.abs(narrow[0]).max() < 16
    assert (np.abs(narrow[0]) @ np.abs(narrow[1])).max() <= 2**11


def elementwise(body: Any) -> list[Any]:
    data = te.placeholder((5,), name="X")
    return [data, te.compute((5,), lambda i: body(data[i]), name="Y")]


@pytest.mark.parametrize(
    "body",
    [
        lambda v: v * x.FloatImm(Fraction(1, 6), "float32"),
        lambda v: v * 0.5,
        lambda v: v / 3.0,
        lambda v: x.call("exp", v),
        lambda v: x.call("sqrt", v),
        lambda v: v * v * v * v * v * v * v * v * v * v * v * v * v * v * v * v * 16777216.0 * 2.0,
        lambda v: v + x.FloatImm(float(x.DType("float32").max), "float32"),
    ],
)
def test_exact_mode_refuses_what_it_cannot_do(body: Any) -> None:
    tensors = elementwise(body)
    for program in (tensors, te.create_prim_func(tensors), lower(te.create_prim_func(tensors), None, "f")):
        with pytest.raises(Unsupported, match="exact mode"):
            equivalence.exact_arguments(program)
    verdict = check(tensors, te.create_prim_func(tensors), modes=("floats", "exact", "shadow"))
    assert verdict
    assert verdict.mode == "bits"
    assert "exact mode" in verdict.refused["exact"]


def test_maxima_start_at_the_least_number() -> None:
    data = te.placeholder((5, 7), name="X")
    k = te.reduce_axis((0, 7), name="k")
    tensors = [data, te.compute((5,), lambda i: te.max(data[i, k], axis=k), name="Y")]
    assert check(tensors, te.create_prim_func(tensors)).mode == "exact"


def test_another_association_of_floats_is_close_and_says_so() -> None:
    def sums(reverse: bool) -> t.PrimFunc:
        data = te.placeholder((3, 50), name="X")
        k = te.reduce_axis((0, 50), name="k")
        read = (lambda i: data[i, 49 - k]) if reverse else (lambda i: data[i, k])
        return te.create_prim_func([data, te.compute((3,), lambda i: te.sum(x.call("exp", read(i)), axis=k), name="Y")])

    verdict = check(sums(False), sums(True), modes=("exact", "floats", "shadow"))
    assert verdict
    assert verdict.mode == "close"
    assert verdict.ran == ("floats", "shadow")
    verdict = check(sums(False), sums(True))
    assert (verdict.mode, verdict.ran) == ("field", ("field", "shadow"))


def test_close() -> None:
    one = np.linspace(0, 1, 50, dtype="float32")
    assert close(one, one + np.float32(1e-7))
    assert not close(one, one + np.float32(1e-3))
    assert not close(one, np.where(np.arange(50) == 7, np.float32("nan"), one))
    assert close(np.array([np.inf, np.nan], "f"), np.array([np.inf, np.nan], "f"))
    assert not close(np.array([1.0], "f"), np.array([np.inf], "f"))


def test_symbolic_sizes() -> None:
    n = te.var("n")
    a = te.placeholder((n, 3), name="A")
    tensors = [a, te.compute((n, 3), lambda i, j: a[n - 1 - i, j] + 1.0, name="C")]
    func = te.create_prim_func(tensors)
    assert check(tensors, func, sizes={"n": 5})
    assert check(func, func, seed=3)
    assert random_inputs(func, sizes={"n": 5})[0].shape == (5, 3)


def test_modules_of_several_functions() -> None:
    one, other = te.create_prim_func(matmul()), te.create_prim_func(elementwise(lambda v: x.call("exp", v)))
    module = t.IRModule({"mm": one, "ew": other})
    assert check(module, module).ran == ("field", "shadow")
    verdict = check(module, t.IRModule({"mm": replaced(one, *FAULTS["a wrong operator"]), "ew": other}))
    assert verdict.message.startswith("mm: the programs differ in C[0, 0]")
    with pytest.raises(InputError, match="only one of the modules has ew, other"):
        check(module, t.IRModule({"mm": one, "other": other}))
    with pytest.raises(InputError, match=r"several functions beside one program: mm, ew\n  try: .*module\['mm'\]"):
        check(module, one)


def test_signatures_that_differ() -> None:
    with pytest.raises(InputError, match="differ"):
        check(matmul(), matmul(dtype="float16"))
    with pytest.raises(InputError, match="parameters"):
        check(matmul(), elementwise(lambda v: v))
    with pytest.raises(InputError, match="modes magic"):
        check(matmul(), matmul(), modes=("magic",))


@pytest.mark.parametrize("options, match", [
    ({"modes": ()}, "modes are empty"), ({"modes": None}, "modes are names, found None"),
    ({"modes": "exakt"}, "modes exakt are unknown"), ({"modes": (1,)}, "modes are names"),
    ({"seed": -1}, "seed is a whole number"), ({"seed": 0.5}, "seed is a whole number"),
    ({"sizes": {"typo": 3}}, "sizes names typo"),
])  # fmt: skip
def test_arguments_that_are_none(options: Any, match: str) -> None:
    with pytest.raises(InputError, match=match):
        check(matmul(), matmul(), **options)


def test_only_the_modes_asked_for_run() -> None:
    once, twice = elementwise(lambda v: v * 1.0), elementwise(lambda v: v * 2.0)
    functions = te.create_prim_func(once), te.create_prim_func(twice)
    known = known_modes().values()
    for mode in [one.name for one in known if not one.compares]:
        assert check(*functions, modes=(mode,)).ran == (mode,)
    for mode in [one.name for one in known if one.compares]:
        assert check(functions[0], functions[0], modes=mode).ran == (mode,)
        verdict = check(*functions, modes=(mode, "shadow"))
        assert (bool(verdict), verdict.ran) == (False, (mode,))


def test_when_all_that_compare_refuse_bounds_are_the_fall_back() -> None:
    thirds = elementwise(lambda v: v / 3.0)
    verdict = check(thirds, thirds, modes=("exact", "shadow"))
    assert verdict.ran == ("bound", "shadow")
    assert set(verdict.refused) == {"exact"}


# ---- verdicts ------------------------------------------------------------------------------------------------------


def shifted(by: int) -> list[Any]:
    n, m = te.var("n"), te.var("m")
    a = te.placeholder((n, m), name="A")
    return [a, te.compute((n, m), lambda i, j: a[(i + by) % n, j] * 2.0, name="C")]


def test_counterexamples_are_small() -> None:
    """Two rows are the fewest that can be shifted; one element is the fewest that shows it."""
    for modes in (("exact",), ("field",)):
        verdict = check(shifted(0), shifted(1), modes=modes, seed=3)
        assert not verdict
        assert verdict.sizes == {"n": 2, "m": 1}
        assert np.count_nonzero(verdict.inputs[0]) == 1
        assert verdict.inputs[0].max() == 1
        assert "sizes:  n = 2, m = 1\n  A = [[" in str(verdict)


def test_a_counterexample_shows_the_difference_when_it_is_run() -> None:
    verdict = check(shifted(0), shifted(1), seed=3)
    again = check(shifted(0), shifted(1), inputs=verdict.inputs, modes=("floats",))
    assert not again
    assert (again.index, again.before, again.after) == (verdict.index, verdict.before, verdict.after)


def test_a_sum_that_ends_early_is_shown_by_one_element_of_each() -> None:
    """Ones everywhere would show it too."""
    func = te.create_prim_func(matmul(16, 32))
    ends = replaced(
        func, lambda n: isinstance(n, t.For) and n.var.name == "k", lambda n: x.replace(n, extent=x.const(31)),
    )  # fmt: skip
    for modes in (("exact",), ("field",)):
        verdict = check(func, ends, modes=modes)
        assert [np.argwhere(array).tolist() for array in verdict.inputs[:2]] == [[[0, 31]], [[31, 0]]], str(verdict)
        assert "A = 0 but 1 at [0, 31] (16x32)" in str(verdict)


def test_sizes_that_are_given_stay() -> None:
    verdict = check(shifted(0), shifted(1), sizes={"n": 5})
    assert verdict.sizes == {"m": 1}
    assert verdict.inputs[0].shape == (5, 1)


def test_without_shrinking_the_inputs_are_the_first_that_differ() -> None:
    plain, small = (check(shifted(0), shifted(1), shrink=shrink, seed=3) for shrink in (False, True))
    assert np.count_nonzero(plain.inputs[0]) > np.count_nonzero(small.inputs[0])


def test_modes_that_ran_and_that_refused_are_told() -> None:
    verdict = check(elementwise(lambda v: x.call("exp", v)), elementwise(lambda v: x.call("exp", v)))
    assert verdict.ran == ("field", "shadow")
    assert str(verdict) == "equal (field, shadow)\n  exact did not run: exp rounds: exp(X[i])"


def test_exact_mode_leaves_a_program_that_only_then_rounds_to_others() -> None:
    """x / 3 * 3 is x, but not in floats."""
    verdict = check(elementwise(lambda v: v), elementwise(lambda v: v * x.FloatImm(Fraction(1, 7)) * 7.0))
    assert verdict
    assert verdict.mode == "field"
    assert set(verdict.refused) == {"exact"}


def test_a_conflict_has_two_accesses() -> None:
    func = te.create_prim_func(matmul())
    verdict = check(func, replaced(func, *FAULTS["a parallel reduction"]))
    assert verdict.mode == "shadow"
    assert [access.verb for access in verdict.accesses] == ["written", "read"]
    assert dict(verdict.accesses[0].loops)["k"] == 0
    assert dict(verdict.accesses[1].loops)["k"] == 1


def test_shadow_alone_still_runs_both() -> None:
    func = te.create_prim_func(matmul())
    verdict = check(func, replaced(func, *FAULTS["a lost init"]), modes=("shadow",))
    assert (verdict.mode, verdict.finding is not None and verdict.finding.kind) == ("shadow", "uninitialised read")


def test_every_mode_finds_a_wrong_operator() -> None:
    func = te.create_prim_func(matmul())
    wrong = replaced(func, *FAULTS["a wrong operator"])
    for mode in ("exact", "field", "bound", "floats"):
        assert check(func, func, modes=(mode,)), mode
        assert not check(func, wrong, modes=(mode,)), mode
