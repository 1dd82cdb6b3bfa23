"""A farm for tests: a scheduler and workers, each a process; and work for them that is easy to check."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from minitvm.tune.farm.message import packed, unpacked
from tests.patience import PATIENCE

ROOT = Path(__file__).resolve().parents[3]
SLOW = PATIENCE  # in which a process has to be ready


def echo(argument: bytes) -> bytes:
    """Work: the argument backwards, after the time that it names, and by whom."""
    seconds, _, text = argument.partition(b" ")
    time.sleep(float(seconds))
    return text[::-1] + b" " + str(os.getppid()).encode()


def found_or_not(argument: bytes) -> bytes:
    """Work: a round of fuzzing that finds something with odd seeds."""
    asked, _ = unpacked(argument)
    time.sleep(0.1)
    odd = asked["seed"] % 2
    return packed({"status": odd, "host": "board"}, [f"{asked['selection'][0]} failed".encode() * odd])


@dataclass
class Boards:
    """A scheduler at `address`, and its workers."""

    address: str
    key: Path
    options: Sequence[str] = ()
    scheduler: subprocess.Popen[bytes] | None = None
    workers: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def start_worker(self, *options: str, prefix: Sequence[str] = ()) -> subprocess.Popen[bytes]:
        """One more worker, connected."""
        command = [*prefix, sys.executable, "-m", "minitvm", "worker", self.address, "--key", str(self.key)]
        worker = subprocess.Popen(
            [*command, *self.options, *options], cwd=ROOT, stdout=subprocess.PIPE, start_new_session=True
        )
        self.workers.append(worker)
        assert worker.stdout is not None and worker.stdout.readline().startswith(b"ready: ")
        return worker

    def kill(self, worker: subprocess.Popen[bytes]) -> None:
        """Pull the plug: the nanny, the worker and what measures there, at once."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(worker.pid, signal.SIGKILL)
        worker.wait()
        if worker in self.workers:
            self.workers.remove(worker)
        if worker.stdout is not None:
            worker.stdout.close()


@contextlib.contextmanager
def boards(
    folder: Path, workers: int = 0, host: str = "127.0.0.1", protocol: str = "tcp", options: Sequence[str] = ()
) -> Iterator[Boards]:
    """A farm that is gone afterwards. `options` are those of TLS, for the scheduler and the workers."""
    key = folder / "farm.key"
    key.write_bytes(os.urandom(32))
    with socket.socket() as free:
        free.bind((host, 0))
        port = free.getsockname()[1]
    scheduler = subprocess.Popen(
        [sys.executable, "-m", "distributed.cli.dask_scheduler", "--host", host, "--port", str(port),
         "--protocol", protocol, "--no-dashboard", *options],
        stderr=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip
    farm = Boards(f"{protocol}://{host}:{port}", key, options, scheduler)
    try:
        _listens(host, port)
        for _ in range(workers):
            farm.start_worker()
        yield farm
    finally:
        for worker in list(farm.workers):
            farm.kill(worker)
        farm.kill(scheduler)


def _listens(host: str, port: int) -> None:
    end = time.monotonic() + SLOW
    while time.monotonic() < end:
        with contextlib.suppress(OSError), socket.create_connection((host, port), timeout=1):
            return
        time.sleep(0.05)
    raise TimeoutError(f"no scheduler at {host}:{port}")
