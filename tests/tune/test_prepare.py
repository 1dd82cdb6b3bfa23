"""Candidates are scheduled, counted and compiled in other processes; one that ends its process costs itself alone."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from minitvm.errors import MissingExtra
from minitvm.runtime.artifact import export
from minitvm.strategy import Decision
from minitvm.tune.prepare import artifact_request, artifacts, checked
from minitvm.tune.space import Space
from minitvm.workers import worker_pool

from .programs import product, task

REPLIES = worker_pool.PoolTask(f"{__name__}:reply", worth_starting=1, worth_using=1, died=b"died")


def reply(request: bytes) -> bytes:
    """A worker's function: ends its process if it is asked to."""
    if request == b"end":
        os._exit(3)
    return request.upper()


@pytest.fixture(autouse=True)
def _found_by_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    """The workers import this module by its name."""
    monkeypatch.setattr(worker_pool, "_workers", [])
    folder = str(Path(__file__).resolve().parents[2])
    monkeypatch.setenv("PYTHONPATH", folder)
    monkeypatch.syspath_prepend(folder)


@pytest.mark.parametrize(
    ("requests", "workers"),
    [([], 2), (["a"], 1), (["end"], 1), (["a", "end", "b"], 1), (["end", "end", "a", "end", "b"], 2)],
    ids=lambda r: "+".join(r) if isinstance(r, list) else str(r),
)
def test_a_worker_that_dies_costs_its_request_alone(requests: list[str], workers: int) -> None:
    if not __name__.startswith("tests."):
        pytest.skip("this module has no name that a worker can import")
    try:
        results = worker_pool.run(REPLIES, [one.encode() for one in requests], workers)
        assert [one.decode() for one in results] == ["died" if one == "end" else one.upper() for one in requests]
    finally:
        worker_pool.shutdown()


def test_candidates_are_lowered_and_counted_and_refusals_have_a_reason(tmp_path: Path) -> None:
    one = task(product(32, 48, 16))
    space = Space(one)
    asked = [None, Decision.of(space.yielded[0]), Decision("nothing", {})]
    try:
        usual, first, refused = checked([(one, decision) for decision in asked], workers=1)
        assert usual.outcome == first.outcome == "ok" and usual.decision.rule == "contraction"
        assert usual.figures["flops"] == 2 * 32 * 48 * 16 and usual.figures["slots"] == 32 * 48 * 16
        assert usual.cost[0] > 0 and json.loads(usual.lowered)["name"] == "main"
        assert refused.outcome == "refused" and refused.message == "nothing: no rule of that name for cpu"
        assert (usual.code == first.code) == (usual.decision == first.decision)
        path = tmp_path / "usual.mtvm"
        assert artifacts([(one, usual, path)], b"k" * 32, workers=1) == [""]
        assert path.stat().st_size > 1000 and path.stat().st_mtime <= time.time()
        (fault,) = artifacts([(one, usual, tmp_path / "none" / "usual.mtvm")], b"k" * 32, workers=1)
        assert "none" in fault and "\n" not in fault
    finally:
        worker_pool.shutdown()


def test_a_missing_package_is_no_fault_of_a_candidate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It ends the search. Otherwise every candidate would be recorded as one that cannot run."""

    def without_llvm(*_: object) -> None:
        raise MissingExtra("llvmlite is not installed")

    one = task(product(8, 8, 8))
    try:
        (usual,) = checked([(one, None)], workers=1)
    finally:
        worker_pool.shutdown()
    monkeypatch.setattr(export, "export", without_llvm)
    request = {"lowered": usual.lowered, "target": one.target.brief, "path": str(tmp_path / "x.mtvm"), "key": "00"}
    with pytest.raises(MissingExtra, match="llvmlite is not installed"):
        artifact_request(json.dumps({**request, "architectures": []}).encode())
