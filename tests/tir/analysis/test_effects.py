"""Effects beside runs: what a statement touches lies in its boxes, and what it surely touches is touched."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minitvm.expr import IntImm, Var, as_expr
from minitvm.reference import random_inputs
from minitvm.reference.strategies.programs import prim_funcs
from minitvm.tir.analysis.effects import exposes
from minitvm.tir.nodes import Buffer, BufferStore, For, ForKind, If, Seq, Stmt
from tests.fewer import examples

from .followed import (
    ALONE,
    COUNTS,
    SURELY_READ,
    TWICE,
    WHOLE,
    Tally,
    accumulated_holds,
    count_holds,
    effects_hold,
    exposure_holds,
    follow,
    kernel_effects_hold,
    twice_holds,
    whole_holds,
)

COUNT = 25


@examples(5, 15)
@given(st.data())
def test_random_programs_touch_what_their_effects_say(data: Any) -> None:
    func = data.draw(prim_funcs())
    follow(func, random_inputs(func, 0), Tally())


def test_programs_of_blocks_touch_what_their_effects_say() -> None:
    tally = Tally()
    for seed in range(COUNT):
        effects_hold(seed, tally)
    assert tally.frames > 2000 and tally.certain > 8000 and tally.covered > 200, tally
    assert tally.blocks > 300 and tally.whole > 1500 and tally.ends > 15000, tally


@pytest.mark.alike(most=4)
@pytest.mark.parametrize("seed", range(12))
def test_kernels_touch_what_their_effects_say(seed: int) -> None:
    kernel_effects_hold(seed)


def test_a_condition_on_a_loop_says_nothing_of_another_loop_with_its_variable() -> None:
    """Copies of a loop may share its variable: S[0] and S[1] are written, S[2] and S[3] are read."""
    i, (s, b) = Var("i", "int32"), (Buffer(name, (4,), "float32") for name in "SB")

    def loop(body: Stmt) -> For:
        return For(i, IntImm(0), IntImm(4), ForKind.SERIAL, If(i < 2, body))

    stored = loop(BufferStore(s, as_expr(0.0).astype("float32"), (i,)))
    assert exposes(Seq((stored, loop(BufferStore(b, s[3 - i], (i,))))), s)


@pytest.mark.parametrize("what", ALONE)
def test_whether_an_iteration_finds_what_another_one_left(what: str) -> None:
    exposure_holds(what)


@pytest.mark.parametrize("body", [*COUNTS, *SURELY_READ])
def test_how_many_elements_a_loop_touches(body: str) -> None:
    count_holds(body)


@pytest.mark.parametrize("body", WHOLE)
def test_what_a_block_does_to_all_of_a_region(body: str) -> None:
    whole_holds(body)


@pytest.mark.parametrize(("under_condition", "what"), TWICE)
def test_a_node_in_two_places(under_condition: bool, what: str) -> None:
    twice_holds(under_condition, what)


@pytest.mark.parametrize("written", ["vi", "P[vi]", "7 - vi"])
@pytest.mark.parametrize("read", ["vi", "P[vi]", "Q[vi]", "7 - vi"])
def test_what_a_sum_adds_to_is_not_read(written: str, read: str) -> None:
    accumulated_holds(written, read, written == read)
