"""Measure on the workers of a farm: the user's side is `RemoteRunner`, and `measured` and `in_network` run on a board.

A request is complete: it contains the artifacts to run and the artifact of the untuned program. The worker keeps the
results of the untuned program under the artifact's hash. So any worker of the target can do any request, and if a
worker dies, its request goes to another.
"""

from __future__ import annotations

import atexit
import hashlib
import itertools
import json
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from ..records.record import OK
from .farm.client import Farm
from .farm.message import packed, unpacked
from .farm.worker import worker_key
from .measure import Asked, AskedInNetwork, Limits, Measured, MeasuredInNetwork, Measuring, Runner, request_of

_FUNCTION = f"{__name__}:measured"
_IN_NETWORK = f"{__name__}:in_network"
_numbers = itertools.count()


class RemoteRunner(Measuring):
    """Measures on a farm, as many candidates at once as there are workers; it owns the farm.

    It never writes the file `expected`; the path is only a name for the results to compare with.
    """

    def __init__(self, farm: Farm, limits: Limits | None = None) -> None:
        super().__init__(limits, farm.key)
        self.farm = farm
        self._references: dict[Path, Path] = {}  # the untuned program whose results an `expected` stands for

    def close(self) -> None:
        """Disconnect from the farm and remove the folder."""
        self.farm.close()
        super().close()

    @property
    def width(self) -> int:
        """The number of measurements that run at once: the current number of workers for the target."""
        return max(1, len(self.farm.workers()))

    def each(self, asked: Iterable[Asked]) -> Iterator[tuple[int, Measured]]:
        """Make measurements as `Measuring.each` does. All run at once, and the one that ends first comes first."""
        every = list(asked)
        for number, reply in self.farm.run(_FUNCTION, [self._argument(one) for one in every]):
            yield number, every[number].answered(json.loads(reply))

    def in_network(self, asked: AskedInNetwork) -> MeasuredInNetwork:
        """Run builds of a network in turn, on one of the workers."""
        argument = packed(asked.request, [path.read_bytes() for path in asked.artifacts])
        ((_, reply),) = self.farm.run(_IN_NETWORK, [argument])
        return MeasuredInNetwork.from_reply(json.loads(reply))

    def _argument(self, asked: Asked) -> bytes:
        reference = self._references.setdefault(asked.expected, asked.artifacts[0])
        blobs = [path.read_bytes() for path in (reference, *asked.artifacts)]
        return packed(request_of(asked, self.limits), blobs)


def measured(argument: bytes) -> bytes:
    """Do a measurement on a worker, in a process that the worker's runner forks."""
    request, (reference, *artifacts) = unpacked(argument)
    runner = _runner()
    runner.key = worker_key()
    expected = runner.folder / f"{hashlib.sha256(reference).hexdigest()}.npz"
    if not expected.exists() and artifacts != [reference]:
        once = {**request, "hopeless": 0.0, "runs": 1, "least": 1, "seconds": 0.0}
        reply = _in_runner(runner, once, [reference], expected)
        if reply["outcome"] != OK:
            return json.dumps(reply).encode()
    return json.dumps(_in_runner(runner, request, artifacts, expected)).encode()


def in_network(argument: bytes) -> bytes:
    """Run builds of a network in turn on a worker, in a process that the worker's runner forks."""
    request, artifacts = unpacked(argument)
    runner = _runner()
    runner.key = worker_key()
    return json.dumps(_in_runner(runner, request, artifacts, runner.folder / "unused")).encode()


def _in_runner(
    runner: Runner, request: dict[str, object], artifacts: Sequence[bytes], expected: Path
) -> dict[str, Any]:
    paths = [runner.folder / f"{next(_numbers)}.mtvm" for _ in artifacts]
    try:
        for path, data in zip(paths, artifacts, strict=True):
            path.write_bytes(data)
        return runner.ask(request, paths, expected)
    finally:
        for path in paths:
            path.unlink(missing_ok=True)


@cache
def _runner() -> Runner:
    """Return this worker's runner. It outlives the requests, and so does its folder with the results of untuned
    programs.
    """
    runner = Runner()
    atexit.register(runner.close)
    return runner
