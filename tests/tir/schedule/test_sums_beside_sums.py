"""rfactor of blocks that reduce into several buffers, each in its own way: layer norm's sum and sum of squares."""

from __future__ import annotations

from typing import Any

import pytest

from minitvm.errors import ScheduleError
from minitvm.script import tir as T
from minitvm.tir import PrimFunc
from minitvm.tir.schedule import Schedule

from .meaning import same_meaning


def moments() -> PrimFunc:
    @T.prim_func
    def moments(A: T.Buffer((4, 12), "float32"), S: T.Buffer((4,), "float32"), Q: T.Buffer((4,), "float32")):
        for i, k in T.grid(4, 12):
            with T.block("S"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    S[vi] = T.float32(0)
                    Q[vi] = T.float32(0)
                v0: T.float32 = S[vi] + A[vi, vk]
                v1: T.float32 = Q[vi] + A[vi, vk] * A[vi, vk]
                S[vi] = v0
                Q[vi] = v1

    return moments


def with_bias() -> PrimFunc:
    """A sum from 5, a maximum from 3, and their dtypes differ."""

    @T.prim_func
    def with_bias(A: T.Buffer((4, 12), "int32"), S: T.Buffer((4,), "int32"), M: T.Buffer((4,), "int64")):
        for i, k in T.grid(4, 12):
            with T.block("S"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    S[vi] = 5
                    M[vi] = T.int64(3)
                S[vi] = A[vi, vk] + S[vi]
                M[vi] = T.max(M[vi], T.Cast("int64", A[vi, vk]))

    return with_bias


@pytest.mark.parametrize("make", [moments, with_bias])
@pytest.mark.parametrize("inner", [0, 1])
@pytest.mark.parametrize("axis", [0, -1])
def test_rfactor(make: Any, inner: int, axis: int) -> None:
    func = make()
    sch = Schedule(func)
    block = sch.get_block("S")
    partial = sch.rfactor(sch.split(sch.get_loops(block)[1], [None, 4])[inner], axis)
    assert len(sch.get(partial).writes) == 2
    same_meaning(func, sch)


def test_each_must_be_a_reduction_of_its_own() -> None:
    @T.prim_func
    def mixed(A: T.Buffer((4, 12), "float32"), S: T.Buffer((4,), "float32"), Q: T.Buffer((4,), "float32")):
        for i, k in T.grid(4, 12):
            with T.block("S"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    S[vi] = T.float32(0)
                    Q[vi] = T.float32(0)
                v0: T.float32 = S[vi] + A[vi, vk]
                v1: T.float32 = Q[vi] + S[vi]
                S[vi] = v0
                Q[vi] = v1

    sch = Schedule(mixed)
    with pytest.raises(ScheduleError, match="what is combined reads the result"):
        sch.rfactor(sch.get_loops("S")[1], 0)
