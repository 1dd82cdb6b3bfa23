"""Functions that update their arguments: which parameters are in and out, and that every mode compares them."""

from __future__ import annotations

from typing import Any

import pytest

from minitvm.errors import ExecutionError, InputError
from minitvm.reference import check
from minitvm.reference.judging.inplace import read_first
from minitvm.reference.judging.modes import known_modes
from minitvm.script import from_source
from minitvm.script import tir as T
from minitvm.tir import Schedule
from minitvm.tir.nodes import PrimFunc
from minitvm.tir.transform.pipeline import lower


def update(value: str, size: str = "8") -> PrimFunc:
    func = from_source(f"""
        @T.prim_func
        def main(X: T.Buffer((8,), "float32"), a: T.handle):
            n = T.int32()
            A = T.match_buffer(a, ({size},), "float32")
            for i in range({size}):
                with T.block("A"):
                    v = T.axis.spatial({size}, i)
                    A[v] = {value}
    """)
    assert isinstance(func, PrimFunc)
    return func


@T.prim_func
def total(A: T.Buffer((4, 6), "float32"), B: T.Buffer((4,), "float32")):
    for i, k in T.grid(4, 6):
        with T.block("B"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                B[vi] = T.float32(0)
            B[vi] = B[vi] + A[vi, vk]


@T.prim_func
def added(A: T.Buffer((4, 6), "float32"), B: T.Buffer((4,), "float32")):
    for i, k in T.grid(4, 6):
        with T.block("B"):
            vi, vk = T.axis.remap("SR", [i, k])
            B[vi] = B[vi] + A[vi, vk]


RELU = "T.max(A[v], T.float32(0))"


def test_what_is_read_before_it_is_written_is_in_and_out() -> None:
    assert read_first(update(RELU)) == (1,)
    assert read_first(update("X[v]")) == ()
    assert read_first(total) == ()
    assert read_first(added) == (1,)
    assert read_first(lower(update(RELU), None, "main")) == (1,)


@pytest.mark.parametrize("mode", known_modes())
def test_every_mode_compares_what_is_updated(mode: str) -> None:
    func = update("A[v] * X[v] + A[v]")
    verdict = check(func, func, modes=(mode,))
    assert verdict, verdict
    assert mode in verdict.ran
    assert str(verdict).endswith("in and out: A (what the caller passes in is read)")
    if mode not in ("shadow", "order"):
        assert not check(func, update("A[v] * X[v] + X[v]"), modes=(mode,))


def test_the_default_modes_tell_a_lost_maximum() -> None:
    assert check(update(RELU), update(RELU))
    verdict = check(update(RELU), update("A[v]"))
    assert not verdict
    assert verdict.output == "A"
    assert "  A = " in verdict.counterexample
    assert "in and out: A" in str(verdict)


def test_a_result_that_is_read_too_early_is_a_difference() -> None:
    """What `before` only writes, `after` must not read first."""
    verdict = check(total, added)
    assert not verdict
    assert verdict.inout == ()
    assert "uninitialised read" in verdict.message


def test_the_levels_of_a_function_in_place_agree() -> None:
    func = update(RELU)
    assert check(func, lower(func, None, "main"))
    assert check(added, lower(added, None, "main"))
    assert not check(added, lower(total, None, "main"))


def test_the_caller_may_say_what_is_in_and_out() -> None:
    with pytest.raises(ExecutionError, match="uninitialised read"):
        check(update(RELU), update(RELU), inout=())
    part = update("T.if_then_else(v < 4, X[v], A[v])")
    assert check(part, part, inout=["A"]).inout == ("A",)
    assert check(total, total, inout=["B"])
    with pytest.raises(InputError, match="inout names X, which the program does not write; it writes A"):
        check(part, part, inout=["X"])


def test_symbolic_sizes_do_not_hide_it() -> None:
    """At n = 0 nothing is read: the sizes at which something is decide."""
    func = update(RELU, "n")
    verdict = check(func, func)
    assert verdict
    assert verdict.inout == ("A",)
    assert len(verdict.tried) > 2
    assert not check(func, update("A[v]", "n"))


def test_what_is_updated_at_some_sizes_only_is_in_and_out_too() -> None:
    """In place where the size leaves a rest of one, as a program does that handles its tail in another way."""
    value = "T.if_then_else(n % 3 == 1, A[v], X[0]) + T.float32(1)"
    func = update(value, "n")
    verdict = check(func, func)
    assert verdict.inout == ("A",)
    assert any(sizes["n"] % 3 == 1 for sizes in verdict.tried)
    assert any(sizes["n"] % 3 != 1 for sizes in verdict.tried)
    assert not check(func, update(value.replace("A[v]", "A[v] * 2"), "n"))


def test_given_inputs_are_what_is_passed_in() -> None:
    import numpy as np

    x, negative = np.ones(8, np.float32), -np.ones(8, np.float32)
    assert check(update(RELU), update("A[v]"), inputs=[x, x])
    assert not check(update(RELU), update("A[v]"), inputs=[x, negative])


def test_a_schedule_verifies_its_steps_in_place() -> None:
    sch = Schedule(update(RELU), verify=True)
    sch.split(sch.get_loops("A")[0], [2, 4])
    sch.parallel(sch.get_loops("A")[0])


def signature(body: str, parameters: str = 'A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")') -> Any:
    return from_source(f"@T.prim_func\ndef main({parameters}):\n    {body}\n")


def test_what_only_one_program_writes_is_a_difference() -> None:
    copy = "for i in range(4):\n        B[i] = A[i]"
    verdict = check(signature(copy), signature("T.evaluate(0)"))
    assert not verdict
    assert (verdict.mode, str(verdict)) == ("signature", "B is written by before and not by after")
    more = signature(copy + "\n        A[i] = T.float32(0)")
    assert str(check(signature(copy), more)) == "A is written by after and not by before"


def test_parameters_of_other_kinds_are_told_in_a_few_words() -> None:
    one, other = signature("A[0] = B[0]"), signature("A[0] = 1.0", 'A: T.Buffer((4,), "float32"), n: T.int32')
    with pytest.raises(InputError, match=r"^the parameters B and n differ: float32\[4\] before, int32 after$"):
        check(one, other)
