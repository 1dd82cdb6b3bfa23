"""Seconds of candidates, from the runner: a process of its own that outlives crashes of what it runs."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

from ..backend import lookup
from ..errors import TargetError
from ..expr import find, walk
from ..records.record import CRASHED, HUNG, OK
from ..scratch import Scratch
from ..strategy.blocks import blocks_of
from ..target import Target
from ..tir.nodes import Buffer, BufferLoad, BufferStore, For, PrimFunc
from ..workers.process import read_message, write_message
from .task import Task

LATE = "late"  # the outcome of what there was no time for: nothing is known of it
RUNS, LEAST = 30, 5  # timed runs of a candidate: at most if they repeat themselves, and at least in spite of the time
OPENING = 120.0  # seconds for a device to be opened
NETWORK = 300.0  # seconds for two builds of a network to be loaded and run in turn
SPARE = 1.0  # seconds that what began before the end of the budget may take after it
_ROOT = str(Path(__file__).resolve().parents[2])


@dataclass(frozen=True, slots=True)
class Limits:
    """What a measurement may take: `seconds` of timed runs, `hang` after which it has hung, bytes of the host's memory.

    A driver reserves more addresses than there is memory, so that these bytes are no limit where a device is opened.
    """

    seconds: float = 0.1
    hang: float = 20.0
    memory: int = 8 << 30


@dataclass(frozen=True, slots=True)
class Measured:
    """What came of running: an outcome of `records.record` or LATE, seconds of each run of each artifact, a message."""

    outcome: str
    seconds: tuple[tuple[float, ...], ...] = ()
    message: str = ""

    @staticmethod
    def from_reply(reply: Mapping[str, Any]) -> Measured:
        """From the reply of the program `runner`."""
        return Measured(reply["outcome"], tuple(map(tuple, reply["seconds"])), reply["message"])


@dataclass(frozen=True, slots=True)
class Asked:
    """A measurement to make; the fields are the arguments of `Measuring.run`.

    One that has no result soon after the moment `end` of `time.monotonic` is LATE.
    """

    task: Task
    artifacts: Sequence[Path]
    expected: Path
    hopeless: float = 0.0
    runs: int = RUNS
    seconds: float | None = None
    end: float = float("inf")

    def answered(self, reply: Mapping[str, Any]) -> Measured:
        """What the reply to the request says: what had not ended when the time was over did not hang."""
        measured = Measured.from_reply(reply)
        return replace(measured, outcome=LATE) if measured.outcome == HUNG and time.monotonic() > self.end else measured


@dataclass(frozen=True, slots=True)
class AskedInNetwork:
    """Builds of a network to run in turn, on a `device` (as `Task.device`); `operators` has for each build the group of
    each operator whose seconds are wanted."""

    artifacts: Sequence[Path]
    operators: Sequence[Mapping[str, str]]
    device: str = ""

    @property
    def request(self) -> dict[str, Any]:
        """What the program `runner` is asked, without paths and key."""
        return {"operators": list(map(dict, self.operators)), "device": self.device, "limit": NETWORK, "memory": 0}


@dataclass(frozen=True, slots=True)
class MeasuredInNetwork:
    """What came of running builds of a network: an outcome as `Measured` has it, for each build the seconds of each run
    by group ("" is the whole), a message."""

    outcome: str
    groups: tuple[Mapping[str, Sequence[float]], ...] = ()
    message: str = ""

    @staticmethod
    def from_reply(reply: Mapping[str, Any]) -> MeasuredInNetwork:
        """From the reply of the program `runner`."""
        return MeasuredInNetwork(reply["outcome"], tuple(reply.get("groups", ())), reply["message"])


class Measuring(ABC):
    """Who measures: a `Runner` on this machine, a `remote.RemoteRunner` on others.

    `key` signs what it runs, `folder` is for artifacts and results.
    """

    def __init__(self, limits: Limits | None, key: bytes) -> None:
        self.limits, self.key = limits or Limits(), key
        self._folder = Scratch("minitvm-tune-")
        self.folder = self._folder.path

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Remove the folder."""
        self._folder.close()

    @property
    @abstractmethod
    def width(self) -> int:
        """How many measurements run at once."""

    def architectures(self, target: Target) -> Sequence[str]:  # noqa: ARG002
        """The architectures of the devices that run candidates for a target, where they are known and have names."""
        return ()

    @abstractmethod
    def each(self, asked: Iterable[Asked]) -> Iterator[tuple[int, Measured]]:
        """Make some measurements; yields the number of each and its result."""

    @abstractmethod
    def in_network(self, asked: AskedInNetwork) -> MeasuredInNetwork:
        """Run builds of a network in turn."""

    def run(
        self,
        task: Task,
        artifacts: Sequence[Path],
        expected: Path,
        hopeless: float = 0.0,
        runs: int = RUNS,
        seconds: float | None = None,
        end: float = float("inf"),
    ) -> Measured:
        """Run one artifact, or two in turn, and compare their results with `expected`; the first run of all writes it.

        One that takes `hopeless` times as long as the one beside it is given up after the least runs.
        """
        ((_, answer),) = self.each([Asked(task, artifacts, expected, hopeless, runs, seconds, end)])
        return answer


class Runner(Measuring):
    """The process; started when it is first asked, and again after it ended."""

    def __init__(self, limits: Limits | None = None) -> None:
        super().__init__(limits, secrets.token_bytes(32))
        self._process: subprocess.Popen[bytes] | None = None
        self._devices: dict[str, Sequence[str]] = {}  # the architectures of those that were opened, by kind

    @property
    def width(self) -> int:
        """How many measurements run at once: two would disturb each other."""
        return 1

    def architectures(self, target: Target) -> Sequence[str]:
        """The architecture of this machine's device; raises `TargetError` where there is none."""
        if lookup(target, "opened") is None:
            return ()
        if target.kind not in self._devices:
            reply = self._ask({"open": target.kind, "device": target.kind, "limit": OPENING, "memory": 0})
            if reply["outcome"] != OK:
                raise TargetError(f"nothing can be measured for {target.kind}: {reply['message']}")
            self._devices[target.kind] = reply["architectures"]
        return self._devices[target.kind]

    def close(self) -> None:
        """End the process and remove the folder."""
        self._stop()
        super().close()

    def each(self, asked: Iterable[Asked]) -> Iterator[tuple[int, Measured]]:
        """Measure one after the other; yields the number of each and its result. `asked` is read as measuring goes."""
        for number, one in enumerate(asked):
            yield number, one.answered(self.ask(request_of(one, self.limits), one.artifacts, one.expected))

    def in_network(self, asked: AskedInNetwork) -> MeasuredInNetwork:
        """Run builds of a network in turn, in a process of their own."""
        return MeasuredInNetwork.from_reply(self.ask(asked.request, asked.artifacts, self.folder / "unused"))

    def ask(self, request: Mapping[str, Any], artifacts: Sequence[Path], expected: Path) -> dict[str, Any]:
        """The reply to a request of `request_of`."""
        paths = {
            "artifacts": [str(path) for path in artifacts], "key": self.key.hex(), "results": str(expected),
            "expected": str(expected) if expected.exists() else "",
        }  # fmt: skip
        return self._ask({**request, **paths})

    def _ask(self, request: dict[str, Any]) -> dict[str, Any]:
        process = self._started()
        assert process.stdin is not None and process.stdout is not None
        try:
            write_message(process.stdin, json.dumps(request).encode())  # type: ignore[arg-type]
            reply = read_message(process.stdout)  # type: ignore[arg-type]
        except OSError:
            reply = None
        except BaseException:  # Ctrl-C: a reply would be taken for the next one's
            self._stop()
            raise
        if reply is None:
            status = process.poll()
            self._stop()
            return {"outcome": CRASHED, "seconds": [], "message": f"the runner ended (exit status {status})"}
        answer: dict[str, Any] = json.loads(reply)
        return answer

    def _started(self) -> subprocess.Popen[bytes]:
        if self._process is None or self._process.poll() is not None:
            self._stop()
            path = os.pathsep.join([_ROOT, *(p or os.getcwd() for p in sys.path)])
            self._process = subprocess.Popen(
                [sys.executable, "-m", "minitvm.tune.runner"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                start_new_session=True,
                env={**os.environ, "PYTHONPATH": path, "OPENBLAS_NUM_THREADS": "1"},
            )
        return self._process

    def _stop(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
        process.wait()


def request_of(asked: Asked, limits: Limits) -> dict[str, Any]:
    """What the program `runner` is asked, without paths and key: it may run on another machine."""
    return {
        "zeros": indices(asked.task.func), "kept": kept(asked.task), "runs": asked.runs, "least": LEAST,
        "hopeless": asked.hopeless,
        "seconds": limits.seconds if asked.seconds is None else asked.seconds, "between": apart_bytes(asked.task),
        "limit": min(limits.hang, max(0.0, asked.end - time.monotonic()) + SPARE),
        "memory": 0 if asked.task.device else limits.memory, "device": asked.task.device,
    }  # fmt: skip


def apart_bytes(task: Task) -> int:
    """Bytes that a run touches before it sees the same arguments again: those of the caches near to the cores."""
    return int(getattr(task.target.description, "near_bytes", 0))


def kept(task: Task) -> list[int]:
    """The positions of the parameters that are the same in each run.

    What an operator of a network reads was written just before, and its result lies where others were; its constants
    were used in the run of the network before.
    """
    return [p for p in range(len(task.func.params)) if p not in task.constants] if task.operators else []


def caches(task: Task) -> str:
    """Where a run finds its arguments, for the record."""
    nbytes = apart_bytes(task)
    what = "constants" if task.operators else "arguments"
    return f"{what} are used again after {nbytes >> 10} KiB of others" if nbytes else "warm"


def indices(func: PrimFunc) -> list[int]:
    """The positions of the parameters whose elements index others, or decide how often a loop runs."""
    deciding: set[Buffer] = set()
    for block in blocks_of(func):
        deciding |= _loaded(axis.dom.extent for axis in block.iter_vars)
    for node in walk(func.body):
        if isinstance(node, BufferLoad | BufferStore):
            deciding |= _loaded(node.indices)
        elif isinstance(node, For):
            deciding |= _loaded((node.start, node.extent))
    return [position for position, param in enumerate(func.params) if param in deciding]


def _loaded(expressions: Iterable[Any]) -> set[Buffer]:
    return {n.buffer for e in expressions for n in find(e, BufferLoad)}


__all__ = [
    "OK", "Asked", "AskedInNetwork", "Limits", "Measured", "MeasuredInNetwork", "Runner", "apart_bytes", "caches",
    "indices", "request_of",
]  # fmt: skip
