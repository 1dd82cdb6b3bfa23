"""Measurements on the workers of a farm: `RemoteRunner` at the user, `measured` and `in_network` on a board.

A request has all that it needs: the artifacts to run, and that of the untuned program, whose results a worker keeps
under the artifact's hash. So any worker of the target can do any request, and one that was lost with its worker is sent
to another.
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

    Nothing is written to `expected`, which only names what results are compared with.
    """

    def __init__(self, farm: Farm, limits: Limits | None = None) -> None:
        super().__init__(limits, farm.key)
        self.farm = farm
        self._references: dict[Path, Path] = {}  # the untuned program whose results an `expected` stands for

    def close(self) -> None:
        """Leave the farm and remove the folder."""
        self.farm.close()
        super().close()

    @property
    def width(self) -> int:
        """How many measurements run at once: the workers of the target, at the moment."""
        return max(1, len(self.farm.workers()))

    def each(self, asked: Iterable[Asked]) -> Iterator[tuple[int, Measured]]:
        """As `Measuring.each`; all run at once, and the one that ends first comes first."""
        every = list(asked)
        for number, reply in self.farm.run(_FUNCTION, [self._argument(one) for one in every]):
            yield number, every[number].answered(json.loads(reply))

    def in_network(self, asked: AskedInNetwork) -> MeasuredInNetwork:
        """As `Measuring.in_network`, on one of the workers."""
        argument = packed(asked.request, [path.read_bytes() for path in asked.artifacts])
        ((_, reply),) = self.farm.run(_IN_NETWORK, [argument])
        return MeasuredInNetwork.from_reply(json.loads(reply))

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
        if reply["outcome"] != OK:
            return json.dumps(reply).encode()
    return json.dumps(_in_runner(runner, request, artifacts, expected)).encode()


def in_network(argument: bytes) -> bytes:
    """On a worker: run builds of a network in turn, in a process that the worker's runner forks."""
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
    """This worker's; it outlives the requests, as its folder with the results of untuned programs does."""
    runner = Runner()
    atexit.register(runner.close)
    return runner
