"""The residual: what it learns of some candidates it says of those that have something in common with them."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minitvm.strategy import Cost
from minitvm.tune import residual as module
from minitvm.tune.residual import NOISE, VARIANCES, MeasuredCandidate, Residual, boldest, left_out


def points(number: int, seed: int) -> tuple[list[MeasuredCandidate], np.ndarray]:
    """Candidates with random knobs, and the logarithm of a ratio that depends on them smoothly."""
    generator = np.random.default_rng(seed)
    tiles, packs = 2 ** generator.integers(0, 5, number), generator.integers(0, 2, number)
    some = [
        MeasuredCandidate("r", {"rows": int(t), "pack": bool(p)}, Cost(1e6, 1e5), "task", "cpu")
        for t, p in zip(tiles, packs, strict=True)
    ]
    return some, 0.2 * np.log2(tiles) - 0.4 * packs + 0.3


def learned(some: list[MeasuredCandidate], logs: np.ndarray) -> Residual:
    residual = Residual()
    residual.fit(some, list(np.exp(logs)))
    return residual


def test_of_nothing_nothing_is_learned() -> None:
    residual = learned(*points(5, 0))
    residual.fit([], [])
    assert np.array_equal(residual.predict(points(5, 1)[0]), np.zeros(5))
    assert residual.predict([]).shape == (0,)


@settings(max_examples=20)
@given(st.integers(0, 1000))
def test_a_smooth_residual_is_learned_from_two_dozen_points(seed: int) -> None:
    some, logs = points(24, seed)
    others, expected = points(50, seed + 1)
    error = np.abs(learned(some, logs).predict(others) - expected)
    assert error.mean() < 0.1 and error.mean() < 0.5 * np.abs(expected - logs.mean()).mean()


@settings(max_examples=20)
@given(st.floats(0.01, 100.0), st.integers(0, 100))
def test_a_machine_that_is_slower_by_a_factor_moves_all_predictions_by_it(factor: float, seed: int) -> None:
    some, logs = points(12, seed)
    asked = points(6, seed + 1)[0]
    apart = learned(some, logs + np.log(factor)).predict(asked) - learned(some, logs).predict(asked)
    assert np.allclose(apart, np.log(factor), atol=1e-6)


def test_one_record_of_an_operator_moves_all_of_its_candidates() -> None:
    some, logs = points(12, 0)
    first = replace(some[0], task="another", knobs={"rows": 8, "pack": True})
    before = learned(some, logs)
    after = learned([*some, first], np.append(logs, before.predict([first])[0] + 1.0))
    asked = [replace(first, knobs={"rows": rows, "pack": False}) for rows in (1, 4, 16)]
    assert ((after.predict(asked) - before.predict(asked)) > 0.4).all()
    same = [replace(one, task="task") for one in asked]
    assert (np.abs(after.predict(same) - before.predict(same)) < 0.15).all()


@pytest.mark.parametrize("what", ["rule", "task", "target"])
def test_the_less_is_shared_the_less_is_learned(what: str) -> None:
    here, there = (
        MeasuredCandidate("r", {}, Cost(1e6), "a", "cpu"),
        MeasuredCandidate("other", {}, Cost(1e6), "b", "gpu"),
    )
    near = replace(there, **{what: getattr(here, what)})
    log_of_here, _, log_of_near = learned([here, there], np.array([1.0, -1.0])).predict([here, there, near])
    assert -1.0 < learned([here, there], np.array([1.0, -1.0])).predict([there])[0] < log_of_near < log_of_here


def test_far_from_what_was_seen_only_what_is_shared_is_said() -> None:
    some, logs = points(12, 0)
    residual = learned(some, logs)
    far = [MeasuredCandidate("r", {"rows": 1 << n, "pack": True}, Cost(1e30), "task", "cpu") for n in (40, 60)]
    assert residual.predict(far)[0] == pytest.approx(residual.predict(far)[1])
    assert logs.min() < residual.predict(far)[0] < logs.max()


@settings(max_examples=10)
@given(st.integers(0, 100), st.integers(2, 12))
def test_what_is_left_out_is_predicted_from_the_others(seed: int, number: int) -> None:
    some, logs = points(number, seed)
    left = left_out(some, list(np.exp(logs)))
    one = seed % number
    others = [k for k in range(number) if k != one]
    predicted = learned([some[k] for k in others], logs[others]).predict([some[one]])[0]
    assert left[one] == pytest.approx(logs[one] - predicted, abs=1e-6)


def test_what_was_measured_is_known_and_what_is_alike_nearly() -> None:
    some, logs = points(6, 0)
    alike, other = replace(some[0], cost=Cost(1.1e6, 1e5)), replace(some[0], rule="other", task="b", target="gpu")
    known, near, far = np.diag(learned(some, logs).uncertainty([some[0], alike, other]))
    assert 0 <= known < NOISE and known < near < 0.1 < 1.0 < far
    assert Residual().uncertainty([other])[0, 0] == pytest.approx(sum(VARIANCES.values()))


def test_the_boldest_may_be_the_fastest_and_are_not_alike() -> None:
    unknown = np.array([[1.0, 0.99, 0.0], [0.99, 1.0, 0.0], [0.0, 0.0, 0.04]])
    assert boldest(np.array([0.0, 0.1, 0.05]), unknown, 2) == [0, 2], "the second is as good as measured"
    assert boldest(np.array([0.0, 0.1, 0.3]), 0 * unknown, 5) == [0, 1, 2]
    assert boldest(np.array([0.5, 5.0, 0.0]), unknown, 1) == [0], "it may be much faster than predicted"


def test_the_last_points_count_where_there_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    some, logs = points(20, 0)
    few = learned(some[-8:], logs[-8:]).predict(some)
    monkeypatch.setattr(module, "MOST", 8)
    assert np.array_equal(learned(some, logs).predict(some), few)


def test_places_tell_candidates_apart() -> None:
    place = MeasuredCandidate("r", {"rows": 8, "order": "xy"}, Cost(100.0, 50.0)).place
    assert place["r.rows"] == 1.5 and place["r.order=xy"] == 0.5
    assert place["memory"] == pytest.approx(1 / 3 / 0.3) and place["cycles"] == pytest.approx(math.log(150) / 2)
    assert MeasuredCandidate("r", {}, Cost(0.0)).place["cycles"] == 0.0
