"""Lowering keeps the meaning of random programs, as written and under a random legal schedule."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minitvm import build, strategy
from minitvm.errors import ScheduleError
from minitvm.reference import kernel as kernel_reference
from minitvm.reference import tir as reference
from minitvm.reference.strategies import KINDS, arguments, prim_funcs
from minitvm.reference.strategies.statement_blocks import STATEMENTS
from minitvm.reference.strategies.value_blocks import VALUES
from minitvm.target import Target
from minitvm.tir import Schedule
from minitvm.tir.nodes import IRModule, PrimFunc
from minitvm.tir.transform import lower
from minitvm.tir.verifier import verify
from tests.fewer import examples
from tests.mutants import programs, structures

CPU = Target("cpu -vector_bits=128 -cores=2")


def scheduled(draw: Any, func: PrimFunc) -> PrimFunc:
    """A few random steps; those that the schedule refuses are left out."""
    sch = Schedule(func)
    for block in sch.get_child_blocks(sch.get_block("root")):
        loops = list(sch.get_loops(block))
        if not loops:
            continue
        loop = draw(st.sampled_from(loops))
        try:
            outer, inner = sch.split(loop, [None, draw(st.sampled_from([2, 3, 4, 8]))])
            for handle, kinds in ((outer, "pus"), (inner, "vus")):
                kind = draw(st.sampled_from(kinds))
                if kind != "s":
                    {"p": sch.parallel, "u": sch.unroll, "v": sch.vectorize}[kind](handle)
        except ScheduleError:
            continue
    return sch.func


def lowered_result(module: IRModule, arrays: list[np.ndarray]) -> list[np.ndarray]:
    flat = [a.copy().reshape(-1) for a in arrays]
    kernel_reference.run(module, *flat)
    return [f.reshape(a.shape) for f, a in zip(flat, arrays)]


@given(st.data())
def test_lowered_programs_mean_the_same(data: Any) -> None:
    func = data.draw(prim_funcs())
    arrays = data.draw(arguments(func))
    expected = [a.copy() for a in arrays]
    reference.run(func, *expected)
    for version in (func, scheduled(data.draw, func)):
        module = lower(version, None, "main")
        verify(module, "kernel")
        for got, want in zip(lowered_result(module, arrays), expected):
            np.testing.assert_array_equal(got, want, err_msg=str(version))


WIDE = ("float32", "int32", "int8", "uint8", "float16", "bfloat16", "int64", "float64")


@pytest.mark.parametrize("kind", [k for k in (*STATEMENTS, *VALUES) if k != "rounding"])
@examples(4, 8)
@given(data=st.data())
def test_each_kind_of_block_means_the_same(kind: str, data: Any) -> None:
    lowered_alike(data, data.draw(prim_funcs(kinds=(kind, "elementwise"), max_blocks=2, dtypes=WIDE)))


# Beside the many workloads on them under planted faults: here nothing is planted.
FAMILIES = (
    structures.views, structures.strided, structures.data_loops, structures.long_rows, structures.triangles,
    structures.sequences, structures.running, structures.in_turns, structures.carried, structures.gaps,
    structures.private, structures.turned, structures.contraction, structures.chain, programs.branches,
    programs.in_place, programs.shared_cells, programs.folds, programs.split_indices, programs.quotients,
)  # fmt: skip


@settings(max_examples=25)
@given(data=st.data())
def test_families_of_programs_mean_the_same(data: Any) -> None:
    lowered_alike(data, data.draw(st.sampled_from(FAMILIES))(data.draw))


def lowered_alike(data: Any, func: PrimFunc) -> None:
    """As written, with its loops split and vectorised, and by the strategy."""
    arrays = data.draw(arguments(func))
    expected = [a.copy() for a in arrays]
    reference.run(func, *expected)
    versions = [(func, None), (scheduled(data.draw, func), None), (strategy.schedule(func, CPU).func, CPU)]
    for version, target in versions:
        for got, want in zip(lowered_result(lower(version, target, "main"), arrays), expected):
            np.testing.assert_array_equal(got, want, err_msg=str(version))


def compiled_alike(data: Any) -> None:
    """Random steps, or the strategy's, and machine code for two threads."""
    kinds = (*KINDS, *(k for k in (*STATEMENTS, *VALUES) if k in KINDS), "intrinsic")
    func = data.draw(prim_funcs(kinds=kinds, min_blocks=2, dtypes=WIDE))
    arrays = data.draw(arguments(func))
    expected = [a.copy() for a in arrays]
    reference.run(func, *expected)
    version = scheduled(data.draw, func) if data.draw(st.booleans()) else strategy.schedule(func, CPU).func
    found = [a.copy() for a in arrays]
    build(version, target=CPU, threads=2)(*found)
    for got, want in zip(found, expected):
        np.testing.assert_array_equal(got, want, err_msg=str(version))


@settings(max_examples=5)
@given(st.data())
def test_compiled_programs_mean_the_same(data: Any) -> None:
    compiled_alike(data)


@pytest.mark.full
@settings(max_examples=150)
@given(st.data())
def test_many_compiled_programs_mean_the_same(data: Any) -> None:
    compiled_alike(data)


@given(st.data())
def test_the_strategy_keeps_the_meaning(data: Any) -> None:
    func = data.draw(prim_funcs())
    arrays = data.draw(arguments(func))
    expected = [a.copy() for a in arrays]
    reference.run(func, *expected)
    module = lower(strategy.schedule(func, CPU).func, CPU, "main")
    for got, want in zip(lowered_result(module, arrays), expected):
        np.testing.assert_array_equal(got, want, err_msg=str(func))
