"""Lowering keeps the meaning of random programs, as written and under a random legal schedule."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from minitvm import strategy
from minitvm.errors import ScheduleError
from minitvm.reference import kernel as kernel_reference
from minitvm.reference import tir as reference
from minitvm.reference.strategies import arguments, prim_funcs
from minitvm.target import Target
from minitvm.tir import Schedule
from minitvm.tir.nodes import IRModule, PrimFunc
from minitvm.tir.transform import lower
from minitvm.tir.verifier import verify


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


@given(st.data())
def test_the_strategy_keeps_the_meaning(data: Any) -> None:
    func = data.draw(prim_funcs())
    arrays = data.draw(arguments(func))
    expected = [a.copy() for a in arrays]
    reference.run(func, *expected)
    target = Target("cpu -vector_bits=128 -cores=2")
    module = lower(strategy.schedule(func, target).func, target, "main")
    for got, want in zip(lowered_result(module, arrays), expected):
        np.testing.assert_array_equal(got, want, err_msg=str(func))
