"""Measurements on the workers of a farm: `RemoteRunner` at the user, `measured` on a board.

A request has all that it needs: the artifacts to run, and that of the untuned program, whose results a worker keeps
under the artifact's hash. So any worker of the target can do any request, and one that was lost with its worker is sent
to another.
"""

from __future__ import annotations

import atexit
import hashlib
import itertools
import json
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Self

from ..farm.client import Farm
from ..farm.message import packed, unpacked
from ..farm.worker import worker_key
from ..records.record import OK
from .measure import RUNS, Asked, Limits, Measured, Runner, request_of
from .task import Task

_FUNCTION = f"{__name__}:measured"
_numbers = itertools.count()


class RemoteRunner:
    """A `measure.Runner` that measures on a farm, as many candidates at once as there are workers; it owns the farm."""

    def __init__(self, farm: Farm, limits: Limits | None = None) -> None:
        self.farm, self.limits, self.key = farm, limits or Limits(), farm.key
        self._folder = tempfile.TemporaryDirectory(prefix="minitvm-tune-")
        self.folder = Path(self._folder.name)
        self._references: dict[Path, Path] = {}  # the untuned program whose results an `expected` stands for

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.farm.close()
        self._folder.cleanup()

    @property
    def width(self) -> int:
        """How many measurements run at once: the workers of the target, at the moment."""
        return max(1, len(self.farm.workers()))

    def run(
        self,
        task: Task,
        artifacts: Sequence[Path],
        expected: Path,
        hopeless: float = 0.0,
        runs: int = RUNS,
        seconds: float | None = None,
    ) -> Measured:
        """As `Runner.run`; nothing is written to `expected`, which only names what results are compared with."""
        ((_, answer),) = self.each([Asked(task, artifacts, expected, hopeless, runs, seconds)])
        return answer

    def each(self, asked: Iterable[Asked]) -> Iterator[tuple[int, Measured]]:
        """As `Runner.each`; all run at once, and the one that ends first comes first."""
        arguments = [self._argument(one) for one in asked]
        for number, reply in self.farm.run(_FUNCTION, arguments):
            yield number, Measured.from_reply(json.loads(reply))

    def _argument(self, asked: Asked) -> bytes:
        reference = self._references.setdefault(asked.expected, asked.artifacts[0])
        blobs = [path.read_bytes() for path in (reference, *asked.artifacts)]
        return packed(request_of(asked, self.limits), blobs)


def measured(argument: bytes) -> bytes:
    """On a worker: measure, in a process that the worker's runner forks."""
    request, (reference, *artifacts) = unpacked(argument)
    runner = _runner()
    runner.key = worker_key()
    expected = runner.folder / f"{hashlib.sha256(reference).hexdigest()}.npz"
    if not expected.exists() and artifacts != [reference]:
        once = {**request, "hopeless": 0.0, "runs": 1, "least": 1, "seconds": 0.0}
        reply = _in_runner(runner, once, [reference], expected)
        if reply.outcome != OK:
            return _json(reply)
    return _json(_in_runner(runner, request, artifacts, expected))


def _in_runner(runner: Runner, request: dict[str, object], artifacts: Sequence[bytes], expected: Path) -> Measured:
    paths = [runner.folder / f"{next(_numbers)}.mtvm" for _ in artifacts]
    try:
        for path, data in zip(paths, artifacts, strict=True):
            path.write_bytes(data)
        return runner.ask(request, paths, expected)
    finally:
        for path in paths:
            path.unlink(missing_ok=True)


def _json(answer: Measured) -> bytes:
    return json.dumps({"outcome": answer.outcome, "seconds": answer.seconds, "message": answer.message}).encode()


@cache
def _runner() -> Runner:
    """This worker's; it outlives the requests, as its folder with the results of untuned programs does."""
    runner = Runner()
    atexit.register(runner.close)
    return runner
