"""Temporary folders of processes that were killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from minitvm.scratch import Scratch

ROOT = Path(__file__).resolve().parent.parent
LIVES = """\
import sys
from minitvm.scratch import Scratch
folder = Scratch("mine-")
(folder.path / "result").write_text("half")
print(folder.path, flush=True)
sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return tmp_path


def test_the_folder_of_a_killed_process_is_removed_by_the_next_one(place: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", LIVES], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdin is not None and process.stdout is not None
    theirs = Path(process.stdout.readline().strip())
    with Scratch("mine-") as ours:
        assert theirs.is_dir() and ours.is_dir(), "its process is alive"
    assert not ours.exists()
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdin.close()
    process.stdout.close()
    assert (theirs / "result").is_file()
    other, without_lock, file = place / "other-a", place / "mine-new", place / "mine-file"
    other.mkdir()
    without_lock.mkdir()
    file.write_text("of somebody else")
    Scratch("mine-").close()
    assert not theirs.exists()
    assert other.is_dir() and file.is_file()
    assert without_lock.is_dir(), "its process is about to lock it"
    os.utime(without_lock, (0, 0))
    Scratch("mine-").close()
    assert not without_lock.exists()


def test_closing_twice(place: Path) -> None:
    folder = Scratch("mine-")
    folder.close()
    folder.close()
    assert not list(place.iterdir())
