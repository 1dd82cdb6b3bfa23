"""`make fuzz`: the property tests again and again, deeply and each time with a new seed, for FUZZ_MINUTES.

Stops at the first failure. Hypothesis has then shrunk it to a few lines and keeps it in .hypothesis, so that running
that test alone replays it; the seed of the round is printed too.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests import fuzz_found  # noqa: E402

FAILED, NO_TESTS = 1, 5  # pytest's exit statuses
GRACE = 60  # seconds in which an interrupted round tells what has failed in it


def run_round(seed: int, seconds: float, selection: list[str]) -> int | None:
    """One run of the property tests: pytest's exit status, or None if the time was over before anything failed."""
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
            return process.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            # What one worker has found waits for the other to end its test: it is told now.
            process.send_signal(signal.SIGINT)
            try:
                process.wait(timeout=GRACE)
            except subprocess.TimeoutExpired:
                print(fuzz_found.read(found))
            return FAILED if fuzz_found.read(found) else None
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def main(selection: list[str]) -> int:
    """Fuzz the tests that `selection` (pytest's arguments; all of them if empty) picks. Returns an exit status."""
    try:
        minutes = float(os.environ.get("FUZZ_MINUTES", "10"))
    except ValueError:
        print(f"FUZZ_MINUTES must be a number, and is {os.environ['FUZZ_MINUTES']!r}", file=sys.stderr)
        return 2
    end = time.monotonic() + 60 * minutes
    rounds = 0
    while (left := end - time.monotonic()) > 0:
        seed = secrets.randbelow(2**32)
        print(f"round {rounds + 1}, seed {seed}, {left / 60:.1f} minutes left", flush=True)
        status = run_round(seed, left, selection)
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
