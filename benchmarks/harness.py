"""How everything here is measured: peers in one process, runs interleaved, medians and ratios."""

from __future__ import annotations

import json
import platform
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from . import peers

RESULTS = Path(__file__).parent / "results"


@dataclass(frozen=True, slots=True)
class Row:
    """One comparison: median seconds of ours and of the peer; `wanted` is the least ratio peer/ours that was asked."""

    name: str
    threads: int
    ours: float
    peer: float
    peer_name: str
    wanted: float

    @property
    def ratio(self) -> float:
        """How many times as fast as the peer we are."""
        return self.peer / self.ours


# Threads of a pool go on spinning after a call, OpenBLAS's for 2^26 cycles: on a core that the next candidate needs.
SETTLE = 0.15


def interleaved(
    candidates: Mapping[str, Callable[[], Any]],
    rounds: int = 21,
    warmup: int = 3,
    at_least: float = 0.0,
    threads: int = 1,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, float]:
    """Median seconds of each candidate. They take turns, so that a change in the machine's speed meets all alike.

    `clock` returns seconds. `time.thread_time` is for candidates that run on this thread alone: other programs change
    it little.

    `at_least` seconds are spent on each measurement by repeating quick candidates. With more than one of `threads`, a
    turn begins with a pause in which the threads of the candidate before it go to sleep, and with a call that is not
    measured, which wakes its own: everybody has all cores, and nobody is measured waking up.
    """
    repeats = {}
    for name, run in candidates.items():
        for _ in range(warmup):
            run()
        start = clock()
        run()
        once = max(clock() - start, 1e-9)
        repeats[name] = max(1, round(at_least / once))
    samples: dict[str, list[float]] = {name: [] for name in candidates}
    for _ in range(rounds):
        for name, run in candidates.items():
            if threads > 1:
                time.sleep(SETTLE)
                run()
            start = clock()
            for _ in range(repeats[name]):
                run()
            samples[name].append((clock() - start) / repeats[name])
    return {name: statistics.median(values) for name, values in samples.items()}


TOLERANCE = 1e-3  # of the largest element


def require_agreement(name: str, peer: str, found: np.ndarray, expected: np.ndarray) -> None:
    """RuntimeError where ours and a peer's results differ, or are no numbers: then there is nothing to measure."""
    found, expected = np.asarray(found, np.float64), np.asarray(expected, np.float64)
    if not np.abs(found - expected).max() <= TOLERANCE * np.abs(expected).max() < np.inf:
        raise RuntimeError(f"{name}: minitvm and {peer} differ: nothing to measure")


def beside(
    name: str,
    ours: peers.Run,
    others: Mapping[str, peers.Run],
    rounds: int = 15,
    at_least: float = 0.0,
    threads: int = 1,
) -> dict[str, float]:
    """Median seconds of "ours" and of each peer, after a check that they agree."""
    found = np.asarray(ours())
    for who, run in others.items():
        require_agreement(name, who, found, peers.output_of(run()))
    return interleaved({"ours": ours, **others}, rounds, at_least=at_least, threads=threads)


def table(title: str, rows: list[Row]) -> None:
    """Print comparisons."""
    print(f"\n{title}")
    print(f"  {'':<28}{'threads':>8}{'minitvm':>12}{'peer':>12}{'ratio':>8}{'wanted':>8}")
    for row in rows:
        verdict = "" if row.ratio >= row.wanted else "  short"
        print(
            f"  {row.name:<28}{row.threads:>8}{row.ours * 1e3:>9.3f} ms{row.peer * 1e3:>9.3f} ms"
            f"{row.ratio:>8.2f}{row.wanted:>8.2f}  {row.peer_name}{verdict}"
        )


def geometric_mean(ratios: Sequence[float]) -> float:
    """The mean that treats twice as fast and twice as slow alike."""
    return statistics.geometric_mean(ratios)


def machine() -> dict[str, Any]:
    """What the figures were measured on."""
    from importlib import metadata

    from minitvm.target import Target

    packages = {}
    for name in ("numpy", "numba", "llvmlite", "onnxruntime", "openvino"):
        try:
            packages[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            packages[name] = "not installed"
    system = {"python": platform.python_version(), "system": platform.platform()}
    return {"target": str(Target("cpu")), **system, **packages}


def save(name: str, rows: list[Row], **extra: Any) -> Path:
    """Write comparisons with the machine's description to benchmarks/results/NAME.json."""
    RESULTS.mkdir(parents=True, exist_ok=True)
    path = RESULTS / f"{name}.json"
    records = [{**asdict(row), "ratio": row.ratio} for row in rows]
    path.write_text(json.dumps({"machine": machine(), "rows": records, **extra}, indent=2) + "\n")
    return path
