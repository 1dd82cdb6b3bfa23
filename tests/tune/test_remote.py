"""Measuring on a farm: the same records as on this machine, whatever happens to the workers."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from minitvm.link import link_function
from minitvm.lowering import lower_function
from minitvm.records.database import Database
from minitvm.runtime.artifact.export import export
from minitvm.strategy import scheduled
from minitvm.target import Target
from minitvm.tir.nodes import PrimFunc
from minitvm.tune import remote
from minitvm.tune.farm.message import unpacked
from minitvm.tune.measure import Asked, Measuring, Runner
from minitvm.tune.network import on_farm, tune_tasks
from minitvm.tune.task import function_task

from .farm.boards import Boards, boards
from .programs import SHORT, product, task
from .test_measure import changed

KEY = b"k" * 32


class Here:
    """A farm of one worker, in this process."""

    key = KEY

    def __init__(self) -> None:
        self.asked: list[bytes] = []

    def workers(self) -> list[str]:
        return ["here"]

    def close(self) -> None:
        return None

    def run(self, function: str, arguments: list[bytes]) -> Iterator[tuple[int, bytes]]:
        self.asked += arguments
        for number in reversed(range(len(arguments))):  # the last one ends first
            yield number, getattr(remote, function.partition(":")[2])(arguments[number])


@contextlib.contextmanager
def a_farm_here(monkeypatch: pytest.MonkeyPatch) -> Iterator[remote.RemoteRunner]:
    """A runner on such a farm; a new worker for each test."""
    monkeypatch.setattr(remote, "worker_key", lambda: KEY)
    with Runner(SHORT) as local, remote.RemoteRunner(Here(), SHORT) as runner:  # type: ignore[arg-type]
        monkeypatch.setattr(remote, "_runner", lambda: local)
        yield runner


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> Iterator[remote.RemoteRunner]:
    with a_farm_here(monkeypatch) as runner:
        yield runner


def compiled(runner: Any, func: PrimFunc, name: str) -> Path:
    one = task(func)
    path = runner.folder / f"{name}.mtvm"
    export(link_function(lower_function(scheduled(one.func, one.target), one.target), one.target.brief), path, key=KEY)
    return path


def test_a_worker_that_never_saw_the_untuned_program_finds_out_what_is_right(here: remote.RemoteRunner) -> None:
    expected = here.folder / "product.npz"
    untuned = compiled(here, product(), "untuned")
    first = here.run(task(), [untuned], expected)
    assert first.outcome == "ok" and len(first.seconds[0]) >= 5 and not expected.exists()
    for path in remote._runner().folder.glob("*.npz"):
        path.unlink()  # as on another board
    same, wrong = compiled(here, changed(1.0), "same"), compiled(here, changed(1.01), "wrong")
    # The farm does the last one first: a wrong one must not say what is right.
    asked = [Asked(task(), paths, expected) for paths in ([same], [same, untuned], [wrong])]
    answers = sorted(here.each(asked), key=lambda answer: answer[0])
    outcomes = [(number, answer.outcome, len(answer.seconds)) for number, answer in answers]
    assert outcomes == [(0, "ok", 1), (1, "ok", 2), (2, "wrong", 0)]
    assert answers[2][1].message == "result 0 is 0.01 of its largest value from that of the untuned program"
    assert not list(remote._runner().folder.glob("*.mtvm")), "artifacts are removed"


def test_a_request_holds_no_path_and_no_key(here: remote.RemoteRunner) -> None:
    here.run(task(), [compiled(here, product(), "only")], here.folder / "only.npz", hopeless=2.0)
    ((request, blobs),) = map(unpacked, here.farm.asked)  # type: ignore[attr-defined]
    times = {"runs", "least", "hopeless", "seconds", "limit"}
    assert set(request) == {"zeros", "kept", "between", "memory", "device", *times}
    assert request["hopeless"] == 2.0 and len(blobs) == 2 and blobs[0] == blobs[1]
    assert not any(KEY in blob for blob in blobs)


def test_an_artifact_of_another_key_does_not_run_on_a_worker(
    here: remote.RemoteRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote, "worker_key", lambda: b"o" * 32)
    answer = here.run(task(), [compiled(here, product(), "foreign")], here.folder / "foreign.npz")
    assert answer.outcome == "crashed" and answer.message.startswith("exit status 1: minitvm.errors.ArtifactError: ")


@pytest.mark.full  # farms are started twice
def test_a_run_with_killed_workers_has_the_records_of_an_undisturbed_one(tmp_path: Path) -> None:
    pytest.importorskip("distributed", reason="Dask distributed is not installed: pip install 'minitvm[farm]'")
    one = function_task(product(64, 64, 32), Target("cpu"))

    def tuned(name: str, farm: Boards, disturb: bool) -> set[Any]:
        measuring: Measuring = on_farm(farm.address, one.target, farm.key, SHORT)
        stop = threading.Event()

        def kills() -> None:
            for _ in range(4):  # more often, and no measurement ends before its worker does
                if stop.wait(1.0):
                    return
                farm.kill(farm.workers[0])
                farm.start_worker()

        trouble = threading.Thread(target=kills)
        with Database.open(tmp_path / name) as database:
            if disturb:
                trouble.start()
            try:
                tune_tasks([one], database, time.monotonic(), trials=6, runs=10**9, measuring=measuring)
            finally:
                stop.set()
                if disturb:
                    trouble.join()
            return {(r.task, r.decision.to_json(), r.target) for r in database.records()}

    with boards(tmp_path, workers=2) as farm:
        undisturbed = tuned("undisturbed.db", farm, False)
        assert len(undisturbed) >= 7 and tuned("disturbed.db", farm, True) == undisturbed
