"""A search for inputs that fails ends no mode, and a check in which no mode compared values is no agreement."""

from __future__ import annotations

import pytest

from minitvm.errors import Unsupported
from minitvm.reference import check
from minitvm.reference.judging import case
from minitvm.reference.judging.hints import hint
from minitvm.reference.judging.inputs import arguments, sizes, steering
from minitvm.reference.meaning.steps import OutOfSteps
from minitvm.target import Target
from minitvm.tir.nodes import PrimFunc
from minitvm.tir.transform import lower

from .written import each, function


def threads(predicate: str, dtype: str) -> PrimFunc:
    """A sum over threads of which some take no part."""
    text = f"""
        for t in T.thread_binding(8, thread="threadIdx.x"):
            with T.block("s"):
                vk = T.axis.reduce(8, t)
                T.where({predicate})
                with T.init():
                    B[0] = T.{dtype}(0)
                B[0] = B[0] + A[vk]
        """
    return function(text, f'A: T.Buffer((8,), "{dtype}"), B: T.Buffer((1,), "{dtype}")')


@pytest.mark.parametrize("dtype", ["int32", "float32"])
def test_sums_over_threads_behind_a_predicate_are_judged(dtype: str) -> None:
    """Lowered, the sum shuffles constants: symbolic execution of the kernel has no meaning for them."""
    kernel = lower(threads("t > 2", dtype), Target("cuda"), "main")
    verdict = check(kernel, threads("t > 2", dtype), inout=["B"])
    assert verdict and {"exact", "field"} & set(verdict.ran), str(verdict)
    assert not check(kernel, threads("t > 3", dtype), inout=["B"], shrink=False)


SEARCHES = [
    (case, "landmarks"),
    (case, "solutions"),
    (case, "elsewhere"),
    (steering, "elements"),
    (arguments, "index_spans"),
    (sizes, "together"),
    (sizes, "changes"),
]


@pytest.mark.parametrize(("module", "name"), SEARCHES)
def test_programs_are_compared_although_a_search_fails(
    module: object, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuses(*args: object, **options: object) -> object:
        raise Unsupported("the search does not know this")

    text = """
        n = T.int32()
        A = T.match_buffer(a, (n,), "int8")
        B = T.match_buffer(b, (n,), "int8")
        for i in range(n):
            B[i] = T.max(A[i] * T.int8(2), T.int8(7)) + T.int8({0})
        """
    one, other = (function(text.format(more), "a: T.handle, b: T.handle") for more in (0, 1))
    monkeypatch.setattr(module, name, refuses)
    assert check(one, one).ran[0] == "exact"
    assert not check(one, other, shrink=False)


def test_a_budget_ends_a_search_and_the_run_around_it() -> None:
    def spent() -> int:
        raise OutOfSteps("no steps")

    with pytest.raises(OutOfSteps):
        hint(spent, 0)


def test_shadow_alone_is_no_agreement_of_values(monkeypatch: pytest.MonkeyPatch) -> None:
    from minitvm.reference.judging.modes import known_modes

    def refuses(*args: object) -> object:
        raise Unsupported("not this one")

    program = each("A[i]")
    for mode in known_modes().values():
        if mode.compares:
            monkeypatch.setattr(type(mode), "run", refuses)
    with pytest.raises(Unsupported, match="every mode that compares values refuses\n  exact: not this one"):
        check(program, program)
    assert check(program, program, modes=("shadow",)).mode == "shadow"


def test_what_is_undefined_in_both_is_no_difference() -> None:
    from minitvm.errors import ExecutionError

    program = each('T.Cast("int8", A[i] * T.float32(1e30))', out="int8")
    with pytest.raises(ExecutionError, match="out of its range"):
        check(program, program)
