"""Measure candidates with the runner: a separate process that survives crashes of the programs it runs."""

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
    """The limits of a measurement: `seconds` of timed runs, the seconds `hang` after which it counts as hung, and bytes
    of host memory.

    A driver reserves more addresses than there is memory, so the memory limit does not apply if a device is opened.
    """

    seconds: float = 0.1
    hang: float = 20.0
    memory: int = 8 << 30


@dataclass(frozen=True, slots=True)
class Measured:
    """The result of a measurement: an outcome of `records.record` or LATE, the seconds of each run of each artifact,
    and a message.
    """

    outcome: str
    seconds: tuple[tuple[float, ...], ...] = ()
    message: str = ""

    @staticmethod
    def from_reply(reply: Mapping[str, Any]) -> Measured:
        """Return the result that a reply of the program `runner` contains."""
        return Measured(reply["outcome"], tuple(map(tuple, reply["seconds"])), reply["message"])


@dataclass(frozen=True, slots=True)
class Asked:
    """A measurement to make; the fields are the arguments of `Measuring.run`.

    It is LATE if it has no result soon after the time `end` (of `time.monotonic`).
    """

    task: Task
    artifacts: Sequence[Path]
    expected: Path
    hopeless: float = 0.0
    runs: int = RUNS
    seconds: float | None = None
    end: float = float("inf")

    def answered(self, reply: Mapping[str, Any]) -> Measured:
        """Return the result in a reply. A measurement that was cut off because `end` passed counts as LATE, not as
        HUNG.
        """
        measured = Measured.from_reply(reply)
        return replace(measured, outcome=LATE) if measured.outcome == HUNG and time.monotonic() > self.end else measured


@dataclass(frozen=True, slots=True)
class AskedInNetwork:
    """Builds of a network to run in turn, on a `device` (as in `Task.device`). For each build, `operators` gives the
    group of each operator to be timed.
    """

    artifacts: Sequence[Path]
    operators: Sequence[Mapping[str, str]]
    device: str = ""

    @property
    def request(self) -> dict[str, Any]:
        """The request to the program `runner`, without the paths and the key."""
        return {"operators": list(map(dict, self.operators)), "device": self.device, "limit": NETWORK, "memory": 0}


@dataclass(frozen=True, slots=True)
class MeasuredInNetwork:
    """The result of running builds of a network: an outcome as in `Measured`, the seconds of each run of each build by
    group ("" is the whole network), and a message.
    """

    outcome: str
    groups: tuple[Mapping[str, Sequence[float]], ...] = ()
    message: str = ""

    @staticmethod
    def from_reply(reply: Mapping[str, Any]) -> MeasuredInNetwork:
        """Return the result that a reply of the program `runner` contains."""
        return MeasuredInNetwork(reply["outcome"], tuple(reply.get("groups", ())), reply["message"])


class Measuring(ABC):
    """Runs measurements: a `Runner` on this machine, a `remote.RemoteRunner` on other machines.

    `key` signs the artifacts, and `folder` holds artifacts and results.
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
        """The number of measurements that run at once."""

    def architectures(self, target: Target) -> Sequence[str]:  # noqa: ARG002
        """Return the architectures of the devices that run candidates for a target; empty if they are unknown or have
        no names.
        """
        return ()

    @abstractmethod
    def each(self, asked: Iterable[Asked]) -> Iterator[tuple[int, Measured]]:
        """Make some measurements; yield the number of each and its result."""

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
        """Run one artifact, or two in turn, and compare their results with `expected`; if that file is missing, write
        it.

        If an artifact takes `hopeless` times as long as the other one, it is given up after the least number of runs.
        """
        ((_, answer),) = self.each([Asked(task, artifacts, expected, hopeless, runs, seconds, end)])
        return answer


class Runner(Measuring):
    """Measures on this machine, in a process that is started on first use, and again after it ended."""

    def __init__(self, limits: Limits | None = None) -> None:
        super().__init__(limits, secrets.token_bytes(32))
        self._process: subprocess.Popen[bytes] | None = None
        self._devices: dict[str, Sequence[str]] = {}  # the architectures of those that were opened, by kind

    @property
    def width(self) -> int:
        """The number of measurements that run at once: one, because two would disturb each other."""
        return 1

    def architectures(self, target: Target) -> Sequence[str]:
        """Return the architecture of this machine's device; raises `TargetError` if there is no such device, or if
        this machine cannot run the target's code.
        """
        if lookup(target, "opened") is None:
            require_runnable = lookup(target, "require_runnable")
            if require_runnable is not None:
                require_runnable(target)
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
        """Measure one after the other; yield the number of each and its result. `asked` is read lazily."""
        for number, one in enumerate(asked):
            yield number, one.answered(self.ask(request_of(one, self.limits), one.artifacts, one.expected))

    def in_network(self, asked: AskedInNetwork) -> MeasuredInNetwork:
        """Run builds of a network in turn, in a separate process."""
        return MeasuredInNetwork.from_reply(self.ask(asked.request, asked.artifacts, self.folder / "unused"))

    def ask(self, request: Mapping[str, Any], artifacts: Sequence[Path], expected: Path) -> dict[str, Any]:
        """Send a request made by `request_of`, with its artifacts, and return the reply."""
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
    """Return the request to the program `runner`, without the paths and the key: it may run on another machine."""
    return {
        "zeros": indices(asked.task.func), "kept": kept(asked.task), "runs": asked.runs, "least": LEAST,
        "hopeless": asked.hopeless,
        "seconds": limits.seconds if asked.seconds is None else asked.seconds, "between": apart_bytes(asked.task),
        "limit": min(limits.hang, max(0.0, asked.end - time.monotonic()) + SPARE),
        "memory": 0 if asked.task.device else limits.memory, "device": asked.task.device,
    }  # fmt: skip


def apart_bytes(task: Task) -> int:
    """Return how many other bytes a run should touch before it reuses an argument: the size of the caches near the
    cores.
    """
    return int(getattr(task.target.description, "near_bytes", 0))


def kept(task: Task) -> list[int]:
    """Return the positions of the parameters that get the same array in each run.

    In a network, the inputs of an operator were written shortly before, and its result goes to memory that held other
    values. Only its constants were last used in the previous run of the network.
    """
    return [p for p in range(len(task.func.params)) if p not in task.constants] if task.operators else []


def caches(task: Task) -> str:
    """Return a text for the record that says in which caches a run finds its arguments."""
    nbytes = apart_bytes(task)
    what = "constants" if task.operators else "arguments"
    return f"{what} are used again after {nbytes >> 10} KiB of others" if nbytes else "warm"


def indices(func: PrimFunc) -> list[int]:
    """Return the positions of the parameters whose elements are used as indices, or decide how often a loop runs."""
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
