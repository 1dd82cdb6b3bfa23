"""What a step must not believe of blocks that do not run through their domains."""

from __future__ import annotations

from typing import Any

import pytest

from minitvm.script import from_source
from minitvm.script import tir as T
from minitvm.tir.nodes import PrimFunc
from minitvm.tir.schedule import Schedule

from .meaning import Step, keeps, refused, same_meaning, without_verifier  # noqa: F401 (a fixture of the module)
from .programs import loop
from .reductions_programs import summed_twice

# ---- blocks that do not run through their domains ------------------------------------------------------------------


@T.prim_func
def diagonal(A: T.Buffer((8, 8), "float32"), C: T.Buffer((8,), "float32")):
    B = T.alloc_buffer((8,))
    for i in range(8):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, i])
            B[vi] = A[vi, vj]
    for i in range(8):
        with T.block("C"):
            vi = T.axis.remap("S", [i])
            C[vi] = B[vi]


@T.prim_func
def three_of_four(A: T.Buffer((8, 4), "float32"), C: T.Buffer((8,), "float32")):
    B = T.alloc_buffer((8,))
    for i, k in T.grid(8, 3):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            vk = T.axis.reduce(4, k)
            with T.init():
                B[vi] = 0.0
            B[vi] = B[vi] + A[vi, vk]
    for i in range(8):
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            C[vi] = B[vi]


@T.prim_func
def backwards(A: T.Buffer((8,), "float32"), C: T.Buffer((4,), "float32")):
    B = T.alloc_buffer((4,))
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, 7 - i)
            B[vi // 2] = A[vi]
    for i in range(4):
        with T.block("C"):
            vi = T.axis.spatial(4, i)
            C[vi] = B[vi]


@T.prim_func
def looked_up(A: T.Buffer((8,), "float32"), N: T.Buffer((8,), "int32"), C: T.Buffer((8,), "float32")):
    B = T.alloc_buffer((8,))
    for i in range(8):
        with T.block("B"):
            vi = T.axis.remap("S", [i])
            B[vi] = A[vi] + 1.0
    for i in range(8):
        with T.block("C"):
            vi = T.axis.spatial(8, T.min(T.max(N[i], 0), 7))
            vj = T.axis.spatial(8, i)
            C[vj] = B[vi]


def bound_to(values: str) -> Any:
    """A consumer that reads B at vi, and writes C at vj = i, with vi bound to `values`."""
    from minitvm.script import from_source

    return from_source(f"""
@T.prim_func
def main(A: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")):
    B = T.alloc_buffer((8,))
    for i in range(8):
        with T.block("B"):
            vi = T.axis.remap("S", [i])
            B[vi] = A[vi] + 1.0
    for i in range(8):
        with T.block("C"):
            vi = T.axis.spatial(8, {values})
            vj = T.axis.spatial(8, i)
            C[vj] = B[vi]
""")


@pytest.mark.parametrize("func", [diagonal, three_of_four, summed_twice, backwards], ids=lambda f: f.name)
def test_a_producer_is_computed_elsewhere_only_where_it_ran(func: Any) -> None:
    refused(func, "same_iterations", lambda s: s.compute_at("B", loop(s, "C")))


def test_a_consumer_is_computed_elsewhere_only_where_it_ran() -> None:
    refused(looked_up, "same_iterations", lambda s: s.reverse_compute_at("C", loop(s, "B")))


@pytest.mark.parametrize("values", ["i", "i // 2 * 2", "i % 4", "3", "T.max(i, 4)", "i * i % 8"])
def test_other_bindings_of_a_consumer(values: str) -> None:
    refused(bound_to(values), "same_iterations", lambda s: s.reverse_compute_at("C", loop(s, "B")))


@T.prim_func
def summed(A: T.Buffer((16, 4), "float32"), C: T.Buffer((14,), "float32")):
    B = T.alloc_buffer((16,))
    for i, k in T.grid(16, 4):
        with T.block("B"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                B[vi] = 0.0
            B[vi] = B[vi] + A[vi, vk]
    for i in range(14):
        with T.block("C"):
            vi = T.axis.spatial(14, i)
            C[vi] = B[vi] + B[vi + 1] + B[vi + 2]


def test_a_block_moves_again_after_it_was_split_or_moved() -> None:
    def split_and_moved_twice(s: Schedule) -> None:
        s.split(loop(s, "B", 0), [None, 5])
        s.split(s.get_loops("B")[-1], [2, 2])
        outer, inner = s.split(loop(s, "C"), [None, 4])
        s.compute_at("B", outer)
        s.compute_at("B", inner)

    keeps(summed, split_and_moved_twice)


@T.prim_func
def part_of_the_domain(A: T.Buffer((8,), "float32"), C: T.Buffer((4,), "float32")):
    B = T.alloc_buffer((8,))
    for i in range(8):
        with T.block("B"):
            vi = T.axis.remap("S", [i])
            B[vi] = A[vi] * 2.0
    for i in range(4):
        with T.block("C"):
            vi = T.axis.spatial(8, i + 2)
            C[vi - 2] = B[vi]


def test_what_ran_for_a_part_of_its_domain_moves_within_that_part() -> None:
    keeps(part_of_the_domain, lambda s: s.compute_at(s.cache_read("C", 0, "local"), loop(s, "C")))
    keeps(part_of_the_domain, lambda s: s.reverse_compute_at(s.cache_write("C", 0, "local"), loop(s, "C")))


def two_of_four(value: str) -> PrimFunc:
    """The loops of B reach 4 elements from `2 * i` on, and write 2 of them."""
    return from_source(f"""
@T.prim_func
def two_of_four(A: T.Buffer((16,), "int32"), B: T.Buffer((16,), "int32"), C: T.Buffer((8,), "int32")):
    for i, j in T.grid(8, 4):
        with T.block("B"):
            v = T.axis.spatial(16, i * 2 + j)
            T.where(j < 2)
            B[v] = A[15 - v] * 2
    for i in range(8):
        with T.block("C"):
            v = T.axis.remap("S", [i])
            C[v] = {value}
""")


@pytest.mark.parametrize("value", ["B[v * 2 + 1]", "B[v * 2] + B[v * 2 + 1]", "B[v]"])
def test_a_consumer_runs_where_its_inputs_are_written_not_where_a_predicate_leaves_them_out(value: str) -> None:
    keeps(two_of_four(value), lambda sch: sch.reverse_compute_at("C", sch.get_loops("B")[0]))


def test_a_consumer_of_more_than_an_iteration_writes_is_refused() -> None:
    func = two_of_four("B[(v * 2 + 2) % 16]")
    refused(func, "region_cover", lambda sch: sch.reverse_compute_at("C", sch.get_loops("B")[0]))
