"""What the accelerator's passes must not do: programs by hand for conditions that random layers do not meet."""

from __future__ import annotations

import numpy as np
import pytest

from minitvm.expr import walk
from minitvm.machines.scratchpad.instruction_set import SET, Elements, operation_of
from minitvm.machines.scratchpad.transform import (
    delay_resets,
    fetch_order,
    fold_nests,
    join_contexts,
    place_scratchpads,
    reuse_registers,
)
from minitvm.reference import tir as interpreter
from minitvm.script import from_source
from minitvm.tir.analysis.scratchpads import extents_of
from minitvm.tir.nodes import Allocate, For, ForKind, Instruction, PrimFunc
from tests.machines.vta.accel_programs import SMALL

NAMES = Elements(1, 4, 4)


def program(body: str, numbers: int, storage: str = 'C = T.decl_buffer((64,), "int32", scope="acc")') -> PrimFunc:
    """A kernel with a result D of so many numbers; instructions are called by their operation."""
    for op in SET.operations:
        body = body.replace(f'"{op}"', f'"{NAMES.name(op)}"')
    lines = [*storage.splitlines(), *body.strip().splitlines()]
    head = f'@T.prim_func(lowered=True)\ndef k(D: T.Buffer(({numbers},), "int8")):\n'
    return from_source(head + "\n".join("    " + line for line in lines))


def result(func: PrimFunc) -> np.ndarray:
    found = np.zeros(func.params[0].shape[0].value, np.int8)
    interpreter.run(func, found)
    return found


def operations(func: PrimFunc) -> list[str]:
    return [operation_of(n.name) or n.name for n in walk(func.body) if isinstance(n, Instruction)]


def loops(func: PrimFunc) -> int:
    return sum(isinstance(n, For) and n.kind is ForKind.UNROLLED for n in walk(func.body))


RESET = """
with T.instruction("reset", 4, T.tile(C[0], C[4], C[0], C[1])):
    for n, j in T.grid(4, 4):
        C[n * 4 + j] = 0
"""
STORE = """
with T.instruction("store", 4, T.tile(C[0], C[4], C[0], C[1]), T.tile(D[0], D[4], D[0], D[1])):
    for n, j in T.grid(4, 4):
        D[n * 4 + j] = T.Cast("int8", C[n * 4 + j])
"""
HALF = """
with T.instruction("alu_add_imm", 2, T.tile(C[0], C[4], C[0], C[1]), T.tile(C[0], C[4], C[0], C[1]), 5):
    for n, j in T.grid(2, 4):
        C[n * 4 + j] = C[n * 4 + j] + 5
"""


def test_a_reset_comes_before_what_touches_a_part_of_it() -> None:
    func = fetch_order(program(RESET + HALF + STORE, 16))
    after = delay_resets(func, SMALL)
    assert operations(after) == ["reset", "alu_add_imm", "store", "accel.finish"]
    np.testing.assert_array_equal(result(after), [5] * 8 + [0] * 8)


def test_storage_that_an_iteration_reads_from_the_one_before_stays_outside() -> None:
    body = """
for i in range(2):
    if i == 0:
        with T.instruction("reset", T.tile(C[0], C[0], C[1])):
            for j in range(4):
                C[j] = 0
    with T.instruction("alu_add_imm", T.tile(C[0], C[0], C[1]), T.tile(C[0], C[0], C[1]), 5):
        for j in range(4):
            C[j] = C[j] + 5
    with T.instruction("store", T.tile(C[0], C[0], C[1]), T.tile(D[i * 4], D[i * 4], D[i * 4 + 1])):
        for j in range(4):
            D[i * 4 + j] = T.Cast("int8", C[j])
"""
    after = place_scratchpads(program(body, 8))
    assert isinstance(after.body, Allocate)
    np.testing.assert_array_equal(result(after), [5] * 4 + [10] * 4)


def contexts(first: str, second: str) -> PrimFunc:
    def loop(body: str) -> str:
        lines = "\n".join("    " + line for line in body.strip().splitlines())
        return f"for v in T.unroll(2):\n{lines}\n"

    return program(loop(first) + loop(second), 8, 'C = T.decl_buffer((2, 16), "int32", scope="acc")')


OWN = """
with T.instruction("reset", T.tile(C[v, 0], C[v, 0], C[v, 1])):
    for j in range(4):
        C[v, j] = 0
"""
OWN_STORE = """
with T.instruction("store", T.tile(C[v, 0], C[v, 0], C[v, 1]), T.tile(D[v * 4], D[v * 4], D[v * 4 + 1])):
    for j in range(4):
        D[v * 4 + j] = T.Cast("int8", C[v, j])
"""
OWN_SUM = """
with T.instruction("alu_add_imm", T.tile(C[v, 0], C[v, 0], C[v, 1]), T.tile(C[v, 0], C[v, 0], C[v, 1]), 5):
    for j in range(4):
        C[v, j] = C[v, j] + 5
"""
OTHERS_SUM = OWN_SUM.replace("C[v, ", "C[1 - v, ")


PAIRS = [(OWN_SUM, 1), (OWN_STORE, 2), (OTHERS_SUM, 2)]


@pytest.mark.parametrize(("second", "left"), PAIRS)
def test_contexts_are_joined_if_one_module_does_both_and_each_touches_its_own(second: str, left: int) -> None:
    assert loops(join_contexts(contexts(OWN, second))) == left


def test_a_register_has_its_new_name_in_all_that_follows() -> None:
    body = """
with T.instruction("reset", 4, T.tile(C[0], C[4], C[0], C[1])):
    for n, j in T.grid(4, 4):
        C[n * 4 + j] = 0
with T.instruction("alu_add_imm", 4, T.tile(C[0], C[4], C[0], C[1]), T.tile(E[0], E[4], E[0], E[1]), 3):
    for n, j in T.grid(4, 4):
        E[n * 4 + j] = C[n * 4 + j] + 3
with T.instruction("store", 4, T.tile(E[0], E[4], E[0], E[1]), T.tile(D[0], D[4], D[0], D[1])):
    for n, j in T.grid(4, 4):
        D[n * 4 + j] = T.Cast("int8", E[n * 4 + j])
"""
    storage = 'C = T.decl_buffer((64,), "int32", scope="acc")\nE = T.decl_buffer((64,), "int32", scope="acc")'
    func = program(body, 16, storage)
    after = reuse_registers(func)
    assert sum(isinstance(n, Allocate) for n in walk(after.body)) == 1
    np.testing.assert_array_equal(result(after), result(func))
    assert result(after)[0] == 3


def test_an_instruction_is_of_the_iterations_at_which_its_guards_hold() -> None:
    """Of 4 registers in 3 tiles of 2, the first is left out; the third tile has none."""
    body = (
        RESET
        + """
for t in range(3):
    if t < 2:
        for n in range(2):
            if t * 2 + n >= 1:
                if t * 2 + n < 4:
                    with T.instruction("alu_add_imm", T.tile(C[t * 8 + n * 4], C[t * 8 + n * 4], C[t * 8 + n * 4 + 1]),
                                       T.tile(C[t * 8 + n * 4], C[t * 8 + n * 4], C[t * 8 + n * 4 + 1]), 5):
                        for j in range(4):
                            C[t * 8 + n * 4 + j] = C[t * 8 + n * 4 + j] + 5
"""
        + STORE
    )
    func = fetch_order(fold_nests(program(body, 16)))
    added = [s for s in walk(func.body) if isinstance(s, Instruction) and operation_of(s.name) == "alu_add_imm"]
    assert [extents_of(one) for one in added] == [(1,), (2,)]
    assert [one.tiles[0].places[0].indices[0].value for one in added] == [4, 8]
    np.testing.assert_array_equal(result(func), [0] * 4 + [5] * 12)


def test_loops_that_a_guard_ties_are_not_one_instruction() -> None:
    body = """
for n, m in T.grid(2, 2):
    if n + m < 2:
        with T.instruction("reset", T.tile(C[n * 8 + m * 4], C[n * 8 + m * 4], C[n * 8 + m * 4 + 1])):
            for j in range(4):
                C[n * 8 + m * 4 + j] = 0
"""
    func = fetch_order(fold_nests(program(body, 16)))
    assert [extents_of(s) for s in walk(func.body) if isinstance(s, Instruction)] == [(2,), (1,), ()]
