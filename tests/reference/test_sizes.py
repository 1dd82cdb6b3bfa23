"""Programs with symbolic dimensions are compared at sizes that tell a lost predicate, tail or element."""

from __future__ import annotations

import math
import textwrap
from typing import Any

import pytest

from minitvm import te, tir
from minitvm.compat.tvm.schedule.testing import registrations_undone
from minitvm.errors import ExecutionError, InputError, InternalError
from minitvm.expr import Node, replace, rewrite
from minitvm.reference import check
from minitvm.reference.judging.inputs.sizes import sizes_to_try
from minitvm.script import from_source
from minitvm.tir.nodes import BlockRealize, For, IRModule, PrimFunc
from minitvm.tir.schedule.registry import primitive
from minitvm.tir.schedule.state import ScheduleState


def function(body: str, dims: str = "n") -> PrimFunc:
    lines = [
        "@T.prim_func",
        "def main(a: T.handle, b: T.handle):",
        *(f"    {d} = T.int32()" for d in dims.split(", ")),
        f'    A = T.match_buffer(a, ({dims},), "float32")',
        f'    B = T.match_buffer(b, ({dims},), "float32")',
        textwrap.indent(textwrap.dedent(body).strip(), "    "),
    ]
    made = from_source("\n".join(lines) + "\n")
    assert isinstance(made, PrimFunc)
    return made


COPY = function("for i in range(n):\n    B[i] = A[i]")
WRONG = {
    "a dropped predicate": "for i, j in T.grid((n + 3) // 4, 4):\n    B[i * 4 + j] = A[i * 4 + j]",
    "no loop over the rest": "for i, j in T.grid(n // 4, 4):\n    B[i * 4 + j] = A[i * 4 + j]",
    "an odd tail": "for i in range(n):\n    B[i] = T.if_then_else(i < n // 2 * 2, A[i], T.float32(0))",
    "all from element 8 on": "for i in range(n):\n    B[i] = T.if_then_else(i < 8, A[i], T.float32(0))",
    "one size only": "for i in range(n):\n    B[i] = T.if_then_else(n == 1, T.float32(0), A[i])",
}


@pytest.mark.parametrize("name", WRONG)
@pytest.mark.parametrize("seed", range(4))
def test_what_is_wrong_at_some_sizes_is_found(name: str, seed: int) -> None:
    assert not check(COPY, function(WRONG[name]), seed=seed, shrink=False)


def test_an_equal_verdict_names_the_sizes() -> None:
    split = function("for i, j in T.grid((n + 3) // 4, 4):\n    if i * 4 + j < n:\n        B[i * 4 + j] = A[i * 4 + j]")
    verdict = check(COPY, split)
    assert verdict
    tried = [sizes["n"] for sizes in verdict.tried]
    assert {0, 1} <= set(tried)
    assert any(n > 10 and n % 4 for n in tried)
    assert str(verdict) == f"equal (exact, field, shadow) for n = {', '.join(map(str, sorted(tried)))}"
    assert str(check(COPY, split, sizes={"n": 5})) == "equal (exact, field, shadow)"


def test_several_dimensions_differ_from_each_other() -> None:
    two = function("for i, j in T.grid(n, m):\n    B[i, j] = A[i, j]", "n, m")
    verdict = check(two, two)
    assert any(sizes["n"] != sizes["m"] for sizes in verdict.tried)
    assert {(0, 3), (2, 0)} <= {(sizes["n"], sizes["m"]) for sizes in verdict.tried}
    assert " for (n, m) = (" in str(verdict)
    assert [sizes["m"] for sizes in check(two, two, sizes={"n": 3}).tried].count(1) == 1


@pytest.mark.parametrize("factor", [2, 3, 4, 6, 16, 32])
def test_sizes_stand_in_relation_to_the_numbers_of_the_programs(factor: int) -> None:
    after = function(f"for i in range(n // {factor}):\n    B[i] = A[i]")
    tried = [sizes["n"] for sizes in sizes_to_try(COPY, after, 0, None)]
    assert {0, 1} <= set(tried)
    assert any(n > factor and all(n % d for d in range(2, math.isqrt(n) + 1)) for n in tried)
    assert any(n % factor == 0 for n in tried if n)
    assert any(n % factor > 1 for n in tried) or factor == 2


def test_sizes_at_which_before_is_undefined_are_left_out() -> None:
    """It reads two elements at a time."""
    pairs = "for i, j in T.grid((n + 1) // 2, 2):\n    B[i * 2 + j] = A[i * 2 + j]"
    verdict = check(function(pairs), function(pairs), seed=1)
    assert verdict
    assert all(sizes["n"] % 2 == 0 for sizes in verdict.tried)
    with pytest.raises(ExecutionError, match="out of bounds"):
        check(function("for i in range(n):\n    B[i] = A[i + 1]"), COPY, sizes={"n": 3})


def test_extents_that_would_be_negative_are_left_out() -> None:
    n = te.var("n")
    a = te.placeholder((n,), name="A")
    tensors = [a, te.compute((n - 4,), lambda i: a[i] + a[i + 4], name="C")]
    verdict = check(tensors, te.create_prim_func(tensors))
    assert verdict
    assert all(sizes["n"] >= 4 for sizes in verdict.tried)


def test_a_schedule_that_is_verified_refuses_a_primitive_that_drops_a_predicate() -> None:
    with registrations_undone():

        @primitive()
        def lose_predicates(state: ScheduleState, loop: For) -> None:
            """Leave out the predicates below a loop."""

            def whole(node: Node) -> Node | None:
                return replace(node, predicate=tir.const(True, "bool")) if isinstance(node, BlockRealize) else None

            state.replace({loop: rewrite(loop, whole)})

        n = te.var("n")
        a = te.placeholder((n,), name="A")
        sch = tir.Schedule(te.create_prim_func([a, te.compute((n,), lambda i: a[i] * 2.0, name="B")]), verify=True)
        (loop,) = sch.get_loops("B")
        outer, _ = sch.split(loop, factors=[None, 4])
        with pytest.raises(InternalError, match="outside its domain"):
            sch.lose_predicates(outer)


def test_names_that_no_dimension_has() -> None:
    with pytest.raises(InputError, match="sizes names typo, which is no dimension of these programs; theirs: n"):
        check(COPY, COPY, sizes={"typo": 3})
    with pytest.raises(InputError, match="n = -1"):
        check(COPY, COPY, sizes={"n": -1})
    other = function("for i in range(m):\n    B[i] = A[i]", "m")
    module = IRModule({"one": COPY, "other": other})
    assert check(module, module, sizes={"n": 3, "m": 2})
    with pytest.raises(InputError, match="sizes names typo"):
        check(module, module, sizes={"n": 3, "typo": 2})


def test_what_is_defined_for_equal_sizes_only() -> None:
    transposed = function("for i, j in T.grid(n, m):\n    B[i, j] = A[j, i]", "n, m")
    verdict = check(transposed, transposed)
    assert verdict
    assert all(sizes["n"] == sizes["m"] for sizes in verdict.tried if sizes["n"] and sizes["m"])


@pytest.mark.parametrize(
    "condition", ["n > 128", "n == 100", "n % 24 == 5", "i // 16 == 17", "T.min((n + 31) // 32, 4) < (n + 31) // 32"]
)
def test_what_a_size_is_compared_with_is_tried(condition: str) -> None:
    def program(formula: str) -> Any:
        text = "@T.prim_func\ndef main(a: T.handle, b: T.handle):\n    n = T.int32()\n"
        text += '    A = T.match_buffer(a, (n,), "float32")\n    B = T.match_buffer(b, (n,), "float32")\n'
        return from_source(f"{text}    for i in range(n):\n        B[i] = {formula}\n")

    assert not check(program("A[i]"), program(f"T.if_then_else({condition}, T.float32(0), A[i])"))
