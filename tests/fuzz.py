"""`make fuzz`: the property tests again and again, deeply and each time with a new seed, for FUZZ_MINUTES.

Stops at the first failure. Hypothesis has then shrunk it to a few lines and keeps it in .hypothesis, so that running
that test alone replays it; the seed of the round is printed too.

`make fuzz WORKERS=tcp://host:8786 [FARM_KEY=FILE]` does it on all workers of a farm (`minitvm worker`, started in
checkouts of this version), each with seeds of its own. What they find comes back as files in fuzz-found.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests import fuzz_found  # noqa: E402

FAILED, NO_TESTS = 1, 5  # pytest's exit statuses
REMOTE = "tests.fuzz:remote_round"
GRACE = 60  # seconds in which an interrupted round tells what has failed in it


class Round(NamedTuple):
    """One run of the property tests: pytest's exit status (None: the time was over before anything failed), and what
    failed."""

    status: int | None
    found: str


def run_round(seed: int, seconds: float, selection: list[str]) -> Round:
    """Run the property tests once, for so many seconds at most."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-n", "2", "-m", "hypothesis and not gpu"]
    command += [f"--hypothesis-seed={seed}", *selection]
    # In another order each time: a round may be longer than the time that there is.
    environment = {"HYPOTHESIS_PROFILE": "deep", "MINITVM_TEST_ORDER": str(seed), **os.environ}
    with tempfile.TemporaryDirectory() as folder:
        found = Path(folder) / "found.txt"
        environment[fuzz_found.FILE] = str(found)
        # A session of its own, so that the workers of pytest-xdist are stopped with it.
        process = subprocess.Popen(
            [*command, "-p", fuzz_found.__name__], cwd=ROOT, env=environment, start_new_session=True
        )
        try:
            status = process.wait(timeout=seconds)
            return Round(status, fuzz_found.read(found))
        except subprocess.TimeoutExpired:
            # What one worker has found waits for the other to end its test: it is told now.
            process.send_signal(signal.SIGINT)
            try:
                process.wait(timeout=GRACE)
            except subprocess.TimeoutExpired:
                print(fuzz_found.read(found))
            return Round(FAILED if fuzz_found.read(found) else None, fuzz_found.read(found))
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


# -- on the workers of a farm -----------------------------------------------------------------------------------------


def remote_round(argument: bytes) -> bytes:
    """On a worker: a round, as bytes there and back."""
    from minitvm.tune.farm.message import packed, unpacked

    asked, _ = unpacked(argument)
    done = run_round(asked["seed"], asked["seconds"], asked["selection"])
    return packed({"status": done.status, "host": socket.gethostname()}, [done.found.encode()])


def on_workers(address: str, seconds: float, selection: list[str], folder: Path = ROOT / "fuzz-found") -> int:
    """Rounds on all workers of a farm, for so many seconds; a worker with a finding goes on. Returns an exit status."""
    from minitvm.errors import MinitvmError
    from minitvm.tune.farm.client import Farm
    from minitvm.tune.farm.message import packed, unpacked

    end = time.monotonic() + seconds
    rounds, files = [], []

    def one_worker(farm: Farm) -> None:
        while (left := end - time.monotonic()) > 1:
            seed = secrets.randbelow(2**32)
            argument = packed({"seed": seed, "seconds": left, "selection": selection})
            ((_, reply),) = farm.run(REMOTE, [argument])
            done, (found,) = unpacked(reply)
            if done["status"] == NO_TESTS:
                raise MinitvmError("no property tests are selected")
            rounds.append(seed)
            if done["status"] and done["status"] != NO_TESTS:
                folder.mkdir(exist_ok=True)
                file = folder / f"{seed}.txt"
                file.write_text(f"on {done['host']}, again with: --hypothesis-seed={seed}\n\n{found.decode()}")
                files.append(file)
                print(f"found on {done['host']}: {file}", flush=True)

    try:
        with Farm(address, key=os.environ.get("FARM_KEY") or None) as farm:
            number = len(farm.workers())
            print(f"{number} workers at {address}, {seconds / 60:.3g} minutes", flush=True)
            with ThreadPoolExecutor(number) as threads:
                for worker in [threads.submit(one_worker, farm) for _ in range(number)]:
                    worker.result()
    except MinitvmError as error:
        print(error, file=sys.stderr)
        return 2
    print(f"{len(files)} findings in {seconds / 60:g} minutes, {len(rounds)} rounds")
    return FAILED if files else 0


def main(selection: list[str]) -> int:
    """Fuzz the tests that `selection` (pytest's arguments; all of them if empty) picks. Returns an exit status."""
    try:
        minutes = float(os.environ.get("FUZZ_MINUTES", "10"))
    except ValueError:
        print(f"FUZZ_MINUTES must be a number, and is {os.environ['FUZZ_MINUTES']!r}", file=sys.stderr)
        return 2
    if address := os.environ.get("WORKERS"):
        return on_workers(address, 60 * minutes, selection)
    end = time.monotonic() + 60 * minutes
    rounds = 0
    while (left := end - time.monotonic()) > 0:
        seed = secrets.randbelow(2**32)
        print(f"round {rounds + 1}, seed {seed}, {left / 60:.1f} minutes left", flush=True)
        status = run_round(seed, left, selection).status
        if status == NO_TESTS:
            print("no property tests are selected", file=sys.stderr)
            return 2
        if status:
            print(f"round {rounds + 1} failed; again with: --hypothesis-seed={seed}", file=sys.stderr)
            return status
        rounds += status is not None
    print(f"nothing found in {minutes:g} minutes, {rounds} whole rounds")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
