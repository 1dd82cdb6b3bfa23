"""The passes on random programs: all of them, or those that must run and some of the others, keep the meaning."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.tir.transform.through_passes import (
    blocks_keep_the_meaning,
    stages_keep_the_meaning,
    threads_keep_the_meaning,
    virtual_threads_keep_the_meaning,
)


@pytest.mark.alike(most=2)
@pytest.mark.parametrize("part", range(3))
def test_passes_keep_what_a_program_of_blocks_computes(part: int) -> None:
    for seed in range(50 * part, 50 * part + 50):
        blocks_keep_the_meaning(seed)


@pytest.mark.alike()
@pytest.mark.parametrize("part", range(2))
def test_passes_keep_what_threads_compute(part: int) -> None:
    for seed in range(30 * part, 30 * part + 30):
        threads_keep_the_meaning(seed)


@pytest.mark.alike()
@pytest.mark.parametrize("part", range(2))
def test_passes_keep_what_stages_compute(part: int) -> None:
    for seed in range(30 * part, 30 * part + 30):
        stages_keep_the_meaning(seed)


def test_passes_keep_what_virtual_threads_compute() -> None:
    for seed in range(20):
        virtual_threads_keep_the_meaning(seed)


MANY = (blocks_keep_the_meaning, threads_keep_the_meaning, virtual_threads_keep_the_meaning, stages_keep_the_meaning)


@pytest.mark.full
@pytest.mark.parametrize("check", MANY)
def test_passes_keep_what_many_programs_compute(check: Callable[[int], None]) -> None:
    for seed in range(1000, 3000):
        check(seed)
