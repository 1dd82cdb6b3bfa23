"""Every program with one fault is told from the right one, unless no input at all shows the fault."""

from __future__ import annotations

import random

import numpy as np
import pytest

from minitvm.reference import check

from . import mutations
from .written import each

FORMULAS, FAULTS, RARE = 8, 5, 1 / 500


@pytest.mark.parametrize("seed", [1, 2, *(pytest.param(s, marks=pytest.mark.full) for s in (5, 6))])
def test_a_fault_is_told_unless_no_input_shows_it(seed: int) -> None:
    """What fewer inputs show than one of 500 may stay unseen; nothing is told that is not there."""
    rng = random.Random(seed)
    told = 0
    for text, build in mutations.formulas(seed, FORMULAS):
        small = build(8)
        large = build(mutations.size_of(small))
        every = mutations.every_input(small)
        right = mutations.results(large, every)
        assert right is not None
        pairs = list(zip(mutations.mutants(small), mutations.mutants(large), strict=True))
        for (fault, mutant), (_, wide) in rng.sample(pairs, min(FAULTS, len(pairs))):
            found = mutations.results(wide, every)
            shown = 1.0 if found is None else np.count_nonzero(found != right) / right.size
            verdict = check(small, mutant, shrink=False)
            assert verdict or shown > 0, f"{text}, {fault}: {verdict}"
            assert not verdict or shown < RARE, f"{text}, {fault}: equal, but {shown:.2%} of the inputs differ"
            told += not verdict
    assert told > FORMULAS


def test_a_mutant_differs_in_one_place() -> None:
    func = each('T.Cast("int8", T.min(T.round(T.Cast("float32", A[i]) * T.float32(0.5)), T.float32(6)))', "int8")
    texts = [text for text, _ in mutations.mutants(func)]
    assert {"round is floor", "a clip left out", "6.0 is 7.0", "Min is Max", "one more"} <= set(texts)
    assert len({mutant.script() for _, mutant in mutations.mutants(func)}) == len(texts)
