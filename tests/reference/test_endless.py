"""A `while` that does not end is an error, in every mode and at every level, and a difference in a check."""

from __future__ import annotations

import numpy as np
import pytest

from minitvm import reference
from minitvm.errors import ExecutionError, InputError
from minitvm.script import tir as T
from minitvm.tir.transform.pipeline import lower


@T.prim_func
def copies(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
    for i in range(4):
        B[i] = A[i]


@T.prim_func
def endless(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
    for i in range(4):
        B[i] = A[i]
    while B[0] == A[0]:
        B[1] = A[1]


@T.prim_func
def counts(A: T.Buffer((4,), "int32")):
    for i in range(4):
        A[i] = 0
    while A[0] < 50:
        A[0] = A[0] + 1


@pytest.fixture
def limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MINITVM_WHILE_LIMIT", "100")


@pytest.mark.parametrize("mode", ["fast", "slow"])
def test_a_run_ends(limit: None, mode: str) -> None:
    args = [np.ones(4, np.float32) for _ in range(2)]
    with pytest.raises(ExecutionError, match=r"while B\[0\] == A\[0\]: no end after 100 iterations"):
        reference.tir.run(endless, *args, mode=mode)
    with pytest.raises(ExecutionError, match="no end after 100 iterations"):
        reference.kernel.run(lower(endless, None, "main"), *args, mode=mode)


def test_a_check_tells_the_difference(limit: None) -> None:
    verdict = reference.check(copies, endless)
    assert not verdict
    assert "no end after 100 iterations" in str(verdict)


def test_the_limit_can_be_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MINITVM_WHILE_LIMIT", "50")
    reference.tir.run(counts, np.zeros(4, np.int32))
    monkeypatch.setenv("MINITVM_WHILE_LIMIT", "49")
    with pytest.raises(ExecutionError, match="MINITVM_WHILE_LIMIT=4900"):
        reference.tir.run(counts, np.zeros(4, np.int32))
    monkeypatch.setenv("MINITVM_WHILE_LIMIT", "many")
    with pytest.raises(InputError, match="MINITVM_WHILE_LIMIT: wanted a number"):
        reference.tir.run(counts, np.zeros(4, np.int32))
