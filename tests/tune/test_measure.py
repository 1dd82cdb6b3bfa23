"""Measuring: what a candidate does to its process is a record, and the next one is measured as if nothing had been."""

from __future__ import annotations

import faulthandler
import math
import os
import signal
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from minitvm import te
from minitvm.link import link_function
from minitvm.lowering import lower_function
from minitvm.runtime import load
from minitvm.runtime.artifact.export import export
from minitvm.strategy import scheduled
from minitvm.tir.nodes import PrimFunc
from minitvm.tune import runner as program
from minitvm.tune.measure import LEAST, RUNS, Limits, Runner, apart_bytes, caches, indices
from minitvm.tune.task import Task
from tests.patience import PATIENCE

from .programs import SHORT, product, task


@pytest.fixture(scope="module")
def runner() -> Iterator[Runner]:
    with Runner(SHORT) as one:
        yield one


def compiled(runner: Runner, func: PrimFunc, name: str) -> Path:
    """The function as an artifact that the runner runs."""
    one = task(func)
    path = runner.folder / f"{name}.mtvm"
    lowered = lower_function(scheduled(one.func, one.target), one.target)
    export(link_function(lowered, one.target.brief), path, key=runner.key)
    return path


def changed(factor: float) -> PrimFunc:
    """The product, times a factor."""
    a, b = te.placeholder((32, 16), name="A"), te.placeholder((16, 48), name="B")
    r = te.reduce_axis((0, 16), name="k")
    c = te.compute((32, 48), lambda i, j: te.sum(a[i, r] * b[r, j], axis=r), name="C")
    return te.create_prim_func([a, b, te.compute((32, 48), lambda i, j: c[i, j] * factor, name="D")])


def test_results_are_in_place_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def ends_early(file: Any, *_: Any) -> None:
        Path(getattr(file, "name", file)).write_bytes(b"half")
        raise KeyboardInterrupt

    nothing = SimpleNamespace(executable=SimpleNamespace(inputs=(), outputs=(), calling_order=()))
    results = tmp_path / "right.npz"
    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(np, "savez", ends_early)
        program._compared(nothing, [], "", str(results))
    assert not results.exists()
    assert program._compared(nothing, [], "", str(results)) == "" and results.exists()


def test_the_first_run_says_what_is_right_and_others_are_compared_with_it(runner: Runner) -> None:
    expected = runner.folder / "product.npz"
    good, other = compiled(runner, product(), "good"), compiled(runner, changed(1.0), "same")
    first = runner.run(task(), [good], expected)
    assert first.outcome == "ok" and len(first.seconds) == 1 and len(first.seconds[0]) >= 5
    assert all(0 < seconds < 10 for seconds in first.seconds[0])
    with np.load(expected) as file:
        assert file["arr_0"].shape == (32, 48) and np.array_equal(file["arr_0"], np.round(file["arr_0"]))
    assert runner.run(task(), [other], expected).outcome == "ok"
    wrong = runner.run(task(), [compiled(runner, changed(1.01), "wrong")], expected)
    assert wrong.outcome == "wrong" and wrong.seconds == ()
    assert wrong.message == "result 0 is 0.01 of its largest value from that of the untuned program"


def test_two_take_turns(runner: Runner) -> None:
    paths = [compiled(runner, product(), "one"), compiled(runner, changed(1.0), "two")]
    both = runner.run(task(), paths, runner.folder / "pair.npz", runs=7, seconds=5.0)
    first, second = map(len, both.seconds)
    assert both.outcome == "ok" and first == second >= 7


def test_a_candidate_that_is_hopeless_beside_another_stops_after_the_least_runs(runner: Runner) -> None:
    path = compiled(runner, product(), "hopeless")
    both, expected = [path, path], runner.folder / "hopeless.npz"
    given_up = runner.run(task(), both, expected, hopeless=1e-9, seconds=5.0)
    assert given_up.outcome == "ok" and [len(times) for times in given_up.seconds] == [LEAST, LEAST]
    for hopeless in (1e9, 0.0):
        measured = runner.run(task(), both, expected, hopeless=hopeless, seconds=5.0)
        first, second = map(len, measured.seconds)
        assert first == second >= RUNS


@pytest.mark.parametrize(
    ("first", "second", "count"),
    [
        ([1.0] * 20, [2.0] * 20, 5),
        ([9.0, 5.0, 7.0, 3.0, 1.0, 1.04, 1.5, 1.0, 1.0], [1.0] * 9, 8),  # disturbed at first
        ([1.0] * 9, [9.0, 5.0, 7.0, 3.0, 1.0, 1.0, 1.06, 1.0, 1.0], 8),
        ([1.0, 1.0, 1.0, 1.0, 0.5, 1.0, 0.5, 2.0, 0.5], [1.0] * 9, 9),
    ],
)
def test_runs_go_on_until_the_fastest_repeat_themselves(first: list[float], second: list[float], count: int) -> None:
    clocks = [lambda number: first[number // 2], lambda number: second[number // 2]]
    asked = {"runs": 5, "least": 2, "hopeless": 0.0, "seconds": 60.0}
    assert program._timed(clocks, asked) == [first[:count], second[:count]]


def test_runs_that_never_repeat_themselves_have_an_end() -> None:
    def slower(number: int) -> float:
        time.sleep(0.002)
        return 1.1**number

    (seconds,) = program._timed([slower], {"runs": 5, "least": 5, "hopeless": 0.0, "seconds": 0.02})
    assert 5 <= len(seconds) <= 60
    assert len(program._timed([slower], {"runs": 1, "least": 1, "hopeless": 0.0, "seconds": 0.0})[0]) == 1


def test_an_artifact_that_nobody_signed_does_not_run(runner: Runner) -> None:
    path = compiled(runner, product(), "altered")
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    refused = runner.run(task(), [path], runner.folder / "altered.npz")
    assert refused.outcome == "crashed" and refused.message.startswith("exit status 1: minitvm.errors.ArtifactError")
    assert runner.run(task(), [compiled(runner, product(), "after")], runner.folder / "after.npz").outcome == "ok"


def test_the_runner_is_started_again_after_it_was_killed(runner: Runner) -> None:
    path = compiled(runner, product(), "again")
    assert runner.run(task(), [path], runner.folder / "again.npz").outcome == "ok"
    assert runner._process is not None
    runner._process.kill()
    runner._process.wait()
    assert runner.run(task(), [path], runner.folder / "again.npz").outcome == "ok"


# -- a child that goes wrong: `in_a_child` is what the runner does for each request


def child(monkeypatch: pytest.MonkeyPatch, does: Any, **request: Any) -> dict[str, Any]:
    """What the runner answers if a measurement `does` this."""
    monkeypatch.setattr(program, "measured", does)
    return program.in_a_child({"limit": PATIENCE, "memory": 0, **request})


def test_a_crash_is_recorded_with_its_signal_and_what_was_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def crashes(request: Any) -> Any:
        faulthandler.disable()  # pytest's own has the last word otherwise
        os.write(2, b"first\nloop 3 ran away\n")
        os.kill(os.getpid(), signal.SIGSEGV)

    assert child(monkeypatch, crashes) == {"outcome": "crashed", "message": "SIGSEGV: loop 3 ran away", "seconds": []}


def test_a_hang_ends_at_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    limits: list[float] = []
    read_reply = program._read_reply

    def waits(replies: int, seconds: float) -> tuple[bytes | None, bool]:
        limits.append(seconds)
        return read_reply(replies, min(seconds, 0.3))

    monkeypatch.setattr(program, "_read_reply", waits)
    answer = child(monkeypatch, lambda request: time.sleep(3600), limit=0.3)
    assert answer == {"outcome": "hung", "message": "no end after 0.3 s", "seconds": []}
    assert limits == [0.3]


def test_too_much_memory_is_recorded(runner: Runner) -> None:
    tight = Runner(Limits(seconds=0.01, hang=PATIENCE, memory=64 << 20))  # Python and NumPy alone have more
    with tight:
        path = compiled(tight, product(), "tight")
        answer = tight.run(task(), [path], tight.folder / "tight.npz")
    assert answer.outcome in ("memory", "crashed") and answer.seconds == ()
    assert "0.0671 GB" in answer.message or "exit status" in answer.message or "SIG" in answer.message


def test_an_error_is_recorded_with_its_last_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def raises(request: Any) -> Any:
        raise ValueError("no such axis")

    assert child(monkeypatch, raises)["message"] == "exit status 1: ValueError: no such axis"


def test_memory_errors_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    def load(*args: Any, **options: Any) -> Any:
        raise MemoryError

    monkeypatch.setattr("minitvm.runtime.load", load)
    answer = program.measured({"artifacts": ["x"], "key": "", "memory": 3e9})
    assert answer == {"outcome": "memory", "message": "more than 3 GB", "seconds": []}


@pytest.mark.parametrize(
    ("wanted", "found", "apart"),
    [
        ([1.0, 2.0], [1.0, 2.0], 0.0),
        ([1.0, -4.0], [1.0, -3.0], 0.25),
        ([0.0, 0.0], [0.0, 0.5], 0.5),
        ([math.nan, math.inf, 1.0], [math.nan, math.inf, 1.0], 0.0),
        ([math.inf, 1.0], [-math.inf, 1.0], math.inf),
        ([1.0, 2.0], [1.0, math.nan], math.inf),
        ([math.nan, 2.0], [1.0, 2.0], math.inf),
    ],
)
def test_differences(wanted: list[float], found: list[float], apart: float) -> None:
    assert program._difference(np.array(wanted, np.float32), np.array(found, np.float32)) == apart


def test_integers_have_to_be_equal() -> None:
    assert program._difference(np.array([1, 2]), np.array([1, 2])) == 0
    assert program._difference(np.array([1, 2]), np.array([1, 3])) == 1


def gather() -> PrimFunc:
    """Rows of a table, and how many there are is read as well."""
    table, rows = te.placeholder((4, 8), name="table"), te.placeholder((3,), "int32", name="rows")

    def inside(row: Any) -> Any:
        return te.maximum(te.minimum(row, 3), 0)

    return te.create_prim_func([table, rows, te.compute((3, 8), lambda i, j: table[inside(rows[i]), j], name="taken")])


def test_arguments_that_index_are_zeros(runner: Runner) -> None:
    assert indices(gather()) == [1] and indices(product()) == []
    path = compiled(runner, gather(), "gather")
    assert (
        runner.run(Task("gather", gather(), task().target, "k"), [path], runner.folder / "gather.npz").outcome == "ok"
    )


def test_the_state_of_the_caches_is_stated() -> None:
    one = task()
    assert apart_bytes(one) == 2 * one.target.description.l2.size * 2
    assert caches(one) == f"arguments are used again after {apart_bytes(one) >> 10} KiB of others"
    inside = replace(one, operators=("matmul",), constants=frozenset({1}))
    assert caches(inside) == f"constants are used again after {apart_bytes(one) >> 10} KiB of others"


def test_what_is_kept_is_the_same_in_each_run(runner: Runner) -> None:
    function = load(compiled(runner, product(), "kept"), key=runner.key)
    copies = program._arguments(function, [], 1 << 20, [0, 2])
    assert len(copies) > 1
    for number in range(3):
        assert len({id(arguments[number]) for arguments in copies}) == (len(copies) if number == 1 else 1)
    assert all(np.array_equal(arguments[1], copies[0][1]) for arguments in copies)
    assert len(program._arguments(function, [], 1 << 20, [0, 1, 2])) == 1
