"""Random tensor expressions and random schedules: legal, quick, pasteable, and small where something fails."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import Phase, find, given, settings
from hypothesis import strategies as st

from minitvm import te
from minitvm.errors import ExecutionError
from minitvm.expr import Reduce, SizeVar, walk
from minitvm.reference import check
from minitvm.reference.strategies import STAGES, Scheduled, prim_funcs, scheduled, schedules, te_computes
from minitvm.reference.strategies.tensors import Computation
from minitvm.tir.nodes import Block, PrimFunc
from minitvm.tir.schedule import Schedule
from minitvm.tir.schedule.primitives import loops
from minitvm.tir.transform.pipeline import lower
from minitvm.tir.verifier import verify
from tests.fewer import examples

LOOPS = ("split", "fuse", "reorder", "parallel", "vectorize", "unroll")


# --- tensor expressions -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stage", STAGES)
@examples(4, 6)
@given(data=st.data())
def test_each_stage_means_the_same_at_all_levels(stage: str, data: st.DataObject) -> None:
    tensors = data.draw(te_computes(stages=(stage,), max_stages=2))
    func = te.create_prim_func(tensors)
    verify(func)
    for after in (func, lower(func, None, "f")):
        verdict = check(tensors, after)
        assert verdict, verdict


@settings(max_examples=25)
@given(te_computes(functions=("exp", "tanh", "sigmoid", "sqrt", "erf")))
def test_functions_stay_within_bounds(tensors: list[te.Tensor]) -> None:
    func = te.create_prim_func(tensors)
    for after in (func, lower(func, None, "f")):
        verdict = check(tensors, after, modes=["bound"])
        assert verdict, verdict


@settings(max_examples=15)
@given(te_computes(symbolic=True), st.integers(1, 9))
def test_symbolic_dimensions(tensors: list[te.Tensor], size: int) -> None:
    assert isinstance(tensors[0].shape[0], SizeVar)
    assert check(tensors, te.create_prim_func(tensors), sizes={"n": size})


@settings(max_examples=40)
@given(te_computes(min_stages=2, max_stages=3))
def test_every_tensor_is_an_argument_or_read(tensors: list[te.Tensor]) -> None:
    outputs = [t for t in tensors if isinstance(t.op, te.ComputeOp)]
    assert outputs and tensors[-len(outputs) :] == outputs
    func = te.create_prim_func(tensors)
    made = [b for b in walk(func) if isinstance(b, Block) and b.name != "root"]
    assert 2 <= len(made) <= 6, "two or three stages, some of two blocks: two results, or an index and what it picks"
    assert len(func.params) == len(tensors)


@settings(max_examples=20)
@given(st.one_of(te_computes(functions=("exp", "sqrt")), te_computes(symbolic=True)))
def test_a_computation_prints_as_a_program_that_can_be_pasted(tensors: Computation) -> None:
    names: dict[str, Any] = {}
    exec(repr(tensors), names)
    verdict = check(names["tensors"], tensors)
    assert verdict, verdict
    assert [t.name for t in names["tensors"]] == [t.name for t in tensors]


def test_a_counterexample_shows_its_formulas() -> None:
    """What Hypothesis prints of the smallest sum that it finds."""

    @settings(database=None, derandomize=True, deadline=None)
    @given(tensors=te_computes(stages=("elementwise", "reduce"), dtypes=("float32",), symbolic=True))
    def no_sums(tensors: Computation) -> None:
        assert not any(isinstance(n, Reduce) for t in tensors for n in walk(t.op))

    with pytest.raises(AssertionError) as failure:
        no_sums()
    told = "\n".join(failure.value.__notes__)
    assert "from minitvm import te\n" in told
    assert 'A = te.placeholder((n,), "float32", name="A")' in told
    assert 'B = te.compute((1,), lambda i0: te.sum(A[k0], axis=[k0]), name="B")' in told
    assert "tensors = [A, B]" in told


# --- schedules --------------------------------------------------------------------------------------------------------


@settings(max_examples=15)
@given(st.data())
def test_a_schedule_has_as_many_steps_as_asked_for(data: st.DataObject) -> None:
    func = data.draw(prim_funcs())
    sch = data.draw(schedules(func, "split", "fuse", min_steps=2, max_steps=3))
    changed = [inst for inst in sch.trace if not inst.primitive.query]
    assert 2 <= len(changed) <= 3
    assert {inst.primitive.name for inst in changed} <= {"split", "fuse"}


@given(st.data())
def test_what_is_drawn_is_in_the_space(data: st.DataObject) -> None:
    sch = Schedule(data.draw(prim_funcs(max_blocks=2)), seed=0)
    call = sch.draw(lambda n: data.draw(st.integers(0, n - 1)), *LOOPS)
    assert call is not None
    assert call.text in {one.text for one in sch.space(call.primitive.name)}


def test_nothing_is_drawn_where_nothing_is_legal() -> None:
    func = find(prim_funcs(), lambda f: not Schedule(f).space("reorder"), settings=settings(database=None))
    assert Schedule(func).draw(lambda n: 0, "reorder") is None


def test_every_step_is_drawn() -> None:
    """From all primitives: none crowds another one out."""
    seen: set[str] = set()

    @settings(max_examples=80, phases=[Phase.generate], database=None, derandomize=True)
    @given(scheduled(None, *LOOPS, "compute_at", "compute_inline", "cache_read", "cache_write", min_steps=2))
    def collect(pair: Scheduled) -> None:
        seen.update(inst.primitive.name for inst in pair.schedule.trace if not inst.primitive.query)

    collect()
    assert seen >= {*LOOPS, "compute_at", "compute_inline", "cache_read", "cache_write"}


def pasted(text: str) -> PrimFunc:
    """The function that a printed counterexample builds."""
    from minitvm.script import from_source

    program, rest = text.split("def apply_trace", 1)
    func = from_source(program)
    names: dict[str, Any] = {"main": func}
    head = text[: text.index("@T.prim_func")]
    exec(head + "def apply_trace" + rest, names)
    return names["sch"].func


@settings(max_examples=15)
@given(scheduled(None, *LOOPS, "cache_read", "compute_at"))
def test_the_text_of_a_pair_is_a_program(pair: Scheduled) -> None:
    assert pasted(repr(pair)).script() == pair.after.script()


def fails(pair: Scheduled) -> bool:
    try:
        return not check(pair.before, pair.after, modes=("exact", "shadow"), shrink=False)
    except ExecutionError:
        return True


FAULTS: dict[str, tuple[str, Any]] = {
    "a dropped predicate": ("guard", lambda body, condition: body),
    "a dropped tail": ("_ceil_div", lambda a, b: a // b),
}


@pytest.mark.parametrize("name", ["a dropped tail", pytest.param("a dropped predicate", marks=pytest.mark.full)])
def test_a_planted_fault_shrinks_to_a_few_lines(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loops, *FAULTS[name])
    monkeypatch.setenv("MINITVM_VERIFY", "0")  # the verifier would see it too, at once
    # Traces made with the fault are not replayed without it when the test is over.
    monkeypatch.setattr("minitvm.tir.schedule.schedule.WATCHERS", [], raising=False)
    quick = settings(max_examples=200, database=None, derandomize=True)
    pair = find(scheduled(None, *LOOPS), fails, settings=quick)
    text = repr(pair)
    steps = [inst.primitive.name for inst in pair.schedule.trace if not inst.primitive.query]
    assert steps == ["split"]
    assert len([b for b in walk(pair.before) if isinstance(b, Block)]) == 2  # the root and one more
    assert len(pair.before.script(with_header=False).strip().splitlines()) <= 9, text
    assert len(str(pair.schedule.trace).splitlines()) <= 4, text
    assert not check(pair.before, pasted(text))
