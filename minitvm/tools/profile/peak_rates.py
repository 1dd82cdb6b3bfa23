"""The peak rates of this machine: multiply-adds per second, and bytes per second from each level of memory.

Measured by the kernels of `microbenchmarks` on as many threads as the program has, and kept in the cache directory, one
file per machine and number of threads. The best result of all measurements is kept: a measurement on a busy machine can
only be too low, and the next better one replaces it. One that contradicts itself (a cache slower than the level behind
it, a small part of the promised peak) is made again, and is never kept.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import itertools
import json
import os
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import Any

import numpy as np

from ...build import build
from ...executable.alignment import aligned_empty
from ...store import directory
from ...target import Target
from ...target.machines import CPU
from .microbenchmarks import multiply_add, triad

VERSION = 1
_PATIENCE = 0.15  # seconds for each of the measurements, and more if a single run takes long
_RUNS = 30
_RUN = 300e-6  # seconds that one run should take: much longer than a call, shorter than the time between interruptions
_MOST_BYTES = 192 << 20  # in the measurement of memory
_TRIES = 3  # measurements until one is plausible
_NEARER = 0.95  # a level's bandwidth is at least this part of that of the level behind it, but for noise
_OF_NOMINAL = 0.2  # the peak is at least this part of what the description promises


@dataclass(frozen=True, slots=True)
class Level:
    """A level of memory: the bytes that it holds for all threads together, and the bytes it moves per second."""

    name: str
    capacity: float
    bandwidth: float


@dataclass(frozen=True, slots=True)
class Machine:
    """`peak` in float32 operations per second, where a multiply-add is two; `levels` from the nearest to memory.

    `nominal` is the peak that the target's description promises, 0 where the clock rate is unknown.
    """

    name: str
    threads: int
    peak: float
    levels: tuple[Level, ...]
    nominal: float = 0.0

    @property
    def memory(self) -> Level:
        """The last level."""
        return self.levels[-1]

    @property
    def clock(self) -> float:
        """How many times the clock that the description names; 1 where it names none."""
        return self.peak / self.nominal if self.nominal else 1.0

    def level(self, distance: float) -> Level:
        """The level that still holds what was touched `distance` bytes ago."""
        return next(level for level in self.levels if distance <= level.capacity)

    def __str__(self) -> str:
        rates = ", ".join(f"{level.name} {level.bandwidth / 1e9:.0f} GB/s" for level in self.levels)
        nominal = f" (nominal {self.nominal / 1e9:.0f})" if self.nominal else ""
        return f"{self.name}, {self.threads} threads: {self.peak / 1e9:.0f} GFLOP/s{nominal}; {rates}"


def machine(threads: int, again: bool = False) -> Machine:
    """This machine's rates for `threads` threads: from the cache, or measured in about 2 s; `again` measures anew."""
    cpu = Target("cpu").description
    path = _path(cpu, threads)
    cached = _load(path)
    if cached is not None and not again:
        return cached
    measured = measure(cpu, threads)
    best = measured if cached is None else _better(cached, measured)
    for _ in range(_TRIES - 1):
        if plausible(best):
            break
        best = _better(best, measure(cpu, threads))
    even = falling(best)
    if plausible(best):
        _save(path, even)
    return even


def falling(measured: Machine) -> Machine:
    """The rates with those of nearer levels raised to those of the levels behind them.

    Legal: measurements are too low or right, and what fits into a nearer level moves at least as fast.
    """
    raised = itertools.accumulate((level.bandwidth for level in reversed(measured.levels)), max)
    levels = zip(measured.levels, reversed(list(raised)), strict=True)
    return dataclasses.replace(measured, levels=tuple(dataclasses.replace(one, bandwidth=b) for one, b in levels))


def known(threads: int) -> Machine | None:
    """What `machine` measured before, if it did; nothing is measured."""
    return _load(_path(Target("cpu").description, threads))


def plausible(measured: Machine) -> bool:
    """Whether rates fit each other: other programs on the same cores can spoil any of them."""
    levels = measured.levels
    falls = all(near.bandwidth >= _NEARER * far.bandwidth for near, far in itertools.pairwise(levels))
    return falls and measured.peak >= _OF_NOMINAL * measured.nominal and all(level.bandwidth > 0 for level in levels)


def measure(cpu: CPU, threads: int) -> Machine:
    """Run the two kernels; nothing is read from or written to the cache of measurements."""
    lanes = cpu.vector_bytes // 4
    cores = min(threads, cpu.cores)
    levels = [
        Level(name, capacity, _bandwidth(min(capacity // 2, _MOST_BYTES), threads, lanes))
        for name, capacity in _caches(cpu, cores)
    ]
    beyond = max([4 * int(level.capacity) for level in levels] + [64 << 20])
    levels.append(Level("memory", inf, _bandwidth(min(beyond, _MOST_BYTES), threads, lanes)))
    nominal = cores * cpu.ghz * 1e9 * cpu.fma_ports * lanes * 2
    return Machine(cpu.name, threads, _peak(cpu, threads, lanes), tuple(levels), nominal)


def _caches(cpu: CPU, cores: int) -> list[tuple[str, int]]:
    """The caches and what they hold for a team on that many cores; one not larger than the one before is left out."""
    caches: list[tuple[str, int]] = []
    for name, cache in (("L1", cpu.l1), ("L2", cpu.l2), ("L3", cpu.l3)):
        capacity = cache.size * -(-cores // max(cache.shared_by, 1))
        if capacity > (2 * caches[-1][1] if caches else 0):
            caches.append((name, capacity))
    return caches


def _peak(cpu: CPU, threads: int, lanes: int) -> float:
    """Float operations per second of multiply-adds on registers."""
    accumulators = max(1, min(cpu.vector_registers - 4, 2 * cpu.chains))
    kernel = build(multiply_add(accumulators, lanes), threads=threads)
    factor, result = _zeros((lanes,)), _zeros((threads, accumulators, lanes))
    operations = 2 * accumulators * lanes * threads
    return operations * _best_rate(lambda repeats: kernel(factor, repeats, threads, result))


def _bandwidth(size: int, threads: int, lanes: int) -> float:
    """Bytes per second of the triad on three arrays that take `size` bytes together."""
    vectors = max(1, size // (3 * 4 * lanes * threads))
    kernel = build(triad(lanes), threads=threads)
    a, b, c = (_zeros((threads, vectors, lanes)) for _ in range(3))
    return 3 * a.nbytes * _best_rate(lambda repeats: kernel(a, b, repeats, c))


def _zeros(shape: Sequence[int]) -> np.ndarray[Any, Any]:
    array = aligned_empty(4 * int(np.prod(shape))).view(np.float32).reshape(shape)
    array[...] = 0
    return array


def _best_rate(run: Callable[[int], None]) -> float:
    """Repetitions per second in the best of many runs; `run(n)` does n of them."""

    def seconds(repeats: int) -> float:
        start = time.perf_counter()
        run(repeats)
        return time.perf_counter() - start

    repeats = 1
    while min(seconds(repeats) for _ in range(3)) < _RUN:  # one alone may have been interrupted
        repeats *= 2
    best, runs, end = inf, 0, time.perf_counter() + _PATIENCE
    while time.perf_counter() < end or runs < _RUNS:
        best, runs = min(best, seconds(repeats)), runs + 1
    return repeats / best


def _better(a: Machine, b: Machine) -> Machine:
    """The best of two measurements of one machine."""
    if [level.name for level in a.levels] != [level.name for level in b.levels]:
        return b
    levels = tuple(
        dataclasses.replace(new, bandwidth=max(old.bandwidth, new.bandwidth))
        for old, new in zip(a.levels, b.levels, strict=True)
    )
    return dataclasses.replace(b, peak=max(a.peak, b.peak), levels=levels)


# -- the cache


def _path(cpu: CPU, threads: int) -> Path:
    key = hashlib.sha256(f"{VERSION} {dataclasses.asdict(cpu)} {threads}".encode()).hexdigest()[:16]
    return directory() / f"machine-{key}.json"


def _load(path: Path) -> Machine | None:
    """A stored measurement; None if there is none, or it is not plausible."""
    try:
        data = json.loads(path.read_text())
        levels = tuple(
            Level(str(row["name"]), float(row["capacity"] or inf), float(row["bandwidth"])) for row in data["levels"]
        )
        loaded = Machine(str(data["name"]), int(data["threads"]), float(data["peak"]), levels, float(data["nominal"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None
    sound = loaded.peak > 0 and loaded.levels and plausible(loaded)
    return loaded if sound and loaded.memory.capacity == inf else None


def _save(path: Path, measured: Machine) -> None:
    data = dataclasses.asdict(measured)
    for row in data["levels"]:
        row["capacity"] = 0 if row["capacity"] == inf else row["capacity"]
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, partial = tempfile.mkstemp(dir=path.parent, prefix=".", suffix=".tmp")
        with os.fdopen(handle, "w") as file:
            json.dump(data, file, indent=1)
        os.replace(partial, path)
